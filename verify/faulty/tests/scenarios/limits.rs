//! What exceeds a limit of a device is refused in the call, and what is at the limit runs.

use windlass::image::{Block, Kernel, KernelImage, Slot, SlotAccess};
use windlass::prelude::*;
use windlass::{Error, KernelCall, NdRange, Result};
use windlass_backend::{KernelLimits, Limits};
use windlass_faulty::Faulty;

use crate::rig::{Rig, error, outcome, set};

/// A kernel of so many buffers and one piece of local memory that does nothing.
fn idle(buffers: usize) -> Kernel {
    let slots = std::iter::repeat_n(Slot::Buffer(SlotAccess::ReadWrite), buffers);
    let slots: Vec<Slot> = slots.chain([Slot::Local(4)]).collect();
    Kernel::new("idle", slots, [KernelImage::host(std::sync::Arc::new(|_: Block<'_>| {}))])
}

struct Call {
    parts: Vec<Buffer<u32>>,
    local: usize,
    items: usize,
}

impl Call {
    fn new(parts: impl IntoIterator<Item = Buffer<u32>>) -> Self {
        Call { parts: parts.into_iter().collect(), local: 1, items: 1 }
    }

    fn submit(&self, queue: &Queue, kernel: &Kernel) -> Result<Event> {
        queue.submit(|cg| {
            let call = KernelCall::new(kernel);
            let call = self.parts.iter().fold(call, |call, part| call.buffer(cg.overwrite(part)));
            let range = NdRange { global: [self.items], local: [self.items] };
            cg.parallel_for(range, call.local::<u32>(self.local))
        })
    }
}

#[track_caller]
fn assert_refused(refused: Result<Event>, words: &[&str]) {
    let text = refused.expect_err("it exceeds a limit").to_string();
    assert!(words.iter().all(|word| text.contains(word)), "{text}");
}

/// All six of a device's limits.
#[test]
fn limits_of_devices_are_known_in_the_call() {
    let limits = Limits::default().allocation(400).binding(80, 8).bindings(2).work_group(8, 64);
    let rig = Rig::new(Faulty::builder().lanes(1).limits(limits));
    let queue = rig.queue(0);
    let (one, two, three) = (idle(1), idle(2), idle(3));
    let whole = Buffer::<u32>::new(100);
    let part = |from: usize, to: usize| whole.range(from..to);
    let too_large = Buffer::<u32>::new(101);

    let refused = Call::new([too_large.range(0..4)]).submit(&queue, &one);
    assert_refused(refused, &["404 bytes", "faulty 0", "400"]);
    let refused = queue.submit(|cg| cg.fill(&cg.overwrite(&too_large), 0));
    assert_refused(refused, &["404 bytes", "several buffers"]);
    assert_refused(
        Call::new([part(0, 21)]).submit(&queue, &one),
        &["argument 0", "`idle`", "84 bytes", "80"],
    );
    assert_refused(
        Call::new([part(3, 4)]).submit(&queue, &one),
        &["argument 0", "byte 12", "multiples of 8"],
    );
    let three_parts = [part(0, 2), part(4, 6), part(8, 10)];
    assert_refused(Call::new(three_parts).submit(&queue, &three), &["3 buffer arguments", "takes 2"]);
    let items = Call { items: 9, ..Call::new([part(0, 1)]) };
    assert_refused(items.submit(&queue, &one), &["[9]", "9 items", "takes 8"]);
    let local = Call { local: 17, ..Call::new([part(0, 1)]) };
    assert_refused(local.submit(&queue, &one), &["68 bytes of local memory", "has 64"]);

    let most = Call { local: 16, items: 8, ..Call::new([part(0, 20), part(20, 40)]) };
    let event = most.submit(&queue, &two).unwrap();
    rig.settle();
    assert!(outcome(&event).is_ok());
    // The host works on what no device takes in one piece.
    let task = queue.submit(|cg| {
        let mut x = cg.read_write(&too_large);
        cg.host_task(async move |host| {
            host.view_mut(&mut x)?[100] = 7;
            Ok(())
        })
    });
    assert!(rig.finish(task.unwrap()).is_ok());
    drop((queue, whole, too_large, event, most, items, local));
    rig.end();
}

/// A kernel may take less than its device: known in the call once it has been built, and before that told by the event.
#[test]
fn limits_of_kernels_are_known_when_they_are_built() {
    let rig = Rig::new(Faulty::builder().lanes(1));
    let queue = rig.queue(0);
    rig.control.kernel_limits(KernelLimits::new(4, 32));
    let kernel = idle(1);
    let x = Buffer::<u32>::new(8);
    let call = |items, local| Call { items, local, ..Call::new([x.clone()]) };
    let early: Vec<Error> = [(5, 1), (1, 9)]
        .map(|(items, local)| call(items, local).submit(&queue, &kernel).unwrap())
        .map(|event| (rig.settle(), error(&event)).1)
        .into();
    assert!(early[0].to_string().contains("5 items"), "{}", early[0]);
    // By now it has been built.
    assert_refused(call(5, 1).submit(&queue, &kernel), &["`idle`", "5 items", "takes 4"]);
    assert_refused(call(1, 9).submit(&queue, &kernel), &["36 bytes of local memory", "has 32"]);
    let again = set(&queue, &x, 1);
    let most = call(4, 8).submit(&queue, &kernel).unwrap();
    rig.settle();
    assert_eq!([outcome(&again), outcome(&most)].map(|o| o.map_err(|e| e.to_string())), [Ok(()), Ok(())]);
    drop((queue, x, again, most, early));
    rig.end();
}

/// How a group is refused that is larger than its device.
#[track_caller]
fn assert_too_large(refused: Result<Event>, (needs, has): (u64, u64), words: &[&str]) {
    let error = refused.expect_err("it never fits");
    assert!(error.is_too_large() && error.is_invalid_input() && !error.is_out_of_memory(), "{error}");
    let excess = error.too_large().unwrap();
    assert_eq!((excess.needs, excess.has), (needs, has), "{error}");
    assert!(words.iter().all(|word| error.to_string().contains(word)), "{error}");
}

fn copy(queue: &Queue, from: &Buffer<u32>, to: &Buffer<u32>) -> Result<Event> {
    queue.submit(|cg| cg.copy(&cg.read(from), &cg.overwrite(to)))
}

/// Each buffer fits, and all of a group do not: said by `submit`, with both numbers, and not later by
/// the event.
#[test]
fn a_group_larger_than_its_device_is_refused_in_the_call() {
    let rigs = [
        (Rig::new(Faulty::builder().lanes(1).memory_bytes(1000)), "has 1000: use smaller"),
        (Rig::with(Faulty::builder().lanes(1), |runtime| runtime.device_memory(1000)), "device_memory"),
        (Rig::with(Faulty::builder().lanes(1).memory_bytes(1000), |r| r.device_memory(5000)), "has 1000"),
    ];
    for (rig, words) in rigs {
        let queue = rig.queue(0);
        let [a, b] = [(); 2].map(|()| Buffer::<u32>::new(125));
        let (c, huge) = (Buffer::<u32>::new(1), Buffer::<u32>::new(251));
        // Twice the same buffer, by parts of it, is that buffer.
        let fits = queue.submit(|cg| {
            cg.copy(&cg.read(&a), &cg.overwrite(&b))?;
            cg.fill(&cg.overwrite(&a.range(..4)), 1)
        });
        rig.settle();
        assert!(outcome(&fits.unwrap()).is_ok());
        let refused = queue.submit(|cg| {
            cg.copy(&cg.read(&a), &cg.overwrite(&b))?;
            cg.fill(&cg.overwrite(&c), 1)
        });
        assert_too_large(refused, (1004, 1000), &["3 buffers", "1004 bytes together", words]);
        assert_too_large(
            queue.submit(|cg| cg.fill(&cg.overwrite(&huge), 0)),
            (1004, 1000),
            &["a buffer of 1004", words],
        );
        // It takes no memory where nothing of it is used.
        let nothing = queue.submit(|cg| {
            cg.read(&huge.range(..0));
            cg.read(&huge.range(3..3));
            cg.fill(&cg.overwrite(&a), 2)
        });
        rig.settle();
        assert!(outcome(&nothing.unwrap()).is_ok());
        // Host tasks work in the host's memory.
        let task = queue.submit(|cg| {
            let _all = (cg.read_write(&a), cg.read_write(&b), cg.read_write(&huge));
            cg.host_task(async |_| Ok(()))
        });
        assert!(rig.finish(task.unwrap()).is_ok());
        drop((queue, a, b, c, huge));
        rig.end();
    }
}

/// Another queue may have the room, and what stays elsewhere takes none.
#[test]
fn what_stays_elsewhere_takes_no_room_on_the_device() {
    let builder = Faulty::builder().lanes(1).memory_bytes(1000).aspect(Aspect::Pointers);
    let rig = Rig::new(builder.reaches(windlass::MemoryKind::Host, windlass_backend::HostAccess::Coherent));
    let queue = rig.queue(0);
    let near = queue.blocking_buffer_in::<u32, 1>(windlass::MemoryKind::Host, 200).unwrap();
    let own = queue.blocking_buffer_in::<u32, 1>(windlass::MemoryKind::Device, 200).unwrap();
    let (x, y) = (Buffer::<u32>::new(200), Buffer::<u32>::new(200));
    let event = copy(&queue, &near, &x).unwrap();
    rig.settle();
    assert!(outcome(&event).is_ok());
    assert_too_large(copy(&queue, &own, &x), (1600, 1000), &["2 buffers"]);
    assert_too_large(copy(&queue, &y, &x), (1600, 1000), &["2 buffers"]);
    let refused = queue.submit_or(&queue, |cg| cg.copy(&cg.read(&own), &cg.overwrite(&x))).unwrap_err();
    assert!(refused.refusals().unwrap().iter().all(|error| error.is_too_large()), "{refused}");
    let refused = queue.blocking_buffer_in::<u32, 1>(windlass::MemoryKind::Device, 251).unwrap_err();
    assert_eq!(refused.too_large().map(|of| (of.needs, of.has)), Some((1004, 1000)), "{refused}");
    drop((queue, near, own, x, y, event));
    rig.end();
}
