//! Groups that change data at the same time, by `cg.concurrent`.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread::yield_now;

use windlass::image::{Kernel, KernelImage, Slot, SlotAccess};
use windlass::prelude::*;
use windlass::{KernelCall, MemoryKind, Result};
use windlass_host::Host;

/// A queue in a runtime of its own, whose lanes nobody else keeps busy: groups here wait for each other, which lanes do not promise to
/// groups that share one.
fn queue() -> Result<Queue> {
    let runtime = Runtime::builder().backend(Host::new().with_lanes(4)).build();
    Queue::blocking_on(runtime.host()?)
}

fn shared(queue: &Queue, len: usize) -> Result<Buffer<u32>> {
    queue.blocking_buffer_in::<u32, 1>(MemoryKind::Shared, len)
}

/// Adds one at a position once `go` is set.
fn add(queue: &Queue, v: &Buffer<u32>, at: usize, go: &Arc<AtomicBool>) -> Result<Event> {
    let go = go.clone();
    queue.submit(|cg| {
        let v = cg.concurrent(v);
        cg.host_for(1, v, move |_, v| {
            while !go.load(Ordering::Acquire) {
                yield_now();
            }
            v.fetch_add(at, 1);
        })
    })
}

/// Each of two waits for what the other writes, so they run at the same time; who reads comes behind both, and who comes next at the same
/// time as others comes behind that reader. Seen to fail, which is to hang, where the requirement was that of `cg.atomic`.
#[test]
fn row_86_concurrent_requirements_do_not_order() -> Result<()> {
    let queue = queue()?;
    let v = shared(&queue, 3)?;
    for (own, other) in [(0, 1), (1, 0)] {
        queue.submit(|cg| {
            let v = cg.concurrent(&v);
            cg.host_for(1, v, move |_, v| {
                v.fetch_add(own, 1);
                while v.fetch_add(other, 0) == 0 {
                    yield_now();
                }
            })
        })?;
    }
    let copy = Buffer::<u32>::new(3);
    queue.submit(|cg| cg.copy(&cg.read(&v), &cg.overwrite(&copy)))?;
    let go = Arc::new(AtomicBool::new(true));
    add(&queue, &v, 2, &go)?;
    assert_eq!(v.host_read().blocking_wait()?[..], [1, 1, 1]);
    assert_eq!(copy.host_read().blocking_wait()?[..], [1, 1, 0]);
    Ok(())
}

/// All the others are ordered as behind and before any writer.
#[test]
fn exclusive_requirements_wait_for_all_of_them() -> Result<()> {
    let queue = queue()?;
    let v = shared(&queue, 1)?;
    let go = Arc::new(AtomicBool::new(false));
    let mut each = Vec::new();
    for _ in 0..3 {
        each.push(add(&queue, &v, 0, &go)?);
    }
    let doubled = queue.submit(|cg| {
        let v = cg.read_write(&v);
        cg.host_for(1, v, |_, v| v.set(0, v.get(0) * 10))
    })?;
    each.push(add(&queue, &v, 0, &go)?);
    assert!(!doubled.has_ended() && each.iter().all(|event| !event.has_ended()));
    go.store(true, Ordering::Release);
    assert_eq!(v.host_read().blocking_wait()?[0], 31);
    assert!(each.iter().all(|event| event.status() == Status::Done));
    Ok(())
}

/// What one of them fails to write is nobody's data, though the others went well, until it is overwritten.
#[test]
fn one_that_fails_spoils_the_data_of_all() -> Result<()> {
    let queue = queue()?;
    let v = shared(&queue, 1)?;
    let go = Arc::new(AtomicBool::new(true));
    let well = add(&queue, &v, 0, &go)?;
    let bad = queue.submit(|cg| {
        let v = cg.concurrent(&v);
        cg.host_for(1, v, |_, _| panic!("this one fails"))
    })?;
    let reader = v.host_read().blocking_wait();
    assert!(reader.is_err_and(|error| error.is_panic() || error.is_dependency_failed()));
    assert!(well.blocking_wait().is_ok() && bad.blocking_wait().is_err());
    let late = add(&queue, &v, 0, &go)?;
    assert!(late.blocking_wait().is_err_and(|error| error.is_dependency_failed()));
    queue.submit(|cg| cg.fill(&cg.overwrite(&v), 5))?;
    add(&queue, &v, 0, &go)?;
    assert_eq!(v.host_read().blocking_wait()?[0], 6);
    Ok(())
}

/// Where nothing could be said of the outcome the submission is refused, in words that say what to do.
#[test]
fn what_cannot_be_used_at_once_is_refused() -> Result<()> {
    let queue = queue()?;
    let (v, anywhere, near) =
        (shared(&queue, 4)?, Buffer::<u32>::new(4), queue.blocking_buffer_in::<u32, 1>(MemoryKind::Host, 4)?);
    for (buffer, says) in [(&anywhere, "buffer_in"), (&near, "host memory")] {
        let refused = queue
            .submit(|cg| {
                cg.host_for(1, cg.concurrent(buffer), |_, v| {
                    v.fetch_add(0, 1);
                })
            })
            .unwrap_err();
        assert!(refused.is_unsupported() && refused.to_string().contains(says), "{refused}");
    }
    let refused = queue.submit(|cg| cg.fill(&cg.concurrent(&v), 1)).unwrap_err();
    assert!(refused.is_invalid_input(), "{refused}");
    let refused = queue.submit(|cg| cg.copy(&cg.concurrent(&v), &cg.overwrite(&anywhere))).unwrap_err();
    assert!(refused.is_invalid_input(), "{refused}");
    let refused = queue.submit(|cg| {
        cg.concurrent(&v);
        cg.host_task(async |_| Ok(()))
    });
    assert!(refused.unwrap_err().is_unsupported());
    let plain = Kernel::new(
        "plain",
        [Slot::Buffer(SlotAccess::ReadWrite)],
        [KernelImage::host(Arc::new(|_: windlass::image::Block<'_>| {}))],
    );
    let refused =
        queue.submit(|cg| cg.parallel_for(1, KernelCall::new(&plain).buffer(cg.concurrent(&v)))).unwrap_err();
    assert!(refused.is_invalid_input() && refused.to_string().contains("at the same time"), "{refused}");
    Ok(())
}

/// A call with the address of one of two elements, and that of the other.
fn meeting<'g>(kernel: &Kernel, start: u64, own: u64) -> KernelCall<'g> {
    KernelCall::new(kernel).value(start + own * 4).value(start + (1 - own) * 4)
}

/// Whoever uses memory by an address alone is ordered with nobody; who names it is. The first two wait for each other, and so would hang if
/// one of them came behind the other.
#[test]
fn row_85_an_address_alone_orders_nothing() -> Result<()> {
    let body = |block: windlass::image::Block<'_>| {
        let value = |at: usize| windlass::image::View::<u64>::new(block.spans()[at]).get(0) as usize;
        let [own, other] = [value(0), value(1)];
        // SAFETY: both are addresses of elements of a buffer that outlives the group, and all its users here are atomic.
        let at = |address| unsafe { &*std::ptr::with_exposed_provenance::<AtomicU32>(address) };
        at(own).fetch_add(1, Ordering::AcqRel);
        while at(other).load(Ordering::Acquire) == 0 {
            yield_now();
        }
    };
    let meet = Kernel::new("meet", [Slot::Value(8), Slot::Value(8)], [KernelImage::host(Arc::new(body))]);
    let queue = queue()?;
    let v = shared(&queue, 2)?;
    let start = v.device_address().expect("the host has addresses");
    let both = [
        queue.submit(|cg| cg.parallel_for(1, meeting(&meet, start, 0)))?,
        queue.submit(|cg| cg.parallel_for(1, meeting(&meet, start, 1)))?,
    ];
    both.into_iter().try_for_each(|event| event.blocking_wait())?;
    queue.submit(|cg| cg.parallel_for(1, meeting(&meet, start, 0).reaching(cg.read_write(&v))))?;
    queue.submit(|cg| cg.parallel_for(1, meeting(&meet, start, 1).reaching(cg.read_write(&v))))?;
    assert_eq!(v.host_read().blocking_wait()?[..], [2, 2]);
    Ok(())
}
