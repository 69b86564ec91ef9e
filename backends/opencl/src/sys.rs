//! The native API: owners of its objects and its calls, each wrapped once and named as it fails.
//!
//! opencl3's own owners panic in `Drop` and take raw handles in safe functions, so only its types and raw calls are
//! used, and only here. Every handle stays inside its owner, which is why the calls below may be safe functions: a
//! call on a live handle is refused by the driver when it makes no sense. What a driver cannot check (host
//! addresses, what a kernel does) is an `unsafe fn`.

mod command;
mod object;
mod queue;
mod shared;

use std::ffi::CStr;

use opencl3::device::{
    CL_DEVICE_PLATFORM, CL_DEVICE_TYPE_ALL, CL_DEVICE_TYPE_CUSTOM, create_sub_devices, get_device_data,
    get_device_ids,
};
use opencl3::platform::platform as native_platform;
use opencl3::types::{cl_device_id, cl_device_info, cl_device_partition_property, cl_int, cl_platform_id};

pub(crate) use command::{Extents, Grid, Rect, WaitList};
pub(crate) use object::{Buffer, Context, Event, Kernel, Mapped, Program, Queue};
pub(crate) use shared::Shared;

/// A native call that failed, and its code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Failure {
    pub(crate) call: &'static str,
    pub(crate) code: cl_int,
}

pub(crate) type Result<T> = std::result::Result<T, Failure>;

/// Names the call that a code came from.
fn named<T>(call: &'static str, result: std::result::Result<T, cl_int>) -> Result<T> {
    result.map_err(|code| Failure { call, code })
}

/// A driver. Never freed: platforms live as long as the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PlatformId(cl_platform_id);

// SAFETY: a platform is an address that only the driver looks behind, and its calls may come from any thread.
unsafe impl Send for PlatformId {}
// SAFETY: as above.
unsafe impl Sync for PlatformId {}

/// A device, or a part of one. Never freed: retaining and releasing a whole one does nothing, and of parts this process keeps a
/// reference each for good.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DeviceId(cl_device_id);

// SAFETY: a device is an address that only the driver looks behind, and its calls may come from any thread.
unsafe impl Send for DeviceId {}
// SAFETY: as above.
unsafe impl Sync for DeviceId {}

impl DeviceId {
    /// The device behind a handle, as queries return it.
    fn of_handle(handle: isize) -> Self {
        DeviceId(handle as cl_device_id)
    }
}

/// The drivers that the loader knows, in its order. Loads the loader at the first call.
pub(crate) fn platforms() -> Result<Vec<PlatformId>> {
    let ids = named("clGetPlatformIDs", native_platform::get_platform_ids())?;
    Ok(ids.into_iter().map(PlatformId).collect())
}

impl PlatformId {
    /// The driver's devices, in its order.
    pub(crate) fn devices(self) -> Result<Vec<DeviceId>> {
        let ids = named("clGetDeviceIDs", get_device_ids(self.0, CL_DEVICE_TYPE_ALL))?;
        // "All" leaves out those that have no compiler for programs. A driver without any may say so by an error.
        let custom = get_device_ids(self.0, CL_DEVICE_TYPE_CUSTOM).unwrap_or_default();
        let custom = custom.into_iter().filter(|id| !ids.contains(id)).collect::<Vec<_>>();
        Ok(ids.into_iter().chain(custom).map(DeviceId).collect())
    }

    /// A text about the driver; empty where it gives none.
    pub(crate) fn text(self, what: opencl3::types::cl_platform_info) -> String {
        text(native_platform::get_platform_data(self.0, what).unwrap_or_default())
    }
}

impl DeviceId {
    /// New parts of it, as many as these properties come to, which end with a zero.
    pub(crate) fn parts(self, properties: [cl_device_partition_property; 3]) -> Result<Vec<DeviceId>> {
        debug_assert_eq!(properties[2], 0);
        let ids = named("clCreateSubDevices", create_sub_devices(self.0, &properties))?;
        Ok(ids.into_iter().map(DeviceId).collect())
    }

    /// What its driver is called; empty where it does not say.
    pub(crate) fn platform_name(self) -> String {
        let platform = self.number(CL_DEVICE_PLATFORM).map(|handle| PlatformId(handle as cl_platform_id));
        platform.map(|platform| platform.text(native_platform::CL_PLATFORM_NAME)).unwrap_or_default()
    }

    /// What the device says about itself, as bytes; empty where it does not know the query.
    pub(crate) fn bytes(self, what: cl_device_info) -> Vec<u8> {
        get_device_data(self.0, what).unwrap_or_default()
    }

    /// A text about the device; empty where it gives none.
    pub(crate) fn text(self, what: cl_device_info) -> String {
        text(self.bytes(what))
    }

    /// A number about the device, whichever of the API's widths it has; `None` where it does not know the query.
    pub(crate) fn number(self, what: cl_device_info) -> Option<u64> {
        let bytes = self.bytes(what);
        match *bytes.as_slice() {
            [a, b, c, d] => Some(u32::from_ne_bytes([a, b, c, d]).into()),
            [a, b, c, d, e, f, g, h] => Some(u64::from_ne_bytes([a, b, c, d, e, f, g, h])),
            _ => None,
        }
    }
}

/// A C string in a buffer, as text.
fn text(bytes: Vec<u8>) -> String {
    let bytes = CStr::from_bytes_until_nul(&bytes).map_or(bytes.as_slice(), CStr::to_bytes);
    String::from_utf8_lossy(bytes).trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_ends_at_its_nul() {
        assert_eq!(text(b"a driver \0rubbish".to_vec()), "a driver");
        assert_eq!(text(b"no nul".to_vec()), "no nul");
        assert_eq!(text(Vec::new()), "");
    }
}
