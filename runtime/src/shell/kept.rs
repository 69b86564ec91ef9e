//! Devices' memory that buffers have let go of, kept for the next ones: to allocate it takes a driver time, or a thread that may
//! block, and to free it may make a driver wait for the device.
//!
//! Little more is kept than was in use of late: what the program has, and what is kept of it, is together a sixteenth more at most than the most that
//! it had at once since the second before the present one. So a program whose groups make and drop buffers of the same sizes comes to allocate
//! nothing, and one whose load has fallen gives the rest back. Where a device has no room, all that is kept goes first.
//!
//! Sizes are rounded up by less than a sixteenth, so that what is nearly as large is the same. Where nothing of a size is kept, a buffer is
//! given what is up to twice as large, or before that a piece of what is larger, where the memory has [pieces](MemoryInfo::pieces) and the
//! program wants them. How much may be idle by that is bounded, since it stands in the way of those for whom there is no room.

mod pieces;

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};
use std::time::Duration;

use windlass_backend::{Allocation, HostAccess, MemoryInfo};
use windlass_sync::facade::{Mutex, lock};

use super::Inner;
use super::loans::{Class, Lender, Terms};
pub(in crate::shell) use pieces::Piece;
use pieces::Pieces;

/// How long the program has to have used less before what is kept goes down: twice this at most.
const PERIOD: Duration = Duration::from_secs(1);

/// What a context's memories have.
#[derive(Debug)]
pub(crate) struct Kept {
    inner: Weak<Inner>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Of each class, with the number of when it came; the latest last. No list is empty.
    free: BTreeMap<Class, Vec<(u64, Arc<dyn Allocation>)>>,
    came: u64,
    /// What is lent in pieces.
    pieces: Pieces,
    /// No more of those, since the backend made none.
    refuses_pieces: bool,
    /// Bytes that buffers have, those of them that nobody asked for, and bytes that are kept, those between pieces not counted.
    used: usize,
    surplus: usize,
    bytes: usize,
    /// The most bytes that buffers had in the present period, and in the one before.
    most: [usize; 2],
    /// A thread looks when periods end.
    is_watched: bool,
    /// Nothing is kept any more.
    is_closed: bool,
}

/// What a buffer may be given if nothing of its own class is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Others {
    /// Nothing: where room is counted, that of others is not to be taken in passing.
    None,
    Larger,
    /// Pieces that start at multiples of this, and else what is larger.
    Pieces(usize),
}

/// What a buffer is given: kept memory, or a piece of it that is to be made.
#[derive(Debug)]
pub(super) struct Taken {
    pub(super) memory: Arc<dyn Allocation>,
    pub(super) terms: Terms,
}

/// Of what buffers have, this part may be idle between pieces when one more is made, and this part beyond what was asked for: or so
/// many bytes, which no device lacks.
const IDLE_PART: usize = 32;
const SURPLUS_PART: usize = 64;
const IDLE_ANYHOW: usize = 128 << 10;

/// Beyond the most that was in use of late, this part of it is kept, so that sizes that differ come to serve each other.
const SPARE_PART: usize = 16;

/// The size that is allocated for so many bytes: of each power of two there are sixteen.
pub(super) fn rounded(bytes: usize) -> usize {
    // What has no whole words ends where its memory does: backends know it by that. And what cannot be rounded will not be
    // allocated at all.
    let step = match bytes.is_multiple_of(4) {
        true => (bytes.checked_next_power_of_two().unwrap_or(bytes) >> 5).max(64),
        false => 1,
    };
    bytes.checked_next_multiple_of(step).unwrap_or(bytes)
}

/// Whether a memory's allocations are kept. What is mapped to the host or not is known of one allocation alone.
pub(super) fn is_kept(of: &MemoryInfo) -> bool {
    of.kept && of.host != HostAccess::Mapped
}

impl State {
    fn lend(&mut self, class: Class) {
        self.used += class.bytes;
        self.most[0] = self.most[0].max(self.used);
    }

    /// Memory of a class, the latest of it.
    fn take(&mut self, class: Class) -> Option<Arc<dyn Allocation>> {
        let of = self.free.get_mut(&class)?;
        let (_, memory) = of.pop()?;
        if of.is_empty() {
            self.free.remove(&class);
        }
        self.bytes -= class.bytes;
        Some(memory)
    }

    fn keep(&mut self, class: Class, memory: Arc<dyn Allocation>) {
        self.came += 1;
        self.free.entry(class).or_default().push((self.came, memory));
        self.bytes += class.bytes;
    }

    /// The smallest class that is kept of those from one size to another.
    fn class_within(&self, Class { index, bytes }: Class, most: usize) -> Option<Class> {
        let of = |bytes| Class { index, bytes };
        self.free.range(of(bytes)..=of(most)).next().map(|(class, _)| *class)
    }

    /// A piece of what is larger.
    fn take_piece(&mut self, class: Class, alignment: usize) -> Option<Taken> {
        let cut = match self.pieces.take(class, alignment) {
            Some(cut) => cut,
            None => {
                let takes = class.bytes.checked_next_multiple_of(alignment)?;
                let larger = self.class_within(Class { bytes: takes, ..class }, usize::MAX)?;
                if self.pieces.idle() + (larger.bytes - takes) > (self.used / IDLE_PART).max(IDLE_ANYHOW) {
                    return None;
                }
                let whole = self.take(larger)?;
                self.pieces.divide((larger, whole), takes)
            }
        };
        Some(Taken { memory: cut.0, terms: Terms { class, surplus: 0, piece: Some(cut.1) } })
    }

    /// What is larger, as it is.
    fn take_larger(&mut self, class: Class) -> Option<Taken> {
        // What has no whole words has to end where its memory does.
        if !class.bytes.is_multiple_of(4) {
            return None;
        }
        let larger = self.class_within(class, class.bytes.saturating_mul(2))?;
        let surplus = larger.bytes - class.bytes;
        if self.surplus + surplus > (self.used / SURPLUS_PART).max(IDLE_ANYHOW) {
            return None;
        }
        let memory = self.take(larger)?;
        self.surplus += surplus;
        Some(Taken { memory, terms: Terms { class: larger, surplus, piece: None } })
    }

    fn take_other(&mut self, class: Class, others: Others) -> Option<Taken> {
        let piece = match others {
            Others::None => return None,
            Others::Pieces(alignment) if !self.refuses_pieces => self.take_piece(class, alignment),
            Others::Larger | Others::Pieces(_) => None,
        };
        piece.or_else(|| self.take_larger(class))
    }

    /// What was lent is not in use any more. If it was the last piece, the whole is kept again.
    fn end(&mut self, terms: Terms) {
        self.used -= terms.class.bytes;
        self.surplus -= terms.surplus;
        if let Some((class, whole)) = terms.piece.and_then(|piece| self.pieces.give_back(piece)) {
            self.keep(class, whole);
        }
    }

    fn is_anything_kept(&self) -> bool {
        self.bytes > 0 || !self.pieces.is_empty()
    }

    /// Lets go of what has been kept for longest, until little more is there than was in use.
    fn shrink(&mut self) -> Vec<Arc<dyn Allocation>> {
        let most = self.most[0].max(self.most[1]);
        let limit = most.saturating_add(most / SPARE_PART);
        let mut gone = self.pieces.take_dead();
        while self.bytes > 0 && self.used + self.pieces.idle() + self.bytes > limit {
            let oldest = self.free.iter_mut().min_by_key(|(_, of)| of[0].0);
            let Some((&class, of)) = oldest else { break };
            gone.push(of.remove(0).1);
            self.bytes -= class.bytes;
            if of.is_empty() {
                self.free.remove(&class);
            }
        }
        gone
    }

    fn next_period(&mut self) -> Vec<Arc<dyn Allocation>> {
        self.most = [self.used, self.most[0]];
        self.shrink()
    }

    fn take_all(&mut self) -> Vec<Arc<dyn Allocation>> {
        self.bytes = 0;
        let free = std::mem::take(&mut self.free).into_values().flatten().map(|(_, memory)| memory);
        free.chain(self.pieces.take_dead()).collect()
    }
}

impl Kept {
    pub(crate) fn new(inner: Weak<Inner>) -> Self {
        Kept { inner, state: Mutex::default() }
    }

    /// The runtime whose memory it is.
    pub(super) fn runtime(&self) -> Option<Arc<Inner>> {
        self.inner.upgrade()
    }

    /// Memory of a class for a buffer, or what may stand for it, if some is kept. It holds what was there before.
    pub(super) fn take(&self, class: Class, others: Others) -> Option<Taken> {
        let mut state = lock(&self.state);
        let taken = match state.take(class) {
            Some(memory) => Taken { memory, terms: class.into() },
            None => state.take_other(class, others)?,
        };
        state.lend(taken.terms.class);
        Some(taken)
    }

    /// The backend has not made a piece, and if that is for good, will not be asked again. Hands out what has to be freed.
    pub(super) fn was_not_made(&self, terms: Terms, for_good: bool) -> Vec<Arc<dyn Allocation>> {
        let mut state = lock(&self.state);
        state.refuses_pieces |= for_good;
        state.end(terms);
        state.shrink()
    }

    /// A buffer has new memory of a class. Hands out what is no longer kept for it.
    pub(super) fn lent(&self, class: Class) -> Vec<Arc<dyn Allocation>> {
        let mut state = lock(&self.state);
        state.lend(class);
        state.shrink()
    }

    /// Hands out all that is kept, which is to be freed.
    pub(crate) fn clear(&self) -> Vec<Arc<dyn Allocation>> {
        lock(&self.state).take_all()
    }

    /// The same for good.
    pub(crate) fn close(&self) -> Vec<Arc<dyn Allocation>> {
        let mut state = lock(&self.state);
        state.is_closed = true;
        let divided = state.pieces.clear();
        state.take_all().into_iter().chain(divided).collect()
    }

    /// How many bytes are kept.
    pub(crate) fn bytes(&self) -> usize {
        let state = lock(&self.state);
        state.bytes + state.pieces.idle()
    }

    /// The end of a period; says whether there is a next one.
    fn look(&self) -> bool {
        // A runtime that is gone has closed its contexts.
        let Some(inner) = self.runtime() else { return false };
        let mut state = lock(&self.state);
        // Under the lock: who closes the context finds it either here or with the reaper, which frees it before it closes.
        state.next_period().into_iter().for_each(|memory| inner.reaper.free(memory, &inner));
        // What is divided may be whole again, or never, without anybody's coming here.
        state.is_watched = state.is_anything_kept();
        state.is_watched
    }

    /// Has the reaper free all that is kept.
    pub(super) fn give_up(&self, inner: &Inner) {
        let mut state = lock(&self.state);
        state.take_all().into_iter().for_each(|memory| inner.reaper.free(memory, inner));
    }

    /// Has a thread look at the ends of periods, as long as anything is kept. Without one nothing is kept, and this hands out what was.
    fn watch(self: &Arc<Self>) -> Vec<Arc<dyn Allocation>> {
        let weak = Arc::downgrade(self);
        let look = move || {
            loop {
                std::thread::sleep(PERIOD);
                if !Weak::upgrade(&weak).is_some_and(|kept| kept.look()) {
                    return;
                }
            }
        };
        if let Err(error) = std::thread::Builder::new().name("windlass-kept".into()).spawn(look) {
            tracing::warn!(%error, "there is no thread to give kept memory back, so none is kept");
            return self.close();
        }
        Vec::new()
    }
}

impl Lender for Kept {
    fn bring_back(self: Arc<Self>, terms: Terms, memory: Arc<dyn Allocation>) -> Vec<Arc<dyn Allocation>> {
        let mut state = lock(&self.state);
        state.end(terms);
        if state.is_closed {
            return vec![memory];
        }
        // A piece goes: the next one there is hardly the same.
        let mut gone: Vec<_> = match terms.piece {
            Some(_) => vec![memory],
            None => {
                state.keep(terms.class, memory);
                Vec::new()
            }
        };
        gone.extend(state.shrink());
        let is_new = state.is_anything_kept() && !std::mem::replace(&mut state.is_watched, true);
        drop(state);
        if is_new {
            gone.extend(self.watch());
        }
        gone
    }

    fn is_gone(&self, terms: Terms, is_freed: bool) {
        let mut state = lock(&self.state);
        if is_freed {
            return state.end(terms);
        }
        state.used -= terms.class.bytes;
        state.surplus -= terms.surplus;
        terms.piece.into_iter().for_each(|piece| state.pieces.lose(piece));
    }
}

#[cfg(test)]
mod tests;
