//! The suite that makes a backend valid.
//!
//! A [`Subject`] is a runtime, one of its devices, and the device's forms of the reference [`kernels`]. [`run`] puts
//! it through every [`Case`]; each case names the rows of the checklist (`docs/conformance.md`) that it is about. The
//! result of a case is compared with what is [`expected`]: a device that lacks something which it was said to have
//! fails, and so does one that has something which it was said to lack.
//!
//! ```
//! use windlass::Runtime;
//! use windlass_conformance::{Kernels, Subject, expected, run_some};
//! # fn main() -> windlass::Result<()> {
//! // `Runtime::builder().backend(..)` adds a backend of your own.
//! let runtime = Runtime::new();
//! let device = Subject::find(&runtime, |device| device.backend().as_str() == "host")?;
//! // `Kernels::with` adds images in a language that this crate does not know.
//! let subject = Subject::open("host", &device, Kernels::new())?;
//! let report = run_some(&subject, |case| case.name.starts_with("reference_kernel")); // `run` runs all
//! report.compare(expected::of("host")).expect("the host backend is valid");
//! # Ok(())
//! # }
//! ```
//!
//! Cases count (transfers, bytes, allocations, order of effects) and time nothing; a case that hangs is failed by a
//! guard after [`PATIENCE`].
//!
//! [`programs`] has the other half: random programs over any mix of devices, whose bytes are compared with the same
//! program run one step after the other.
#![warn(missing_docs)]

mod cases;
pub mod check;
pub mod expected;
pub mod kernels;
pub mod programs;
mod report;
mod rows;
mod subject;
pub mod table;

pub use cases::{Case, cases};
pub use check::{Problem, Verdict};
pub use kernels::Kernels;
pub use report::{Outcome, PATIENCE, Report, run, run_some};
pub use subject::{Moved, Subject};

/// The page on the kernel language, whose examples are tests.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/kernels.md")]
mod kernels_page {}
