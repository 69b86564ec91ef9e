//! Buffers that stay in one memory.

use std::panic::Location;
use std::sync::Arc;

use windlass_backend::{
    Allocation, BackendError, HostAccess, HostMemory, MemoryIndex, MemoryKind, MemoryObject,
};
use windlass_kernel::DeviceCopy;
use windlass_sync::panics::catch;

use super::{Buffer, Shape};
use crate::error::{Error, Result};
use crate::queue::Queue;
use crate::shell::Inner;
use crate::shell::context::DeviceSlot;
use crate::shell::memory::{Made, make_with_room};
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
}

impl Home {
    fn new(place: &Place, slot: &DeviceSlot) -> Self {
        let Place { memory, kind, host, .. } = *place;
        Home { memory, kind, host, device: slot.device.to_string() }
    }

    /// Refuses a device that does not reach it.
    pub(crate) fn check(&self, slot: &DeviceSlot) -> Result<()> {
        match slot.reaches(self.memory) {
            true => Ok(()),
            false => Err(Error::invalid(format!(
                "a buffer that stays in {} memory of {}, which {} does not reach in the group's context: copy it there to \
                 a buffer that goes where it is needed",
                self.kind, self.device, slot.device
            ))),
        }
    }

    /// Refuses the host where it does not reach it.
    pub(crate) fn check_host(&self) -> Result<()> {
        match self.host {
            HostAccess::None => Err(Error::unsupported(format!(
                "a host accessor of a buffer that stays in {} memory of {}, which the host does not reach: copy it to a \
                 buffer that goes where it is needed",
                self.kind, self.device
            ))),
            _ => Ok(()),
        }
    }
}

impl Queue {
    /// A buffer of this shape that stays in one memory of the queue's device for good, and is used there by everybody: nothing of
    /// it is ever moved. What is in it reads as zeros until it is written.
    ///
    /// Groups of queues in the same context use it like any buffer, and so does the host, where it reaches memory of
    /// that kind. All others are refused.
    ///
    /// ```
    /// use windlass::prelude::*;
    /// use windlass::MemoryKind;
    /// # async fn f() -> windlass::Result<()> {
    /// let queue = Queue::on(Device::host()).await?;
    /// let table = queue.place::<u32, 1>(MemoryKind::Shared, 1024).await?;
    /// queue.submit(|cg| cg.fill(&cg.overwrite(&table), 7))?;
    /// assert_eq!(table.host_read().await?[1023], 7);
    /// # Ok(())
    /// # }
    /// # futures::executor::block_on(f()).unwrap();
    /// ```
    #[track_caller]
    pub fn place<T: DeviceCopy, const D: usize>(
        &self,
        kind: MemoryKind,
        shape: impl Shape<D>,
    ) -> impl Future<Output = Result<Buffer<T, D>>> + Send {
        let (queue, extent, at) = (self.clone(), shape.extent(), Location::caller());
        async move {
            let inner = queue.runtime().inner().clone();
            inner.off_thread(move || queue.place_here(kind, extent, at)).await
        }
    }

    /// [`Queue::place`] on this thread, which blocks as long as the driver takes.
    #[track_caller]
    pub fn blocking_place<T: DeviceCopy, const D: usize>(
        &self,
        kind: MemoryKind,
        shape: impl Shape<D>,
    ) -> Result<Buffer<T, D>> {
        self.place_here(kind, shape.extent(), Location::caller())
    }

    /// A buffer of these elements that stays where they are now, in host memory that the device uses in place: nothing is
    /// copied. Only for memory that takes the program's own, and as it is aligned. Where that is refused, the elements are dropped.
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
    #[track_caller]
    pub fn blocking_import<T: DeviceCopy>(&self, kind: MemoryKind, elements: Vec<T>) -> Result<Buffer<T>> {
        let memory = (elements.len(), HostMemory::from_vec(elements));
        self.import_here(kind, memory, Location::caller())
    }

    fn place_here<T: DeviceCopy, const D: usize>(
        &self,
        kind: MemoryKind,
        extent: [usize; D],
        at: &'static Location<'static>,
    ) -> Result<Buffer<T, D>> {
        let (inner, slot) = (self.runtime().inner(), self.slot());
        inner.enter_without_native_calls(|state, _| Inner::check_open(state))?;
        let place = slot.place(kind)?;
        let (home, mut put) = (Home::new(&place, slot), Ok(()));
        let buffer = Buffer::with_root_like(extent, None, |mut root| {
            put = allocate(inner, slot, &place, root.bytes())
                .and_then(|given| root.put(home, given, inner, at));
            root
        });
        buffer.check()?;
        put.map(|()| buffer)
    }

    fn import_here<T: DeviceCopy>(
        &self,
        kind: MemoryKind,
        (len, elements): (usize, HostMemory),
        at: &'static Location<'static>,
    ) -> Result<Buffer<T>> {
        let (inner, slot) = (self.runtime().inner(), self.slot());
        inner.enter_without_native_calls(|state, _| Inner::check_open(state))?;
        let place = slot.place(kind)?;
        let given = match len {
            0 => nothing()?,
            _ => Initial::Written(imported(&place, slot, Arc::new(elements))?),
        };
        let (home, mut put) = (Home::new(&place, slot), Ok(()));
        let buffer = Buffer::with_root_like([len], None, |mut root| {
            put = root.put(home, given, inner, at);
            root
        });
        put.map(|()| buffer)
    }
}

impl<T: DeviceCopy, const D: usize> Buffer<T, D> {
    /// The address of its first element on the devices that reach it: of a buffer that [stays in one memory](Queue::place), where
    /// that has such. It is the same until the last handle of the buffer and the last group that uses it are gone. What is done
    /// with it is only in order with groups that say that they use the buffer.
    pub fn device_address(&self) -> Option<u64> {
        let (root, inner) = (self.root(), self.root().owner()?);
        let (home, binding) = (root.home()?, self.binding(inner, Location::caller()).ok()?);
        let memory = inner.enter_without_native_calls(|state, _| {
            state.engine.allocation(binding.root, home.memory).cloned()
        });
        Some(memory?.device_address()? + binding.offset as u64)
    }
}

/// Makes the allocation of a buffer that stays in a place. Of no bytes it is the heap's: no command uses it.
fn allocate(
    inner: &Arc<Inner>,
    slot: &DeviceSlot,
    place: &Place,
    bytes: usize,
) -> Result<Initial<Arc<dyn Allocation>>> {
    if bytes == 0 {
        return nothing();
    }
    let limit = slot.device.info.limits.allocation;
    let most = place.owner.as_ref().and_then(|owner| owner.info()?.bytes).unwrap_or(u64::MAX).min(limit);
    if bytes as u64 > most {
        return Err(Error::invalid(format!(
            "a buffer of {bytes} bytes, and {} takes {most} in one piece: use several buffers",
            slot.device
        )));
    }
    let object = MemoryObject::Buffer { bytes };
    let made: Made = match &place.owner {
        Some(owner) => make_with_room(owner, object, None),
        None => HostMemory::zeroed(bytes).map(|m| Arc::new(m) as Arc<dyn Allocation>),
    };
    let counted = inner.count(place.memory, bytes, place.owner.as_ref(), made);
    counted.map(Initial::Fresh).map_err(|cause| cause.0)
}

fn nothing() -> Result<Initial<Arc<dyn Allocation>>> {
    let made = HostMemory::zeroed(0).map_err(|error| Error::backend(error, "allocating no bytes"))?;
    Ok(Initial::Fresh(Arc::new(made)))
}

/// Has a place take host memory over.
fn imported(place: &Place, slot: &DeviceSlot, elements: Arc<HostMemory>) -> Result<Arc<dyn Allocation>> {
    // Who works on the heap works on any of it.
    let Some(owner) = place.owner.as_ref().filter(|owner| owner.index != MemoryIndex::Heap) else {
        return Ok(elements);
    };
    let Some(alignment) = place.imports else {
        let what = format!("memory of the program's as {} memory of {}", place.kind, slot.device);
        return Err(Error::unsupported(what));
    };
    let address = elements.host_ptr().map_or(0, |start| start.addr().get());
    if !address.is_multiple_of(alignment.max(1)) {
        return Err(Error::invalid(format!(
            "elements at address {address:#x}, and {} takes memory that is aligned to {alignment} bytes: \
             use `Queue::place` and copy them",
            slot.device
        )));
    }
    let made = catch(|| owner.context.import(owner.index, elements))
        .unwrap_or_else(|panic| Err(BackendError::Panicked(panic.message().into())));
    made.map_err(|error| Error::backend(error, format!("taking memory over for {}", slot.device)))
}
