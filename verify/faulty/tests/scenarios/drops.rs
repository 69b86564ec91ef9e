//! Invariant 8: dropping anything at any moment leaks nothing, frees nothing in use, and blocks nobody.

use std::pin::Pin;
use std::task::Context as TaskContext;

use windlass::prelude::*;
use windlass_faulty::{Faulty, FaultyBuilder, Memory, inside_poll};

use crate::rig::{Outside, Rig, assert_clean, blend, poll, set, single, step, stepped};

/// Everything that a program holds.
#[derive(Default)]
struct Holdings {
    queues: Vec<Queue>,
    buffers: Vec<Buffer<u32>>,
    events: Vec<Event>,
    reads: Vec<Pin<Box<dyn Future<Output = ()>>>>,
}

/// A small program, one thing after the other; what its moments are is up to `moment`.
fn program(rig: &Rig, devices: usize, gate: &Outside, mut moment: impl FnMut(&mut Holdings) -> bool) {
    let mut all = Holdings::default();
    for device in 0..devices {
        all.queues.push(rig.queue(device));
    }
    let last = devices - 1;
    for i in 0..3 {
        all.buffers.push(Buffer::from(vec![i; 8]));
    }
    type Step = fn(&Holdings, usize, &Outside) -> Option<Event>;
    let steps: [Step; 9] = [
        |h, _, _| Some(step(&h.queues[0], &h.buffers[0], 1)),
        |h, last, _| Some(step(&h.queues[last], &h.buffers[0], 2)),
        |h, last, _| Some(blend(&h.queues[last], &h.buffers[1], &h.buffers[0], 3)),
        |h, _, gate| {
            let gated = h.queues[0].submit(|cg| {
                cg.after(gate.future());
                cg.fill(&cg.overwrite(&h.buffers[2]), 5)
            });
            Some(gated.unwrap())
        },
        |h, last, _| Some(blend(&h.queues[last], &h.buffers[1], &h.buffers[2], 3)),
        |h, _, _| {
            let task = h.queues[0].submit(|cg| {
                let mut x = cg.read_write(&h.buffers[0]);
                cg.host_task(async move |host| {
                    host.view_mut(&mut x)?[0] = 7;
                    Ok(())
                })
            });
            Some(task.unwrap())
        },
        |h, _, _| Some(set(&h.queues[0], &h.buffers[1], 3)),
        |h, _, _| Some(step(&h.queues[0], &h.buffers[0], 4)),
        |_, _, _| None,
    ];
    for next in steps {
        let event = next(&all, last, gate);
        all.events.extend(event);
        if all.events.len() == 6 {
            for buffer in &all.buffers[..2] {
                let read = buffer.host_read();
                let mut read: Pin<Box<dyn Future<Output = ()>>> = Box::pin(async move {
                    drop(read.await);
                });
                let _ = poll(read.as_mut());
                all.reads.push(read);
            }
        }
        for event in &mut all.events {
            let _ = Pin::new(event).poll(&mut TaskContext::from_waker(std::task::Waker::noop()));
        }
        if !moment(&mut all) {
            return;
        }
    }
}

fn builders() -> Vec<(FaultyBuilder, usize)> {
    let two = || Faulty::builder().device(Memory::Own).device(Memory::Own).lanes(2).depth(2);
    vec![
        (Faulty::builder().lanes(1).depth(1), 1),
        (two(), 2),
        (two().slow_allocate().reports_by_callback(), 2),
        (Faulty::builder().device(Memory::Heap).device(Memory::Own).lanes(2), 2),
        (Faulty::builder().like_cuda(), 2),
    ]
}

/// After every prefix of a program's submissions, with every number of device steps taken meanwhile, the program lets
/// go of everything it has, in an order that changes.
#[test]
fn dropping_everything_at_every_moment() {
    let mut moments = 0;
    for kind in 0..builders().len() {
        for prefix in 0..9 {
            for pace in 0..5 {
                let (builder, devices) = builders().swap_remove(kind);
                let rig = Rig::new(builder);
                let gate = Outside::default();
                let mut left = prefix;
                program(&rig, devices, &gate, |all| {
                    for _ in 0..pace {
                        rig.control.step();
                        rig.runtime.run_until_stalled();
                    }
                    if left > 0 {
                        left -= 1;
                        return true;
                    }
                    let Holdings { queues, buffers, events, reads } = std::mem::take(all);
                    match (prefix + pace) % 4 {
                        0 => drop((queues, buffers, events, reads)),
                        1 => drop((reads, events, buffers, queues)),
                        2 => drop((buffers, reads, queues, events)),
                        _ => {
                            drop(events);
                            rig.settle();
                            drop((buffers, reads, queues));
                        }
                    }
                    false
                });
                moments += 1;
                rig.settle();
                gate.resolve(if pace % 2 == 0 { Ok(()) } else { Err("never mind") });
                drop(gate);
                rig.end();
            }
        }
    }
    assert_eq!(moments, 5 * 9 * 5);
}

/// The runtime's handle goes first, with work in flight: what is native ends without it, and then nothing is left.
#[test]
fn dropping_the_runtime_with_work_in_flight() {
    for steps in 0..8 {
        let Rig { control, runtime, .. } = {
            let rig = Rig::new(Faulty::builder().device(Memory::Heap).lanes(2).depth(2));
            let queue = rig.queue(0);
            let (x, y) = (Buffer::from(vec![1_u32; 8]), Buffer::from(vec![1_u32; 8]));
            drop((step(&queue, &x, 0), blend(&queue, &y, &x, 0)));
            rig.settle();
            for k in 0..6 {
                drop((step(&queue, &x, k), blend(&queue, &y, &x, k)));
            }
            rig
        };
        for _ in 0..steps {
            control.step();
        }
        drop(runtime);
        assert!(control.audit().in_flight > 0);
        control.run_all();
        assert_clean(&control);
    }
}

/// With threads of its own, a runtime nobody holds any more works off what was submitted, transfers and gates
/// included.
#[test]
fn a_runtime_with_threads_ends_by_itself() {
    let faulty = Faulty::builder().device(Memory::Own).device(Memory::Own).auto().build();
    let control = faulty.control();
    {
        let runtime = Runtime::builder().backend(faulty).only_given_backends().build();
        let devices = futures_lite::future::block_on(runtime.devices()).unwrap();
        let [a, b] = [0, 1]
            .map(|d| Queue::builder().runtime(&runtime).device(devices[d].clone()).blocking_build().unwrap());
        let x = Buffer::from(vec![1_u32; 64]);
        for k in 0..50 {
            drop((step(&a, &x, k), step(&b, &x, k)));
        }
    }
    let mut rounds = 0;
    while control.audit().live() > 0 {
        std::thread::sleep(std::time::Duration::from_millis(1));
        rounds += 1;
        assert!(rounds < 20_000, "{:?}", control.audit());
    }
    assert_eq!(control.breaches(), Vec::<String>::new());
}

/// Invariant 8: the last handle of a runtime makes no native call where it goes, though contexts and kernels go with it. Seen to
/// fail where the runtime let go of its contexts after the scheduler, and a queue of its device.
#[test]
fn the_end_of_a_runtime_makes_no_native_call() {
    let mut last_handles: [fn(Runtime, Queue); 2] =
        [|runtime, queue| drop((queue, runtime)), |runtime, queue| drop((runtime, queue))];
    for last in &mut last_handles {
        let faulty = Faulty::builder().device(Memory::Own).auto().build();
        let control = faulty.control();
        let runtime = Runtime::builder().backend(faulty).only_given_backends().build();
        let queue = Queue::builder().runtime(&runtime).blocking_build().unwrap();
        let x = Buffer::from(vec![1_u32; 64]);
        step(&queue, &x, 1).blocking_wait().unwrap();
        let values = futures_lite::future::block_on(x.into_vec()).unwrap();
        assert_eq!(values[0], stepped(1, [1]));
        assert!(control.audit().kernels > 0, "there is something to be dropped");
        while runtime.stats().live_nodes + runtime.stats().live_buffers > 0 {
            std::thread::yield_now();
        }
        inside_poll(|| last(runtime, queue));
        let mut rounds = 0;
        while control.audit().live() > 0 {
            std::thread::sleep(std::time::Duration::from_millis(1));
            rounds += 1;
            assert!(rounds < 20_000, "{:?}", control.audit());
        }
        assert_clean(&control);
    }
}

/// A transfer for an accessor that has gone is nobody's any more, but the lane is making it. The runtime, and with it the memory,
/// goes when it has ended. Seen to fail where only groups kept the runtime: memory was freed under the copy.
#[test]
fn a_transfer_that_nobody_waits_for_keeps_its_memory() {
    let rig = single();
    let queue = rig.queue(0);
    let x = Buffer::<u32>::new(8);
    drop(set(&queue, &x, 1));
    rig.settle();
    rig.control.hold(0, true);
    let mut guard = Box::pin(x.host_read());
    assert!(poll(guard.as_mut()).is_pending());
    rig.settle();
    assert_eq!(rig.control.audit().in_flight, 1, "the download");
    let control = rig.control.clone();
    drop((guard, queue, x, rig));
    assert_eq!(control.audit().in_flight, 1);
    control.hold(0, false);
    control.run_all();
    assert_clean(&control);
}
