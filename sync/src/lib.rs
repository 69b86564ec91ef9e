//! Internal to Windlass, without any stability promise: the cells that everything waits on, and the executor's
//! core.
//!
//! All hand-written atomics of the project live here (kernel memory excepted), one atomic word to a file, its bits
//! named. Every primitive is modelled in `loom-tests/`, but for [`process_exit`], a lock and a condition of the standard library, and
//! [`forked`], a flag that is set before there are threads.
#![warn(missing_docs)]

pub mod account;
pub mod budget;
pub mod cell;
pub mod combining;
pub mod completion;
mod credits;
mod drain;
pub mod executor;
pub mod facade;
pub mod forked;
pub mod helpers;
pub mod inbox;
pub mod inline;
pub mod last;
pub mod panics;
pub mod process_exit;
pub mod threads;
