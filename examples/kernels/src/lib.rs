//! Real programs in kernels: images, physics, finance, graphs, text, linear algebra.
//!
//! Each is a module with its kernels, the same in plain Rust, and a [`Report`]: a picture or a table, and whether the device's
//! results are those of plain Rust.

mod bodies;
mod clusters;
mod edges;
mod heat;
mod mandelbrot;
mod options;
mod paths;
mod ranks;
mod raytracer;
mod report;
mod solver;
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
    Program { name: "bodies", about: "stars that pull at each other", run: bodies::run },
    Program { name: "clusters", about: "a picture in few colours, by k-means", run: clusters::run },
    Program { name: "edges", about: "a picture is smoothed, and its edges found", run: edges::run },
    Program { name: "heat", about: "heat flows over a plate around walls", run: heat::run },
    Program { name: "mandelbrot", about: "the set, by complex numbers of a library", run: mandelbrot::run },
    Program { name: "options", about: "prices of options, by a formula and by chance", run: options::run },
    Program { name: "paths", about: "breadth-first search among people", run: paths::run },
    Program { name: "ranks", about: "which pages of a web matter most", run: ranks::run },
    Program { name: "raytracer", about: "balls that mirror each other", run: raytracer::run },
    Program { name: "solver", about: "the potential of charges, by conjugate gradients", run: solver::run },
    Program { name: "words", about: "how often each word stands in a text", run: words::run },
];
