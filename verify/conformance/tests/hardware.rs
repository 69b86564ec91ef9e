//! One piece of hardware that several backends offer.

#[path = "drivers/find.rs"]
mod find;

use futures::executor::block_on;
use windlass::prelude::*;
use windlass::{Aspect, DeviceKind, Floats, Result};

fn of<'a>(devices: &'a [Device], backend: &'a str) -> impl Iterator<Item = &'a Device> {
    devices.iter().filter(move |device| device.backend().as_str() == backend)
}

/// Each of NVIDIA's GPUs is one card by OpenCL and by Vulkan, and its neighbours are others.
#[test]
fn a_gpu_by_opencl_and_by_vulkan_is_one() -> Result<()> {
    let runtime = Runtime::new();
    if find::nvidia(&runtime, "opencl").and(find::nvidia(&runtime, "wgpu")).is_none() {
        return Ok(());
    }
    let devices = block_on(runtime.devices())?;
    let of_nvidia = |device: &&Device| device.kind().is_gpu() && device.name().contains("NVIDIA");
    let by_vulkan: Vec<&Device> = of(&devices, "wgpu").filter(of_nvidia).collect();
    for gpu in of(&devices, "opencl").filter(of_nvidia) {
        let mut same = by_vulkan.iter().filter(|other| other.is_same_hardware(gpu));
        let (one, none) = (same.next().expect("Vulkan has it, too"), same.next());
        assert!(none.is_none(), "{gpu} is {one} and {none:?}");
        let [this, that] = [gpu, one].map(Device::info);
        eprintln!(
            "{gpu} is {one}: {:?} {:?}, {:?} {:?}",
            this.physical_id, that.physical_id, this.pci, that.pci
        );
        assert!(this.physical_id.is_some() && this.physical_id == that.physical_id);
        assert!(this.pci.is_some() && this.pci == that.pci);
    }
    Ok(())
}

/// What drivers tell of the hardware is what is known of it.
#[test]
fn devices_tell_of_their_hardware() -> Result<()> {
    let runtime = Runtime::new();
    let host = Device::host();
    let told = &host.info().details;
    assert_eq!((told.address_bits, told.subgroup_sizes.as_slice()), (Some(usize::BITS), &[1][..]));
    assert_eq!(told.floats[1], Some(Floats::IEEE));
    if let Some(device) = find::opencl(&runtime) {
        let told = &device.info().details;
        eprintln!("{device}: {told:?}");
        assert!(told.vendor_id.is_some() && told.clock_mhz.is_some() && told.alignment.is_some(), "{told:?}");
        assert_eq!(told.address_bits, Some(usize::BITS), "{device}");
        assert!(told.work_group_extent.is_some() && told.vector_widths.is_some(), "{device}: {told:?}");
        assert!(told.floats[1].is_some_and(|single| single.infinities), "{device}: {told:?}");
        if device.kind() == DeviceKind::Cpu {
            assert!(told.cache.is_some() && told.has_local_memory == Some(false), "{device}: {told:?}");
        }
    }
    if let Some(device) = find::wgpu(&runtime) {
        let told = &device.info().details;
        eprintln!("{device}: {told:?}");
        assert!(told.vendor_id.is_some() && told.work_group_extent.is_some(), "{device}: {told:?}");
        assert_eq!(told.subgroup_sizes.is_empty(), !device.has(Aspect::Subgroups), "{device}: {told:?}");
    }
    Ok(())
}

/// One card tells the same by either driver.
#[test]
fn a_gpu_tells_the_same_by_both() -> Result<()> {
    let runtime = Runtime::new();
    if find::nvidia(&runtime, "opencl").and(find::nvidia(&runtime, "wgpu")).is_none() {
        return Ok(());
    }
    let devices = block_on(runtime.devices())?;
    for gpu in of(&devices, "opencl").filter(|device| device.kind().is_gpu()) {
        let told = &gpu.info().details;
        assert_eq!((told.vendor_id, told.subgroup_sizes.as_slice()), (Some(0x10de), &[32][..]), "{gpu}");
        for same in of(&devices, "wgpu").filter(|other| other.is_same_hardware(gpu)) {
            let other = &same.info().details;
            assert_eq!(other.vendor_id, told.vendor_id, "{same}");
            assert_eq!(other.subgroup_sizes, told.subgroup_sizes, "{same}");
            assert_eq!(other.work_group_extent, told.work_group_extent, "{same}");
        }
    }
    Ok(())
}

/// Drivers that run on processors say nothing of the hardware that others say as well: each device is itself.
#[test]
fn nothing_is_made_up_for_processors() -> Result<()> {
    let runtime = Runtime::new();
    if find::wgpu(&runtime).and(find::opencl(&runtime)).is_none() {
        return Ok(());
    }
    let mut devices = block_on(runtime.devices())?;
    devices.retain(|device| !device.kind().is_gpu());
    for (at, device) in devices.iter().enumerate() {
        assert_eq!(device.info().pci, None, "{device}");
        let same = devices.iter().filter(|other| other.is_same_hardware(device));
        assert!(same.eq([device]), "{at}: {device}");
    }
    assert!(of(&devices, "wgpu").all(|device| device.info().physical_id.is_none()));
    Ok(())
}
