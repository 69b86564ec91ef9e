//! The code of host images.

use std::any::Any;
use std::sync::Arc;

use crate::native::NativeKernel;
use crate::{Block, HostBody, Way};

/// The code of a kernel's host image, as a device keeps it: a [`HostBody`], or what `#[kernel]` made.
///
/// The second kind hands out slices where it knows that no other block reaches the same elements. It can know that of
/// its own blocks only, so running code as a body is a promise about all blocks of the launch.
#[derive(Clone, Debug)]
pub struct Body {
    code: Code,
    /// What has to stay as long as this is here.
    _kept: Option<Arc<dyn Any + Send + Sync>>,
}

#[derive(Clone, Debug)]
enum Code {
    Open(Arc<dyn HostBody>),
    Native(NativeKernel),
}

impl Body {
    pub(crate) fn open(body: Arc<dyn HostBody>) -> Self {
        Body { code: Code::Open(body), _kept: None }
    }

    pub(crate) fn native(kernel: NativeKernel) -> Self {
        Body { code: Code::Native(kernel), _kept: None }
    }

    /// The same code for one launch, with what has to live as long: the memory of its values, say.
    #[must_use = "the original keeps nothing"]
    pub fn keeping(&self, what: Arc<dyn Any + Send + Sync>) -> Self {
        Body { code: self.code.clone(), _kept: Some(what) }
    }

    pub(crate) fn is_native(&self) -> bool {
        matches!(self.code, Code::Native(_))
    }

    /// Whether its launches lend it, behind the spans of its slots, what they [reach](crate::Ptr) beside these: only code that
    /// `#[kernel]` made, and that follows pointers.
    pub fn follows_pointers(&self) -> bool {
        matches!(&self.code, Code::Native(kernel) if kernel.follows_pointers())
    }

    /// How the code that `#[kernel]` made reaches its arguments: each parameter's name, and the way. Of other code nothing is
    /// known.
    pub fn ways(&self) -> Vec<(&'static str, Way)> {
        match &self.code {
            Code::Open(_) => Vec::new(),
            Code::Native(kernel) => kernel.ways().collect(),
        }
    }

    /// Runs the block's items over the launch's memory.
    ///
    /// # Safety
    /// All blocks of the block's launch are run by this body or clones of it, and by nothing else.
    pub unsafe fn run(&self, block: Block<'_>) {
        match &self.code {
            Code::Open(body) => body.run(block),
            // SAFETY: the caller's promise, since clones of a body have the same code.
            Code::Native(kernel) => unsafe { kernel.run(block) },
        }
    }
}
