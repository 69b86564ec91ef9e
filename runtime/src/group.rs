//! Command groups: what a submission touches, waits for and does.

mod accessor;
mod builder;
mod chunks;
mod compacted;
mod declared;
mod kernel_call;
mod launch;
mod messages;
mod reached;
pub(crate) mod shape;

use std::cell::{Cell, RefCell};
use std::fmt;
use std::future::Future;
use std::marker::PhantomData;
use std::panic::Location;
use std::sync::Arc;

use smallvec::SmallVec;
use windlass_kernel::{DeviceCopy, LaunchRange, bytes_of};

pub(crate) use accessor::Window;
pub(crate) use accessor::sealed;
pub use accessor::{Accessor, Atomic, Concurrent, Overwrite, Read, ReadWrite, ReadWriteUninit, Write};
use accessor::{Fit, without_gaps};
pub(crate) use builder::Builder;
pub use chunks::{Chunk, ChunkArg, ChunkArgs};
use compacted::Copied;
pub use kernel_call::KernelCall;
pub(crate) use kernel_call::build_values;
pub use launch::{HostArg, HostArgs};
pub(crate) use messages::Listener;

use crate::buffer::{Buffer, Root};
use crate::error::{BoxError, Error, Result};
use crate::event::Events;
use crate::host_task::Host;
use crate::shell::queue::QueueCore;
use crate::shell::task::TaskControl;
use crate::shell::work::{Binding, DeviceCommand, Planned, PlannedCopy, PlannedFill};
use windlass_engine::{Access, Mode};

/// What a group leaves behind when it is cancelled before it ran.
///
/// ```
/// use windlass::prelude::*;
/// # fn main() -> windlass::Result<()> {
/// let queue = Queue::blocking_new()?;
/// let left_by = |what: OnCancel| {
///     let x = Buffer::from(vec![1_u32; 4]);
///     let group = queue.submit(|cg| {
///         cg.on_cancel(what);
///         cg.after(std::future::pending::<windlass::Result<()>>());
///         cg.fill(&cg.overwrite(&x), 9)
///     })?;
///     group.cancel();
///     x.host_read().blocking_wait().map(|x| x[0])
/// };
/// assert_eq!(left_by(OnCancel::KeepPrevious)?, 1);
/// assert!(left_by(OnCancel::Fail).unwrap_err().root().is_cancelled());
/// # Ok(()) }
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum OnCancel {
    /// What it would have written counts as failed to those who read it.
    #[default]
    Fail,
    /// What was there before stays current: one client that hangs up does not spoil a shared buffer. The group's
    /// writes are planned as ones that keep what they do not touch, so what was there before is fetched.
    KeepPrevious,
}

/// One submission in the making: requirements on data, things to wait for, and commands.
///
/// The closure given to [`Queue::submit`](crate::Queue::submit) receives one, and fills it on the caller's thread. The
/// lifetime marks the group: an accessor cannot leave its group, and a host task cannot borrow what the closure's
/// frame owns.
///
/// ```
/// use windlass::prelude::*;
/// # fn main() -> windlass::Result<()> {
/// let queue = Queue::blocking_new()?;
/// let (x, y) = (Buffer::from(vec![1_u32; 64]), Buffer::<u32>::new(64));
/// let event = queue.submit(|cg| {
///     cg.name("double");
///     cg.copy(&cg.read(&x), &cg.overwrite(&y))?;
///     cg.host_for(64, cg.read_write(&y), |item, y| y.set(item.id(0), y.get(item.id(0)) * 2))
/// })?;
/// event.blocking_wait()?;
/// assert_eq!(y.host_read().blocking_wait()?[..], [2; 64]);
/// # Ok(())
/// # }
/// ```
pub struct CommandGroup<'g> {
    pub(crate) queue: Arc<QueueCore>,
    /// Where it is submitted.
    at: &'static Location<'static>,
    pub(crate) builder: RefCell<Builder<'g>>,
    /// Invariant: the brands of two groups do not convert into each other.
    brand: PhantomData<Cell<&'g ()>>,
}

impl fmt::Debug for CommandGroup<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CommandGroup").field("builder", &self.builder).finish_non_exhaustive()
    }
}

impl<'g> CommandGroup<'g> {
    pub(crate) fn new(queue: Arc<QueueCore>, at: &'static Location<'static>) -> Self {
        CommandGroup { queue, at, builder: RefCell::default(), brand: PhantomData }
    }

    /// The group reads the data.
    ///
    /// ```
    /// use windlass::prelude::*;
    /// # fn main() -> windlass::Result<()> {
    /// let (queue, x, sum) = (Queue::blocking_new()?, Buffer::from(vec![1_u32, 2, 3]), Buffer::<u32>::new(3));
    /// // Groups that only read may run at the same time; this one comes after all that write `x`.
    /// queue.submit(|cg| cg.copy(&cg.read(&x), &cg.overwrite(&sum)))?;
    /// assert_eq!(sum.host_read().blocking_wait()?[..], [1, 2, 3]);
    /// # Ok(()) }
    /// ```
    pub fn read<T: DeviceCopy, const D: usize>(&self, buffer: &Buffer<T, D>) -> Read<'g, T, D> {
        Read::new(self.require(buffer, Mode::Read))
    }

    /// The group writes some of the data, and what it does not write stays. Where all of it is written anyway,
    /// [`CommandGroup::overwrite`] saves moving what was there.
    ///
    /// ```
    /// use windlass::prelude::*;
    /// # fn main() -> windlass::Result<()> {
    /// let (queue, data) = (Queue::blocking_on(Device::host())?, Buffer::from(vec![1_u32; 4]));
    /// queue.submit(|cg| cg.host_for(2, cg.write(&data), |item, data| data.set(item.id(0), 9)))?;
    /// assert_eq!(data.host_read().blocking_wait()?[..], [9, 9, 1, 1]);
    /// # Ok(()) }
    /// ```
    pub fn write<T: DeviceCopy, const D: usize>(&self, buffer: &Buffer<T, D>) -> Write<'g, T, D> {
        Write::new(self.require(buffer, Mode::Write))
    }

    /// The group reads and writes the data.
    ///
    /// ```
    /// use windlass::prelude::*;
    /// # fn main() -> windlass::Result<()> {
    /// let (queue, x) = (Queue::blocking_on(Device::host())?, Buffer::from(vec![1_u32, 2, 3]));
    /// for _ in 0..3 {
    ///     // Each one sees what the one before it has left.
    ///     queue.submit(|cg| cg.host_for(3, cg.read_write(&x), |item, x| x.set(item.id(0), 10 * x.get(item.id(0)))))?;
    /// }
    /// assert_eq!(x.host_read().blocking_wait()?[..], [1000, 2000, 3000]);
    /// # Ok(()) }
    /// ```
    pub fn read_write<T: DeviceCopy, const D: usize>(&self, buffer: &Buffer<T, D>) -> ReadWrite<'g, T, D> {
        ReadWrite::new(self.require(buffer, Mode::ReadWrite))
    }

    /// The group writes all of the data that matters: what was there is discarded, and is not moved. What the group
    /// leaves unwritten is unspecified afterwards.
    ///
    /// ```
    /// use windlass::prelude::*;
    /// # fn main() -> windlass::Result<()> {
    /// let (queue, data) = (Queue::blocking_on(Device::host())?, Buffer::<u32>::new(4));
    /// queue.submit(|cg| {
    ///     cg.host_for(4, cg.overwrite(&data), |item, data| data.set(item.id(0), item.id(0) as u32))
    /// })?;
    /// assert_eq!(data.host_read().blocking_wait()?[..], [0, 1, 2, 3]);
    /// # Ok(()) }
    /// ```
    pub fn overwrite<T: DeviceCopy, const D: usize>(&self, buffer: &Buffer<T, D>) -> Overwrite<'g, T, D> {
        Overwrite::new(self.require(buffer, Mode::Overwrite))
    }

    /// The group reads and writes the data, and what was there is not wanted: before it is written, reading gives some
    /// valid value.
    ///
    /// ```
    /// use windlass::prelude::*;
    /// # fn main() -> windlass::Result<()> {
    /// let (queue, scratch) = (Queue::blocking_on(Device::host())?, Buffer::<u32>::new(4));
    /// queue.submit(|cg| {
    ///     let scratch = cg.read_write_uninit(&scratch);
    ///     cg.fill(&scratch, 20)?;
    ///     cg.host_for(4, scratch, |item, s| s.set(item.id(0), s.get(item.id(0)) + 1))
    /// })?;
    /// assert_eq!(scratch.host_read().blocking_wait()?[..], [21; 4]);
    /// # Ok(()) }
    /// ```
    pub fn read_write_uninit<T: DeviceCopy, const D: usize>(
        &self,
        buffer: &Buffer<T, D>,
    ) -> ReadWriteUninit<'g, T, D> {
        ReadWriteUninit::new(self.require(buffer, Mode::ReadWriteUninit))
    }

    /// The group's work-items update the data by atomic operations.
    ///
    /// ```
    /// use windlass::prelude::*;
    /// # fn main() -> windlass::Result<()> {
    /// let queue = Queue::blocking_on(Device::host())?;
    /// let count = Buffer::<u32>::new(1);
    /// queue.submit(|cg| {
    ///     let count = cg.atomic(&count);
    ///     cg.host_for(1000, count, |item, count| {
    ///         if item.id(0) % 10 == 0 {
    ///             count.fetch_add(0, 1);
    ///         }
    ///     })
    /// })?;
    /// assert_eq!(count.host_read().blocking_wait()?[0], 100);
    /// # Ok(())
    /// # }
    /// ```
    pub fn atomic<T: DeviceCopy, const D: usize>(&self, buffer: &Buffer<T, D>) -> Atomic<'g, T, D> {
        if buffer.is_atomic_in_parts() {
            self.builder.borrow_mut().refuse(Error::invalid(format!(
                "an atomic accessor of elements of `{}` in memory of smaller ones, which is shared by those",
                std::any::type_name::<T>()
            )));
        }
        Atomic::new(self.require(buffer, Mode::Atomic))
    }

    /// The group's work-items change the data at the same time as those of other groups that ask for it in this way: such groups are not
    /// ordered among themselves, and behind and ahead of all others as if they wrote it. They may run at the same time, or in any
    /// order: one that waits for another may wait for ever. If one of them fails, the data is unusable until it is overwritten.
    ///
    /// Only for buffers that [stay in shared memory](crate::Queue::buffer_in), of devices that have
    /// [`Aspect::FineMemory`](crate::Aspect::FineMemory), and where there are several in a context
    /// [`Aspect::SharedAtomics`](crate::Aspect::SharedAtomics), and for kernels that update the data by atomic operations, or reach it by its address: a kernel that just writes elements, a copy
    /// and a fill are refused, since what they would leave is not defined.
    ///
    /// ```
    /// use windlass::prelude::*;
    /// use windlass::MemoryKind;
    /// # fn main() -> windlass::Result<()> {
    /// let queue = Queue::blocking_on(Device::host())?;
    /// let count = queue.blocking_buffer_in::<u32, 1>(MemoryKind::Shared, 1)?;
    /// for _ in 0..10 {
    ///     queue.submit(|cg| {
    ///         let count = cg.concurrent(&count);
    ///         cg.host_for(1000, count, |_, count| {
    ///             count.fetch_add(0, 1);
    ///         })
    ///     })?;
    /// }
    /// assert_eq!(count.host_read().blocking_wait()?[0], 10_000);
    /// # Ok(())
    /// # }
    /// ```
    pub fn concurrent<T: DeviceCopy, const D: usize>(&self, buffer: &Buffer<T, D>) -> Concurrent<'g, T, D> {
        let slot = &self.queue.slot;
        let allowed = match buffer.root().home() {
            Some(_) if buffer.is_cast() => Err(Error::invalid(
                "an accessor of data that others change at the same time, as elements of another type than the buffer's own",
            )),
            Some(home) if slot.shares_finely() => home.check_shared(),
            Some(_) => Err(Error::unsupported(format!(
                "an accessor of data that others change at the same time, on {}: use `cg.atomic` or `cg.read_write`",
                slot.device
            ))),
            None => Err(Error::unsupported(
                "an accessor of data that others change at the same time, of a buffer that may go anywhere: keep it in \
                 shared memory, by `Queue::buffer_in`",
            )),
        };
        Concurrent::new(match allowed {
            Ok(()) => self.require(buffer, Mode::Concurrent),
            Err(problem) => {
                self.builder.borrow_mut().refuse(problem);
                None
            }
        })
    }

    /// Registers the requirement. A problem is kept for the end of the closure: accessors nest in expressions.
    fn require<T: DeviceCopy, const D: usize>(&self, buffer: &Buffer<T, D>, mode: Mode) -> Option<Binding> {
        let mut builder = self.builder.borrow_mut();
        buffer.note_use(mode);
        builder.attached.extend(buffer.wanted_back().cloned());
        match buffer.binding(&self.queue.inner, self.at) {
            Ok(binding) => {
                let (root, of_new) = (binding.root, builder.keep(buffer.root(), binding.root));
                let each = |bounds, mode| builder.require(Access { root, bounds, mode }, of_new);
                buffer.pieces(&binding, mode, each);
                Some(binding)
            }
            Err(problem) => {
                builder.refuse(problem);
                None
            }
        }
    }

    /// Registers what was required of a buffer before.
    pub(crate) fn require_again(&self, root: &Arc<Root>, accesses: &[Access]) -> Result<()> {
        let mut builder = self.builder.borrow_mut();
        let id = root.bind(&self.queue.inner, self.at)?;
        let of_new = builder.keep(root, id);
        for access in accesses.iter().filter(|access| access.root == id) {
            builder.require(*access, of_new);
        }
        Ok(())
    }

    /// The group runs after this event's group, or those of a set of events, and fails if one of them fails.
    ///
    /// ```
    /// use windlass::prelude::*;
    /// # fn main() -> windlass::Result<()> {
    /// let queue = Queue::blocking_new()?;
    /// let first = queue.submit(|cg| cg.host_task(async |_| Err("no".into())))?;
    /// let second = queue.submit(|cg| {
    ///     cg.depends_on(&first);
    ///     Ok(())
    /// })?;
    /// assert!(second.blocking_wait().unwrap_err().is_dependency_failed());
    /// assert!(first.blocking_wait().is_err());
    /// # Ok(())
    /// # }
    /// ```
    pub fn depends_on(&self, event: &impl Events) {
        event.each(&mut |event| self.builder.borrow_mut().after_event(&self.queue.inner, event, true));
    }

    /// The group runs after this event's group has ended, however it has.
    ///
    /// ```
    /// use windlass::prelude::*;
    /// # fn main() -> windlass::Result<()> {
    /// let (queue, free) = (Queue::blocking_new()?, Buffer::<u32>::new(1));
    /// let risky = queue.submit(|cg| cg.host_task(async |_| Err("no".into())))?;
    /// queue.submit(|cg| {
    ///     cg.after_end(&risky);
    ///     cg.fill(&cg.overwrite(&free), 1)
    /// })?;
    /// assert_eq!(free.host_read().blocking_wait()?[0], 1);
    /// assert!(risky.blocking_wait().is_err());
    /// # Ok(()) }
    /// ```
    pub fn after_end(&self, event: &impl Events) {
        event.each(&mut |event| self.builder.borrow_mut().after_event(&self.queue.inner, event, false));
    }

    /// The group runs after this future is done, and fails if its output is an error or it panics. The future is
    /// polled on the tokio runtime that is current here, else on Windlass's executor for user code, and is dropped
    /// if the group is cancelled.
    ///
    /// ```
    /// use windlass::prelude::*;
    /// # fn main() -> windlass::Result<()> {
    /// let queue = Queue::blocking_new()?;
    /// let (send, receive) = futures::channel::oneshot::channel::<()>();
    /// let event = queue.submit(|cg| {
    ///     cg.after(receive);
    ///     Ok(())
    /// })?;
    /// assert_eq!(event.status(), Status::Pending);
    /// send.send(()).unwrap();
    /// event.blocking_wait()?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn after<E: Into<BoxError>>(&self, future: impl Future<Output = Result<(), E>> + Send + 'static) {
        let future = Box::pin(async move { future.await.map_err(Into::into) });
        self.builder.borrow_mut().outside.push(future);
    }

    /// What the group leaves behind if it is cancelled.
    ///
    /// ```
    /// use windlass::prelude::*;
    /// # fn main() -> windlass::Result<()> {
    /// let queue = Queue::blocking_new()?;
    /// let shared = Buffer::from(vec![1_u32; 8]);
    /// let request = queue.submit(|cg| {
    ///     cg.on_cancel(OnCancel::KeepPrevious);
    ///     cg.after(std::future::pending::<windlass::Result<()>>());
    ///     cg.fill(&cg.overwrite(&shared), 9)
    /// })?;
    /// request.cancel();
    /// assert_eq!(shared.host_read().blocking_wait()?[..], [1; 8]);
    /// # Ok(())
    /// # }
    /// ```
    pub fn on_cancel(&self, what: OnCancel) {
        self.builder.borrow_mut().keep_previous = what == OnCancel::KeepPrevious;
    }

    /// A name for traces and reports.
    ///
    /// ```
    /// use windlass::prelude::*;
    /// # fn main() -> windlass::Result<()> {
    /// let failed = Queue::blocking_new()?.submit(|cg| {
    ///     cg.name(format!("request {}", 7));
    ///     cg.host_task(async |_| Err("no".into()))
    /// })?;
    /// assert_eq!(failed.blocking_wait().unwrap_err().group(), Some("request 7"));
    /// # Ok(()) }
    /// ```
    pub fn name(&self, name: impl Into<std::borrow::Cow<'static, str>>) {
        self.builder.borrow_mut().name = Some(name.into());
    }

    /// Runs a kernel over a range.
    ///
    /// An argument may be a part of a grid whose rows do not follow each other. The host's kernels and `#[kernel]`s over views work on
    /// it where it is; other kernels get a copy, and what they may have written is copied back behind the launch. Two such arguments
    /// may show the same part; parts that overlap otherwise, where the kernel writes one of them, are refused.
    ///
    /// ```
    /// use windlass::prelude::*;
    ///
    /// #[windlass::kernel]
    /// fn darken(pixels: &mut View<f32, 2>) {
    ///     pixels[global_id(0)][global_id(1)] *= 0.5;
    /// }
    ///
    /// # fn main() -> windlass::Result<()> {
    /// let queue = Queue::blocking_new()?;
    /// let image = Buffer::with_shape([64, 64], vec![1.0_f32; 64 * 64])?;
    /// let border = image.range((.., 0..2));
    /// queue.submit(|cg| cg.parallel_for([64, 2], darken(cg.read_write(&border))))?;
    /// let image = image.host_read().blocking_wait()?.to_vec();
    /// assert_eq!(image[..4], [0.5, 0.5, 1.0, 1.0]);
    /// # Ok(())
    /// # }
    /// ```
    pub fn parallel_for(&self, range: impl LaunchRange, call: KernelCall<'g>) -> Result<()> {
        let range = range.range();
        let range = call.in_groups(range)?;
        let items = call.check(&range)?;
        let mut call = self.listening(call);
        let copies = self.compact(&mut call)?;
        let planned = call.plan(&self.queue.inner, &self.queue.slot, range)?;
        if items == 0 {
            // The requirements stand, and there is nothing to run.
            return Ok(());
        }
        let (made, brought_back) =
            (copies.iter().filter_map(Copied::make), copies.iter().filter_map(Copied::bring_back));
        made.chain([planned]).chain(brought_back).try_for_each(|command| self.push(Planned::Device(command)))
    }

    /// Copies elements from one accessor to another of the same shape, or of another number of dimensions and as many
    /// elements: then row-major order says which goes where. (If neither side is a buffer whose elements follow
    /// each other, they go by memory of their own, which is a copy more.)
    ///
    /// ```
    /// use windlass::prelude::*;
    /// # fn main() -> windlass::Result<()> {
    /// let queue = Queue::blocking_new()?;
    /// let (line, grid) = (Buffer::from(vec![1_u32, 2, 3, 4]), Buffer::<u32, 2>::new([2, 2]));
    /// queue.submit(|cg| cg.copy(&cg.read(&line), &cg.overwrite(&grid)))?;
    /// assert_eq!(grid.host_read().blocking_wait()?[[1, 0]], 3);
    /// # Ok(()) }
    /// ```
    pub fn copy<'a, T, A, B>(&self, from: &'a A, to: &'a B) -> Result<()>
    where
        T: DeviceCopy,
        A: Accessor<'g, Elem = T>,
        B: Accessor<'g, Elem = T>,
    {
        let (Some(from), Some(to)) = (from.binding(), to.binding()) else { return Ok(()) };
        accessor::check_modes(from_mode::<A>(), from_mode::<B>())?;
        let fit = accessor::of_one_shape(from, to)?;
        if from.overlaps(&to) {
            return Err(Error::invalid("a copy's source and destination overlap"));
        }
        let push =
            |from, to| self.push(Planned::Device(DeviceCommand::Copy(Box::new(PlannedCopy { from, to }))));
        match fit {
            _ if from.is_empty() => Ok(()),
            Fit::At(from, to) => push(from, to),
            Fit::ByLine => {
                let line = Buffer::<T>::new(from.len());
                let Some(line) = self.read_write_uninit(&line).binding() else { return Ok(()) };
                push(from, without_gaps(line, from.extent.size))?;
                push(without_gaps(line, to.extent.size), to)
            }
        }
    }

    /// Sets all elements of an accessor.
    ///
    /// ```
    /// use windlass::prelude::*;
    /// # fn main() -> windlass::Result<()> {
    /// let (queue, data) = (Queue::blocking_new()?, Buffer::from(vec![1_u32; 4]));
    /// queue.submit(|cg| cg.fill(&cg.overwrite(&data.range(2..)), 7))?;
    /// assert_eq!(data.host_read().blocking_wait()?[..], [1, 1, 7, 7]);
    /// # Ok(()) }
    /// ```
    pub fn fill<T: DeviceCopy, A: Accessor<'g, Elem = T>>(&self, to: &A, value: T) -> Result<()> {
        let Some(binding) = to.binding() else { return Ok(()) };
        accessor::check_modes(Mode::Read, from_mode::<A>())?;
        match binding.is_empty() {
            true => Ok(()),
            false => {
                let pattern = SmallVec::from_slice(bytes_of(&value));
                let fill = PlannedFill { to: binding, pattern };
                self.push(Planned::Device(DeviceCommand::Fill(Box::new(fill))))
            }
        }
    }

    /// Runs an async closure on the host, with the group's data: on the tokio runtime that is current here, else on
    /// Windlass's executor for user code. It is the only command of its group, and may await whatever it likes while
    /// devices go on with other work.
    ///
    /// ```
    /// use windlass::prelude::*;
    /// # fn main() -> windlass::Result<()> {
    /// let queue = Queue::blocking_new()?;
    /// let data = Buffer::from(vec![1_u32, 2, 3]);
    /// queue.submit(|cg| {
    ///     let data = cg.read_write(&data);
    ///     cg.host_task(async move |host| {
    ///         let mut data = data;
    ///         host.view_mut(&mut data)?[0] = 7;
    ///         Ok(())
    ///     })
    /// })?;
    /// assert_eq!(data.host_read().blocking_wait()?[..], [7, 2, 3]);
    /// # Ok(())
    /// # }
    /// ```
    pub fn host_task<F, Fut>(&self, task: F) -> Result<()>
    where
        F: FnOnce(Host<'g>) -> Fut + Send + 'g,
        Fut: Future<Output = Result<(), BoxError>> + Send + 'g,
    {
        let control = Arc::new(TaskControl::default());
        let command = crate::host_task::command(task, control.clone());
        self.builder.borrow_mut().host_task(command, control)
    }

    pub(crate) fn push(&self, command: Planned<'g>) -> Result<()> {
        self.builder.borrow_mut().command(command)
    }
}

/// An accessor's window, where its requirement was accepted and it has elements.
pub(crate) fn accessor_binding<'g, A: Accessor<'g>>(accessor: &A) -> Option<Binding> {
    accessor.binding().filter(|binding| !binding.is_empty())
}

/// Refuses an accessor that does not say what is there.
pub(crate) fn check_is_read<'g, A: Accessor<'g>>(what: &str) -> Result<()> {
    match A::MODE.0.reads() {
        true => Ok(()),
        false => Err(Error::invalid(format!(
            "{what}, of data that was required for writing only: use `cg.read` for it"
        ))),
    }
}

fn from_mode<'g, A: Accessor<'g>>() -> Mode {
    A::MODE.0
}
