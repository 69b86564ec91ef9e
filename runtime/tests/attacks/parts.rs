//! Parts of grids whose rows do not follow each other: what lies between their rows is somebody else's.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use windlass::prelude::*;

use crate::rig::{Rig, wait};
use crate::{everywhere, forget, panics};

const MOST: usize = usize::MAX;

fn grid() -> Buffer<u32, 2> {
    Buffer::with_shape([6, 8], vec![1; 48]).unwrap()
}

/// Two mutable slices of one element: a part, and another part of the same grid or of the grid seen as a line.
/// Seen to fail where only the first rows were compared.
#[test]
fn chunks_of_parts_that_share_an_element_are_refused() {
    let rig = Rig::new();
    let grid = grid();
    let line = grid.reinterpret::<u32, 1>(48).unwrap();
    let part = |rows, columns| grid.range((rows, columns));
    let cut = |a: &Buffer<u32, 2>, b: &Buffer<u32, 2>| {
        rig.queue.submit(|cg| {
            cg.host_chunks(1, (cg.read_write(a), cg.read_write(b)), |_, (a, b)| a.swap_with_slice(b))
        })
    };
    for (a, b) in [
        (part(0..4, 0..2), part(0..4, 1..3)),
        (part(0..2, 0..4), part(1..3, 3..7)),
        (part(3..5, 2..4), part(3..5, 2..4)),
        (part(0..6, 7..8), part(5..6, 2..8)),
    ] {
        assert!(cut(&a, &b).unwrap_err().is_aliased(), "{a:?} {b:?}");
        assert!(cut(&b, &a).unwrap_err().is_aliased());
        let read = |a: &Buffer<u32, 2>, b: &Buffer<u32, 2>| {
            rig.queue.submit(|cg| cg.host_chunks(1, (cg.read(a), cg.read_write(b)), |_, (a, b)| b.fill(a[0])))
        };
        assert!(read(&a, &b).unwrap_err().is_aliased());
        assert!(read(&b, &a).unwrap_err().is_aliased());
    }
    // The elements 12 and 13 are in the second row.
    let over = rig.queue.submit(|cg| {
        let args = (cg.read_write(&line.range(10..14)), cg.read_write(&part(0..2, 4..6)));
        cg.host_chunks(1, args, |_, (a, b)| a.swap_with_slice(b))
    });
    assert!(over.unwrap_err().is_aliased());
    let between = rig.queue.submit(|cg| {
        let args = (cg.read_write(&line.range(6..10)), cg.read_write(&part(0..2, 4..6)));
        cg.host_chunks(1, args, |_, (a, b)| {
            a.fill(2);
            b.fill(3);
        })
    });
    wait(between.unwrap()).unwrap();
    wait(cut(&part(0..6, 0..2), &part(0..6, 2..4)).unwrap()).unwrap();
    assert_eq!(wait(grid.host_read()).unwrap()[..16], [1, 1, 1, 1, 3, 3, 2, 2, 1, 1, 2, 2, 3, 3, 1, 1]);
}

/// Slices that go on from one row to the next, over what lies between: granules that are no part of a row.
/// Seen to fail where granules were compared with the number of all elements.
#[test]
fn chunks_never_go_beyond_a_row() {
    let rig = Rig::new();
    let grid = grid();
    let part = grid.range((1..5, 2..6));
    for granule in [0, 3, 8, 16, 5, 17, MOST, MOST / 2 + 1, 1 << 63] {
        let cut = rig.queue.submit(|cg| cg.host_chunks(granule, cg.read_write(&part), |_, x| x.fill(9)));
        let error = cut.unwrap_err();
        assert!(error.is_invalid_input(), "{granule}: {error}");
    }
    let two = rig.queue.submit(|cg| {
        let args = (cg.read_write(&part), cg.read_write(&grid.range((0..1, ..))));
        cg.host_chunks(4, args, |_, (x, y)| y.copy_from_slice(x))
    });
    assert!(two.unwrap_err().is_invalid_input(), "they have other lengths");
    assert!(wait(grid.host_read()).unwrap().iter().all(|v| *v == 1));
    let calls = Arc::new(AtomicUsize::new(0));
    for empty in [(2..2, 0..3), (0..3, 4..4), (6..6, 8..8)] {
        let (empty, calls) = (grid.range(empty), calls.clone());
        let event = rig.queue.submit(|cg| {
            let args = (cg.read_write(&empty), cg.read(&part));
            cg.host_chunks(MOST, args, move |_, (x, y)| {
                calls.fetch_add(1, Ordering::SeqCst);
                x.fill(y[MOST]);
            })
        });
        wait(event.unwrap()).unwrap();
        let reads = rig.queue.submit(|cg| {
            cg.host_chunks(4, (cg.read(&empty), cg.read_write(&part)), |_, (x, _)| assert!(x.is_empty()))
        });
        wait(reads.unwrap()).unwrap();
    }
    assert_eq!(calls.load(Ordering::SeqCst), 0);
}

/// Positions outside of a part are no elements of its, also where they are in the grid.
#[test]
fn views_of_parts_end_where_their_part_does() {
    let rig = Rig::new();
    let grid = grid();
    let event = rig.queue.submit(|cg| {
        let mut part = cg.read_write(&grid.range((1..3, 2..5)));
        cg.host_task(async move |host| {
            let mut view = host.view_mut(&mut part)?;
            for at in [[0, 3], [2, 0], [MOST, 0], [0, MOST], [MOST, MOST]] {
                assert!(panics(|| view[at]), "{at:?}");
                assert!(panics(|| view[at] = 9), "{at:?}");
            }
            for at in [2, 3, MOST] {
                assert!(panics(|| view[at].len()), "{at}");
            }
            assert!(panics(|| view[0][3]) && panics(|| view[..7].len()) && panics(|| view[6..][0]));
            Ok(())
        })
    });
    wait(event.unwrap()).unwrap();
    let beyond = grid.range((1..7, 2..5));
    for refused in [
        rig.queue.submit(|cg| cg.host_chunks(1, cg.read_write(&beyond), |_, x| x.fill(9))),
        rig.queue.submit(|cg| {
            let mut beyond = cg.read_write(&beyond);
            cg.host_task(async move |host| {
                host.view_mut(&mut beyond)?.fill(9);
                Ok(())
            })
        }),
    ] {
        assert!(refused.unwrap_err().is_invalid_input());
    }
    assert!(wait(grid.host_read()).unwrap().iter().all(|v| *v == 1));
}

/// Views of one task that share bytes, where one is a copy: what it brings back must be under nobody's reference.
#[test]
fn views_of_parts_that_share_an_element_are_refused_and_others_are_not() {
    everywhere(|_, queue| {
        let grid = grid();
        let event = queue.submit(|cg| {
            let mut left = cg.read_write(&grid.range((.., 0..4)));
            let mut right = cg.read_write(&grid.range((.., 4..8)));
            let (row, column) = (cg.read(&grid.range((2..3, ..))), cg.read(&grid.range((.., 3..5))));
            cg.host_task(async move |host| {
                let (mut a, mut b) = (host.view_mut(&mut left)?, host.view_mut(&mut right)?);
                assert!(host.view(&row).unwrap_err().is_aliased());
                assert!(host.view(&column).unwrap_err().is_aliased());
                a.fill(2);
                b.fill(3);
                drop(a);
                assert!(host.view(&column).unwrap_err().is_aliased(), "the right half is out still");
                drop(b);
                assert_eq!(host.view(&row)?[..], [2, 2, 2, 2, 3, 3, 3, 3]);
                let column = host.view(&column)?;
                assert!(host.view_mut(&mut left).unwrap_err().is_aliased());
                assert_eq!(column[5], [2, 3]);
                Ok(())
            })
        });
        wait(event.unwrap()).unwrap();
    });
}

/// Where the copies of forgotten views are, for who looks for leaks: these are meant.
static FORGOTTEN: std::sync::Mutex<Vec<usize>> = std::sync::Mutex::new(Vec::new());

/// A view that is forgotten brings nothing back, and its part stays out for its task.
#[test]
fn a_forgotten_view_of_a_part_writes_nothing_later() {
    let rig = Rig::new();
    let grid = grid();
    let event = rig.queue.submit(|cg| {
        let mut part = cg.read_write(&grid.range((1..3, 2..5)));
        let beside = cg.read(&grid.range((1..3, 5..8)));
        cg.host_task(async move |host| {
            let mut view = host.view_mut(&mut part)?;
            view.fill(9);
            FORGOTTEN.lock().unwrap().push(view.as_ptr().addr());
            std::mem::forget(view);
            assert!(host.view(&part).unwrap_err().is_aliased());
            assert_eq!(host.view(&beside)?.len(), 6);
            Ok(())
        })
    });
    wait(event.unwrap()).unwrap();
    assert!(wait(grid.host_read()).unwrap().iter().all(|v| *v == 1));
}

/// A task that is dropped while it has a view: the view's end writes before anybody else has the memory.
#[test]
fn a_dropped_tasks_view_of_a_part_is_back_before_the_next_group() {
    let rig = Rig::new();
    for _ in 0..20 {
        let grid = grid();
        let (tell, told) = std::sync::mpsc::channel();
        let event = rig.queue.submit(|cg| {
            let mut part = cg.read_write(&grid.range((1..3, 2..5)));
            cg.host_task(async move |host| {
                let mut view = host.view_mut(&mut part)?;
                view.fill(9);
                tell.send(()).unwrap();
                std::future::pending::<()>().await;
                view.fill(7);
                Ok(())
            })
        });
        let event = event.unwrap();
        told.recv().unwrap();
        event.cancel();
        assert!(wait(event).unwrap_err().is_cancelled());
        grid.clear_poison();
        let seen = wait(grid.host_read()).unwrap();
        for (at, row) in (0..seen.shape()[0]).map(|at| (at, &seen[at])) {
            let is_part = |column: usize| (1..3).contains(&at) && (2..5).contains(&column);
            assert!(
                row.iter().enumerate().all(|(column, v)| *v == if is_part(column) { 9 } else { 1 }),
                "{row:?}"
            );
        }
    }
    rig.settle();
}

/// Neighbours in one word and one cache line are changed by two groups at once, by slices and by copies.
#[test]
fn two_groups_change_columns_beside_each_other() {
    everywhere(|_, queue| {
        let grid = Buffer::<[u8; 3], 2>::with_shape([64, 5], vec![[0; 3]; 320]).unwrap();
        let (left, right) = (grid.range((.., 0..2)), grid.range((.., 2..5)));
        for _ in 0..40 {
            let chunks = queue.submit(|cg| {
                cg.host_chunks(1, cg.read_write(&left), |_, x| x.iter_mut().for_each(|v| v[2] += 1))
            });
            let task = queue.submit(|cg| {
                let mut right = cg.read_write(&right);
                cg.host_task(async move |host| {
                    host.view_mut(&mut right)?.iter_mut().for_each(|v| v[0] += 1);
                    Ok(())
                })
            });
            chunks.unwrap();
            task.unwrap();
        }
        let seen = wait(grid.host_read()).unwrap();
        let expected = |at: usize| if at % 5 < 2 { [0, 0, 40] } else { [40, 0, 0] };
        assert!(seen.iter().enumerate().all(|(at, v)| *v == expected(at)));
    });
}

/// Copies that a launch reads are its own: kept references to them do not compile, and what is left of a panic is freed.
#[test]
fn a_panic_among_chunks_of_parts_leaves_nothing() {
    let rig = Rig::new();
    let grid = grid();
    let (from, to) = (grid.range((.., 0..3)), grid.range((.., 3..6)));
    for at in [0, 5, 17] {
        let event = rig.queue.submit(|cg| {
            cg.host_chunks(1, (cg.read(&from), cg.read_write(&to)), move |chunk, (from, to)| {
                assert!(!chunk.range().contains(&at), "as it is asked to");
                to.copy_from_slice(&from[chunk.range()]);
            })
        });
        assert!(wait(event.unwrap()).is_err());
        to.clear_poison();
    }
    forget(grid);
    rig.settle();
}
