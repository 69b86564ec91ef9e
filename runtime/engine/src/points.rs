//! The last point per lane of several that are to be waited for: a lane passes its points in order, so the last stands for
//! all before it.

use smallvec::SmallVec;

use super::ids::LaneId;

/// The last of some points on each lane.
pub(super) type LastPoints = SmallVec<[(LaneId, u64); 1]>;

/// Takes a point into account.
#[inline]
pub(super) fn see(points: &mut LastPoints, lane: LaneId, point: u64) {
    match points.iter_mut().find(|(l, _)| *l == lane) {
        // Not in order: groups of one lane are confirmed in order, but predecessors come in the order of their ids.
        Some((_, last)) => *last = point.max(*last),
        None => points.push((lane, point)),
    }
}
