//! Decisions 9, 10 and 11: what is refused before it is planned, groups of several commands, overlapping accessors.

#[path = "common/rig.rs"]
mod rig;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use rig::{Hold, Rig, bump, contents, look, wait};
use windlass::image::{Kernel, KernelImage, Slot, SlotAccess};
use windlass::prelude::*;
use windlass::{Error, KernelCall, Result};

/// A kernel without work that takes one buffer.
fn touches() -> Kernel {
    let image = KernelImage::host(Arc::new(|_: windlass::image::Block<'_>| {}));
    Kernel::new("touches", [Slot::Buffer(SlotAccess::ReadWrite)], [image])
}

#[test]
fn d09_what_is_refused_in_prepare_leaves_nothing() {
    let rig = Rig::new();
    let x = Buffer::from(vec![1_u32; 8]);
    let refusals: [fn(&CommandGroup<'_>, &Buffer<u32>) -> Result<()>; 6] = [
        |cg, x| {
            cg.read(&x.range(4..9));
            Ok(())
        },
        |cg, x| cg.parallel_for(1, KernelCall::new(&touches()).buffer(cg.read(x))),
        |cg, _| cg.parallel_for(1, KernelCall::new(&touches())),
        |cg, x| cg.host_chunks(3, cg.read_write(x), |_, _| {}),
        |cg, x| cg.fill(&cg.read(x), 1),
        |_, _| Err(Error::other("the user's own")),
    ];
    for (i, refusal) in refusals.into_iter().enumerate() {
        let before = rig.stats();
        let result = rig.queue.submit(|cg| {
            let _also = cg.read_write(&x);
            refusal(cg, &x)
        });
        let error = result.expect_err(&format!("refusal {i}"));
        let after = rig.stats();
        assert_eq!((after.submitted, after.live_nodes), (before.submitted, 0), "refusal {i}: {error}");
    }
    assert_eq!(contents(&x), [1; 8]);
    assert_eq!(rig.queue.in_flight(), 0);
}

#[test]
fn d09_a_kernel_is_built_once_for_all_who_ask() {
    let rig = Rig::new();
    let x = Buffer::from(vec![1_u32; 8]);
    let kernel = touches();
    let group =
        |cg: &CommandGroup<'_>| cg.parallel_for(1, KernelCall::new(&kernel).buffer(cg.read_write(&x)));
    let events: Vec<Event> = (0..100).map(|_| rig.queue.submit(group).unwrap()).collect();
    wait(Event::all(events)).unwrap();
    wait(rig.queue.submit(group).unwrap()).unwrap();
    assert_eq!(rig.stats().builds, 1);
    wait(rig.elsewhere().submit(group).unwrap()).unwrap();
    assert_eq!(rig.stats().builds, 2, "another context builds its own");
}

#[test]
fn d10_several_commands_run_in_order() {
    let rig = Rig::new();
    let x = Buffer::from(vec![1_u32; 100]);
    let y = Buffer::<u32>::new(100);
    let event = rig.queue.submit(|cg| {
        cg.host_for(100, cg.read_write(&x), |item, x| x.set(item.id(0), item.id(0) as u32))?;
        let (from, to) = (cg.read_write(&x), cg.read_write(&y));
        cg.copy(&from, &to)?;
        cg.fill(&from, 7)?;
        cg.host_for(100, (from, to), |item, (x, y)| y.set(item.id(0), y.get(item.id(0)) + x.get(item.id(0))))
    });
    wait(event.unwrap()).unwrap();
    assert_eq!(contents(&x), [7; 100]);
    assert!(contents(&y).iter().zip(7..).all(|(&v, i)| v == i));
}

#[test]
fn d10_after_a_failed_command_the_later_ones_do_not_run() {
    let rig = Rig::new();
    let ran = Arc::new(AtomicUsize::new(0));
    let later = ran.clone();
    let event = rig.queue.submit(|cg| {
        cg.host_for(1, (), |_, ()| panic!("the first"))?;
        cg.host_for(1, (), move |_, ()| {
            later.fetch_add(1, Ordering::SeqCst);
        })
    });
    assert!(wait(event.unwrap()).unwrap_err().is_panic());
    assert_eq!(ran.load(Ordering::SeqCst), 0);
}

/// Seen to fail when a lane's point had passed with the first command.
#[test]
fn d10_a_group_ends_with_its_last_command_and_keeps_its_resources_until_then() {
    let rig = Rig::with_lanes(1);
    let (x, seen) = (Buffer::<u32>::new(2), Arc::new(AtomicUsize::new(0)));
    let (hold, sees) = (Hold::new(), seen.clone());
    let inside = hold.clone();
    let event = rig.queue.submit(|cg| {
        cg.host_for(1, cg.read_write(&x), |_, x| x.set(1, 5))?;
        cg.host_for(1, cg.read(&x), move |_, x| {
            inside.here();
            sees.store(x.get(1) as usize, Ordering::SeqCst);
        })
    });
    drop(x);
    let mut event = event.unwrap();
    hold.wait_until_entered();
    assert!(rig::poll_once(&mut event).is_pending());
    assert_eq!(rig.stats().live_buffers, 1);
    hold.let_go();
    wait(event).unwrap();
    assert_eq!(seen.load(Ordering::SeqCst), 5, "what the first command wrote");
    rig::until("the buffer goes with the group", || rig.stats().live_buffers == 0);
}

#[test]
fn d10_a_host_task_is_the_only_command_of_its_group() {
    let rig = Rig::new();
    let before = rig.queue.submit(|cg| {
        cg.host_for(1, (), |_, ()| {})?;
        cg.host_task(async |_| Ok(()))
    });
    let after = rig.queue.submit(|cg| {
        cg.host_task(async |_| Ok(()))?;
        cg.host_for(1, (), |_, ()| {})
    });
    assert!(before.unwrap_err().is_invalid_input() && after.unwrap_err().is_invalid_input());
}

#[test]
fn d10_a_group_without_commands_is_a_barrier_over_its_requirements() {
    let rig = Rig::new();
    let (x, y) = (Buffer::from(vec![1_u32; 8]), Buffer::from(vec![1_u32; 8]));
    let hold = Hold::new();
    let inside = hold.clone();
    let writer = rig.queue.submit(|cg| {
        let x = cg.read_write(&x);
        cg.host_for(1, x, move |_, _| inside.here())
    });
    let barrier = rig.queue.submit(|cg| {
        cg.read_write(&x);
        cg.read_write(&y);
        Ok(())
    });
    let (barrier, behind) = (barrier.unwrap(), bump(&rig.queue, &y));
    hold.wait_until_entered();
    assert!(!barrier.has_ended() && !behind.has_ended());
    hold.let_go();
    wait(Event::all([writer.unwrap(), barrier, behind])).unwrap();
    assert_eq!(contents(&y), [2; 8]);
}

#[test]
#[allow(clippy::needless_borrows_for_generic_args, reason = "a group is submitted by reference, too")]
fn d10_a_group_is_a_value() {
    let rig = Rig::new();
    let x = Buffer::from(vec![1_u32; 8]);
    let group = |cg: &CommandGroup<'_>| {
        let x = cg.read_write(&x);
        cg.host_for(8, x, |item, x| x.set(item.id(0), x.get(item.id(0)) + 1))
    };
    let elsewhere = rig.elsewhere();
    for queue in [&rig.queue, &elsewhere, &rig.queue] {
        let _ = queue.submit(group).unwrap();
        let _ = queue.submit(&group).unwrap();
    }
    assert_eq!(contents(&x), [7; 8]);
}

#[test]
fn d11_overlapping_accessors_are_legal_and_take_the_atomic_path() {
    let rig = Rig::new();
    let x = Buffer::from((0..100).collect::<Vec<u32>>());
    let event = rig.queue.submit(|cg| {
        let args = (cg.read(&x.range(..60)), cg.read_write(&x.range(40..)), cg.overwrite(&x.range(50..70)));
        cg.host_for(1, args, |_, (a, b, c)| {
            b.set(0, a.get(59) + 1000);
            c.set(0, a.get(40));
        })
    });
    wait(event.unwrap()).unwrap();
    let x = contents(&x);
    assert_eq!((x[40], x[50]), (1059, 1059), "the views are of one memory");
    assert_eq!(
        (x[39], x[41], x[70], x[99]),
        (39, 41, 70, 99),
        "the union of the modes kept what it touched not"
    );
}

#[test]
fn d11_the_union_of_modes_counts_for_order_and_data() {
    let rig = Rig::new();
    let elsewhere = rig.elsewhere();
    let x = Buffer::from(vec![1_u32; 20]);
    // A write that wants nothing, and a read of the same bytes: together a read-write, so they are fetched.
    let event = elsewhere.submit(|cg| {
        let args = (cg.overwrite(&x.range(..10)), cg.read(&x.range(5..15)));
        cg.host_for(1, args, |_, (w, r)| w.set(0, r.get(0) + r.get(9)))
    });
    wait(event.unwrap()).unwrap();
    // Elements 0..5 were wanted by nobody: what they hold now is not said.
    let x = contents(&x);
    assert_eq!((x[0], &x[5..]), (2, &[1; 15][..]));
}

#[test]
fn d11_several_readers_in_one_group_go_along_with_other_readers() {
    let rig = Rig::new();
    let x = Buffer::from(vec![1_u32; 8]);
    wait(bump(&rig.queue, &x)).unwrap();
    let guard = wait(x.host_read()).unwrap();
    let event = rig.queue.submit(|cg| {
        let args = (cg.read(&x), cg.read(&x.range(2..)));
        cg.host_for(1, args, |_, (a, b)| assert_eq!(a.get(2), b.get(0)))
    });
    wait(event.unwrap()).unwrap();
    drop(guard);
}

#[test]
fn d11_host_views_are_checked_when_they_are_borrowed() {
    let rig = Rig::new();
    let x = Buffer::from(vec![1_u32; 10]);
    let event = rig.queue.submit(|cg| {
        let (mut a, mut b) = (cg.read_write(&x.range(..6)), cg.read_write(&x.range(4..)));
        cg.host_task(async move |host| {
            {
                let mut low = host.view_mut(&mut a)?;
                low[5] = 5;
                assert!(host.view_mut(&mut b).unwrap_err().is_aliased());
                assert!(host.view(&b).unwrap_err().is_aliased());
            }
            {
                let (low, high) = (host.view(&a)?, host.view(&b)?);
                assert_eq!((low[5], high[1]), (5, 5), "two that read are no problem");
            }
            let mut high = host.view_mut(&mut b)?;
            high[1] = 6;
            assert!(host.view(&a).unwrap_err().is_aliased());
            drop(high);
            assert_eq!(host.view(&a)?[5], 6);
            Ok(())
        })
    });
    wait(event.unwrap()).unwrap();
}

#[test]
fn d11_a_host_view_that_clashes_makes_the_task_fail_if_it_says_so() {
    let rig = Rig::new();
    let x = Buffer::from(vec![1_u32; 10]);
    let event = rig.queue.submit(|cg| {
        let (mut a, b) = (cg.read_write(&x), cg.read(&x));
        cg.host_task(async move |host| {
            let _one = host.view_mut(&mut a)?;
            let _other = host.view(&b)?;
            Ok(())
        })
    });
    let error = wait(event.unwrap()).unwrap_err();
    let source = std::error::Error::source(&error).and_then(|e| e.downcast_ref::<Error>());
    assert!(source.is_some_and(Error::is_aliased), "{error:?}");
}

#[test]
fn d11_a_view_that_is_forgotten_stays_out() {
    let rig = Rig::new();
    let x = Buffer::from(vec![1_u32; 10]);
    let event = rig.queue.submit(|cg| {
        let mut a = cg.read_write(&x);
        cg.host_task(async move |host| {
            std::mem::forget(host.view(&a)?);
            assert!(host.view(&a).is_ok());
            assert!(host.view_mut(&mut a).unwrap_err().is_aliased());
            Ok(())
        })
    });
    wait(event.unwrap()).unwrap();
}

#[test]
fn d11_host_chunks_refuses_what_would_alias() {
    let rig = Rig::new();
    let x = Buffer::from(vec![1_u32; 100]);
    let refused = |group: &dyn Fn(&CommandGroup<'_>) -> Result<()>| {
        let error = rig.queue.submit(|cg| group(cg)).unwrap_err();
        assert!(error.is_aliased(), "{error}");
    };
    refused(&|cg| cg.host_chunks(1, (cg.read_write(&x), cg.read(&x)), |_, _| {}));
    refused(&|cg| {
        let args = (cg.overwrite(&x.range(..50)), cg.overwrite(&x.range(49..99)));
        cg.host_chunks(1, args, |_, _| {})
    });
    let disjoint = rig.queue.submit(|cg| {
        let args = (cg.read(&x.range(..50)), cg.read(&x.range(10..60)), cg.read_write(&x.range(60..)));
        cg.host_chunks(1, args, |_, (a, b, c)| c.fill(a[10] + b[0]))
    });
    wait(disjoint.unwrap()).unwrap();
    assert_eq!(contents(&x)[59..61], [1, 2]);
    assert_eq!(rig.queue.in_flight(), 0);
}

#[test]
fn d11_a_copy_within_a_buffer_must_not_overlap() {
    let rig = Rig::new();
    let x = Buffer::from((0..10).collect::<Vec<u32>>());
    let copy = |from: std::ops::Range<usize>, to: std::ops::Range<usize>| {
        rig.queue.submit(|cg| cg.copy(&cg.read(&x.range(from)), &cg.overwrite(&x.range(to))))
    };
    assert!(copy(0..4, 3..7).unwrap_err().is_invalid_input());
    wait(copy(0..4, 4..8).unwrap()).unwrap();
    assert_eq!(contents(&x), [0, 1, 2, 3, 0, 1, 2, 3, 8, 9]);
}

#[test]
fn d11_one_group_reads_what_the_other_half_writes() {
    let rig = Rig::new();
    let x = Buffer::from(vec![1_u32; 100]);
    for _ in 0..100 {
        let _ = rig.queue.submit(|cg| {
            let args = (cg.read(&x.range(..50)), cg.overwrite(&x.range(50..)));
            cg.host_chunks(1, args, |chunk, (from, to)| to.copy_from_slice(&from[chunk.range()]))
        });
        let _ = bump(&rig.queue, &x.range(..50));
    }
    let (event, seen) = look(&rig.queue, &x);
    wait(event).unwrap();
    let seen = seen.lock().unwrap();
    assert_eq!((seen[0], seen[99]), (101, 100));
}
