//! Each program on every device that is here. Where a driver is missing this says so, and in CI it is a failure.

use windlass::{Device, Queue, Runtime};
use windlass_kernel_examples::PROGRAMS;

#[test]
fn every_program_is_right_on_every_device() {
    let devices: Vec<Device> =
        futures_lite::future::block_on(Runtime::new().devices()).expect("devices are listed");
    for backend in ["host", "opencl", "wgpu"] {
        let there = devices.iter().any(|device| device.backend().as_str() == backend);
        if !there {
            let required = ["CI", "WINDLASS_REQUIRE_DRIVERS"].iter().any(|v| std::env::var_os(v).is_some());
            assert!(!required, "a driver is required here: {backend}");
            eprintln!("\n*** SKIPPED, nothing was tested: no device of {backend} ***\n");
        }
    }
    for device in devices {
        let name = format!("{device} ({})", device.backend());
        let queue = Queue::builder().device(device).blocking_build().expect("a listed device opens");
        for program in PROGRAMS {
            let report = (program.run)(&queue).unwrap_or_else(|e| panic!("{} on {name}: {e}", program.name));
            assert!(report.wrong.is_empty(), "{} on {name}: {}", program.name, report.wrong.join("; "));
            assert!(report.text.lines().count() > 2, "{} shows nothing on {name}", program.name);
        }
    }
}
