//! The way past the contract: programs that call the native API themselves, in order with everything else.

use std::any::{Any, type_name};
use std::fmt;

use crate::{Allocation, BackendError};

/// The native types of a backend, by which programs reach past the contract. A backend that lets them has one type for this,
/// and says in its documentation what its native objects are and what may be done with them.
pub trait NativeApi: 'static {
    /// The backend's name.
    const BACKEND: &'static str;
    /// Its contexts.
    type Context: Any + Send + Sync;
    /// What native code in a group is given to put its commands into.
    type Place: Any;
    /// Its memory.
    type Memory: Any;
    /// What it makes a context of.
    type Object: Any + Send;
    /// What it takes as memory.
    type MemoryObject: Any + Send;
    /// What it makes a lane of.
    type QueueObject: Any + Send + Sync;
}

/// The native object that a program has given ([`Backend::adopt`](crate::Backend::adopt),
/// [`Context::adopt_memory`](crate::Context::adopt_memory), [`Context::adopt_lane`](crate::Context::adopt_lane)), if it is of the
/// type that the backend takes.
pub fn native_object<T: Any>(object: Box<dyn Any + Send>) -> Result<T, BackendError> {
    object.downcast().map(|object| *object).map_err(|_| no_such_object::<T>())
}

/// The same of one that the backend is only shown ([`Context::native_queue`](crate::Context::native_queue)).
pub fn native_object_of<T: Any>(object: &dyn Any) -> Result<&T, BackendError> {
    object.downcast_ref().ok_or_else(no_such_object::<T>)
}

fn no_such_object<T>() -> BackendError {
    BackendError::Unsupported(format!("a native object that is no `{}`", type_name::<T>()))
}

/// What a native queue is like that the program has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct NativeQueue {
    /// The position of its device in [`ContextInfo::devices`](crate::ContextInfo::devices).
    pub device: usize,
    /// Whether groups on it can be timed. Only for devices with [`Aspect::Profiling`](crate::Aspect::Profiling).
    pub times: bool,
}

impl NativeQueue {
    /// A queue of the device at this position, on which no groups are timed.
    pub fn new(device: usize) -> Self {
        NativeQueue { device, times: false }
    }

    /// Whether groups on it can be timed.
    pub fn times(self, times: bool) -> Self {
        NativeQueue { times, ..self }
    }
}

/// Code of the program that calls the native API itself.
pub trait NativeCode: Send {
    /// Called once, inside [`Lane::feed`](crate::Lane::feed), when the commands before it in the group have been handed over.
    /// `place` is what the backend documents for this: its queue, and whatever else the code needs to put commands there.
    /// They are part of the group: what comes behind the group waits for them, and their failure is its failure. Where
    /// this returns an error, or panics, the group fails once what had started has ended.
    fn call(self: Box<Self>, place: &mut dyn Any, memory: &[&dyn Allocation]) -> Result<(), BackendError>;
}

/// Native code at its place among a group's commands.
pub struct NativeCall<'a> {
    code: Box<dyn NativeCode + 'a>,
    memory: Vec<&'a dyn Allocation>,
}

impl<'a> NativeCall<'a> {
    /// Code that may have its commands use this memory, in the order in which it expects it.
    pub fn new(code: Box<dyn NativeCode + 'a>, memory: Vec<&'a dyn Allocation>) -> Self {
        NativeCall { code, memory }
    }

    /// Calls the code, with the place that the backend has for it.
    pub fn call(self, place: &mut dyn Any) -> Result<(), BackendError> {
        self.code.call(place, &self.memory)
    }
}

impl fmt::Debug for NativeCall<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NativeCall").field("memory", &self.memory).finish_non_exhaustive()
    }
}
