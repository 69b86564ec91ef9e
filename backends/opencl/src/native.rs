//! Down to OpenCL's own objects: what the portable API does not cover.
//!
//! Native code in a group is given a [`Place`]: the lane's in-order command queue. It enqueues commands there without waiting for
//! them, and these run after the group's earlier commands, and everything the group waits for, and before its later commands.
//! It must not finish, change or release the queue, and its commands may use the memory of the group's accessors only, in the
//! ways that the accessors allow. Handles are OpenCL's own, as the crate `opencl3` has them, cast to untyped pointers.

use std::convert::Infallible;
use std::ffi::c_void;

use windlass_backend::NativeApi;

use crate::OpenCl;
pub use crate::context::OpenClContext;
pub use crate::memory::Memory;
pub use crate::native_call::Place;

impl NativeApi for OpenCl {
    const BACKEND: &'static str = "opencl";
    type Context = OpenClContext;
    type Place = Place;
    type Memory = Memory;
    /// No native object can be adopted as a context yet.
    type Object = Infallible;
}

impl OpenClContext {
    /// The `cl_context`. It lives as long as this.
    pub fn raw(&self) -> *mut c_void {
        self.native().raw()
    }
}

impl Memory {
    /// The `cl_mem`. It lives as long as this.
    pub fn raw(&self) -> *mut c_void {
        self.buffer().raw()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ID;

    #[test]
    fn the_api_is_of_this_backend() {
        assert_eq!(ID.as_str(), <OpenCl as NativeApi>::BACKEND);
    }
}
