//! Real programs in kernels: images, physics, finance, graphs, text, linear algebra.
//!
//! Each is a module with its kernels, the same in plain Rust, and a [`Report`]: a picture or a table, and whether the device's
//! results are those of plain Rust.

mod mandelbrot;
mod raytracer;
mod report;
mod words;

pub use report::Report;
use windlass::Queue;

/// A program.
#[derive(Clone, Copy, Debug)]
pub struct Program {
    /// What it goes by.
    pub name: &'static str,
    /// What it does.
    pub about: &'static str,
    /// Runs it on a device.
    pub run: fn(&Queue) -> windlass::Result<Report>,
}

/// All of them.
pub const PROGRAMS: &[Program] = &[
    Program { name: "mandelbrot", about: "the set, by complex numbers of a library", run: mandelbrot::run },
    Program { name: "raytracer", about: "balls that mirror each other", run: raytracer::run },
    Program { name: "words", about: "how often each word stands in a text", run: words::run },
];
