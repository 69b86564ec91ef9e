//! Devices' memory that buffers have let go of, kept for the next ones: to allocate it takes a driver time, or a thread that may
//! block, and to free it may make a driver wait for the device.
//!
//! No more is kept than was in use of late: what the program has, and what is kept of it, is together never more than the most that it had
//! at once since the second before the present one. So a program whose groups make and drop buffers of the same sizes comes to allocate
//! nothing, and one whose load has fallen gives the rest back. Where a device has no room, all that is kept goes first.
//!
//! Sizes are rounded up by less than a sixteenth, so that what is nearly as large is the same.

use std::collections::HashMap;
use std::sync::{Arc, Weak};
use std::time::Duration;

use windlass_backend::{Allocation, HostAccess, MemoryInfo};
use windlass_sync::facade::{Mutex, lock};

use super::Inner;
use super::loans::{Class, Lender};

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
    free: HashMap<Class, Vec<(u64, Arc<dyn Allocation>)>>,
    came: u64,
    /// Bytes that buffers have, and bytes that are kept.
    used: usize,
    bytes: usize,
    /// The most bytes that buffers had in the present period, and in the one before.
    most: [usize; 2],
    /// A thread looks when periods end.
    is_watched: bool,
    /// Nothing is kept any more.
    is_closed: bool,
}

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

    /// Lets go of what has been kept for longest, until no more is there than was in use.
    fn shrink(&mut self) -> Vec<Arc<dyn Allocation>> {
        let limit = self.most[0].max(self.most[1]);
        let mut gone = Vec::new();
        while self.bytes > 0 && self.used + self.bytes > limit {
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
        self.free.drain().flat_map(|(_, of)| of.into_iter().map(|(_, memory)| memory)).collect()
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

    /// Memory of a class for a buffer, if some is kept. It holds what was there before.
    pub(super) fn take(&self, class: Class) -> Option<Arc<dyn Allocation>> {
        let mut state = lock(&self.state);
        let of = state.free.get_mut(&class)?;
        let (_, memory) = of.pop()?;
        if of.is_empty() {
            state.free.remove(&class);
        }
        state.bytes -= class.bytes;
        state.lend(class);
        Some(memory)
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
        lock(&self.state).is_closed = true;
        self.clear()
    }

    /// How many bytes are kept.
    pub(crate) fn bytes(&self) -> usize {
        lock(&self.state).bytes
    }

    /// The end of a period; says whether there is a next one.
    fn look(&self) -> bool {
        // A runtime that is gone has closed its contexts.
        let Some(inner) = self.runtime() else { return false };
        let mut state = lock(&self.state);
        // Under the lock: who closes the context finds it either here or with the reaper, which frees it before it closes.
        state.next_period().into_iter().for_each(|memory| inner.reaper.free(memory, &inner));
        state.is_watched = state.bytes > 0;
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
    fn bring_back(self: Arc<Self>, class: Class, memory: Arc<dyn Allocation>) -> Vec<Arc<dyn Allocation>> {
        let mut state = lock(&self.state);
        state.used -= class.bytes;
        if state.is_closed {
            return vec![memory];
        }
        state.came += 1;
        let came = state.came;
        state.free.entry(class).or_default().push((came, memory));
        state.bytes += class.bytes;
        let mut gone = state.shrink();
        let is_new = state.bytes > 0 && !std::mem::replace(&mut state.is_watched, true);
        drop(state);
        if is_new {
            gone.extend(self.watch());
        }
        gone
    }

    fn is_gone(&self, class: Class) {
        lock(&self.state).used -= class.bytes;
    }
}

#[cfg(test)]
mod tests {
    use windlass_backend::MemoryIndex;

    use super::*;
    use crate::shell::memory::heap;

    fn class(bytes: usize) -> Class {
        Class { index: MemoryIndex::Own(0), bytes }
    }

    fn made(kept: &Kept, bytes: usize) -> Arc<dyn Allocation> {
        assert!(kept.lent(class(bytes)).is_empty());
        heap(bytes).unwrap()
    }

    #[test]
    fn sizes_are_rounded_by_less_than_a_sixteenth() {
        for bytes in (1..5000).chain([1 << 20, (1 << 20) + 1, usize::MAX]) {
            let rounded = rounded(bytes);
            assert!(rounded >= bytes && rounded - bytes < (bytes / 16).max(64), "{bytes} {rounded}");
            assert!(bytes.is_multiple_of(4) || rounded == bytes, "{bytes} {rounded}");
        }
        assert_eq!(rounded(1 << 20), 1 << 20);
    }

    /// Seen to fail where what is kept counted alone.
    #[test]
    fn no_more_is_kept_than_was_in_use() {
        let kept = Arc::new(Kept::new(Weak::new()));
        let [a, b, c] = [100, 200, 300].map(|bytes| made(&kept, bytes));
        lock(&kept.state).is_watched = true;
        assert!(kept.clone().bring_back(class(100), a).is_empty());
        assert!(kept.clone().bring_back(class(200), b).is_empty());
        assert_eq!(kept.bytes(), 300);
        // Another size: the program has 400 more than it has let go of, so the oldest goes.
        let gone = kept.lent(class(100 + 1));
        assert_eq!(gone.iter().map(|memory| memory.bytes()).collect::<Vec<_>>(), [100, 200]);
        let again = made(&kept, 150);
        assert!(kept.clone().bring_back(class(150), again).is_empty());
        assert!(kept.take(class(150)).is_some() && kept.take(class(150)).is_none());
        drop(c);
    }

    /// Seen to fail where a period began with what the one before had.
    #[test]
    fn what_is_not_used_any_more_goes() {
        let kept = Arc::new(Kept::new(Weak::new()));
        let [a, b] = [1000, 1000].map(|bytes| made(&kept, bytes));
        lock(&kept.state).is_watched = true;
        assert!(kept.clone().bring_back(class(1000), a).is_empty());
        assert!(lock(&kept.state).next_period().is_empty(), "it was in use a moment ago");
        assert_eq!(kept.bytes(), 1000);
        assert_eq!(lock(&kept.state).next_period().len(), 1);
        assert_eq!(kept.bytes(), 0);
        assert!(kept.clone().bring_back(class(1000), b).is_empty());
        assert_eq!(kept.close().len(), 1);
    }
}
