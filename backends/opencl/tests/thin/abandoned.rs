//! Contexts that were given up.

use std::sync::Arc;

use smallvec::SmallVec;
use windlass_backend::{BackendError, Group, LaneNumber, LaneSpec, MemoryIndex, MemoryObject, Point};

use crate::rig::{Sink, kernel, rigs};

#[test]
fn an_abandoned_context_refuses_everything() {
    let mut rigs = rigs();
    // The rigs of one device share its context, which can be given up once.
    rigs.dedup_by(|a, b| Arc::ptr_eq(&a.context, &b.context));
    for rig in rigs {
        let line = rig.line(0);
        let idle = kernel("idle", &[], "__kernel void idle() {}");
        rig.build(&idle).expect("the kernel is right");
        rig.context.abandon();

        let lost = |what: &str, outcome: Result<(), BackendError>| {
            assert!(outcome.as_ref().is_err_and(BackendError::is_lost), "{what}: {outcome:?}");
        };
        let object = MemoryObject::Buffer { bytes: 64 };
        lost("allocate", rig.context.allocate(MemoryIndex::Own(0), object).map(drop));
        lost("allocate_staging", rig.context.allocate_staging(64).map(drop));
        lost("build", rig.build(&idle).map(drop));
        let another = LaneSpec::new(0, LaneNumber(1));
        lost("open_lane", rig.context.open_lane(another, Arc::new(Sink::default())).map(drop));
        lost("feed", line.hand_over(Group::new(Point(1), &[], SmallVec::new())));
    }
}
