//! Queues: where groups are submitted.

mod builder;
mod fallback;
mod ready;
mod submit;

use std::fmt;
use std::hash::{Hash, Hasher};
use std::panic::Location;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context as TaskContext, Poll};

pub use builder::QueueBuilder;
pub use ready::{OwnedSlot, Ready, ReadyOwned, Slot};
use windlass_sync::account::Watch;
use windlass_sync::forked;

use crate::context::Context;
use crate::device::{Device, Platform};
use crate::error::Result;
use crate::event::Event;
use crate::group::CommandGroup;
use crate::runtime::Runtime;
use crate::shell::Inner;
use crate::shell::context::DeviceSlot;
use crate::shell::queue::{Hurry, QueueCore};

/// Where groups are submitted: a cheap handle to one device of one context.
///
/// Groups run in an order that the data demands, and else at the same time. Dropping a queue blocks nobody and cancels
/// nothing.
///
/// ```
/// use windlass::prelude::*;
/// # fn main() -> windlass::Result<()> {
/// let queue = Queue::blocking_new()?;
/// println!("running on {}", queue.device());
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Queue {
    runtime: Runtime,
    device: Device,
    core: Arc<QueueCore>,
}

/// Clones of one queue are the same, and nothing else is.
impl PartialEq for Queue {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.core, &other.core)
    }
}
impl Eq for Queue {}

impl Hash for Queue {
    fn hash<H: Hasher>(&self, state: &mut H) {
        Arc::as_ptr(&self.core).hash(state);
    }
}

impl fmt::Debug for Queue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Queue")
            .field("device", &self.device)
            .field("core", &self.core)
            .finish_non_exhaustive()
    }
}

impl Queue {
    /// A queue on the best device there is. Discovery and opening run on a blocking pool.
    ///
    /// ```
    /// # async fn f() -> windlass::Result<()> {
    /// let queue = windlass::Queue::new().await?;
    /// println!("running on {}", queue.device());
    /// # Ok(()) }
    /// # futures::executor::block_on(f()).unwrap();
    /// ```
    pub async fn new() -> Result<Queue> {
        Queue::builder().build().await
    }

    /// [`Queue::new`] on this thread, which blocks as long as drivers take: for programs without async code.
    ///
    /// ```
    /// let queue = windlass::Queue::blocking_new()?;
    /// queue.submit(|_| Ok(()))?.blocking_wait()?;
    /// # Ok::<(), windlass::Error>(())
    /// ```
    pub fn blocking_new() -> Result<Queue> {
        Queue::builder().blocking_build()
    }

    /// A queue on a device, which is opened on a blocking pool.
    ///
    /// ```
    /// # async fn f() -> windlass::Result<()> {
    /// let queue = windlass::Queue::on(windlass::Device::host()).await?;
    /// assert_eq!(queue.device().backend().as_str(), "host");
    /// # Ok(()) }
    /// # futures::executor::block_on(f()).unwrap();
    /// ```
    pub async fn on(device: Device) -> Result<Queue> {
        Queue::builder().device(device).build().await
    }

    /// [`Queue::on`] on this thread, which blocks as long as the driver takes.
    ///
    /// ```
    /// use windlass::prelude::*;
    /// # fn main() -> windlass::Result<()> {
    /// let queue = Queue::blocking_on(Device::host())?;
    /// assert_eq!(*queue.device(), Device::host());
    /// # Ok(()) }
    /// ```
    pub fn blocking_on(device: Device) -> Result<Queue> {
        Queue::builder().device(device).blocking_build()
    }

    /// A queue on a device of an open context.
    ///
    /// ```
    /// use windlass::prelude::*;
    /// # async fn f() -> windlass::Result<()> {
    /// let context = Context::open(&[Device::host()]).await?;
    /// let queue = Queue::in_context(&context, &Device::host()).await?;
    /// assert_eq!(queue.context(), context);
    /// # Ok(()) }
    /// # futures::executor::block_on(f()).unwrap();
    /// ```
    pub async fn in_context(context: &Context, device: &Device) -> Result<Queue> {
        Queue::builder().context(context).device(device.clone()).build().await
    }

    /// [`Queue::in_context`] on this thread, which blocks as long as the driver takes.
    ///
    /// ```
    /// use windlass::prelude::*;
    /// # fn main() -> windlass::Result<()> {
    /// let context = Context::blocking_open(&[Device::host()])?;
    /// let queue = Queue::blocking_in_context(&context, &Device::host())?;
    /// assert_eq!(queue.context(), context);
    /// # Ok(()) }
    /// ```
    pub fn blocking_in_context(context: &Context, device: &Device) -> Result<Queue> {
        Queue::builder().context(context).device(device.clone()).blocking_build()
    }

    /// A queue to be configured.
    ///
    /// ```
    /// use windlass::prelude::*;
    /// # fn main() -> windlass::Result<()> {
    /// let queue = Queue::builder().select(Selector::backend("host")).in_order().max_in_flight(8).blocking_build()?;
    /// assert!(queue.is_in_order());
    /// # Ok(()) }
    /// ```
    pub fn builder() -> QueueBuilder {
        QueueBuilder::default()
    }

    /// The device its groups run on.
    ///
    /// ```
    /// use windlass::prelude::*;
    /// # fn main() -> windlass::Result<()> {
    /// let queue = Queue::blocking_new()?;
    /// println!("{}, with {} units", queue.device(), queue.device().info().compute_units);
    /// # Ok(()) }
    /// ```
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// The platform of its device.
    ///
    /// ```
    /// let queue = windlass::Queue::blocking_new()?;
    /// assert!(queue.platform().devices().contains(queue.device()));
    /// # Ok::<(), windlass::Error>(())
    /// ```
    pub fn platform(&self) -> Platform {
        self.device.platform()
    }

    /// The context it belongs to.
    ///
    /// ```
    /// use windlass::prelude::*;
    /// # fn main() -> windlass::Result<()> {
    /// let queue = Queue::blocking_on(Device::host())?;
    /// // Another queue on the same memory, with the same kernels.
    /// let beside = Queue::blocking_in_context(&queue.context(), queue.device())?;
    /// assert!(beside != queue && beside.context() == queue.context());
    /// # Ok(()) }
    /// ```
    pub fn context(&self) -> Context {
        Context::new(self.runtime.clone(), self.core.slot.context.clone())
    }

    /// The runtime it belongs to.
    ///
    /// ```
    /// let queue = windlass::Queue::blocking_new()?;
    /// let before = queue.runtime().stats().submitted;
    /// queue.submit(|_| Ok(()))?.blocking_wait()?;
    /// assert!(queue.runtime().stats().submitted > before);
    /// # Ok::<(), windlass::Error>(())
    /// ```
    pub fn runtime(&self) -> &Runtime {
        &self.runtime
    }

    /// Whether its groups run in the order of submission.
    ///
    /// ```
    /// use windlass::Queue;
    /// assert!(!Queue::blocking_new()?.is_in_order());
    /// assert!(Queue::builder().in_order().blocking_build()?.is_in_order());
    /// # Ok::<(), windlass::Error>(())
    /// ```
    pub fn is_in_order(&self) -> bool {
        self.core.is_in_order()
    }

    pub(crate) fn slot(&self) -> &Arc<DeviceSlot> {
        &self.core.slot
    }

    pub(crate) fn core(&self) -> &Arc<QueueCore> {
        &self.core
    }

    /// Submits a group: runs the closure once, here and now, and never waits for a device. What can be refused is
    /// refused here; everything else that goes wrong comes out of the event.
    ///
    /// The closure describes work and awaits nothing, so it is no `async` closure (the compiler asks for type annotations
    /// where it is given one): what is to be awaited goes into [`CommandGroup::host_task`] or [`CommandGroup::after`].
    ///
    /// ```
    /// use windlass::prelude::*;
    /// # fn main() -> windlass::Result<()> {
    /// let queue = Queue::blocking_on(Device::host())?;
    /// let (x, y) = (Buffer::from(vec![1_u32, 2, 3]), Buffer::<u32>::new(3));
    /// let event = queue.submit(|cg| cg.copy(&cg.read(&x), &cg.overwrite(&y)))?;
    /// event.blocking_wait()?;
    /// assert_eq!(y.host_read().blocking_wait()?[..], [1, 2, 3]);
    /// // What makes no sense is refused here, and nothing runs.
    /// let outside = queue.submit(|cg| cg.fill(&cg.overwrite(&y.range(2..9)), 0));
    /// assert!(outside.unwrap_err().is_invalid_input());
    /// # Ok(()) }
    /// ```
    #[track_caller]
    pub fn submit<F>(&self, group: F) -> Result<Event>
    where
        F: for<'g> FnOnce(&CommandGroup<'g>) -> Result<()>,
    {
        Inner::check_process()?;
        let generation = self.core.account.enter();
        self.submit_paid(group, generation, None, Location::caller())
    }

    /// Submits a group unless the queue has its limit in flight.
    ///
    /// ```
    /// use windlass::prelude::*;
    /// # fn main() -> windlass::Result<()> {
    /// let queue = Queue::builder().max_in_flight(1).blocking_build()?;
    /// let first = queue.submit(|cg| {
    ///     cg.after(std::future::pending::<windlass::Result<()>>());
    ///     Ok(())
    /// })?;
    /// assert!(queue.try_submit(|_| Ok(())).unwrap_err().is_saturated());
    /// # first.cancel();
    /// # Ok(())
    /// # }
    /// ```
    #[track_caller]
    pub fn try_submit<F>(&self, group: F) -> Result<Event>
    where
        F: for<'g> FnOnce(&CommandGroup<'g>) -> Result<()>,
    {
        self.try_take()?;
        self.submit_paid(group, self.core.account.begin(), None, Location::caller())
    }

    /// Waits until everything has ended that was submitted to this queue before the first poll.
    ///
    /// ```
    /// use windlass::prelude::*;
    /// # async fn f() -> windlass::Result<()> {
    /// let queue = Queue::builder().build().await?;
    /// for _ in 0..10 {
    ///     // Nobody awaits it: it runs all the same.
    ///     let _ = queue.submit(|cg| cg.host_task(async |_| Ok(())))?;
    /// }
    /// queue.drained().await;
    /// assert_eq!(queue.in_flight(), 0);
    /// # Ok(()) }
    /// # futures::executor::block_on(f()).unwrap();
    /// ```
    pub fn drained(&self) -> Drained {
        Drained { core: self.core.clone(), watch: Watch::default(), hurry: Hurry::default() }
    }

    /// How many of the groups submitted to this queue have not ended.
    ///
    /// ```
    /// use windlass::prelude::*;
    /// # fn main() -> windlass::Result<()> {
    /// let queue = Queue::blocking_on(Device::host())?;
    /// let data = Buffer::from(vec![1_u32; 4]);
    /// let guard = data.host_read().blocking_wait()?;
    /// queue.submit(|cg| cg.fill(&cg.overwrite(&data), 2))?;
    /// // It waits for the guard.
    /// assert_eq!(queue.in_flight(), 1);
    /// drop(guard);
    /// queue.drained().blocking_wait()?;
    /// assert_eq!(queue.in_flight(), 0);
    /// # Ok(()) }
    /// ```
    pub fn in_flight(&self) -> u64 {
        if forked::is_child() { 0 } else { self.core.account.under_way() }
    }

    /// Hands the device's driver, now, what has been submitted to this queue and waits for nothing else. Like `submit` it makes native
    /// calls on this thread, a bounded number of them, and waits for none of the work.
    ///
    /// Nothing needs it to run: groups go to the driver by themselves. But while a device has enough to do, another thread may hand them over
    /// a moment later, many at once, which is cheaper; this is for who knows better. What its lanes have no room for goes when they have,
    /// and where a backend gathers what it is given into batches of its own (wgpu), it goes with its batch.
    ///
    /// ```
    /// use windlass::prelude::*;
    /// # fn main() -> windlass::Result<()> {
    /// let (queue, x) = (Queue::blocking_new()?, Buffer::<u32>::new(64));
    /// let event = queue.submit(|cg| cg.fill(&cg.overwrite(&x), 1))?;
    /// queue.flush();
    /// // The device works, and so does this thread.
    /// event.blocking_wait()?;
    /// # Ok(()) }
    /// ```
    pub fn flush(&self) {
        if !forked::is_child() {
            let device = self.core.slot.id;
            self.runtime.inner().enter(|state, turn| state.engine.feed_lists(device, turn));
        }
    }
}

/// See [`Queue::drained`].
#[must_use = "futures do nothing unless awaited"]
#[derive(Debug)]
pub struct Drained {
    core: Arc<QueueCore>,
    watch: Watch,
    hurry: Hurry,
}

impl Drained {
    /// Blocks the thread until then, where [`Event::blocking_wait`] would.
    ///
    /// ```
    /// use windlass::prelude::*;
    /// # fn main() -> windlass::Result<()> {
    /// let queue = Queue::blocking_new()?;
    /// queue.submit(|cg| cg.host_task(async |_| Ok(())))?;
    /// queue.drained().blocking_wait()?;
    /// assert_eq!(queue.in_flight(), 0);
    /// # Ok(())
    /// # }
    /// ```
    pub fn blocking_wait(self) -> Result<()> {
        Inner::check_process()?;
        crate::event::block_on(async {
            self.await;
            Ok(())
        })
    }
}

impl Future for Drained {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut TaskContext<'_>) -> Poll<()> {
        if forked::is_child() {
            return Poll::Ready(());
        }
        let this = self.get_mut();
        let polled = this.core.account.poll_drained(&mut this.watch, cx.waker());
        match polled {
            Poll::Ready(()) => this.hurry.end(&this.core),
            Poll::Pending => this.hurry.begin(&this.core),
        }
        polled
    }
}

impl Drop for Drained {
    fn drop(&mut self) {
        if forked::is_child() {
            return;
        }
        self.hurry.end(&self.core);
        self.core.account.unwatch(&mut self.watch);
    }
}
