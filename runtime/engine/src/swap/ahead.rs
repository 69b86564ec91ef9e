//! Room for those that come next, while those before them run.
//!
//! If only the first of all takes room, each group that lacks some waits for a copy to the heap and one from there, and nothing but the group
//! before it runs meanwhile. So a group behind the first takes room, too, as soon as none before it that could run lacks any: from a root
//! that nobody uses just then, and whose next user comes behind the group.
//!
//! That may not be the root that is wanted the latest. Those before the group still have theirs, and one of these might be, when they have
//! run. To take another one may cost a copy or two that need not have been made, and the sooner it is wanted the more often. With room
//! for few it is taken if it is wanted at least [nearly as late](is_about_as_late). With room for [many](Engine::is_roomy) it is taken in any case:
//! what is wanted behind the group is never worth more than what the group lacks. The same goes for the first of all, where what is wanted the
//! latest is just in use.
//!
//! Only who has all else does so, or waits for nothing but others that run or will. What a group that waits for the program has taken may be out
//! of reach for those before it: while the host has the data that is to come there, the root cannot be swapped out.

use super::super::ids::MemoryId;
use super::super::{Engine, RootId, Shell};
use super::room::Users;

/// How many groups that are the next to use something may stand before one that takes room ahead; twice as many with a
/// [leeway](Engine::leeway) of two.
const AHEAD: usize = 3;

/// Whether a place of the order is at least two thirds as far behind a group as the latest: with that programs of tiles copy next to
/// nothing more.
fn is_about_as_late(from: u64, place: u64, latest: u64) -> bool {
    place.saturating_sub(from).saturating_mul(3) >= latest.saturating_sub(from).saturating_mul(2)
}

impl<S: Shell> Engine<S> {
    /// The root that gives room for another one to a group behind the first, if one may. `latest` are the users of the one that is wanted
    /// the latest.
    pub(super) fn gives_room_ahead(
        &self,
        (root, memory): (RootId, MemoryId),
        (first, mine): (u64, u64),
        latest: Users,
    ) -> Option<(RootId, Users)> {
        let lines = self.lines.as_ref()?;
        let ahead = AHEAD * self.leeway(memory).max(1);
        let is_far = lines.groups_between(memory, first, mine).nth(ahead).is_some();
        if is_far || lines.is_fetching_held(root, memory, mine) {
            return None;
        }
        let latest = match lines.latest_after(memory, mine) {
            Some(after) => latest.next?.0.max(after),
            None if self.is_roomy(memory) => latest.next?.0,
            None => return None,
        };
        self.idle_before(memory, mine, latest)
    }

    /// In place of a root that somebody uses just then one that nobody does, if that may be.
    pub(super) fn sooner_than(&self, best: (RootId, Users), memory: MemoryId, mine: u64) -> (RootId, Users) {
        let latest = best.1.next.filter(|_| best.1.in_flight).map(|(submitted, _)| submitted);
        latest.and_then(|latest| self.idle_before(memory, mine, latest)).unwrap_or(best)
    }

    /// Of the roots that nobody uses now, the one that is wanted the latest; with room for few, if that is about as late as this.
    fn idle_before(&self, memory: MemoryId, mine: u64, latest: u64) -> Option<(RootId, Users)> {
        let is_idle = |root: &RootId| !self.noted_users_of(*root, memory).in_flight;
        let (found, users) = self.farthest(memory, Some(mine), is_idle)?;
        let may_go = self.is_roomy(memory) || is_about_as_late(mine, users.next?.0, latest);
        may_go.then_some((found, users))
    }
}
