//! Decision 23: nothing large is freed where a program drops it. This process's allocator says which thread frees.

#[path = "common/rig.rs"]
mod rig;

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::atomic::{AtomicUsize, Ordering};

use rig::{Gate, Rig, bump, poll_once, put, until, wait};
use windlass::prelude::*;

/// What is at least this large is counted.
const LARGE: usize = 1 << 20;

static FREED: AtomicUsize = AtomicUsize::new(0);
static MADE: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    static HERE: Cell<usize> = const { Cell::new(0) };
}

struct Watching;

// SAFETY: every call goes to the system's allocator with the same arguments; the counts change nothing of it.
unsafe impl GlobalAlloc for Watching {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's obligations are the same.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if layout.size() >= LARGE {
            MADE.fetch_add(1, Ordering::SeqCst);
        }
        // SAFETY: as for `alloc`.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        if layout.size() >= LARGE {
            FREED.fetch_add(1, Ordering::SeqCst);
            HERE.set(HERE.get() + 1);
        }
        // SAFETY: as for `alloc`.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Watching = Watching;

/// One test: the counts are the process's.
#[test]
fn d23_large_memory_is_freed_by_the_reaper_and_by_nobody_else() {
    let rig = Rig::new();
    let elsewhere = rig.elsewhere();
    let large = || Buffer::<u32>::new(LARGE / 4);
    // Dropped while it is idle, with two allocations.
    let x = large();
    wait(put(&rig.queue, &x, 1)).unwrap();
    wait(bump(&elsewhere, &x)).unwrap();
    assert_eq!(MADE.load(Ordering::SeqCst), 2);
    drop(x);
    // Dropped while a group will still use it.
    let y = large();
    let gate = Gate::new();
    let gated = elsewhere.submit(|cg| {
        cg.after(gate.opened());
        cg.fill(&cg.overwrite(&y), 1)
    });
    drop(y);
    gate.open();
    wait(gated.unwrap()).unwrap();
    // Adopted from a vector, and dropped by a guard that outlives its buffer.
    let z = Buffer::from(vec![1_u32; LARGE / 4]);
    wait(bump(&rig.queue, &z)).unwrap();
    let guard = wait(z.host_read()).unwrap();
    drop(z);
    drop(guard);
    // Dropped inside a poll: a future that takes its place, then goes.
    let w = large();
    wait(put(&rig.queue, &w, 1)).unwrap();
    let mut write = w.host_write();
    drop(w);
    drop(poll_once(&mut write));
    drop(write);
    // Some of it has gone from one to the next, and what is kept for others goes within seconds. The vector was made by this test.
    until("everything is freed", || FREED.load(Ordering::SeqCst) == MADE.load(Ordering::SeqCst) + 1);
    let made = MADE.load(Ordering::SeqCst);
    assert!((2..=4).contains(&made), "{made}");
    until("the reaper is idle", || rig.stats().frees_waiting == 0);
    assert_eq!(HERE.get(), 0, "and nothing of it on this thread");
    assert_eq!(rig.stats().live_buffers, 0);
    let fresh = large();
    drop(fresh);
    assert_eq!(MADE.load(Ordering::SeqCst), made, "what is never used is never allocated");
}
