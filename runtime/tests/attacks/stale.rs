//! Memory that nobody has written, or that was another buffer's: what of it can be seen.

use windlass::MemoryKind;
use windlass::prelude::*;

use crate::everywhere;
use crate::rig::{Rig, fails, put, until, wait};

const SECRET: u32 = 0x5ec2_e7ed;

/// Sizes of memory that is kept, and that is not; with and without room behind it.
const SIZES: [usize; 4] = [5, 1000, (1 << 18) + 3, 1 << 19];

/// Leaves memory of this size behind that is full of what nobody else is to see.
fn leave(queue: &Queue, len: usize) {
    let secret = Buffer::<u32>::new(len);
    wait(put(queue, &secret, SECRET)).unwrap();
    wait(queue.evict(&secret)).unwrap();
    drop(secret);
    until("it has been let go of", || {
        let stats = queue.runtime().stats();
        stats.live_buffers == 0 && stats.frees_waiting == 0
    });
}

#[windlass::kernel]
fn touch(x: &mut [u32], seen: &[AtomicU32], secret: u32) {
    let i = global_id(0);
    if x[i] == secret {
        seen[0].fetch_add(1, Relaxed);
    }
    if i % 7 == 0 {
        x[i] += 1;
    }
}

/// What is read before it was ever written.
/// Seen to fail where kept memory went to buffers that are not overwritten.
#[test]
fn what_was_never_written_shows_no_other_buffers_data_to_anyone() {
    everywhere(|_, queue| {
        for len in SIZES {
            leave(queue, len);
            let (x, seen) = (Buffer::<u32>::new(len), Buffer::<u32>::new(1));
            let launch = |cg: &CommandGroup<'_>| {
                cg.parallel_for(len, touch(cg.read_write(&x), cg.atomic(&seen), SECRET))
            };
            wait(queue.submit(launch).unwrap()).unwrap();
            assert_eq!(wait(seen.host_read()).unwrap()[0], 0, "{len}");
            let vec = wait(x.into_vec()).unwrap();
            assert!(vec.iter().enumerate().all(|(i, v)| *v == u32::from(i % 7 == 0)), "{len}");
            // Nothing was done with this one at all.
            drop(seen);
            leave(queue, len);
            let bytes = Buffer::<u32>::new(len).reinterpret::<u8, 1>(4 * len).unwrap();
            wait(queue.prefetch(&bytes).unwrap()).unwrap();
            assert!(wait(bytes.into_vec()).unwrap().iter().all(|v| *v == 0), "{len}");
        }
    });
}

/// Parts that are overwritten, with gaps between them that nobody has written.
/// Seen to fail where kept memory went to buffers that are not overwritten.
#[test]
fn gaps_between_parts_that_are_overwritten_read_as_zeros() {
    everywhere(|_, queue| {
        for rows in [5, 1 << 12] {
            leave(queue, rows * 64);
            let grid = Buffer::<u32, 2>::new([rows, 64]);
            let (middle, corner) = (grid.range((1..rows - 1, 3..9)), grid.range((..1, 60..)));
            let event = queue.submit(|cg| {
                cg.fill(&cg.overwrite(&middle), 1)?;
                cg.fill(&cg.overwrite(&corner), 2)
            });
            wait(event.unwrap()).unwrap();
            wait(grid.range((rows - 1.., ..)).host_overwrite()).unwrap()[[0, 63]] = 3;
            let seen = wait(grid.host_read()).unwrap();
            assert!(seen.iter().all(|v| *v <= 3), "{rows}");
            assert_eq!((seen[[1, 3]], seen[[0, 63]], seen[[rows - 1, 63]], seen[[1, 2]]), (1, 2, 3, 0));
        }
    });
}

/// Memory that a buffer stays in for good, of each kind.
#[test]
fn memory_that_a_buffer_stays_in_is_zeros_at_first() {
    everywhere(|_, queue| {
        for kind in queue.memory_kinds() {
            for len in SIZES {
                leave(queue, len);
                if let Ok(old) = queue.blocking_buffer_in::<u32, 1>(kind, len) {
                    wait(put(queue, &old, SECRET)).unwrap();
                }
                let Ok(x) = queue.blocking_buffer_in::<u32, 1>(kind, len) else { continue };
                let seen = Buffer::<u32>::new(len);
                wait(queue.submit(|cg| cg.copy(&cg.read(&x), &cg.overwrite(&seen))).unwrap()).unwrap();
                assert!(wait(seen.into_vec()).unwrap().iter().all(|v| *v == 0), "{kind:?} {len}");
            }
        }
    });
}

/// A group that was to overwrite all of it was cancelled, has failed, or was never there: what is left is the buffer's own.
#[test]
fn what_a_group_did_not_write_is_the_buffers_own_and_no_others() {
    everywhere(|rig, queue| {
        for len in SIZES {
            for how in 0..3 {
                leave(queue, len);
                let x = Buffer::<u32>::new(len);
                let event = queue.submit(|cg| {
                    if how > 0 {
                        cg.after(std::future::pending::<windlass::Result<()>>());
                    }
                    if how == 2 {
                        cg.on_cancel(OnCancel::KeepPrevious);
                    }
                    let x = cg.overwrite(&x);
                    cg.host_for(len, x, |item, x| {
                        assert!(item.id(0) != 3, "in the middle");
                        x.set(item.id(0), 1);
                    })
                });
                let event = event.unwrap();
                if how > 0 {
                    event.cancel();
                }
                let _ = wait(event);
                rig.settle();
                x.clear_poison();
                assert!(wait(x.host_read()).unwrap().iter().all(|v| *v <= 1), "{len} {how}");
            }
        }
    });
}

/// A vector's memory goes back to the program, and never to a buffer.
#[test]
fn a_taken_vectors_memory_is_not_given_to_buffers_as_well() {
    let rig = Rig::new();
    for len in SIZES {
        let mut vecs = Vec::new();
        for round in 0..6 {
            let x = Buffer::<u32>::new(len);
            wait(put(&rig.queue, &x, round)).unwrap();
            vecs.push(wait(x.into_vec()).unwrap());
        }
        let starts: std::collections::BTreeSet<_> = vecs.iter().map(|vec| vec.as_ptr().addr()).collect();
        assert_eq!(starts.len(), 6);
        assert!(vecs.iter().zip(0..).all(|(vec, round)| vec.iter().all(|v| *v == round)));
    }
}

/// Bytes that come from a buffer are all its own, also where its memory was rounded up.
#[test]
fn bytes_of_a_buffer_end_where_it_ends() {
    everywhere(|_, queue| {
        for len in [1, 3, 999_999, (1 << 20) + 1] {
            leave(queue, len / 4 + 1);
            let x = Buffer::<u8>::new(len);
            wait(queue.submit(|cg| cg.fill(&cg.overwrite(&x), 7)).unwrap()).unwrap();
            let guard = wait(x.host_read()).unwrap();
            assert!(guard.len() == len && guard.as_bytes().len() == len && guard.iter().all(|v| *v == 7));
            drop(guard);
            assert_eq!(wait(x.into_vec()).unwrap(), vec![7; len]);
        }
    });
}

/// A buffer that has failed everywhere is shown to nobody, in whatever way it is asked for.
#[test]
fn data_that_failed_is_shown_to_nobody_until_it_is_taken_as_it_is() {
    let rig = Rig::new();
    let x = Buffer::<u32>::new(64);
    let broken = fails(&rig.queue, "before it could write");
    let event = rig.queue.submit(|cg| {
        cg.depends_on(&broken);
        cg.fill(&cg.overwrite(&x), 1)
    });
    assert!(wait(event.unwrap()).is_err());
    assert!(wait(x.host_read()).is_err() && wait(x.host_write()).is_err());
    assert!(wait(x.range(63..).host_read()).is_err() && wait(x.clone().into_vec()).is_err());
    assert!(wait(x.reinterpret::<u8, 1>(256).unwrap().host_read()).is_err());
    let to = Buffer::<u32>::new(64);
    let copy = rig.queue.submit(|cg| cg.copy(&cg.read(&x), &cg.overwrite(&to)));
    assert!(wait(copy.unwrap()).is_err());
    let there = rig.queue.blocking_buffer_in::<u32, 1>(MemoryKind::Shared, 64).unwrap();
    let far = rig.elsewhere().submit(|cg| cg.copy(&cg.read(&x.range(..1)), &cg.overwrite(&to.range(..1))));
    assert!(wait(far.unwrap()).is_err());
    rig.settle();
    x.clear_poison();
    // Whether it worked before it was known to have failed is open.
    assert!(matches!(wait(x.into_vec()).unwrap()[..], [0 | 1, ..]));
    assert_eq!(wait(there.host_read()).unwrap()[..], [0; 64]);
}
