//! What is left of native objects once everything that was made is dropped.

use std::any::Any;
use std::time::Instant;

use cl3::context::{CL_CONTEXT_REFERENCE_COUNT, get_context_info};
use windlass_backend::Region;
use windlass_opencl::native::OpenClContext;

use crate::rig::{PATIENCE, Rig, fill, rigs};

/// How many objects refer to the context, in drivers that have them do so: PoCL's and Intel's.
fn references(rig: &Rig) -> u32 {
    let context: &dyn Any = &*rig.context;
    let context = context.downcast_ref::<OpenClContext>().expect("it is of this backend");
    u32::from(get_context_info(context.raw(), CL_CONTEXT_REFERENCE_COUNT).expect("the context is there"))
}

/// Seen to fail with events, and with buffers, that are not released.
#[test]
fn nothing_keeps_a_context() {
    for rig in rigs() {
        let before = references(&rig);
        let (line, memory) = (rig.line(0), rig.memory(64));
        let staging = rig.context.allocate_staging(64).expect("there is that much");
        for point in 1..=100 {
            line.feed(point, &[], fill(&*memory, Region::line(0, 64), &[1])).expect("it is fed");
            if point % 10 == 0 {
                line.finish(point);
            }
        }
        assert_eq!(line.download(101, &*memory), [1; 64]);
        drop((line, memory, staging));
        // A watcher's thread holds an event or two until it sees that its lane is gone.
        let begun = Instant::now();
        while references(&rig) != before {
            let left = references(&rig);
            assert!(begun.elapsed() < PATIENCE, "on {}: {left} references of {before}", rig.name);
            std::thread::yield_now();
        }
    }
}
