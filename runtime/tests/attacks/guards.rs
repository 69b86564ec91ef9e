//! Guards and their futures: kept too long, forgotten, asked again, swapped, moved, and beside each other.

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;
use std::thread;

use windlass::HostWrite;
use windlass::prelude::*;

use crate::rig::{Rig, bump, contents, poll_once, put, until, wait};
use crate::{forget, in_time};

/// Use after free: the guard goes with its thread, after the buffer, the queue and the runtime.
#[test]
fn a_guard_in_a_thread_local_is_dropped_after_all_else_is_gone() {
    thread_local! {
        static KEPT: RefCell<Option<Reader>> = const { RefCell::new(None) };
    }
    struct Reader(HostWrite<u32>, Arc<AtomicBool>);
    impl Drop for Reader {
        fn drop(&mut self) {
            self.0[7] += 1;
            self.1.store(self.0[..] == [4, 4, 4, 4, 4, 4, 4, 5], Ordering::SeqCst);
        }
    }
    let well = Arc::new(AtomicBool::new(false));
    let seen = well.clone();
    in_time(move || {
        let rig = Rig::new();
        let x = Buffer::from(vec![3_u32; 8]);
        wait(bump(&rig.queue, &x)).unwrap();
        KEPT.set(Some(Reader(wait(x.host_write()).unwrap(), seen)));
    });
    until("the thread's own things are dropped", || well.load(Ordering::SeqCst));
}

/// An alias of `&mut`: who forgets a guard never gives the data back, so nobody may have it any more, until the runtime is
/// ended; and then nobody either.
/// Seen to fail where a guard to write was planned as one to read.
#[test]
fn a_write_guard_that_is_forgotten_keeps_everybody_out() {
    let rig = Rig::new();
    let x = Buffer::from(vec![3_u32; 8]);
    wait(bump(&rig.queue, &x)).unwrap();
    let mut guard = wait(x.host_write()).unwrap();
    guard[0] = 9;
    forget(guard);
    let (mut read, mut part) = (x.host_read(), x.range(..1).host_write());
    assert!(poll_once(&mut read).is_pending() && poll_once(&mut part).is_pending());
    let (near, far) = (bump(&rig.queue, &x), bump(&rig.elsewhere(), &x));
    let mut taken = Box::pin(x.into_vec());
    for _ in 0..3 {
        assert!(poll_once(&mut read).is_pending() && poll_once(&mut part).is_pending());
        assert!(poll_once(&mut taken).is_pending());
        assert_eq!([near.status(), far.status()], [Status::Pending; 2]);
    }
    rig.runtime.abort();
    assert!(wait(read).unwrap_err().is_shut_down() && wait(part).unwrap_err().is_shut_down());
    assert!(wait(taken).is_err());
    assert!(wait(near).is_err() && wait(far).is_err());
}

/// The same for a buffer that no runtime has yet.
/// Seen to fail where a guard to write was planned as one to read.
#[test]
fn a_forgotten_guard_of_a_buffer_without_a_runtime_keeps_everybody_out() {
    let rig = Rig::new();
    let x = Buffer::from(vec![3_u32; 8]);
    forget(wait(x.host_write()).unwrap());
    let mut read = x.host_read();
    assert!(poll_once(&mut read).is_pending());
    let group = bump(&rig.queue, &x);
    let mut taken = Box::pin(x.clone().into_vec());
    assert!(poll_once(&mut read).is_pending() && poll_once(&mut taken).is_pending());
    assert!(!group.has_ended());
    rig.runtime.abort();
    assert!(wait(group).is_err() && wait(read).is_err() && wait(taken).is_err());
}

/// Two `&mut` of one buffer: the future is asked again when it has given its guard.
/// Seen to fail where a guard to write was planned as one to read.
#[test]
fn a_future_that_is_polled_again_gives_no_second_guard_beside_the_first() {
    let rig = Rig::new();
    for bound in [false, true] {
        let x = Buffer::from(vec![1_u32; 8]);
        if bound {
            wait(bump(&rig.queue, &x)).unwrap();
        }
        let mut future = x.host_write();
        let Poll::Ready(Ok(mut guard)) = poll_once(&mut future) else { panic!("nobody has the data") };
        for _ in 0..3 {
            assert!(poll_once(&mut future).is_pending(), "bound: {bound}");
        }
        guard[0] = 7;
        drop(guard);
        // It has asked for another one by that, and gets it now.
        assert_eq!(wait(future).unwrap()[0], 7);
        assert_eq!(contents(&x)[0], 7);
    }
}

/// The memory of a guard is freed or shown by another one, if it went with the place and not with the guard.
#[test]
fn guards_that_are_swapped_keep_their_own_memory_and_place() {
    let rig = Rig::new();
    let (x, y) = (Buffer::from(vec![1_u32; 8]), Buffer::from(vec![2_u32; 64]));
    wait(Event::all([bump(&rig.queue, &x), bump(&rig.queue, &y)])).unwrap();
    let (mut of_x, mut of_y) = (wait(x.host_write()).unwrap(), wait(y.host_write()).unwrap());
    std::mem::swap(&mut of_x, &mut of_y);
    let behind = [bump(&rig.queue, &x), bump(&rig.queue, &y)];
    assert_eq!((of_x.len(), of_y.len()), (64, 8));
    of_x[63] = 10;
    drop((of_x, y));
    until("who waits for the one goes on", || behind[1].status() == Status::Done);
    assert!(!behind[0].has_ended());
    of_y[7] = 20;
    drop(of_y);
    wait(Event::all(behind)).unwrap();
    assert_eq!(contents(&x)[6..], [3, 21]);
}

/// A race of two that write back: guards of columns are copies, whose rows lie between each other in memory.
#[test]
fn guards_of_interleaved_columns_write_back_their_own_elements_only() {
    let rig = Rig::new();
    for bound in [false, true] {
        let grid = Buffer::<u32, 2>::new([5, 6]);
        if bound {
            wait(rig.queue.prefetch(&grid).unwrap()).unwrap();
        }
        let column = |from: usize| wait(grid.range((.., from..from + 2)).host_write()).unwrap();
        let (mut left, mut middle, mut right) = (column(0), column(2), column(4));
        thread::scope(|s| {
            for (of, guard) in [&mut left, &mut middle, &mut right].into_iter().enumerate() {
                s.spawn(move || guard.fill(of as u32 + 1));
            }
        });
        let threads = [right, left, middle].map(|guard| thread::spawn(move || drop(guard)));
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        let all = wait(grid.host_read()).unwrap();
        assert!((0..5).all(|row| all[row] == [1, 1, 2, 2, 3, 3]), "{all:?}");
    }
}

/// A race inside of a word: bytes that share the four to which order is exact are not lent to two who write.
/// Seen to fail where the last word that a part touches did not count as its own.
#[test]
fn bytes_of_one_word_are_not_lent_to_two_writers() {
    let rig = Rig::new();
    let x = Buffer::from(vec![0_u8; 8]);
    wait(rig.queue.prefetch(&x).unwrap()).unwrap();
    let mut first = wait(x.range(..2).host_write()).unwrap();
    let mut second = x.range(2..4).host_write();
    assert!(poll_once(&mut second).is_pending());
    let apart = wait(x.range(4..).host_write()).unwrap();
    first.fill(1);
    drop((first, apart));
    wait(second).unwrap().fill(2);
    assert_eq!(wait(x.host_read()).unwrap()[..], [1, 1, 2, 2, 0, 0, 0, 0]);
}

/// Use after free: memory that a guard shows is given to other buffers as soon as its own is gone.
#[test]
fn a_guards_memory_is_given_to_no_other_buffer() {
    for len in [16, 1 << 18] {
        let rig = Rig::new();
        let x = Buffer::<u32>::new(len);
        wait(put(&rig.queue, &x, 7)).unwrap();
        let guard = wait(x.host_read()).unwrap();
        drop(x);
        let reader = thread::spawn(move || {
            for _ in 0..50 {
                assert!(guard.iter().all(|v| *v == 7));
                thread::yield_now();
            }
        });
        for value in 0..20 {
            let other = Buffer::<u32>::new(len);
            wait(put(&rig.queue, &other, value)).unwrap();
            assert!(contents(&other).iter().all(|v| *v == value));
        }
        reader.join().unwrap();
    }
}

/// An alias: `into_vec` hands out the memory itself, while somebody reads it.
/// Seen to fail where a vector was taken as by a reader.
#[test]
fn a_vector_is_not_taken_from_under_a_reader() {
    let rig = Rig::new();
    for bound in [false, true] {
        let x = Buffer::from(vec![5_u32; 64]);
        if bound {
            wait(bump(&rig.queue, &x)).unwrap();
        }
        let value = 5 + u32::from(bound);
        let guards = [wait(x.host_read()).unwrap(), wait(x.range(3..9).host_read()).unwrap()];
        let mut taken = Box::pin(x.into_vec());
        let [all, part] = guards;
        assert!(poll_once(&mut taken).is_pending());
        drop(all);
        assert!(poll_once(&mut taken).is_pending(), "bound: {bound}");
        assert!(part.iter().all(|v| *v == value));
        drop(part);
        let mut vec = wait(taken).unwrap();
        vec.resize(1000, 1);
        assert!(vec[..64].iter().all(|v| *v == value));
    }
}

/// Twice the owner: a vector is taken by one handle while another one goes on with the buffer.
/// Seen to fail where nobody asked whether the handle is the last one.
#[test]
fn a_vector_that_is_taken_shares_nothing_with_other_handles() {
    let rig = Rig::new();
    for bound in [false, true] {
        let x = Buffer::from(vec![5_u32; 64]);
        if bound {
            wait(rig.queue.prefetch(&x).unwrap()).unwrap();
        }
        let handles = [x.clone(), x.range(..), x.reinterpret::<u32, 1>(64).unwrap()];
        for other in handles {
            let mut vec = wait(x.clone().into_vec()).unwrap();
            vec.fill(1);
            drop(vec);
            assert_eq!(contents(&other), [5; 64]);
            wait(other.host_write()).unwrap()[0] = 5;
        }
        let first = wait(x.into_vec()).unwrap();
        assert_eq!(first, [5; 64]);
    }
}

/// A double free: who has begun to take a vector goes away, at each moment.
#[test]
fn a_vector_that_nobody_waits_for_any_more_is_freed_once() {
    let rig = Rig::new();
    for (bound, polls) in [(false, 0), (false, 1), (true, 0), (true, 1)] {
        let x = Buffer::from(vec![5_u32; 64]);
        if bound {
            wait(bump(&rig.queue, &x)).unwrap();
        }
        let guard = wait(x.host_write()).unwrap();
        let mut taken = Box::pin(x.into_vec());
        (0..polls).for_each(|_| assert!(poll_once(&mut taken).is_pending()));
        drop(taken);
        assert_eq!(guard.len(), 64);
        drop(guard);
        until("the buffer is gone", || rig.stats().live_buffers == 0);
    }
    rig.settle();
}

/// A use after free in the order: a kernel owns a guard, which goes with the kernel, when others wait for it.
#[test]
fn a_guard_that_a_kernel_owns_is_good_until_the_kernel_is_over() {
    let rig = Rig::new();
    let (x, y) = (Buffer::from(vec![1_u32; 8]), Buffer::<u32>::new(8));
    wait(bump(&rig.queue, &x)).unwrap();
    let guard = wait(x.host_read()).unwrap();
    let kernel = rig.queue.submit(|cg| {
        let y = cg.overwrite(&y);
        cg.host_for(8, y, move |item, y| y.set(item.id(0), guard[item.id(0)] * 10))
    });
    let behind = put(&rig.queue, &x, 9);
    drop(x);
    wait(kernel.unwrap()).unwrap();
    wait(behind).unwrap();
    assert_eq!(contents(&y), [20; 8]);
}
