//! Copies and fills: rows of bytes, moved by the lane's worker.

use std::ptr::{self, NonNull};

use smallvec::SmallVec;
use windlass_backend::{Allocation, BackendError, CopyBox, Fill, Region};

/// A box of an allocation, checked to lie inside it.
#[derive(Clone, Copy)]
pub(crate) struct Window {
    start: NonNull<u8>,
    region: Region,
}

// SAFETY: a window is an address with a shape; those who use it say why they may.
unsafe impl Send for Window {}

impl Window {
    /// Refuses memory without an address, and a region that leaves the allocation.
    pub(crate) fn new(memory: &dyn Allocation, region: Region) -> Result<Self, BackendError> {
        let start = memory.host_ptr().ok_or_else(|| unsupported("memory without a host address"))?;
        match checked_end(&region) {
            Some(end) if end <= memory.bytes() => Ok(Window { start, region }),
            _ => Err(unsupported(&format!("{region:?} of an allocation of {} bytes", memory.bytes()))),
        }
    }

    /// The address of the region's first byte.
    pub(crate) fn first(&self) -> NonNull<u8> {
        // SAFETY: `new` checked that the region, its offset included, ends inside the allocation.
        unsafe { self.start.add(self.region.offset) }
    }

    /// The addresses of the rows; `width` bytes from each on are inside the allocation.
    fn rows(&self) -> impl Iterator<Item = *mut u8> {
        let start = self.start.as_ptr();
        // SAFETY: a row's offset is not above the region's end, which `new` checked.
        self.region.row_offsets().map(move |offset| unsafe { start.add(offset) })
    }
}

/// `Region::end` in arithmetic that does not wrap. An empty region must still start inside.
fn checked_end(region: &Region) -> Option<usize> {
    let bytes = region.width.checked_mul(region.rows)?.checked_mul(region.slices)?;
    if bytes == 0 {
        return Some(region.offset);
    }
    let slices = (region.slices - 1).checked_mul(region.slice_pitch)?;
    let rows = (region.rows - 1).checked_mul(region.row_pitch)?;
    region.offset.checked_add(slices)?.checked_add(rows)?.checked_add(region.width)
}

pub(crate) fn unsupported(what: &str) -> BackendError {
    BackendError::Unsupported(format!("{what} on a host device"))
}

/// A copy whose two windows have the same shape.
pub(crate) struct CopyRows {
    from: Window,
    to: Window,
}

impl CopyRows {
    pub(crate) fn new(copy: &CopyBox<'_>) -> Result<Self, BackendError> {
        let (a, b) = copy.regions()?;
        if (a.width, a.rows, a.slices) != (b.width, b.rows, b.slices) {
            return Err(unsupported(&format!("a copy from {a:?} to {b:?}")));
        }
        let from = Window::new(copy.from, a)?;
        let to = Window::new(copy.to, b)?;
        Ok(CopyRows { from, to })
    }

    /// Copies row by row, or all at once where neither side has gaps.
    pub(crate) fn run(&self) {
        let (from, to) = (self.from.region, self.to.region);
        if from.is_contiguous() && to.is_contiguous() {
            // SAFETY: both windows are live until the point is passed, and hold this many bytes from their first on,
            // since they have no gaps. Nothing else writes the one or touches the other meanwhile: the runtime's
            // promise. `copy` allows them to overlap.
            unsafe { ptr::copy(self.from.first().as_ptr(), self.to.first().as_ptr(), from.bytes()) }
            return;
        }
        for (from, to) in self.from.rows().zip(self.to.rows()) {
            // SAFETY: as above, for the `width` bytes of a row of each.
            unsafe { ptr::copy(from, to, self.from.region.width) }
        }
    }
}

/// A fill with its own copy of the pattern.
pub(crate) struct FillRows {
    window: Window,
    pattern: SmallVec<[u8; 16]>,
}

impl FillRows {
    pub(crate) fn new(fill: &Fill<'_>) -> Result<Self, BackendError> {
        let region = fill.region()?;
        let window = Window::new(fill.memory, region)?;
        if fill.pattern.is_empty() || !region.width.is_multiple_of(fill.pattern.len()) {
            let (len, width) = (fill.pattern.len(), region.width);
            return Err(unsupported(&format!("a fill of rows of {width} bytes by a pattern of {len}")));
        }
        Ok(FillRows { window, pattern: SmallVec::from_slice(fill.pattern) })
    }

    pub(crate) fn run(&self) {
        let mut region = self.window.region;
        if region.bytes() == 0 {
            return;
        }
        if region.is_contiguous() {
            region = Region::line(region.offset, region.bytes());
        }
        for row in (Window { region, ..self.window }).rows() {
            // SAFETY: the row's bytes are inside the allocation, live until the point is passed, and nothing else
            // touches them meanwhile: the runtime's promise.
            unsafe { self.fill_row(row, region.width) }
        }
    }

    /// # Safety
    /// `width` bytes from `row` on may be written, and nothing else touches them.
    unsafe fn fill_row(&self, row: *mut u8, width: usize) {
        if self.pattern.iter().all(|b| *b == self.pattern[0]) {
            // SAFETY: the caller's promise.
            return unsafe { ptr::write_bytes(row, self.pattern[0], width) };
        }
        // The pattern once, then what is there again and again, twice as long each time.
        let mut done = self.pattern.len();
        // SAFETY: a row is a positive multiple of the pattern's length, so the pattern fits; the vector is elsewhere.
        unsafe { ptr::copy_nonoverlapping(self.pattern.as_ptr(), row, done) };
        while done < width {
            let more = done.min(width - done);
            // SAFETY: `more` bytes from `row` on are written, `more` after `done` are inside the row, and the two do
            // not overlap since `more <= done`.
            unsafe { ptr::copy_nonoverlapping(row, row.add(done), more) };
            done += more;
        }
    }
}
