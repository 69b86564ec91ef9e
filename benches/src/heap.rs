//! An allocator that counts live bytes.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicBool, AtomicIsize, Ordering};

static LIVE: AtomicIsize = AtomicIsize::new(0);

/// Only rows about memory are counted: the others are about time, of which counting takes some.
static COUNTS: AtomicBool = AtomicBool::new(false);

/// The system's allocator, counted.
pub(crate) struct Counting;

/// How many bytes more are allocated after `work` than before.
pub(crate) fn growth(work: impl FnOnce()) -> usize {
    let before = LIVE.load(Ordering::Relaxed);
    COUNTS.store(true, Ordering::Relaxed);
    work();
    COUNTS.store(false, Ordering::Relaxed);
    usize::try_from(LIVE.load(Ordering::Relaxed) - before).unwrap_or(0)
}

fn count(bytes: isize) {
    if COUNTS.load(Ordering::Relaxed) {
        LIVE.fetch_add(bytes, Ordering::Relaxed);
    }
}

// SAFETY: every call goes to the system's allocator unchanged; counting has no part in what is returned.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as isize);
        // SAFETY: the caller's promises are passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        count(-(layout.size() as isize));
        // SAFETY: the caller's promises are passed on.
        unsafe { System.dealloc(at, layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as isize);
        // SAFETY: the caller's promises are passed on.
        unsafe { System.alloc_zeroed(layout) }
    }
}
