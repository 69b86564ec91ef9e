//! What is fed ahead of others, and may be held back until these have come: nothing of it is ever held back for longer.

use std::any::Any;
use std::sync::Arc;
use std::time::Duration;

use opencl3::command_queue::finish;
use smallvec::smallvec;
use windlass_backend::{
    Allocation, BackendError, Command, Group, LaneNumber, NativeCall, NativeCode, Point, Region, Wait,
};
use windlass_opencl::native::Place;

use crate::rig::{Line, Rig, fill, rigs};

fn region() -> Region {
    Region::line(0, 64)
}

/// Memory of zeros, and a group that makes them ones, with others behind it that are still to come.
fn ahead(rig: &Rig, line: &Line) -> Arc<dyn Allocation> {
    let memory = rig.upload(line, 1, &[0; 64]);
    let group = Group::new(Point(2), &[], smallvec![fill(&*memory, region(), &[1])]).more(true);
    line.hand_over(group).expect("it is fed");
    memory
}

/// Seen to fail where the flush lets nothing go, and, on PoCL, where nothing is held back.
#[test]
fn the_flush_lets_go_what_has_more_behind_it() {
    for rig in rigs() {
        let line = rig.line(0);
        let memory = ahead(&rig, &line);
        let told = line.sink.verdicts().len();
        if rig.name.contains("pthread") || rig.name.starts_with("cpu-") {
            std::thread::sleep(Duration::from_millis(20));
            line.lane.look(Point(2));
            assert_eq!(line.sink.verdicts().len(), told, "on {}: it has not started", rig.name);
        }
        let last = Group::new(Point(3), &[], smallvec![fill(&*memory, region(), &[2])]).report(true);
        line.hand_over(last).expect("it is fed");
        line.lane.flush();
        line.sink.wait(Point(3));
        assert_eq!(line.download(4, &*memory), [2; 64], "on {}", rig.name);
    }
}

/// Seen to fail where a point is armed without a flush.
#[test]
fn so_does_whoever_arms_it() {
    for rig in rigs() {
        let line = rig.line(0);
        let memory = ahead(&rig, &line);
        line.lane.arm(Point(2));
        line.sink.wait(Point(2));
        assert_eq!(line.download(3, &*memory), [1; 64], "on {}", rig.name);
    }
}

/// Seen to hang where the other lane does not flush the one that it waits for.
#[test]
fn so_does_another_lane_that_waits_for_it() {
    for rig in rigs() {
        let (line, other) = (rig.line(0), rig.line(1));
        let memory = ahead(&rig, &line);
        let waits = [Wait::new(LaneNumber(0), Point(2))];
        other.feed(1, &waits, fill(&*memory, region(), &[2])).expect("it is fed");
        other.finish(1);
        assert_eq!(other.download(2, &*memory), [2; 64], "on {}", rig.name);
    }
}

/// Seen to hang where a lane that is dropped waits for its queue with the gate shut.
#[test]
fn so_does_the_lane_when_it_is_dropped() {
    for rig in rigs() {
        let (line, other) = (rig.line(0), rig.line(1));
        let memory = ahead(&rig, &line);
        drop(line);
        assert_eq!(other.download(1, &*memory), [1; 64], "on {}", rig.name);
    }
}

/// Waits for all that is in the queue.
struct Finishes;

impl NativeCode for Finishes {
    fn call(self: Box<Self>, place: &mut dyn Any, _: &[&dyn Allocation]) -> Result<(), BackendError> {
        let place = place.downcast_ref::<Place>().expect("it is OpenCL's");
        finish(place.queue()).expect("the queue lives");
        Ok(())
    }
}

/// Code that waits, as it should not, may wait for what was held back. Seen to hang where it is called with the gate shut.
#[test]
fn so_does_native_code() {
    for rig in rigs() {
        let line = rig.line(0);
        let memory = ahead(&rig, &line);
        let call = NativeCall::new(Box::new(Finishes), vec![&*memory]);
        let group = Group::new(Point(3), &[], smallvec![Command::Native(call)]).more(true);
        line.hand_over(group).expect("it is fed");
        line.finish(3);
        assert_eq!(line.download(4, &*memory), [1; 64], "on {}", rig.name);
    }
}
