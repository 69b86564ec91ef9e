//! What kernels ask of devices.

use std::fmt;

/// What a kernel asks of a device that not all devices have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Need {
    /// 16-bit floats.
    Fp16,
    /// 64-bit floats.
    Fp64,
    /// 64-bit integers.
    Int64,
    /// Atomic operations on 64-bit integers.
    Atomic64,
    /// Operations of sub-groups.
    Subgroups,
    /// Fences, and atomics whose order is stronger than relaxed, up to acquire and release.
    AcquireRelease,
    /// Fences and atomics with one order for all of the device.
    SequentiallyConsistent,
    /// Addresses that mean the same in each of its kernels.
    Pointers,
}

impl fmt::Display for Need {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Need::Fp16 => "16-bit floats",
            Need::Fp64 => "64-bit floats",
            Need::Int64 => "64-bit integers",
            Need::Atomic64 => "atomics of 64 bits",
            Need::Subgroups => "operations of sub-groups",
            Need::AcquireRelease => "fences, or atomics that acquire and release",
            Need::SequentiallyConsistent => "fences or atomics that are sequentially consistent",
            Need::Pointers => "memory with addresses, for the pointers that it follows",
        })
    }
}
