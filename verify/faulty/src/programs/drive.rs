//! Runs a program on the runtime, and looks at everything it can see.

mod lose;

use std::panic::resume_unwind;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock};
use std::task::{Context as TaskContext, Poll, Waker};

use windlass::image::Kernel;
use windlass::prelude::*;
use windlass::{BackendError, KernelCall, MemoryKind, Recording, Result};
use windlass_backend::HostAccess;
use windlass_testkit::Rng;

use super::Tally;
use super::loss::{Moment, Past, Seen};
use super::model::{Expected, GivenUp, Model, accesses, initial};
use super::program::{Deed, Item, Kind, Loss, Part, Program, QueuePlan, TaskEnd};
use super::waiting::{Accessor, Gate, read, write};
use crate::{Faulty, FaultyControl, inside_poll, kernels};

static STEP: LazyLock<Kernel> = LazyLock::new(kernels::step);
static SET: LazyLock<Kernel> = LazyLock::new(kernels::set);
static BLEND: LazyLock<Kernel> = LazyLock::new(kernels::blend);
static PANICS: LazyLock<Kernel> = LazyLock::new(kernels::panics);
static REFUSED: LazyLock<Kernel> = LazyLock::new(kernels::refused);

/// What an item has become.
enum Handle {
    Event(Event),
    /// It was not taken, as its device is lost.
    Refused,
    /// Its event was let go of.
    Detached,
    Accessor(Accessor),
}

struct Run<'p> {
    program: &'p Program,
    rng: Rng,
    control: FaultyControl,
    runtime: Runtime,
    devices: Vec<Device>,
    contexts: Vec<Context>,
    queues: Vec<Queue>,
    /// By queue: the number of its context among all that were opened.
    numbers: Vec<usize>,
    /// How many were opened so far.
    opened: usize,
    buffers: Vec<Buffer<u32>>,
    handles: Vec<Handle>,
    gates: Vec<Option<Arc<Gate>>>,
    cancelled: Vec<Option<GivenUp>>,
    told: Arc<AtomicUsize>,
    /// What was so when devices were lost.
    moments: Vec<Moment>,
}

fn wrong<T>(what: impl Into<String>) -> Result<T, String> {
    Err(what.into())
}

/// Runs a program in the order of events that a seed chooses.
pub(super) fn attempt(program: &Program, seed: u64) -> Result<Tally, String> {
    let mut run = Run::new(program, seed).map_err(|e| format!("setting up: {e}"))?;
    for at in 0..program.items.len() {
        run.lose_and_reopen(at).map_err(|e| format!("before {at}: {e}"))?;
        run.submit(at).map_err(|e| format!("submitting {at}: {e}"))?;
        run.due(at, false);
        for _ in 0..program.items[at].lead {
            run.something();
        }
    }
    run.lose_and_reopen(program.items.len())?;
    run.due(program.items.len(), true);
    run.run_out()?;
    run.judge()
}

impl<'p> Run<'p> {
    fn new(program: &'p Program, seed: u64) -> Result<Self> {
        let mut builder = Faulty::builder().lanes(program.lanes).copy_lanes(program.copy_lanes);
        builder = builder.depths(program.depth, program.reports);
        if program.one_domain {
            builder = builder.one_domain();
        }
        if program.zeroed {
            builder = builder.zeroed_memory();
        }
        if program.sequences {
            builder = builder.aspect(Aspect::Sequences);
        }
        for memory in &program.devices {
            builder = builder.device(*memory);
        }
        let host = if program.mapped { HostAccess::Mapped } else { HostAccess::Coherent };
        builder = builder.reaches(MemoryKind::Shared, host).imports(1);
        if program.stream_ordered {
            builder = builder.stream_ordered_memory();
        }
        if program.callbacks {
            builder = builder.reports_by_callback();
        }
        if program.slow_allocate {
            builder = builder.slow_allocate();
        }
        if program.slow_pageable_copies {
            builder = builder.slow_pageable_copies();
        }
        let faulty = builder.build();
        let control = faulty.control();
        control.report_exactly(program.exact);
        control.report_inside_feed(program.inside);
        control.no_peer_copies(program.no_peer_copies);
        control.refuse_kernel("refused", BackendError::Unsupported("this kernel".into()));
        let told = Arc::new(AtomicUsize::new(0));
        let heard = told.clone();
        let mut runtime =
            Runtime::builder().backend(faulty).only_given_backends().manual().handler(move |errors| {
                heard.fetch_add(errors.len(), Ordering::Relaxed);
            });
        if program.chunks {
            runtime = runtime.staging(8 << 10).staging_chunk(8);
        }
        let runtime = runtime.build();
        let devices = futures_lite::future::block_on(runtime.devices())?;
        let mut contexts = Vec::new();
        for of in &program.contexts {
            let of: Vec<Device> = of.iter().map(|&d| devices[d].clone()).collect();
            contexts.push(Context::blocking_open(&of)?);
        }
        let mut queues = Vec::new();
        let (mut numbers, mut opened) = (Vec::new(), contexts.len());
        for (at, plan) in program.queues.iter().enumerate() {
            queues.push(open_queue(&runtime, plan, &devices, &contexts)?);
            let earlier = (0..at).find(|earlier| plan.context.is_none() && program.shares(*earlier, at));
            numbers.push(match (plan.context, earlier) {
                (Some(context), _) => context,
                (None, Some(earlier)) => numbers[earlier],
                (None, None) => opened,
            });
            opened += usize::from(numbers[at] == opened);
        }
        let buffers = program.roots.iter().enumerate().map(|(root, plan)| {
            let data = || (0..plan.len).map(|at| initial(root, at)).collect::<Vec<u32>>();
            Ok(match (plan.home, plan.data) {
                (None, true) => Buffer::from(data()),
                (None, false) => Buffer::new(plan.len),
                (Some(queue), true) => queues[queue].blocking_import(MemoryKind::Shared, data())?,
                (Some(queue), false) => queues[queue].blocking_buffer_in(MemoryKind::Shared, plan.len)?,
            })
        });
        let cancelled = vec![None; program.items.len()];
        let (buffers, rng) = (buffers.collect::<Result<_>>()?, Rng::new(seed ^ 0x5eed));
        let (handles, gates) = (Vec::new(), Vec::new());
        let moments = Vec::new();
        let run = Run {
            program,
            rng,
            control,
            runtime,
            devices,
            contexts,
            queues,
            numbers,
            opened,
            buffers,
            handles,
            gates,
            cancelled,
            told,
            moments,
        };
        run.bind()?;
        Ok(run)
    }

    /// Buffers belong to the runtime that uses them first; an accessor of a buffer that none has used would go to the
    /// process's own.
    fn bind(&self) -> Result<()> {
        let all = |cg: &CommandGroup<'_>| {
            let anywhere = |(_, plan): &(_, &super::program::RootPlan)| plan.home.is_none();
            for (buffer, _) in self.buffers.iter().zip(&self.program.roots).filter(anywhere) {
                cg.read(&buffer.range(0..0));
            }
            Ok(())
        };
        drop(self.queues[0].submit(all)?);
        Ok(())
    }

    fn part(&self, part: &Part) -> Buffer<u32> {
        self.buffers[part.root].range(part.lo..part.hi)
    }

    fn submit(&mut self, at: usize) -> Result<()> {
        let item = &self.program.items[at];
        let mut gate = None;
        let handle = match &item.kind {
            Kind::Read(part) => Handle::Accessor(read(self.part(part))),
            Kind::Write(part, k) => Handle::Accessor(write(self.part(part), *k)),
            _ => {
                gate = item.gate.map(|_| Arc::new(Gate::default()));
                let queue = &self.queues[item.queue];
                // Every third group's commands are recorded first. Nobody keeps the recording.
                let recording = match &item.kind {
                    Kind::Device(deeds) if at % 3 == 1 => {
                        Some(queue.record(|cg| deeds.iter().try_for_each(|deed| self.command(cg, deed))))
                    }
                    _ => None,
                };
                let submitted = recording.transpose().and_then(|recording| {
                    queue.submit(|cg| self.describe(cg, item, gate.as_ref(), recording.as_ref()))
                });
                match submitted {
                    Ok(event) => Handle::Event(event),
                    Err(refused) if refused.is_device_lost() || self.uses_gone(at) => Handle::Refused,
                    Err(other) => return Err(other),
                }
            }
        };
        self.handles.push(handle);
        self.gates.push(gate);
        self.poll_accessors();
        Ok(())
    }

    /// Whether an item uses a buffer that is gone with the device on which it stayed.
    fn uses_gone(&self, at: usize) -> bool {
        let accesses = accesses(&self.program.items[at]);
        accesses.iter().any(|access| self.program.is_gone(access.part.root, at))
    }

    fn describe<'g>(
        &self,
        cg: &CommandGroup<'g>,
        item: &Item,
        gate: Option<&Arc<Gate>>,
        recording: Option<&Recording>,
    ) -> Result<()> {
        for (earlier, carries) in &item.after {
            if let Handle::Event(event) = &self.handles[*earlier] {
                if *carries { cg.depends_on(event) } else { cg.after_end(event) }
            }
        }
        if item.keep {
            cg.on_cancel(OnCancel::KeepPrevious);
        }
        if let Some(gate) = gate {
            cg.after(gate.clone().wait(item.gate == Some(true)));
        }
        if let Some(recording) = recording {
            return cg.replay(recording);
        }
        match &item.kind {
            Kind::Device(deeds) => deeds.iter().try_for_each(|deed| self.command(cg, deed)),
            Kind::Host(part, k, end) => {
                let (mut x, k, end) = (cg.read_write(&self.part(part)), *k, *end);
                cg.host_task(async move |host| {
                    futures_lite::future::yield_now().await;
                    host.view_mut(&mut x)?.iter_mut().for_each(|v| *v = kernels::stepped(*v, k));
                    match end {
                        TaskEnd::Well => Ok(()),
                        TaskEnd::Error => Err("a task that fails".into()),
                        TaskEnd::Panic => resume_unwind(Box::new("a task that panics")),
                    }
                })
            }
            Kind::Read(_) | Kind::Write(..) => Ok(()),
        }
    }

    fn command<'g>(&self, cg: &CommandGroup<'g>, deed: &Deed) -> Result<()> {
        let step = |kernel: &Kernel, part: &Part, k: u32| {
            let call = KernelCall::new(kernel).buffer(cg.read_write(&self.part(part))).value(k);
            cg.parallel_for(part.len(), call)
        };
        match deed {
            Deed::Step(x, k) => step(&STEP, x, *k),
            Deed::Panics(x) => step(&PANICS, x, 0),
            Deed::Refused(x) => step(&REFUSED, x, 0),
            Deed::Set(x, k) => {
                let call = KernelCall::new(&SET).buffer(cg.overwrite(&self.part(x))).value(*k);
                cg.parallel_for(x.len(), call)
            }
            Deed::SetHalf(x, k) => {
                let call = KernelCall::new(&SET).buffer(cg.write(&self.part(x))).value(*k);
                cg.parallel_for(x.len().div_ceil(2), call)
            }
            Deed::Blend(x, y, k) => {
                let (to, from) = (cg.read_write(&self.part(x)), cg.read(&self.part(y)));
                cg.parallel_for(x.len(), KernelCall::new(&BLEND).buffer(to).buffer(from).value(*k))
            }
            Deed::Fill(x, v) => cg.fill(&cg.overwrite(&self.part(x)), *v),
            Deed::Copy(from, to) => cg.copy(&cg.read(&self.part(from)), &cg.overwrite(&self.part(to))),
        }
    }

    /// Cancels, lets go of and resolves what is due after this item, or everything.
    fn due(&mut self, now: usize, all: bool) {
        for at in 0..self.handles.len() {
            let item = &self.program.items[at];
            let ripe = |after: usize| at + after == now || all && at + after >= now;
            let cancel = item.cancel.is_some_and(ripe);
            match &mut self.handles[at] {
                Handle::Event(event) if cancel => {
                    self.cancelled[at] = match event.cancel() {
                        CancelOutcome::Skipped => Some(GivenUp::Skipped),
                        CancelOutcome::Stopping => Some(GivenUp::Stopped),
                        CancelOutcome::TooLate | CancelOutcome::Done => None,
                    };
                }
                Handle::Accessor(accessor) if cancel => {
                    let given_up = accessor.future.take().map(|_| GivenUp::Skipped);
                    self.cancelled[at] = self.cancelled[at].or(given_up);
                }
                Handle::Accessor(accessor) if ripe(item.hold) => accessor.end.set(true),
                _ => {}
            }
            if ripe(item.hold)
                && let Some(gate) = &self.gates[at]
            {
                gate.resolve();
            }
            // Elsewhere the event is kept, to be asked how it ended without being told why.
            let later = self.program.items.iter().any(|i| i.after.iter().any(|(of, _)| *of == at));
            if item.detached && self.program.tame && !later {
                self.handles[at] = Handle::Detached;
            }
        }
    }

    /// One thing that happens by itself; says whether anything did.
    fn something(&mut self) -> bool {
        let choice = self.rng.number();
        match self.rng.below(4) {
            0 => self.runtime.run_until_stalled() > 0,
            1 => self.poll_accessors(),
            _ => self.control.step_at(choice),
        }
    }

    fn poll_accessors(&mut self) -> bool {
        let mut any = false;
        for handle in &mut self.handles {
            if let Handle::Accessor(accessor) = handle
                && let Some(future) = &mut accessor.future
            {
                let mut cx = TaskContext::from_waker(Waker::noop());
                if let Poll::Ready(seen) = inside_poll(|| future.as_mut().poll(&mut cx)) {
                    (accessor.seen, accessor.future, any) = (Some(seen), None, true);
                }
            }
        }
        any
    }

    fn run_out(&mut self) -> Result<(), String> {
        let mut quiet = 0;
        for _ in 0..100_000 {
            quiet = if self.something() { 0 } else { quiet + 1 };
            if quiet > 8 {
                let polls = self.runtime.run_until_stalled() + usize::from(self.poll_accessors());
                if polls + self.control.run_random(self.rng.number()) == 0 {
                    return Ok(());
                }
            }
        }
        wrong("it never ends")
    }

    /// The end: compares everything with the model, and leaves nothing.
    fn judge(mut self) -> Result<Tally, String> {
        let loses = !self.program.losses.is_empty();
        let model = match loses {
            false => Model::run(self.program, &self.cancelled),
            true => {
                let seen: Vec<Seen> = self.handles.iter().map(Handle::seen).collect();
                let (program, cancelled, moments) = (self.program, &self.cancelled[..], &self.moments[..]);
                Past { program, cancelled, seen: &seen, moments }.run()?
            }
        };
        let mut tally = Tally { programs: 1, items: self.program.items.len() as u64, ..Tally::default() };
        let (mut least, mut most) = (0, 0);
        for (at, expected) in model.expected.iter().enumerate() {
            match expected {
                Expected::Well => tally.well += 1,
                Expected::Cancelled => tally.cancelled += 1,
                Expected::Lost | Expected::Refused => tally.lost += 1,
                _ => tally.failed += 1,
            }
            let again =
                |loss: &Loss| loss.reopened <= at && loss.is_of(self.program, self.program.items[at].queue);
            if matches!((&self.program.items[at].kind, expected), (Kind::Device(_), Expected::Well))
                && self.program.losses.iter().any(again)
            {
                tally.again += 1;
            }
            match &self.handles[at] {
                Handle::Detached | Handle::Refused => {}
                Handle::Event(event) if !event.has_ended() => {
                    return wrong(format!("{at} is pending at the end"));
                }
                Handle::Event(event) if self.program.items[at].detached => {
                    let failed = event.status() == Status::Failed;
                    if failed != (*expected != Expected::Well) {
                        return wrong(format!("{at} has failed: {failed}, and not {expected:?}"));
                    }
                    least += usize::from(*expected == Expected::Failed);
                    most += usize::from(matches!(expected, Expected::Failed | Expected::Either));
                }
                Handle::Event(event) => ended_as(at, event.clone(), expected)?,
                Handle::Accessor(accessor) => saw(at, accessor, expected, model.seen[at].as_ref())?,
            }
        }
        let is_gone = |root: &usize| self.program.is_gone(*root, self.program.items.len());
        tally.gone = (0..self.program.roots.len()).filter(is_gone).count() as u64;
        if self.program.tame {
            tally.exact += 1;
            let moved = self.runtime.stats().bytes_moved;
            if moved != model.bytes_moved {
                return wrong(format!("{moved} bytes were moved, and {} were stale", model.bytes_moved));
            }
        }
        for root in 0..self.program.roots.len() {
            for (part, values, unsure) in model.runs(root) {
                self.compare(&part, values, unsure)?;
            }
        }
        let stats = self.runtime.stats();
        (tally.transfers, tally.staged, tally.proxies, tally.fed) =
            (stats.transfers, stats.staged_transfers, stats.proxies, stats.fed);
        self.handles.clear();
        self.gates.clear();
        self.heal()?;
        self.buffers.clear();
        self.queues.clear();
        (self.devices, self.contexts) = (Vec::new(), Vec::new());
        self.run_out()?;
        let told = self.told.load(Ordering::Relaxed);
        if !loses && !(least..=most).contains(&told) {
            return wrong(format!("the handler was told {told} errors, and not {least} to {most}"));
        }
        self.nothing_left()?;
        Ok(tally)
    }

    /// Whatever has become of the data: it is as good as new where it is written whole, on every device, and those that were lost are there.
    fn heal(&mut self) -> Result<(), String> {
        if self.program.losses.is_empty() {
            return Ok(());
        }
        for root in 0..self.program.roots.len() {
            let all = Part { root, lo: 0, hi: self.program.roots[root].len };
            if self.program.is_gone(root, self.program.items.len()) {
                continue;
            }
            for queue in (0..self.queues.len()).filter(|queue| self.program.may_use(root, *queue)) {
                let k = (queue * 5 + root) as u32;
                let set = self.queues[queue].submit(|cg| self.command(cg, &Deed::Set(all, k)));
                let stepped = self.queues[queue].submit(|cg| self.command(cg, &Deed::Step(all, k)));
                set.and(stepped).map_err(|e| format!("after all, queue {queue}: {e}"))?;
                let values = (0..all.len() as u32).map(|i| kernels::stepped(i * 7 + k, k)).collect();
                self.compare(&all, Some(values), false)?;
            }
        }
        Ok(())
    }

    fn compare(&mut self, part: &Part, values: Option<Vec<u32>>, unsure: bool) -> Result<(), String> {
        let mut accessor = read(self.part(part));
        accessor.end.set(true);
        self.handles.push(Handle::Accessor(accessor));
        self.poll_accessors();
        self.run_out()?;
        let Some(Handle::Accessor(last)) = self.handles.pop() else { return wrong("no accessor") };
        accessor = last;
        match (accessor.seen, values) {
            (Some(Ok(seen)), Some(values)) if seen == values => Ok(()),
            (Some(Err(e)), None) if e.is_dependency_failed() || e.is_device_lost() => Ok(()),
            (Some(Err(e)), Some(_)) if unsure && e.is_device_lost() => Ok(()),
            (seen, values) => wrong(format!("{part:?} is {seen:?} at the end, and not {values:?}")),
        }
    }

    fn nothing_left(self) -> Result<(), String> {
        let Run { control, runtime, .. } = self;
        let stats = runtime.stats();
        if (stats.live_nodes, stats.live_links, stats.live_buffers, stats.live_tasks) != (0, 0, 0, 0) {
            return wrong(format!("left in the runtime: {stats:?}"));
        }
        drop(runtime);
        let (audit, breaches) = (control.audit(), control.breaches());
        if audit.live() + audit.in_flight > 0 || audit.calls_in_poll + audit.blocking_calls > 0 {
            return wrong(format!("left of the devices: {audit:?}"));
        }
        match breaches.is_empty() {
            true => Ok(()),
            false => wrong(format!("{breaches:?}")),
        }
    }
}

/// A queue as it is planned.
fn open_queue(
    runtime: &Runtime,
    plan: &QueuePlan,
    devices: &[Device],
    contexts: &[Context],
) -> Result<Queue> {
    let mut builder = Queue::builder().runtime(runtime).device(devices[plan.device].clone());
    if let Some(context) = plan.context {
        builder = builder.context(&contexts[context]);
    }
    if plan.in_order {
        builder = builder.in_order();
    }
    builder.blocking_build()
}

fn ended_as(at: usize, mut event: Event, expected: &Expected) -> Result<(), String> {
    let mut cx = TaskContext::from_waker(Waker::noop());
    let Poll::Ready(result) = Pin::new(&mut event).poll(&mut cx) else {
        return wrong(format!("{at} is pending at the end"));
    };
    let as_expected = match (expected, &result) {
        (Expected::Well, result) => result.is_ok(),
        (_, Ok(())) => false,
        (Expected::Cancelled, Err(e)) => e.is_cancelled(),
        (Expected::Failed, Err(e)) => !e.is_cancelled() && !e.is_dependency_failed(),
        (Expected::Doomed, Err(e)) => e.is_dependency_failed() || e.is_device_lost(),
        (Expected::Either, Err(e)) => !e.is_cancelled(),
        (Expected::Lost, Err(e)) => e.is_device_lost(),
        (Expected::Refused, Err(_)) => false,
    };
    match as_expected {
        true => Ok(()),
        false => wrong(format!("{at} ended as {result:?}, and not {expected:?}")),
    }
}

fn saw(at: usize, accessor: &Accessor, expected: &Expected, values: Option<&Vec<u32>>) -> Result<(), String> {
    match (expected, &accessor.seen, values) {
        (Expected::Cancelled, None, _) => Ok(()),
        (Expected::Well, Some(Ok(seen)), Some(values)) if seen == values => Ok(()),
        (Expected::Well, Some(Ok(_)), None) => Ok(()),
        (Expected::Doomed, Some(Err(e)), _) if e.is_dependency_failed() => Ok(()),
        (Expected::Doomed | Expected::Lost, Some(Err(e)), _) if e.is_device_lost() => Ok(()),
        (_, seen, _) => wrong(format!("accessor {at} saw {seen:?}, and not {expected:?} {values:?}")),
    }
}
