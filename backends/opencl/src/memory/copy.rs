//! Copies of boxes, in as few native commands as OpenCL's idea of a box allows.

use std::ptr::NonNull;
use std::sync::Arc;

use windlass_backend::{Allocation, BackendError, CopyBox, Region};

use super::{Memory, assert_inside};
use crate::feeding::Feeding;
use crate::sys::{Context, Grid, Rect, Result};

/// A checked copy.
pub(crate) struct Transfer<'a> {
    ends: Ends<'a>,
    from: Region,
    to: Region,
}

/// The two ends of a copy. Host addresses are those of the allocations' starts.
#[derive(Clone, Copy)]
enum Ends<'a> {
    Read(&'a Memory, NonNull<u8>),
    Write(NonNull<u8>, &'a Memory),
    Inside(&'a Memory, &'a Memory),
}

impl<'a> Transfer<'a> {
    pub(crate) fn plan(
        context: &Arc<Context>,
        copy: &CopyBox<'a>,
    ) -> std::result::Result<Self, BackendError> {
        let CopyBox { from, to, .. } = *copy;
        let (from_region, to_region) = copy.regions()?;
        let size = |r: &Region| [r.width, r.rows, r.slices];
        assert_eq!(size(&from_region), size(&to_region), "a copy's boxes have one size");
        assert_inside(&from_region, from);
        assert_inside(&to_region, to);
        let ends = match (Memory::of(from, context)?, Memory::of(to, context)?) {
            (Some(from), Some(to)) => Ends::Inside(from, to),
            (Some(from), None) => Ends::Read(from, host(to)?),
            (None, Some(to)) => Ends::Write(host(from)?, to),
            (None, None) => {
                return Err(BackendError::Unsupported(
                    "a copy without OpenCL memory on an OpenCL lane".into(),
                ));
            }
        };
        Ok(Transfer { ends, from: from_region, to: to_region })
    }

    /// A copy between boxes of one memory, whose bounds the driver checks.
    pub(super) fn within(memory: &'a Memory, from: Region, to: Region) -> Self {
        Transfer { ends: Ends::Inside(memory, memory), from, to }
    }

    /// One native command where there is one for the whole box, else one for each slice, else one for each row.
    pub(crate) fn enqueue(&self, feeding: &mut Feeding<'_>) -> Result<()> {
        if self.from.bytes() == 0 {
            return Ok(());
        }
        if self.from.is_contiguous() && self.to.is_contiguous() {
            return self.line(feeding, self.from.offset, self.to.offset, self.from.bytes());
        }
        if let Some(rect) = self.rect() {
            return self.rect_copy(feeding, &rect);
        }
        let Transfer { ends, from, to } = *self;
        if from.slices > 1 && from.rows > 1 {
            return slices(from)
                .zip(slices(to))
                .try_for_each(|(from, to)| Transfer { ends, from, to }.enqueue(feeding));
        }
        let mut rows = from.row_offsets().zip(to.row_offsets());
        rows.try_for_each(|(a, b)| self.line(feeding, a, b, from.width))
    }

    fn line(&self, feeding: &mut Feeding<'_>, from: usize, to: usize, bytes: usize) -> Result<()> {
        feeding.enqueue(|queue, waits| match self.ends {
            // SAFETY: the line is part of a box that was checked to lie inside the host allocation, and the runtime
            // keeps that alive and untouched until the point is passed.
            Ends::Read(memory, host) => unsafe {
                queue.read(memory.buffer(), from, bytes, host.add(to).as_ptr(), waits)
            },
            // SAFETY: as above; the runtime keeps the memory unchanged.
            Ends::Write(host, memory) => unsafe {
                queue.write(memory.buffer(), to, bytes, host.add(from).as_ptr(), waits)
            },
            Ends::Inside(a, b) => queue.copy((a.buffer(), from), (b.buffer(), to), bytes, waits),
        })
    }

    fn rect_copy(&self, feeding: &mut Feeding<'_>, rect: &Rect) -> Result<()> {
        feeding.enqueue(|queue, waits| match self.ends {
            // SAFETY: `rect` describes the same bytes as the box that was checked to lie inside the host allocation,
            // counted from its offset, and the runtime keeps that alive and untouched until the point is passed.
            Ends::Read(memory, host) => unsafe {
                queue.read_rect(memory.buffer(), rect, host.add(self.to.offset).as_ptr(), waits)
            },
            // SAFETY: as above; the runtime keeps the memory unchanged.
            Ends::Write(host, memory) => unsafe {
                queue.write_rect(memory.buffer(), rect, host.add(self.from.offset).as_ptr(), waits)
            },
            Ends::Inside(a, b) => queue.copy_rect(a.buffer(), b.buffer(), rect, waits),
        })
    }

    /// The copy as one native box, where there is one.
    fn rect(&self) -> Option<Rect> {
        let (from, to) = (flat(self.from), flat(self.to));
        // A host address can be moved to the box's start, a buffer's cannot. A driver knows no bounds of host memory.
        let (mut a, mut b) = match self.ends {
            Ends::Read(memory, _) => (grid(&from, from.offset, memory.size())?, grid(&to, 0, usize::MAX)?),
            Ends::Write(_, memory) => (grid(&from, 0, usize::MAX)?, grid(&to, to.offset, memory.size())?),
            Ends::Inside(x, y) => (grid(&from, from.offset, x.size())?, grid(&to, to.offset, y.size())?),
        };
        if let Ends::Inside(x, y) = self.ends
            && std::ptr::eq(x, y)
        {
            // Inside one buffer OpenCL wants one pair of pitches. A single slice may have any slice pitch.
            if from.slices == 1 {
                let slice_pitch = a.slice_pitch.max(b.slice_pitch);
                (a.slice_pitch, b.slice_pitch) = (slice_pitch, slice_pitch);
            }
            if (a.row_pitch, a.slice_pitch) != (b.row_pitch, b.slice_pitch) {
                return None;
            }
        }
        Some(Rect { size: [from.width, from.rows, from.slices], from: a, to: b })
    }
}

fn host(allocation: &dyn Allocation) -> std::result::Result<NonNull<u8>, BackendError> {
    let unsupported = || BackendError::Unsupported("a copy with memory of another backend".into());
    allocation.host_ptr().ok_or_else(unsupported)
}

/// Slices of one row each are rows of one slice.
fn flat(region: Region) -> Region {
    if region.rows != 1 {
        return region;
    }
    let Region { slices, slice_pitch, .. } = region;
    Region { rows: slices, row_pitch: slice_pitch, slices: 1, ..region }
}

/// The slices of a box.
fn slices(region: Region) -> impl Iterator<Item = Region> {
    let slice = move |z| Region { offset: region.offset + z * region.slice_pitch, slices: 1, ..region };
    (0..region.slices).map(slice)
}

/// Where the box of `region`'s pitches lies that starts `start` bytes into memory of `size` bytes. `None` where the
/// pitches do not divide memory into whole rows and slices with the box inside one raster, or where the box's last
/// slice is not whole: OpenCL allows both, drivers do not (NVIDIA's refuses the latter).
fn grid(region: &Region, start: usize, size: usize) -> Option<Grid> {
    let Region { width, rows, slices, row_pitch, .. } = *region;
    if row_pitch == 0 {
        return None;
    }
    let (column, row) = (start % row_pitch, start / row_pitch);
    // A single slice may be taken to be as high as it needs to be.
    let slice_pitch = if slices == 1 { (row + rows) * row_pitch } else { region.slice_pitch };
    if slice_pitch == 0 || !slice_pitch.is_multiple_of(row_pitch) {
        return None;
    }
    let height = slice_pitch / row_pitch;
    let (row, slice) = (row % height, row / height);
    let inside = column + width <= row_pitch && row + rows <= height;
    let whole = (slice + slices).checked_mul(slice_pitch)? <= size;
    (inside && whole).then_some(Grid { origin: [column, row, slice], row_pitch, slice_pitch })
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOX: Region = Region { offset: 100, width: 8, rows: 2, slices: 3, row_pitch: 16, slice_pitch: 64 };

    #[test]
    fn a_box_in_a_raster_is_one_grid() {
        let found = grid(&BOX, BOX.offset, 256).expect("the pitches divide");
        assert_eq!(found, Grid { origin: [4, 2, 1], row_pitch: 16, slice_pitch: 64 });
        let [x, y, z] = found.origin;
        assert_eq!(x + y * found.row_pitch + z * found.slice_pitch, BOX.offset);
    }

    #[test]
    fn a_single_slice_lies_in_a_slice_that_just_holds_it() {
        let found = grid(&Region { slices: 1, slice_pitch: 0, ..BOX }, BOX.offset, 128).expect("rows divide");
        assert_eq!(found, Grid { origin: [4, 6, 0], row_pitch: 16, slice_pitch: 128 });
    }

    #[test]
    fn rows_that_wrap_are_no_grid() {
        assert_eq!(grid(&BOX, 12, 1000), None, "12 + 8 is more than a row");
        assert_eq!(grid(&BOX, 48, 1000), None, "rows 3 and 4 are in different slices");
        assert_eq!(grid(&Region { slice_pitch: 65, ..BOX }, 0, 1000), None);
        assert_eq!(grid(&Region { row_pitch: 0, ..BOX }, 0, 1000), None);
    }

    #[test]
    fn a_last_slice_in_part_is_no_grid() {
        assert!(BOX.end() < 255);
        assert_eq!(grid(&BOX, BOX.offset, 255), None);
        let offsets: Vec<_> = slices(BOX).map(|slice| slice.offset).collect();
        assert_eq!(offsets, [100, 164, 228]);
    }

    #[test]
    fn slices_of_one_row_are_rows() {
        let region = flat(Region { rows: 1, ..BOX });
        assert_eq!((region.rows, region.slices, region.row_pitch), (3, 1, 64));
        assert_eq!(region.row_offsets().collect::<Vec<_>>(), [100, 164, 228]);
    }
}
