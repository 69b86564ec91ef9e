//! What a program can ask an error.

use std::time::Duration;

use windlass_backend::BackendError;

use super::{Error, Kind};

impl Error {
    /// The caller asked for something that makes no sense: a range outside its buffer, arguments that do not fit, a
    /// buffer of another runtime.
    ///
    /// ```
    /// use windlass::prelude::*;
    /// # fn main() -> windlass::Result<()> {
    /// let (queue, x) = (Queue::blocking_new()?, Buffer::<u32>::new(4));
    /// let outside = queue.submit(|cg| cg.fill(&cg.overwrite(&x.range(2..9)), 0));
    /// assert!(outside.unwrap_err().is_invalid_input());
    /// # Ok(()) }
    /// ```
    pub fn is_invalid_input(&self) -> bool {
        matches!(
            self.kind(),
            Kind::Invalid(_)
                | Kind::OtherRuntime { .. }
                | Kind::Aliased(_)
                | Kind::MixedPlatforms(_)
                | Kind::TooLarge(_)
        )
    }

    /// Two mutable views, or a mutable and a shared one, of overlapping memory.
    ///
    /// ```
    /// use windlass::prelude::*;
    /// # fn main() -> windlass::Result<()> {
    /// let (queue, x) = (Queue::blocking_new()?, Buffer::<u32>::new(4));
    /// let aliased = queue.submit(|cg| {
    ///     let (mut some, mut all) = (cg.write(&x.range(..2)), cg.write(&x));
    ///     cg.host_task(async move |host| {
    ///         let _some = host.view_mut(&mut some)?;
    ///         host.view_mut(&mut all)?[3] = 1;
    ///         Ok(())
    ///     })
    /// })?;
    /// let error = aliased.blocking_wait().unwrap_err();
    /// let why = std::error::Error::source(&error).and_then(|why| why.downcast_ref::<windlass::Error>());
    /// assert!(why.unwrap().is_aliased());
    /// # Ok(()) }
    /// ```
    pub fn is_aliased(&self) -> bool {
        matches!(self.kind(), Kind::Aliased(_))
    }

    /// The device or backend cannot do what was asked.
    ///
    /// ```
    /// use windlass::{Priority, prelude::*};
    /// let urgent = Queue::builder().device(Device::host()).priority(Priority::High).blocking_build();
    /// assert!(urgent.unwrap_err().is_unsupported());
    /// ```
    pub fn is_unsupported(&self) -> bool {
        matches!(
            self.kind(),
            Kind::Unsupported(_)
                | Kind::NotShareable { .. }
                | Kind::Backend { error: BackendError::Unsupported(_), .. }
        )
    }

    /// A context was asked for over devices of several platforms.
    ///
    /// ```
    /// use windlass::prelude::*;
    /// # fn main() -> windlass::Result<()> {
    /// let devices = Device::blocking_discover()?;
    /// match Context::blocking_open(&devices) {
    ///     Err(error) if error.is_mixed_platforms() => println!("{error}"),
    ///     together => assert!(together.is_ok() || devices.len() > 1),
    /// }
    /// # Ok(()) }
    /// ```
    pub fn is_mixed_platforms(&self) -> bool {
        matches!(self.kind(), Kind::MixedPlatforms(_))
    }

    /// A context was asked for over devices of one platform that cannot be together in one.
    ///
    /// ```
    /// use windlass::{Platform, prelude::*};
    /// /// One context over all of a platform's devices, or over the first of them.
    /// fn widest(platform: &Platform) -> windlass::Result<Context> {
    ///     match Context::blocking_open(platform.devices()) {
    ///         Err(error) if error.is_not_shareable() => Context::blocking_open(&platform.devices()[..1]),
    ///         other => other,
    ///     }
    /// }
    /// assert_eq!(widest(&Device::host().platform()).unwrap().devices().len(), 1);
    /// ```
    pub fn is_not_shareable(&self) -> bool {
        matches!(self.kind(), Kind::NotShareable { .. })
    }

    /// What the two queues of [`Queue::submit_or`](crate::Queue::submit_or) had to say that both refused a group.
    ///
    /// ```
    /// use windlass::prelude::*;
    /// # fn main() -> windlass::Result<()> {
    /// let context = Context::blocking_open(&[Device::host()])?;
    /// let gone = Queue::blocking_in_context(&context, &Device::host())?;
    /// context.abandon();
    /// let error = gone.submit_or(&gone, |_| Ok(())).unwrap_err();
    /// let [first, second] = error.refusals().unwrap();
    /// assert!(first.is_device_lost() && second.is_device_lost());
    /// # Ok(())
    /// # }
    /// ```
    pub fn refusals(&self) -> Option<&[Error; 2]> {
        match self.kind() {
            Kind::RefusedTwice { why, .. } => Some(why),
            _ => None,
        }
    }

    /// There is no such device, or its backend cannot be used here.
    ///
    /// ```
    /// use windlass::prelude::*;
    /// let abacus = Device::blocking_select(Selector::backend("abacus"));
    /// assert!(abacus.unwrap_err().is_unavailable());
    /// ```
    pub fn is_unavailable(&self) -> bool {
        matches!(self.kind(), Kind::Unavailable { .. } | Kind::NoDevice(_))
    }

    /// The work was cancelled before it ran.
    ///
    /// ```
    /// use windlass::prelude::*;
    /// # fn main() -> windlass::Result<()> {
    /// let never = Queue::blocking_new()?.submit(|cg| Ok(cg.after(std::future::pending::<windlass::Result<()>>())))?;
    /// never.cancel();
    /// assert!(never.blocking_wait().unwrap_err().is_cancelled());
    /// # Ok(()) }
    /// ```
    pub fn is_cancelled(&self) -> bool {
        matches!(self.kind(), Kind::Cancelled)
    }

    /// Something that this work reads, or explicitly depends on, has failed; see [`Error::root`].
    ///
    /// ```
    /// use windlass::prelude::*;
    /// # fn main() -> windlass::Result<()> {
    /// let queue = Queue::blocking_new()?;
    /// let first = queue.submit(|cg| cg.host_task(async |_| Err("no".into())))?;
    /// let second = queue.submit(|cg| Ok(cg.depends_on(&first)))?;
    /// assert!(!first.blocking_wait().unwrap_err().is_dependency_failed());
    /// assert!(second.blocking_wait().unwrap_err().is_dependency_failed());
    /// # Ok(()) }
    /// ```
    pub fn is_dependency_failed(&self) -> bool {
        matches!(self.kind(), Kind::DependencyFailed { .. })
    }

    /// The failure at the root of a dependency's failure; for all other errors, the error itself.
    ///
    /// ```
    /// use windlass::prelude::*;
    /// # fn main() -> windlass::Result<()> {
    /// let (queue, x) = (Queue::blocking_new()?, Buffer::<u32>::new(4));
    /// queue.submit(|cg| {
    ///     let _x = cg.overwrite(&x);
    ///     cg.host_task(async |_| Err("the disk is full".into()))
    /// })?;
    /// let error = x.host_read().blocking_wait().unwrap_err();
    /// assert!(error.is_dependency_failed());
    /// assert!(!error.root().is_dependency_failed());
    /// assert!(error.root().to_string().ends_with("the disk is full"));
    /// # Ok(()) }
    /// ```
    pub fn root(&self) -> &Error {
        match self.kind() {
            Kind::DependencyFailed { root } => root.root(),
            _ => self,
        }
    }

    /// The device is gone.
    ///
    /// ```
    /// use windlass::prelude::*;
    /// # fn main() -> windlass::Result<()> {
    /// let queue = Queue::builder().context(&Context::blocking_open(&[Device::host()])?).blocking_build()?;
    /// queue.context().abandon();
    /// assert!(queue.submit(|_| Ok(())).unwrap_err().is_device_lost());
    /// # Ok(()) }
    /// ```
    pub fn is_device_lost(&self) -> bool {
        matches!(self.root().kind(), Kind::Backend { error: BackendError::Lost(_), .. })
    }

    /// There was not enough memory.
    ///
    /// ```
    /// use windlass::prelude::*;
    /// # fn main() -> windlass::Result<()> {
    /// let (queue, huge) = (Queue::blocking_on(Device::host())?, Buffer::<u8>::new(1 << 50));
    /// let error = queue.submit(|cg| cg.fill(&cg.overwrite(&huge), 0))?.blocking_wait().unwrap_err();
    /// assert!(error.is_out_of_memory());
    /// # Ok(()) }
    /// ```
    pub fn is_out_of_memory(&self) -> bool {
        matches!(self.root().kind(), Kind::Backend { error: BackendError::OutOfMemory { .. }, .. })
    }

    /// The queue's limit of groups in flight is reached.
    ///
    /// ```
    /// use windlass::prelude::*;
    /// # fn main() -> windlass::Result<()> {
    /// let queue = Queue::builder().max_in_flight(1).blocking_build()?;
    /// let _only = queue.try_ready()?;
    /// match queue.try_submit(|_| Ok(())) {
    ///     // Come again, or wait by `queue.ready().await`.
    ///     Err(error) if error.is_saturated() => println!("{error}"),
    ///     other => panic!("{other:?}"),
    /// }
    /// # Ok(()) }
    /// ```
    pub fn is_saturated(&self) -> bool {
        matches!(self.kind(), Kind::Saturated { .. })
    }

    /// Waiting here would block a thread that may have to make the progress waited for: the one that drives a
    /// current-thread runtime, or one of Windlass's own, inside a kernel for instance.
    ///
    /// ```
    /// use windlass::prelude::*;
    /// # fn main() -> windlass::Result<()> {
    /// let queue = Queue::blocking_new()?;
    /// let tokio = tokio::runtime::Builder::new_current_thread().build()?;
    /// tokio.block_on(async {
    ///     let task = queue.submit(|cg| cg.host_task(async |_| Ok(())))?;
    ///     // This thread has to run the task.
    ///     assert!(task.blocking_wait().unwrap_err().is_would_block());
    ///     task.await
    /// })
    /// # }
    /// ```
    pub fn is_would_block(&self) -> bool {
        matches!(self.kind(), Kind::WouldBlock)
    }

    /// The async runtime that a host task or an outside future ran on has ended.
    ///
    /// ```
    /// use windlass::prelude::*;
    /// # fn main() -> windlass::Result<()> {
    /// let (queue, tokio) = (Queue::blocking_new()?, tokio::runtime::Runtime::new()?);
    /// let task = tokio.block_on(async {
    ///     queue.submit(|cg| cg.host_task(async |_| Ok(std::future::pending::<()>().await)))
    /// })?;
    /// drop(tokio);
    /// assert!(task.blocking_wait().unwrap_err().is_runtime_gone());
    /// # Ok(()) }
    /// ```
    pub fn is_runtime_gone(&self) -> bool {
        matches!(self.kind(), Kind::RuntimeGone)
    }

    /// The Windlass runtime has been shut down.
    ///
    /// ```
    /// use windlass::prelude::*;
    /// # fn main() -> windlass::Result<()> {
    /// let runtime = Runtime::new();
    /// let queue = Queue::builder().runtime(&runtime).blocking_build()?;
    /// runtime.abort();
    /// assert!(queue.submit(|_| Ok(())).unwrap_err().is_shut_down());
    /// # Ok(()) }
    /// ```
    pub fn is_shut_down(&self) -> bool {
        matches!(self.kind(), Kind::ShutDown)
    }

    /// The process was forked from one that used Windlass: its threads and devices are not here, so nothing could ever end. A process
    /// that forks before it makes its first runtime has no such errors, and neither has a program that is started.
    /// A child that was forked by a host task or a kernel calls `_exit`, or starts a program: its thread is one of the runtime's.
    ///
    /// ```
    /// use windlass::prelude::*;
    /// fn answer(data: &Buffer<u32>) -> windlass::Result<u32> {
    ///     match data.host_read().blocking_wait() {
    ///         // What a pre-forking server's child may have inherited cannot be used there.
    ///         Err(error) if error.is_forked() => panic!("open the queue after the fork: {error}"),
    ///         read => Ok(read?[0]),
    ///     }
    /// }
    /// assert_eq!(answer(&Buffer::from(vec![7])).unwrap(), 7);
    /// ```
    pub fn is_forked(&self) -> bool {
        matches!(self.kind(), Kind::Forked)
    }

    /// A host kernel, a host task or a future given to `after` panicked.
    ///
    /// ```
    /// use windlass::prelude::*;
    /// # fn main() -> windlass::Result<()> {
    /// let queue = Queue::blocking_on(Device::host())?;
    /// let bad = queue.submit(|cg| cg.host_for(1, (), |_, ()| panic!("a mistake")))?;
    /// assert!(bad.blocking_wait().unwrap_err().is_panic());
    /// # Ok(()) }
    /// ```
    pub fn is_panic(&self) -> bool {
        matches!(
            self.kind(),
            Kind::UserPanicked { .. } | Kind::Backend { error: BackendError::Panicked(_), .. }
        )
    }

    /// A deadline passed.
    ///
    /// ```
    /// use windlass::prelude::*;
    ///
    /// /// A time-out of tokio's becomes such an error by `?`, and cancels the group.
    /// async fn in_time(event: Event) -> windlass::Result<()> {
    ///     tokio::time::timeout(std::time::Duration::from_millis(1), event.cancel_on_drop()).await?
    /// }
    ///
    /// # fn main() -> windlass::Result<()> {
    /// # let tokio = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
    /// # let never = Queue::blocking_new()?.submit(|cg| Ok(cg.after(std::future::pending::<windlass::Result<()>>())))?;
    /// # let in_time = |event| tokio.block_on(in_time(event));
    /// assert!(in_time(never).unwrap_err().is_timeout());
    /// # Ok(()) }
    /// ```
    pub fn is_timeout(&self) -> bool {
        matches!(self.kind(), Kind::Timeout(_))
    }

    /// More was asked for than can be done in time; see [`Error::retry_after`].
    ///
    /// ```
    /// # use windlass::{batch::Batch, prelude::*};
    /// # use std::time::Duration;
    /// # futures::executor::block_on(async {
    /// # let queue = Queue::new().await?;
    /// # let batch = Batch::<u32, u32>::builder(&queue).build(|cg, batch| cg.copy(&cg.read(batch.input()), &cg.overwrite(batch.output())));
    /// // Refused at once, or its time has passed in line: either way no device has worked for it.
    /// let late = batch.within(Duration::ZERO).call([1]).await.unwrap_err();
    /// assert!(late.is_overloaded() || late.is_timeout());
    /// # Ok::<(), windlass::Error>(()) }).unwrap();
    /// ```
    pub fn is_overloaded(&self) -> bool {
        matches!(self.kind(), Kind::Overloaded { .. })
    }

    /// How long it would have taken, of what was refused because it would have taken too long: a `Retry-After`.
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// /// What a service answers to a request that it has not taken.
    /// fn head(error: &windlass::Error) -> String {
    ///     match error.retry_after() {
    ///         Some(wait) => format!("503, Retry-After: {}", wait.as_secs() + 1),
    ///         None => "500".into(),
    ///     }
    /// }
    /// # use windlass::{batch::Batch, prelude::*};
    /// # futures::executor::block_on(async {
    /// # let queue = Queue::new().await?;
    /// # let batch = Batch::<u32, u32>::builder(&queue).build(|cg, batch| cg.copy(&cg.read(batch.input()), &cg.overwrite(batch.output())));
    /// let late = batch.within(Duration::ZERO).call([1]).await.unwrap_err();
    /// assert!(head(&late).starts_with(if late.is_overloaded() { "503" } else { "500" }));
    /// # Ok::<(), windlass::Error>(()) }).unwrap();
    /// ```
    pub fn retry_after(&self) -> Option<Duration> {
        match self.kind() {
            Kind::Overloaded { wait, .. } => Some(*wait),
            _ => None,
        }
    }

    /// Nothing but the end of a host guard could have let this work go on, and the runtime was built to call that an
    /// error ([`DeadlockPolicy::Error`](crate::DeadlockPolicy::Error)).
    ///
    /// ```
    /// use std::time::Duration;
    /// use windlass::{DeadlockPolicy, prelude::*};
    /// # fn main() -> windlass::Result<()> {
    /// let runtime = Runtime::builder();
    /// let runtime = runtime.deadlock_policy(DeadlockPolicy::Error).stall_after(Duration::from_millis(20)).build();
    /// let (queue, x) = (Queue::blocking_on(runtime.host()?)?, Buffer::from(vec![1_u32; 4]));
    /// queue.submit(|cg| cg.fill(&cg.overwrite(&x), 2))?.blocking_wait()?;
    /// let guard = x.host_read().blocking_wait()?;
    /// let stuck = queue.submit(|cg| cg.fill(&cg.overwrite(&x), 3))?;
    /// assert!(stuck.blocking_wait().unwrap_err().is_deadlock(), "the guard is dropped below");
    /// drop(guard);
    /// # Ok(()) }
    /// ```
    pub fn is_deadlock(&self) -> bool {
        matches!(self.root().kind(), Kind::Deadlock(_))
    }

    /// What the backend reported, where a backend did.
    ///
    /// ```
    /// use windlass::{BackendError, prelude::*};
    /// # fn main() -> windlass::Result<()> {
    /// let queue = Queue::blocking_on(Device::host())?;
    /// let bad = queue.submit(|cg| cg.host_for(1, (), |_, ()| panic!("a mistake")))?;
    /// let error = bad.blocking_wait().unwrap_err();
    /// assert!(matches!(error.backend_error(), Some(BackendError::Panicked(_))));
    /// # Ok(()) }
    /// ```
    pub fn backend_error(&self) -> Option<&BackendError> {
        match self.kind() {
            Kind::Backend { error, .. } => Some(error),
            _ => None,
        }
    }
}
