//! Data that is lent or borrowed: scopes, host views, recordings, and buffers that stay in one memory.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::thread;

use windlass::prelude::*;
use windlass::{MemoryKind, scope};

use crate::rig::{Gate, Hold, Rig, bump, contents, poll_once, put, until, wait};
use crate::{everywhere, forget, panics};

/// A group that adds one once it is let go.
fn held(queue: &Queue, x: &Buffer<u32>, hold: &Hold) -> Event {
    let (inside, len) = (hold.clone(), x.len());
    let group = queue.submit(|cg| {
        let x = cg.read_write(x);
        cg.host_for(1, x, move |_, x| {
            inside.here();
            (0..len).for_each(|i| x.set(i, x.get(i) + 1));
        })
    });
    group.unwrap()
}

/// A borrow that ends under a running group: the closure panics, and the data goes with the stack.
#[test]
fn a_scope_that_panics_leaves_its_groups_nothing_of_the_stack() {
    let rig = Rig::new();
    let hold = Hold::new();
    {
        let mut data = vec![1_u32; 1000];
        assert!(panics(|| {
            scope(|s| -> windlass::Result<()> {
                let lent = s.buffer(&mut data);
                held(&rig.queue, &lent, &hold);
                hold.wait_until_entered();
                panic!("while a group is inside")
            })
        }));
        assert_eq!(data, [1; 1000]);
        data.fill(7);
    }
    let other = vec![5_u32; 1000];
    hold.let_go();
    rig.settle();
    assert_eq!(other, [5; 1000]);
}

/// The same by an early return, and by handles that are forgotten: a scope waits for its groups, and not for its handles.
/// Seen to fail where a scope that fails did not wait.
#[test]
fn a_scope_whose_handles_are_forgotten_waits_for_its_groups() {
    let rig = Rig::new();
    for early in [false, true] {
        let hold = Hold::new();
        let mut data = [1_u32; 64];
        let done = scope(|s| {
            let lent = s.buffer(&mut data);
            let event = held(&rig.queue, &lent, &hold);
            hold.wait_until_entered();
            let opens = hold.clone();
            thread::spawn(move || opens.let_go());
            let mut reading = lent.host_read();
            assert!(!early || poll_once(&mut reading).is_pending() || event.status() == Status::Done);
            drop(reading);
            forget((lent.range(3..), lent, event));
            if early { Err(windlass::Error::other("early")) } else { Ok(()) }
        });
        assert_eq!((done.is_err(), data), (early, [2; 64]));
    }
}

/// Scopes in scopes, whose data are parts of each other.
#[test]
fn scopes_that_nest_give_back_each_its_own() {
    let rig = Rig::new();
    let mut data = [1_u32; 60];
    scope(|outer| {
        let (low, high) = data.split_at_mut(30);
        let low = outer.buffer(low);
        let inner = scope(|inner| {
            let (mine, rest) = high.split_at_mut(10);
            let mine = inner.buffer(mine);
            drop(held(&rig.queue, &mine, &let_go()));
            let again = scope(|s| {
                let rest = s.buffer(rest);
                rig.queue.submit(|cg| cg.copy(&cg.read(&low.range(..20)), &cg.overwrite(&rest)))?;
                rig.queue.submit(|cg| cg.fill(&cg.write(&rest.range(..1)), 9))
            });
            again.map(drop)
        });
        drop(held(&rig.queue, &low, &let_go()));
        inner
    })
    .unwrap();
    let mut should = [1; 60];
    should[..40].fill(2);
    should[40] = 9;
    assert_eq!(data, should);
}

fn let_go() -> Hold {
    let hold = Hold::new();
    hold.let_go();
    hold
}

/// Another thread has a guard of what was lent, and the scope ends: it waits for the guard, since it takes the data back.
#[test]
fn a_scope_waits_for_a_guard_that_another_thread_has() {
    let rig = Rig::new();
    let mut data = [1_u32; 64];
    let over = Arc::new(AtomicBool::new(false));
    let seen = over.clone();
    let (send, receive) = channel::<windlass::HostWrite<u32>>();
    let writer = thread::spawn(move || {
        let mut guard = receive.recv().unwrap();
        for i in 0..64 {
            assert!(!seen.load(Ordering::SeqCst), "the scope is over");
            guard[i] = 7;
            thread::yield_now();
        }
        drop(guard);
    });
    scope(|s| {
        let lent = s.buffer(&mut data);
        rig.queue.prefetch(&lent)?;
        send.send(lent.host_write().blocking_wait()?).unwrap();
        Ok(())
    })
    .unwrap();
    over.store(true, Ordering::SeqCst);
    assert_eq!(data, [7; 64]);
    writer.join().unwrap();
}

/// A lent buffer goes on in a thread that the scope knows nothing of, by groups that come when it is over.
#[test]
fn a_buffer_that_a_thread_carries_out_of_its_scope_has_its_own_memory() {
    let rig = Rig::new();
    let (send, receive) = channel::<Buffer<u32>>();
    let (queue, go) = (rig.queue.clone(), Hold::new());
    let wait_for = go.clone();
    let writer = thread::spawn(move || {
        let lent = receive.recv().unwrap();
        wait_for.here();
        wait(put(&queue, &lent, 9)).unwrap();
        contents(&lent)
    });
    let mut data = vec![1_u32; 64];
    send.send(scope(|s| Ok(s.buffer(&mut data))).unwrap()).unwrap();
    data.resize(1000, 3);
    drop(data);
    go.let_go();
    assert_eq!(writer.join().unwrap(), [9; 64]);
}

/// A recording names buffers that have gone, in a context with memory of its own, too.
/// Seen to fail where a recording did not keep its buffers.
#[test]
fn a_recording_outlives_the_handles_of_its_buffers() {
    everywhere(|rig, queue| {
        let (x, y) = (Buffer::from(vec![1_u32; 4000]), Buffer::<u32>::new(4000));
        let step = queue.record(|cg| cg.copy(&cg.read(&x), &cg.overwrite(&y))).unwrap();
        let part = y.range(..1);
        drop((x, y));
        let others: Vec<_> = (0..10).map(|i| Buffer::from(vec![i; 4000])).collect();
        for other in &others {
            drop(queue.submit(|cg| cg.replay(&step)).unwrap());
            wait(bump(queue, other)).unwrap();
        }
        assert_eq!(contents(&part), [1]);
        drop(part);
        let last = queue.submit(|cg| cg.replay(&step)).unwrap();
        drop(step);
        wait(last).unwrap();
        assert!(others.iter().zip(0..).all(|(other, i)| contents(other) == vec![i + 1; 4000]));
        drop(others);
        until("they are gone", || rig.stats().live_buffers == 0);
    });
}

/// An alias: a vector is taken of a buffer that a recording writes.
#[test]
fn a_vector_is_not_the_memory_that_a_recording_writes() {
    everywhere(|_, queue| {
        let x = Buffer::from(vec![1_u32; 4000]);
        let step = queue.record(|cg| cg.fill(&cg.overwrite(&x), 9)).unwrap();
        wait(queue.submit(|cg| cg.replay(&step)).unwrap()).unwrap();
        let mut vec = wait(x.into_vec()).unwrap();
        assert_eq!(vec, [9; 4000]);
        vec.fill(3);
        let replay = queue.submit(|cg| cg.replay(&step)).unwrap();
        vec.fill(4);
        wait(replay).unwrap();
        assert_eq!(vec, [4; 4000]);
    });
}

/// A recording for another device's memory, or another runtime's.
#[test]
fn a_recording_is_replayed_where_it_was_made_and_nowhere_else() {
    let (rig, other) = (Rig::new(), Rig::new());
    let x = Buffer::from(vec![1_u32; 64]);
    let step = rig.queue.record(|cg| cg.fill(&cg.overwrite(&x), 9)).unwrap();
    for queue in [&rig.elsewhere(), &other.queue] {
        assert!(queue.submit(|cg| cg.replay(&step)).unwrap_err().is_unsupported());
        assert!(queue.record(|cg| cg.replay(&step)).unwrap_err().is_unsupported());
    }
    let both = rig.queue.record(|cg| {
        cg.replay(&step)?;
        cg.replay(&step)
    });
    let both = both.unwrap();
    drop(step);
    wait(rig.runtime.shutdown(std::time::Duration::from_secs(20)));
    assert!(rig.queue.submit(|cg| cg.replay(&both)).is_err());
}

/// Memory that a recording has used is given up meanwhile, and used by others.
#[test]
fn a_recording_whose_memory_was_evicted_finds_its_data_again() {
    everywhere(|rig, queue| {
        let x = Buffer::from(vec![1_u32; 1 << 18]);
        let guarded = x.clone();
        let plus = queue.record(|cg| cg.copy(&cg.read(&x.range(..9)), &cg.write(&x.range(9..18)))).unwrap();
        for round in 0..5 {
            drop(queue.submit(|cg| cg.replay(&plus)).unwrap());
            let evicting = queue.evict(&x);
            let guard = wait(guarded.host_read()).unwrap();
            let other = Buffer::<u32>::new(1 << 18);
            drop(put(queue, &other, 7));
            drop(guard);
            let _ = wait(evicting);
            wait(bump(queue, &x.range(..9))).unwrap();
            wait(queue.submit(|cg| cg.replay(&plus)).unwrap()).unwrap();
            assert_eq!(contents(&x)[..20], [[2 + round; 18].as_slice(), &[1; 2]].concat());
            assert!(contents(&other).iter().all(|v| *v == 7));
        }
        drop((x, guarded, plus));
        rig.settle();
    });
}

/// A view that is forgotten inside of a task which then ends: nobody has it any more, and the data goes on.
/// Seen to fail where only two views to write excluded each other.
#[test]
fn views_that_are_forgotten_end_with_their_task() {
    let rig = Rig::new();
    let x = Buffer::from(vec![1_u32; 64]);
    for _ in 0..3 {
        let task = rig.queue.submit(|cg| {
            let (mut low, all) = (cg.read_write(&x.range(..32)), cg.read(&x));
            cg.host_task(async move |host| {
                let mut view = host.view_mut(&mut low)?;
                view[0] += 1;
                // It owns nothing, so nothing leaks by it.
                std::mem::forget(view);
                assert!(host.view_mut(&mut low).unwrap_err().is_aliased());
                assert!(host.view(&all).unwrap_err().is_aliased());
                Ok(())
            })
        });
        drop(task.unwrap());
    }
    assert_eq!(contents(&x)[..2], [4, 1]);
}

/// A task's view in other threads, and in halves: they are ordinary borrows, which end before the task does.
#[test]
fn a_tasks_view_that_threads_share_is_theirs_until_they_are_joined() {
    let rig = Rig::new();
    let x = Buffer::from(vec![1_u32; 1000]);
    let task = rig.queue.submit(|cg| {
        let mut x = cg.read_write(&x);
        cg.host_task(async move |host| {
            let mut view = host.view_mut(&mut x)?;
            thread::scope(|s| {
                for part in view.chunks_mut(100) {
                    s.spawn(move || part.iter_mut().for_each(|v| *v += 1));
                }
            });
            assert_eq!(view[..], [2; 1000]);
            Ok(())
        })
    });
    let behind = bump(&rig.queue, &x);
    wait(task.unwrap()).unwrap();
    wait(behind).unwrap();
    assert_eq!(contents(&x), [3; 1000]);
}

/// A buffer of memory that was the program's is dropped, taken and read while the device still works in it.
#[test]
fn imported_memory_is_the_devices_until_its_groups_are_over() {
    everywhere(|rig, queue| {
        for kind in [MemoryKind::Host, MemoryKind::Shared, MemoryKind::Device] {
            let Ok(x) = queue.blocking_import(kind, vec![1_u32; 1000]) else { continue };
            let hold = Hold::new();
            let event = held(queue, &x, &hold);
            hold.wait_until_entered();
            let mut reading = x.range(999..).host_read();
            let mut taking = Box::pin(x.clone().into_vec());
            assert!(poll_once(&mut reading).is_pending() && poll_once(&mut taking).is_pending());
            let address = x.device_address();
            assert_eq!(x.range(2..).device_address(), address.map(|at| at + 8));
            drop(x);
            hold.let_go();
            wait(event).unwrap();
            assert_eq!(wait(reading).unwrap()[0], 2);
            let mut vec = wait(taking).unwrap();
            vec.push(1);
            assert_eq!(vec[..1000], [2; 1000]);
        }
        until("they are gone", || rig.stats().live_buffers == 0);
    });
}

/// Data that a gate's future borrows by a guard, which is dropped with the group that it never opened.
#[test]
fn a_guard_in_a_gate_is_given_back_with_the_group_that_is_cancelled() {
    let rig = Rig::new();
    let x = Buffer::from(vec![1_u32; 64]);
    let mut guard = wait(x.host_write()).unwrap();
    let gate = Gate::new();
    let opened = gate.opened();
    let gated = rig.queue.submit(|cg| {
        cg.after(async move {
            guard[0] = 5;
            opened.await?;
            guard[1] = 6;
            Ok::<_, windlass::Error>(())
        });
        Ok(())
    });
    let gated = gated.unwrap();
    let behind = bump(&rig.queue, &x);
    gated.cancel();
    wait(behind).unwrap();
    assert!(matches!(contents(&x)[..2], [6 | 2, 2]));
    drop(gate);
}
