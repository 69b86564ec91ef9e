//! What stands in for the memory of an argument that shows no element.

use std::sync::{Arc, OnceLock};

use windlass_backend::{Allocation, BackendError, Context, MemoryObject};

/// Room for one element of any type, and no smaller than what devices align to.
const BYTES: usize = 256;

/// A buffer without elements has no memory, and neither has one of which nothing was used so far; but native calls want
/// an argument to be in some. Lanes of one device share this; kernels see none of its bytes.
#[derive(Debug)]
pub(crate) struct Blank {
    device: usize,
    memory: OnceLock<Arc<dyn Allocation>>,
}

impl Blank {
    /// For a device of a context, by its position there. Where allocating may block it is done here, since contexts are
    /// opened where that harms nobody; elsewhere at first need.
    pub(crate) fn new(device: usize, context: &dyn Context) -> Result<Self, BackendError> {
        let blank = Blank { device, memory: OnceLock::new() };
        if context.info().allocate_blocks {
            blank.get(context)?;
        }
        Ok(blank)
    }

    /// The memory; for who may make native calls.
    pub(super) fn get(&self, context: &dyn Context) -> Result<&dyn Allocation, BackendError> {
        if let Some(memory) = self.memory.get() {
            return Ok(&**memory);
        }
        let made = context.allocate(self.device, MemoryObject::Buffer { bytes: BYTES })?;
        Ok(&**self.memory.get_or_init(|| made))
    }
}
