//! OpenCL's devices, for what tests do by hand.

use opencl3::device::{CL_DEVICE_TYPE_ALL, Device};
use opencl3::platform::get_platforms;

/// The first device of this name.
pub(crate) fn device(name: &str) -> Device {
    let platforms = get_platforms().expect("there is a device");
    let devices =
        platforms.iter().flat_map(|platform| platform.get_devices(CL_DEVICE_TYPE_ALL).unwrap_or_default());
    let is_it = |device: &Device| device.name().is_ok_and(|own| own.trim() == name);
    devices.map(Device::new).find(is_it).expect("it was listed")
}
