//! Down to a backend's native objects and back: what the portable API does not cover is one call away.
//!
//! A backend publishes a type that implements [`NativeApi`], and says in its documentation what its native objects are and what may be
//! done with them. Here is what all backends have in common.

mod queue;

use std::any::{Any, type_name};
use std::fmt;
use std::marker::PhantomData;
use std::ops::Deref;
use std::panic::Location;
use std::sync::Arc;

use smallvec::SmallVec;
use windlass_backend::{Allocation, Aspect, BackendError, Context as NativeContext, ImageShape};
pub use windlass_backend::{NativeApi, Part, Region};
use windlass_engine::RootId;
use windlass_kernel::DeviceCopy;
use windlass_sync::panics::catch;

use crate::buffer::{Buffer, Shape};
use crate::context::Context;
use crate::error::{BoxError, Error, Result};
use crate::group::{Accessor, CommandGroup, accessor_binding};
use crate::queue::Queue;
use crate::runtime::Runtime;
use crate::shell::devices::DeviceData;
use crate::shell::native::part_of;
use crate::shell::work::{Planned, PlannedNative};

/// A context as its backend made it; keeps it open.
pub struct NativeContextOf<N: NativeApi> {
    /// Goes before the handle: whose last one closes the context, elsewhere, does so with nobody else holding it.
    native: Arc<dyn NativeContext>,
    _context: Context,
    api: PhantomData<fn() -> N>,
}

impl<N: NativeApi> Deref for NativeContextOf<N> {
    type Target = N::Context;

    fn deref(&self) -> &N::Context {
        match (&*self.native as &dyn Any).downcast_ref() {
            Some(native) => native,
            None => unreachable!("its type was looked at when this was made"),
        }
    }
}

impl<N: NativeApi> fmt::Debug for NativeContextOf<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NativeContextOf").field("backend", &N::BACKEND).finish_non_exhaustive()
    }
}

impl Context {
    /// The context as its backend made it.
    ///
    /// ```no_run
    /// # #[cfg(feature = "wgpu")]
    /// # fn f() -> windlass::Result<()> {
    /// use windlass::prelude::*;
    /// use windlass::wgpu::Wgpu;
    ///
    /// let context = Context::blocking_open(&[Device::blocking_select(Selector::backend("wgpu"))?])?;
    /// let native = context.native::<Wgpu>()?;
    /// println!("{:?}", native.device().limits());
    /// # Ok(()) }
    /// ```
    pub fn native<N: NativeApi>(&self) -> Result<NativeContextOf<N>> {
        let native = self.backend_context().clone();
        match (&*native as &dyn Any).is::<N::Context>() {
            true => Ok(NativeContextOf { _context: self.clone(), native, api: PhantomData }),
            false => Err(Error::invalid(format!(
                "{self} is not one of backend `{}`, or that does not publish it as `{}`",
                N::BACKEND,
                type_name::<N::Context>()
            ))),
        }
    }

    /// Makes a context of a native object of the program's own. What has to be true of the object, its type says. Its
    /// devices are some that the backend lists. Blocks as long as the driver takes.
    ///
    /// ```no_run
    /// # #[cfg(feature = "wgpu")]
    /// # fn f() -> windlass::Result<()> {
    /// use windlass::prelude::*;
    /// use windlass::wgpu::{Wgpu, native::{DeviceHandle, wgpu}};
    ///
    /// /// Lets the runtime work on a device of the program's own.
    /// fn queue_on(device: wgpu::Device, queue: wgpu::Queue) -> windlass::Result<Queue> {
    ///     let context = Context::blocking_from_native::<Wgpu>(&Runtime::new(), DeviceHandle::new(device, queue))?;
    ///     Queue::builder().context(&context).blocking_build()
    /// }
    /// # Ok(()) }
    /// ```
    pub fn blocking_from_native<N: NativeApi>(runtime: &Runtime, object: N::Object) -> Result<Context> {
        Context::adopt(runtime, N::BACKEND, Box::new(object))
    }

    /// [`Context::blocking_from_native`] on a thread that may block.
    ///
    /// ```no_run
    /// # #[cfg(feature = "wgpu")]
    /// # fn f() -> windlass::Result<()> {
    /// use windlass::prelude::*;
    /// use windlass_wgpu::{Wgpu, native::{DeviceHandle, wgpu}};
    ///
    /// /// A queue on the device that the program draws with.
    /// async fn beside(device: wgpu::Device, queue: wgpu::Queue) -> windlass::Result<Queue> {
    ///     let handle = DeviceHandle::new(device, queue);
    ///     let context = Context::from_native::<Wgpu>(&Runtime::global(), handle).await?;
    ///     Queue::builder().context(&context).build().await
    /// }
    /// # Ok(()) }
    /// ```
    pub async fn from_native<N: NativeApi>(runtime: &Runtime, object: N::Object) -> Result<Context> {
        let (inner, runtime) = (runtime.inner().clone(), runtime.clone());
        inner.off_thread(move || Context::blocking_from_native::<N>(&runtime, object)).await
    }
}

impl Queue {
    /// The native context that the queue is in; keeps it open.
    ///
    /// ```
    /// use windlass::prelude::*;
    /// # #[cfg(feature = "wgpu")]
    /// # fn main() -> windlass::Result<()> {
    /// use windlass::wgpu::Wgpu;
    /// let queue = Queue::blocking_on(Device::host())?;
    /// // Each backend's objects are had from its own queues only.
    /// assert!(queue.native::<Wgpu>().unwrap_err().is_invalid_input());
    /// # Ok(()) }
    /// # #[cfg(not(feature = "wgpu"))]
    /// # fn main() {}
    /// ```
    pub fn native<N: NativeApi>(&self) -> Result<NativeContextOf<N>> {
        self.context().native::<N>()
    }

    /// A buffer of native memory that the program has, with what it holds; the memory is kept until the buffer and all groups
    /// that use it have ended. What has to be true of it, its type says. Like one that [stays in the device's
    /// memory](Queue::buffer_in), it is used there by queues of the same context, and others have it copied. Blocks as
    /// long as the driver takes.
    ///
    /// ```no_run
    /// # #[cfg(feature = "wgpu")]
    /// # fn f() -> windlass::Result<()> {
    /// use windlass::prelude::*;
    /// use windlass::wgpu::{Wgpu, native::wgpu};
    ///
    /// /// Reads a buffer of the program's own.
    /// fn contents(queue: &Queue, native: wgpu::Buffer) -> windlass::Result<Vec<u32>> {
    ///     let x = queue.blocking_buffer_from_native::<Wgpu, u32, 1>(64, native)?;
    ///     let shown = Buffer::<u32>::new(64);
    ///     queue.submit(|cg| cg.copy(&cg.read(&x), &cg.overwrite(&shown)))?;
    ///     Ok(shown.host_read().blocking_wait()?.to_vec())
    /// }
    /// # Ok(()) }
    /// ```
    #[track_caller]
    pub fn blocking_buffer_from_native<N: NativeApi, T: DeviceCopy, const D: usize>(
        &self,
        shape: impl Shape<D>,
        memory: N::MemoryObject,
    ) -> Result<Buffer<T, D>> {
        check_backend(&self.slot().device, N::BACKEND, "native memory")?;
        self.adopt_there(Box::new(memory), shape.extent(), Location::caller())
    }

    /// [`Queue::blocking_buffer_from_native`] on a thread that may block.
    #[track_caller]
    pub fn buffer_from_native<N: NativeApi, T: DeviceCopy, const D: usize>(
        &self,
        shape: impl Shape<D>,
        memory: N::MemoryObject,
    ) -> impl Future<Output = Result<Buffer<T, D>>> + Send {
        let (queue, extent, at) = (self.clone(), shape.extent(), Location::caller());
        async move {
            check_backend(&queue.slot().device, N::BACKEND, "native memory")?;
            let inner = queue.runtime().inner().clone();
            inner.off_thread(move || queue.adopt_there(Box::new(memory), extent, at)).await
        }
    }
}

/// What native code in a group works with, while the group is handed to its lane.
pub struct Native<'a, N: NativeApi> {
    place: &'a mut N::Place,
    memory: &'a [(RootId, &'a N::Memory, Option<ImageShape>)],
}

impl<'a, N: NativeApi> Native<'a, N> {
    /// Where native commands go.
    ///
    /// ```no_run
    /// # #[cfg(feature = "wgpu")]
    /// # fn f() -> windlass::Result<()> {
    /// use windlass::prelude::*;
    /// use windlass_wgpu::Wgpu;
    ///
    /// let queue = Queue::builder().select(Selector::backend("wgpu")).blocking_build()?;
    /// queue.submit(|cg| {
    ///     cg.interop_task::<Wgpu>(|mut native| {
    ///         native.place().encoder().insert_debug_marker("here");
    ///         Ok(())
    ///     })
    /// })?;
    /// # Ok(()) }
    /// ```
    pub fn place(&mut self) -> &mut N::Place {
        self.place
    }

    /// The memory that an accessor of the group is in, and the part of it that the accessor shows: bytes, or, where the device
    /// keeps an image as such, texels. Native commands may use that part, as the accessor says that they do, until the group has
    /// ended. An accessor without elements has none.
    ///
    /// ```no_run
    /// # #[cfg(feature = "wgpu")]
    /// # fn f() -> windlass::Result<()> {
    /// use windlass::prelude::*;
    /// use windlass_wgpu::Wgpu;
    ///
    /// let queue = Queue::builder().select(Selector::backend("wgpu")).blocking_build()?;
    /// let x = Buffer::from(vec![1_u32; 8]);
    /// queue.submit(|cg| {
    ///     let part = cg.write(&x.range(4..));
    ///     cg.interop_task::<Wgpu>(move |mut native| {
    ///         // The memory is all of the buffer's, and the accessor's part begins at byte 16.
    ///         let (memory, shown) = native.memory(&part).ok_or("it has elements")?;
    ///         let bytes = shown.region().ok_or("a buffer's memory is linear")?;
    ///         let (from, len) = (bytes.offset as u64, bytes.width as u64);
    ///         native.place().encoder().clear_buffer(memory.buffer(), from, Some(len));
    ///         Ok(())
    ///     })
    /// })?;
    /// assert_eq!(x.host_read().blocking_wait()?[..], [1, 1, 1, 1, 0, 0, 0, 0]);
    /// # Ok(()) }
    /// ```
    pub fn memory<'g, A: Accessor<'g>>(&self, accessor: &A) -> Option<(&'a N::Memory, Part)> {
        let binding = accessor_binding(accessor)?;
        let (_, memory, image) = self.memory.iter().find(|(root, ..)| *root == binding.root)?;
        Some((memory, part_of(*image, binding.region())))
    }
}

impl<N: NativeApi> fmt::Debug for Native<'_, N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Native").field("backend", &N::BACKEND).finish_non_exhaustive()
    }
}

impl<'g> CommandGroup<'g> {
    /// Lets the program hand native commands of its own to the lane, as one command of this group: they come behind the
    /// group's earlier commands, and the group ends when they have. The closure runs once, on the thread that feeds the
    /// group, and must not wait there for the device. An error of it, or a panic, is the group's.
    ///
    /// Only on devices with [`Aspect::NativeCode`], of the backend whose types are named.
    ///
    /// ```no_run
    /// # #[cfg(feature = "wgpu")]
    /// # fn f() -> windlass::Result<()> {
    /// use windlass::prelude::*;
    /// use windlass::wgpu::Wgpu;
    ///
    /// let queue = Queue::builder().select(Selector::backend("wgpu")).blocking_build()?;
    /// let x = Buffer::from(vec![1_u32; 8]);
    /// queue.submit(|cg| {
    ///     let x = cg.read_write(&x);
    ///     cg.interop_task::<Wgpu>(move |mut native| {
    ///         let (memory, _) = native.memory(&x).ok_or("it has elements")?;
    ///         native.place().encoder().clear_buffer(memory.buffer(), 16, None);
    ///         Ok(())
    ///     })
    /// })?;
    /// assert_eq!(x.host_read().blocking_wait()?[..], [1, 1, 1, 1, 0, 0, 0, 0]);
    /// # Ok(()) }
    /// ```
    pub fn interop_task<N: NativeApi>(
        &self,
        code: impl FnOnce(Native<'_, N>) -> std::result::Result<(), BoxError> + Send + 'g,
    ) -> Result<()> {
        let device = &self.queue.slot.device;
        check_backend(device, N::BACKEND, "native code")?;
        if !device.has(Aspect::NativeCode) {
            return Err(Error::unsupported(format!("native code inside a group, on {device}")));
        }
        let code = Unbound { code, api: PhantomData::<fn() -> N> };
        self.push(Planned::Native(Some(Box::new(code))))
    }
}

/// Refuses what is for another backend.
pub(crate) fn check_backend(device: &DeviceData, backend: &str, what: &str) -> Result<()> {
    match device.backend.as_str() == backend {
        true => Ok(()),
        false => Err(Error::invalid(format!(
            "{what} for backend `{backend}` on {device}, which is of backend `{}`",
            device.backend
        ))),
    }
}

struct Unbound<N, F> {
    code: F,
    api: PhantomData<fn() -> N>,
}

impl<N, F> PlannedNative for Unbound<N, F>
where
    N: NativeApi,
    F: FnOnce(Native<'_, N>) -> std::result::Result<(), BoxError> + Send,
{
    fn call(
        self: Box<Self>,
        roots: &[RootId],
        place: &mut dyn Any,
        memory: &[&dyn Allocation],
    ) -> std::result::Result<(), BackendError> {
        let other = |what: &str| BackendError::Unsupported(format!("{what} of backend `{}`", N::BACKEND));
        let place = place.downcast_mut().ok_or_else(|| other("a native place that is not"))?;
        let mut native = SmallVec::<[(RootId, &N::Memory, Option<ImageShape>); 4]>::new();
        for (root, memory) in roots.iter().zip(memory) {
            let (image, memory) = (memory.image(), *memory as &dyn Any);
            native.push((*root, memory.downcast_ref().ok_or_else(|| other("memory that is not"))?, image));
        }
        // A backend may hold what it likes while it calls this: it is spared the program's panics.
        let called = catch(|| {
            let result = (self.code)(Native { place, memory: &native });
            result.map_err(|error| error.to_string())
        });
        match called {
            Ok(Ok(())) => Ok(()),
            Ok(Err(message)) => {
                Err(BackendError::Native { call: "native code of the program", code: 0, message })
            }
            Err(panic) => Err(BackendError::Panicked(panic.message().into())),
        }
    }
}
