//! Buffers that stay in one memory, where things go wrong: contexts that are lost or given up, groups that never wrote, memory
//! that could not be pinned.

use windlass::prelude::*;
use windlass::{BackendError, MemoryKind};
use windlass_backend::HostAccess;
use windlass_faulty::{Faulty, Memory};

use crate::rig::{Outside, Rig, outcome, set};

/// A context that was given up stays open while the program reads memory of it: a driver that is told to end a context takes the
/// memory away. Seen to fail where what is leaked no longer counted.
#[test]
fn a_context_is_not_closed_under_a_guard() {
    let rig = Rig::new(Faulty::builder().reaches(MemoryKind::Shared, HostAccess::Coherent));
    let context = Context::blocking_open(&rig.devices()).unwrap();
    let queue = Queue::blocking_in_context(&context, &rig.devices()[0]).unwrap();
    let x = queue.blocking_buffer_in::<u32, 1>(MemoryKind::Shared, 8).unwrap();
    let guard = rig.finish(x.host_read()).unwrap();
    context.abandon();
    drop((queue, context, x));
    rig.settle();
    assert_eq!(rig.control.audit().contexts, 1, "the guard reads its memory");
    assert_eq!(guard[..], [0; 8]);
    drop(guard);
    rig.settle();
    assert_eq!(rig.control.audit().contexts, 0);
}

/// Who wants a buffer whose context is gone is told so, and nothing is allocated for it. Seen to fail where the engine asked for
/// memory for nodes that were doomed by that loss.
#[test]
fn a_lost_context_allocates_nothing() {
    for gives_up in [false, true] {
        for bytes in [0, 8] {
            let rig = Rig::new(Faulty::builder().device(Memory::Heap));
            let context = Context::blocking_open(&rig.devices()).unwrap();
            let queue = Queue::blocking_in_context(&context, &rig.devices()[0]).unwrap();
            let x = queue.blocking_buffer_in::<u32, 1>(MemoryKind::Host, bytes).unwrap();
            match gives_up {
                true => context.abandon(),
                false => rig.control.tell_loss(0, "gone"),
            }
            rig.settle();
            let before = rig.control.audit().allocates;
            for _ in 0..3 {
                let _ = rig.finish(x.host_read()).map(drop);
            }
            assert_eq!(rig.control.audit().allocates, before);
            drop((queue, context, x));
            rig.settle();
            assert_eq!(rig.control.breaches(), Vec::<String>::new());
        }
    }
}

/// What a host task overwrites, and what a group that failed never wrote, shows nothing of what the memory held before it was the
/// buffer's. Seen to fail, in coherent memory and in mapped memory, where it was not cleared when it was made.
#[test]
fn nothing_of_others_is_shown_where_nobody_wrote() {
    for host in [HostAccess::Coherent, HostAccess::Mapped] {
        let rig = Rig::new(Faulty::builder().reaches(MemoryKind::Shared, host));
        let queue = rig.queue(0);
        let x = queue.blocking_buffer_in::<u32, 1>(MemoryKind::Shared, 8).unwrap();
        let task = queue.submit(|cg| {
            let mut x = cg.overwrite(&x);
            cg.host_task(async move |host| {
                assert_eq!(host.view_mut(&mut x)?[..], [0; 8]);
                Ok(())
            })
        });
        rig.settle();
        assert!(outcome(&task.unwrap()).is_ok(), "{host:?}");

        let y = queue.blocking_buffer_in::<u32, 1>(MemoryKind::Shared, 8).unwrap();
        let gate = Outside::default();
        let never = queue.submit(|cg| {
            cg.after(gate.future());
            cg.fill(&cg.overwrite(&y.range(..4)), 5)
        });
        gate.resolve(Err("no"));
        rig.settle();
        assert!(outcome(&never.unwrap()).is_err() && y.poison().is_some());
        // From here on the host has the memory, where it is mapped.
        drop(rig.finish(y.range(4..).host_read()).unwrap());
        let guard = rig.finish(y.range(..4).host_overwrite()).unwrap();
        assert_eq!(guard[..], [0; 4], "{host:?}");
        drop(guard);
        drop((queue, x, y, gate));
        rig.end();
    }
}

/// A buffer that nobody can use any more says why. Seen to fail where only what should have been written was looked at.
#[test]
fn a_buffer_of_no_use_says_so() {
    let rig = Rig::new(Faulty::builder().reaches(MemoryKind::Shared, HostAccess::Mapped));
    let queue = rig.queue(0);
    let x = queue.blocking_buffer_in::<u32, 1>(MemoryKind::Shared, 8).unwrap();
    let y = queue.blocking_buffer_in::<u32, 1>(MemoryKind::Shared, 8).unwrap();
    drop(set(&queue, &x, 1));
    rig.settle();
    assert!(x.poison().is_none());
    rig.control.fail(0, BackendError::Unsupported("to map it".into()));
    assert!(rig.finish(x.host_read()).is_err());
    assert!(x.poison().unwrap().to_string().contains("to map it"));
    assert!(y.poison().is_none());
    rig.control.lose_devices("gone");
    drop(queue.submit(|cg| cg.fill(&cg.overwrite(&y), 5)));
    rig.settle();
    assert!(y.poison().unwrap().is_device_lost());
}

/// Where the driver pins nothing, the host's copy is ordinary memory, and copies to and from it go the way that such copies go.
/// Seen to fail where it counted as pinned from then on: each upload was handed to the driver as it was, and would have blocked.
#[test]
fn what_could_not_be_pinned_goes_by_staging() {
    let rig = Rig::new(Faulty::builder().slow_pageable_copies());
    let queue = rig.queue(0);
    let x = Buffer::<u32>::new(4096);
    drop(set(&queue, &x, 1));
    rig.settle();
    rig.control.no_staging(true);
    let guard = rig.finish(x.host_read()).unwrap();
    assert_eq!(guard[2], 15);
    drop(guard);
    rig.control.no_staging(false);
    rig.finish(x.host_write()).unwrap()[2] = 7;
    let (before, staged) = (rig.control.audit().foreign_copies, rig.runtime.stats().staged_transfers);
    let up = queue.submit(|cg| cg.fill(&cg.write(&x.range(..1)), 3)).unwrap();
    rig.settle();
    assert!(outcome(&up).is_ok());
    assert_eq!(rig.control.audit().foreign_copies, before);
    assert_eq!(rig.runtime.stats().staged_transfers, staged + 1);
    assert_eq!(rig.values(&x)[..3], [3, 8, 7]);
    drop((queue, x, up));
    rig.end();
}
