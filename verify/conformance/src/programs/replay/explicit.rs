//! Memory that stays where the program has asked for it, and kernels that are given its address.

use windlass::{Aspect, Buffer, CommandGroup, Error, HostRead, KernelCall, Queue};

use super::Actor;
use crate::kernels::by_address::{BUMP, CHURN_AT, CHURN_BY, FOLD_AT};
use crate::programs::{Group, Job, Op, Stays, Storage, Thread, Window, World};

/// A buffer that stays somewhere.
#[derive(Clone, Copy, Debug)]
pub(super) struct There {
    pub(super) stays: Stays,
    has_address: bool,
    /// Groups may change it at the same time.
    is_shared: bool,
}

impl Storage {
    /// Asks for memory at a place, which has to say so if it has none. Then the buffer is one like others.
    pub(super) fn make_there(
        &self,
        world: &World,
        stays: Stays,
    ) -> Result<(Buffer<u32, 2>, Option<There>), String> {
        let (queue, kind) = (&world.places[stays.place], stays.kind);
        // A grid that lies in a line stands for more than what is asked for, as in `make`.
        let made = match (self.base, self.shape) {
            (Some(_), [1, _]) => {
                queue.blocking_import(kind, self.initial()).and_then(|of| of.reinterpret(self.shape))
            }
            (Some(_), _) => queue.blocking_buffer_in(kind, self.shape).and_then(|there| {
                let from = Buffer::with_shape(self.shape, self.initial())?;
                queue.submit(|cg| cg.copy(&cg.read(&from), &cg.overwrite(&there)))?;
                Ok(there)
            }),
            (None, _) => queue.blocking_buffer_in(kind, self.shape),
        };
        let buffer = match (made, queue.memory_kinds().contains(&kind)) {
            (Ok(buffer), true) => buffer,
            (Err(error), false) if error.is_unsupported() => {
                let made = Storage { stays: None, ..*self }.make(world, 3, false);
                let buffer = made.map_err(|e| e.to_string())?.buffer;
                must_refuse(queue, &buffer, !queue.device().has(Aspect::Pointers))?;
                return Ok((buffer, None));
            }
            (made, has_some) => {
                return Err(format!(
                    "{}, which has {kind} memory: {has_some}, gives {made:?}",
                    queue.device()
                ));
            }
        };
        let has_address = buffer.device_address().is_some();
        must_refuse(queue, &buffer, !has_address)?;
        let asked = queue.submit(|cg| {
            cg.concurrent(&buffer.range((0..0, ..)));
            Ok(())
        });
        let is_shared = match asked {
            Ok(_) => true,
            Err(refused) if refused.is_unsupported() => false,
            Err(other) => return Err(format!("asked whether {kind} memory is shared: {other}")),
        };
        Ok((buffer, Some(There { stays, has_address, is_shared })))
    }
}

/// A kernel is not given the address of memory that has none.
fn must_refuse(queue: &Queue, buffer: &Buffer<u32, 2>, has_none: bool) -> Result<(), String> {
    if !has_none {
        return Ok(());
    }
    let given = queue.submit(|cg| {
        cg.parallel_for(1, KernelCall::new(&CHURN_AT).buffer(cg.read_write(buffer)).value(1_u32))
    });
    match given {
        Err(refused) if refused.is_unsupported() => Ok(()),
        given => Err(format!("the address of memory that has none, on {}: {given:?}", queue.device())),
    }
}

impl Actor<'_> {
    /// The queue of a group: one that reaches what it uses. In one context there may be several.
    pub(super) fn queue_of(&self, group: &Group) -> &Queue {
        let places = &self.world.places;
        let Some(there) = self.used_there(group) else { return &places[group.place] };
        let home = &places[there.stays.place];
        let reaches = |queue: &&Queue| queue.context() == home.context() && queue.device() == home.device();
        let near: Vec<&Queue> = places.iter().filter(reaches).collect();
        near[group.place % near.len()]
    }

    /// What a group uses that stays somewhere.
    pub(super) fn used_there(&self, group: &Group) -> Option<There> {
        group.uses().iter().find_map(|(window, _)| self.there[window.buffer])
    }

    /// Whether kernels are given the address of this. Of no elements there may be none to give.
    fn has_address(&self, window: &Window) -> bool {
        window.len() > 0 && self.there[window.buffer].is_some_and(|there| there.has_address)
    }

    /// Counts what a group has done that takes explicit memory.
    pub(super) fn count(&mut self, group: &Group) {
        let Job::Commands(ops) = &group.job else { return };
        for op in ops {
            let [first, second] = op.uses();
            let is_there = [first, second].iter().flatten().all(|(window, _)| self.has_address(window));
            let by_address =
                matches!(op, Op::ChurnAt(..) | Op::ChurnBy(..) | Op::FoldAt(..) | Op::Bump(_)) && is_there;
            self.tally.by_address += u64::from(by_address);
            let at_once = |w: &Window| self.there[w.buffer].is_some_and(|there| there.is_shared);
            self.tally.at_once += u64::from(matches!(op, Op::Bump(w) if at_once(w)));
        }
    }

    /// A command by address; where there is none, another kernel does the same.
    pub(super) fn command_by_address(&self, cg: &CommandGroup<'_>, op: &Op) -> Result<(), Error> {
        let known = |name: &str| KernelCall::new(self.world.kernels.get(name));
        match op {
            Op::ChurnAt(w, k) if self.has_address(w) => {
                let call = KernelCall::new(&CHURN_AT).buffer(cg.read_write(&self.part(w)));
                cg.parallel_for(w.len(), call.value(*k))
            }
            Op::ChurnBy(w, k) if self.has_address(w) => {
                let part = self.part(w);
                let address = part.device_address().unwrap_or(0);
                let call = KernelCall::new(&CHURN_BY).value(address).value(*k);
                cg.parallel_for(w.len(), call.reaching(cg.read_write(&part)))
            }
            Op::FoldAt(x, y, k) if self.has_address(x) && self.has_address(y) => {
                let (a, b) = (cg.read(&self.part(x)), cg.read_write(&self.part(y)));
                cg.parallel_for(x.len(), KernelCall::new(&FOLD_AT).buffer(a).buffer(b).value(*k))
            }
            Op::Bump(w) if self.has_address(w) => {
                let call = KernelCall::new(&BUMP);
                let call = match self.there[w.buffer] {
                    Some(There { is_shared: true, .. }) => call.buffer(cg.concurrent(&self.part(w))),
                    _ => call.buffer(cg.read_write(&self.part(w))),
                };
                cg.parallel_for(w.len(), call)
            }
            Op::Bump(w) => cg.parallel_for(w.len(), known("increment").buffer(cg.read_write(&self.part(w)))),
            Op::FoldAt(x, y, k) => self.command(cg, &Op::Fold(*x, *y, *k)),
            Op::ChurnAt(w, k) | Op::ChurnBy(w, k) => self.command(cg, &Op::Churn(*w, *k)),
            _ => Ok(()),
        }
    }

    /// What there is in a window. Of a device's own memory a copy is looked at.
    pub(super) async fn look(&self, window: &Window) -> Result<HostRead<u32, 2>, Error> {
        let part = self.part(window);
        match self.there[window.buffer] {
            Some(There { stays, .. }) if !stays.is_for_host() => {
                let copy = Buffer::<u32, 2>::new(window.size);
                self.world.places[stays.place].submit(|cg| cg.copy(&cg.read(&part), &cg.overwrite(&copy)))?;
                copy.host_read().await
            }
            _ => part.host_read().await,
        }
    }

    /// New memory in place of what groups may still use.
    pub(super) fn anew(&mut self, thread: &Thread, buffer: usize) -> Result<(), String> {
        let storage = &thread.buffers[buffer];
        let Some(stays) = storage.stays else { return Err("it goes where it is needed".into()) };
        (self.buffers[buffer], self.there[buffer]) = storage.make_there(self.world, stays)?;
        self.tally.placed += u64::from(self.there[buffer].is_some());
        self.tally.unplaced += u64::from(self.there[buffer].is_none());
        Ok(())
    }
}
