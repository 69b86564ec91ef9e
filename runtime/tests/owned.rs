//! Buffers in memory of the program's own, which some value owns.

#[path = "common/rig.rs"]
mod rig;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use rig::{Gate, Rig, bump, contents, until, wait};
use windlass::prelude::*;

/// Some elements, with a count of how many such values are gone.
struct Mine {
    elements: Box<[u32]>,
    gone: Arc<AtomicUsize>,
}

impl Mine {
    fn new(len: usize) -> (Self, Arc<AtomicUsize>) {
        let gone = Arc::<AtomicUsize>::default();
        (Mine { elements: vec![1; len].into(), gone: gone.clone() }, gone)
    }
}

impl AsMut<[u32]> for Mine {
    fn as_mut(&mut self) -> &mut [u32] {
        &mut self.elements
    }
}

impl Drop for Mine {
    fn drop(&mut self) {
        self.gone.fetch_add(1, Ordering::SeqCst);
    }
}

#[test]
fn groups_of_the_host_work_where_the_owner_has_it() {
    let rig = Rig::new();
    let (mine, gone) = Mine::new(1 << 18);
    let at = mine.elements.as_ptr();
    let data = Buffer::from_owner(mine);
    for _ in 0..3 {
        bump(&rig.queue, &data);
    }
    let guard = wait(data.host_read()).unwrap();
    assert_eq!((guard.as_ptr(), guard[0], guard[guard.len() - 1]), (at, 4, 4));
    assert_eq!(gone.load(Ordering::SeqCst), 0);
    drop((guard, data));
    until("the owner is dropped", || gone.load(Ordering::SeqCst) == 1);
    rig.settle();
}

/// Also where it is as large as host memory that the runtime keeps for the next buffers.
#[test]
fn the_owner_is_dropped_behind_the_last_group() {
    let rig = Rig::new();
    for len in [1, 1000, 1 << 18] {
        let (gate, (mine, gone)) = (Gate::new(), Mine::new(len));
        let data = Buffer::from_owner(mine);
        let opened = gate.opened();
        let event = rig.queue.submit(|cg| {
            cg.after(opened);
            cg.fill(&cg.overwrite(&data), 7)
        });
        drop(data);
        assert_eq!(gone.load(Ordering::SeqCst), 0, "a group is to use it");
        gate.open();
        wait(event.unwrap()).unwrap();
        until("the owner is dropped", || gone.load(Ordering::SeqCst) == 1);
    }
    let (none, gone) = Mine::new(0);
    drop(Buffer::from_owner(none));
    until("the owner is dropped", || gone.load(Ordering::SeqCst) == 1);
    rig.settle();
}

#[test]
fn what_leaves_the_buffer_is_a_copy() {
    let rig = Rig::new();
    let (mine, gone) = Mine::new(64);
    let at = mine.elements.as_ptr();
    let data = Buffer::from_owner(mine);
    bump(&rig.queue, &data);
    let taken = wait(data.into_vec()).unwrap();
    assert!(taken == [2; 64] && taken.as_ptr() != at);
    until("the owner is dropped", || gone.load(Ordering::SeqCst) == 1);
    // Of one that no runtime has, too.
    let (mine, gone) = Mine::new(64);
    assert_eq!(wait(Buffer::from_owner(mine).into_vec()).unwrap(), [1; 64]);
    until("the owner is dropped", || gone.load(Ordering::SeqCst) == 1);
}

#[test]
fn an_owner_that_panics_at_its_end_harms_nobody() {
    struct Bad(Vec<u32>);
    impl AsMut<[u32]> for Bad {
        fn as_mut(&mut self) -> &mut [u32] {
            &mut self.0
        }
    }
    impl Drop for Bad {
        fn drop(&mut self) {
            panic!("at its end");
        }
    }
    let rig = Rig::new();
    for _ in 0..8 {
        let data = Buffer::from_owner(Bad(vec![1; 8]));
        bump(&rig.queue, &data);
        drop(Buffer::from_owner(Bad(vec![1; 8])));
    }
    rig.settle();
    let data = Buffer::from(vec![1_u32; 8]);
    bump(&rig.queue, &data);
    assert_eq!(contents(&data), [2; 8]);
}
