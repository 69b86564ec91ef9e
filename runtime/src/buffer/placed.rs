//! Buffers that stay in one memory.

use std::any::Any;
use std::panic::Location;
use std::sync::Arc;

use windlass_backend::{Allocation, HostAccess, HostMemory, MemoryKind};
use windlass_kernel::{DeviceCopy, Ptr};

use super::{Buffer, Shape};
use crate::error::{Error, Result};
use crate::queue::Queue;
use crate::shell::Inner;
use crate::shell::context::DeviceSlot;
use crate::shell::place::Place;
use windlass_engine::{Initial, MemoryId};

/// The memory that a buffer stays in.
#[derive(Debug)]
pub(crate) struct Home {
    pub(super) memory: MemoryId,
    kind: MemoryKind,
    host: HostAccess,
    /// Whose it is.
    device: String,
    /// Where the buffer was made.
    at: &'static Location<'static>,
}

impl Home {
    fn new(place: &Place, slot: &DeviceSlot, at: &'static Location<'static>) -> Self {
        let Place { memory, kind, host, .. } = *place;
        Home { memory, kind, host, device: slot.device.to_string(), at }
    }

    /// Which it is.
    pub(crate) fn memory(&self) -> MemoryId {
        self.memory
    }

    /// Refuses a device that does not reach it.
    pub(crate) fn check(&self, slot: &DeviceSlot) -> Result<()> {
        match slot.reaches(self.memory) {
            true => Ok(()),
            false => Err(Error::invalid(format!(
                "a buffer that stays in {} memory of {} (made at {}), which {} does not reach in the group's context: copy it, \
                 on a queue of {1}, to a buffer that goes where it is needed",
                self.kind, self.device, self.at, slot.device
            ))),
        }
    }

    /// Refuses memory of which not some can be used while other is.
    pub(crate) fn check_shared(&self) -> Result<()> {
        match (self.kind, self.host) {
            (MemoryKind::Shared, HostAccess::Coherent) => Ok(()),
            _ => Err(Error::unsupported(format!(
                "an accessor of data that others change at the same time, of a buffer that stays in {} memory of {} (made at {}): \
                 that takes shared memory which the host reaches at any time",
                self.kind, self.device, self.at
            ))),
        }
    }

    /// Refuses the host where it does not reach it.
    pub(crate) fn check_host(&self) -> Result<()> {
        match self.host {
            HostAccess::None => Err(Error::unsupported(format!(
                "a host accessor of a buffer that stays in {} memory of {} (made at {}), which the host does not reach: copy it \
                 to a buffer that goes where it is needed",
                self.kind, self.device, self.at
            ))),
            _ => Ok(()),
        }
    }
}

impl Queue {
    /// The kinds of memory in which buffers can [stay](Queue::buffer_in) on the queue's device.
    ///
    /// ```
    /// use windlass::prelude::*;
    /// use windlass::MemoryKind;
    /// # fn main() -> windlass::Result<()> {
    /// let queue = Queue::blocking_on(Device::host())?;
    /// assert!(queue.memory_kinds().contains(&MemoryKind::Shared));
    /// # Ok(())
    /// # }
    /// ```
    pub fn memory_kinds(&self) -> Vec<MemoryKind> {
        self.slot().memory_kinds()
    }

    /// A buffer of this shape that stays in one memory of the queue's device for good, and is used there by all: nothing of it is
    /// ever moved. It reads as zeros until it is written. [`Queue::memory_kinds`] says of which kinds there is memory.
    ///
    /// Groups on queues of the same context use it like any buffer, and so does the host, where it reaches memory of that
    /// kind. All others are refused. Some drivers let the host have such memory only while they have mapped it for it: there every
    /// group that uses any part of the buffer, readers too, waits for every guard on it.
    ///
    /// ```
    /// use windlass::prelude::*;
    /// use windlass::MemoryKind;
    /// # async fn f() -> windlass::Result<()> {
    /// let queue = Queue::on(Device::host()).await?;
    /// let table = queue.buffer_in::<u32, 1>(MemoryKind::Shared, 1024).await?;
    /// queue.submit(|cg| cg.fill(&cg.overwrite(&table), 7))?;
    /// assert_eq!(table.host_read().await?[1023], 7);
    /// # Ok(())
    /// # }
    /// # futures::executor::block_on(f()).unwrap();
    /// ```
    #[track_caller]
    pub fn buffer_in<T: DeviceCopy, const D: usize>(
        &self,
        kind: MemoryKind,
        shape: impl Shape<D>,
    ) -> impl Future<Output = Result<Buffer<T, D>>> + Send {
        let (queue, extent, at) = (self.clone(), shape.extent(), Location::caller());
        async move {
            let inner = queue.runtime().inner().clone();
            inner.off_thread(move || queue.make_there(kind, extent, at)).await
        }
    }

    /// [`Queue::buffer_in`] on this thread, which blocks as long as the driver takes.
    ///
    /// ```
    /// use windlass::{MemoryKind, prelude::*};
    /// # fn main() -> windlass::Result<()> {
    /// let queue = Queue::blocking_on(Device::host())?;
    /// let table = queue.blocking_buffer_in::<f32, 2>(MemoryKind::Shared, [4, 8])?;
    /// queue.submit(|cg| cg.fill(&cg.write(&table.range((1..2, ..))), 0.5))?;
    /// assert_eq!(table.host_read().blocking_wait()?.iter().sum::<f32>(), 4.0);
    /// # Ok(()) }
    /// ```
    #[track_caller]
    pub fn blocking_buffer_in<T: DeviceCopy, const D: usize>(
        &self,
        kind: MemoryKind,
        shape: impl Shape<D>,
    ) -> Result<Buffer<T, D>> {
        self.make_there(kind, shape.extent(), Location::caller())
    }

    /// A buffer of these elements that [stays in one memory](Queue::buffer_in): where they are now, if the device uses the
    /// program's own memory in place as it is aligned, and else in memory that it makes, to which they are copied once.
    ///
    /// ```
    /// use windlass::prelude::*;
    /// use windlass::MemoryKind;
    /// # async fn f() -> windlass::Result<()> {
    /// let queue = Queue::on(Device::host()).await?;
    /// let mine = queue.import(MemoryKind::Host, vec![1_u32, 2, 3]).await?;
    /// queue.submit(|cg| cg.fill(&cg.overwrite(&mine.range(1..)), 7))?;
    /// assert_eq!(mine.host_read().await?[..], [1, 7, 7]);
    /// # Ok(())
    /// # }
    /// # futures::executor::block_on(f()).unwrap();
    /// ```
    #[track_caller]
    pub fn import<T: DeviceCopy>(
        &self,
        kind: MemoryKind,
        elements: Vec<T>,
    ) -> impl Future<Output = Result<Buffer<T>>> + Send {
        let (queue, at) = (self.clone(), Location::caller());
        let memory = (elements.len(), HostMemory::from_vec(elements));
        async move {
            let inner = queue.runtime().inner().clone();
            inner.off_thread(move || queue.import_here(kind, memory, at)).await
        }
    }

    /// [`Queue::import`] on this thread, which blocks as long as the driver takes.
    ///
    /// ```
    /// use windlass::{MemoryKind, prelude::*};
    /// # fn main() -> windlass::Result<()> {
    /// let queue = Queue::blocking_on(Device::host())?;
    /// let mine = queue.blocking_import(MemoryKind::Host, vec![1_u32, 2, 3])?;
    /// queue.submit(|cg| cg.fill(&cg.write(&mine.range(..2)), 7))?;
    /// assert_eq!(mine.host_read().blocking_wait()?[..], [7, 7, 3]);
    /// # Ok(()) }
    /// ```
    #[track_caller]
    pub fn blocking_import<T: DeviceCopy>(&self, kind: MemoryKind, elements: Vec<T>) -> Result<Buffer<T>> {
        let memory = (elements.len(), HostMemory::from_vec(elements));
        self.import_here(kind, memory, Location::caller())
    }

    fn make_there<T: DeviceCopy, const D: usize>(
        &self,
        kind: MemoryKind,
        extent: [usize; D],
        at: &'static Location<'static>,
    ) -> Result<Buffer<T, D>> {
        Inner::check_process()?;
        let (inner, slot) = (self.runtime().inner(), self.slot());
        inner.enter_without_native_calls(|state, _| Inner::check_open(state))?;
        let place = slot.place(kind)?;
        let buffer = self.put_there(&place, extent, at, |place, bytes| place.allocate(inner, slot, bytes))?;
        if place.host_sees_rubbish() && !buffer.is_empty() {
            self.submit(|cg| cg.fill(&cg.overwrite(&buffer), T::zeroed()))?;
        }
        Ok(buffer)
    }

    fn import_here<T: DeviceCopy>(
        &self,
        kind: MemoryKind,
        (len, elements): (usize, HostMemory),
        at: &'static Location<'static>,
    ) -> Result<Buffer<T>> {
        Inner::check_process()?;
        let (inner, slot) = (self.runtime().inner(), self.slot());
        inner.enter_without_native_calls(|state, _| Inner::check_open(state))?;
        let place = slot.place(kind)?;
        if !place.takes(&elements) {
            let (from, to) =
                (Buffer::<T>::with_root([len], Some(elements)), self.make_there(kind, [len], at)?);
            self.submit(|cg| cg.copy(&cg.read(&from), &cg.overwrite(&to)))?;
            return Ok(to);
        }
        self.put_there(&place, [len], at, |place, _| place.import(inner, slot, Arc::new(elements)))
    }

    /// A buffer of native memory, which stays there.
    pub(crate) fn adopt_there<T: DeviceCopy, const D: usize>(
        &self,
        object: Box<dyn Any + Send>,
        extent: [usize; D],
        at: &'static Location<'static>,
    ) -> Result<Buffer<T, D>> {
        Inner::check_process()?;
        let (inner, slot) = (self.runtime().inner(), self.slot());
        inner.enter_without_native_calls(|state, _| Inner::check_open(state))?;
        let place = slot.place(MemoryKind::Device)?;
        self.put_there(&place, extent, at, |place, bytes| place.adopt(inner, object, bytes))
    }

    /// A buffer that stays in a place, with what is given to it for so many bytes.
    fn put_there<T: DeviceCopy, const D: usize>(
        &self,
        place: &Place,
        extent: [usize; D],
        at: &'static Location<'static>,
        given: impl FnOnce(&Place, usize) -> Result<Initial<Arc<dyn Allocation>>>,
    ) -> Result<Buffer<T, D>> {
        let (home, mut put) = (Home::new(place, self.slot(), at), Ok(()));
        let buffer = Buffer::with_root_like(extent, None, |mut root| {
            let inner = self.runtime().inner();
            put = given(place, root.bytes()).and_then(|given| root.put(home, given, inner, at));
            root
        });
        buffer.check()?;
        put.map(|()| buffer)
    }
}

impl<T: DeviceCopy, const D: usize> Buffer<T, D> {
    /// The address of its first element on the devices that reach it: of a buffer that [stays in one memory](Queue::buffer_in),
    /// where that has addresses. It is valid until the last handle and the last group that uses the buffer are gone, or its context
    /// is lost. Native code that uses the address is ordered only with groups that name the buffer.
    ///
    /// ```
    /// use windlass::prelude::*;
    /// # fn main() -> windlass::Result<()> {
    /// assert_eq!(Buffer::<u32>::new(8).device_address(), None, "it may go anywhere");
    /// # Ok(())
    /// # }
    /// ```
    pub fn device_address(&self) -> Option<u64> {
        Inner::check_process().ok()?;
        let (root, inner) = (self.root(), self.root().owner()?);
        let (home, binding) = (root.home()?, self.binding(inner, Location::caller()).ok()?);
        let memory = inner.enter_without_native_calls(|state, _| {
            state.engine.allocation(binding.root, home.memory).cloned()
        });
        Some(memory?.device_address()? + binding.offset as u64)
    }

    /// A pointer to its first element, for kernels to find in values and in memory, where it has an [address](Buffer::device_address).
    ///
    /// ```
    /// use windlass::prelude::*;
    /// use windlass::MemoryKind;
    /// # fn main() -> windlass::Result<()> {
    /// let queue = Queue::blocking_on(Device::host())?;
    /// let x = queue.blocking_buffer_in::<f32, 1>(MemoryKind::Shared, 8)?;
    /// assert_eq!(x.range(2..).pointer(), x.pointer().map(|first| first.add(2)));
    /// assert_eq!(Buffer::<f32>::new(8).pointer(), None, "it may go anywhere");
    /// # Ok(())
    /// # }
    /// ```
    pub fn pointer(&self) -> Option<Ptr<T>> {
        self.device_address().map(Ptr::from_address)
    }
}
