//! What stands in for the memory of an argument that shows no element.

use std::sync::{Arc, OnceLock};

use windlass_backend::{Allocation, BackendError, Context, MemoryIndex, MemoryObject};

/// Room for one element of any type, and no smaller than what devices align to.
const BYTES: usize = 256;

/// A buffer without elements has no memory, and neither has one of which nothing was used so far; but native calls want
/// an argument to be in some. The lanes of a memory's device share this; kernels see none of its bytes.
#[derive(Debug)]
pub(crate) struct Blank {
    index: MemoryIndex,
    memory: OnceLock<Arc<dyn Allocation>>,
}

impl Blank {
    /// In a memory of a context. Where allocating may block it is done here, since contexts are
    /// opened where that harms nobody; elsewhere at first need.
    pub(crate) fn new(index: MemoryIndex, context: &dyn Context) -> Result<Self, BackendError> {
        let blank = Blank { index, memory: OnceLock::new() };
        if context.info().allocate_blocks {
            blank.get(context)?;
        }
        Ok(blank)
    }

    /// The memory; for who may make native calls.
    pub(super) fn get(&self, context: &dyn Context) -> Result<&Arc<dyn Allocation>, BackendError> {
        if let Some(memory) = self.memory.get() {
            return Ok(memory);
        }
        let made = context.allocate(self.index, MemoryObject::Buffer { bytes: BYTES })?;
        Ok(self.memory.get_or_init(|| made))
    }

    /// The memory, if somebody has needed it.
    pub(super) fn made(&self) -> Option<&Arc<dyn Allocation>> {
        self.memory.get()
    }
}
