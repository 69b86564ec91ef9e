//! Fills, in a number of native commands that grows with the logarithm of the box.
//!
//! OpenCL fills only gapless ranges, with patterns whose length is a power of two up to 128 that divides the offset.
//! Anything else is sown once and then doubled: a copy of what is filled fills as much again.

use std::sync::Arc;

use windlass_backend::{BackendError, Fill, Region};

use super::{Memory, Transfer, assert_inside};
use crate::feeding::Feeding;
use crate::sys::{Context, Result};

/// The longest pattern that OpenCL takes.
const LONGEST: usize = 128;

/// How many bytes of a pattern that OpenCL does not take are written from the host, before the device doubles them.
const SEED: usize = 4096;

/// Up to this many rows are filled one by one.
const FEW_ROWS: usize = 8;

/// A checked fill.
pub(crate) struct Filling<'a> {
    memory: &'a Memory,
    region: Region,
    pattern: &'a [u8],
}

impl<'a> Filling<'a> {
    pub(crate) fn plan(context: &Arc<Context>, fill: &Fill<'a>) -> std::result::Result<Self, BackendError> {
        let Fill { memory, pattern, .. } = *fill;
        let region = fill.region()?;
        assert_inside(&region, memory);
        let whole = !pattern.is_empty() && region.width.is_multiple_of(pattern.len());
        assert!(whole, "a row of {} bytes holds whole patterns of {}", region.width, pattern.len());
        match Memory::of(memory, context)? {
            Some(memory) => Ok(Filling { memory, region, pattern }),
            None => Err(BackendError::Unsupported("a fill of memory that is not OpenCL's".into())),
        }
    }

    pub(crate) fn enqueue(&self, feeding: &mut Feeding<'_>) -> Result<()> {
        let Region { offset, width, rows, slices, .. } = self.region;
        if self.region.bytes() == 0 {
            return Ok(());
        }
        if self.region.is_contiguous() {
            return self.line(feeding, offset, self.region.bytes());
        }
        if rows * slices <= FEW_ROWS {
            return self.region.row_offsets().try_for_each(|row| self.line(feeding, row, width));
        }
        self.line(feeding, offset, width)?;
        self.double_rows(feeding)?;
        self.double_slices(feeding)
    }

    /// Fills the first slice from its first row.
    fn double_rows(&self, feeding: &mut Feeding<'_>) -> Result<()> {
        doublings(1, self.region.rows).try_for_each(|(done, more)| {
            let from = Region { rows: more, slices: 1, ..self.region };
            let to = Region { offset: from.offset + done * from.row_pitch, ..from };
            Transfer::within(self.memory, from, to).enqueue(feeding)
        })
    }

    /// Fills all slices from the first.
    fn double_slices(&self, feeding: &mut Feeding<'_>) -> Result<()> {
        doublings(1, self.region.slices).try_for_each(|(done, more)| {
            let from = Region { slices: more, ..self.region };
            let to = Region { offset: from.offset + done * from.slice_pitch, ..from };
            Transfer::within(self.memory, from, to).enqueue(feeding)
        })
    }

    fn line(&self, feeding: &mut Feeding<'_>, offset: usize, bytes: usize) -> Result<()> {
        let native =
            |p: &[u8]| p.len().is_power_of_two() && p.len() <= LONGEST && offset.is_multiple_of(p.len());
        let shortest = period(self.pattern);
        match [self.pattern, shortest].into_iter().find(|p| native(p)) {
            Some(pattern) => feeding
                .enqueue(|queue, waits| queue.fill(self.memory.buffer(), pattern, offset, bytes, waits)),
            None => self.sow(feeding, offset, bytes),
        }
    }

    /// Writes the first bytes of a line from the host, and doubles them.
    fn sow(&self, feeding: &mut Feeding<'_>, offset: usize, bytes: usize) -> Result<()> {
        let times = (SEED / self.pattern.len()).max(1);
        let seed = self.pattern.repeat(times.min(bytes / self.pattern.len()));
        let sown = seed.len();
        let source = feeding.keep(seed);
        let buffer = self.memory.buffer();
        feeding.enqueue(|queue, waits| {
            // SAFETY: the source has `sown` bytes; the group owns them, unchanged, until it has ended.
            unsafe { queue.write(buffer, offset, sown, source, waits) }
        })?;
        doublings(sown, bytes).try_for_each(|(done, more)| {
            feeding.enqueue(|queue, waits| queue.copy((buffer, offset), (buffer, offset + done), more, waits))
        })
    }
}

/// The steps from `start` to `end` by doubling: what is done before each, and what it adds.
fn doublings(start: usize, end: usize) -> impl Iterator<Item = (usize, usize)> {
    let mut done = start;
    std::iter::from_fn(move || {
        let step = (done, done.min(end - done));
        done += step.1;
        (step.1 != 0).then_some(step)
    })
}

/// The shortest pattern, with a power of two as its length, that gives the same fill.
fn period(pattern: &[u8]) -> &[u8] {
    let repeats = |n: &usize| {
        let (first, rest) = pattern.split_at(*n);
        pattern.len().is_multiple_of(*n) && rest.chunks(*n).all(|chunk| chunk == first)
    };
    let lengths = (0..=LONGEST.ilog2()).map(|n| 1 << n).take_while(|n| *n <= pattern.len());
    lengths.into_iter().find(repeats).map_or(pattern, |n| &pattern[..n])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn doubling_ends_exactly() {
        assert_eq!(doublings(1, 6).collect::<Vec<_>>(), [(1, 1), (2, 2), (4, 2)]);
        assert_eq!(doublings(12, 12).count(), 0);
        assert_eq!(doublings(1, 1 << 20).count(), 20);
    }

    #[test]
    fn a_pattern_shrinks_to_its_period() {
        assert_eq!(period(&[0; 12]), [0]);
        assert_eq!(period(&[1, 2, 3, 4, 1, 2, 3, 4, 1, 2, 3, 4]), [1, 2, 3, 4]);
        assert_eq!(period(&[1, 2, 3]), [1, 2, 3]);
        assert_eq!(period(&[1, 1, 1, 2]), [1, 1, 1, 2]);
    }
}
