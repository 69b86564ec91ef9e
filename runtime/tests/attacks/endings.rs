//! Ends: cancellations, shutdown, abort, and handles that go while their memory is in use.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use windlass::prelude::*;
use windlass::{BoxError, Error};

use crate::rig::{Gate, Hold, Rig, bump, contents, poll_once, put, until, wait};
use crate::{Token, in_time};

/// A kernel that writes all of a buffer once it is let go, and reads it back.
fn slow_write(queue: &Queue, x: &Buffer<u32>, hold: &Hold, wrote: &Arc<AtomicUsize>) -> Event {
    let (inside, wrote, len) = (hold.clone(), wrote.clone(), x.len());
    let group = queue.submit(|cg| {
        let x = cg.overwrite(x);
        cg.host_for(1, x, move |_, x| {
            inside.here();
            (0..len).for_each(|i| x.set(i, i as u32 + 1));
            wrote.store((0..len).filter(|i| x.get(*i) == *i as u32 + 1).count(), Ordering::SeqCst);
        })
    });
    group.unwrap()
}

/// Use after free: everything that the program has goes while a kernel is about to write the buffer.
/// Seen to fail, with an access after the free, where a dropped buffer's memory was freed at once.
#[test]
fn a_kernel_writes_its_buffer_when_every_handle_is_gone() {
    for len in [1000, 1 << 19] {
        let (hold, wrote) = (Hold::new(), Arc::new(AtomicUsize::new(0)));
        let rig = Rig::new();
        let x = Buffer::<u32>::new(len);
        drop(slow_write(&rig.queue, &x, &hold, &wrote));
        hold.wait_until_entered();
        drop((x, rig));
        hold.let_go();
        until("all of it is written", || wrote.load(Ordering::SeqCst) == len);
    }
}

/// The same for a group that has not started, behind one that has, of a vector's memory.
/// Seen to fail, with an access after the free, where a dropped buffer's memory was freed at once.
#[test]
fn a_chain_of_groups_works_on_when_every_handle_is_gone() {
    let (hold, sum) = (Hold::new(), Arc::new(AtomicUsize::new(0)));
    let rig = Rig::new();
    let far = rig.elsewhere();
    let x = Buffer::from(vec![1_u32; 100]);
    drop(slow_write(&rig.queue, &x, &hold, &Arc::default()));
    for queue in [&far, &rig.queue, &far] {
        drop(bump(queue, &x));
    }
    let into = sum.clone();
    let last = rig.queue.submit(|cg| {
        let x = cg.read(&x);
        cg.host_for(1, x, move |_, x| {
            into.store((0..100).map(|i| x.get(i) as usize).sum(), Ordering::SeqCst);
        })
    });
    drop(last);
    hold.wait_until_entered();
    drop((x, far, rig));
    hold.let_go();
    until("the last has run", || sum.load(Ordering::SeqCst) == 5050 + 300);
}

/// A race: the runtime is given up while a kernel is in the memory, and the program asks for the data.
/// Seen to fail where accessors were let in after the end.
#[test]
fn an_aborted_runtime_shows_nobody_what_a_kernel_still_writes() {
    let (hold, wrote) = (Hold::new(), Arc::new(AtomicUsize::new(0)));
    let rig = Rig::new();
    let x = Buffer::from(vec![1_u32; 100]);
    let event = slow_write(&rig.queue, &x, &hold, &wrote);
    hold.wait_until_entered();
    let (mut read, mut taken) = (x.host_read(), Box::pin(x.clone().into_vec()));
    assert!(poll_once(&mut read).is_pending() && poll_once(&mut taken).is_pending());
    rig.runtime.abort();
    let is_end = |error: &Error| error.is_shut_down() || error.root().is_cancelled();
    assert!(wait(read).is_err_and(|e| is_end(&e)) && wait(taken).is_err_and(|e| is_end(&e)));
    assert!(wait(x.host_read()).unwrap_err().is_shut_down());
    assert!(wait(x.host_write()).unwrap_err().is_shut_down());
    assert!(wait(x.range(..1).host_overwrite()).unwrap_err().is_shut_down());
    assert!(wait(x.into_vec()).unwrap_err().is_shut_down());
    hold.let_go();
    until("the kernel writes all the same", || wrote.load(Ordering::SeqCst) == 100);
    until("and is over", || event.has_ended());
}

/// A runtime that its own thread ends: the last handle of all is a kernel's, dropped where kernels run.
#[test]
fn a_kernel_that_owns_its_runtime_ends_it() {
    for task in [false, true] {
        let told = in_time(move || {
            let rig = Rig::new();
            let x = Buffer::from(vec![1_u32; 64]);
            let guard_of = Buffer::from(vec![2_u32; 64]);
            let guard = wait(guard_of.host_write()).unwrap();
            let (tell, told) = std::sync::mpsc::channel();
            let (queue, kept, seen) = (rig.queue.clone(), x.clone(), tell);
            let event = queue.submit(|cg| {
                let own = (rig, queue.clone(), kept, guard, guard_of);
                let x = cg.read(&x);
                match task {
                    true => cg.host_task(async move |host| {
                        seen.send(host.view(&x)?[63])?;
                        drop((own, seen));
                        Ok(())
                    }),
                    false => cg.host_for(1, x, move |_, x| {
                        let _ = (&own, seen.send(x.get(63)));
                    }),
                }
            });
            drop((event.unwrap(), queue, x));
            told
        });
        // It is closed when the closure is gone.
        until("the closure is dropped", || match told.try_recv() {
            Ok(value) => {
                assert_eq!(value, 1);
                false
            }
            Err(error) => error == std::sync::mpsc::TryRecvError::Disconnected,
        });
    }
}

/// After the end: every entry is an error, and none of them reaches memory.
/// Seen to fail where accessors were let in after the end.
#[test]
fn a_buffer_of_a_runtime_that_has_ended_is_refused_by_every_entry() {
    for aborted in [false, true] {
        let rig = Rig::new();
        let x = Buffer::from(vec![1_u32; 64]);
        wait(bump(&rig.queue, &x)).unwrap();
        let step = rig.queue.record(|cg| cg.fill(&cg.overwrite(&x), 3)).unwrap();
        match aborted {
            true => rig.runtime.abort(),
            false => wait(rig.runtime.shutdown(Duration::from_secs(20))),
        };
        let other = Rig::new();
        assert!(rig.queue.submit(|cg| cg.fill(&cg.overwrite(&x), 1)).is_err());
        assert!(rig.queue.submit(|cg| cg.replay(&step)).is_err());
        assert!(other.queue.submit(|cg| cg.copy(&cg.read(&x), &cg.overwrite(&Buffer::new(64)))).is_err());
        assert!(rig.queue.prefetch(&x).is_err());
        assert!(!wait(rig.queue.evict(&x)).unwrap_or(false));
        assert!(rig.queue.blocking_import(windlass::MemoryKind::Host, vec![1_u32]).is_err());
        assert!(wait(x.host_read()).is_err() && wait(x.host_write()).is_err());
        assert!(wait(x.range(3..4).host_overwrite()).is_err());
        assert!(wait(x.reinterpret::<u8, 1>(256).unwrap().host_read()).is_err());
        let mut mine = [1_u32; 4];
        let scoped = windlass::scope(|s| {
            let lent = s.buffer(&mut mine);
            rig.queue.submit(|cg| cg.fill(&cg.overwrite(&lent), 1)).map(drop)
        });
        assert!(scoped.is_err());
        x.clear_poison();
        let _ = x.poison();
        wait(x.clone().close()).unwrap();
        assert!(wait(x.into_vec()).is_err());
    }
}

/// Where a group is when it is cancelled.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Moment {
    Gated,
    BehindData,
    Running,
    Over,
}

/// A double drop, or none: what a group owns, at each moment at which it is cancelled and forgotten.
#[test]
fn what_a_cancelled_group_owns_is_dropped_once_at_whatever_moment() {
    static DROPS: AtomicUsize = AtomicUsize::new(0);
    for moment in [Moment::Gated, Moment::BehindData, Moment::Running, Moment::Over] {
        for task in [false, true] {
            let before = DROPS.load(Ordering::SeqCst);
            let rig = Rig::new();
            let x = Buffer::from(vec![1_u32; 64]);
            let (gate, hold) = (Gate::new(), Hold::new());
            wait(bump(&rig.queue, &x)).unwrap();
            let guard = (moment == Moment::BehindData).then(|| wait(x.host_write()).unwrap());
            let (token, inside) = (Token(&DROPS), hold.clone());
            let event = rig.queue.submit(|cg| {
                if moment == Moment::Gated {
                    cg.after(gate.opened());
                }
                let x = cg.read_write(&x);
                match task {
                    true => cg.host_task(async move |host| {
                        let _own = &token;
                        inside.here();
                        let mut x = x;
                        host.view_mut(&mut x)?.fill(5);
                        Ok(())
                    }),
                    false => cg.host_for(1, x, move |_, x| {
                        let _own = &token;
                        inside.here();
                        (0..64).for_each(|i| x.set(i, 5));
                    }),
                }
            });
            let event = event.unwrap();
            if moment == Moment::Running {
                hold.wait_until_entered();
            }
            if moment == Moment::Over {
                hold.let_go();
                let _ = wait(event.clone());
            }
            let outcome = event.cancel();
            drop((event, x));
            hold.let_go();
            drop((guard, gate));
            let what = || format!("{moment:?} {task} {outcome:?}");
            until(&what(), || DROPS.load(Ordering::SeqCst) == before + 1);
            rig.settle();
            assert_eq!(DROPS.load(Ordering::SeqCst), before + 1, "{}", what());
        }
    }
}

/// A race: a host task is cancelled while it has a view out, and still writes through it when it is dropped. Who comes next must not
/// start before that is over.
/// Seen to fail where a stopped task's node ended before its future was dropped.
#[test]
fn a_cancelled_task_that_writes_while_it_is_dropped_is_ahead_of_all_others() {
    struct LastWords<'a>(windlass::HostViewMut<'a, u32>);
    impl Drop for LastWords<'_> {
        fn drop(&mut self) {
            for i in 0..self.0.len() {
                self.0[i] = 7;
                std::thread::yield_now();
            }
        }
    }
    for round in 0..20 {
        let rig = Rig::new();
        let x = Buffer::from(vec![1_u32; 64]);
        let hold = Hold::new();
        let inside = hold.clone();
        hold.let_go();
        let task = rig.queue.submit(|cg| {
            cg.on_cancel(OnCancel::KeepPrevious);
            let mut x = cg.read_write(&x);
            cg.host_task(async move |host| {
                let _words = LastWords(host.view_mut(&mut x)?);
                inside.here();
                std::future::pending::<Result<(), BoxError>>().await
            })
        });
        let task = task.unwrap();
        hold.wait_until_entered();
        let behind = match round % 2 {
            0 => Some(put(&rig.queue, &x, 9)),
            _ => None,
        };
        task.cancel();
        match behind {
            Some(behind) => {
                wait(behind).unwrap();
                assert_eq!(contents(&x), [9; 64]);
            }
            // What it leaves is taken as it is.
            None => {
                let _ = wait(task);
                x.clear_poison();
                assert_eq!(contents(&x), [7; 64]);
            }
        }
    }
}

/// A use after free by those who wait: the future of a gate, of an event, of room and of a drained queue outlive the runtime.
#[test]
fn futures_that_outlive_their_runtime_are_answered() {
    let rig = Rig::with_lanes(1);
    let x = Buffer::from(vec![1_u32; 8]);
    let gate = Gate::new();
    let gated = rig.queue.submit(|cg| {
        cg.after(gate.opened());
        cg.fill(&cg.overwrite(&x), 4)
    });
    let gated = gated.unwrap();
    let (mut read, mut event, mut all) = (x.host_read(), gated.clone(), Event::all([gated.clone()]));
    let mut drained = rig.queue.drained();
    assert!(poll_once(&mut read).is_pending() && poll_once(&mut event).is_pending());
    assert!(poll_once(&mut all).is_pending() && poll_once(&mut drained).is_pending());
    let mut room = rig.queue.ready_owned();
    let _ = poll_once(&mut room);
    drop((x, gated, rig));
    gate.open();
    wait(event).unwrap();
    wait(all).unwrap();
    wait(drained);
    assert_eq!(wait(read).unwrap()[..], [4; 8]);
    drop(room);
}

/// Data that is wanted back is written into a vector that has become shorter, or is locked, or poisoned by a panic.
#[test]
fn data_that_comes_home_finds_its_vector_changed() {
    let rig = Rig::new();
    let mine = Arc::new(std::sync::Mutex::new(vec![1_u32; 64]));
    let x = Buffer::attached(&mine);
    drop(put(&rig.queue, &x, 5));
    let lock = mine.clone();
    let poisoned = std::thread::spawn(move || {
        let mut held = lock.lock().unwrap();
        held.truncate(1);
        held.shrink_to_fit();
        panic!("the lock is poisoned by this");
    });
    assert!(poisoned.join().is_err());
    wait(x.close()).unwrap();
    assert_eq!(*mine.lock().unwrap_or_else(std::sync::PoisonError::into_inner), [5; 64]);
}
