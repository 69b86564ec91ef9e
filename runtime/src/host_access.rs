//! Host accessors: data on loan to the program, as guards.

use std::any::Any;
use std::fmt;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::panic::Location;
use std::pin::Pin;
use std::sync::{Arc, Weak};
use std::task::{Context, Poll};
use std::time::Duration;

use windlass_backend::{Allocation, HostMemory};
use windlass_kernel::DeviceCopy;
use windlass_sync::cell::Registration;
use windlass_sync::forked;

use crate::buffer::{Buffer, Early};
use crate::error::{Error, Result};
use crate::host_view::{Elements, Held, OwnMemory};
use crate::shell::host_side::{Coming, GuardCell};
use crate::shell::look::Look;
use crate::shell::memory::heap;
use crate::shell::{Inner, NativeCalls};
use windlass_engine::{Mode, RootId};

/// A guard's place in the order, given back when this is dropped.
#[derive(Debug)]
enum Place {
    /// In a runtime's.
    Bound(Ordered),
    /// Among the host accessors of a buffer without a runtime.
    Early(Early),
}

/// A place in a runtime's order.
#[derive(Debug)]
struct Ordered {
    inner: Arc<Inner>,
    root: RootId,
    guard: Arc<GuardCell>,
    /// For how long its waiter looks by itself.
    looks: Option<Duration>,
    /// Its memory is the engine's no more.
    is_given_up: bool,
}

impl Place {
    fn guard(&self) -> &Arc<GuardCell> {
        match self {
            Place::Bound(place) => &place.guard,
            Place::Early(early) => early.guard(),
        }
    }

    /// Looks whether what it waits for has been copied, if this is one to do so.
    fn looks(&self, look: &mut Look) -> bool {
        let Place::Bound(Ordered { inner, guard, looks: Some(long), .. }) = self else { return false };
        let first = || inner.looking(guard.node()?, *long);
        !look.is_over() && guard.cell.get().is_none() && look.again(inner, first)
    }
}

impl Drop for Ordered {
    fn drop(&mut self) {
        if forked::is_child() {
            return;
        }
        // What was granted and never fetched goes before its place. What would be granted from now on is not taken.
        self.guard.refuse_memory(&self.inner);
        self.inner.end_accessor(&self.guard);
    }
}

/// To clear so many bytes takes some 50 us.
const MAX_SPARE: usize = 1 << 20;

/// The common half of the two futures: takes its place at the first poll, then waits for the memory.
struct Acquire<T, const D: usize> {
    /// Goes before the buffer: who [takes](GuardCell::is_taker) all of it counts on that.
    place: Option<Place>,
    buffer: Buffer<T, D>,
    mode: Mode,
    /// It is to be in the heap, from where it can be taken.
    in_heap: bool,
    /// Its data is the whole buffer's, and who takes it has the only other handle.
    takes_all: bool,
    /// It comes behind readers, too.
    behind_readers: bool,
    /// Its place is not taken in a poll.
    is_aside: bool,
    at: &'static Location<'static>,
    look: Look,
    registration: Registration,
}

impl<T: DeviceCopy, const D: usize> Acquire<T, D> {
    fn new(buffer: Buffer<T, D>, mode: Mode, at: &'static Location<'static>) -> Self {
        Acquire {
            buffer,
            mode,
            in_heap: false,
            takes_all: false,
            behind_readers: false,
            is_aside: false,
            at,
            place: None,
            look: Look::Due,
            registration: Registration::default(),
        }
    }

    fn take_place(&self) -> Result<Place> {
        if let Some(home) = self.buffer.root().home() {
            home.check_host()?;
        }
        // Who takes the data does not change it.
        if !self.in_heap {
            self.buffer.note_use(self.mode);
        }
        let inner = match self.buffer.root().owner() {
            Some(inner) => inner,
            None => match self.buffer.enter_early(self.mode, self.at)? {
                Some(early) => return Ok(Place::Early(early)),
                None => self.buffer.root().owner().unwrap_or_else(|| unreachable!("it has just been bound")),
            },
        };
        let binding = self.buffer.binding(inner, self.at)?;
        let guard = Arc::new(match self.takes_all {
            true => GuardCell::taking(self.at, self.buffer.root().weak()),
            false => GuardCell::new(self.at),
        });
        let (bounds, mode) = self.buffer.guarded(&binding, self.mode);
        let (root, in_heap, behind_readers) = (binding.root, self.in_heap, self.behind_readers);
        let spare = self.spare(inner, root);
        let coming = Coming { guard: guard.clone(), root, bounds, mode, in_heap, behind_readers, spare };
        let may_look = self.mode != Mode::Overwrite && !self.is_aside;
        let looks = may_look.then(|| inner.readers_look(binding.root)).flatten();
        match looks {
            // Who looks asks for the copy here, too: otherwise another thread had to be woken for that.
            Some(_) => inner
                .enter_with(NativeCalls::Few, |state, turn| {
                    Inner::check_open(state)?;
                    Ok::<_, Error>(state.plan_accessor(coming, turn))
                })
                .map(drop)?,
            None => inner.plan_accessor(coming)?,
        }
        inner.watch.start(inner);
        Ok(Place::Bound(Ordered { inner: inner.clone(), root, guard, looks, is_given_up: false }))
    }

    /// Memory for the host's copy, in case that there is none yet and nobody else uses the buffer: then nothing has to be
    /// fetched for an accessor that overwrites. Not of any size, since this is a `poll`: for more the runtime allocates where
    /// that harms nobody. But where a group has failed on memory that was another buffer's, nobody would be shown it otherwise.
    fn spare(&self, inner: &Arc<Inner>, root: RootId) -> Option<Arc<dyn Allocation>> {
        let bytes = self.buffer.root().bytes();
        let shows_others =
            || inner.enter_without_native_calls(|state, _| state.engine.shows_others_in_heap(root));
        let wants = self.mode == Mode::Overwrite && self.buffer.root().home().is_none();
        // The program's allocator may block, so it is asked elsewhere, too; what it is to be in place of is the runtime's own.
        let is_made_here = bytes <= MAX_SPARE && inner.allocator_for(bytes).is_none();
        (wants && (is_made_here || shows_others())).then(|| heap(bytes).ok()).flatten()
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Result<Guarded>> {
        if let Err(error) = Inner::check_process() {
            return Poll::Ready(Err(error));
        }
        if self.place.is_none() {
            match self.take_place() {
                Ok(place) => self.place = Some(place),
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
        let Some(place) = &self.place else { return Poll::Pending };
        if place.looks(&mut self.look) && place.guard().cell.get().is_none() {
            // Not registered: who grants the memory has nobody to wake.
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        std::task::ready!(place.guard().cell.poll_simply(&mut self.registration, cx))?;
        let (memory, given_up) = place.guard().take_memory();
        let span = memory.as_deref().and_then(|m| self.buffer.span(m));
        let held = Held::new(span, memory);
        let mut place = self.place.take();
        if let Some(Place::Bound(place)) = &mut place {
            place.is_given_up = given_up;
        }
        Poll::Ready(Ok(Guarded { held, place }))
    }
}

impl<T, const D: usize> Drop for Acquire<T, D> {
    fn drop(&mut self) {
        if let Some(place) = self.place.as_ref().filter(|_| !forked::is_child()) {
            place.guard().cell.forget(&mut self.registration);
        }
    }
}

/// Memory and place of a guard that was granted: the memory goes first.
#[derive(Debug)]
struct Guarded {
    held: Held,
    place: Option<Place>,
}

macro_rules! guard {
    ($(#[doc = $doc:literal])* $guard:ident $(#[doc = $future_doc:literal])* $future:ident) => {
        $(#[doc = $future_doc])*
        #[must_use = "futures do nothing unless awaited"]
        pub struct $future<T, const D: usize = 1> {
            acquire: Acquire<T, D>,
        }

        impl<T: DeviceCopy, const D: usize> $future<T, D> {
            #[track_caller]
            pub(crate) fn new(buffer: Buffer<T, D>, mode: Mode) -> Self {
                $future { acquire: Acquire::new(buffer, mode, Location::caller()) }
            }

            /// Blocks the thread until the guard is there.
            ///
            /// ```
            /// use windlass::prelude::*;
            /// # fn main() -> windlass::Result<()> {
            /// let data = Buffer::<u32>::new(3);
            /// data.host_write().blocking_wait()?.fill(7);
            /// assert_eq!(data.host_read().blocking_wait()?[..], [7; 3]);
            /// # Ok(()) }
            /// ```
            pub fn blocking_wait(self) -> Result<$guard<T, D>> {
                crate::event::block_on(self)
            }
        }

        impl<T: DeviceCopy, const D: usize> Future for $future<T, D> {
            type Output = Result<$guard<T, D>>;
            fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
                let this = self.get_mut();
                let guarded = std::task::ready!(this.acquire.poll(cx))?;
                let copy = (!guarded.held.is_contiguous()).then(|| guarded.held.gather());
                let shape = this.acquire.buffer.shape();
                Poll::Ready(Ok($guard { copy, guarded, shape, marker: PhantomData }))
            }
        }

        impl<T, const D: usize> fmt::Debug for $future<T, D> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.debug_struct(stringify!($future)).field("buffer", &self.acquire.buffer).finish()
            }
        }

        $(#[doc = $doc])*
        ///
        /// The guard is owned: it may cross `await`s, tasks and threads, and keeps alive what it needs. Groups that
        /// conflict with it wait until it is dropped.
        #[must_use = "dropping the guard gives the data back"]
        pub struct $guard<T: DeviceCopy, const D: usize = 1> {
            /// A part of a grid whose rows do not follow each other is shown as a copy.
            copy: Option<Vec<T>>,
            guarded: Guarded,
            shape: [usize; D],
            marker: PhantomData<fn() -> T>,
        }

        impl<T: DeviceCopy, const D: usize> $guard<T, D> {
            /// The extents of what it shows, outermost first.
            ///
            /// ```
            /// use windlass::prelude::*;
            /// # fn main() -> windlass::Result<()> {
            /// let grid = Buffer::<u32, 2>::new([4, 6]);
            /// let part = grid.range((1..3, ..)).host_read().blocking_wait()?;
            /// assert_eq!((part.shape(), part.len()), ([2, 6], 12));
            /// # Ok(()) }
            /// ```
            pub fn shape(&self) -> [usize; D] {
                self.shape
            }

            /// The elements as bytes.
            ///
            /// ```
            /// use windlass::prelude::*;
            /// # fn main() -> windlass::Result<()> {
            /// let data = Buffer::from(vec![0x0201_u16, 0x0403]);
            /// let mut file = Vec::new();
            /// std::io::Write::write_all(&mut file, data.host_read().blocking_wait()?.as_bytes())?;
            /// assert_eq!(file, [0x0201_u16.to_ne_bytes(), 0x0403_u16.to_ne_bytes()].concat());
            /// # Ok(()) }
            /// ```
            pub fn as_bytes(&self) -> &[u8] {
                windlass_kernel::slice_bytes(self)
            }
        }

        impl<T: DeviceCopy, const D: usize> Deref for $guard<T, D> {
            type Target = [T];
            fn deref(&self) -> &[T] {
                match &self.copy {
                    Some(copy) => copy,
                    None => self.guarded.held.slice(),
                }
            }
        }

        impl<T: DeviceCopy + fmt::Debug, const D: usize> fmt::Debug for $guard<T, D> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Debug::fmt(&**self, f)
            }
        }
    };
}

guard! {
    /// Data on loan for reading; row-major.
    ///
    /// ```
    /// use windlass::prelude::*;
    /// # async fn f() -> windlass::Result<()> {
    /// let grid = Buffer::with_shape([2, 3], vec![1_u32, 2, 3, 4, 5, 6])?;
    /// let values = grid.host_read().await?;
    /// assert_eq!(values[[1, 0]], 4);
    /// assert_eq!(values[0], [1, 2, 3]);
    /// assert_eq!(values.iter().sum::<u32>(), 21);
    /// # Ok(()) }
    /// # futures::executor::block_on(f()).unwrap();
    /// ```
    HostRead
    /// See [`Buffer::host_read`].
    HostReadFuture
}
guard! {
    /// Data on loan for reading and writing; row-major.
    ///
    /// ```
    /// use windlass::prelude::*;
    /// # async fn f() -> windlass::Result<()> {
    /// let queue = Queue::on(Device::host()).await?;
    /// let data = Buffer::<u32>::new(3);
    /// let mut values = data.host_write().await?;
    /// values.copy_from_slice(&[1, 2, 3]);
    /// let event = queue.submit(|cg| cg.fill(&cg.write(&data.range(1..)), 9))?;
    /// assert_eq!(event.status(), Status::Pending, "it waits for the guard");
    /// drop(values);
    /// event.await?;
    /// assert_eq!(data.host_read().await?[..], [1, 9, 9]);
    /// # Ok(()) }
    /// # futures::executor::block_on(f()).unwrap();
    /// ```
    HostWrite
    /// See [`Buffer::host_write`] and [`Buffer::host_overwrite`].
    HostWriteFuture
}

impl<T, const D: usize> HostWriteFuture<T, D> {
    /// The same for who wants to [take](HostWrite::take_vec) the memory.
    pub(crate) fn in_heap(mut self) -> Self {
        self.acquire.in_heap = true;
        self
    }

    /// The same for who takes all of a buffer, and is to be the last who has a handle of it.
    pub(crate) fn takes_all(mut self, is_so: bool) -> Self {
        self.acquire.takes_all = is_so;
        self
    }
}

impl<T: DeviceCopy, const D: usize> HostWriteFuture<T, D> {
    /// Takes its place in the order at once, in a `drop` for instance. If that is refused, so is the first poll.
    pub(crate) fn taking_its_place(mut self) -> Self {
        self.acquire.is_aside = true;
        self.acquire.place = self.acquire.take_place().ok();
        self
    }
}

impl<T, const D: usize> HostReadFuture<T, D> {
    /// The same for who wants the memory that readers before it use to be free: in the heap, and behind them.
    pub(crate) fn behind_readers(mut self) -> Self {
        (self.acquire.in_heap, self.acquire.behind_readers) = (true, true);
        self
    }
}

impl<T: DeviceCopy, const D: usize> DerefMut for HostWrite<T, D> {
    fn deref_mut(&mut self) -> &mut [T] {
        match &mut self.copy {
            Some(copy) => copy,
            None => self.guarded.held.slice_mut(),
        }
    }
}

impl<T: DeviceCopy, const D: usize> Drop for HostWrite<T, D> {
    fn drop(&mut self) {
        // A child may share the memory with its parent, which has gone on.
        if let Some(copy) = self.copy.take().filter(|_| !forked::is_child()) {
            self.guarded.held.scatter(&copy);
        }
    }
}

impl<T: DeviceCopy, const D: usize> HostWrite<T, D> {
    /// How many of the handles to the buffer's root are the guard's own.
    pub(crate) fn root_handles(&self) -> usize {
        usize::from(matches!(self.guarded.place, Some(Place::Early(_))))
    }

    /// Takes the buffer's memory itself as a vector; for the last handle of a buffer, used as a whole.
    pub(crate) fn take_vec(self) -> Vec<T> {
        let len = self.len();
        match self.take_memory() {
            Ok((memory, inner)) => unwrap_memory(memory, len, &inner),
            Err(elements) => elements,
        }
    }

    /// The same for who only reads what is there: no copy is made of memory that no vector has.
    pub(crate) fn take_elements(self) -> Elements<T> {
        let len = self.len();
        let memory = self.take_memory().map(|(memory, inner)| {
            OwnMemory::new(memory, len, inner.clone()).map_err(|memory| (memory, inner))
        });
        match memory {
            Ok(Ok(own)) => Elements::Own(own),
            Ok(Err((memory, inner))) => Elements::Copied(unwrap_memory(memory, len, &inner)),
            Err(elements) => Elements::Copied(elements),
        }
    }

    /// What the engine gives up, and whose it was; a copy of the elements if it keeps it.
    fn take_memory(mut self) -> Result<(Arc<dyn Allocation>, Weak<Inner>), Vec<T>> {
        let Some(place) = self.guarded.place.take() else { return Err(self.to_vec()) };
        let (taken, inner) = match &place {
            Place::Bound(place) if place.is_given_up => {
                (self.guarded.held.take_memory(), Arc::downgrade(&place.inner))
            }
            Place::Bound(place) => {
                let taken =
                    place.inner.enter_without_native_calls(|state, _| state.engine.take_heap(place.root));
                (taken, Arc::downgrade(&place.inner))
            }
            Place::Early(early) => (early.take_memory(), Weak::new()),
        };
        let elements = if taken.is_none() { self.to_vec() } else { Vec::new() };
        // Before the place, so that of what the engine has given up there is no other reference, and so that its own is else the last one
        // and nothing is freed on this thread.
        self.guarded.held = Held::new(None, None);
        taken.map(|memory| (memory, inner)).ok_or(elements)
    }
}

/// The vector of so many elements inside an allocation that came from one, or a copy of what is in it: others may keep it, a recorded
/// sequence for one, though nobody uses it any more. What was copied goes back to whose it was, for the next buffer.
fn unwrap_memory<T: DeviceCopy>(memory: Arc<dyn Allocation>, len: usize, inner: &Weak<Inner>) -> Vec<T> {
    let host = (&*memory as &dyn Any).downcast_ref::<HostMemory>();
    let host = host.unwrap_or_else(|| unreachable!("the engine gives up host memory alone"));
    if !host.is_vec_of::<T>() || Arc::strong_count(&memory) > 1 {
        let elements = crate::host_view::copy_out(host, len);
        if let Some(inner) = inner.upgrade() {
            inner.free_all([memory]);
        }
        return elements;
    }
    let any: Arc<dyn Any + Send + Sync> = memory;
    let host = any.downcast::<HostMemory>().unwrap_or_else(|_| unreachable!("it has just been looked at"));
    let mut elements = match Arc::try_unwrap(host).map(HostMemory::try_into_vec::<T>) {
        Ok(Ok(vec)) => vec,
        Ok(Err(memory)) => crate::host_view::copy_out(&memory, len),
        Err(shared) => crate::host_view::copy_out(&shared, len),
    };
    elements.truncate(len);
    elements
}
