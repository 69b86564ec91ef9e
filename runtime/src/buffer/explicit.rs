//! What a program asks of a buffer's memory beyond its use: to have the data somewhere, to have memory back, to take data as it is.

use std::panic::Location;

use windlass_kernel::DeviceCopy;
use windlass_sync::forked;

use super::Buffer;
use crate::error::Result;
use crate::event::Event;
use crate::group::{Accessor, CommandGroup};
use crate::host_access::HostReadFuture;
use crate::queue::Queue;
use windlass_engine::Mode;

impl Queue {
    /// Brings the data to the queue's device, behind everything that was submitted before, so that groups which read it there find
    /// it. The event resolves when it is there.
    ///
    /// A group does that for itself: this is for data whose reader comes later, when the device has nothing better to do.
    ///
    /// ```
    /// use windlass::prelude::*;
    /// # async fn f() -> windlass::Result<()> {
    /// let queue = Queue::new().await?;
    /// let table = Buffer::from(vec![1.0_f32; 1 << 16]);
    /// queue.prefetch(&table)?.await
    /// # }
    /// # futures::executor::block_on(f()).unwrap();
    /// ```
    #[track_caller]
    pub fn prefetch<T: DeviceCopy, const D: usize>(&self, buffer: &Buffer<T, D>) -> Result<Event> {
        // A group without commands is a barrier over what it requires.
        self.submit(|cg| {
            cg.read(buffer);
            Ok(())
        })
    }

    /// Gives up the memory that a buffer, all of it, has on the queue's device, once all groups have ended that use the buffer when this
    /// is first polled. What is current there alone comes to the host before. A later group gets fresh memory, and brings what it
    /// needs. A [recording](crate::Recording) that was replayed with the memory keeps it from being freed until it is replayed
    /// again, or is gone. The runtime may keep memory that was given up for a moment, for other buffers ([`Stats::bytes_kept`](crate::Stats)), and a
    /// [piece](crate::RuntimeBuilder::reuse_in_pieces) for as long as there are others of the same memory.
    ///
    /// The answer is `false` where nothing was given up: the buffer has no memory of its own there, has to stay there, or groups that
    /// were submitted meanwhile count on it.
    ///
    /// ```
    /// use windlass::prelude::*;
    /// # async fn f() -> windlass::Result<()> {
    /// let queue = Queue::new().await?;
    /// let table = Buffer::from(vec![1.0_f32; 1 << 16]);
    /// queue.prefetch(&table)?;
    /// let freed = queue.evict(&table).await?;
    /// assert!(freed || queue.device().backend().as_str() == "host");
    /// assert_eq!(table.host_read().await?[7], 1.0);
    /// # Ok(()) }
    /// # futures::executor::block_on(f()).unwrap();
    /// ```
    #[track_caller]
    pub fn evict<T: DeviceCopy, const D: usize>(
        &self,
        buffer: &Buffer<T, D>,
    ) -> impl Future<Output = Result<bool>> + Send + use<T, D> {
        let (inner, slot) = (self.runtime().inner().clone(), self.slot().clone());
        let whole = buffer.whole();
        let at = Location::caller();
        async move {
            if whole.root().owner().is_none() || whole.root().home().is_some() {
                return Ok(false);
            }
            let binding = whole.binding(&inner, at)?;
            // Held until the memory is gone: nobody writes meanwhile, so that the heap's copy stays current.
            let held = HostReadFuture::new(whole, Mode::Read).behind_readers().await?;
            let gone = inner.enter_without_native_calls(|state, turn| {
                let memory = state.engine.device_memory(slot.id);
                state.evict(binding.root, memory, turn)
            });
            drop(held);
            Ok(gone)
        }
    }
}

impl<'g> CommandGroup<'g> {
    /// Brings what an accessor reads to where the host has it, so that a host accessor finds it there. Like a
    /// [host task](CommandGroup::host_task) it is the only command of its group.
    ///
    /// ```
    /// use windlass::prelude::*;
    /// # async fn f() -> windlass::Result<()> {
    /// let (queue, sums) = (Queue::new().await?, Buffer::<f32>::new(64));
    /// queue.submit(|cg| cg.fill(&cg.overwrite(&sums), 1.5))?;
    /// queue.submit(|cg| cg.update_host(&cg.read(&sums)))?.await?;
    /// assert_eq!(sums.host_read().await?[63], 1.5);
    /// # Ok(()) }
    /// # futures::executor::block_on(f()).unwrap();
    /// ```
    pub fn update_host<A: Accessor<'g>>(&self, _from: &A) -> Result<()> {
        // What the accessor requires is all there is to do: the host side brings it for a task that does nothing.
        crate::group::check_is_read::<A>("an update of the host")?;
        self.host_task(async |_| Ok(()))
    }
}

impl<T: DeviceCopy, const D: usize> Buffer<T, D> {
    /// Takes data for good that is [poisoned](Buffer::poison): what the failed group left where it worked, or what is left of the
    /// buffer elsewhere, or zeros; never another buffer's. What is not poisoned stays as it is.
    ///
    /// Groups that were submitted before and read it fail all the same. A buffer whose only memory is lost stays poisoned, and so does
    /// what groups write [at the same time](CommandGroup::concurrent) until they have ended.
    ///
    /// ```
    /// use windlass::prelude::*;
    /// # fn main() -> windlass::Result<()> {
    /// let queue = Queue::blocking_on(Device::host())?;
    /// let data = Buffer::<u32>::new(4);
    /// let bad = queue.submit(|cg| {
    ///     let data = cg.overwrite(&data);
    ///     cg.host_for(4, data, |_, _| panic!("a mistake"))
    /// })?;
    /// assert!(bad.blocking_wait().is_err() && data.poison().is_some());
    /// data.clear_poison();
    /// assert_eq!(data.host_read().blocking_wait()?[..], [0; 4]);
    /// # Ok(())
    /// # }
    /// ```
    #[track_caller]
    pub fn clear_poison(&self) {
        let Some(inner) = self.root().owner().filter(|_| !forked::is_child()) else { return };
        let Ok(binding) = self.binding(inner, Location::caller()) else { return };
        inner.enter_without_native_calls(|state, turn| {
            self.pieces(&binding, Mode::Read, |bounds, _| {
                state.engine.clear_poison(binding.root, &bounds, turn);
            });
        });
    }
}
