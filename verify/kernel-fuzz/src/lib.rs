//! Random kernels. [`program`] writes a program of many kernels, each twice: in the kernel language, and as plain Rust
//! in which everything that the language defines is a call. The program runs the first on every device that is here
//! and compares what it did to memory with what the second did.
//!
//! Both texts are written at once, piece by piece, so nothing of the attribute is in the second one.

pub mod check;
mod expr;
mod heard;
mod kernel;
mod more;
pub mod plain;
mod random;
pub mod shares;
mod sharing;
mod stmt;
mod variants;

pub use kernel::program;

/// Elements of bytes, which all random kernels share as they would another crate's.
#[windlass::kernels]
pub mod cells {
    use windlass::prelude::*;

    /// Six bytes, of which every other one starts inside a word.
    #[derive(Clone, Copy, Debug, Default, PartialEq, DeviceCopy)]
    #[repr(C)]
    pub struct Cell {
        /// A number without a sign.
        pub low: u8,
        /// One with a sign.
        pub side: i8,
        /// Two wider ones.
        pub rest: [u16; 2],
    }
}
