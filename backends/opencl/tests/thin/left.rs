//! What is left of native objects once everything that was made is dropped.

use std::any::Any;
use std::time::Instant;

use cl3::command_queue::{
    CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE, CL_QUEUE_REFERENCE_COUNT, create_command_queue,
    get_command_queue_info, release_command_queue,
};
use cl3::context::{CL_CONTEXT_DEVICES, CL_CONTEXT_REFERENCE_COUNT, get_context_info};
use cl3::types::{cl_command_queue, cl_command_queue_properties, cl_device_id};
use windlass_backend::{BackendError, LaneNumber, LaneSpec, NativeQueue, Region};
use windlass_opencl::native::{OpenClContext, QueueHandle};

use crate::rig::{PATIENCE, Rig, fill, rigs};

fn native(rig: &Rig) -> &OpenClContext {
    let context: &dyn Any = &*rig.context;
    context.downcast_ref().expect("it is of this backend")
}

/// How many objects refer to the context, in drivers that have them do so: PoCL's and Intel's.
fn references(rig: &Rig) -> u32 {
    let count = get_context_info(native(rig).raw(), CL_CONTEXT_REFERENCE_COUNT);
    u32::from(count.expect("the context is there"))
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

/// A command queue of the program's own in the rig's context.
struct Own(cl_command_queue);

impl Own {
    fn new(rig: &Rig, properties: cl_command_queue_properties) -> Self {
        let context = native(rig).raw();
        let devices = get_context_info(context, CL_CONTEXT_DEVICES).expect("the context is there");
        let device = Vec::<isize>::from(devices)[0] as cl_device_id;
        // SAFETY: context and device are live.
        Own(unsafe { create_command_queue(context, device, properties) }.expect("it is made"))
    }

    fn handle(&self) -> QueueHandle {
        // SAFETY: it is live, of the loader that the backend uses.
        unsafe { QueueHandle::retain(self.0) }.expect("it is live")
    }

    fn references(&self) -> u32 {
        get_command_queue_info(self.0, CL_QUEUE_REFERENCE_COUNT).expect("it is live").into()
    }
}

impl Drop for Own {
    fn drop(&mut self) {
        // SAFETY: it is live, and this is the reference that it was made with.
        unsafe { release_command_queue(self.0) }.expect("it is live");
    }
}

/// A lane over a command queue of the program's has references to it until it is dropped, however it learns of its work's end.
#[test]
fn nothing_keeps_a_queue_of_the_programs_own() {
    for rig in rigs() {
        let own = Own::new(&rig, 0);
        let before = own.references();
        assert_eq!(rig.context.native_queue(&own.handle()).expect("it can be a lane"), NativeQueue::new(0));
        let (line, memory) = (rig.line_over(0, own.handle()), rig.memory(64));
        for point in 1..=40 {
            line.feed(point, &[], fill(&*memory, Region::line(0, 64), &[1])).expect("it is fed");
            if point % 10 == 0 {
                line.finish(point);
            }
        }
        assert_eq!(line.download(41, &*memory), [1; 64]);
        assert!(own.references() > before, "on {}", rig.name);
        drop((line, memory));
        let begun = Instant::now();
        while own.references() != before {
            let left = own.references();
            assert!(begun.elapsed() < PATIENCE, "on {}: {left} references of {before}", rig.name);
            std::thread::yield_now();
        }
    }
}

/// A queue that runs its commands in any order is no lane, whether anybody asked before or not.
#[test]
fn a_queue_without_an_order_is_no_lane() {
    for rig in rigs() {
        let own = Own::new(&rig, CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE);
        let refused = rig.context.native_queue(&own.handle()).unwrap_err();
        assert!(matches!(refused, BackendError::Unsupported(_)), "{refused}");
        let sink = std::sync::Arc::new(crate::rig::Sink::default());
        let spec = LaneSpec::new(0, LaneNumber(0));
        let refused = rig.context.adopt_lane(Box::new(own.handle()), spec, sink).unwrap_err();
        assert!(matches!(refused, BackendError::Unsupported(_)), "{refused}");
        assert_eq!(own.references(), 1);
    }
}
