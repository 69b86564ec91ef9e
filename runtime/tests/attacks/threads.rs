//! Threads: handles that are cloned, used, taken and dropped at once by several.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::{Context as TaskContext, Poll, Wake, Waker};
use std::thread;

use windlass::prelude::*;
use windlass_testkit::Rng;

use crate::rig::{Gate, Rig, bump, contents, poll_once, put, until, wait};

/// Fewer turns where each takes hundreds of times as long.
const ROUNDS: usize = if cfg!(miri) { 3 } else { 60 };

/// Whether all elements are the same: a group writes all of them, so whoever sees others reads while it runs.
#[track_caller]
fn assert_whole(seen: &[u32]) {
    assert!(seen.iter().all(|v| *v == seen[0]), "half of it is another version");
}

/// Others get the chance to come in the middle of it.
fn write_slowly(to: &mut [u32], value: u32) {
    for part in to.chunks_mut(1000) {
        thread::yield_now();
        part.fill(value);
    }
}

/// A data race by any mixture of uses in four threads.
/// Seen to fail where a guard to write was planned as one to read.
#[test]
fn no_mixture_of_uses_by_several_threads_sees_half_of_a_write() {
    let rig = Rig::new();
    let queues = [rig.queue.clone(), rig.elsewhere()];
    let x = Buffer::from(vec![0_u32; 3000]);
    thread::scope(|s| {
        for seed in 0..4 {
            let (x, queues) = (x.clone(), &queues);
            s.spawn(move || {
                let mut rng = Rng::new(seed);
                let (mut events, mut guards) = (Vec::new(), Vec::new());
                for round in 0..ROUNDS {
                    let queue = &queues[rng.below(2)];
                    match rng.below(8) {
                        0 => events.push(bump(queue, &x)),
                        1 => drop(put(queue, &x, round as u32)),
                        2 => assert_whole(&wait(x.host_read()).unwrap()),
                        3 => {
                            let mut guard = wait(x.host_write()).unwrap();
                            assert_whole(&guard);
                            write_slowly(&mut guard, seed as u32);
                        }
                        4 => {
                            let mut future = x.host_read();
                            let _ = poll_once(&mut future);
                            guards.push(future);
                        }
                        5 => assert_whole(&wait(x.clone().into_vec()).unwrap()),
                        6 => drop((queue.evict(&x), guards.pop(), events.pop())),
                        _ => {
                            let task = queue.submit(|cg| {
                                let mut x = cg.read_write(&x);
                                cg.host_task(async move |host| {
                                    let mut x = host.view_mut(&mut x)?;
                                    assert_whole(&x);
                                    let next = x[0].wrapping_add(1);
                                    write_slowly(&mut x, next);
                                    Ok(())
                                })
                            });
                            drop(task.unwrap());
                        }
                    }
                    // A future that has been polled has its place, and may hold its guard: nobody waits with one in hand.
                    guards.clear();
                }
            });
        }
    });
    assert_whole(&contents(&x));
    assert!(rig.told.up_to_now(&rig.queue).is_empty());
}

/// The last handle is taken by one thread while another one uses its own for the last time.
#[test]
fn a_vector_is_taken_by_one_thread_while_another_drops_its_handle() {
    let rig = Rig::new();
    for round in 0..ROUNDS * 5 {
        let x = Buffer::from(vec![1_u32; 500]);
        if round % 2 == 0 {
            wait(rig.queue.prefetch(&x).unwrap()).unwrap();
        }
        let (other, queue) = (x.clone(), rig.queue.clone());
        let user = thread::spawn(move || {
            if round % 3 == 0 {
                drop(put(&queue, &other.range(..), 5));
            }
            wait(other.host_write()).unwrap()[499] = 7;
        });
        let mut vec = wait(x.into_vec()).unwrap();
        let before = vec.clone();
        vec.push(2);
        user.join().unwrap();
        assert_eq!(vec[..500], before);
        assert!(vec[..499].iter().all(|v| *v == vec[0]) && matches!(vec[499], 1 | 5 | 7));
    }
    rig.settle();
}

/// A future that one thread asks, and that another one drops at the moment at which it is granted.
#[test]
fn a_guard_that_is_granted_while_its_future_is_dropped_holds_back_nobody() {
    let rig = Rig::new();
    let x = Buffer::from(vec![1_u32; 64]);
    for _ in 0..ROUNDS {
        let gate = Gate::new();
        let gated = rig.queue.submit(|cg| {
            cg.after(gate.opened());
            cg.read_write(&x);
            Ok(())
        });
        let mut futures: Vec<_> = (0..4).map(|_| (x.host_write(), x.host_read())).collect();
        futures.iter_mut().for_each(|(write, read)| {
            assert!(poll_once(write).is_pending() && poll_once(read).is_pending());
        });
        let last = bump(&rig.queue, &x);
        let droppers: Vec<_> = futures.into_iter().map(|pair| thread::spawn(move || drop(pair))).collect();
        gate.open();
        droppers.into_iter().for_each(|dropper| dropper.join().unwrap());
        wait(gated.unwrap()).unwrap();
        wait(last).unwrap();
    }
    assert_eq!(contents(&x), [1 + ROUNDS as u32; 64]);
    rig.settle();
}

/// A future goes from thread to thread, each of which leaves its own waker.
#[test]
fn a_future_that_each_thread_polls_once_wakes_the_last_one() {
    struct Bell(AtomicUsize);
    impl Wake for Bell {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }
    let rig = Rig::new();
    let x = Buffer::from(vec![1_u32; 64]);
    let gate = Gate::new();
    let gated = rig.queue.submit(|cg| {
        cg.after(gate.opened());
        cg.fill(&cg.overwrite(&x), 3)
    });
    let mut future = Box::pin(x.into_vec());
    let bells: Vec<_> = (0..8).map(|_| Arc::new(Bell(AtomicUsize::new(0)))).collect();
    for bell in &bells {
        let waker = Waker::from(bell.clone());
        future = thread::spawn(move || {
            let polled = Pin::new(&mut future).poll(&mut TaskContext::from_waker(&waker));
            assert!(polled.is_pending());
            future
        })
        .join()
        .unwrap();
    }
    gate.open();
    until("the last is woken", || bells[7].0.load(Ordering::SeqCst) > 0);
    wait(gated.unwrap()).unwrap();
    assert_eq!(wait(future).unwrap(), [3; 64]);
    assert!(bells.iter().all(|bell| Arc::strong_count(bell) == 1), "no waker is kept");
}

/// A buffer without a runtime is bound by two at once, while it is read: it belongs to one of them, and the other one is refused.
#[test]
fn a_buffer_that_two_runtimes_reach_for_belongs_to_one() {
    for _ in 0..ROUNDS / 3 {
        let (one, other) = (Rig::new(), Rig::new());
        let x = Buffer::from(vec![1_u32; 500]);
        let mut guard = wait(x.host_write()).unwrap();
        let taken: Vec<bool> = thread::scope(|s| {
            let threads = [&one, &other].map(|rig| {
                let x = x.clone();
                s.spawn(move || match rig.queue.submit(|cg| cg.fill(&cg.overwrite(&x.range(..250)), 2)) {
                    Ok(event) => Some(event),
                    Err(error) => {
                        assert!(error.is_invalid_input());
                        None
                    }
                })
            });
            guard.fill(7);
            drop(guard);
            let events = threads.map(|thread| thread.join().unwrap());
            events.into_iter().map(|event| event.map(|event| wait(event).unwrap()).is_some()).collect()
        });
        assert_eq!(taken.iter().filter(|taken| **taken).count(), 1);
        assert_eq!(wait(x.into_vec()).unwrap()[249..251], [2, 7]);
    }
}

/// Buffers are made, written and dropped by threads that give each other's memory on; nobody sees the others'.
#[test]
fn memory_that_goes_from_thread_to_thread_shows_each_its_own() {
    let rig = Rig::new();
    thread::scope(|s| {
        for own in 1..5_u32 {
            let rig = &rig;
            s.spawn(move || {
                for round in 0..ROUNDS {
                    let len = [7, 5000, 1 << 18][round % 3];
                    let x = Buffer::<u32>::new(len);
                    let part = x.range(..len / 2);
                    wait(put(&rig.queue, &part, own)).unwrap();
                    let seen = wait(x.host_read()).unwrap();
                    let (low, high) = seen.split_at(len / 2);
                    assert!(low.iter().all(|v| *v == own) && high.iter().all(|v| *v == 0));
                }
            });
        }
    });
    rig.settle();
}

/// The end comes while several threads submit, read and take: each gets its data or an error, and none a part of it.
#[test]
fn an_end_in_the_middle_of_everything_gives_data_or_an_error() {
    for round in 0..ROUNDS / 4 {
        let rig = Rig::new();
        let x = Buffer::from(vec![0_u32; 2000]);
        let over = AtomicBool::new(false);
        thread::scope(|s| {
            for _ in 0..3 {
                s.spawn(|| {
                    while !over.load(Ordering::SeqCst) {
                        let len = x.len();
                        let event = rig.queue.submit(|cg| {
                            let x = cg.read_write(&x);
                            cg.host_chunks(1, x, move |chunk, part| {
                                assert!(chunk.total() == len);
                                part.iter_mut().for_each(|v| *v += 1);
                            })
                        });
                        if event.is_err() {
                            return;
                        }
                        match wait(x.host_read()) {
                            Ok(seen) => assert_whole(&seen),
                            Err(_) => return,
                        }
                        if let Ok(vec) = wait(x.clone().into_vec()) {
                            assert_whole(&vec);
                        }
                    }
                });
            }
            for _ in 0..round {
                thread::yield_now();
            }
            rig.runtime.abort();
            over.store(true, Ordering::SeqCst);
        });
    }
}

/// Events are cloned, polled, cancelled and dropped by several threads at the moment at which they resolve.
#[test]
fn an_event_in_several_hands_resolves_for_each_of_them() {
    let rig = Rig::new();
    for _ in 0..ROUNDS {
        let x = Buffer::from(vec![1_u32; 64]);
        let gate = Gate::new();
        let event = rig.queue.submit(|cg| {
            cg.after(gate.opened());
            cg.fill(&cg.overwrite(&x), 3)
        });
        let event = event.unwrap();
        thread::scope(|s| {
            let waiters: Vec<_> = (0..3)
                .map(|_| {
                    let event = event.clone();
                    s.spawn(move || {
                        let mut polled = event.clone();
                        let _ = Pin::new(&mut polled).poll(&mut TaskContext::from_waker(Waker::noop()));
                        drop(polled);
                        wait(event).is_ok()
                    })
                })
                .collect();
            let canceller = event.clone();
            s.spawn(move || canceller.cancel());
            gate.open();
            let all: Vec<bool> = waiters.into_iter().map(|waiter| waiter.join().unwrap()).collect();
            assert!(all.iter().all(|ok| *ok == all[0]));
            let mut read = x.host_read();
            let seen = match poll_once(&mut read) {
                Poll::Ready(seen) => seen,
                Poll::Pending => wait(read),
            };
            assert_eq!(seen.is_ok_and(|seen| seen[..] == [3; 64]), all[0]);
        });
    }
    rig.settle();
}
