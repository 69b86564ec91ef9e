//! Buffers in memory that some value of the program's owns.

use windlass_backend::{Allocation as _, HostMemory};
use windlass_kernel::DeviceCopy;

use super::Buffer;
use crate::shell::waking::Contained;

impl<T: DeviceCopy> Buffer<T> {
    /// A buffer whose host memory is the elements that a value owns, where they are: a mapped file, memory that processes share, or what an
    /// allocator of the program's has given. Groups on the host work there, and what devices wrote is brought there for who reads it on
    /// the host. The value is asked for its elements once, here; it is dropped when nobody uses the memory any more: on a thread of the
    /// runtime's, once a queue has used the buffer. A buffer in the middle of the program's own memory is one whose owner keeps that memory and frees nothing.
    ///
    /// ```
    /// use windlass::prelude::*;
    ///
    /// /// Memory by rules of its own: here, at the start of a page.
    /// struct Page(Vec<f32>, usize);
    ///
    /// impl AsMut<[f32]> for Page {
    ///     fn as_mut(&mut self) -> &mut [f32] {
    ///         &mut self.0[self.1..][..1000]
    ///     }
    /// }
    ///
    /// # fn main() -> windlass::Result<()> {
    /// let memory = vec![1.0; 2024];
    /// let ahead = memory.as_ptr().align_offset(4096);
    /// let data = Buffer::from_owner(Page(memory, ahead));
    /// let queue = Queue::blocking_on(Device::host())?;
    /// queue.submit(|cg| cg.host_for(1000, cg.read_write(&data), |item, data| data.set(item.id(0), 2.0)))?;
    /// let shown = data.host_read().blocking_wait()?;
    /// assert!(shown.as_ptr().addr() % 4096 == 0 && shown[..] == [2.0; 1000]);
    /// # Ok(()) }
    /// ```
    pub fn from_owner(owner: impl AsMut<[T]> + Send + 'static) -> Self {
        const { assert!(size_of::<T>() != 0, "elements of no size cannot live in a buffer") };
        let memory = HostMemory::from_owner(Contained::new(owner));
        Self::with_root([memory.bytes() / size_of::<T>()], Some(memory))
    }
}
