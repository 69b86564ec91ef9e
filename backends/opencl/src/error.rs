//! What a native failure means to the runtime.

use opencl3::error_codes::{
    CL_CONTEXT_TERMINATED_KHR, CL_DEVICE_NOT_AVAILABLE, CL_INVALID_BUFFER_SIZE, CL_INVALID_COMMAND_QUEUE,
    CL_INVALID_CONTEXT, CL_MEM_OBJECT_ALLOCATION_FAILURE, CL_OUT_OF_HOST_MEMORY, DLOPEN_RUNTIME_LOAD_FAILED,
    error_text,
};
use windlass_backend::{BackendError, Unavailable};

use crate::sys::Failure;

/// Codes which mean that the device, or the context over it, is gone. We pass live queues and contexts only, so a driver that
/// calls one invalid has given it up itself; some do so after a kernel crashed.
const LOST: [i32; 5] = [
    CL_DEVICE_NOT_AVAILABLE,
    CL_INVALID_COMMAND_QUEUE,
    CL_INVALID_CONTEXT,
    CL_CONTEXT_TERMINATED_KHR,
    NVIDIA_CRASHED,
];

/// What NVIDIA's driver returns from every call in a context, queries included, after a kernel accessed memory out of bounds.
const NVIDIA_CRASHED: i32 = -9999;

/// Codes by which an allocation is refused for its size.
const FULL: [i32; 3] = [CL_MEM_OBJECT_ALLOCATION_FAILURE, CL_OUT_OF_HOST_MEMORY, CL_INVALID_BUFFER_SIZE];

/// The code that the OpenCL loader gives, instead of an empty list, when no driver is registered.
const NO_PLATFORM: i32 = -1001;

impl From<Failure> for BackendError {
    fn from(failure: Failure) -> Self {
        let Failure { call, code } = failure;
        if LOST.contains(&code) {
            return lost(failure);
        }
        BackendError::Native { call, code: code.into(), message: meaning(code) }
    }
}

/// A failure whose only possible cause is that the device is gone.
pub(crate) fn lost(Failure { call, code }: Failure) -> BackendError {
    BackendError::Lost(format!("{call} failed with {code}: {}", meaning(code)))
}

/// The name of a code, or a description.
fn meaning(code: i32) -> String {
    let name = error_text(code);
    if code == NVIDIA_CRASHED {
        return "a kernel crashed".to_owned();
    }
    if name.starts_with("CL_") || name.starts_with("DLOPEN_") {
        return name.to_owned();
    }
    "a code of the driver's own".to_owned()
}

/// A command that ended with this status.
pub(crate) fn command(status: i32) -> BackendError {
    Failure { call: "an enqueued command", code: status }.into()
}

/// A failed allocation of this many bytes.
pub(crate) fn allocation(failure: Failure, bytes: usize) -> BackendError {
    if FULL.contains(&failure.code) { BackendError::OutOfMemory { bytes } } else { failure.into() }
}

/// Refuses what no OpenCL device does, or this one does not.
pub(crate) fn unsupported<T>(what: impl Into<String>) -> Result<T, BackendError> {
    Err(BackendError::Unsupported(what.into()))
}

/// Why no driver could be listed.
pub(crate) fn unavailable(failure: Failure) -> Unavailable {
    match failure.code {
        DLOPEN_RUNTIME_LOAD_FAILED => Unavailable::new(
            "the OpenCL loader (libOpenCL) could not be loaded",
            "install an OpenCL loader (Debian: ocl-icd-libopencl1) and a driver, or name the library in OPENCL_DYLIB_PATH",
        ),
        NO_PLATFORM => no_platform(),
        _ => Unavailable::new(
            BackendError::from(failure).to_string(),
            "check the installation of the OpenCL drivers, for example with clinfo",
        ),
    }
}

/// Why a loader without drivers is of no use.
pub(crate) fn no_platform() -> Unavailable {
    Unavailable::new(
        "no OpenCL driver is registered with the OpenCL loader",
        "install the OpenCL driver of the device's vendor, or PoCL for the CPU (Debian: pocl-opencl-icd)",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    const CALL: &str = "clCall";

    #[test]
    fn a_code_is_named() {
        let error = BackendError::from(Failure { call: CALL, code: -5 });
        assert_eq!(error.to_string(), "clCall failed with -5: CL_OUT_OF_RESOURCES");
        let error = BackendError::from(Failure { call: CALL, code: -4321 });
        assert_eq!(error.to_string(), "clCall failed with -4321: a code of the driver's own");
    }

    #[test]
    fn a_queue_that_the_driver_disowns_is_a_lost_device() {
        assert!(BackendError::from(Failure { call: CALL, code: -36 }).is_lost());
        assert!(!BackendError::from(Failure { call: CALL, code: -5 }).is_lost());
    }

    #[test]
    fn a_refused_allocation_says_how_much() {
        let failure = Failure { call: CALL, code: CL_MEM_OBJECT_ALLOCATION_FAILURE };
        assert_eq!(allocation(failure, 7), BackendError::OutOfMemory { bytes: 7 });
        assert!(matches!(allocation(Failure { code: -30, ..failure }, 7), BackendError::Native { .. }));
    }

    #[test]
    fn a_missing_driver_comes_with_a_remedy() {
        for code in [DLOPEN_RUNTIME_LOAD_FAILED, NO_PLATFORM, -6] {
            let why = unavailable(Failure { call: CALL, code });
            assert!(!why.reason.is_empty() && !why.remedy.is_empty(), "{why}");
        }
    }
}
