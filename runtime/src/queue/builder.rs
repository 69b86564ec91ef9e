//! Building queues.

use std::sync::Arc;

use windlass_backend::{Aspect, CompletionStrategy, Priority};

use super::Queue;
use crate::context::Context;
use crate::device::{Device, Selector};
use crate::error::{Error, Result};
use crate::interop::check_backend;
use crate::runtime::Runtime;
use crate::shell::Inner;
use crate::shell::context::{ContextShared, DeviceSlot, LaneKind};
use crate::shell::own_lanes::{GivenQueue, OwnLanes};
use crate::shell::queue::QueueCore;
use crate::shell::report::{AsyncError, Handler};

/// Groups in flight before [`Queue::ready`] waits, unless the builder says otherwise.
const DEFAULT_LIMIT: u32 = 1024;

/// A queue to be built.
///
/// ```
/// use windlass::prelude::*;
/// # async fn f() -> windlass::Result<()> {
/// let queue = Queue::builder().device(Device::host()).in_order().max_in_flight(256).build().await?;
/// assert!(queue.is_in_order());
/// # Ok(()) }
/// # futures::executor::block_on(f()).unwrap();
/// ```
#[derive(Debug, Default)]
pub struct QueueBuilder {
    runtime: Option<Runtime>,
    device: Option<Device>,
    selector: Option<Selector>,
    context: Option<Context>,
    in_order: bool,
    limit: Option<u32>,
    handler: Option<Handler>,
    kind: LaneKind,
    given: Option<GivenQueue>,
}

/// Where a queue's groups go.
struct Lanes {
    device: Device,
    slot: Arc<DeviceSlot>,
    own: Option<OwnLanes>,
    /// Whether they time their groups.
    timed: bool,
}

impl QueueBuilder {
    /// The runtime, where it is not the process's default one.
    ///
    /// ```
    /// use windlass::prelude::*;
    /// # fn main() -> windlass::Result<()> {
    /// let runtime = Runtime::builder().profiling().build();
    /// let queue = Queue::builder().runtime(&runtime).blocking_build()?;
    /// queue.submit(|_| Ok(()))?.blocking_wait()?;
    /// assert_eq!(runtime.stats().submitted, 1);
    /// # Ok(()) }
    /// ```
    pub fn runtime(mut self, runtime: &Runtime) -> Self {
        self.runtime = Some(runtime.clone());
        self
    }

    /// The device, where it is not the best there is.
    ///
    /// ```
    /// use windlass::prelude::*;
    /// # fn main() -> windlass::Result<()> {
    /// let queue = Queue::builder().device(Device::host()).blocking_build()?;
    /// assert_eq!(*queue.device(), Device::host());
    /// # Ok(()) }
    /// ```
    pub fn device(mut self, device: Device) -> Self {
        self.device = Some(device);
        self
    }

    /// How to choose the device.
    ///
    /// ```
    /// use windlass::prelude::*;
    /// # fn main() -> windlass::Result<()> {
    /// let closures = Selector::backend("host").aspect(Aspect::HostBodies);
    /// let queue = Queue::builder().select(closures).blocking_build()?;
    /// assert!(queue.device().has(Aspect::HostBodies));
    /// # Ok(()) }
    /// ```
    pub fn select(mut self, selector: Selector) -> Self {
        self.selector = Some(selector);
        self
    }

    /// The context, where it is not the runtime's own of that device.
    ///
    /// ```
    /// use windlass::prelude::*;
    /// # fn main() -> windlass::Result<()> {
    /// let context = Context::blocking_open(&[Device::host()])?;
    /// // It is on the context's first device, unless another one is named.
    /// let queue = Queue::builder().context(&context).in_order().blocking_build()?;
    /// assert_eq!(queue.context(), context);
    /// # Ok(()) }
    /// ```
    pub fn context(mut self, context: &Context) -> Self {
        self.context = Some(context.clone());
        self
    }

    /// Groups run one after the other, in the order of submission.
    ///
    /// ```
    /// use windlass::prelude::*;
    /// # fn main() -> windlass::Result<()> {
    /// let queue = Queue::builder().device(Device::host()).in_order().blocking_build()?;
    /// let nap = std::time::Duration::from_millis(5);
    /// let slow = queue.submit(|cg| cg.host_for(1, (), move |_, ()| std::thread::sleep(nap)))?;
    /// // They share no data, and yet this one runs behind the other.
    /// queue.submit(|cg| cg.host_for(1, (), |_, ()| ()))?.blocking_wait()?;
    /// assert_eq!(slow.status(), Status::Done);
    /// # Ok(()) }
    /// ```
    pub fn in_order(mut self) -> Self {
        self.in_order = true;
        self
    }

    /// How many groups may be in flight before [`Queue::ready`] waits.
    ///
    /// ```
    /// use windlass::prelude::*;
    /// # fn main() -> windlass::Result<()> {
    /// let queue = Queue::builder().max_in_flight(2).blocking_build()?;
    /// let (first, _second) = (queue.try_ready()?, queue.try_ready()?);
    /// assert!(queue.try_ready().unwrap_err().is_saturated());
    /// drop(first);
    /// assert!(queue.try_ready().is_ok());
    /// # Ok(()) }
    /// ```
    pub fn max_in_flight(mut self, groups: u32) -> Self {
        self.limit = Some(groups);
        self
    }

    /// How the queue learns that its work has ended, where it is not to be the way that suits the device's driver best.
    /// A device that does not offer it is an error. Queues of one context that differ in this share memory and kernels, and
    /// run side by side.
    ///
    /// ```
    /// use windlass::prelude::*;
    /// use windlass::CompletionStrategy;
    /// # fn main() -> windlass::Result<()> {
    /// let queue = Queue::builder().device(Device::host()).completion(CompletionStrategy::Callback).blocking_build()?;
    /// # drop(queue);
    /// let other = Queue::builder().device(Device::host()).completion(CompletionStrategy::Waiter).blocking_build();
    /// assert!(other.unwrap_err().is_unsupported());
    /// # Ok(())
    /// # }
    /// ```
    pub fn completion(mut self, strategy: CompletionStrategy) -> Self {
        self.kind.completion = Some(strategy);
        self
    }

    /// How the queue's work stands to that of other queues on the device. One without
    /// [`Aspect::Priorities`] takes normal priority only: anything else is an error.
    ///
    /// ```
    /// use windlass::prelude::*;
    /// use windlass::Priority;
    /// let urgent = Queue::builder().device(Device::host()).priority(Priority::High).blocking_build();
    /// assert!(urgent.unwrap_err().is_unsupported(), "threads of this process have no priorities");
    /// ```
    pub fn priority(mut self, priority: Priority) -> Self {
        self.kind.priority = priority;
        self
    }

    /// Notes when groups start and end on the device, for [`Event::profile`](crate::Event::profile). A device without
    /// [`Aspect::Profiling`] is an error.
    ///
    /// ```
    /// use windlass::prelude::*;
    /// # fn main() -> windlass::Result<()> {
    /// let queue = Queue::builder().device(Device::host()).profiling().blocking_build()?;
    /// let event = queue.submit(|cg| cg.host_for(1, (), |_, ()| std::thread::sleep(std::time::Duration::from_millis(2))))?;
    /// event.blocking_wait()?;
    /// assert!(event.profile().unwrap().duration().as_millis() >= 2);
    /// # Ok(())
    /// # }
    /// ```
    pub fn profiling(mut self) -> Self {
        self.kind.timed = true;
        self
    }

    /// Who is told of errors that nobody awaited.
    ///
    /// ```
    /// use windlass::prelude::*;
    /// # fn main() -> windlass::Result<()> {
    /// let (tell, told) = std::sync::mpsc::channel();
    /// let queue = Queue::builder()
    ///     .handler(move |errors| errors.iter().for_each(|e| tell.send(e.error().to_string()).unwrap()))
    ///     .blocking_build()?;
    /// // Its event is dropped, and nobody else would hear of it.
    /// queue.submit(|cg| cg.host_task(async |_| Err("the disk is full".into())))?;
    /// assert!(told.recv().unwrap().contains("the disk is full"));
    /// # Ok(()) }
    /// ```
    pub fn handler(mut self, handler: impl Fn(&[AsyncError]) + Send + Sync + 'static) -> Self {
        self.handler = Some(Handler(Arc::new(handler)));
        self
    }

    /// Builds the queue; discovers and opens what is needed on a blocking pool.
    ///
    /// ```
    /// use windlass::prelude::*;
    /// # async fn f() -> windlass::Result<()> {
    /// let queue = Queue::builder().select(Selector::backend("host")).build().await?;
    /// assert_eq!(queue.device().backend().as_str(), "host");
    /// let unknown = Queue::builder().select(Selector::backend("abacus")).build().await;
    /// assert!(unknown.unwrap_err().is_unavailable());
    /// # Ok(()) }
    /// # futures::executor::block_on(f()).unwrap();
    /// ```
    pub async fn build(self) -> Result<Queue> {
        Inner::check_process()?;
        let runtime = self.runtime_of();
        let inner = runtime.clone();
        inner.inner().off_thread(move || self.build_here(runtime)).await
    }

    /// Builds the queue on this thread, which blocks as long as drivers take: for `main`.
    ///
    /// ```
    /// use windlass::prelude::*;
    /// # fn main() -> windlass::Result<()> {
    /// let queue = Queue::builder().device(Device::host()).max_in_flight(64).blocking_build()?;
    /// queue.submit(|_| Ok(()))?.blocking_wait()?;
    /// let none = Queue::builder().max_in_flight(0).blocking_build();
    /// assert!(none.unwrap_err().is_invalid_input());
    /// # Ok(()) }
    /// ```
    pub fn blocking_build(self) -> Result<Queue> {
        Inner::check_process()?;
        let runtime = self.runtime_of();
        self.build_here(runtime)
    }

    fn runtime_of(&self) -> Runtime {
        match (&self.runtime, &self.context, &self.device) {
            (Some(runtime), ..) => runtime.clone(),
            (None, Some(context), _) => context.runtime().clone(),
            (None, None, Some(device)) => device.runtime().clone(),
            (None, None, None) => Runtime::global(),
        }
    }

    /// Its groups are to go to a native queue of the program's.
    pub(crate) fn over(mut self, given: GivenQueue) -> Self {
        self.given = Some(given);
        self
    }

    fn build_here(mut self, runtime: Runtime) -> Result<Queue> {
        if self.limit == Some(0) {
            return Err(Error::invalid("`max_in_flight` must be at least 1"));
        }
        if let Some(context) = &self.context {
            of_one_runtime((&runtime, "the queue's runtime"), (context.runtime(), &format!("{context}")))?;
        }
        let named = self.named_device(&runtime)?;
        let Lanes { device, slot, own, timed } = match self.given.take() {
            Some(given) => self.own_lane(&runtime, given, named.as_ref())?,
            None => self.shared_lanes(&runtime, named)?,
        };
        let clock = match (self.kind.timed, timed) {
            (true, _) => Some(slot.clock()?),
            // Where the runtime asks for it, a device whose clock is not to be had is as good as one without.
            (false, true) => slot.clock().ok(),
            (false, false) => None,
        };
        let core = QueueCore::new(
            runtime.inner().clone(),
            (slot, own),
            self.limit.unwrap_or(DEFAULT_LIMIT),
            self.in_order,
            clock,
            self.handler,
        );
        Ok(Queue { runtime, device, core: Arc::new(core) })
    }

    /// The device that was named, if it is one of the runtime's.
    fn named_device(&mut self, runtime: &Runtime) -> Result<Option<Device>> {
        let Some(device) = self.device.take() else { return Ok(None) };
        let named = format!("{device}");
        match &self.context {
            Some(context) => {
                of_one_runtime((context.runtime(), &format!("{context}")), (device.runtime(), &named))?;
            }
            None => of_one_runtime((runtime, "the queue's runtime"), (device.runtime(), &named))?,
        }
        Ok(Some(device))
    }

    /// The lanes of a device in a context, which all its queues of one kind share.
    fn shared_lanes(&mut self, runtime: &Runtime, named: Option<Device>) -> Result<Lanes> {
        let device = match (named, &self.context) {
            (Some(device), _) => device,
            (None, Some(context)) => context.devices().swap_remove(0),
            (None, None) => runtime.select_here(self.selector.take().unwrap_or_default())?,
        };
        let mut kind = self.kind;
        kind.timed |= runtime.profiles() && device.has(Aspect::Profiling);
        let slot = match &self.context {
            Some(context) => context.slot(&device, kind)?,
            None => runtime.default_slot(&device, kind)?,
        };
        Ok(Lanes { device, slot, own: None, timed: kind.timed })
    }

    /// A lane over a native queue, which says itself what device it is on.
    fn own_lane(&self, runtime: &Runtime, given: GivenQueue, named: Option<&Device>) -> Result<Lanes> {
        let Some(context) = &self.context else {
            return Err(Error::invalid(
                "a native queue without its context: name that by `context`, or make the queue by `Queue::from_native`",
            ));
        };
        for device in context.shared().devices() {
            check_backend(device, given.backend, "a native queue")?;
        }
        let (data, of) = context.shared().native_queue(&given)?;
        if let Some(named) = named.filter(|named| !named.data.is_same(data)) {
            return Err(Error::invalid(format!(
                "a native queue on {data} for a queue on {named}: leave the device out, or make the native queue on that one"
            )));
        }
        let mut kind = self.kind;
        kind.timed |= runtime.profiles() && of.times;
        let device = Device::new(runtime.clone(), data.clone());
        let (slot, own) = ContextShared::own_lane(context.shared(), runtime.inner(), given, of, kind)?;
        Ok(Lanes { device, slot, own: Some(own), timed: kind.timed })
    }
}

/// Refuses what comes from two runtimes, each of which has numbers of its own for devices and data.
fn of_one_runtime((one, first): (&Runtime, &str), (other, second): (&Runtime, &str)) -> Result<()> {
    match one.is_same(other) {
        true => Ok(()),
        false => Err(Error::invalid(format!(
            "{second} belongs to another runtime than {first}: a queue, its context and its device are of one"
        ))),
    }
}
