//! Running a program on real queues, with the model beside it.

mod explicit;
mod form;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex};

use futures_lite::future::block_on;
use windlass::texel::R32Uint;
use windlass::{
    Aspect, Buffer, CancelOutcome, CommandGroup, DeviceCopy, Error, Event, Image, KernelCall, OnCancel,
    Queue, Recording,
};

use super::model::{End, Model};
use super::{Group, Job, Op, Program, Step, Storage, Tally, Thread, Window, World};
use crate::check::{Latch, Opened, latch};
use explicit::There;
use form::{Count, Form};

/// Runs all threads; says what is different, or how much was done.
pub(super) fn run(world: &World, program: &Program) -> Result<Tally, String> {
    let one = |thread: &Thread| {
        catch_unwind(AssertUnwindSafe(|| block_on(Actor::new(world, thread).run(thread))))
            .unwrap_or_else(|_| Err("a thread panicked".into()))
    };
    let tallies: Vec<Result<Tally, String>> = match &program.threads[..] {
        [thread] => vec![one(thread)],
        threads => std::thread::scope(|scope| {
            let running: Vec<_> = threads.iter().map(|thread| scope.spawn(move || one(thread))).collect();
            running
                .into_iter()
                .map(|r| r.join().unwrap_or_else(|_| Err("a thread panicked".into())))
                .collect()
        }),
    };
    let mut sum = Tally { programs: 1, ..Tally::default() };
    for (t, tally) in tallies.into_iter().enumerate() {
        sum += tally.map_err(|what| format!("thread {t}, {what}"))?;
    }
    Ok(sum)
}

struct Actor<'w> {
    world: &'w World,
    buffers: Vec<Buffer<u32, 2>>,
    /// What buffers are attached to.
    homes: Vec<Option<Home>>,
    /// What they are.
    forms: Vec<Form>,
    counted: Count,
    /// Which of them stay somewhere.
    there: Vec<Option<There>>,
    model: Model,
    /// By step, for groups.
    events: Vec<Option<Event>>,
    gates: Vec<Option<Latch>>,
    tally: Tally,
}

/// Data of the program's that a buffer's contents come back to.
type Home = Arc<Mutex<Vec<u32>>>;

/// A buffer as the program sees it, what it is, and what it is attached to.
struct Made {
    buffer: Buffer<u32, 2>,
    home: Option<Home>,
    form: Form,
}

/// Memory that is a value's.
struct Owner(Vec<u32>);

impl AsMut<[u32]> for Owner {
    fn as_mut(&mut self) -> &mut [u32] {
        &mut self.0
    }
}

impl Storage {
    /// Some buffers are of other elements than they are seen as, or of three dimensions, some have pages, some are images, and some work in memory of the
    /// program's or bring their contents back to it. Where bytes in a line, or pages, stand for more than what is asked for, what fails takes
    /// its neighbours along: only where nothing does.
    fn make(&self, world: &World, at: usize, is_tame: bool) -> Result<Made, Error> {
        let shape = self.shape;
        let (mut home, mut form) = (None, Form::Grid);
        let buffer = match (self.base, (at + self.len()) % 4) {
            (None, 0) => Buffer::<[u8; 4], 2>::new(shape).reinterpret(shape)?,
            (None, 1) if is_tame => Buffer::<u8>::new(4 * self.len()).reinterpret(shape)?,
            (None, 2) => {
                let image = Image::<R32Uint, 2>::new(shape)?;
                form = Form::Image(image.clone());
                image.reinterpret(shape)?
            }
            (None, 3) if is_tame => {
                form = Form::space(shape);
                match &form {
                    Form::Space(space, _) => space.reinterpret(shape)?,
                    _ => Buffer::new(shape),
                }
            }
            (Some(_), 0) if is_tame || shape[0] == 1 => {
                Buffer::from_owner(Owner(self.initial())).reinterpret(shape)?
            }
            (Some(_), 1) => {
                let home = home.insert(Arc::new(Mutex::new(self.initial()))).clone();
                Buffer::with_shape(shape, self.initial())?.with_write_back(move |back| {
                    if let (Ok(back), Ok(mut home)) = (back, home.lock()) {
                        *home = back;
                    }
                })
            }
            (Some(_), 2) if is_tame => {
                let page = [1 + self.len() % 3, 2 + self.len() % 5];
                Buffer::with_shape(shape, self.initial())?.with_pages(page)
            }
            (Some(_), _) => Buffer::with_shape(shape, self.initial())?,
            (None, _) => Buffer::new(shape),
        };
        // Binds it to this runtime, and touches nothing.
        let nothing = buffer.range((0..0, 0..0));
        let bound = world.places[0].submit(|cg| {
            cg.read(&nothing);
            Ok(())
        })?;
        drop(bound);
        Ok(Made { buffer, home, form })
    }
}

impl<'w> Actor<'w> {
    fn new(world: &'w World, thread: &Thread) -> Self {
        let (buffers, homes, there, forms) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        let counted = Count::default();
        let (model, events, gates) = (Model::new(thread), Vec::new(), Vec::new());
        let tally = Tally::default();
        Actor { world, buffers, homes, forms, counted, there, model, events, gates, tally }
    }

    async fn run(mut self, thread: &Thread) -> Result<Tally, String> {
        for (at, storage) in thread.buffers.iter().enumerate() {
            self.there.push(None);
            if storage.stays.is_some() {
                self.buffers.push(Buffer::new(storage.shape));
                self.homes.push(None);
                self.forms.push(Form::Grid);
                self.anew(thread, at).map_err(|e| format!("asking for memory: {e}"))?;
                continue;
            }
            let made = storage.make(self.world, at, thread.is_tame());
            let Made { buffer, home, form } = made.map_err(|e| format!("making a buffer: {e}"))?;
            self.buffers.push(buffer);
            self.homes.push(home);
            self.forms.push(form);
        }
        for (at, step) in thread.steps.iter().enumerate() {
            let before = self.model.clone();
            self.model.step(step);
            self.events.push(None);
            self.gates.push(None);
            self.step(thread, step, &before).await.map_err(|what| format!("step {at}: {what}"))?;
        }
        for (at, event) in std::mem::take(&mut self.events).into_iter().enumerate() {
            let Some(event) = event else { continue };
            let result = event.await;
            let (end, should) = (end_of(&result), self.model.ends[at]);
            if end != Some(should) {
                return Err(format!("step {at} ends as {result:?}, not {should:?}"));
            }
        }
        for (at, storage) in thread.buffers.iter().enumerate() {
            self.compare(at, storage).await?;
        }
        self.forms.clear();
        self.bring_home(thread).await?;
        let failed = self.model.ends.iter().filter(|end| **end != End::Well).count() as u64;
        let (by_texel, in_space) = (self.counted.by_texel.get(), self.counted.in_space.get());
        Ok(Tally { steps: thread.steps.len() as u64, failed, by_texel, in_space, ..self.tally })
    }

    async fn step(&mut self, thread: &Thread, step: &Step, before: &Model) -> Result<(), String> {
        let at = self.events.len() - 1;
        match step {
            Step::Group(group) => {
                let (gate, opened) = latch();
                let opened = group.gated.then_some(opened);
                self.gates[at] = group.gated.then_some(gate);
                let event = self.submit(group, opened).map_err(|e| format!("refused: {e}"))?;
                self.events[at] = Some(event);
                self.count(group);
            }
            Step::Anew { buffer } => self.anew(thread, *buffer)?,
            Step::Decide { step } => {
                let (gate, event) = (self.gates[*step].take(), self.events[*step].clone());
                let (Some(gate), Some(event)) = (gate, event) else { return Err("no gate to decide".into()) };
                let cancelled = matches!(&thread.steps[*step], Step::Group(g) if g.cancelled);
                if cancelled && event.cancel() != CancelOutcome::Skipped {
                    return Err(format!("step {step} could not be cancelled behind its gate"));
                }
                gate.open();
            }
            // How it ended is looked at in the end.
            Step::Await { step } => {
                if let Some(event) = self.events[*step].clone() {
                    let _ = event.await;
                }
            }
            Step::Edit { window, k } => {
                let should = before.elements(window);
                let guard = self.part(window).host_write().await;
                let mut guard = expect(guard, should)?;
                if let Some(guard) = &mut guard {
                    guard.iter_mut().for_each(|v| *v = v.wrapping_mul(31).wrapping_add(*k));
                }
            }
            Step::Look { window } => {
                let should = before.elements(window);
                expect(self.look(window).await, should)?;
                self.evict(at, window.buffer).await?;
            }
        }
        Ok(())
    }

    /// Whatever the program does with a buffer, its memory may be asked back in between: no group is behind a gate now.
    async fn evict(&self, at: usize, buffer: usize) -> Result<(), String> {
        let place = &self.world.places[at % self.world.places.len()];
        match place.evict(&self.buffers[buffer]).await {
            Ok(true) if self.there[buffer].is_some() => Err("what stays somewhere is evicted".into()),
            // What failed has nothing to bring to the host.
            Err(error) if !error.is_dependency_failed() => Err(format!("evicting: {error}")),
            _ => Ok(()),
        }
    }

    fn part(&self, window: &Window) -> Buffer<u32, 2> {
        self.part_as(window, self.buffers[window.buffer].clone())
    }

    /// The same as elements of another type.
    fn bytes(&self, window: &Window) -> Result<Buffer<[u8; 4], 2>, Error> {
        let buffer = &self.buffers[window.buffer];
        Ok(self.part_as(window, buffer.reinterpret(buffer.shape())?))
    }

    fn part_as<T: DeviceCopy>(&self, window: &Window, buffer: Buffer<T, 2>) -> Buffer<T, 2> {
        let Window { lo, size, .. } = *window;
        buffer.range((lo[0]..lo[0] + size[0], lo[1]..lo[1] + size[1]))
    }

    fn submit(&self, group: &Group, opened: Option<Opened>) -> Result<Event, Error> {
        let queue = self.queue_of(group);
        // Every third group's commands are recorded first. Nobody keeps the recording.
        let first = self.refuses(queue, group);
        let recording = match &group.job {
            Job::Commands(ops) if self.events.len() % 3 == 1 => {
                Some(queue.record(|cg| ops.iter().try_for_each(|op| self.command(cg, op)))?)
            }
            _ => None,
        };
        if let Some(first) = first {
            return first.submit_or(queue, |cg| {
                self.describe(cg, group, recording.as_ref())?;
                // What is refused there has been described as a whole.
                cg.host_for(1, (), |_, ()| {})
            });
        }
        queue.submit(|cg| {
            if let Some(opened) = opened {
                cg.after(opened);
            }
            self.describe(cg, group, recording.as_ref())
        })
    }

    /// A queue that runs no closures, for a group on one that does; for some groups.
    fn refuses(&self, queue: &Queue, group: &Group) -> Option<&Queue> {
        let is_some = self.events.len() % 4 == 3 && !group.gated && matches!(group.job, Job::Commands(_));
        let is_some = is_some && self.used_there(group).is_none();
        let runs_closures = |queue: &&Queue| queue.device().has(Aspect::HostBodies);
        let refuses = self.world.places.iter().find(|place| !runs_closures(place));
        refuses.filter(|_| is_some && runs_closures(&queue))
    }

    fn describe<'g>(
        &self,
        cg: &CommandGroup<'g>,
        group: &Group,
        recording: Option<&Recording>,
    ) -> Result<(), Error> {
        if group.keeps_previous {
            cg.on_cancel(OnCancel::KeepPrevious);
        }
        match group.after.map(|(step, carries)| (&self.events[step], carries)) {
            Some((Some(event), true)) => cg.depends_on(event),
            Some((Some(event), false)) => cg.after_end(event),
            _ => {}
        }
        if let Some(recording) = recording {
            return cg.replay(recording);
        }
        match &group.job {
            Job::Commands(ops) => ops.iter().try_for_each(|op| self.command(cg, op)),
            Job::Task { window, k, fails } => {
                let (mut v, k, fails) = (cg.read_write(&self.part(window)), *k, *fails);
                cg.host_task(async move |host| {
                    host.view_mut(&mut v)?.iter_mut().for_each(|v| *v = v.wrapping_mul(31).wrapping_add(k));
                    if fails { Err("as the program says".into()) } else { Ok(()) }
                })
            }
        }
    }

    fn command(&self, cg: &CommandGroup<'_>, op: &Op) -> Result<(), Error> {
        if let Some(done) = self.command_by_form(cg, op) {
            return done;
        }
        let call = |name: &str| KernelCall::new(self.world.kernels.get(name));
        match op {
            Op::Churn(w, k) => {
                let v = cg.read_write(&self.part(w));
                cg.parallel_for(w.len(), call("churn").buffer(v).value(*k))
            }
            Op::Count(w, base, uninit) => {
                let call = call("fill_index");
                let call = match uninit {
                    true => call.buffer(cg.read_write_uninit(&self.part(w))),
                    false => call.buffer(cg.overwrite(&self.part(w))),
                };
                cg.parallel_for(w.len(), call.value(*base))
            }
            Op::CountHalf(w, base) => {
                let v = cg.write(&self.part(w));
                cg.parallel_for(w.len() / 2, call("fill_index").buffer(v).value(*base))
            }
            Op::Copy(from, to) => {
                let (x, out) = (cg.read(&self.part(from)), cg.overwrite(&self.part(to)));
                cg.parallel_for(from.len(), call("copy").buffer(x).buffer(out))
            }
            Op::Fold(x, y, k) => {
                let (a, b) = (cg.read(&self.part(x)), cg.read_write(&self.part(y)));
                cg.parallel_for(x.len(), call("fold").buffer(a).buffer(b).value(*k))
            }
            Op::Move(from, to) if from.len() % 2 == 0 => {
                cg.copy(&cg.read(&self.bytes(from)?), &cg.overwrite(&self.bytes(to)?))
            }
            Op::Move(from, to) => cg.copy(&cg.read(&self.part(from)), &cg.overwrite(&self.part(to))),
            Op::Fill(w, value) if value % 2 == 0 => {
                cg.fill(&cg.overwrite(&self.bytes(w)?), value.to_ne_bytes())
            }
            Op::Fill(w, value) => cg.fill(&cg.overwrite(&self.part(w)), *value),
            Op::Touch(w) => {
                cg.read(&self.part(w));
                Ok(())
            }
            Op::ChurnAt(..) | Op::ChurnBy(..) | Op::FoldAt(..) | Op::Bump(_) => {
                self.command_by_address(cg, op)
            }
        }
    }

    /// Lets go of the buffers that are attached to something, and looks what came back there: all of it or, where a part of it
    /// cannot be had, nothing.
    async fn bring_home(&mut self, thread: &Thread) -> Result<(), String> {
        let homes = std::mem::take(&mut self.homes).into_iter();
        let buffers = std::mem::take(&mut self.buffers).into_iter();
        for (at, (buffer, home)) in buffers.zip(homes).enumerate() {
            let (closed, Some(home)) = (buffer.close().await, home) else { continue };
            let [rows, columns] = thread.buffers[at].shape;
            let should = self.model.elements(&Window { buffer: at, lo: [0, 0], size: [rows, columns] });
            let found = home.lock().map_err(|_| "nobody panics with the lock")?;
            let is_right = match &should {
                Some(should) => closed.is_ok() && *found == *should,
                None => closed.is_err() && *found == thread.buffers[at].initial(),
            };
            if !is_right {
                return Err(format!("buffer {at} comes back as {found:?}, {closed:?}, not {should:?}"));
            }
        }
        Ok(())
    }

    /// Compares all of a buffer, in runs of elements that can be had and runs that cannot.
    async fn compare(&self, buffer: usize, storage: &Storage) -> Result<(), String> {
        let [rows, columns] = storage.shape;
        let whole = Window { buffer, lo: [0, 0], size: [rows, columns] };
        let at = |what: String| format!("buffer {buffer}, in the end: {what}");
        let should = self.model.elements(&whole);
        let well = should.is_some();
        expect(self.look(&whole).await, should).map_err(at)?;
        for row in (0..rows).filter(|_| !well) {
            let elements = &self.model.data[buffer][row * columns..][..columns];
            let mut lo = 0;
            for run in elements.chunk_by(|a, b| a.is_some() == b.is_some()) {
                let part = Window { buffer, lo: [row, lo], size: [1, run.len()] };
                lo += run.len();
                let should = self.model.elements(&part);
                expect(self.look(&part).await, should).map_err(|what| at(format!("{part:?}: {what}")))?;
            }
        }
        Ok(())
    }
}

fn end_of(result: &Result<(), Error>) -> Option<End> {
    match result {
        Ok(()) => Some(End::Well),
        Err(e) if e.is_cancelled() => Some(End::Cancelled),
        Err(e) if e.is_dependency_failed() => Some(End::Dependent),
        Err(e) if e.to_string().contains("as the program says") => Some(End::Failed),
        Err(_) => None,
    }
}

/// The guard, if there should be one, with the elements that should be in it.
fn expect<G>(guard: Result<G, Error>, should: Option<Vec<u32>>) -> Result<Option<G>, String>
where
    G: std::ops::Deref<Target = [u32]>,
{
    match (guard, should) {
        (Ok(guard), Some(should)) if guard[..] == should[..] => Ok(Some(guard)),
        (Ok(guard), Some(should)) => Err(format!("{:?}, not {should:?}", &guard[..])),
        (Ok(guard), None) => Err(format!("{:?}, though it failed to be written", &guard[..])),
        (Err(e), None) if e.is_dependency_failed() => Ok(None),
        (Err(e), should) => Err(format!("{e}, and not {should:?}")),
    }
}
