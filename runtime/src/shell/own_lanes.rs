//! A lane of one queue's own, over a native queue that the program has.
//!
//! It is the device once more in the engine, with this lane alone, so that nothing but that queue's groups comes there: transfers go to
//! the lanes of the device that a memory is known by. All else is as with any lane: others wait for its points, and it for theirs. It goes
//! when its queue does, which may be long before its context.

use std::any::Any;
use std::sync::{Arc, Weak};

use windlass_backend::{BackendError, LaneRole, NativeQueue, Priority};
use windlass_sync::forked;

use super::context::{ContextShared, DeviceSlot, LaneKind, depth};
use super::devices::DeviceData;
use super::waking::catch_native;
use super::{Effects, Inner, NativeCalls};
use crate::error::{Error, Result};
use windlass_engine::DeviceId;

/// A native queue that the program has given.
#[derive(Debug)]
pub(crate) struct GivenQueue {
    pub(crate) backend: &'static str,
    pub(crate) object: Box<dyn Any + Send + Sync>,
}

/// The lane of one queue's own. It is closed when this is dropped, and idle.
#[derive(Debug)]
pub(crate) struct OwnLanes {
    inner: Weak<Inner>,
    device: DeviceId,
}

impl Drop for OwnLanes {
    fn drop(&mut self) {
        // What there is in a forked child is its parent's. A runtime that is gone has closed its lanes.
        if forked::is_child() {
            return;
        }
        let Some(inner) = self.inner.upgrade() else { return };
        inner.enter_without_native_calls(|state, turn| {
            state.engine.close_lanes_when_unused(self.device, turn);
        });
    }
}

impl ContextShared {
    /// The device that a native queue is on, and what else is known of the queue, if it can be a lane here.
    pub(crate) fn native_queue(&self, queue: &GivenQueue) -> Result<(&Arc<DeviceData>, NativeQueue)> {
        let refused = |error| Error::backend(error, "making a queue of a native one");
        let of = catch_native(|| self.native.native_queue(&*queue.object)).map_err(refused)?;
        let devices = self.devices.get().map(Vec::as_slice).unwrap_or_default();
        let missing = || BackendError::Unsupported(format!("a native queue on device {}", of.device));
        let (device, _) = devices.get(of.device).ok_or_else(|| refused(missing()))?;
        Ok((device, of))
    }

    /// Opens a lane over a native queue that [`ContextShared::native_queue`] has described.
    pub(crate) fn own_lane(
        this: &Arc<Self>,
        inner: &Arc<Inner>,
        queue: GivenQueue,
        of: NativeQueue,
        wanted: LaneKind,
    ) -> Result<(Arc<DeviceSlot>, OwnLanes)> {
        let (device, usual) = match this.devices.get().and_then(|devices| devices.get(of.device)) {
            Some((device, usual)) => (device.clone(), *usual),
            None => unreachable!("it was found before"),
        };
        if wanted.priority != Priority::Normal {
            return Err(Error::unsupported(format!(
                "{} priority for a queue over a native one on {device}, which has the priority that it was made with: leave that out",
                wanted.priority
            )));
        }
        if wanted.timed && !of.times {
            return Err(Error::unsupported(format!(
                "profiling on a native queue that does not time its commands, on {device}: make one that does, or leave that out"
            )));
        }
        let kind = this.with_completion(&device, wanted)?;
        let blank = this.blank(of.device)?;
        let (id, lane) = inner.enter(|state, _| {
            let id = state.engine.add_lane_group(usual);
            let lane = state.engine.add_lane(id, depth(&this.native.info().devices[of.device]));
            state.reserve_lane(lane);
            (id, lane)
        });
        let mut effects = Effects::scratch(NativeCalls::Here);
        let open = |spec, sink| this.native.adopt_lane(queue.object, spec, sink);
        let (place, lane) = ((of.device, kind), (lane, LaneRole::Compute));
        let opened = this.open_lane(inner, place, lane, &blank, open, &mut effects);
        inner.perform(&mut effects);
        opened?;
        let own = OwnLanes { inner: Arc::downgrade(inner), device: id };
        Ok((Arc::new(DeviceSlot::new(device, id, of.device, this.clone())), own))
    }
}
