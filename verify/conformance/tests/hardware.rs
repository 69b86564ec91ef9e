//! One piece of hardware that several backends offer.

#[path = "drivers/find.rs"]
mod find;

use futures::executor::block_on;
use windlass::Result;
use windlass::prelude::*;

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
