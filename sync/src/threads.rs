//! Which threads must not block: those that others' progress hangs on.

use std::cell::Cell;

use crate::facade::thread_local;

thread_local! {
    /// This thread runs lanes, or an executor's tasks.
    static DRIVES: Cell<bool> = const { Cell::new(false) };
}

/// From here on this thread runs the work of others, and foreign code in between (kernels, wakers). If that code
/// blocks, it may be waiting for something that this very thread has to do.
pub fn forbid_blocking() {
    DRIVES.with(|drives| drives.set(true));
}

/// Whether foreign code on this thread may block.
pub fn may_block() -> bool {
    // A thread that is ending runs nothing any more.
    !DRIVES.try_with(Cell::get).unwrap_or(false)
}
