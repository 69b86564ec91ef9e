//! Devices that are lost, and opened again.

use std::pin::pin;
use std::task::{Context as TaskContext, Poll, Waker};

use windlass::prelude::*;
use windlass::{Result, Status};

use super::{Handle, Run, open_queue};
use crate::programs::loss::{Moment, Seen};
use crate::programs::program::Loss;

impl Handle {
    /// How it has ended.
    pub(super) fn seen(&self) -> Seen {
        let well = match self {
            Handle::Refused => return Seen::Refused,
            Handle::Detached => true,
            Handle::Event(event) => event.status() == Status::Done,
            Handle::Accessor(accessor) => matches!(accessor.seen, Some(Ok(_))),
        };
        if well { Seen::Well } else { Seen::Failed }
    }

    fn is_pending(&self) -> bool {
        match self {
            Handle::Event(event) => !event.has_ended(),
            Handle::Accessor(accessor) => accessor.seen.is_none(),
            Handle::Refused | Handle::Detached => false,
        }
    }
}

impl Run<'_> {
    /// Devices are lost that are to be before this item is submitted, and others are there again.
    pub(super) fn lose_and_reopen(&mut self, at: usize) -> Result<(), String> {
        for loss in &self.program.losses {
            if loss.at == at {
                let pending = self.handles.iter().map(Handle::is_pending).collect();
                let gated = self.gates.iter().map(|gate| gate.as_ref().is_some_and(|gate| !gate.is_open()));
                self.moments.push(Moment { pending, gated: gated.collect() });
                let (context, why) = (self.numbers[loss.queue], "gone");
                match loss.told {
                    true => self.control.tell_loss(context, why),
                    false => self.control.lose_context(context, why),
                }
            }
            if loss.reopened == at {
                self.find_out(loss)?;
                self.reopen(loss).map_err(|e| format!("reopening: {e}"))?;
            }
        }
        Ok(())
    }

    /// A program reopens what it knows to be lost: by an error.
    fn find_out(&mut self, loss: &Loss) -> Result<(), String> {
        // Nothing on this one waits for what was submitted before.
        let lost = &self.queues[loss.queue];
        let aside =
            Queue::builder().runtime(&self.runtime).context(&lost.context()).device(lost.device().clone());
        let Ok(aside) = aside.blocking_build() else { return Ok(()) };
        for _ in 0..1000 {
            match aside.submit(|_| Ok(())) {
                Err(refused) if refused.is_device_lost() => return Ok(()),
                Err(other) => return Err(format!("the lost device says {other}")),
                Ok(_) => {
                    self.something();
                    self.runtime.run_until_stalled();
                }
            }
        }
        Err("a lost device takes groups for ever".into())
    }

    fn reopen(&mut self, loss: &Loss) -> Result<()> {
        let program = self.program;
        let plan = &program.queues[loss.queue];
        let its: Vec<usize> = match plan.context {
            Some(context) => program.contexts[context].clone(),
            None => vec![plan.device],
        };
        for device in its.clone() {
            self.devices[device] = self.finish(self.devices[device].clone())?;
        }
        if let Some(context) = plan.context {
            let its: Vec<Device> = its.iter().map(|device| self.devices[*device].clone()).collect();
            self.contexts[context] = Context::blocking_open(&its)?;
        }
        for queue in (0..program.queues.len()).filter(|queue| loss.is_of(program, *queue)) {
            self.queues[queue] =
                open_queue(&self.runtime, &program.queues[queue], &self.devices, &self.contexts)?;
            self.numbers[queue] = self.opened;
        }
        self.opened += 1;
        Ok(())
    }

    fn finish(&self, device: Device) -> Result<Device> {
        let mut again = pin!(device.reopen());
        loop {
            if let Poll::Ready(found) = again.as_mut().poll(&mut TaskContext::from_waker(Waker::noop())) {
                return found;
            }
            self.runtime.run_until_stalled();
        }
    }
}
