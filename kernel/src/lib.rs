//! What a kernel *is*, as values: the range it runs over, the images it exists in, the arguments it takes, and, for
//! host devices, a body to call and the memory views that body may touch.
//!
//! Nothing here knows a device, a queue or a scheduler. The runtime builds these values, a backend consumes them.
#![warn(missing_docs)]

mod element;
mod host;
mod image;
mod memory;
mod range;
mod view;

pub use element::{DeviceCopy, bytes_of, slice_bytes};
pub use host::{Block, HostBody};
pub use image::{ImageFormat, Kernel, KernelImage, Slot, SlotAccess};
pub use memory::{Extent, Span, Word};
pub use range::{IndexRange, Item, LaunchRange, NdRange, Range};
pub use view::{AtomicInteger, AtomicView, View, ViewMut};
