//! Parts of grids whose rows do not follow each other, on the host: guards, host tasks' views, `host_for` and `host_chunks` take them
//! alike, in one to three dimensions.

use std::ops::Range;
use std::sync::{Arc, Mutex};

#[path = "common/rig.rs"]
mod rig;

use rig::{Rig, wait};
use windlass::access::HostArg;
use windlass::prelude::*;

/// A grid of its positions, 4 rows of 6.
fn grid() -> Buffer<u32, 2> {
    Buffer::with_shape([4, 6], (0..24).collect()).unwrap()
}

fn contents<const D: usize>(of: &Buffer<u32, D>) -> Vec<u32> {
    wait(of.host_read()).unwrap().to_vec()
}

/// The numbers of [`grid`], with those of a part changed.
fn changed(rows: Range<usize>, columns: Range<usize>, by: impl Fn(u32) -> u32) -> Vec<u32> {
    let is_inside = |at: usize| rows.contains(&(at / 6)) && columns.contains(&(at % 6));
    (0..24).map(|at| if is_inside(at as usize) { by(at) } else { at }).collect()
}

/// On the usual queue and in a context with memory of its own.
fn everywhere(run: impl Fn(&Queue)) {
    let rig = Rig::new();
    run(&rig.queue);
    run(&rig.elsewhere());
    rig.settle();
}

#[test]
fn row_80_a_host_task_reads_a_part_as_a_guard_shows_it() {
    everywhere(|queue| {
        let grid = grid();
        let part = grid.range((1..3, 2..5));
        let event = queue.submit(|cg| {
            let part = cg.read(&part);
            cg.host_task(async move |host| {
                let part = host.view(&part)?;
                assert_eq!(part.shape(), [2, 3]);
                assert_eq!(part[..], [8, 9, 10, 14, 15, 16]);
                assert_eq!((part[[1, 0]], &part[1]), (14, &[14, 15, 16][..]));
                assert_eq!(part.iter().sum::<u32>(), 72);
                assert_eq!(part.as_bytes().len(), 24);
                Ok(())
            })
        });
        wait(event.unwrap()).unwrap();
        let guard = wait(part.host_read()).unwrap();
        assert_eq!((guard.shape(), &guard[1]), ([2, 3], &[14, 15, 16][..]));
    });
}

#[test]
fn row_80_what_a_host_task_writes_into_a_part_stays_inside() {
    everywhere(|queue| {
        let grid = grid();
        let event = queue.submit(|cg| {
            let mut part = cg.read_write(&grid.range((1..3, 2..5)));
            cg.host_task(async move |host| {
                let mut view = host.view_mut(&mut part)?;
                view.iter_mut().for_each(|v| *v += 100);
                view[[1, 2]] += 100;
                view[0][0] += 100;
                drop(view);
                // It has come back with the view's end.
                assert_eq!(host.view(&part)?[..], [208, 109, 110, 114, 115, 216]);
                Ok(())
            })
        });
        wait(event.unwrap()).unwrap();
        let by = |v| if v == 8 || v == 16 { v + 200 } else { v + 100 };
        assert_eq!(contents(&grid), changed(1..3, 2..5, by));
    });
}

#[test]
fn row_80_views_of_one_and_three_dimensions_have_shapes_too() {
    let rig = Rig::new();
    let (line, cube) = (Buffer::from(vec![1_u32, 2, 3]), Buffer::<u32, 3>::new([2, 3, 4]));
    let event = rig.queue.submit(|cg| {
        let (line, mut part) = (cg.read(&line.range(1..)), cg.read_write(&cube.range((.., 1..3, 1..2))));
        let empty = cg.read(&cube.range((.., 3..3, 1..2)));
        cg.host_task(async move |host| {
            let (line, mut part) = (host.view(&line)?, host.view_mut(&mut part)?);
            assert_eq!((line.shape(), line[1], part.shape()), ([2], 3, [2, 2, 1]));
            part[[1, 0, 0]] = 7;
            let empty = host.view(&empty)?;
            assert_eq!((empty.shape(), empty.len()), ([2, 0, 1], 0));
            Ok(())
        })
    });
    wait(event.unwrap()).unwrap();
    let cube = wait(cube.host_read()).unwrap();
    assert!(cube.iter().zip(0..).all(|(v, at)| *v == if at == 17 { 7 } else { 0 }), "{cube:?}");
}

/// Code for any accessor has the elements as a slice, whatever their shape.
#[test]
fn row_80_code_for_any_accessor_takes_parts_with_gaps() {
    async fn fill<'g, W>(host: windlass::access::Host<'g>, mut to: W) -> Result<(), windlass::BoxError>
    where
        W: windlass::access::WriteAccessor<'g, Elem = u32>,
    {
        host.view_mut(&mut to)?.fill(1);
        Ok(())
    }
    let (rig, grid) = (Rig::new(), grid());
    let event = rig.queue.submit(|cg| {
        let part = cg.overwrite(&grid.range((.., 0..1)));
        cg.host_task(move |host| fill(host, part))
    });
    wait(event.unwrap()).unwrap();
    assert_eq!(contents(&grid), changed(0..4, 0..1, |_| 1));
}

#[test]
fn row_80_a_whole_grid_is_cut_into_chunks() {
    everywhere(|queue| {
        let (grid, sums) = (grid(), Buffer::<u32, 3>::new([2, 3, 4]));
        let event = queue.submit(|cg| {
            cg.host_chunks(4, (cg.read(&grid), cg.overwrite(&sums)), |chunk, (x, sums)| {
                assert!(chunk.range().len().is_multiple_of(4) && chunk.total() == 24);
                sums.iter_mut().zip(&x[chunk.range()]).for_each(|(sum, x)| *sum = x + 1);
            })
        });
        wait(event.unwrap()).unwrap();
        assert_eq!(contents(&sums), (1..25).collect::<Vec<_>>());
    });
}

/// Seen to fail where chunks went on to the next row.
#[test]
fn row_80_chunks_of_a_part_end_with_its_rows() {
    everywhere(|queue| {
        for granule in [1, 2, 4] {
            let grid = grid();
            let part = grid.range((1..4, 1..5));
            let seen = Arc::new(Mutex::new(Vec::new()));
            let see = seen.clone();
            let event = queue.submit(|cg| {
                cg.host_chunks(granule, cg.read_write(&part), move |chunk, part| {
                    let range = chunk.range();
                    assert_eq!(part.len(), range.len());
                    assert!(range.start / 4 == (range.end - 1) / 4 && range.len().is_multiple_of(granule));
                    // Row 0 of the part is row 1 of the grid.
                    let at = |i: usize| (6 * (i / 4 + 1) + i % 4 + 1) as u32;
                    assert!(
                        part.iter().zip(range.clone()).all(|(v, i)| *v == at(i)),
                        "{range:?} is {part:?}"
                    );
                    part.iter_mut().for_each(|v| *v += 100);
                    see.lock().unwrap().extend(range);
                })
            });
            wait(event.unwrap()).unwrap();
            assert_eq!(contents(&grid), changed(1..4, 1..5, |v| v + 100));
            let mut seen = std::mem::take(&mut *seen.lock().unwrap());
            seen.sort_unstable();
            assert_eq!(seen, (0..12).collect::<Vec<_>>(), "each element was in one chunk");
        }
    });
}

/// Rows of a cube's part that follow each other within their slice are one run.
#[test]
fn row_80_chunks_of_a_part_of_a_cube_may_have_a_slices_rows() {
    let rig = Rig::new();
    let cube = Buffer::<u32, 3>::new([3, 4, 2]);
    let rows = cube.range((.., 1..3, ..));
    let write = |part: &Buffer<u32, 3>, granule| {
        rig.queue.submit(|cg| {
            cg.host_chunks(granule, cg.overwrite(part), |chunk, part| {
                part.iter_mut().zip(chunk.range()).for_each(|(v, i)| *v = i as u32 + 1);
            })
        })
    };
    wait(write(&rows, 4).unwrap()).unwrap();
    let is = [0, 0, 1, 2, 3, 4, 0, 0, 0, 0, 5, 6, 7, 8, 0, 0, 0, 0, 9, 10, 11, 12, 0, 0];
    assert_eq!(contents(&cube), is);
    let column = cube.range((.., 1..3, 1..2));
    assert!(write(&column, 2).unwrap_err().is_invalid_input());
    wait(write(&column, 1).unwrap()).unwrap();
    assert_eq!(contents(&column), [1, 2, 3, 4, 5, 6]);
    // One row of each slice: rows that do not follow each other, and no rows between.
    let across = cube.range((.., 0..1, ..));
    wait(write(&across, 2).unwrap()).unwrap();
    assert_eq!(contents(&across), [1, 2, 3, 4, 5, 6]);
    let is = [1, 2, 1, 1, 3, 2, 0, 0, 3, 4, 5, 3, 7, 4, 0, 0, 5, 6, 9, 5, 11, 6, 0, 0];
    assert_eq!(contents(&cube), is);
}

#[test]
fn row_80_chunks_read_a_part_as_a_whole() {
    everywhere(|queue| {
        let (grid, out) = (grid(), Buffer::<u32>::new(6));
        let (part, other) = (grid.range((1..3, 2..5)), grid.range((1..4, 0..2)));
        let event = queue.submit(|cg| {
            let args = (cg.read(&part), cg.read_write(&other), cg.overwrite(&out));
            cg.host_chunks(1, args, |chunk, (part, other, out)| {
                assert_eq!(part, [8, 9, 10, 14, 15, 16]);
                for ((at, out), other) in chunk.range().zip(out).zip(other) {
                    *out = part[5 - at] + *other;
                    *other = 0;
                }
            })
        });
        wait(event.unwrap()).unwrap();
        assert_eq!(contents(&out), [16 + 6, 15 + 7, 14 + 12, 10 + 13, 9 + 18, 8 + 19]);
        assert_eq!(contents(&grid), changed(1..4, 0..2, |_| 0));
    });
}

/// Two parts whose rows have other lengths: a chunk ends where either's row does.
#[test]
fn row_80_chunks_of_two_parts_end_with_the_rows_of_both() {
    let rig = Rig::new();
    let (wide, tall) = (grid(), Buffer::<u32, 2>::new([6, 3]));
    let args = |cg: &CommandGroup<'_>, granule| {
        let args = (cg.read_write(&wide.range((1..3, 0..4))), cg.overwrite(&tall.range((1..5, 0..2))));
        cg.host_chunks(granule, args, |_, (wide, tall)| tall.copy_from_slice(wide))
    };
    wait(rig.queue.submit(|cg| args(cg, 2)).unwrap()).unwrap();
    let tall = wait(tall.host_read()).unwrap();
    assert_eq!(tall[..], [0, 0, 0, 6, 7, 0, 8, 9, 0, 12, 13, 0, 14, 15, 0, 0, 0, 0]);
    let error = rig.queue.submit(|cg| args(cg, 4)).unwrap_err();
    assert!(error.is_invalid_input(), "{error}");
    let said = error.to_string();
    assert!(said.contains("argument 1") && said.contains("2 elements") && said.contains('4'), "{said}");
}

/// Elements as large and small as can be, beside others that must not change.
#[test]
fn row_80_chunks_of_other_elements_touch_nothing_beside_their_part() {
    fn check<T: DeviceCopy + PartialEq + std::fmt::Debug>(old: T, new: T) {
        everywhere(|queue| {
            let grid = Buffer::with_shape([5, 7], vec![old; 35]).unwrap();
            let part = grid.range((1..4, 2..5));
            let event =
                queue.submit(|cg| cg.host_chunks(3, cg.overwrite(&part), move |_, part| part.fill(new)));
            wait(event.unwrap()).unwrap();
            for (at, value) in wait(grid.host_read()).unwrap().iter().enumerate() {
                let inside = (1..4).contains(&(at / 7)) && (2..5).contains(&(at % 7));
                assert_eq!(*value, if inside { new } else { old }, "{at}");
            }
        });
    }
    check([1_u8; 3], [2; 3]);
    check(1_u8, 2);
    check(1_u128, 1 << 100);
    check([1_u64; 3], [2; 3]);
}

/// The four ways to have a part on the host show the same.
#[test]
fn row_80_all_ways_to_have_a_part_show_the_same() {
    fn seen<'g, A>(cg: &CommandGroup<'g>, of: A, to: &Buffer<u32>) -> windlass::Result<()>
    where
        A: for<'v> HostArg<'g, Elem = u32, View<'v> = windlass::image::View<'v, u32>> + 'g,
    {
        cg.host_for(to.len(), (of, cg.overwrite(to)), |item, (of, to)| {
            to.set(item.id(0), of.get(item.id(0)));
        })
    }
    let (rig, grid) = (Rig::new(), grid());
    for part in [(0..4, 0..6), (1..2, 1..4), (0..4, 3..4), (2..4, 0..5), (1..3, 0..6), (2..2, 1..3)] {
        let part = grid.range(part);
        let guard = contents(&part);
        let (by_item, by_chunk) = (Buffer::new(part.len()), Buffer::new(part.len()));
        rig.queue.submit(|cg| seen(cg, cg.read(&part), &by_item)).unwrap();
        let event = rig.queue.submit(|cg| {
            cg.host_chunks(1, (cg.read(&part), cg.overwrite(&by_chunk)), |chunk, (from, to)| {
                to.copy_from_slice(&from[chunk.range()]);
            })
        });
        event.unwrap();
        assert_eq!((&contents(&by_item), &contents(&by_chunk)), (&guard, &guard));
        let expected = guard.clone();
        let event = rig.queue.submit(|cg| {
            let part = cg.read(&part);
            cg.host_task(async move |host| {
                assert_eq!(host.view(&part)?[..], expected);
                Ok(())
            })
        });
        wait(event.unwrap()).unwrap();
    }
}
