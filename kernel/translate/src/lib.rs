//! What backends of real devices do with a kernel's text: check WGSL, translate it to a C-family language, keep what a
//! driver's compiler made of it, and show what a device was given.
//!
//! Nothing here knows a device or a runtime, and a program that only runs kernels on the host has none of it.
#![warn(missing_docs)]

pub mod c;
mod cache;
mod compared;
mod dump;
mod error;
mod far;
mod fence;
mod float_add;
mod immediate;
mod negated;
mod packed;
mod prove;
#[cfg(feature = "spirv")]
pub mod spirv;
mod statements;
mod unbranched;
pub mod wgsl;

pub use cache::Cache;
pub use dump::dump;
pub use error::TranslateError;
