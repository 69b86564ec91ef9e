//! From a closure to a group in its place.

use std::any::Any;
use std::panic::Location;
use std::sync::Arc;

use smallvec::SmallVec;
use windlass_engine::{Plan, Turn};
use windlass_sync::account::Generation;
use windlass_sync::process_exit;

use super::Queue;
use crate::error::{Error, Result};
use crate::event::Event;
use crate::group::{Builder, CommandGroup};
use crate::shell::build::Built;
use crate::shell::event::{EventInner, Note};
use crate::shell::queue::QueueCore;
use crate::shell::reserved::Reserved;
use crate::shell::submission::Submission;
use crate::shell::tracer::{self, Told};
use crate::shell::waking::wake_all;
use crate::shell::work::Work;
use crate::shell::{Effects, Inner, Message, NativeCalls, Signal, State, Windlass};

impl Queue {
    /// Submits a group whose credit has been taken, and which has begun.
    pub(super) fn submit_paid<F>(
        &self,
        group: F,
        generation: Generation,
        reserved: Option<Reserved>,
        at: &'static Location<'static>,
    ) -> Result<Event>
    where
        F: for<'g> FnOnce(&CommandGroup<'g>) -> Result<()>,
    {
        let mut refund = Refund { core: Some(&self.core), generation };
        let cg = CommandGroup::new(self.core.clone(), at);
        let returned = group(&cg);
        let mut builder = cg.builder.borrow_mut();
        builder.reserved = reserved;
        builder.check(returned)?;
        builder.check_roots(&self.core)?;
        let planned = self.plan(cg.queue, &mut builder, &mut refund, at)?;
        for listener in builder.listeners.drain(..) {
            // The group has been taken, whatever becomes of what is said.
            if let Err(error) = listener.listen(self) {
                tracing::warn!(%error, "nobody hears what a kernel's items say");
            }
        }
        Ok(planned)
    }

    fn plan(
        &self,
        core: Arc<QueueCore>,
        prepared: &mut Builder<'static>,
        refund: &mut Refund<'_>,
        at: &'static Location<'static>,
    ) -> Result<Event> {
        let inner = self.runtime.inner();
        let mut unbuilt = SmallVec::new();
        if prepared.has_kernels {
            prepared.unbuilt(&mut unbuilt)?;
            if !unbuilt.is_empty() {
                // Nobody may wait for them before the program ends.
                process_exit::watch_main();
            }
        }
        let cancel = prepared.cancel_signal();
        let name: Option<Box<str>> = prepared.name.take().map(Box::from);
        let mut span = tracer::open_span(name.as_deref(), at);
        let note = Note::new(name, cancel.clone(), prepared.task());
        let gates = (prepared.outside.len() + unbuilt.len()) as u32;
        let mut scratch = Effects::scratch(NativeCalls::OrAside);
        let effects = &mut *scratch;
        // What else a group may have, predecessors and what it waits for outside the order, is looked at under the lock.
        let may_leave_word =
            gates == 0 && !prepared.is_host_task && prepared.after.is_empty() && span.is_none();
        let generation = refund.generation;
        // Taken only where the group is: what is refused goes, with the bytes that it has reserved, when nobody has the lock.
        let mut parts = Some((core, note.with_reserved(prepared.reserved.take())));
        let plan = |state: &mut State, turn: &mut Turn<Windlass>| {
            Inner::check_open(state)?;
            if !prepared.is_host_task {
                state.check_there(&self.core)?;
            }
            let Some((core, note)) = parts.take() else { unreachable!("a group is planned once") };
            if span.is_some() {
                state.trace();
            }
            let told =
                state.tracer.is_some().then(|| Told { commands: prepared.described(), span: span.take() });
            let (mut after, mut doomed) = (SmallVec::new(), None);
            if !prepared.after.is_empty() {
                doomed = prepared.predecessors(&mut after);
            }
            let plan = Plan {
                device: (!prepared.is_host_task).then_some(core.slot.id),
                accesses: &prepared.accesses,
                after: &after,
                in_order: core.tail(),
                gates,
                keep_previous: prepared.keep_previous,
                weight: u32::try_from(prepared.weight).unwrap_or(u32::MAX),
                doomed,
                // Not before, for the same reason: what its closures hold goes with it.
                commands: std::mem::take(&mut prepared.commands),
            };
            let mut planned = None;
            let work = |node| {
                let event = planned.insert(Arc::new(EventInner::new(note, node, core, generation, at)));
                Work::Group(event.clone())
            };
            let node = state.engine.plan(plan, work, turn);
            let Some(event) = planned else { unreachable!("planning asks for the work") };
            state.planned(&event, told);
            if !prepared.after.is_empty() {
                prepared.follow(node);
            }
            // From here on the credit goes back when the group ends, also if an effect of this turn panics.
            refund.core = None;
            state.building += unbuilt.len() as u32;
            Ok::<_, Error>(event)
        };
        let planned = match may_leave_word {
            true => inner.try_with_state(effects, plan),
            false => Err(plan),
        };
        let planned = match planned {
            Ok(planned) => planned,
            Err(mut plan) => match may_leave_word.then(|| inner.name_node()).flatten() {
                Some(node) => {
                    let Some((core, note)) = parts.take() else { unreachable!("it has not been planned") };
                    let event = Arc::new(EventInner::new(note, node, core, generation, at));
                    refund.core = None;
                    let submission = Box::new(submission(event.clone(), prepared));
                    inner.state.post(Message::Group(submission), effects);
                    Ok(event)
                }
                None => inner.with_state(effects, |state, turn| {
                    if may_leave_word {
                        state.fill_nodes();
                    }
                    plan(state, turn)
                }),
            },
        };
        // Also where the group was refused: this turn may have found messages.
        inner.perform(effects);
        drop(scratch);
        let event = planned?;
        if gates > 0 || prepared.is_host_task {
            self.watch_gates(&event, prepared, unbuilt, cancel);
        }
        Ok(Event::new(event))
    }

    /// Starts what the group waits for outside the order.
    #[inline(never)]
    fn watch_gates(
        &self,
        event: &EventInner,
        prepared: &mut Builder<'static>,
        unbuilt: SmallVec<[Arc<Built>; 1]>,
        cancel: Option<Arc<Signal>>,
    ) {
        let inner = self.runtime.inner();
        if !prepared.outside.is_empty() || prepared.is_host_task {
            inner.watch.start(inner);
        }
        for built in unbuilt {
            inner.spawn_build_gate(event.node, built);
        }
        if let Some(cancel) = cancel {
            let runtime = tokio::runtime::Handle::try_current().ok();
            for future in prepared.outside.drain(..) {
                inner.spawn_outside(event.node, future, cancel.clone(), runtime.clone());
            }
        }
    }
}

/// What there is of a group without predecessors, for whoever plans it.
fn submission(event: Arc<EventInner>, group: &mut Builder<'static>) -> Submission {
    Submission {
        event,
        accesses: std::mem::take(&mut group.accesses),
        commands: std::mem::take(&mut group.commands),
        keep_previous: group.keep_previous,
        weight: u32::try_from(group.weight).unwrap_or(u32::MAX),
        _roots: group.take_roots().into_iter().map(|root| root as Arc<dyn Any + Send + Sync>).collect(),
    }
}

/// Takes back that a group has begun unless it was planned, also where the user's closure panics.
struct Refund<'a> {
    core: Option<&'a Arc<QueueCore>>,
    generation: Generation,
}

impl Drop for Refund<'_> {
    fn drop(&mut self) {
        if let Some(core) = self.core {
            wake_all(core.refused(self.generation));
        }
    }
}
