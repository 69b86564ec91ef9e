//! Making and freeing allocations, and dropping other native objects, off every path that must not block.

use std::panic::Location;
use std::sync::{Arc, Weak};

use windlass_backend::{Allocation, BackendError, HostMemory, ImageShape, MemoryObject, Region, Sequence};
use windlass_sync::facade::{Mutex, lock};
use windlass_sync::forked;
use windlass_sync::panics::catch;

use super::waking::catch_native;

use super::feed::region_of;
use super::kept::{Others, Taken, rounded};
use super::loans::Class;
use super::room::Residency;
use super::waking::{catch_foreign, tell};
use super::work::zero;
use super::{Effects, Inner, LaneShell, MemoryShell, Signal, State, close, pinned};
use crate::error::{Cause, Error};
use crate::shell::build::Builds;
use windlass_engine::{Allocate, MemoryId, Pinning, RootId};

/// Host memory up to this size is freed, or cleared, where that is to be done: the allocator gives it back to itself, not to the
/// operating system.
const FREED_AT_ONCE: usize = 128 << 10;

/// From this size on host memory is kept for the next buffers: to clear so much takes longer than to keep books of it.
pub(super) const KEPT_FROM: usize = 64 << 10;

pub(crate) type Made = Result<Arc<dyn Allocation>, BackendError>;

/// Host memory of the process's own that reads as zeros.
pub(crate) fn heap(bytes: usize) -> Made {
    HostMemory::zeroed(bytes).map(|memory| Arc::new(memory) as Arc<dyn Allocation>)
}

fn as_host(memory: &Arc<dyn Allocation>) -> Option<&HostMemory> {
    (&**memory as &dyn std::any::Any).downcast_ref()
}

/// Whether it is the process's own, and neither a backend's nor some value's of the program, whose destructor may do anything.
pub(super) fn is_heap(memory: &Arc<dyn Allocation>) -> bool {
    as_host(memory).is_some_and(|host| !host.is_owned_elsewhere())
}

/// Whether a driver has pinned it, and not the process or the program made it.
pub(super) fn is_pinned(memory: &Arc<dyn Allocation>) -> bool {
    as_host(memory).is_none()
}

/// An allocation to be made; on the heap, unless a context owns the memory.
#[derive(Clone, Debug)]
pub(super) struct Wanted {
    pub(super) root: RootId,
    pub(super) memory: MemoryId,
    pub(super) owner: Option<MemoryShell>,
    /// The heap's, and best pinned.
    pinned: Option<Wish>,
    /// The heap's, and may hold anything.
    is_replaced: bool,
    pub(super) object: MemoryObject,
    /// Where the buffer was first used.
    at: Option<&'static Location<'static>>,
}

/// How host memory is to be pinned.
#[derive(Clone, Debug)]
struct Wish {
    /// Whose context does it.
    by: MemoryShell,
    memory: MemoryId,
    /// What has to read as zeros.
    clear: Vec<Region>,
}

impl Wish {
    fn clear(&self, memory: &Arc<dyn Allocation>) {
        self.clear.iter().for_each(|region| zero(&**memory, region));
    }
}

impl State {
    /// What the engine asks for, with whom to ask.
    pub(super) fn wanted(&self, asked: Allocate) -> Wanted {
        let Allocate { root, memory, bytes, pinned, is_replaced } = asked;
        let owner = self.memories.get(&memory).cloned();
        let about = self.engine.object(root);
        let (image, at) = (about.and_then(|about| about.image), about.and_then(|about| about.at));
        let object = object_in(owner.as_ref(), image, bytes);
        let pinned = pinned.and_then(|pinning| self.wish(root, pinning));
        Wanted { root, memory, owner, pinned, is_replaced, object, at }
    }

    #[cold]
    fn wish(&self, root: RootId, pinning: Pinning) -> Option<Wish> {
        let by = self.memories.get(&pinning.by)?.clone();
        let (extent, unit, bytes) = self.engine.shape(root)?;
        let clear = pinning.clear.iter().map(|bounds| region_of(bounds, &extent, unit, bytes)).collect();
        Some(Wish { by, memory: pinning.by, clear })
    }
}

/// What to allocate for a root: an image where the memory holds images, and linear memory anywhere else.
pub(crate) fn object_in(
    owner: Option<&MemoryShell>,
    image: Option<ImageShape>,
    bytes: usize,
) -> MemoryObject {
    let holds = |shape: &ImageShape| owner.and_then(|owner| owner.info).is_some_and(|info| info.holds(shape));
    match image.filter(holds) {
        Some(shape) => MemoryObject::Image(shape),
        None => MemoryObject::Buffer { bytes },
    }
}

/// Makes an allocation in a context's memory, which counts as `memory`.
fn make_in(owner: &MemoryShell, inner: &Inner, memory: MemoryId, object: MemoryObject) -> Made {
    let make = || match inner.allocator_in(Some(owner), object.bytes()) {
        Some(_) => inner.host_memory(object.bytes(), false),
        None => catch_native(|| owner.context.allocate(owner.index, object)),
    };
    match inner.device_memory.filter(|_| owner.is_own) {
        None => make(),
        Some(most) => inner.in_use.make_within(memory, (object.bytes(), most), make),
    }
}

/// The same on a thread that may block: what is kept of freed memory, here and by the driver, is given back before it is said that there
/// is none.
pub(crate) fn make_with_room(
    owner: &MemoryShell,
    inner: &Arc<Inner>,
    (memory, object): (MemoryId, MemoryObject),
    made: Option<Made>,
) -> Made {
    let made = made.unwrap_or_else(|| make_in(owner, inner, memory, object));
    if !is_out_of_memory(&made) {
        return made;
    }
    inner.loans.look_for_freed();
    // Another context may be of the same device: who is patient waits for the reaper.
    let others = inner.enter_without_native_calls(|state, _| state.kept());
    let kept = owner.kept.as_ref().and_then(Weak::upgrade).map(|kept| kept.clear());
    others.iter().for_each(|kept| kept.give_up(inner));
    match catch(|| (drop(kept), owner.context.trim(owner.index))) {
        Ok(_) => make_in(owner, inner, memory, object),
        Err(panic) => Err(BackendError::Panicked(panic.message().into())),
    }
}

pub(super) fn is_out_of_memory(made: &Made) -> bool {
    matches!(made, Err(BackendError::OutOfMemory { .. }))
}

impl Wanted {
    pub(super) fn make_off_thread(&self, mut made: Option<Made>, inner: &Arc<Inner>) -> Made {
        match (&self.owner, &self.pinned) {
            (Some(owner), _) => match self.take_kept(owner, inner, true) {
                Some(memory) => Ok(memory),
                None => self.make_new(owner, inner, &mut |object| {
                    make_with_room(owner, inner, (self.memory, object), made.take())
                }),
            },
            (None, Some(wish)) => {
                let made = made.unwrap_or_else(|| pinned::make(&wish.by, self.object.bytes(), inner));
                made.inspect(|memory| wish.clear(memory))
            }
            (None, None) => made.unwrap_or_else(|| self.make_heap(inner)),
        }
    }

    /// It is given what is kept, if there is some: that holds what was another buffer's.
    pub(super) fn may_hold_others(&self) -> bool {
        self.is_replaced && self.owner.is_none() && self.object.bytes() >= KEPT_FROM
    }

    /// Who was to pin it.
    pub(super) fn pinned_by(&self) -> Option<MemoryId> {
        self.pinned.as_ref().map(|wish| wish.memory)
    }

    /// What it counts as in a memory of which freed allocations are kept.
    fn class(&self, owner: &MemoryShell) -> Option<Class> {
        match self.object {
            MemoryObject::Buffer { bytes } if owner.kept.is_some() => {
                Some(Class { index: owner.index, bytes: rounded(bytes) })
            }
            _ => None,
        }
    }

    /// Memory that another buffer has let go of, or a piece of some, where the backend may be called to make it.
    fn take_kept(&self, owner: &MemoryShell, inner: &Inner, may_call: bool) -> Option<Arc<dyn Allocation>> {
        let (class, kept) = (self.class(owner)?, owner.kept.as_ref()?.upgrade()?);
        let Taken { mut memory, terms } = kept.take(class, self.others(owner, inner, may_call))?;
        if let Some(piece) = terms.piece {
            match catch_native(|| owner.context.piece(&memory, piece.at, class.bytes)) {
                Ok(made) => memory = made,
                Err(error) => {
                    // What is lost, or has no room just now, says nothing of pieces.
                    let for_good = !matches!(error, BackendError::Lost(_) | BackendError::OutOfMemory { .. });
                    if for_good {
                        tracing::warn!(%error, "memory that is kept is not divided any more");
                    }
                    let gone = kept.was_not_made(terms, for_good);
                    gone.into_iter().chain([memory]).for_each(|gone| inner.reaper.free(gone, inner));
                    return None;
                }
            }
        }
        inner.loans.lend_again(&memory, &kept, terms);
        Some(memory)
    }

    /// What it may be given if nothing of its class is kept. Where a device gives the program no more than so much, or what lacks room is
    /// given that of others, what fits is counted in bytes, none of which may be idle.
    fn others(&self, owner: &MemoryShell, inner: &Inner, may_call: bool) -> Others {
        if inner.device_memory.is_some() || inner.residency == Residency::Evictable {
            return Others::None;
        }
        match owner.info.and_then(|info| info.pieces).filter(|_| may_call && inner.in_pieces) {
            Some(alignment) => Others::Pieces(alignment.max(1)),
            None => Others::Larger,
        }
    }

    /// Memory that nobody has had, which is noted where it is to be kept when it is let go of.
    fn make_new(
        &self,
        owner: &MemoryShell,
        inner: &Arc<Inner>,
        make: &mut dyn FnMut(MemoryObject) -> Made,
    ) -> Made {
        let kept = owner.kept.as_ref().and_then(Weak::upgrade);
        let Some((class, kept)) = self.class(owner).zip(kept) else { return make(self.object) };
        match make(MemoryObject::Buffer { bytes: class.bytes }) {
            Ok(memory) => {
                kept.lent(class).into_iter().for_each(|gone| inner.reaper.free(gone, inner));
                inner.loans.lend(&memory, &kept, class);
                Ok(memory)
            }
            // There may be no room for what was added, or the device may have no object as large.
            Err(_) if class.bytes > self.object.bytes() => make(self.object),
            Err(error) => Err(error),
        }
    }

    /// Tries it here, where that takes no time; says whether it is ready to be used as it is.
    fn try_here(&self, native_elsewhere: bool, inner: &Arc<Inner>) -> Option<(Made, bool)> {
        match (&self.owner, &self.pinned) {
            (Some(owner), _) => {
                if let Some(memory) = self.take_kept(owner, inner, !native_elsewhere) {
                    return Some((Ok(memory), true));
                }
                let asks = inner.allocator_in(Some(owner), self.object.bytes()).is_some();
                if native_elsewhere || asks || owner.context.info().allocate_blocks {
                    return None;
                }
                let made =
                    self.make_new(owner, inner, &mut |object| make_in(owner, inner, self.memory, object));
                // Not the last word: on the blocking pool the driver is asked to trim first (`make_with_room`).
                let is_final = !is_out_of_memory(&made);
                Some((made, is_final))
            }
            (None, Some(wish)) => {
                // Only what is kept, since to pin more would block. It has the bytes of its last buffer in it; to clear
                // many of them takes too long here, so `make_off_thread` does.
                let memory = pinned::take(&wish.by, self.object.bytes(), &inner.loans)?;
                let cleared: usize = wish.clear.iter().map(Region::bytes).sum();
                let is_small = cleared <= FREED_AT_ONCE;
                if is_small {
                    wish.clear(&memory);
                }
                Some((Ok(memory), is_small))
            }
            // The program's allocator may block.
            (None, None) if inner.allocator_for(self.object.bytes()).is_some() => {
                Some((Ok(self.take_kept_heap(inner, false)?), true))
            }
            (None, None) => Some((self.make_heap(inner), true)),
        }
    }
}

impl Inner {
    /// Makes an allocation that the engine asked for: here, where that cannot block, else on the blocking pool.
    pub(super) fn allocate(self: &Arc<Self>, wanted: Wanted, effects: &mut Effects) {
        let (memory, bytes) = (wanted.memory, wanted.object.bytes());
        // Room that others look for is theirs first: what was emptied for them would be taken again at once.
        let may_try = wanted.owner.is_none() || !self.turns.are_taken(memory);
        let tried = if may_try { wanted.try_here(effects.native_elsewhere, self) } else { None };
        let made = match tried {
            Some((made, true)) => {
                let made = self.count((memory, bytes, wanted.at), wanted.owner.as_ref(), made);
                return self.with_state(effects, |state, turn| state.allocated(&wanted, made, turn));
            }
            Some((made, false)) => Some(made),
            None => None,
        };
        if !may_try || made.as_ref().is_some_and(is_out_of_memory) {
            self.with_state(effects, |state, _| self.lacks_room(&wanted, state));
        }
        // Groups wait for this slot, so whatever happens in the task, it has to come to `allocated`: that is why
        // `make_in` and `Pinned::make` call the backend inside `catch`, and why nobody waits for room that may never come.
        let inner = self.clone();
        self.gates.spawn(async move {
            let made = inner.make_patiently(&wanted, made).await;
            let made = inner.count((memory, bytes, wanted.at), wanted.owner.as_ref(), made);
            inner.enter(|state, turn| state.allocated(&wanted, made, turn));
        });
    }

    /// Notes what was allocated, or says why it was not: so many bytes, of a buffer that was first used somewhere.
    pub(crate) fn count(
        self: &Arc<Self>,
        (memory, bytes, at): (MemoryId, usize, Option<&'static Location<'static>>),
        owner: Option<&MemoryShell>,
        made: Made,
    ) -> Result<Arc<dyn Allocation>, Cause> {
        let error = match made {
            Ok(allocation) => {
                // A piece is a part of what has been counted.
                if owner.is_none() || !self.in_pieces || !self.loans.is_piece(&allocation) {
                    self.in_use.made(memory, &allocation);
                }
                return Ok(allocation);
            }
            Err(error) => error,
        };
        let device = owner.and_then(MemoryShell::device_name);
        let on = device.map_or_else(|| "in host memory".into(), |name| format!("on {name}"));
        let from = at.map_or_else(String::new, |at| format!(" from {at}"));
        let mut doing = format!("allocating {bytes} bytes for a buffer{from} {on}");
        if let BackendError::OutOfMemory { .. } = error {
            // Unless it was not asked, because the device has what the program gives it.
            let is_limited = owner.is_some() && self.device_memory.is_some();
            if let Some(allocator) = self.allocator_in(owner, bytes).filter(|_| !is_limited) {
                doing +=
                    &format!(", of which the program's allocator `{}` has none to give", allocator.name());
            }
            let holders = self.enter_without_native_calls(|state, _| state.holders(memory));
            doing += &format!(", where there are {holders}");
            // Of what was made for buffers some has none now.
            let others = self.in_use.bytes(memory).saturating_sub(holders.bytes());
            if others > 0 {
                doing += &format!(" and {others} bytes that are kept for the next ones or being freed");
            }
            let usage = owner.and_then(|m| catch(|| m.context.usage(m.index)).ok().flatten());
            if let Some(usage) = usage {
                doing += &format!("; {} of {} are in use in all", usage.used, usage.total);
            }
        }
        Err(Cause(Error::backend(error, doing)))
    }

    pub(crate) fn free_all(&self, dead: impl IntoIterator<Item = Arc<dyn Allocation>>) {
        for memory in dead {
            // The process's own is by far the most.
            match is_heap(&memory) && memory.bytes() < KEPT_FROM {
                true => self.reaper.free(memory, self),
                false => {
                    self.loans.give_back(memory).into_iter().for_each(|dead| self.reaper.free(dead, self))
                }
            }
        }
    }

    /// Runs something that may block where that harms nobody; in a runtime that is driven by hand, here.
    pub(crate) async fn off_thread<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> T {
        // A forked child has no such threads; what is called there refuses it.
        match self.manual || forked::is_child() {
            true => work(),
            false => blocking::unblock(work).await,
        }
    }
}

/// Drops native objects on a thread that may block, in the order in which they came.
#[derive(Clone, Debug, Default)]
pub(crate) struct Reaper {
    queue: Arc<Mutex<Queue>>,
}

/// What is to be dropped.
#[derive(Debug)]
pub(crate) enum Remains {
    Memory(#[expect(dead_code, reason = "it is kept to be dropped")] Arc<dyn Allocation>),
    Kernels(#[expect(dead_code, reason = "they are kept to be dropped")] Builds),
    Sequences(#[expect(dead_code, reason = "they are kept to be dropped")] Vec<Arc<dyn Sequence>>),
    /// Lanes of contexts that are closed with them.
    Lanes(Vec<Arc<LaneShell>>),
    /// Lanes of contexts that go on.
    OwnLanes(Vec<Arc<LaneShell>>),
}

/// Ends what it holds when it is dropped, and so also if the executor is closed before.
#[derive(Debug)]
struct Deferred(Option<Remains>);

impl Deferred {
    /// Waits, on a thread that may block, until other threads have let go of the lanes: the last feeder has given its
    /// token back, and drops its reference right after. A runtime driven by hand has no such threads to wait for.
    fn wait_for_feeders(&self) {
        let Some(Remains::Lanes(lanes) | Remains::OwnLanes(lanes)) = &self.0 else { return };
        while lanes.iter().any(|lane| Arc::strong_count(lane) > 1) {
            std::thread::yield_now();
        }
    }
}

impl Drop for Deferred {
    fn drop(&mut self) {
        if let Some(Remains::Lanes(lanes)) = self.0.take() {
            close(lanes);
        }
    }
}

#[derive(Debug, Default)]
struct Queue {
    dead: Vec<Deferred>,
    at_work: bool,
    /// How many tasks of a runtime that is driven by hand have something to drop.
    tasks: usize,
    /// How many turns of the engine's lock have let go of memory that has not come here yet.
    expected: usize,
    /// Who waits until what is being dropped now is gone.
    told: Vec<Arc<Signal>>,
    /// How often something was dropped.
    rounds: u64,
}

impl Queue {
    /// Says that what was being dropped is gone.
    fn tell(queue: &Mutex<Queue>) {
        let mut entry = lock(queue);
        entry.rounds += 1;
        let told = std::mem::take(&mut entry.told);
        drop(entry);
        told.iter().for_each(|signal| tell(signal));
    }
}

impl Reaper {
    /// Frees what needs no thread of its own here, and the rest as [`Reaper::defer_drop`] says.
    pub(crate) fn free(&self, memory: Arc<dyn Allocation>, inner: &Inner) {
        // Host memory of a backend's own (pinned, for one) takes a native call to free.
        match is_heap(&memory) && memory.bytes() <= FREED_AT_ONCE {
            true => drop(memory),
            false => self.defer_drop(Remains::Memory(memory), inner),
        }
    }

    /// Drops something on the blocking pool; in a runtime that is driven by hand, on its executor, so that no `poll` or
    /// `drop` makes a native call there either.
    pub(crate) fn defer_drop(&self, dead: Remains, inner: &Inner) {
        if inner.manual {
            let (deferred, queue) = (Deferred(Some(dead)), self.queue.clone());
            lock(&queue).tasks += 1;
            return inner.gates.spawn(async move {
                catch_foreign(|| drop(deferred));
                lock(&queue).tasks -= 1;
                Queue::tell(&queue);
            });
        }
        let mut queue = lock(&self.queue);
        queue.dead.push(Deferred(Some(dead)));
        if std::mem::replace(&mut queue.at_work, true) {
            return;
        }
        drop(queue);
        let queue = self.queue.clone();
        blocking::unblock(move || {
            loop {
                let mut entry = lock(&queue);
                let dead = std::mem::take(&mut entry.dead);
                // Cleared in the same step in which the list is found empty: an entry that comes later starts a new
                // thread, and one that came earlier is in `dead`. Who asked since the last round was told to wait for this thread,
                // and would wait for ever.
                entry.at_work = !dead.is_empty();
                drop(entry);
                if dead.is_empty() {
                    return Queue::tell(&queue);
                }
                for deferred in dead {
                    deferred.wait_for_feeders();
                    catch_foreign(|| drop(deferred));
                }
                Queue::tell(&queue);
            }
        })
        .detach();
    }

    /// Memory has been let go of, and will come when the engine's lock is free: who finds none of its users left is to find it here.
    pub(super) fn expect(&self) {
        lock(&self.queue).expected += 1;
    }

    /// What was expected of so many turns has come.
    pub(super) fn has_come(&self, turns: usize) {
        lock(&self.queue).expected -= turns;
        Queue::tell(&self.queue);
    }

    /// Completes when some of what is being dropped now is gone; none if that is nothing.
    pub(super) fn under_way(&self) -> Option<Arc<Signal>> {
        let mut queue = lock(&self.queue);
        (queue.at_work || queue.tasks > 0 || queue.expected > 0).then(|| {
            let signal = Arc::new(Signal::new(()));
            queue.told.push(signal.clone());
            signal
        })
    }

    /// Completes a signal when something has been dropped, whenever that is.
    pub(super) fn tell_too(&self, signal: Arc<Signal>) {
        lock(&self.queue).told.push(signal);
    }

    /// How often something was dropped.
    pub(super) fn rounds(&self) -> u64 {
        lock(&self.queue).rounds
    }

    /// How much waits to be dropped.
    pub(crate) fn waiting(&self) -> usize {
        let queue = lock(&self.queue);
        queue.dead.len() + usize::from(queue.at_work)
    }
}
