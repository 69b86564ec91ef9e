//! The contract between the Windlass runtime and a backend: one native API (a vendor's driver, or the host's own
//! threads) behind in-order lanes.
//!
//! The runtime owns all that is hard about scheduling: order between groups, data movement, failure, cancellation,
//! back-pressure. A backend discovers devices, allocates memory, and executes what it is fed, in order. It knows no
//! buffers, no events, no queues and no dependencies; it knows allocations, lanes and points.
//!
//! # The pieces
//!
//! - A [`Backend`] discovers [`Platform`]s and opens a [`Context`] over some of their devices. Discovery and opening
//!   may block: the runtime calls them on a blocking pool. Neither loads a driver before it is called. A missing
//!   driver is an `Err` that says what is missing and how to get it; it is never a panic.
//! - A [`Context`] says what it can do, as data ([`ContextInfo`]), allocates memory, builds kernels and opens lanes.
//! - A [`Lane`] is an in-order stream of work on one device. The runtime feeds it groups of commands, each at a
//!   [`Point`], and learns by [`Verdict`]s how they ended.
//!
//! Backends are trusted with memory, so [`Backend`], [`Context`], [`Lane`] and [`Allocation`] are `unsafe` traits, each with what it
//! has to keep.
//!
//! # Lanes and points
//!
//! - Points of one lane rise strictly; they may skip numbers. A point is *passed* when everything fed at or below it
//!   has ended, well or badly. Passing is about order, not success.
//! - [`Lane::feed`] is called by one thread at a time for one lane, though not always the same thread; different
//!   lanes are fed at the same time. It must not wait for the device. The runtime keeps at most
//!   [`DeviceInfo::depth`] commands, and as many groups that report, in flight on a lane: choose both numbers below the driver's
//!   own limits. A group without commands counts as one; a group that is heavier than the lane is deep is fed when nothing else is
//!   on the lane.
//! - The group at a point starts when all earlier points of its lane and all its [`Wait`]s (points of other lanes of the same
//!   context, or of a context of the same [`ContextInfo::domain`], already fed) have been passed, whether they succeeded or not. The commands of one group run in
//!   order. A group without commands is a barrier: it passes, and does nothing.
//! - A wait is about order only. Where a driver ends the waiting group because what it waited for failed, that group fails
//!   as well, with the driver's own error: the backend says so in its documentation (OpenCL does).
//! - What a group wrote is visible to whatever starts after its point was passed. That goes for host memory too: a copy
//!   reads it when its group runs, since an earlier group of the domain may write it. (A context of one device that shares no
//!   domain is never fed such a pair, so it may read host memory in `feed`.)
//! - When `feed` returns an error, the group does not run, and the lane goes on as if it had not been fed. Check what can
//!   be checked before the first native call. Where the driver refuses a later one, return `Ok`, and report the point as
//!   failed once what did start has ended: a group is never half fed and given back. After
//!   an error the runtime feeds a group without commands at the same point, so that what is ordered through it stays ordered.
//! - Work starts without being asked for again: the runtime calls [`Lane::flush`] after a run of feeds, and after
//!   that no further call may be needed for the work to finish.
//!
//! # Completion
//!
//! - A group that [reports](Group::report) is armed when it is fed; which groups do is the runtime's choice, within the lane's depth.
//! - [`Lane::arm`] asks later for one call of [`LaneSink::passed`] as soon as the given point, which was fed, has been passed (at
//!   once, if it has been). Each armed point gets a call, or is covered by a later point's call. Nothing is reported
//!   unless it was armed, except at the backend's own liking.
//! - [`Lane::look`] asks whether a point has been passed by now, and reports it then and there if so. Only waiters of contexts with
//!   [`ContextInfo::waiters_look`] call it, over and over for that time; a lane that has nothing to say to it need not have it.
//! - A [`Verdict`] covers all points up to its own. It names every failure among those not covered by an earlier
//!   verdict of that lane. Where a driver shows failure only per command, keep each command's event until its status
//!   was read.
//! - What the runtime relies on is this: when `passed` is called, each failure at or below the verdict's point is named by this
//!   verdict, or by one for which `passed` has returned. So verdicts without failures may arrive in any order and at the
//!   same time, and one of a lower point than an earlier one's changes nothing; but no verdict overtakes one that names
//!   failures at or below its point. A failure that is named after a verdict has covered its point is not heard.
//! - `passed` may be called on any thread, the one inside `feed`, `flush` or `arm` included, and at the same time on
//!   several threads. Call it with no lock held that any method of the backend takes. It never blocks, and wakes the
//!   waiting tasks before it returns. If [`ContextInfo::feeds_from_sink`] is set, it may call `feed`, `flush` and
//!   `arm` of any lane of the context before it returns; set it unless `passed` runs inside a driver's callback.
//! - Every point that was fed is reported in the end when armed, a lost device included: then as
//!   [`BackendError::Lost`].
//!
//! # Memory
//!
//! - What fresh memory holds is [`MemoryInfo::fresh`]: zeros, or anything, and then the runtime fills with zeros what is read
//!   before it is written. Staging memory may hold anything at first: the runtime clears it where it is to be the host's copy of a
//!   buffer, and in staging proper it reads only what it has had copied there.
//! - The runtime keeps an allocation alive until the verdicts of all points that used it, then drops it on a thread
//!   that may block. Handles that an enqueued command needs for longer are the backend's to retain.
//! - Devices of a context that share one memory report the same [`DeviceInfo::memory`]: then the runtime never copies
//!   between them.
//! - Copies and fills are boxes of bytes ([`Region`]) in one to three dimensions. One side of a copy is the lane's own
//!   memory or another memory of the same context, or of a context in its domain if it said that it [copies from
//!   there](Context::copies_from); the other may also be host memory: [`HostMemory`], staging memory of any context, or an
//!   allocation in memory that the host reaches at any time ([`HostAccess::Coherent`]). The runtime keeps host memory
//!   unchanged (or untouched, where written) until the point is passed. Regions lie inside their allocations. Offsets and widths of the runtime's own transfers and clears are
//!   multiples of four bytes, except that a region may end at the end of its allocation, and in host memory anywhere. Those of a
//!   program's commands may be any; a backend that cannot do them refuses the group as [`BackendError::Unsupported`].
//! - Copies and fills take boxes with gaps between their rows. A kernel's argument has gaps only on a device with
//!   [`Aspect::HostBodies`], and where the kernel's image is WGSL that
//!   [guards itself](windlass_kernel::KernelImage::is_guarded), which is told of them by its block: all others work on a copy.
//!
//! # Errors
//!
//! [`BackendError::Lost`] is final for a context: once it was returned or reported, nothing of that context runs or
//! touches memory any more. A lane that refuses even a group without commands counts as lost with its context.
//!
//! A [`BackendError`] covers only what the caller cannot foresee. A breach of this contract by the runtime may panic.
//! A panic inside a backend is caught by the runtime at its own calls and becomes the group's error.
//!
//! # Sequences
//!
//! [`Context::record`] takes commands over, once their kernels are built and their memory is there, and [`Command::Replay`] runs
//! them in place of all of them: one native command where the driver has graphs. The commands name which earlier ones
//! they come after, so independent ones may run side by side. The runtime records anew where memory has changed; it never
//! records on devices without [`Aspect::Sequences`], and feeds them the commands one by one.
//!
//! # Past the contract
//!
//! A program may put native commands of its own into a group ([`Command::Native`]), borrow a context as the type that its backend
//! publishes in its [`NativeApi`] ([`Context`] is [`Any`](std::any::Any)), and have native objects of its own made into a context
//! ([`Backend::adopt`]), into memory of one ([`Context::adopt_memory`]) and into a lane ([`Context::adopt_lane`]). What it does there is
//! between it and the backend, whose documentation says what is allowed.
//!
//! # Memories, and what is kept in them
//!
//! A device works in its own memory ([`DeviceInfo::memory`]), where the runtime has a copy of what its commands use, and in the
//! others that it [reaches](DeviceInfo::reaches): those hold what a program wants kept in one place, of the
//! [kind](MemoryKind) that it asks for. Whether a program's addresses reach there is [`HostAccess`]; where the driver wants to be
//! told who uses such memory, the runtime says so by [`Command::Map`] and [`Command::Unmap`], in order with everything else.
//! [`Context::import`] makes an allocation of host memory that is there already.
//!
//! Allocations out of the host's reach may be ready later than [`Context::allocate`] returns (stream-ordered ones are), as long as
//! lanes wait for them.
//!
//! # Capabilities that have their place but no shape yet
//!
//! [`MemoryObject`], [`Arg`], [`Part`] and [`Command`] are open enums. A backend answers
//! [`BackendError::Unsupported`] to what it does not know. A [`HostBody`](windlass_kernel::HostBody) is handed memory only:
//! a value reaches it as memory that holds its bytes, and local memory ([`Arg::Local`]) for host images is `Unsupported`.
#![warn(missing_docs)]

mod command;
mod completion;
mod context;
mod details;
mod device;
mod error;
mod interop;
mod lane;
mod memory;
mod pci;
mod sequence;

pub use async_trait::async_trait;
pub use command::{
    Arg, BufferArg, Command, CopyBox, Fill, HostCode, HostLaunch, ImageArg, Launch, Part, Region, Texels,
};
pub use completion::{Completion, Head, Note};
pub use context::{
    Backend, BackendId, BuiltKernel, ClockSample, Context, ContextInfo, ContextSink, ContextSpec, DomainId,
    KernelLimits, KernelReport,
};
pub use details::{Cache, Details, Floats, VectorWidths};
pub use device::{
    Aspect, AtomicOrders, AtomicScopes, DeviceInfo, DeviceKey, DeviceKind, LaneDepth, Limits, MemoryIndex,
    Platform,
};
pub use error::{BackendError, Unavailable};
pub use interop::{NativeApi, NativeCall, NativeCode, NativeQueue, native_object, native_object_of};
pub use lane::{
    CompletionStrategy, Failed, Group, Lane, LaneNumber, LaneRole, LaneSink, LaneSpec, Point, Priority,
    Timed, Verdict, Wait,
};
pub use memory::{
    Allocation, Contents, HostAccess, HostMemory, ImageLimits, ImageShape, MemoryInfo, MemoryKind,
    MemoryObject, Usage,
};
pub use pci::{NoPciAddress, PciAddress};
pub use sequence::{Keeps, Node, Sequence};
