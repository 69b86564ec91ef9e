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
