//! Copies and fills that do not consist of whole words. wgpu has none, so a kernel makes them: it reads the words of the target,
//! puts the box's bytes in, and writes them back.
//!
//! Each word is one work-item's, also where two rows of a box meet in it, and commands on one buffer come after each other, so no byte
//! beside the box is lost, as long as only the device writes there. Memory that the host writes too is therefore never a
//! target (see [`crate::ops`]).

use std::num::NonZeroU64;

use windlass_backend::{BackendError, Region};
use windlass_kernel::SlotAccess;

use crate::gpu::Gpu;
use crate::kernel::{Pipeline, own_pipeline};
use crate::launch::bind;
use crate::memory::{WORD, padded};
use crate::stage::Stage;

/// No binding is larger, so that the kernel counts bytes in 32 bits, whatever the device takes.
const MOST: usize = 1 << 30;

/// Work-items in a group, as the text says.
const GROUP: usize = 64;

const TEXT: &str = include_str!("bytes.wgsl");

/// The kernel, under the caller's error scopes.
fn build(gpu: &Gpu) -> Pipeline {
    own_pipeline(gpu, TEXT, "merge", &[SlotAccess::Read, SlotAccess::ReadWrite])
}

/// Where bytes come from.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Source {
    /// A box of the target's shape.
    Box(Region),
    /// A pattern of so many bytes, which each row of the target repeats.
    Pattern { offset: usize, bytes: usize },
}

/// Bytes into a box of another buffer.
pub(crate) fn merge(
    gpu: &Gpu,
    stage: &mut Stage,
    encoder: &mut wgpu::CommandEncoder,
    (source, from): (&wgpu::Buffer, Source),
    (target, to): (&wgpu::Buffer, Region),
) -> Result<(), BackendError> {
    let align = gpu.limits.min_storage_buffer_offset_alignment as usize;
    let bindable = usize::try_from(gpu.limits.max_storage_buffer_binding_size).unwrap_or(MOST).min(MOST);
    // The binding starts up to an alignment earlier, and ends up to a word later.
    let most = bindable.saturating_sub(align + WORD);
    let mut jobs = Vec::new();
    divide(from, to, most, &mut |from, to| jobs.push(Job::new(from, to, align)));
    let Pipeline { layout, pipeline } = gpu.bytes.get_or_init(|| build(gpu));
    let mut pass = encoder.begin_compute_pass(&wgpu::ComputePassDescriptor::default());
    pass.set_pipeline(pipeline);
    for job in jobs {
        let mut piece = stage.arguments.piece(&gpu.device, &gpu.spare, size_of_val(&job.parameters))?;
        piece.write(0, &job.parameters.map(u32::to_ne_bytes).concat());
        let part =
            |buffer, [start, end]: [usize; 2]| (buffer, start as u64, NonZeroU64::new((end - start) as u64));
        let parameters = (&piece.buffer, piece.offset, NonZeroU64::new(size_of_val(&job.parameters) as u64));
        let parts = [part(source, job.source), part(target, job.target), parameters];
        pass.set_bind_group(0, &bind(gpu, layout, parts.into_iter()), &[]);
        let along = gpu.limits.max_compute_workgroups_per_dimension;
        let x = job.groups.min(along);
        pass.dispatch_workgroups(x, job.groups.div_ceil(x), 1);
    }
    Ok(())
}

/// One dispatch: the parts of both buffers that it binds, and what it is told, as the text has it.
#[derive(Debug)]
struct Job {
    source: [usize; 2],
    target: [usize; 2],
    parameters: [u32; 12],
    groups: u32,
}

impl Job {
    fn new(from: Source, to: Region, align: usize) -> Self {
        let (offset, end, [row, slice], period) = match from {
            Source::Box(from) => (from.offset, from.end(), steps(from), to.width),
            Source::Pattern { offset, bytes } => (offset, offset + bytes, [0, 0], bytes),
        };
        let bound = |offset: usize, end: usize| [offset / align * align, padded(end)];
        let (source, target) = (bound(offset, end), bound(to.offset, to.end()));
        let start = to.offset - target[0];
        let [first, last] = [start / WORD, (target[1] - target[0]) / WORD];
        let [to_row, to_slice] = steps(to);
        let parameters = [
            [first, last, to.width, to.rows],
            [to.slices, start, to_row, to_slice],
            [offset - source[0], row, slice, period],
        ];
        let small = |number: usize| u32::try_from(number).expect("a part is small enough for that");
        Job {
            source,
            target,
            parameters: parameters
                .as_flattened()
                .try_into()
                .map(|all: [usize; 12]| all.map(small))
                .expect("there are twelve"),
            groups: small((last - first).div_ceil(GROUP)),
        }
    }
}

/// From row to row and from slice to slice. Where there is but one, what the region says of it may be anything.
fn steps(region: Region) -> [usize; 2] {
    let row = if region.rows > 1 { region.row_pitch } else { region.width };
    let slice = if region.slices > 1 { region.slice_pitch } else { row * region.rows };
    [row, slice]
}

/// Halves a box until its parts span no more than `most` bytes in either buffer.
fn divide(from: Source, to: Region, most: usize, each: &mut impl FnMut(Source, Region)) {
    let span = |region: Region| region.end() - region.offset;
    let fits = span(to) <= most && !matches!(from, Source::Box(from) if span(from) > most);
    if fits {
        return each(from, to);
    }
    // Rows are cut where a pattern begins again.
    let unit = if let Source::Pattern { bytes, .. } = from { bytes } else { 1 };
    let cut = |region: Region| {
        let (mut head, mut tail) = (region, region);
        if region.slices > 1 {
            head.slices /= 2;
            tail.slices -= head.slices;
            tail.offset += head.slices * region.slice_pitch;
        } else if region.rows > 1 {
            head.rows /= 2;
            tail.rows -= head.rows;
            tail.offset += head.rows * region.row_pitch;
        } else {
            head.width = (region.width / 2).next_multiple_of(unit);
            tail.width -= head.width;
            tail.offset += head.width;
        }
        [head, tail]
    };
    let sources = match from {
        Source::Box(from) => cut(from).map(Source::Box),
        pattern @ Source::Pattern { .. } => [pattern; 2],
    };
    for (from, to) in sources.into_iter().zip(cut(to)) {
        divide(from, to, most, each);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grid(offset: usize) -> Region {
        Region { offset, width: 10, rows: 5, slices: 3, row_pitch: 13, slice_pitch: 70 }
    }

    /// Every byte of a box, in order.
    fn places(region: Region) -> Vec<usize> {
        region.row_offsets().flat_map(|row| row..row + region.width).collect()
    }

    #[test]
    fn the_parts_of_a_box_are_all_of_it() {
        for most in [4, 9, 13, 50, 80, 1000] {
            let mut pairs = Vec::new();
            divide(Source::Box(grid(3)), grid(1001), most, &mut |from, to| {
                let Source::Box(from) = from else { unreachable!() };
                assert!(from.end() - from.offset <= most && to.end() - to.offset <= most);
                pairs.extend(places(from).into_iter().zip(places(to)));
            });
            let expected: Vec<_> = places(grid(3)).into_iter().zip(places(grid(1001))).collect();
            pairs.sort_unstable();
            assert_eq!(pairs, expected, "{most}");
        }
    }

    #[test]
    fn a_row_is_cut_where_a_pattern_begins() {
        let mut starts = Vec::new();
        let pattern = Source::Pattern { offset: 0, bytes: 3 };
        divide(pattern, Region::line(7, 30), 8, &mut |_, to| starts.push((to.offset - 7, to.width)));
        assert!(starts.iter().all(|(start, width)| start % 3 == 0 && *width <= 8), "{starts:?}");
        assert_eq!(starts.iter().map(|(_, width)| width).sum::<usize>(), 30);
    }

    #[test]
    fn words_are_counted_from_where_the_binding_starts() {
        let job = Job::new(Source::Box(Region::line(70, 9)), Region::line(133, 9), 64);
        assert_eq!((job.source, job.target), ([64, 80], [128, 144]));
        assert_eq!(job.parameters, [1, 4, 9, 1, 1, 5, 9, 9, 6, 9, 9, 9]);
        assert_eq!(job.groups, 1);
    }
}
