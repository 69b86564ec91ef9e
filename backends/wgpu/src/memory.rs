//! Buffers, and boxes of them and of host memory as owned values that outlive `feed`.

use std::any::Any;
use std::ops::Range;
use std::ptr::{self, NonNull};
use std::slice;
use std::sync::Arc;

use wgpu::BufferUsages;
use windlass_backend::{Allocation, BackendError, Region};

use crate::error::unsupported;
use crate::pinned::Raw;
use windlass_sync::process_exit::Native;

/// wgpu copies whole words.
pub(crate) const WORD: usize = wgpu::COPY_BUFFER_ALIGNMENT as usize;

/// What this backend does with device memory, and what a program's own commands may: to draw what kernels have computed, for one.
const USAGES: BufferUsages = BufferUsages::STORAGE
    .union(BufferUsages::COPY_SRC)
    .union(BufferUsages::COPY_DST)
    .union(BufferUsages::VERTEX)
    .union(BufferUsages::INDEX)
    .union(BufferUsages::UNIFORM);

/// Bytes rounded up to the words that wgpu copies.
pub(crate) fn padded(bytes: usize) -> usize {
    bytes.next_multiple_of(WORD)
}

/// A buffer of wgpu's; see [`native`](crate::native). It is up to three bytes larger than was asked for: in the device's memory, or in the host's where the device
/// reaches it (`pinned`).
#[derive(Debug)]
pub struct Memory {
    /// What the host has of it. Before the buffer, which keeps the device alive until this is gone.
    mapped: Option<Native<Arc<Raw>>>,
    buffer: Native<wgpu::Buffer>,
    bytes: usize,
}

impl Memory {
    /// Creates a buffer in the device's memory. wgpu gives zeros for what was never written.
    pub(crate) fn create(device: &wgpu::Device, bytes: usize) -> Self {
        let buffer = device.create_buffer(&wgpu::BufferDescriptor {
            label: None,
            size: padded(bytes.max(1)) as u64,
            usage: USAGES,
            mapped_at_creation: false,
        });
        Memory { mapped: None, buffer: Native::new(buffer), bytes }
    }

    /// A buffer that the program made, with what it holds.
    pub(crate) fn adopt(buffer: wgpu::Buffer, bytes: usize) -> Result<Self, BackendError> {
        let wanted = BufferUsages::STORAGE | BufferUsages::COPY_SRC | BufferUsages::COPY_DST;
        if !buffer.usage().contains(wanted) {
            return unsupported(format!("native memory for {:?} that is not for {wanted:?}", buffer.usage()));
        }
        if !bytes.is_multiple_of(WORD) {
            return unsupported(format!(
                "native memory as a buffer of {bytes} bytes: kernels use it by words of {WORD}"
            ));
        }
        if buffer.size() < bytes as u64 {
            return unsupported(format!("native memory of {} bytes for a buffer of {bytes}", buffer.size()));
        }
        Ok(Memory { mapped: None, buffer: Native::new(buffer), bytes })
    }

    /// A buffer that the host has, too.
    pub(crate) fn mapped(buffer: wgpu::Buffer, bytes: usize, mapped: Arc<Raw>) -> Self {
        Memory { mapped: Some(Native::new(mapped)), buffer: Native::new(buffer), bytes }
    }

    /// The memory behind an allocation; `None` if it is not of this backend.
    pub(crate) fn of(allocation: &dyn Allocation) -> Option<&Self> {
        (allocation as &dyn Any).downcast_ref()
    }

    /// The buffer. An accessor's part of it is told beside.
    pub fn buffer(&self) -> &wgpu::Buffer {
        &self.buffer
    }
}

// SAFETY: the memory stays mapped at the host's address, if it has one, for as long as this lives.
unsafe impl Allocation for Memory {
    fn bytes(&self) -> usize {
        self.bytes
    }

    fn host_ptr(&self) -> Option<NonNull<u8>> {
        self.mapped.as_ref().map(|mapped| mapped.host())
    }
}

/// A box of a buffer. wgpu itself keeps the buffer for as long as a submission uses it.
#[derive(Clone, Debug)]
pub(crate) struct BufferBox {
    pub(crate) buffer: wgpu::Buffer,
    pub(crate) region: Region,
    /// Whether wgpu can copy it by whole words without changing anything outside.
    pub(crate) is_whole: bool,
    /// Where the host has it, from the first to the last byte, gaps between rows included.
    pub(crate) addresses: Option<Range<usize>>,
}

/// Whether a box of device memory is read or written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Use {
    Read,
    Write,
}

impl BufferBox {
    pub(crate) fn new(memory: &Memory, region: Region, how: Use) -> Result<Self, BackendError> {
        inside(memory, region)?;
        let addresses = memory.host_ptr().map(|host| addresses(host, region));
        let is_whole = is_whole(region, memory.bytes, how);
        Ok(BufferBox { buffer: memory.buffer.clone(), region, is_whole, addresses })
    }
}

/// Whether wgpu copies a box of a buffer of so many bytes by whole words, and changes nothing outside.
fn is_whole(region: Region, bytes: usize, how: Use) -> bool {
    let rows = region.rows * region.slices;
    let steps = (rows > 1 && !region.row_pitch.is_multiple_of(WORD))
        || (region.slices > 1 && !region.slice_pitch.is_multiple_of(WORD));
    if steps || !region.offset.is_multiple_of(WORD) {
        return false;
    }
    // The last word of a ragged row includes bytes that are not the row's. That is harmless when they are only read, or when
    // they are the buffer's own padding.
    let ragged = !region.width.is_multiple_of(WORD);
    !ragged || how == Use::Read || (rows == 1 && region.end() == bytes)
}

/// Refuses regions outside their allocation, which would be a breach of the contract, instead of passing them on.
fn inside(memory: &dyn Allocation, region: Region) -> Result<(), BackendError> {
    if region.end() > memory.bytes() {
        return unsupported(format!("{region:?} ends outside its allocation of {} bytes", memory.bytes()));
    }
    Ok(())
}

/// A box of host memory, to be read or written on our own threads before its point is passed.
#[derive(Clone, Debug)]
pub(crate) struct HostBox {
    start: NonNull<u8>,
    region: Region,
}

// SAFETY: a host box is an address with a shape. By the backend contract the memory behind it may be used from any
// thread until its point is passed, and the runtime leaves it alone until then.
unsafe impl Send for HostBox {}

impl HostBox {
    /// The box, if `allocation` is host memory that holds all of it.
    pub(crate) fn new(allocation: &dyn Allocation, region: Region) -> Result<Self, BackendError> {
        let Some(start) = allocation.host_ptr() else {
            return unsupported("an allocation that is neither of this backend nor host memory");
        };
        inside(allocation, region)?;
        Ok(HostBox { start, region })
    }

    /// Calls `each` with every row, in order. To be called only before the box's point is passed.
    pub(crate) fn read_rows(&self, mut each: impl FnMut(&[u8])) {
        for offset in self.region.row_offsets() {
            // SAFETY: `new` checked that every row lies inside the allocation, whose memory is initialised. The
            // runtime keeps it alive, and unchanged where a command reads it, until the point is passed, which is
            // reported after this call.
            each(unsafe { slice::from_raw_parts(self.start.as_ptr().add(offset), self.region.width) });
        }
    }

    /// Writes every row from `rows`, where each starts `stride` bytes after the one before. To be called only before
    /// the box's point is passed.
    pub(crate) fn write_rows(&self, rows: &[u8], stride: usize) {
        for (offset, row) in self.region.row_offsets().zip(rows.chunks(stride)) {
            let row = &row[..self.region.width];
            // SAFETY: `new` checked that every row lies inside the allocation. The runtime keeps it alive and touches
            // no byte of the box until the point is passed, which is reported after this call. `row` is memory of a
            // batch's staging, hence another allocation.
            unsafe { ptr::copy_nonoverlapping(row.as_ptr(), self.start.as_ptr().add(offset), row.len()) };
        }
    }

    /// The addresses from the first to the last byte, gaps between rows included.
    pub(crate) fn addresses(&self) -> Range<usize> {
        addresses(self.start, self.region)
    }
}

fn addresses(start: NonNull<u8>, region: Region) -> Range<usize> {
    let start = start.addr().get();
    start + region.offset..start + region.end()
}

/// Whether two ranges of addresses overlap.
pub(crate) fn overlap(a: &Range<usize>, b: &Range<usize>) -> bool {
    a.start < b.end && b.start < a.end
}
