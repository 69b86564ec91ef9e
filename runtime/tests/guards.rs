//! Decision 17: host accessors.

#[path = "common/rig.rs"]
mod rig;

use std::task::Poll;

use rig::{Gate, Hold, Rig, bump, contents, look, poll_once, put, until, wait};
use windlass::prelude::*;

fn send_and_static<T: Send + 'static>(value: T) -> T {
    value
}

#[test]
fn d17_a_future_never_polled_is_nothing() {
    let rig = Rig::new();
    let x = Buffer::from(vec![1_u32; 8]);
    wait(bump(&rig.queue, &x)).unwrap();
    let before = rig.stats();
    let never = x.host_write();
    wait(bump(&rig.queue, &x)).unwrap();
    assert_eq!(rig.stats().live_nodes, 0, "a future that was not polled has no place in the order");
    drop(never);
    assert_eq!(rig.stats().settled, before.settled + 1);
    assert_eq!(contents(&x), [3; 8]);
}

#[test]
fn d17_a_future_takes_its_place_at_the_first_poll() {
    let rig = Rig::new();
    let x = Buffer::from(vec![0_u32; 8]);
    wait(put(&rig.queue, &x, 1)).unwrap();
    let mut early = x.host_read();
    let late = x.host_read();
    // The first is polled before the write, the other after it.
    let Poll::Ready(guard) = poll_once(&mut early) else { panic!("the data is at hand") };
    let event = put(&rig.queue, &x, 2);
    assert_eq!(guard.unwrap()[..], [1; 8]);
    assert_eq!(wait(late).unwrap()[..], [2; 8]);
    wait(event).unwrap();
}

#[test]
fn d17_dropped_early_leaves_no_trace() {
    let rig = Rig::new();
    let x = Buffer::from(vec![1_u32; 8]);
    wait(bump(&rig.queue, &x)).unwrap();
    let gate = Gate::new();
    let gated = rig
        .queue
        .submit(|cg| {
            cg.after(gate.opened());
            let x = cg.read_write(&x);
            cg.host_for(8, x, |item, x| x.set(item.id(0), x.get(item.id(0)) * 10))
        })
        .unwrap();
    for _ in 0..100 {
        let (mut read, mut write) = (x.host_read(), x.host_write());
        assert!(poll_once(&mut read).is_pending() && poll_once(&mut write).is_pending());
    }
    let after = bump(&rig.queue, &x);
    gate.open();
    wait(gated).unwrap();
    wait(after).unwrap();
    rig.settle();
    assert_eq!(contents(&x), [21; 8]);
    assert!(rig.told.up_to_now(&rig.queue).is_empty(), "an accessor that was dropped is no error");
}

#[test]
fn d17_a_read_guard_holds_back_writers_only() {
    let rig = Rig::new();
    let x = Buffer::from(vec![7_u32; 8]);
    let guard = wait(async { wait(bump(&rig.queue, &x)).and(x.host_read().await) }).unwrap();
    let (reader, seen) = look(&rig.queue, &x);
    wait(reader).unwrap();
    assert_eq!(*seen.lock().unwrap(), [8; 8]);
    let second = wait(x.host_read()).unwrap();
    let writer = bump(&rig.queue, &x);
    // A group that the guard does not concern passes the writer.
    let y = Buffer::from(vec![0_u32; 8]);
    wait(bump(&rig.queue, &y)).unwrap();
    assert!(!writer.has_ended());
    assert_eq!(guard[..], second[..]);
    drop(guard);
    assert!(!writer.has_ended(), "the second guard still holds it back");
    drop(second);
    wait(writer).unwrap();
    assert_eq!(contents(&x), [9; 8]);
}

#[test]
fn d17_a_write_guard_holds_back_everybody() {
    let rig = Rig::new();
    let x = Buffer::from(vec![0_u32; 8]);
    wait(bump(&rig.queue, &x)).unwrap();
    let mut guard = wait(x.host_write()).unwrap();
    let (reader, seen) = look(&rig.queue, &x);
    let elsewhere = rig.elsewhere();
    let (far, far_seen) = look(&elsewhere, &x);
    let overwrite = put(&elsewhere, &x.range(4..), 5);
    guard[0] = 40;
    let mut other = x.host_read();
    assert!(poll_once(&mut other).is_pending());
    assert_eq!([reader.status(), far.status(), overwrite.status()], [Status::Pending; 3]);
    drop(guard);
    wait(Event::all([reader, far, overwrite])).unwrap();
    let expected = [40, 1, 1, 1, 1, 1, 1, 1];
    assert_eq!((&*seen.lock().unwrap(), &*far_seen.lock().unwrap()), (&expected.into(), &expected.into()));
    assert_eq!(wait(other).unwrap()[..], [40, 1, 1, 1, 5, 5, 5, 5]);
}

#[test]
fn d17_guards_conflict_by_region() {
    let rig = Rig::new();
    let x = Buffer::from(vec![0_u32; 20]);
    wait(bump(&rig.queue, &x)).unwrap();
    let guard = wait(x.range(..10).host_write()).unwrap();
    wait(bump(&rig.queue, &x.range(10..))).unwrap();
    let other = wait(x.range(10..).host_write()).unwrap();
    assert_eq!((guard[0], other[0]), (1, 2));
    // Guards are the exception to decision 4: even a write elsewhere that wants nothing of it waits.
    let far = put(&rig.elsewhere(), &x.range(..10), 9);
    assert!(!far.has_ended());
    drop(guard);
    wait(far).unwrap();
    drop(other);
    assert_eq!(contents(&x)[8..12], [9, 9, 2, 2]);
}

#[test]
fn d17_a_guard_is_send_and_static_and_keeps_alive_what_it_needs() {
    let guard = {
        let rig = Rig::new();
        let x = Buffer::from(vec![3_u32; 1 << 16]);
        wait(bump(&rig.queue, &x)).unwrap();
        send_and_static(wait(x.host_read()).unwrap())
    };
    // Its buffer, queue and runtime handles are gone.
    let sum = std::thread::spawn(move || guard.iter().map(|&v| u64::from(v)).sum::<u64>());
    assert_eq!(sum.join().unwrap(), 4 << 16);
}

#[test]
fn d17_a_kept_guard_is_ended_by_abort() {
    let rig = Rig::new();
    let x = Buffer::from(vec![3_u32; 8]);
    wait(bump(&rig.queue, &x)).unwrap();
    let kept = wait(x.host_write()).unwrap();
    let behind = bump(&rig.queue, &x);
    let further = bump(&rig.elsewhere(), &x);
    let mut pending = x.host_read();
    assert!(poll_once(&mut pending).is_pending());
    rig.runtime.abort();
    for event in [behind, further] {
        assert!(wait(event).unwrap_err().root().is_cancelled(), "what waits for the guard is resolved");
    }
    assert!(wait(pending).unwrap_err().is_shut_down(), "and so is an accessor behind it");
    assert_eq!(kept[..], [4; 8], "the memory stays good");
    drop(kept);
    until("nothing remains", || rig.runtime.abort().groups == 0);
}

#[test]
fn d17_a_kept_guard_is_ended_by_shutdown() {
    let rig = Rig::new();
    let x = Buffer::from(vec![3_u32; 8]);
    wait(bump(&rig.queue, &x)).unwrap();
    let kept = wait(x.host_read()).unwrap();
    let behind = bump(&rig.queue, &x);
    let mut pending = x.host_write();
    assert!(poll_once(&mut pending).is_pending());
    let left = wait(rig.runtime.shutdown(std::time::Duration::from_millis(20)));
    assert!(left.groups > 0, "the guard is still out");
    assert!(wait(behind).unwrap_err().is_cancelled());
    assert!(wait(pending).unwrap_err().is_shut_down());
    drop(kept);
    until("nothing remains", || rig.runtime.abort().groups == 0);
}

/// It wrote nothing, dooms nobody, and nobody waits for more than for what was ahead of it: here, a reader that runs.
#[test]
fn d17_a_write_accessor_that_gave_up_wrote_nothing_and_holds_back_nobody() {
    let rig = Rig::new();
    let x = Buffer::from(vec![3_u32; 8]);
    wait(bump(&rig.queue, &x)).unwrap();
    let hold = Hold::new();
    let inside = hold.clone();
    let reader = rig
        .queue
        .submit(|cg| {
            let x = cg.read(&x);
            cg.host_for(1, x, move |_, _| inside.here())
        })
        .unwrap();
    hold.wait_until_entered();
    let mut write = x.host_write();
    assert!(poll_once(&mut write).is_pending());
    drop(write);
    let (second, seen) = look(&rig.queue, &x);
    hold.let_go();
    wait(reader).unwrap();
    wait(second).unwrap();
    assert_eq!(*seen.lock().unwrap(), [4; 8]);
    assert_eq!(rig.stats().live_nodes, 0);
}

#[test]
fn d17_a_write_accessor_that_gave_up_leaves_what_was_current_elsewhere() {
    let rig = Rig::new();
    let elsewhere = rig.elsewhere();
    let x = Buffer::from(vec![3_u32; 8]);
    wait(bump(&elsewhere, &x)).unwrap();
    let gate = Gate::new();
    let gated = elsewhere
        .submit(|cg| {
            cg.after(gate.opened());
            cg.read(&x);
            Ok(())
        })
        .unwrap();
    let mut write = x.host_write();
    assert!(poll_once(&mut write).is_pending());
    drop(write);
    let before = rig.stats().transfers;
    let (reader, seen) = look(&elsewhere, &x);
    assert_eq!(rig.stats().transfers, before, "nothing is stale there");
    gate.open();
    wait(gated).unwrap();
    wait(reader).unwrap();
    assert_eq!(*seen.lock().unwrap(), [4; 8]);
}

#[test]
fn d17_a_write_accessor_that_is_refused_wrote_nothing() {
    let rig = Rig::new();
    let x = Buffer::from(vec![2_u32; 8]);
    let gate = Gate::new();
    let bad = rig
        .queue
        .submit(|cg| {
            cg.after(gate.opened());
            let x = cg.read_write(&x.range(..4));
            cg.host_for(1, x, |_, _| panic!("no"))
        })
        .unwrap();
    let mut early = x.host_write();
    assert!(poll_once(&mut early).is_pending());
    let behind = bump(&rig.queue, &x.range(4..));
    gate.open();
    assert!(wait(early).unwrap_err().root().is_panic());
    assert!(wait(bad).unwrap_err().is_panic());
    wait(behind).unwrap();
    // And one that comes when all is known.
    assert!(wait(x.host_write()).unwrap_err().root().is_panic());
    assert_eq!(wait(x.range(4..).host_read()).unwrap()[..], [3; 4]);
    assert!(wait(x.range(..4).host_read()).unwrap_err().root().is_panic(), "and not by the accessors");
    wait(put(&rig.queue, &x.range(..4), 1)).unwrap();
    assert_eq!(contents(&x), [1, 1, 1, 1, 3, 3, 3, 3]);
}

#[test]
fn d17_a_poisoned_buffer_says_so_to_its_readers_and_is_healed_by_a_write() {
    let rig = Rig::new();
    let x = Buffer::from(vec![0_u32; 8]);
    let bad = rig
        .queue
        .submit(|cg| {
            let x = cg.read_write(&x);
            cg.host_for(1, x, |_, _| panic!("no"))
        })
        .unwrap();
    assert!(wait(bad).unwrap_err().is_panic());
    let error = wait(x.host_read()).unwrap_err();
    assert!(error.is_dependency_failed() && error.root().is_panic());
    wait(put(&rig.queue, &x, 4)).unwrap();
    assert_eq!(contents(&x), [4; 8]);
    rig.settle();
}

/// Decision 42. Seen to fail: the accessor bound the buffer to the process's default runtime.
#[test]
fn d42_host_access_does_not_decide_whose_a_buffer_is() {
    let rig = Rig::new();
    let before = Runtime::global().stats().live_buffers;
    let data = Buffer::from(vec![1_u32, 2, 3, 4]);
    assert_eq!(wait(data.host_read()).unwrap()[..], [1, 2, 3, 4]);
    wait(data.host_write()).unwrap()[0] = 7;
    assert_eq!(wait(data.range(..2).host_read()).unwrap()[..], [7, 2]);
    assert_eq!(Runtime::global().stats().live_buffers, before);
    wait(bump(&rig.queue, &data)).unwrap();
    assert_eq!(contents(&data), [8, 3, 4, 5]);
    let copy = data.range(1..);
    assert_eq!(wait(copy.into_vec()).unwrap(), [3, 4, 5]);

    let zeros = Buffer::<u32>::new(4);
    assert_eq!(wait(zeros.host_read()).unwrap()[..], [0; 4]);
    let elsewhere = rig.elsewhere();
    wait(bump(&elsewhere, &zeros)).unwrap();
    assert_eq!(rig.stats().transfers, 0, "what was only read is still never written");
    assert_eq!(contents(&zeros), [1; 4]);
    drop(wait(Buffer::<u32>::new(0).host_write()).unwrap());
    rig.settle();
}

#[test]
fn d42_a_vector_comes_back_without_a_copy_and_without_a_runtime() {
    let elements = vec![5_u64; 1000];
    let (address, data) = (elements.as_ptr(), Buffer::from(elements));
    wait(data.host_write()).unwrap()[0] = 6;
    let back = wait(data.into_vec()).unwrap();
    assert_eq!((back.as_ptr(), back[0], back[1], back.len()), (address, 6, 5, 1000));
    let shared = Buffer::from(vec![1_u32; 4]);
    let other = shared.clone();
    assert_eq!(wait(shared.into_vec()).unwrap(), [1; 4]);
    assert_eq!(wait(other.into_vec()).unwrap(), [1; 4]);
    assert_eq!(wait(Buffer::<u32>::new(3).into_vec()).unwrap(), [0; 3]);
}

#[test]
fn d42_early_accessors_keep_apart() {
    let data = Buffer::from(vec![1_u8; 16]);
    let mut left = wait(data.range(..8).host_write()).unwrap();
    // Readers of the rest go ahead, those of the same part wait.
    let right = wait(data.range(8..).host_read()).unwrap();
    let _also = wait(data.range(12..).host_read()).unwrap();
    let (mut whole, mut never) = (data.host_read(), data.host_write());
    assert!(poll_once(&mut whole).is_pending() && poll_once(&mut never).is_pending());
    left.fill(2);
    drop(never);
    drop(left);
    let mut sum = vec![2; 8];
    sum.extend([1; 8]);
    let whole = wait(whole).unwrap();
    assert_eq!(whole[..], sum);
    let mut writer = data.host_write();
    assert!(poll_once(&mut writer).is_pending());
    drop((right, whole, _also));
    wait(writer).unwrap().fill(3);
    assert_eq!(wait(data.into_vec()).unwrap(), [3; 16]);
}

#[test]
fn d42_groups_wait_for_accessors_that_were_there_before_the_buffer_was_bound() {
    for elsewhere in [false, true] {
        let rig = Rig::new();
        let queue = if elsewhere { rig.elsewhere() } else { rig.queue.clone() };
        let data = Buffer::from(vec![1_u32; 4]);
        let mut held = wait(data.host_write()).unwrap();
        let mut waiting = data.host_read();
        assert!(poll_once(&mut waiting).is_pending());
        let event = bump(&queue, &data);
        let seen = look(&queue, &data);
        assert!(!event.has_ended());
        held.fill(10);
        assert!(poll_once(&mut waiting).is_pending());
        drop(held);
        // It came before the group.
        assert_eq!(wait(waiting).unwrap()[..], [10; 4]);
        wait(event).unwrap();
        wait(seen.0).unwrap();
        assert_eq!(*seen.1.lock().unwrap(), [11; 4]);
        let reader = wait(data.host_read()).unwrap();
        drop(reader);
        assert_eq!(wait(data.into_vec()).unwrap(), [11; 4]);
        rig.settle();
    }
}

#[test]
fn d42_an_accessor_that_is_dropped_after_the_buffer_was_bound_holds_nobody_back() {
    let rig = Rig::new();
    let data = Buffer::from(vec![1_u32; 4]);
    let held = wait(data.host_read()).unwrap();
    let mut gives_up = data.host_write();
    assert!(poll_once(&mut gives_up).is_pending());
    let event = bump(&rig.queue, &data);
    drop(gives_up);
    assert!(!event.has_ended());
    assert_eq!(held[..], [1; 4]);
    drop(held);
    wait(event).unwrap();
    assert_eq!(contents(&data), [2; 4]);
    rig.settle();
}

#[test]
#[cfg_attr(miri, ignore = "takes too long there: three hundred rounds of threads")]
fn d42_binding_and_early_access_at_any_moment() {
    for round in 0..300 {
        let rig = Rig::with_lanes(1);
        let data = Buffer::from(vec![0_u32; 8]);
        std::thread::scope(|s| {
            for part in 0..2 {
                let data = &data;
                s.spawn(move || {
                    for _ in 0..3 {
                        for x in wait(data.range(part * 4..part * 4 + 4).host_write()).unwrap().iter_mut() {
                            *x += 1;
                        }
                    }
                });
            }
            s.spawn(|| (0..2).for_each(|_| drop(bump(&rig.queue, &data))));
        });
        assert_eq!(contents(&data), [5; 8], "round {round}");
        rig.settle();
    }
}

#[test]
fn d42_the_error_says_who_used_the_buffer_first() {
    let (one, other) = (Rig::new(), Rig::new());
    let data = Buffer::from(vec![1_u32; 4]);
    let first = one.queue.submit(|cg| cg.fill(&cg.overwrite(&data), 2));
    let line = line!() - 1;
    wait(first.unwrap()).unwrap();
    let error = other.queue.submit(|cg| cg.fill(&cg.overwrite(&data), 3)).unwrap_err();
    assert!(error.is_invalid_input(), "{error}");
    assert!(error.to_string().contains(&format!("{}:{line}:", file!())), "{error}");
}

/// What `select!` with a tick, or a short time-out, makes of an accessor while somebody else holds the data.
#[test]
#[cfg_attr(miri, ignore = "takes too long there: a thousand accessors beside each other")]
fn d17_accessors_that_are_polled_once_and_dropped_cost_the_same_each() {
    let rig = Rig::new();
    let x = Buffer::from(vec![0_u32; 8]);
    wait(bump(&rig.queue, &x)).unwrap();
    let guard = wait(x.host_write()).unwrap();
    let links = |count: usize| {
        for _ in 0..count {
            assert!(poll_once(&mut x.host_write()).is_pending());
            assert!(poll_once(&mut x.host_read()).is_pending());
        }
        rig.stats().live_links
    };
    let few = links(500);
    assert!(links(500) <= 2 * few + 8, "{few} of 500 and as many again");
    drop(guard);
    rig.settle();
    assert_eq!(wait(x.host_read()).unwrap()[..], [1; 8]);
}
