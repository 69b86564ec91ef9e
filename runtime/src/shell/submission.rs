//! A group on its way to its place in the order, where its submitter found the engine's lock taken and has gone on.
//!
//! It has its name and its event already. Whatever its submitter does next comes behind it, by whichever thread: whoever takes the lock
//! reads the messages first, and reads them in the order in which they were left. If the runtime has closed by then, or the device is
//! lost, that is told its event instead of its submitter. Once that is so there are no more names, so that who submits later waits
//! for the lock, and is told.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use smallvec::SmallVec;
use windlass_engine::{Access, Plan, Turn};

use super::event::EventInner;
use super::queue::QueueCore;
use super::tracer::Told;
use super::waking::Woken;
use super::work::{Planned, Work};
use super::{Commands, Effects, Inner, State, Windlass};
use crate::error::Error;

/// See the module documentation.
pub(crate) struct Submission {
    pub(crate) event: Arc<EventInner>,
    pub(crate) accesses: SmallVec<[Access; 2]>,
    pub(crate) commands: Commands,
    pub(crate) keep_previous: bool,
    pub(crate) weight: u32,
    /// Handles of its buffers, until it is planned; from then on the engine counts it as their user.
    pub(crate) _roots: SmallVec<[Arc<dyn Any + Send + Sync>; 2]>,
}

impl fmt::Debug for Submission {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Submission").field("event", &self.event).finish_non_exhaustive()
    }
}

impl State {
    /// Gives a group its place that has come by a message.
    pub(super) fn take_in(&mut self, mut submission: Submission, effects: &mut Effects) {
        let event = submission.event.clone();
        match Inner::check_open(self).and_then(|()| self.check_there(&event.queue)) {
            Ok(()) => self.plan_submission(&mut submission, &mut effects.turn),
            Err(error) => {
                effects.unused.push(std::mem::take(&mut submission.commands));
                refuse(&event, error, &mut effects.woken);
                self.engine.give_node_back(event.node);
            }
        }
        self.stay_alive(event.inner());
        self.fill_nodes();
        // Not dropped here: the event of a group that was refused may be the last handle of it, which reports.
        effects.taken_in.push(submission);
    }

    /// Refuses what is for a lost device.
    pub(crate) fn check_there(&self, queue: &QueueCore) -> Result<(), Error> {
        match self.engine.lost(queue.slot.id) {
            Some(cause) => Err(cause.0.clone()),
            None => Ok(()),
        }
    }

    fn plan_submission(&mut self, submission: &mut Submission, turn: &mut Turn<Windlass>) {
        let Submission { event, accesses, commands, keep_previous, weight, .. } = submission;
        let told = self
            .tracer
            .is_some()
            .then(|| Told { commands: commands.iter().map(Planned::described).collect(), span: None });
        let plan = Plan {
            device: Some(event.queue.slot.id),
            accesses: &accesses[..],
            after: &[],
            in_order: event.queue.tail(),
            gates: 0,
            keep_previous: *keep_previous,
            weight: *weight,
            doomed: None,
            commands: std::mem::take(commands),
        };
        self.engine.plan_as(event.node, plan, Work::Group(event.clone()), turn);
        self.planned(event, told);
    }

    /// A group has its place.
    pub(crate) fn planned(&mut self, event: &EventInner, told: Option<Told>) {
        if let (Some(tracer), Some(told)) = (&mut self.tracer, told) {
            tracer.tell(event.node, told);
        }
        event.queue.set_tail(event.node);
        self.counters.submitted += 1;
    }
}

/// Tells a group's event that it has no place, and gives back what it has taken.
#[cold]
fn refuse(event: &Arc<EventInner>, error: Error, woken: &mut Woken) {
    woken.single.extend(event.queue.account.over(1));
    event.settle(Err(error), 0, woken);
    woken.single.extend(event.queue.account.end(event.generation, 1));
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex, mpsc};
    use std::task::{Context, Waker};
    use std::thread::JoinHandle;
    use std::time::Duration;

    use crate::prelude::*;
    use crate::shell::{Inner, State};

    /// Somebody who has the engine's lock until it is told to let go, and then does something under it.
    fn holder(inner: &Arc<Inner>, last: fn(&mut State)) -> (mpsc::Sender<()>, JoinHandle<()>) {
        let (inner, (let_go, told), (has, had)) = (inner.clone(), mpsc::channel(), mpsc::channel());
        let thread = std::thread::spawn(move || {
            inner.enter(|state, _| {
                state.fill_nodes();
                has.send(()).unwrap();
                told.recv().unwrap();
                last(state);
            });
        });
        had.recv().unwrap();
        (let_go, thread)
    }

    fn filled(queue: &Queue, with: u32) -> (Buffer<u32>, crate::Result<Event>) {
        let x = Buffer::<u32>::new(64);
        let event = queue.submit(|cg| cg.fill(&cg.overwrite(&x), with));
        (x, event)
    }

    /// A thread that submits, binds and awaits waits for nobody who has the lock. Where any of these waited for it, this test would not
    /// end: seen so with `may_leave_word` false, and with `Inner::plan_accessor` by `enter`.
    #[test]
    fn nobody_waits_for_the_lock() {
        let queue = Queue::blocking_on(Device::host()).unwrap();
        // Names are there from the first time on.
        filled(&queue, 1).1.unwrap().blocking_wait().unwrap();
        let (let_go, thread) = holder(queue.runtime().inner(), |_| {});
        let (x, event) = filled(&queue, 7);
        let event = event.unwrap();
        let (y, _) = filled(&queue, 8);
        let (mut read, mut taken) = (x.host_read(), Box::pin(y.into_vec()));
        let mut cx = Context::from_waker(Waker::noop());
        assert!(std::pin::Pin::new(&mut read).poll(&mut cx).is_pending());
        assert!(taken.as_mut().poll(&mut cx).is_pending());
        assert_eq!((event.has_ended(), queue.in_flight()), (false, 2));
        let_go.send(()).unwrap();
        thread.join().unwrap();
        assert_eq!(read.blocking_wait().unwrap()[..], [7; 64]);
        assert_eq!(futures_lite::future::block_on(taken).unwrap(), [8; 64]);
        event.blocking_wait().unwrap();
        queue.drained().blocking_wait().unwrap();
        assert_eq!(queue.in_flight(), 0);
    }

    /// Who was to take all of a buffer and has gone takes nothing, though as many handles are left as it had, and its end is heard of behind that
    /// of the group before it. Seen to fail, with zeros, where `GuardCell::is_taker` does not look whether its memory was refused.
    #[test]
    fn a_taker_that_has_gone_takes_nothing() {
        let queue = Queue::blocking_on(Device::host()).unwrap();
        let x = Buffer::<u32>::new(64);
        let (go, told) = mpsc::channel();
        let told = Mutex::new(told);
        let group = |cg: &crate::CommandGroup<'_>| {
            cg.host_for(64, cg.overwrite(&x), move |item, x| {
                if item.id(0) == 0 {
                    told.lock().unwrap().recv().unwrap();
                }
                x.set(item.id(0), 7);
            })
        };
        queue.submit(group).unwrap();
        let others = [x.clone(), x.clone()];
        let mut taken = Box::pin(x.into_vec());
        assert!(taken.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        let (let_go, thread) = holder(queue.runtime().inner(), |_| {});
        go.send(()).unwrap();
        // Long enough for the worker to leave word of the group's end. If it is not, this test shows nothing.
        std::thread::sleep(Duration::from_millis(50));
        drop(taken);
        let_go.send(()).unwrap();
        thread.join().unwrap();
        assert_eq!(others[0].host_read().blocking_wait().unwrap()[..], [7; 64]);
    }

    /// What comes by a message after the runtime has closed is told its event, and gives back its place in the queue. Seen to fail without
    /// `refuse`: the queue is never drained.
    #[test]
    fn what_comes_too_late_is_told_its_event() {
        let queue = Queue::blocking_on(Device::host()).unwrap();
        filled(&queue, 1).1.unwrap().blocking_wait().unwrap();
        let (let_go, thread) = holder(queue.runtime().inner(), |state| state.closed = true);
        let (x, event) = filled(&queue, 7);
        let mut read = x.host_read();
        let mut cx = Context::from_waker(Waker::noop());
        assert!(std::pin::Pin::new(&mut read).poll(&mut cx).is_pending());
        let_go.send(()).unwrap();
        thread.join().unwrap();
        assert!(event.unwrap().blocking_wait().unwrap_err().is_shut_down());
        assert!(read.blocking_wait().unwrap_err().is_shut_down());
        queue.drained().blocking_wait().unwrap();
        assert_eq!(queue.in_flight(), 0);
    }
}
