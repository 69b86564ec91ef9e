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
}

/// The native object that a program has given ([`Backend::adopt`](crate::Backend::adopt),
/// [`Context::adopt_memory`](crate::Context::adopt_memory)), if it is of the type that the backend takes.
pub fn native_object<T: Any>(object: Box<dyn Any + Send>) -> Result<T, BackendError> {
    let wrong = |_| BackendError::Unsupported(format!("a native object that is no `{}`", type_name::<T>()));
    object.downcast().map(|object| *object).map_err(wrong)
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
