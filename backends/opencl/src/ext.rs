//! What OpenCL has and other backends have not.

use opencl3::device as cl;
use opencl3::types::cl_device_partition_property;

/// How devices that can be divided are.
///
/// A part is a device of its own, with some of the units of the whole and all of its memory: work on one part does not hold up
/// work on another, or on the rest of the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Division {
    /// Into parts of so many compute units each; what is left over belongs to no part.
    ByUnits(u32),
    /// Into parts whose units are near the same memory, as far as the driver can tell memories apart.
    ByMemory,
}

impl Division {
    /// As OpenCL is told.
    pub(crate) fn properties(self) -> [cl_device_partition_property; 3] {
        match self {
            Division::ByUnits(units) => [cl::CL_DEVICE_PARTITION_EQUALLY, units as isize, 0],
            Division::ByMemory => {
                let numa = cl::CL_DEVICE_AFFINITY_DOMAIN_NUMA as isize;
                [cl::CL_DEVICE_PARTITION_BY_AFFINITY_DOMAIN, numa, 0]
            }
        }
    }
}
