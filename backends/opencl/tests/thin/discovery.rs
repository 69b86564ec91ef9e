//! Drivers and devices, or none.

use std::env;
use std::process::Command;
use std::sync::Arc;

use futures::executor::block_on;
use windlass_backend::{
    Backend, BackendError, ContextSpec, DeviceKey, DeviceKind, MemoryIndex, MemoryObject,
};
use windlass_kernel::ImageFormat;
use windlass_opencl::OpenCl;

use crate::rig::rigs;

/// Set in the process that `without_drivers_there_is_a_reason` starts.
const CHILD: &str = "WINDLASS_TEST_WITHOUT_DRIVERS";

#[test]
fn devices_say_what_they_can_do() {
    for rig in rigs() {
        let info = rig.context.info();
        let device = &info.devices[0];
        println!("{device:#?}");
        assert!(!device.name.is_empty() && !device.driver.is_empty());
        // Between the two stands what not all devices take: PTX and SPIR-V.
        let always = [ImageFormat::OpenClC, ImageFormat::Wgsl, ImageFormat::Builtin];
        assert!(device.formats.starts_with(&[ImageFormat::Binary]) && device.formats.ends_with(&always));
        assert_eq!(device.memory, MemoryIndex::Own(0));
        assert!(device.limits.allocation > 0 && Some(device.limits.allocation) <= device.memory_bytes);
        assert!(device.limits.bindings >= 8 && device.limits.work_group_items >= 1);
        assert!(device.aspects.is_sorted());
        assert!(!info.feeds_from_sink && info.allocate_blocks && info.cold_calls_block);
        let discrete = device.kind == DeviceKind::DiscreteGpu;
        assert_eq!(info.pageable_upload_limit < usize::MAX, discrete);
        assert_eq!(info.pageable_download_limit == 0, discrete);
    }
}

#[test]
fn discovery_repeats_itself() {
    // These complain if there is none.
    let devices = rigs().len();
    let names = || {
        let platforms = block_on(OpenCl::new().discover()).unwrap_or_default();
        platforms.into_iter().flat_map(|p| p.devices).map(|d| d.name).collect::<Vec<_>>()
    };
    let first = names();
    assert_eq!(first.is_empty(), devices == 0);
    assert_eq!(first, names());
}

#[test]
fn what_is_not_there_cannot_be_opened() {
    let spec = ContextSpec::new(vec![DeviceKey::new("no such device")], Arc::new(()));
    let opened = block_on(OpenCl::new().open(spec));
    assert!(matches!(opened, Err(BackendError::Lost(_) | BackendError::Unsupported(_))), "{opened:?}");
}

/// In a process of its own, since the loader reads its settings once.
#[test]
fn without_drivers_there_is_a_reason() {
    let itself = env::current_exe().expect("the test has a path");
    let child = Command::new(itself)
        .args(["--exact", "discovery::alone_without_drivers"])
        .env(CHILD, "1")
        .env("OCL_ICD_VENDORS", "no such folder/")
        .env("OCL_ICD_FILENAMES", "")
        .output()
        .expect("the test starts again");
    let said = String::from_utf8_lossy(&child.stdout);
    assert!(child.status.success() && said.contains("1 passed"), "{said}");
}

#[test]
fn alone_without_drivers() {
    if env::var_os(CHILD).is_none() {
        return;
    }
    let why = block_on(OpenCl::new().discover()).expect_err("no driver was left to find");
    assert!(!why.reason.is_empty() && !why.remedy.is_empty(), "{why}");
}

#[test]
fn too_much_memory_is_an_error() {
    for rig in rigs() {
        let bytes = usize::MAX;
        let refused = rig.context.allocate(MemoryIndex::Own(0), MemoryObject::Buffer { bytes });
        assert_eq!(refused.expect_err("no device has that much"), BackendError::OutOfMemory { bytes });
    }
}
