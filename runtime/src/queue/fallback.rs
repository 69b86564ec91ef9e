//! A second queue for what the first one does not take.

use std::panic::Location;

use super::Queue;
use crate::error::{Error, Kind, Result};
use crate::event::Event;
use crate::group::CommandGroup;
use crate::shell::Inner;

impl Queue {
    /// Submits a group here, or to another queue if this one refuses it: its device lacks what the group asks for, has not enough
    /// memory for its buffers, or is lost. If both refuse, the error says what either had to say. A group that makes no
    /// sense anywhere, or whose closure fails of itself, is not tried again; and both queues are of one runtime.
    ///
    /// It is decided at once, and the closure runs once for each queue that is asked. What goes wrong later fails the event: others
    /// may have been planned behind the group by then, so it is not tried again.
    ///
    /// ```
    /// use windlass::prelude::*;
    /// # async fn f() -> windlass::Result<()> {
    /// let (gpu, host) = (Queue::new().await?, Queue::on(Device::host()).await?);
    /// let x = Buffer::<u32>::new(64);
    /// let event = gpu.submit_or(&host, |cg| {
    ///     // Only the host runs closures.
    ///     cg.host_for(64, cg.overwrite(&x), |item, x| x.set(item.id(0), item.id(0) as u32))
    /// })?;
    /// event.await
    /// # }
    /// # futures::executor::block_on(f()).unwrap();
    /// ```
    #[track_caller]
    pub fn submit_or<F>(&self, other: &Queue, group: F) -> Result<Event>
    where
        F: for<'g> Fn(&CommandGroup<'g>) -> Result<()>,
    {
        Inner::check_process()?;
        let at = Location::caller();
        if !self.runtime().is_same(other.runtime()) {
            return Err(Error::invalid(
                "a second queue of another runtime: buffers belong to one, and the first queue has bound them to its own",
            ));
        }
        let submit = |queue: &Queue| queue.submit_paid(&group, queue.core.account.enter(), None, at);
        let first = match submit(self) {
            Err(first) if first.is_of_its_queue() => first,
            decided => return decided,
        };
        submit(other).map_err(|second| {
            let by = [self, other].map(|queue| queue.device.to_string());
            Error::new(Kind::RefusedTwice { by, why: [first, second] })
        })
    }
}
