//! Allocators of the program's for host memory, which give what they should not, or take it back too early.

use std::alloc::Layout;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};

use windlass::HostAllocator;
use windlass::prelude::*;

use crate::rig::{Rig, bump, contents, put, until, wait};

/// Large enough to be asked for, and kept.
const LEN: usize = 20_000;

fn rig<M: AsMut<[u8]> + Send + 'static>(give: impl Fn(Layout) -> Option<M> + Send + Sync + 'static) -> Rig {
    Rig::of(Runtime::builder().host_allocator(HostAllocator::new("attacker", give)), 4)
}

/// Groups in both contexts of the host's, guards, and memory that goes from buffer to buffer.
fn use_it(rig: &Rig) {
    let there = rig.elsewhere();
    for round in 0..6 {
        let data = Buffer::<u32>::new(LEN);
        bump(&rig.queue, &data);
        bump(&there, &data);
        wait(data.host_write()).unwrap()[7] += 1;
        let mut expected = vec![2; LEN];
        expected[7] = 3;
        assert_eq!(contents(&data), expected, "round {round}");
    }
}

/// Its bytes are others each time that it is asked, and fewer: it is asked once.
#[test]
fn an_owner_that_changes_its_mind_is_not_asked_again() {
    struct Fickle(Vec<Vec<u8>>, Arc<AtomicUsize>);
    impl AsMut<[u8]> for Fickle {
        fn as_mut(&mut self) -> &mut [u8] {
            self.1.fetch_add(1, SeqCst);
            let mut bytes = self.0.pop().unwrap_or_default();
            let ahead = bytes.as_ptr().align_offset(64);
            self.0.insert(0, std::mem::take(&mut bytes));
            let most = self.0[0].len() / (self.1.load(SeqCst) * 64) * 64;
            let len = if self.1.load(SeqCst) == 1 { self.0[0].len() - ahead } else { most };
            &mut self.0[0][ahead..][..len]
        }
    }
    let (asked, owners) = (Arc::new(Mutex::new(Vec::new())), Arc::<AtomicUsize>::default());
    let (all, made) = (asked.clone(), owners.clone());
    let rig = rig(move |layout: Layout| {
        let times = Arc::<AtomicUsize>::default();
        all.lock().unwrap().push(times.clone());
        made.fetch_add(1, SeqCst);
        Some(Fickle(vec![vec![0xcd; layout.size() + 64]; 3], times))
    });
    use_it(&rig);
    drop(rig);
    until("the owners are dropped", || {
        asked.lock().unwrap().iter().all(|times| Arc::strong_count(times) == 1)
    });
    assert!(owners.load(SeqCst) > 0);
    assert!(asked.lock().unwrap().iter().all(|times| times.load(SeqCst) == 1));
}

/// Its bytes are inside it, so that they move with it: it does not move once it has been asked.
#[test]
fn an_owner_that_is_its_bytes_stays_where_it_is() {
    struct Inside([u8; 4 * LEN + 8192], usize);
    impl AsMut<[u8]> for Inside {
        fn as_mut(&mut self) -> &mut [u8] {
            let ahead = self.0.as_ptr().align_offset(64);
            &mut self.0[ahead..][..self.1]
        }
    }
    use_it(&rig(|asked: Layout| Some(Inside([0xcd; 4 * LEN + 8192], asked.size()))));
}

/// It gives far more than it was asked for: nobody sees the rest.
#[test]
fn what_is_too_much_is_nobodys() {
    struct Much(Vec<u8>);
    impl AsMut<[u8]> for Much {
        fn as_mut(&mut self) -> &mut [u8] {
            let ahead = self.0.as_ptr().align_offset(64);
            &mut self.0[ahead..]
        }
    }
    let rig = rig(|asked: Layout| Some(Much(vec![0xcd; 3 * asked.size() + 1])));
    use_it(&rig);
    let data = Buffer::<u32>::new(LEN);
    bump(&rig.queue, &data);
    assert_eq!(wait(data.host_read()).unwrap().len(), LEN);
    assert_eq!(wait(data.into_vec()).unwrap(), [1; LEN]);
}

/// What comes back to it is spoilt and given again at once. Nobody may have it any more by then: not a guard, not the rest of a group, not a
/// runtime that is gone.
#[test]
fn memory_that_is_given_back_is_out_of_use() {
    type Shelf = Arc<Mutex<Vec<Vec<u8>>>>;
    struct Recycled(Vec<u8>, usize, Shelf);
    impl AsMut<[u8]> for Recycled {
        fn as_mut(&mut self) -> &mut [u8] {
            let ahead = self.0.as_ptr().align_offset(64);
            &mut self.0[ahead..][..self.1]
        }
    }
    impl Drop for Recycled {
        fn drop(&mut self) {
            let mut bytes = std::mem::take(&mut self.0);
            bytes.fill(0xee);
            self.2.lock().unwrap().push(bytes);
        }
    }
    let shelf = Shelf::default();
    let of = shelf.clone();
    let rig = rig(move |asked: Layout| {
        let size = asked.size() + 64;
        let mut shelf = of.lock().unwrap();
        let at = shelf.iter().position(|bytes| bytes.len() >= size);
        let bytes = at.map_or_else(|| vec![0xcd; size], |at| shelf.swap_remove(at));
        Some(Recycled(bytes, asked.size(), of.clone()))
    });
    let mut guards = Vec::new();
    for round in 0..12_u32 {
        // Sizes of their own, so that what is kept for one does not suit the next.
        let len = LEN + 3000 * (round as usize % 4);
        let data = Buffer::<u32>::new(len);
        put(&rig.queue, &data, round);
        let guard = wait(data.host_read()).unwrap();
        if round % 3 == 0 {
            guards.push((round, guard));
        } else {
            assert!(guard.iter().all(|x| *x == round));
        }
        drop(data);
        use_it(&rig);
        for (round, guard) in &guards {
            assert!(guard.iter().all(|x| x == round), "a guard of round {round}");
        }
    }
    drop(rig);
    for (round, guard) in guards.drain(..) {
        assert!(guard.iter().all(|x| *x == round), "a guard of round {round}, without a runtime");
    }
    until("all is given back", || Arc::strong_count(&shelf) == 1);
}

/// A panic in each of its steps, also two at once: while it is asked and as it is dropped for that.
#[test]
fn allocators_that_panic_harm_nobody() {
    struct Bad(Vec<u8>, usize, usize);
    impl AsMut<[u8]> for Bad {
        fn as_mut(&mut self) -> &mut [u8] {
            assert!(self.2 % 4 != 1, "as it is asked");
            let ahead = self.0.as_ptr().align_offset(64);
            &mut self.0[ahead..][..self.1]
        }
    }
    impl Drop for Bad {
        fn drop(&mut self) {
            assert!(self.2.is_multiple_of(2), "at its end");
        }
    }
    let calls = AtomicUsize::new(0);
    let rig = rig(move |asked: Layout| {
        let call = calls.fetch_add(1, SeqCst);
        assert!(call % 4 != 2, "as it is called");
        Some(Bad(vec![0; asked.size() + 64], asked.size(), call))
    });
    let mut told = [0; 3];
    for round in 0..24 {
        let data = Buffer::<u32>::new(LEN + 3000 * round);
        match wait(put(&rig.queue, &data, 5)) {
            Ok(()) => {
                assert_eq!(contents(&data)[LEN - 1], 5);
                told[0] += 1;
            }
            Err(error) => {
                let (asked, called) = (
                    error.to_string().contains("as it is asked"),
                    error.to_string().contains("as it is called"),
                );
                assert!(asked || called, "{error}");
                told[if asked { 1 } else { 2 }] += 1;
            }
        }
    }
    assert!(told.iter().all(|times| *times > 0), "{told:?}");
    rig.settle();
}
