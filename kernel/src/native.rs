//! What kernels on the host are made of: the code that `#[kernel]` writes calls these. Not for other uses.
//!
//! # Why nothing here is `unsafe` to call
//!
//! The code that the attribute writes stands in crates that may forbid `unsafe`. So a [`Launch`] gives out memory only
//! in forms that are sound whatever is done with them:
//!
//! - A slot that is written is reached by relaxed atomic words ([`Launch::shared`]), which any number of work-items may
//!   use at once.
//! - A slot that is declared to be read only is a plain slice ([`Launch::plain`]) if nothing that the launch writes
//!   overlaps it: whoever writes needs a slot that is declared to be written, and other groups are kept away.
//! - A slot that is declared [`SlotUse::own`] is a mutable slice ([`Launch::own`]) of the block's own elements, once
//!   for each block, in a launch of one dimension in which it overlaps no other argument. In such a launch there is no
//!   other way to reach it. All blocks come to the same answer, since it depends on the launch and the declarations
//!   alone, and no two blocks have an item in common.
//!
//! - What the launch reaches beside its slots ([`Launch::reached`]) is reached by atomic words. Where one of its spans overlaps a slot,
//!   that slot is taken to be written by others.
//!
//! That all blocks of a launch are run by one kernel, with one set of declarations, is what
//! [`Body::run`](crate::Body::run) has its caller promise. Nothing here runs a kernel.
//!
//! The one exception is [`Launch::alone`], which code uses whose kernel is `unsafe` itself, or for which the attribute promises: that
//! all accesses are where it has told [`Launch::keeps_apart`] that they are. What the attribute promises of the text
//! that it wrote for devices (`attribute::kernel`) is not about memory that the host's code reaches.

mod groups;
mod items;
mod lanes;
mod number;
mod outside;
mod pointer;
mod reached;
mod rows;
mod spread;
mod vector;
mod views;

pub use crate::Way;
pub use crate::memory::{AtomicOp, Order, fence};
pub use crate::texel;
pub use bytemuck::{Pod, Zeroable};
pub use groups::{Few, Group, Local, cells, few_cells};
pub use half::f16;
pub(crate) use items::NativeKernel;
pub use items::{Item, Launch, SlotUse};
pub use lanes::{Bounds, Inside, LANES, Line, Run, span};
pub use number::{Integer, Zero, element, element_mut, held};
pub use pointer::Ptr;
pub use reached::{REACH_BYTES, REACH_PARTS, Reached, ReachedPart, ReachedParts, reach_table};
pub use rows::Row;
pub use spread::Reach;
pub use vector::{Vec2, Vec3, Vec4, Vector};
pub use views::{Alone, Atomics, Load, Own, Plain, Rest, Shared, SharedAtomics, Store};
