//! A library for kernels: what other crates' kernels use by `#[kernels] use kernel_library::…::*;`.
//!
//! There are no kernels in it, and nothing of it runs by itself: its functions are written into the kernels that call them.

mod complex;
mod scene;
mod streams;

// With each module its macro, by which other modules get what it has.
pub use complex::numbers;
pub use scene::rays;
pub use streams::random;
