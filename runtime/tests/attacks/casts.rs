//! The same bytes as elements of other types: sizes, alignments, words, and who owns the memory then.

use windlass::prelude::*;

use crate::everywhere;
use crate::rig::{Rig, bump, poll_once, wait};

#[track_caller]
fn assert_aligned<T>(slice: &[T]) {
    assert!(slice.as_ptr().addr().is_multiple_of(align_of::<T>()), "{:?}", slice.as_ptr());
}

/// References that are not aligned: elements whose alignment is larger than any word that memory is shared by, at the ends of odd
/// parts, in kept memory, in a guard's copy, and in vectors.
#[test]
fn widely_aligned_elements_are_aligned_wherever_they_are_shown() {
    everywhere(|_, queue| {
        for round in 0..3_usize {
            let len = 33 + round;
            let x = Buffer::<u128>::new(len);
            for from in [0, 1, 7] {
                let part = x.range(from..);
                let event = queue.submit(|cg| {
                    cg.host_chunks(1, cg.read_write(&part), |chunk, part| {
                        assert_aligned(part);
                        part.iter_mut().zip(chunk.range()).for_each(|(v, i)| *v += 1 + ((i as u128) << 100));
                    })
                });
                event.unwrap();
            }
            let task = queue.submit(|cg| {
                let mut x = cg.read_write(&x.range(3..));
                cg.host_task(async move |host| {
                    let mut x = host.view_mut(&mut x)?;
                    assert_aligned(&x);
                    x[0] += 1;
                    Ok(())
                })
            });
            wait(task.unwrap()).unwrap();
            assert_aligned(&wait(x.range(5..).host_read()).unwrap());
            let grid = x.range(..32).reinterpret::<u128, 2>([4, 8]).unwrap();
            let columns = wait(grid.range((.., 1..3)).host_read()).unwrap();
            assert_aligned(&columns);
            assert_eq!(columns.len(), 8);
            drop(columns);
            drop(grid);
            let vec = wait(x.into_vec()).unwrap();
            assert_aligned(&vec);
            assert_eq!((vec[0], vec[3]), (1, 3 + (5 << 100)), "the parts count from their own start");
        }
    });
}

/// Memory of a type that is less aligned, seen as one that is more: refused, or aligned.
/// Seen to fail where a part's start was not compared with the new elements' size.
#[test]
fn memory_is_seen_as_wider_elements_only_where_it_is_aligned_for_them() {
    let rig = Rig::new();
    for len in [16, 48, 160, 4096] {
        let sources = [
            Buffer::from(vec![7_u8; len]),
            Buffer::<u8>::new(len),
            Buffer::from(vec![7_u8; len + 16]).range(16..),
            Buffer::from(vec![7_u8; len + 8]).range(8..),
        ];
        for bytes in sources {
            let Ok(wide) = bytes.reinterpret::<u128, 1>(len / 16) else { continue };
            let event = rig.queue.submit(|cg| {
                cg.host_chunks(1, cg.read_write(&wide), |_, wide| {
                    assert_aligned(wide);
                    wide.iter_mut().for_each(|v| *v = v.wrapping_add(1));
                })
            });
            wait(event.unwrap()).unwrap();
            assert_aligned(&wait(wide.host_write()).unwrap());
        }
    }
}

/// A vector that is freed as another type's: its memory was another vector's, with room for a part of an element.
#[test]
fn a_vector_of_another_type_than_the_memorys_is_sound_to_grow_and_free() {
    let rig = Rig::new();
    for bound in [false, true] {
        for room in 0..9 {
            let mut bytes = Vec::with_capacity(64 + room);
            bytes.extend(std::iter::repeat_n(1_u8, 64));
            let bytes = Buffer::from(bytes);
            let words = match bytes.reinterpret::<u32, 1>(16) {
                Ok(words) => words,
                Err(_) => continue,
            };
            if bound {
                wait(bump(&rig.queue, &words)).unwrap();
            }
            let wide = words.reinterpret::<u64, 1>(8);
            drop((bytes, words));
            let Ok(wide) = wide else { continue };
            let mut vec = wait(wide.into_vec()).unwrap();
            let first = 0x0101_0101_0101_0101 + if bound { 0x0000_0001_0000_0001 } else { 0 };
            assert_eq!(vec, [first; 8]);
            vec.push(3);
            vec.shrink_to_fit();
            let narrow = Buffer::from(vec).reinterpret::<u8, 1>(72).unwrap();
            let mut vec = wait(narrow.into_vec()).unwrap();
            vec.extend([0; 100]);
            assert_eq!(vec.len(), 172);
        }
    }
}

/// An alias: chunks of one type and chunks of another are plain slices of the same bytes.
/// Seen to fail where only windows of one size of elements were compared.
#[test]
fn slices_of_other_types_over_the_same_bytes_are_refused() {
    let rig = Rig::new();
    let words = Buffer::from(vec![1_u32; 16]);
    let bytes = words.reinterpret::<u8, 1>(64).unwrap();
    let first = bytes.range(..16).reinterpret::<u128, 1>(1);
    let refused = [
        rig.queue.submit(|cg| cg.host_chunks(4, (cg.read_write(&words), cg.read(&bytes)), |_, _| {})),
        rig.queue.submit(|cg| {
            let args = (cg.read(&words), cg.read_write(&bytes.range(63..)));
            cg.host_chunks(1, args, |_, _| {})
        }),
    ];
    for refused in refused {
        assert!(refused.unwrap_err().is_aliased());
    }
    if let Ok(first) = first {
        let args = rig.queue.submit(|cg| {
            let args = (cg.read(&words.range(3..)), cg.read_write(&first));
            cg.host_chunks(1, args, |_, _| {})
        });
        assert!(args.unwrap_err().is_aliased());
    }
    let apart = rig.queue.submit(|cg| {
        let args = (cg.read(&words.range(..8)), cg.read_write(&bytes.range(32..)));
        cg.host_chunks(1, args, |_, (words, bytes)| bytes.fill(words[7] as u8 + 1))
    });
    wait(apart.unwrap()).unwrap();
    assert_eq!(wait(words.host_read()).unwrap()[7..9], [1, 0x0202_0202]);
}

/// The same in a host task, where views are lent one by one, in whatever order they go back.
/// Seen to fail where only two views to write excluded each other.
#[test]
fn views_of_other_types_over_the_same_bytes_are_lent_one_at_a_time() {
    let rig = Rig::new();
    let words = Buffer::from(vec![1_u64; 8]);
    let bytes = words.reinterpret::<u8, 1>(64).unwrap();
    let task = rig.queue.submit(|cg| {
        let (mut words, mut bytes) = (cg.read_write(&words), cg.read_write(&bytes.range(60..)));
        let half = cg.read_write_uninit(&words_of(&rig, 8));
        cg.host_task(async move |host| {
            let mut half = half;
            for _ in 0..3 {
                let wide = host.view_mut(&mut words)?;
                assert!(host.view(&bytes).unwrap_err().is_aliased());
                assert!(host.view_mut(&mut bytes).unwrap_err().is_aliased());
                host.view_mut(&mut half)?.fill(2);
                drop(wide);
                let mut narrow = host.view_mut(&mut bytes)?;
                assert!(host.view(&words).unwrap_err().is_aliased());
                narrow.fill(9);
            }
            let (one, other) = (host.view(&words)?, host.view(&bytes)?);
            assert_eq!((one[7] >> 32, other[0]), (0x0909_0909, 9));
            Ok(())
        })
    });
    wait(task.unwrap()).unwrap();
}

fn words_of(rig: &Rig, len: usize) -> Buffer<u64> {
    let words = Buffer::<u64>::new(len);
    wait(rig.queue.prefetch(&words).unwrap()).unwrap();
    words
}

/// Guards over the same bytes as other elements exclude each other, bound or not.
/// Seen to fail where, without a runtime, only guards of the same part waited for each other.
#[test]
fn guards_of_other_types_over_the_same_bytes_wait_for_each_other() {
    let rig = Rig::new();
    for bound in [false, true] {
        let words = Buffer::from(vec![1_u32; 16]);
        let bytes = words.reinterpret::<[u8; 2], 2>([4, 8]).unwrap();
        if bound {
            wait(rig.queue.prefetch(&words).unwrap()).unwrap();
        }
        let mut held = wait(bytes.range((1..2, 2..3)).host_write()).unwrap();
        // Its four bytes are those of word 5.
        let (mut same, mut row) = (words.range(5..6).host_read(), bytes.range((1..2, ..)).host_write());
        assert!(poll_once(&mut same).is_pending() && poll_once(&mut row).is_pending(), "bound: {bound}");
        drop(row);
        held[[0, 0]] = [7, 7];
        drop(held);
        assert_eq!(wait(same).unwrap()[0].to_ne_bytes()[..2], [7, 7]);
    }
}

/// A kernel's plain slices must not be of bytes that another argument writes as another type.
/// Seen to fail where a launch's casts were not looked at.
#[test]
fn a_kernel_does_not_get_two_types_of_the_same_bytes() {
    #[windlass::kernel]
    fn mixed(bits: &[u32], values: &mut [f32]) {
        let i = global_id(0);
        values[i] = bits[i] as f32;
    }
    let rig = Rig::new();
    let bits = Buffer::from(vec![3_u32; 64]);
    let values = bits.reinterpret::<f32, 1>(64).unwrap();
    for to in [values.range(..), values.range(63..)] {
        let refused = rig.queue.submit(|cg| cg.parallel_for(64, mixed(cg.read(&bits), cg.read_write(&to))));
        assert!(refused.unwrap_err().is_invalid_input());
        let recorded = rig.queue.record(|cg| cg.parallel_for(64, mixed(cg.read(&bits), cg.read_write(&to))));
        assert!(recorded.unwrap_err().is_invalid_input());
    }
    let apart = rig.queue.submit(|cg| {
        cg.parallel_for(64, mixed(cg.read(&bits.range(..32)), cg.read_write(&values.range(32..))))
    });
    wait(apart.unwrap()).unwrap();
    assert_eq!(wait(values.host_read()).unwrap()[32..], [3.0; 32]);
}

/// Two groups that share memory by words of other sizes race: they never run at the same time, though neither is told of the other.
#[test]
fn groups_that_see_the_same_bytes_as_other_types_come_one_after_the_other() {
    let rig = Rig::new();
    let words = Buffer::<u32>::new(256);
    let bytes = words.reinterpret::<u8, 1>(1024).unwrap();
    for round in 0..40_u8 {
        let narrow = rig.queue.submit(|cg| {
            let bytes = cg.read_write(&bytes);
            cg.host_for(1024, bytes, move |item, b| b.set(item.id(0), b.get(item.id(0)).wrapping_add(round)))
        });
        drop(narrow.unwrap());
        let wide = rig.queue.submit(|cg| {
            let words = cg.read_write(&words);
            cg.host_for(256, words, |item, w| {
                let value = w.get(item.id(0));
                assert_eq!(value, u32::from(value as u8) * 0x0101_0101, "half of it is another group's");
                w.set(item.id(0), value);
            })
        });
        drop(wide.unwrap());
    }
    let all: u8 = (0..40).fold(0, |sum: u8, round| sum.wrapping_add(round));
    assert_eq!(wait(bytes.host_read()).unwrap()[..], [all; 1024]);
}

#[cfg(feature = "bytes")]
mod bytes {
    use windlass::bytes::Bytes;

    use super::*;

    /// Bytes that begin at an odd address, or that others have, as elements that must not: and freed as such.
    #[test]
    fn bytes_at_odd_addresses_become_elements_that_are_aligned() {
        let rig = Rig::new();
        for skip in 0..20 {
            for shared in [false, true] {
                let whole = Bytes::from((0..96 + skip).map(|i| i as u8).collect::<Vec<u8>>());
                let part = whole.slice(skip..skip + 96);
                let kept = shared.then(|| whole.clone());
                drop(whole);
                let wide = Buffer::<u128>::from_bytes(part).unwrap();
                assert_aligned(&wait(wide.host_write()).unwrap());
                let event = rig.queue.submit(|cg| {
                    cg.host_chunks(1, cg.read_write(&wide), |_, wide| wide.iter_mut().for_each(|v| *v = !*v))
                });
                wait(event.unwrap()).unwrap();
                let mut vec = wait(wide.into_vec()).unwrap();
                assert_aligned(&vec);
                assert_eq!(vec[0].to_ne_bytes()[0], !(skip as u8));
                vec.push(1);
                assert!(kept.is_none_or(|kept| kept.iter().enumerate().all(|(i, v)| *v == i as u8)));
            }
        }
    }

    /// The bytes of a buffer as another buffer, and so on: each has its own memory, or waits.
    #[test]
    fn a_buffer_of_a_buffers_bytes_does_not_alias_it() {
        let rig = Rig::new();
        let x = Buffer::from(vec![1_u64; 32]);
        wait(rig.queue.prefetch(&x).unwrap()).unwrap();
        let lent = wait(x.clone().into_bytes()).unwrap();
        let y = Buffer::<u64>::from_bytes(lent.slice(8..)).unwrap();
        wait(y.host_write()).unwrap().fill(9);
        assert_eq!(lent[..], [1_u64; 32].map(u64::to_ne_bytes).concat()[..]);
        let mut waits = x.host_write();
        assert!(poll_once(&mut waits).is_pending());
        let far = std::thread::spawn(move || drop(lent));
        far.join().unwrap();
        wait(waits).unwrap().fill(2);
        assert_eq!(wait(y.into_vec()).unwrap(), [9; 31]);
    }
}
