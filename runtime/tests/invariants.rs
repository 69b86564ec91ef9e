//! The invariants of the architecture page that no other file here has, as far as the host backend shows them.

#[path = "common/rig.rs"]
mod rig;

#[cfg(target_os = "linux")]
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::thread;

use rig::{Hold, Rig, bump, contents, look, poll_once, put, until, wait};
use windlass::Result;
use windlass::prelude::*;

#[test]
fn invariant_01_any_mix_of_queues_reads_as_if_one_at_a_time() {
    let rig = Rig::with_lanes(3);
    let queues = [rig.queue.clone(), rig.elsewhere(), rig.elsewhere()];
    let x = Buffer::from(vec![0_u32; 64]);
    let mut model = vec![0_u32; 64];
    let mut random = 88_172_645_463_325_252_u64;
    let mut next = |below: usize| {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        (random % below as u64) as usize
    };
    for step in 0..3000_u32 {
        let (from, len, queue) = (next(60), 1 + next(4), &queues[next(3)]);
        let part = x.range(from..from + len);
        match next(4) {
            0 => {
                drop(put(queue, &part, step));
                model[from..from + len].fill(step);
            }
            1 => {
                drop(bump(queue, &part));
                model[from..from + len].iter_mut().for_each(|v| *v += 1);
            }
            2 => {
                let at = next(60);
                let event = queue.submit(|cg| {
                    let (from, to) = (cg.read(&part), cg.read_write(&x.range(at..at + 1)));
                    cg.host_for(1, (from, to), |_, (from, to)| {
                        to.set(0, to.get(0).wrapping_mul(3) + from.get(0))
                    })
                });
                drop(event.unwrap());
                model[at] = model[at].wrapping_mul(3).wrapping_add(model[from]);
            }
            _ => {
                let event = queue.submit(|cg| {
                    let mut part = cg.read_write(&part);
                    cg.host_task(async move |host| {
                        host.view_mut(&mut part)?.reverse();
                        Ok(())
                    })
                });
                drop(event.unwrap());
                model[from..from + len].reverse();
            }
        }
        if step % 500 == 499 {
            assert_eq!(contents(&x), model, "after step {step}");
        }
    }
    rig.settle();
}

#[test]
fn invariant_03_a_submission_costs_the_same_with_any_number_outstanding() {
    let rig = Rig::new();
    let x = Buffer::from(vec![0_u32; 8]);
    wait(bump(&rig.queue, &x)).unwrap();
    let guard = wait(x.host_write()).unwrap();
    let mut costs = Vec::new();
    for n in 0..20_000 {
        let before = rig.stats().nodes_visited;
        drop(bump(&rig.queue, &x));
        let cost = rig.stats().nodes_visited - before;
        if [10, 100, 1_000, 19_999].contains(&n) {
            costs.push(cost);
        }
    }
    assert_eq!(rig.stats().live_nodes, 20_001);
    assert!(costs.iter().all(|c| *c == costs[0]), "the 11th, 101st, 1,001st and 20,000th: {costs:?}");
    drop(guard);
    rig.settle();
    assert_eq!(contents(&x), [20_001; 8]);
}

#[test]
fn invariant_04_submit_runs_on_the_callers_thread_with_no_hop() {
    let rig = Rig::manual(1);
    let x = Buffer::from(vec![0_u32; 8]);
    let ran_on = Arc::new(Mutex::new(None));
    let closure = ran_on.clone();
    let event = rig.queue.submit(|cg| {
        *closure.lock().unwrap() = Some(thread::current().id());
        let x = cg.read_write(&x);
        cg.host_for(8, x, |item, x| x.set(item.id(0), 1))
    });
    assert_eq!(rig.stats().fed, 1, "it is with the lane, though this runtime has no thread");
    assert_eq!(*ran_on.lock().unwrap(), Some(thread::current().id()));
    until("the lane reports", || event.as_ref().unwrap().status() == Status::Done);
    assert_eq!(rig.stats().tasks_spawned, 0);
}

#[test]
fn invariant_07_poll_drives_nothing() {
    let rig = Rig::manual(1);
    let hold = Hold::new();
    let inside = hold.clone();
    let first = rig.queue.submit(|cg| cg.host_for(1, (), move |_, ()| inside.here())).unwrap();
    hold.wait_until_entered();
    let mut second = rig.queue.submit(|cg| cg.host_for(1, (), |_, ()| {})).unwrap();
    let before = rig.stats();
    for _ in 0..1000 {
        assert!(poll_once(&mut second).is_pending());
    }
    let after = rig.stats();
    assert_eq!((after.fed, after.settled, after.live_nodes), (before.fed, before.settled, before.live_nodes));
    hold.let_go();
    until("both end by themselves", || {
        rig.runtime.run_until_stalled();
        first.status() == Status::Done && second.status() == Status::Done
    });
}

#[test]
fn invariant_11_only_stale_bytes_move_and_all_readers_share_them() {
    let rig = Rig::new();
    let elsewhere = rig.elsewhere();
    let x = Buffer::from(vec![1_u32; 1000]);
    for _ in 0..10 {
        drop(look(&elsewhere, &x).0);
    }
    let same = Queue::blocking_in_context(&elsewhere.context(), &rig.device).unwrap();
    wait(look(&same, &x).0).unwrap();
    assert_eq!((rig.stats().transfers, rig.stats().bytes_moved), (1, 4000));
    wait(put(&rig.queue, &x.range(100..200), 5)).unwrap();
    wait(look(&elsewhere, &x.range(..150)).0).unwrap();
    assert_eq!((rig.stats().transfers, rig.stats().bytes_moved), (2, 4200));
    wait(look(&elsewhere, &x).0).unwrap();
    assert_eq!((rig.stats().transfers, rig.stats().bytes_moved), (3, 4400));
}

#[test]
fn invariant_12_an_edge_in_one_context_costs_the_host_nothing() {
    let rig = Rig::with_lanes(2);
    let elsewhere = rig.elsewhere();
    let x = Buffer::from(vec![0_u32; 8]);
    wait(bump(&rig.queue, &x)).unwrap();
    let before = rig.stats();
    for _ in 0..1000 {
        drop(bump(&rig.queue, &x));
        drop(look(&rig.queue, &x).0);
    }
    let chained = rig.stats();
    assert_eq!(chained.proxies, before.proxies);
    // Edges cost no futures. A thread that has fed many groups for others leaves the lane to one.
    let handed_over = chained.tasks_spawned - before.tasks_spawned;
    assert!(handed_over <= 2_000 / 64, "{handed_over} futures for 2,000 groups");
    let hold = Hold::new();
    let inside = hold.clone();
    let source = rig.queue.submit(|cg| {
        let x = cg.read_write(&x);
        cg.host_for(1, x, move |_, _| inside.here())
    });
    let source = source.unwrap();
    let planned = rig.stats();
    for _ in 0..100 {
        drop(elsewhere.submit(|cg| {
            cg.depends_on(&source);
            Ok(())
        }));
    }
    assert_eq!(rig.stats().proxies - planned.proxies, 0, "the host's contexts are of one domain");
    hold.let_go();
    wait(elsewhere.drained());
}

#[test]
fn invariant_14_outside_its_range_a_view_reads_zero_and_writes_nothing() {
    let rig = Rig::new();
    let x = Buffer::from(vec![7_u32; 16]);
    let event = rig.queue.submit(|cg| {
        let args = (cg.read(&x.range(..4)), cg.read_write(&x.range(4..8)));
        cg.host_for(100_000, args, |item, (a, b)| {
            let i = item.id(0);
            b.set(i + 4, 1);
            b.set(usize::MAX - i, 1);
            if i == 0 {
                b.set(0, a.get(4) + a.get(usize::MAX) + a.get(3));
            }
        })
    });
    wait(event.unwrap()).unwrap();
    assert_eq!(contents(&x), [7; 16]);
}

#[test]
fn invariant_14_work_items_that_race_on_one_element_leave_one_of_their_values() {
    let rig = Rig::new();
    let x = Buffer::<u64>::new(1);
    let event = rig.queue.submit(|cg| {
        let x = cg.read_write(&x);
        cg.host_for(200_000, x, |item, x| x.set(0, (item.id(0) as u64) << 32 | item.id(0) as u64))
    });
    wait(event.unwrap()).unwrap();
    let value = wait(x.host_read()).unwrap()[0];
    assert_eq!(value >> 32, value & 0xffff_ffff);
}

#[test]
fn invariant_14_memory_never_written_reads_as_zeros_and_never_as_anothers() {
    let rig = Rig::new();
    for queue in [&rig.queue, &rig.elsewhere()] {
        for _ in 0..50 {
            let old = Buffer::<u32>::new(1000);
            wait(put(queue, &old, 0xdead_beef)).unwrap();
            drop(old);
            let fresh = Buffer::<u32>::new(1000);
            let (event, seen) = look(queue, &fresh);
            wait(event).unwrap();
            assert_eq!(*seen.lock().unwrap(), [0; 1000]);
        }
    }
}

/// Drivers and their loaders that are in this process.
#[cfg(target_os = "linux")]
fn drivers_here() -> Vec<&'static str> {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let drivers = ["libOpenCL", "libpocl", "libvulkan", "libcuda", "libGL", "libEGL"];
    drivers.into_iter().filter(|library| maps.contains(library)).collect()
}

/// What the child process of the next test runs: alone, so that no other test loads anything.
#[cfg(target_os = "linux")]
#[test]
fn child_works_on_the_host() {
    if std::env::var_os("WINDLASS_TEST_CHILD").is_none() {
        return;
    }
    assert!(drivers_here().is_empty(), "linked: {:?}", drivers_here());
    let rig = Rig::new();
    wait(bump(&rig.queue, &Buffer::new(8))).unwrap();
    if cfg!(not(any(feature = "opencl", feature = "wgpu"))) {
        let _: Result<Vec<Device>> = wait(rig.runtime.devices());
    }
    assert!(drivers_here().is_empty(), "loaded: {:?}", drivers_here());
}

/// No build is linked against a driver, and one whose program works on the host loads none.
///
/// Seen to fail when the host's device was looked for among those of all backends.
#[cfg(target_os = "linux")]
#[test]
fn invariant_15_no_driver_is_linked_and_work_on_the_host_loads_none() {
    let mut child = Command::new(std::env::current_exe().unwrap());
    let child = child.args(["--exact", "child_works_on_the_host", "--test-threads=1", "--nocapture"]);
    let output = child.env("WINDLASS_TEST_CHILD", "1").output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.contains("1 passed"), "{said}");
}
