//! Panics where memory is in use: in one block of several, in closures, in wakers, in views' drops, and in the program's own
//! implementations of the library's traits.

use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context as TaskContext, Poll, Wake, Waker};

use windlass::access::{Region, Shape};
use windlass::image::IndexRange;
use windlass::prelude::*;
use windlass::{HostReadFuture, LaunchRange};

use crate::rig::{Gate, Hold, Rig, bump, contents, put, until, wait};
use crate::{Token, panics};

const LEN: usize = 1 << 18;

/// Use after free: one thread of a launch panics while another one is inside. The group, and with it its memory, is in use until
/// the last has left.
/// Seen to fail where a launch that has panicked did not wait for its helpers.
#[test]
fn a_launch_one_block_of_which_panics_is_not_over_before_the_others() {
    if std::thread::available_parallelism().map_or(1, usize::from) == 1 {
        // There is one block then.
        return;
    }
    let rig = Rig::new();
    let x = Buffer::<u32>::new(LEN);
    let (hold, late) = (Hold::new(), Arc::new(AtomicBool::new(false)));
    let (inside, entered, written) = (hold.clone(), AtomicUsize::new(0), late.clone());
    let event = rig.queue.submit(|cg| {
        let x = cg.overwrite(&x);
        cg.host_chunks(1, x, move |_, part| match entered.fetch_add(1, Ordering::SeqCst) {
            0 => {
                until("another thread is inside", || inside.was_entered());
                panic!("the first block");
            }
            1 => {
                inside.here();
                part.fill(1);
                written.store(true, Ordering::SeqCst);
            }
            _ => part.fill(2),
        })
    });
    let event = event.unwrap();
    hold.wait_until_entered();
    let behind = put(&rig.queue, &x, 9);
    drop(x);
    for _ in 0..50 {
        std::thread::sleep(std::time::Duration::from_millis(1));
        assert!(!event.has_ended() && !behind.has_ended());
    }
    hold.let_go();
    assert!(wait(event).unwrap_err().is_panic());
    assert!(late.load(Ordering::SeqCst), "the group is over before its block is");
    wait(behind).unwrap();
}

/// What a closure has said before it panics is not done, and what it owned is dropped once.
#[test]
fn a_closure_that_panics_when_it_has_commands_leaves_nothing_behind() {
    static DROPS: AtomicUsize = AtomicUsize::new(0);
    let rig = Rig::new();
    let x = Buffer::from(vec![1_u32; 64]);
    let token = Token(&DROPS);
    assert!(panics(|| {
        rig.queue.submit(|cg| {
            let y = cg.overwrite(&x);
            cg.fill(&y, 7)?;
            cg.host_for(64, y, move |item, y| {
                let _own = &token;
                y.set(item.id(0), 8);
            })?;
            cg.after(async { Ok::<_, windlass::Error>(()) });
            panic!("in the middle of it")
        })
    }));
    assert_eq!(DROPS.load(Ordering::SeqCst), 1);
    assert_eq!(contents(&x), [1; 64]);
    let recorded = panics(|| {
        rig.queue.record(|cg| {
            cg.fill(&cg.overwrite(&x), 7)?;
            panic!("in the middle of it")
        })
    });
    assert!(recorded);
    wait(bump(&rig.queue, &x)).unwrap();
    assert_eq!(wait(x.into_vec()).unwrap(), [2; 64]);
}

/// An alias: a task unwinds with its views out, and the next group has the data.
#[test]
fn a_task_that_unwinds_with_views_out_has_given_them_back() {
    let rig = Rig::new();
    let x = Buffer::from(vec![1_u32; 64]);
    let task = rig.queue.submit(|cg| {
        let (mut low, mut high) = (cg.read_write(&x.range(..32)), cg.read_write(&x.range(32..)));
        cg.host_task(async move |host| {
            let (mut low, mut high) = (host.view_mut(&mut low)?, host.view_mut(&mut high)?);
            (low[0], high[0]) = (8, 9);
            panic!("with two views out")
        })
    });
    assert!(wait(task.unwrap()).unwrap_err().is_panic());
    assert!(wait(x.host_read()).is_err(), "half written data is nobody's");
    wait(put(&rig.queue, &x, 4)).unwrap();
    assert_eq!(contents(&x), [4; 64]);
}

/// The future is dropped by the waker that it wakes, with everything else, and one more time by whom it was asked.
#[test]
fn a_waker_drops_the_future_that_wakes_it() {
    type Slot = Arc<Mutex<Option<(HostReadFuture<u32>, Buffer<u32>, Rig)>>>;
    struct Dropping(Slot, AtomicUsize);
    impl Wake for Dropping {
        fn wake(self: Arc<Self>) {
            let taken = self.0.lock().unwrap().take();
            drop(taken);
            self.1.fetch_add(1, Ordering::SeqCst);
        }
    }
    let rig = Rig::new();
    let x = Buffer::from(vec![1_u32; 64]);
    let gate = Gate::new();
    let gated = rig.queue.submit(|cg| {
        cg.after(gate.opened());
        cg.fill(&cg.overwrite(&x), 3)
    });
    let slot = Slot::default();
    let bell = Arc::new(Dropping(slot.clone(), AtomicUsize::new(0)));
    let mut read = x.host_read();
    let waker = Waker::from(bell.clone());
    assert!(Pin::new(&mut read).poll(&mut TaskContext::from_waker(&waker)).is_pending());
    *slot.lock().unwrap() = Some((read, x, rig));
    gate.open();
    until("it is woken", || bell.1.load(Ordering::SeqCst) > 0);
    wait(gated.unwrap()).unwrap();
    assert!(slot.lock().unwrap().is_none());
}

/// A guard in two hands: the waker polls the future itself, while it is being woken, and panics with what it got.
#[test]
fn a_waker_polls_the_future_that_wakes_it_and_panics_with_the_guard() {
    struct Polling(Mutex<Option<HostReadFuture<u32>>>, AtomicUsize);
    impl Wake for Polling {
        fn wake(self: Arc<Self>) {
            let mut future = self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            let waker = Waker::from(self.clone());
            let Some(asked) = future.as_mut() else { return };
            if let Poll::Ready(guard) = Pin::new(asked).poll(&mut TaskContext::from_waker(&waker)) {
                self.1.store(guard.unwrap()[63] as usize, Ordering::SeqCst);
                *future = None;
                panic!("a waker with a guard");
            }
        }
    }
    let rig = Rig::new();
    let x = Buffer::from(vec![1_u32; 64]);
    let gate = Gate::new();
    let gated = rig.queue.submit(|cg| {
        cg.after(gate.opened());
        cg.fill(&cg.overwrite(&x), 3)
    });
    let bell = Arc::new(Polling(Mutex::new(Some(x.host_read())), AtomicUsize::new(0)));
    bell.clone().wake();
    let behind = x.host_write();
    gate.open();
    until("it has polled", || bell.1.load(Ordering::SeqCst) == 3);
    wait(gated.unwrap()).unwrap();
    wait(behind).unwrap().fill(5);
    assert_eq!(contents(&x), [5; 64]);
}

/// Regions and shapes are the program's code, and may panic where the library asks them.
#[test]
fn regions_and_shapes_that_panic_leave_the_buffer_as_it_was() {
    struct Bad;
    impl Region<1> for Bad {
        fn bounds(self, _: [usize; 1]) -> [(usize, usize); 1] {
            panic!("a region")
        }
    }
    impl Shape<2> for Bad {
        fn extent(self) -> [usize; 2] {
            panic!("a shape")
        }
    }
    let rig = Rig::new();
    let x = Buffer::from(vec![1_u32; 64]);
    let paged = x.clone().reinterpret::<u32, 2>([8, 8]).unwrap();
    assert!(panics(|| x.range(Bad)) && panics(|| x.reinterpret::<u8, 2>(Bad)));
    assert!(panics(|| Buffer::<u32, 2>::new(Bad)) && panics(|| paged.with_pages(Bad)));
    assert!(panics(|| Buffer::<u32, 2>::with_shape(Bad, vec![1; 4])));
    let mut lent = [1_u32; 4];
    assert!(panics(|| windlass::scope(|s| s.grid(Bad, &mut lent))));
    assert!(panics(|| rig.queue.submit(|cg| cg.fill(&cg.overwrite(&x.range(Bad)), 3))));
    wait(bump(&rig.queue, &x)).unwrap();
    assert_eq!(wait(x.into_vec()).unwrap(), [2; 64]);
}

/// Items are made by the program's code, in the middle of a launch.
#[test]
fn a_range_that_panics_when_it_makes_an_item_fails_its_group_alone() {
    #[derive(Clone, Copy)]
    struct Bad(usize);
    impl LaunchRange for Bad {
        fn range(self) -> windlass::image::Range {
            self.0.range()
        }
    }
    impl IndexRange for Bad {
        type Item = usize;
        fn item(self, linear: usize) -> usize {
            assert!(linear != self.0 / 2, "an item");
            // Far outside, but for the first.
            linear.wrapping_mul(usize::MAX / 3)
        }
    }
    let rig = Rig::new();
    let x = Buffer::from(vec![1_u32; LEN]);
    let bad = rig.queue.submit(|cg| cg.host_for(Bad(LEN), cg.write(&x), |item, x| x.set(item, 7)));
    assert!(wait(bad.unwrap()).unwrap_err().is_panic());
    x.clear_poison();
    let seen = contents(&x);
    assert!(seen[1..].iter().all(|v| *v == 1), "nothing but the first is inside");
    wait(bump(&rig.queue, &x)).unwrap();
}
