//! Compilers that are libraries of the process.
//!
//! A thread may build a kernel while the process exits, and [`process_exit`] has the exit wait for it. Where that is by a handler, it has to be
//! registered after those of the compiler, since handlers run in reverse order. So a driver that loads its compiler for the first
//! program is given one beforehand.

use std::sync::{Mutex, PoisonError};

use windlass_sync::process_exit;

use crate::driver::Driver;
use crate::sys::{Context, DeviceId, PlatformId};

/// Has a driver load its compiler, once in a process.
pub(crate) fn load(context: &Context, driver: Driver, (platform, device): (PlatformId, DeviceId)) {
    static DONE: Mutex<Vec<PlatformId>> = Mutex::new(Vec::new());
    if !driver.loads_its_compiler {
        return;
    }
    let Some(_building) = process_exit::build() else { return };
    let mut done = DONE.lock().unwrap_or_else(PoisonError::into_inner);
    if !done.contains(&platform) {
        // If it can't build this, a program of somebody's says why.
        let _ = context.program("__kernel void nothing() {}").map(|program| program.build(device, c""));
        done.push(platform);
    }
}
