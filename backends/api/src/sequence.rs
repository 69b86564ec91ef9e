//! Sequences: commands that a context takes over once, to run them often at the price of one.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use crate::{Allocation, BuiltKernel, Command};

/// One command of a sequence, and what it comes after.
#[derive(Debug)]
#[non_exhaustive]
pub struct Node<'a> {
    /// What to do: a launch, a copy or a fill.
    pub command: Command<'a>,
    /// The positions of those earlier commands that have to end before it starts. Two commands that neither of them leads
    /// from one to the other may run at the same time.
    pub after: &'a [usize],
}

impl<'a> Node<'a> {
    /// A command that comes after these earlier ones.
    pub fn new(command: Command<'a>, after: &'a [usize]) -> Self {
        Node { command, after }
    }
}

/// What the commands of a sequence use. The sequence owns it, and so keeps it as long as it may run.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Keeps {
    /// Memory.
    pub memory: Vec<Arc<dyn Allocation>>,
    /// Kernels.
    pub kernels: Vec<Arc<dyn BuiltKernel>>,
}

impl Keeps {
    /// This memory and these kernels.
    pub fn new(memory: Vec<Arc<dyn Allocation>>, kernels: Vec<Arc<dyn BuiltKernel>>) -> Self {
        Keeps { memory, kernels }
    }
}

/// Commands that a context has taken over; made by [`Context::record`](crate::Context::record), and run by
/// [`Command::Replay`] as often as one likes, on any lane of its device, and on several at the same time if its commands
/// use memory that groups change at the same time. The backend that made it downcasts it in `feed`.
pub trait Sequence: Any + Send + Sync {}

impl fmt::Debug for dyn Sequence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Sequence")
    }
}
