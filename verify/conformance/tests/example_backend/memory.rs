//! The device's memory, and windows into it.

use std::ptr::NonNull;
use std::sync::Arc;

use windlass_backend::{Allocation, BackendError, HostMemory, Region};

use crate::device::Device;

/// Memory of the device: the host's, counted.
pub(crate) struct ExampleMemory {
    memory: HostMemory,
    device: Arc<Device>,
}

impl ExampleMemory {
    pub(crate) fn new(bytes: usize, device: Arc<Device>) -> Result<Self, BackendError> {
        device.take(bytes)?;
        match HostMemory::zeroed(bytes) {
            Ok(memory) => Ok(ExampleMemory { memory, device }),
            Err(error) => {
                device.give_back(bytes);
                Err(error)
            }
        }
    }
}

impl Drop for ExampleMemory {
    fn drop(&mut self) {
        self.device.give_back(self.memory.bytes());
    }
}

// SAFETY: both answers are those of a `HostMemory` that lives as long as this, and that nobody else has.
unsafe impl Allocation for ExampleMemory {
    fn bytes(&self) -> usize {
        self.memory.bytes()
    }

    fn host_ptr(&self) -> Option<NonNull<u8>> {
        self.memory.host_ptr()
    }
}

/// A box of an allocation, checked to lie inside it.
#[derive(Clone, Copy)]
pub(crate) struct Window {
    start: NonNull<u8>,
    pub(crate) region: Region,
}

// SAFETY: an address with a shape, which is used where a group runs and the runtime keeps the memory for it.
unsafe impl Send for Window {}

impl Window {
    pub(crate) fn new(memory: &dyn Allocation, region: Region) -> Result<Self, BackendError> {
        let Some(start) = memory.host_ptr() else {
            return Err(BackendError::Unsupported("memory without a host address".into()));
        };
        // A region that leaves its allocation breaks the contract on the runtime's side, so this may panic.
        assert!(region.end() <= memory.bytes(), "{region:?} of {} bytes", memory.bytes());
        Ok(Window { start, region })
    }

    /// The address of the first byte.
    pub(crate) fn first(&self) -> NonNull<u8> {
        // SAFETY: the region begins and ends inside the allocation, as was checked.
        unsafe { self.start.add(self.region.offset) }
    }

    /// The addresses of the rows, each with `region.width` bytes of the allocation.
    pub(crate) fn rows(self) -> impl Iterator<Item = *mut u8> {
        // SAFETY: no row begins behind the region's end, which was checked.
        self.region.row_offsets().map(move |offset| unsafe { self.start.as_ptr().add(offset) })
    }
}
