//! What a kernel *is*, as values: the range it runs over, the images it exists in, the arguments it takes, and, for
//! host devices, a body to call and the memory views that body may touch.
//!
//! Nothing here knows a device, a queue or a scheduler, and nothing reads a kernel's text: that is for backends, which
//! have `windlass-kernel-translate` for it. The runtime builds these values, a backend consumes them.
#![warn(missing_docs)]

#[doc(hidden)]
pub mod asked;
pub mod attribute;
pub mod block;
mod body;
mod declared;
mod element;
mod follows;
mod here;
mod host;
mod image;
mod memory;
pub mod message;
#[doc(hidden)]
pub mod native;
mod need;
mod range;
pub mod shape;
pub mod texel;
mod view;
mod way;

pub use body::Body;
pub use declared::{Declared, Relied};
pub use element::{DeviceCopy, bytes_of, slice_bytes, slice_bytes_mut};
pub use follows::FollowsPointers;
pub use here::{Here, NotHere, run_here};
pub use host::{Block, HostBody};
pub use image::{
    ImageFormat, Kernel, KernelImage, Override, Overrides, Parameter, Slot, SlotAccess, TooLong, Width,
    builtin,
};
pub use memory::{AtomicElement, Extent, RawSpan, Span, Word};
pub use native::{Ptr, Vec2, Vec3, Vec4, f16};
pub use need::Need;
pub use range::{BadRange, IndexRange, Item, LaunchRange, NdRange, Range};
pub use view::{AtomicView, View, ViewMut};
pub use way::Way;
