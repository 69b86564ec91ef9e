//! Windows: parts of any memory that a command names, checked to lie inside it.

use std::any::Any;
use std::ptr::{self, NonNull};
use std::sync::Arc;

use windlass_backend::{Allocation, HostAccess, ImageShape, Part, Region, Texels};

use crate::memory::{Block, FaultyMemory, Owner};

/// The bytes of an image, with those from one row to the next and from one slice to the next. Nobody else is to know that
/// there are gaps.
pub(crate) fn layout(shape: &ImageShape) -> (usize, usize, usize) {
    let [slices, rows, row] = shape.size;
    let row_pitch = (row + 3) * shape.format.bytes();
    (slices * rows * row_pitch, row_pitch, rows * row_pitch)
}

/// Where texels of an image are.
fn place_of(texels: &Texels, shape: &ImageShape) -> Region {
    let (texel, (_, row_pitch, slice_pitch)) = (shape.format.bytes(), layout(shape));
    let [z, y, x] = texels.origin;
    let [slices, rows, row] = texels.size;
    let offset = z * slice_pitch + y * row_pitch + x * texel;
    Region { offset, width: row * texel, rows, slices, row_pitch, slice_pitch }
}

/// Whose memory a command may use.
#[derive(Clone, Copy)]
pub(crate) struct Reach<'a> {
    /// The lane's own context.
    pub(crate) context: usize,
    /// Contexts whose memory copies may use as well.
    pub(crate) peers: &'a [usize],
}

impl Reach<'_> {
    fn includes(self, owner: Owner) -> bool {
        matches!(owner, Owner::Context(of) if of == self.context || self.peers.contains(&of))
    }

    /// The lane's own context alone.
    pub(crate) fn alone(self) -> Self {
        Reach { peers: &[], ..self }
    }
}

/// A box of some memory, checked to lie inside it.
#[derive(Clone)]
pub(crate) struct Window {
    start: NonNull<u8>,
    pub(crate) region: Region,
    /// Keeps the devices' own memory; the host's is kept by the runtime.
    pub(crate) block: Option<Arc<Block>>,
}

// SAFETY: a window is an address with a shape, and a reference count that is `Send`; those who use the address say why
// they may.
unsafe impl Send for Window {}
// SAFETY: as above.
unsafe impl Sync for Window {}

impl Window {
    /// All of some bytes, whose allocation is kept by whoever asks.
    pub(crate) fn whole(start: NonNull<u8>, bytes: usize) -> Self {
        Window { start, region: Region::line(0, bytes), block: None }
    }

    /// An error says what is wrong with it: a breach of the contract.
    pub(crate) fn new(
        memory: &dyn Allocation,
        part: impl Into<Part>,
        reach: Reach<'_>,
    ) -> Result<Self, String> {
        let region = match (part.into(), memory.image()) {
            (Part::Bytes(region), None) => region,
            (Part::Texels(texels), Some(shape)) => {
                let inside = |d: usize| texels.origin[d] + texels.size[d] <= shape.size[d];
                if !(0..3).all(inside) {
                    return Err(format!("{texels:?} of {shape:?}"));
                }
                place_of(&texels, &shape)
            }
            (part, image) => return Err(format!("{part:?} of an allocation that is {image:?}")),
        };
        let end = checked_end(&region);
        if end.is_none_or(|end| end > memory.bytes()) {
            return Err(format!("{region:?} of an allocation of {} bytes", memory.bytes()));
        }
        let known = (memory as &dyn Any).downcast_ref::<FaultyMemory>();
        let (start, block) = match known {
            Some(own) if own.kind.host != HostAccess::Coherent && !reach.includes(own.kind.owner) => {
                return Err("memory of another context".into());
            }
            Some(own) => (own.block.start(), Some(own.block.clone())),
            None => (memory.host_ptr(), None),
        };
        let start = start.ok_or("memory of another backend, without an address")?;
        Ok(Window { start, region, block })
    }

    /// A box of a context's own memory, for native code.
    pub(crate) fn of(memory: &FaultyMemory, region: Region) -> Result<Self, String> {
        match memory.kind.owner {
            Owner::Context(context) => Window::new(memory, region, Reach { context, peers: &[] }),
            Owner::StagingOf(_) => Err("staging memory".into()),
        }
    }

    /// The address of the first byte.
    pub(crate) fn first(&self) -> NonNull<u8> {
        // SAFETY: `new` checked that the region, its offset included, ends inside the allocation.
        unsafe { self.start.add(self.region.offset) }
    }

    /// Whether two windows share a byte.
    pub(crate) fn meets(&self, other: &Window) -> bool {
        let width = |w: &Window| w.region.width as isize;
        let far = |a: *mut u8, b: *mut u8| a.addr() as isize - b.addr() as isize;
        self.rows().any(|a| other.rows().any(|b| far(a, b) < width(other) && far(b, a) < width(self)))
    }

    fn rows(&self) -> impl Iterator<Item = *mut u8> {
        let start = self.start.as_ptr();
        // SAFETY: a row's offset is not above the region's end, which `new` checked.
        self.region.row_offsets().map(move |offset| unsafe { start.add(offset) })
    }

    /// Copies a box of the same shape here.
    pub(crate) fn copy_from(&self, from: &Window) {
        for (from, to) in from.rows().zip(self.rows()) {
            // SAFETY: both rows have `width` bytes inside allocations that live until the point is passed, and nobody
            // else writes the one or touches the other meanwhile: the runtime's promise.
            unsafe { ptr::copy(from, to, self.region.width) }
        }
    }

    /// Fills the box with a pattern; what of the pattern does not fit at a row's end is left out.
    pub(crate) fn fill(&self, pattern: &[u8]) {
        for row in self.rows() {
            for at in (0..self.region.width).step_by(pattern.len().max(1)) {
                let len = pattern.len().min(self.region.width - at);
                // SAFETY: `at + len` is not above the row's width, whose bytes are inside the allocation; the rest is
                // as for `copy_from`.
                unsafe { ptr::copy_nonoverlapping(pattern.as_ptr(), row.add(at), len) }
            }
        }
    }
}

/// `Region::end` in arithmetic that does not wrap.
fn checked_end(region: &Region) -> Option<usize> {
    if region.width.checked_mul(region.rows)?.checked_mul(region.slices)? == 0 {
        return Some(region.offset);
    }
    let slices = (region.slices - 1).checked_mul(region.slice_pitch)?;
    let rows = (region.rows - 1).checked_mul(region.row_pitch)?;
    region.offset.checked_add(slices)?.checked_add(rows)?.checked_add(region.width)
}
