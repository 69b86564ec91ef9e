//! Random kernels. [`program`] writes a program of many kernels, each twice: in the kernel language, and as plain Rust
//! in which everything that the language defines is a call. The program runs the first on every device that is here
//! and compares what it did to memory with what the second did.
//!
//! Both texts are written at once, piece by piece, so nothing of the attribute is in the second one.

pub mod check;
mod expr;
mod kernel;
mod more;
pub mod plain;
mod random;
pub mod shares;
mod sharing;
mod stmt;

pub use kernel::program;
