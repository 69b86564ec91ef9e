//! Commands that are recorded once and submitted often, on devices that take sequences and on such that do not.

use std::task::Poll;

use windlass::prelude::*;
use windlass::{Error, KernelCall, Recording};
use windlass_faulty::{Faulty, FaultyBuilder, Memory};

use crate::rig::{BLEND, Rig, STEP, call, error, native, outcome, poll, set, stepped};

fn device(sequences: bool) -> FaultyBuilder {
    let builder = Faulty::builder().lanes(2);
    if sequences { builder.aspect(Aspect::Sequences) } else { builder }
}

/// `x` and `y` step by themselves, then `x` takes in `y`: the first two do not need each other.
fn diamond(queue: &Queue, x: &Buffer<u32>, y: &Buffer<u32>) -> Recording {
    let describe = |cg: &CommandGroup<'_>| {
        call(cg, &STEP, x, 1)?;
        call(cg, &STEP, y, 2)?;
        let blend = KernelCall::new(&BLEND).buffer(cg.read_write(x)).buffer(cg.read(y)).value(3_u32);
        cg.parallel_for(x.len(), blend)
    };
    queue.record(describe).unwrap()
}

/// What a diamond makes of two values.
fn diamonds(x: u32, y: u32) -> (u32, u32) {
    let (x, y) = (stepped(x, [1]), stepped(y, [2]));
    (x.wrapping_mul(31).wrapping_add(y).wrapping_add(3), y)
}

/// Replayed or said each time, the result is the same. Where the device takes sequences a recording is recorded once, and is
/// one command in the lane.
#[test]
fn a_recording_does_what_its_commands_do() {
    for sequences in [false, true] {
        let rig = Rig::new(device(sequences));
        let queue = rig.queue(0);
        let (x, y) = (Buffer::from(vec![5_u32; 16]), Buffer::from(vec![6_u32; 16]));
        let recording = diamond(&queue, &x, &y);
        assert_eq!(recording.len(), 3);
        let mut should = (5, 6);
        for _ in 0..10 {
            drop(queue.submit(|cg| cg.replay(&recording)).unwrap());
            should = diamonds(should.0, should.1);
        }
        assert_eq!((rig.values(&x)[7], rig.values(&y)[7]), should);
        let audit = rig.control.audit();
        assert_eq!(audit.recorded, u64::from(sequences));
        assert_eq!(audit.sequences, usize::from(sequences));
        drop((queue, x, y, recording));
        rig.end();
    }
}

/// A recording is ordered with what else its buffers' users do, moves what is stale, and fails with what it depends on, like
/// any group.
#[test]
fn a_replay_is_a_group_like_any_other() {
    let rig = Rig::new(Faulty::builder().like_cuda());
    let (a, b) = (rig.queue(0), rig.queue(1));
    let (x, y) = (Buffer::<u32>::new(8), Buffer::<u32>::new(8));
    drop((set(&a, &x, 1), set(&b, &y, 2)));
    let recording = diamond(&a, &x, &y);
    drop(a.submit(|cg| cg.replay(&recording)).unwrap());
    drop(b.submit(|cg| call(cg, &STEP, &x, 9)).unwrap());
    let again = a.submit(|cg| {
        cg.name("again");
        cg.replay(&recording)?;
        cg.fill(&cg.overwrite(&y.range(0..1)), 0)
    });
    rig.settle();
    assert!(outcome(&again.unwrap()).is_ok());
    let (value, other) = diamonds(3 * 7 + 1, 3 * 7 + 2);
    let (value, other) = diamonds(stepped(value, [9]), other);
    assert_eq!((rig.values(&x)[3], rig.values(&y)[3], rig.values(&y)[0]), (value, other, 0));
    assert_eq!(rig.control.audit().recorded, 1, "the memory was the same");
    let gate = b.submit(|cg| {
        cg.write(&y);
        cg.host_task(async |_| Err("no".into()))
    });
    let doomed = a.submit(|cg| cg.replay(&recording)).unwrap();
    rig.settle();
    assert!(error(&doomed).is_dependency_failed());
    drop((a, b, x, y, recording, gate, doomed));
    rig.end();
}

/// A sequence weighs one, and commands that are fed one by one weigh what they are.
#[test]
fn a_sequence_is_one_command_in_the_lane() {
    for sequences in [false, true] {
        let builder = device(sequences).lanes(1).depth(4);
        let rig = Rig::new(builder);
        let queue = rig.queue(0);
        let (x, y) = (Buffer::from(vec![5_u32; 16]), Buffer::from(vec![6_u32; 16]));
        let recording = diamond(&queue, &x, &y);
        // The first upload and build are over.
        drop(queue.submit(|cg| cg.replay(&recording)).unwrap());
        rig.settle();
        rig.control.hold(0, true);
        for _ in 0..8 {
            drop(queue.submit(|cg| cg.replay(&recording)).unwrap());
        }
        assert_eq!(rig.control.audit().in_flight, if sequences { 4 } else { 1 });
        rig.control.hold(0, false);
        drop((queue, x, y, recording));
        rig.end();
    }
}

/// What cannot be recorded is refused, and so is a recording for another device.
#[test]
fn what_belongs_to_one_submission_is_refused() {
    let rig = Rig::new(Faulty::builder().like_cuda());
    let (a, b) = (rig.queue(0), rig.queue(1));
    let x = Buffer::<u32>::new(8);
    let before = set(&a, &x, 1);
    let refused = |describe: &dyn Fn(&CommandGroup<'_>)| -> Error {
        a.record(|cg| {
            describe(cg);
            call(cg, &STEP, &x, 1)
        })
        .unwrap_err()
    };
    for (what, problem) in [
        ("depends_on", refused(&|cg| cg.depends_on(&before))),
        ("`after`", refused(&|cg| cg.after(std::future::pending::<windlass::Result<()>>()))),
        ("on_cancel", refused(&|cg| cg.on_cancel(OnCancel::KeepPrevious))),
        ("name", refused(&|cg| cg.name("x"))),
        ("closure", a.record(|cg| cg.host_task(async |_| Ok(()))).unwrap_err()),
    ] {
        assert!(problem.to_string().contains(what), "{problem}");
    }
    let recording = a.record(|cg| call(cg, &STEP, &x, 1)).unwrap();
    let problem = b.submit(|cg| cg.replay(&recording)).unwrap_err();
    assert!(problem.to_string().contains("record it with a queue of that device"), "{problem}");
    // It is that queue which does not take it: a second one may.
    let taken = b.submit_or(&a, |cg| cg.replay(&recording)).unwrap();
    rig.settle();
    assert_eq!(taken.status(), Status::Done);
    drop((a, b, x, before, recording, taken));
    rig.end();
}

/// A device that fails to record has the group fail, and the next one tries again. A recording outlives what replays it, and its
/// native object goes off the path.
#[test]
fn recording_may_fail_and_is_tried_again() {
    let rig = Rig::new(device(true));
    let queue = rig.queue(0);
    let (x, y) = (Buffer::from(vec![5_u32; 16]), Buffer::from(vec![6_u32; 16]));
    let recording = diamond(&queue, &x, &y);
    rig.control.fail_record(native("no graph today"));
    let first = queue.submit(|cg| cg.replay(&recording)).unwrap();
    rig.settle();
    assert!(error(&first).to_string().contains("no graph today"));
    drop((set(&queue, &x, 1), set(&queue, &y, 2)));
    let second = queue.submit(|cg| cg.replay(&recording)).unwrap();
    drop(recording);
    rig.settle();
    assert!(outcome(&second).is_ok());
    assert_eq!(rig.values(&x)[3], diamonds(22, 23).0);
    assert_eq!(rig.control.audit().sequences, 0);
    drop((queue, x, y, first, second));
    rig.end();
}

/// A recorded sequence keeps the memory that it uses, and for a while after its recording has gone. A buffer that is made a vector
/// meanwhile gives a copy. Seen to fail, with an empty vector, where only memory of one owner was taken.
#[test]
fn a_buffer_of_a_recording_is_a_vector_with_all_its_elements() {
    let rig = Rig::new(Faulty::builder().device(Memory::Heap).aspect(Aspect::Sequences));
    let queue = rig.queue(0);
    let (x, y) = (Buffer::from(vec![5_u32; 16]), Buffer::from(vec![6_u32; 16]));
    let recording = diamond(&queue, &x, &y);
    drop(queue.submit(|cg| cg.replay(&recording)).unwrap());
    rig.settle();
    // What it keeps is freed when the runtime comes to it.
    drop(recording);
    let mut vector = Box::pin(x.into_vec());
    let Poll::Ready(values) = poll(vector.as_mut()) else { panic!("nobody uses it") };
    let values = values.unwrap();
    assert_eq!(values, [diamonds(5, 6).0; 16]);
    drop((queue, y));
    rig.end();
}
