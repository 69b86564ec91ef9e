//! Ranges, shapes, positions and copies at and beyond their limits.

use std::ops::Bound;

use windlass::access::{Region, Shape};
use windlass::prelude::*;

use crate::rig::{Rig, contents, poll_once, wait};
use crate::{everywhere, panics};

const MOST: usize = usize::MAX;

/// A region that says whatever it likes.
#[derive(Clone, Copy)]
struct Says(usize, usize);

impl Region<1> for Says {
    fn bounds(self, _: [usize; 1]) -> [(usize, usize); 1] {
        [(self.0, self.1)]
    }
}

/// Every use of a buffer that is none is refused.
#[track_caller]
fn assert_refused(rig: &Rig, bad: &Buffer<u32>) {
    let _ = (bad.len(), bad.is_empty(), bad.shape(), bad.poison(), format!("{bad:?}"));
    bad.clear_poison();
    let to = Buffer::<u32>::new(4);
    let refusals = [
        rig.queue.submit(|cg| cg.fill(&cg.overwrite(bad), 7)).map(drop),
        rig.queue.submit(|cg| cg.copy(&cg.read(bad), &cg.overwrite(&to))).map(drop),
        rig.queue.submit(|cg| cg.host_for(1, cg.read_write(bad), |_, x| x.set(0, 7))).map(drop),
        rig.queue.submit(|cg| cg.host_chunks(1, cg.read_write(bad), |_, x| x.fill(7))).map(drop),
        rig.queue.record(|cg| cg.fill(&cg.overwrite(bad), 7)).map(drop),
        rig.queue.prefetch(bad).map(drop),
        wait(bad.host_read()).map(drop),
        wait(bad.host_write()).map(drop),
        wait(bad.host_overwrite()).map(drop),
        wait(bad.clone().into_vec()).map(drop),
        bad.reinterpret::<u8, 1>(0).map(drop),
        wait(bad.range(0..0).host_read()).map(drop),
    ];
    for (at, refused) in refusals.into_iter().enumerate() {
        assert!(refused.is_err_and(|error| error.is_invalid_input()), "entry {at} of {bad:?}");
    }
}

/// Out of bounds, by ends that overflow, that are the wrong way round, or that the program's own type says.
/// Seen to fail where a range's end was not compared with the buffer's.
#[test]
fn ranges_whose_ends_wrap_or_lie_outside_are_no_buffers() {
    let rig = Rig::new();
    let x = Buffer::from(vec![1_u32; 64]);
    let bad = [
        x.range(60..65),
        x.range(65..),
        x.range(..=64),
        x.range(..=MOST),
        x.range(MOST..),
        x.range(MOST..=MOST),
        x.range((Bound::Excluded(MOST), Bound::Unbounded)),
        x.range((Bound::Excluded(63), Bound::Included(MOST))),
        x.range(Says(9, 8)),
        x.range(Says(MOST, 0)),
        x.range(Says(1, MOST)),
        x.range(Says(MOST - 1, MOST)),
        x.range(Says(1 << 62, (1 << 62) + 4)),
        x.range(10..20).range(5..11),
        x.range(10..20).range(11..),
        x.range(64..).range(..1),
        x.range(0..0).range(0..1),
    ];
    for bad in bad {
        assert_refused(&rig, &bad);
        // Nothing makes it good again.
        assert_refused(&rig, &bad.range(..));
        assert_refused(&rig, &bad.clone().with_pages(2));
    }
    assert_eq!(contents(&x), [1; 64]);
}

/// The same for parts of parts of grids, whose bytes lie inside of the buffer, but not in the part.
/// Seen to fail where a coordinate might be as large as its extent, and where a range's end was not compared.
#[test]
fn a_part_of_a_part_does_not_reach_its_neighbours() {
    let rig = Rig::new();
    let cube = Buffer::<u32, 3>::new([4, 5, 6]);
    let part = cube.range((1..3, 1..4, 2..5));
    assert_eq!(part.shape(), [2, 3, 3]);
    for bad in [part.range((.., .., 2..4)), part.range((.., 3..4, ..)), part.range((2..3, .., ..))] {
        assert!(rig.queue.submit(|cg| cg.fill(&cg.overwrite(&bad), 7)).unwrap_err().is_invalid_input());
        assert!(wait(bad.host_write()).unwrap_err().is_invalid_input());
    }
    let event = rig.queue.submit(|cg| {
        let part = cg.write(&part);
        cg.host_for([9, 9, 9], part, |item, part| {
            // From the last to the first, so that what is a row's end is not overwritten by the next row's start.
            let at = [0, 1, 2].map(|d| 8 - item.id(d));
            part.set_at(at, number(at));
            part.set_at([at[0], at[1], MOST - at[2]], 8);
            part.set_at([at[1].wrapping_sub(9), 0, 0], 8);
            part.set(18 + item.linear(), 8);
        })
    });
    wait(event.unwrap()).unwrap();
    let all = wait(cube.host_read()).unwrap();
    for (i, value) in all.iter().enumerate() {
        let at = [(i / 30).wrapping_sub(1), (i / 6 % 5).wrapping_sub(1), (i % 6).wrapping_sub(2)];
        let is_inside = at[0] < 2 && at[1] < 3 && at[2] < 3;
        assert_eq!(*value, if is_inside { number(at) } else { 0 }, "{at:?}");
    }
}

/// What is written at a place, and nowhere else.
fn number(at: [usize; 3]) -> u32 {
    at.iter().fold(1, |all, of| all * 100 + *of as u32)
}

/// An element's address that wraps: its number times its size is inside again.
/// Seen to fail, with an access outside of the memory, where a span had one element too many.
#[test]
fn positions_whose_bytes_wrap_around_are_outside() {
    everywhere(|_, queue| {
        let x = Buffer::from(vec![[1_u64; 2]; 16]);
        let event = queue.submit(|cg| {
            cg.host_for(1, cg.read_write(&x), |_, x| {
                for at in [1 << 60, (1 << 60) + 3, 1 << 63, MOST, MOST / 16 + 1, MOST - 15, 16, 17] {
                    assert_eq!(x.get(at), [0; 2]);
                    x.set(at, [9; 2]);
                }
            })
        });
        wait(event.unwrap()).unwrap();
        assert_eq!(wait(x.host_read()).unwrap()[..], [[1; 2]; 16]);
    });
}

/// Sizes whose bytes cannot be counted are smaller than they say, if somebody multiplies.
#[test]
fn buffers_larger_than_any_memory_are_refused_by_every_entry() {
    let rig = Rig::new();
    for len in [MOST, MOST / 4 + 1, MOST / 2, 1 << 62, (isize::MAX as usize) / 4 + 1] {
        assert_refused(&rig, &Buffer::<u32>::new(len));
        let made = rig.queue.blocking_buffer_in::<u32, 1>(windlass::MemoryKind::Shared, len);
        assert!(made.unwrap_err().is_invalid_input());
    }
    for shape in [[MOST, 2], [2, MOST], [1 << 32, 1 << 32], [MOST, MOST]] {
        let grid = Buffer::<u8, 2>::new(shape);
        let _ = (grid.len(), grid.range((..1, ..1)).len());
        assert!(wait(grid.range((..1, ..1)).host_write()).unwrap_err().is_invalid_input());
        assert!(wait(grid.into_vec()).unwrap_err().is_invalid_input());
        assert!(Buffer::<u8, 2>::with_shape(shape, vec![0; 0]).unwrap_err().is_invalid_input());
    }
}

/// Sizes that can be counted, and that no machine has: an error for who uses it, and nothing for others.
#[test]
fn memory_that_there_is_not_fails_who_wants_it_alone() {
    let rig = Rig::new();
    let huge = Buffer::<u8>::new(1 << 61);
    assert!(wait(huge.host_write()).is_err());
    assert!(wait(huge.range(..4).host_write()).is_err(), "a part has the memory of all");
    let small = Buffer::from(vec![1_u8; 4]);
    let both = rig.queue.submit(|cg| {
        let args = (cg.read_write(&small), cg.read_write(&huge));
        cg.host_for(4, args, |item, (x, y)| {
            y.set(item.id(0), 1);
            x.set(item.id(0), 7);
        })
    });
    assert!(both.and_then(wait).is_err());
    rig.settle();
    small.clear_poison();
    assert_eq!(wait(small.host_read()).unwrap()[..], [1; 4]);
    rig.settle();
}

/// Shapes that are the program's own, and answer otherwise each time.
#[test]
fn a_shape_that_changes_its_mind_is_asked_once() {
    use std::sync::atomic::{AtomicUsize, Ordering};
    struct Fickle<'a>(&'a AtomicUsize);
    impl Shape<2> for Fickle<'_> {
        fn extent(self) -> [usize; 2] {
            let asked = self.0.fetch_add(1, Ordering::SeqCst);
            [4 << (10 * asked), 4]
        }
    }
    let rig = Rig::new();
    let asked = AtomicUsize::new(0);
    let again = || {
        assert!(asked.swap(0, Ordering::SeqCst) <= 1);
        Fickle(&asked)
    };
    let x = Buffer::<u32, 2>::with_shape(again(), vec![1; 16]).unwrap();
    let y = Buffer::<u32, 2>::new(again()).with_pages(again());
    let bits = x.reinterpret::<f32, 2>(again()).unwrap();
    assert_eq!((x.shape(), y.shape(), bits.shape()), ([4, 4], [4, 4], [4, 4]));
    let mut lent = [1_u32; 16];
    windlass::scope(|s| {
        let lent = s.grid(again(), &mut lent)?;
        rig.queue.submit(|cg| cg.copy(&cg.read(&lent), &cg.write(&y)))
    })
    .unwrap();
    let there = rig.queue.blocking_buffer_in::<u32, 2>(windlass::MemoryKind::Shared, again()).unwrap();
    rig.queue.submit(|cg| cg.copy(&cg.read(&y), &cg.write(&there))).unwrap();
    assert_eq!(wait(there.host_read()).unwrap()[..], [1; 16]);
    again();
}

/// Guards are subscripted with anything: what is outside panics, and what wraps is outside.
/// Seen to fail where positions were not compared with the shape.
#[test]
fn subscripts_of_guards_that_wrap_are_outside() {
    let grid = Buffer::<u32, 2>::new([4, 6]);
    let mut guard = wait(grid.host_write()).unwrap();
    for at in [4, 5, MOST, MOST / 6 + 1, 1 << 63, MOST / 2] {
        assert!(panics(|| guard[at].len()), "row {at}");
        assert!(panics(|| guard[at].fill(1)), "row {at}");
        assert!(panics(|| guard[[at, 0]]) && panics(|| guard[[0, at + usize::from(at < 6) * 2]]));
        assert!(panics(|| guard[[at, MOST]] = 1));
    }
    let (from, to) = (std::hint::black_box(5), std::hint::black_box(3));
    assert!(
        panics(|| guard[from..to].len()) && panics(|| guard[..=MOST].len()) && panics(|| guard[25..].len())
    );
    drop(guard);
    for shape in [[0, 6], [6, 0], [0, 0], [0, MOST / 8]] {
        let guard = wait(Buffer::<u32, 2>::new(shape).host_read()).unwrap();
        assert!(panics(|| guard[[0, 0]]) && panics(|| guard[[MOST, MOST]]), "{shape:?}");
        assert!(panics(|| guard[6].len()), "{shape:?}");
        assert!(guard[..].is_empty());
    }
    let cube = wait(Buffer::<u8, 3>::new([2, 3, 4]).host_read()).unwrap();
    assert!(panics(|| cube[[MOST, MOST, MOST]]) && panics(|| cube[[1, 3, 0]]) && panics(|| cube[[0, 0, 4]]));
}

/// Slices of launches: granules that cut nowhere, or that cut two windows of other lengths.
#[test]
fn chunks_are_cut_inside_of_every_window() {
    let rig = Rig::new();
    let (x, y) = (Buffer::from(vec![1_u32; 24]), Buffer::from(vec![1_u32; 20]));
    for granule in [0, 5, 25, MOST, MOST / 2 + 1, 1 << 63] {
        let cut = rig.queue.submit(|cg| cg.host_chunks(granule, cg.read_write(&x), |_, x| x.fill(9)));
        assert!(cut.unwrap_err().is_invalid_input(), "{granule}");
    }
    let two = rig.queue.submit(|cg| {
        cg.host_chunks(4, (cg.read_write(&x), cg.read_write(&y)), |_, (x, y)| y.copy_from_slice(x))
    });
    assert!(two.unwrap_err().is_invalid_input());
    let empty = rig.queue.submit(|cg| {
        let args = (cg.read_write(&x.range(24..)), cg.read(&y));
        cg.host_chunks(MOST, args, |_, (x, y)| x.fill(y[MOST]))
    });
    wait(empty.unwrap()).unwrap();
    let reads = rig.queue.submit(|cg| {
        cg.host_chunks(4, (cg.read(&x), cg.read(&y)), |chunk, (x, _)| assert!(chunk.range().end <= x.len()))
    });
    wait(reads.unwrap()).unwrap();
    assert_eq!((contents(&x), contents(&y)), (vec![1; 24], vec![1; 20]));
}

/// A copy over itself: parts that share a byte are refused, in whatever shape, and parts that lie between each other are not.
/// Seen to fail where a copy's two sides were not compared.
#[test]
fn copies_inside_of_one_buffer_that_share_a_byte_are_refused() {
    let rig = Rig::new();
    let grid = Buffer::with_shape([6, 8], (0..48_u32).collect()).unwrap();
    let line = grid.reinterpret::<u32, 1>(48).unwrap();
    let part = |rows: std::ops::Range<usize>, columns: std::ops::Range<usize>| grid.range((rows, columns));
    let copy = |from: &Buffer<u32, 2>, to: &Buffer<u32, 2>| {
        rig.queue.submit(|cg| cg.copy(&cg.read(from), &cg.write(to)))
    };
    for (from, to) in [
        (part(0..6, 0..8), part(0..6, 0..8)),
        (part(0..3, 0..4), part(2..5, 3..7)),
        (part(1..2, 0..8), part(1..2, 0..8)),
        (part(0..6, 0..2), part(0..6, 1..3)),
    ] {
        assert!(copy(&from, &to).unwrap_err().is_invalid_input());
    }
    // The elements 10 to 13 are in the second row, and so in both.
    let other = rig.queue.submit(|cg| cg.copy(&cg.read(&line.range(10..14)), &cg.write(&part(1..3, 5..7))));
    assert!(other.unwrap_err().is_invalid_input());
    let back = rig.queue.submit(|cg| cg.copy(&cg.read(&part(1..3, 5..7)), &cg.write(&line.range(10..14))));
    assert!(back.unwrap_err().is_invalid_input());
    assert!(wait(grid.host_read()).unwrap().iter().zip(0..).all(|(v, at)| *v == at));
    wait(copy(&part(0..6, 0..2), &part(0..6, 2..4)).unwrap()).unwrap();
    wait(copy(&part(0..3, 5..8), &part(3..6, 5..8)).unwrap()).unwrap();
    let seen = wait(grid.host_read()).unwrap();
    for (at, value) in seen.iter().enumerate() {
        let (row, column) = (at / 8, at % 8);
        let from = if column < 4 {
            row * 8 + column % 2
        } else if column > 4 {
            row % 3 * 8 + column
        } else {
            at
        };
        assert_eq!(*value as usize, from, "{row}, {column}");
    }
}

/// A fill of a part whose rows do not follow each other, with elements that are no whole words: what lies between stays.
#[test]
fn fills_of_odd_elements_touch_nothing_beside_their_part() {
    everywhere(|_, queue| {
        let grid = Buffer::<[u8; 3], 2>::with_shape([7, 5], vec![[1; 3]; 35]).unwrap();
        let parts = [(1..2, 1..2), (3..6, 2..5), (6..7, 0..5), (0..0, 0..5), (2..3, 4..5)];
        for (rows, columns) in parts.clone() {
            let part = grid.range((rows, columns));
            wait(queue.submit(|cg| cg.fill(&cg.overwrite(&part), [7, 8, 9])).unwrap()).unwrap();
        }
        let seen = wait(grid.host_read()).unwrap();
        for (at, value) in seen.iter().enumerate() {
            let filled =
                parts.iter().any(|(rows, columns)| rows.contains(&(at / 5)) && columns.contains(&(at % 5)));
            assert_eq!(*value, if filled { [7, 8, 9] } else { [1; 3] }, "{at}");
        }
    });
}

/// A guard of a refused part takes no place, and holds back nobody.
#[test]
fn a_future_of_a_part_that_is_none_is_an_error_each_time_it_is_asked() {
    let x = Buffer::from(vec![1_u32; 8]);
    let mut bad = x.range(4..99).host_write();
    for _ in 0..3 {
        assert!(matches!(poll_once(&mut bad), std::task::Poll::Ready(Err(_))));
    }
    wait(x.host_write()).unwrap().fill(2);
}
