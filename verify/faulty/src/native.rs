//! What a driver's own interface would be: the types by which programs reach past the runtime.

use std::convert::Infallible;
use std::fmt;

use windlass_backend::{NativeApi, Region};

use crate::Faulty;

pub use crate::context::FaultyContext;
pub use crate::memory::FaultyMemory;
use crate::window::Window;

/// A command of the program's own.
pub(crate) type Enqueued = Box<dyn Fn() + Send + Sync>;

/// The lane's end that native code is given: what it enqueues runs when the group's turn has come.
#[derive(Default)]
pub struct Place {
    pub(crate) enqueued: Vec<Enqueued>,
}

impl Place {
    /// Adds a command.
    pub fn enqueue(&mut self, command: impl Fn() + Send + Sync + 'static) {
        self.enqueued.push(Box::new(command));
    }

    /// Adds a command that fills bytes of a memory.
    pub fn enqueue_fill(&mut self, memory: &FaultyMemory, region: Region, byte: u8) {
        let window = memory.window(region);
        self.enqueue(move || window.fill(&[byte]));
    }
}

impl fmt::Debug for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Place").field("enqueued", &self.enqueued.len()).finish()
    }
}

impl NativeApi for Faulty {
    const BACKEND: &'static str = "faulty";
    type Context = FaultyContext;
    type Place = Place;
    type Memory = FaultyMemory;
    type Object = Devices;
    /// Scripted devices have no memory but their own.
    type MemoryObject = Infallible;
    type QueueObject = OwnQueue;
}

/// Native devices by position, to be made into a context.
#[derive(Clone, Debug)]
pub struct Devices(pub Vec<usize>);

/// A native queue of the program's own, to be made into a lane.
#[derive(Debug)]
pub struct OwnQueue {
    pub(crate) context: usize,
    pub(crate) device: usize,
    pub(crate) times: bool,
    pub(crate) in_order: bool,
}

impl OwnQueue {
    /// One that times its groups.
    pub fn timed(self) -> Self {
        OwnQueue { times: true, ..self }
    }

    /// One that runs its groups in any order.
    pub fn out_of_order(self) -> Self {
        OwnQueue { in_order: false, ..self }
    }
}

impl FaultyContext {
    /// The context's number among all that the backend has opened.
    pub fn number(&self) -> usize {
        self.at
    }

    /// A native queue of the device at this position, as a program would make it.
    pub fn create_queue(&self, device: usize) -> OwnQueue {
        OwnQueue { context: self.at, device, times: false, in_order: true }
    }
}

impl FaultyMemory {
    fn window(&self, region: Region) -> Window {
        match Window::of(self, region) {
            Ok(window) => window,
            Err(what) => panic!("native code uses {what}"),
        }
    }
}
