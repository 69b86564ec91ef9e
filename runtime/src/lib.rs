//! Windlass: an async-first runtime for heterogeneous compute.
//!
//! You submit *command groups* that say what data they touch. The runtime finds the order, moves what is stale, runs
//! each group on its device, and hands you an [`Event`] that is a `Future`.
//!
//! ```
//! use windlass::prelude::*;
//!
//! # async fn f() -> windlass::Result<()> {
//! let queue = Queue::on(Device::host())?;
//! let x = Buffer::from(vec![1.0_f32; 1 << 10]);
//! let y = Buffer::from(vec![2.0_f32; 1 << 10]);
//! queue
//!     .submit(|cg| {
//!         let args = (cg.read(&x), cg.read_write(&y));
//!         cg.host_for(1 << 10, args, |item, (x, y)| {
//!             let i = item.id(0);
//!             y.set(i, 3.0 * x.get(i) + y.get(i))
//!         })
//!     })?
//!     .await?;
//! assert!(y.host_read().await?.iter().all(|&v| v == 5.0));
//! # Ok(()) }
//! # futures::executor::block_on(f()).unwrap();
//! ```
//!
//! Events work under any executor. Host tasks and outside futures run on the tokio runtime that is current where they
//! are submitted, else on an executor of Windlass's own.
#![warn(missing_docs)]
#![cfg_attr(not(feature = "host"), allow(dead_code, reason = "a build without backends has nothing to run"))]

mod buffer;
mod build;
mod context;
mod device;
#[allow(dead_code)]
mod engine;
mod error;
mod event;
mod group;
mod host_access;
mod host_task;
mod host_view;
mod queue;
mod runtime;
mod shell;
mod shutdown;
mod stall;

/// What a kernel is, for kernels that are made of images.
pub use windlass_kernel as kernel;

pub use buffer::{Buffer, Region, Shape};
pub use context::Context;
pub use device::{Device, Platform, Selector};
pub use error::{BoxError, Error, Result};
pub use event::{AllEvents, Cancel, CancelOnDrop, Event, Status};
pub use group::{
    Accessor, Atomic, Chunk, ChunkArg, ChunkArgs, CommandGroup, HostArg, HostArgs, KernelCall, OnCancel,
    Read, ReadWrite, ReadWriteUninit, Write, WriteKeep,
};
pub use host_access::{HostRead, HostReadFuture, HostWrite, HostWriteFuture};
pub use host_task::{Host, WriteAccessor};
pub use host_view::{HostView, HostViewMut};
pub use queue::{Drained, Queue, QueueBuilder, Ready, Slot};
pub use runtime::{Remaining, Runtime, RuntimeBuilder, Stats};
pub use shell::report::AsyncError;
pub use stall::{DeadlockPolicy, Holder, Stall};
pub use windlass_backend::{
    Aspect, BackendError, BackendId, CompletionStrategy, DeviceInfo, DeviceKind, Unavailable,
};
pub use windlass_kernel::{DeviceCopy, Item, LaunchRange, NdRange};

/// What most programs need.
pub mod prelude {
    pub use crate::{
        Aspect, Buffer, Cancel, CommandGroup, Context, Device, DeviceCopy, Event, OnCancel, Queue, Runtime,
        Selector, Status,
    };
}

/// Extensions that are not bound to one backend.
pub mod ext {}

/// Random programs on which the engine is compared with an independent account.
#[cfg(feature = "mutants")]
pub mod oracle {
    pub use crate::engine::Mutant;
    pub use crate::engine::oracle::{Failure, Stats, engine, engine_agrees, engine_in_chunks};
}
