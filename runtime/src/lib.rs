//! Windlass: an async-first runtime for heterogeneous compute.
//!
//! You submit *command groups* that say what data they touch. The runtime finds the order, moves what is stale, runs
//! each group on its device, and hands you an [`Event`] that is a `Future`.
//!
//! ```
//! use windlass::prelude::*;
//!
//! // Written once, for every device.
//! #[windlass::kernel]
//! fn saxpy(a: f32, x: &[f32], y: &mut [f32]) {
//!     let i = global_id(0);
//!     if i < y.len() {
//!         y[i] = a * x[i] + y[i];
//!     }
//! }
//!
//! # async fn f() -> windlass::Result<()> {
//! let queue = Queue::new().await?;
//! let x = Buffer::from(vec![1.0_f32; 1 << 10]);
//! let y = Buffer::from(vec![2.0_f32; 1 << 10]);
//! queue
//!     .submit(|cg| cg.parallel_for(1 << 10, saxpy(3.0, cg.read(&x), cg.read_write(&y))))?
//!     .await?;
//! assert!(y.host_read().await?.iter().all(|&v| v == 5.0));
//! # Ok(()) }
//! # futures::executor::block_on(f()).unwrap();
//! ```
//!
//! **The guide** goes through it page by page: `windlass::guide` in a build with all features, as on docs.rs, and `docs/guide/` in the repository.
//!
//! | feature | what it brings |
//! |---|---|
//! | `host` (default) | this process's own threads as a device |
//! | `opencl`, `wgpu` | OpenCL, and Vulkan through wgpu; their drivers are loaded when the program runs |
//! | `bytes` | buffers of `bytes::Bytes` and back; `windlass::stream` |
//! | `image` | pictures of the crate `image` in and out |
//! | `metrics` | counts and times for the facade `metrics` |
//! | `spirv` | kernels of compute shaders in SPIR-V, as compilers of GLSL and HLSL make them |
//! | `tower` | a [`Batch`](batch::Batch) is a service of `tower`, or a layer |
//!
//! | environment | what it does |
//! |---|---|
//! | `WINDLASS_DEVICE` | chooses a backend (`host`, `opencl`, `wgpu`) or one of its devices by number (`opencl:1`); no other driver is loaded |
//! | `WINDLASS_TRACE` | names a file to which each runtime writes what it does; see [`trace`] |
//! | `WINDLASS_DUMP` | names a folder for kernels' texts as devices get them |
//! | `WINDLASS_DEBUG` | `1` has kernels on the host compare each index, also where they would be fast; `paths` has it said how each kernel reaches its memory |
//! | `WINDLASS_CACHE` | names a folder in which compiled kernels are kept for the next process |
//!
//! Events work under any executor. Host tasks and outside futures run on the tokio runtime that is current where they
//! are submitted, else on an executor of Windlass's own.
#![warn(missing_docs)]
#![cfg_attr(not(feature = "host"), allow(dead_code, reason = "a build without backends has nothing to run"))]

// The attribute of kernels names this crate.
extern crate self as windlass;

pub mod args;
pub mod batch;
mod buffer;
mod bundle;
mod context;
mod device;
mod error;
mod event;
mod explain;
pub mod ext;
mod group;
// Its texts name what only a build with these has, and are for rustdoc alone.
#[cfg(all(doc, feature = "bytes", feature = "metrics"))]
pub mod guide;
mod host_access;
mod host_index;
mod host_task;
mod host_view;
pub mod interop;
mod known;
#[cfg(feature = "metrics")]
mod metrics;
mod probes;
mod queue;
mod recording;
mod runtime;
mod scope;
mod shell;
#[cfg(feature = "bytes")]
pub mod stream;
mod together;
pub mod trace;

/// Kernels that are made of images: what a kernel is where `#[kernel]` did not make it, in the languages of devices or as
/// a body for the host.
///
/// ```
/// use std::sync::Arc;
/// use windlass::image::{Block, Kernel, KernelImage, Slot, SlotAccess, ViewMut};
/// use windlass::{KernelCall, prelude::*};
/// # fn main() -> windlass::Result<()> {
/// let body = |block: Block<'_>| {
///     let x = ViewMut::<u32>::new(block.spans()[0]);
///     block.items().for_each(|i| x.set(i, x.get(i) + 1));
/// };
/// let slots = [Slot::Buffer(SlotAccess::ReadWrite)];
/// let increment = Kernel::new("increment", slots, [KernelImage::host(Arc::new(body))]);
/// let (queue, x) = (Queue::blocking_on(Device::host())?, Buffer::from(vec![1, 2, 3]));
/// queue.submit(|cg| cg.parallel_for(3, KernelCall::new(&increment).buffer(cg.read_write(&x))))?;
/// assert_eq!(x.host_read().blocking_wait()?[..], [2, 3, 4]);
/// # Ok(())
/// # }
/// ```
pub mod image {
    pub use windlass_kernel::{
        AtomicElement, AtomicView, Block, HostBody, ImageFormat, IndexRange, Kernel, KernelImage, Need,
        Override, Overrides, Parameter, Range, Slot, SlotAccess, Span, View, ViewMut, Width,
    };
}

/// What the attributes' code calls. Not for other uses.
#[doc(hidden)]
pub mod __private {
    pub use windlass_kernel::attribute::*;
    pub use windlass_kernel::native::*;
    pub use windlass_kernel::{Kernel, Need, Override, Slot, SlotAccess};
    pub use windlass_kernel_macros::kernels_with;
}

#[cfg(feature = "image")]
pub use buffer::Pictured;
pub use buffer::{Buffer, Image};
/// What images are made of, and how kernels look at them.
pub use windlass_kernel::texel;

pub use bundle::Bundle;
/// Reference-counted bytes, of which buffers are made and which are made of them.
#[cfg(feature = "bytes")]
pub use bytes;
pub use context::Context;
pub use device::{Device, Platform, Selector};
pub use error::stall::{Holder, Stall, Waiter};
pub use error::too_large::TooLarge;
pub use error::{BoxError, Error, Result};
pub use event::{AllEvents, AnyEvent, CancelOnDrop, CancelOutcome, Event, Events, Profile, Status};
pub use explain::Explanation;
pub use group::{Chunk, CommandGroup, KernelCall, OnCancel};
pub use host_access::{HostRead, HostReadFuture, HostWrite, HostWriteFuture};
pub use host_index::GuardIndex;
pub use host_view::{HostView, HostViewMut};
pub use known::KnownBackend;
pub use queue::{Drained, OwnedSlot, Queue, QueueBuilder, Ready, ReadyOwned, Slot};
pub use recording::Recording;
pub use runtime::{Runtime, RuntimeBuilder, Stats};
pub use scope::{Scope, scope};
pub use shell::allocator::HostAllocator;
pub use shell::devices::Fault;
pub use shell::form::Form;
pub use shell::report::AsyncError;
pub use shell::room::Residency;
pub use shell::shutdown::Remaining;
pub use shell::stall::DeadlockPolicy;
pub use together::groups;
pub use windlass_backend::{
    Aspect, AtomicOrders, AtomicScopes, BackendError, BackendId, Cache, CompletionStrategy, Details,
    DeviceInfo, DeviceKind, Floats, KernelReport, MemoryKind, PciAddress, Priority, Unavailable,
    VectorWidths,
};
pub use windlass_kernel::shape::Shape as LaunchShape;
pub use windlass_kernel::{DeviceCopy, Item, LaunchRange, NdRange, Ptr, Vec2, Vec3, Vec4, Way, f16};
/// Lets a struct live in device memory, having proved that it has no padding.
///
/// ```
/// use windlass::prelude::*;
/// #[derive(Clone, Copy, DeviceCopy)]
/// #[repr(C)]
/// struct Body {
///     position: Vec3<f32>,
///     mass: f32,
/// }
/// let bodies = Buffer::<Body>::new(16);
/// # let _ = bodies;
/// ```
pub use windlass_kernel_macros::DeviceCopy;
/// Turns a function into a kernel: a function of the same name that makes a call of it, to be launched. What the
/// language has is in `docs/kernels.md`.
///
/// ```
/// use windlass::prelude::*;
///
/// #[windlass::kernel]
/// fn saxpy(a: f32, x: &[f32], y: &mut [f32]) {
///     let i = global_id(0);
///     if i < y.len() {
///         y[i] = a * x[i] + y[i];
///     }
/// }
///
/// # fn main() -> windlass::Result<()> {
/// let queue = Queue::blocking_new()?;
/// let (x, y) = (Buffer::from(vec![1.0_f32; 64]), Buffer::from(vec![2.0_f32; 64]));
/// queue.submit(|cg| cg.parallel_for(64, saxpy(3.0, cg.read(&x), cg.read_write(&y))))?;
/// assert!(y.host_read().blocking_wait()?.iter().all(|&v| v == 5.0));
/// # Ok(())
/// # }
/// ```
pub use windlass_kernel_macros::kernel;
/// Turns the `#[kernel]` functions of a module into kernels, which share its structs, constants and other functions.
///
/// ```
/// use windlass::prelude::*;
///
/// #[windlass::kernels]
/// mod physics {
///     use windlass::prelude::*;
///
///     const GRAVITY: f32 = 9.81;
///
///     #[derive(Clone, Copy, DeviceCopy)]
///     #[repr(C)]
///     pub struct Body {
///         pub height: f32,
///         pub speed: f32,
///     }
///
///     fn moved(body: Body, seconds: f32) -> Body {
///         Body { height: body.height + body.speed * seconds, speed: body.speed - GRAVITY * seconds }
///     }
///
///     #[kernel]
///     pub fn step(seconds: f32, bodies: &mut [Body]) {
///         let i = global_id(0);
///         bodies[i] = moved(bodies[i], seconds);
///     }
/// }
///
/// let mut bodies = [physics::Body { height: 10.0, speed: 0.0 }; 4];
/// physics::step(1.0, &mut bodies[..]).run_here(4).unwrap();
/// assert_eq!((bodies[3].height, bodies[3].speed), (10.0, -9.81));
/// ```
pub use windlass_kernel_macros::kernels;

/// What a group or the host gets when it asks for data, and the traits that its arguments go by.
///
/// Programs seldom name these: `cg.read(&buffer)` makes a [`Read`](access::Read), and kernels take it. They are here for
/// signatures, and not at the root because names such as `Read` and `Write` belong to everybody.
pub mod access {
    pub use crate::buffer::{Region, Shape};
    pub use crate::group::{
        Accessor, Atomic, ChunkArg, ChunkArgs, Concurrent, HostArg, HostArgs, Overwrite, Read, ReadWrite,
        ReadWriteUninit, Write,
    };
    pub use crate::host_task::{Host, WriteAccessor};
}

/// The backend of this process's own threads.
#[cfg(feature = "host")]
pub use windlass_host as host;
/// The backend of OpenCL devices: how it is set, its native objects, and what it has beyond other backends.
#[cfg(feature = "opencl")]
pub use windlass_opencl as opencl;
/// The backend of Vulkan devices: its native objects, and what a kernel's text has to be there.
#[cfg(feature = "wgpu")]
pub use windlass_wgpu as wgpu;

/// What most programs need.
pub mod prelude {
    pub use crate::{
        Aspect, Buffer, CancelOutcome, CommandGroup, Context, Device, DeviceCopy, Event, Image, OnCancel,
        Ptr, Queue, Runtime, Selector, Status, Vec2, Vec3, Vec4, f16,
    };
    pub use windlass_kernel::texel::Sampler;
}
