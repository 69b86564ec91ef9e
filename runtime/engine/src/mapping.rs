//! Roots that stay in one memory which the host uses only while it is *mapped*.
//!
//! Host and devices use the same bytes there, so nothing is moved between them; but the driver wants to be told whose turn it is.
//! [`Root::is_mapped`] says whose it is once all that is planned has run. A user of the other kind first has a *step* planned, of
//! the whole root, on a lane of the memory's device: it comes after all users that were planned before, and all later ones come
//! after it. So at any time the memory belongs to one side, and its users are of that side.
//!
//! A step is not an author, and does not change the data: failures of the nodes that wrote it pass the step by.
//! But its own failure is shared by all later users, writers too, because then it is not known which side has
//! the memory. The root is
//! *stuck*.
//!
//! [`Root::is_mapped`]: super::Root

use smallvec::SmallVec;

use super::boxes::Box3;
use super::hazard::{Kind, User};
use super::links::DATA;
use super::machine::Memory;
use super::node::Does;
use super::preds::Preds;
use super::segments::Content;
use super::transfer::Passage;
use super::{Access, End, Engine, Mode, NodeId, Place, RootId, Shell, Step, Transfer, Turn};

impl<S: Shell> Engine<S> {
    /// Hands a root over to the side of the node that is about to use it, if need be. False if its memory is unusable, and
    /// the node fails for that.
    #[inline]
    pub(super) fn hand_over(&mut self, node: NodeId, access: &Access, turn: &mut Turn<S>) -> bool {
        let has_home = self.roots[access.root].home.is_some() && !access.bounds.is_empty();
        !has_home || self.hand_over_home(node, access.root, turn)
    }

    #[cold]
    fn hand_over_home(&mut self, node: NodeId, root: RootId, turn: &mut Turn<S>) -> bool {
        let to_host = self.nodes[node].place == Place::Host;
        let entry = &self.roots[root];
        let Some(home) = entry.home else { return true };
        let Memory { device, traits, .. } = self.memories[home.0 as usize];
        // A root with a home has no copy elsewhere: without that memory there is nothing to use.
        if let Some(cause) = entry.stuck.as_ref().or_else(|| self.lost_with(home)).cloned() {
            self.nodes[node].end.get_or_insert(End::Doomed(cause));
            return false;
        }
        let is_due = traits.mapped && entry.is_mapped != to_host;
        let Some(device) = device.filter(|_| is_due) else { return true };
        if to_host && !traits.zeroed {
            self.clear_all(root, turn);
        }
        let step = if to_host { Step::Map } else { Step::Unmap };
        let entry = &mut self.roots[root];
        entry.is_mapped = to_host;
        let (bounds, before) = (entry.extent, entry.handed_over);
        let mut segments = std::mem::take(&mut entry.segments);
        let id = self.transfer_node(
            Place::Device(device),
            Transfer { root, from: home, to: home, bounds, bytes: 0, step },
            Passage::default(),
        );
        (self.nodes[id].hands_over, self.nodes[id].wants_copy_lane) = (true, false);
        let user =
            User { node: id, realm: self.realm(Place::Device(device)), memory: home, kind: Kind::Author };
        let mut preds = Preds::default();
        preds.node(before, DATA);
        let inside = segments.carve(&bounds, &mut self.read_sets);
        if to_host {
            // If a clear fails, the host would see arbitrary bytes, and while it has the memory no device can
            // clear it again. So the step fails with the clear, although it shares no other writer's failure.
            for segment in inside
                .iter()
                .map(|&i| segments.get(i))
                .filter(|segment| matches!(segment.content, Content::Never))
            {
                preds.node(segment.replica(home).and_then(|replica| replica.fails_with), DATA);
            }
        }
        let mut entry = self.entry(user, &mut preds, turn);
        inside.iter().for_each(|&i| entry.hazards(segments.get(i), Mode::Overwrite));
        entry.enter_step(&mut segments, &inside);
        let gates = self.use_root(id, root, home, Does::Writes, turn);
        self.attach(id, &mut preds, gates, turn);
        segments.tidy(&inside, &self.nodes, &mut self.read_sets);
        self.roots[root].segments = segments;
        self.roots[root].handed_over = Some(id);
        true
    }

    /// Clears all that was never written: while the host has the memory no device could.
    fn clear_all(&mut self, root: RootId, turn: &mut Turn<S>) {
        let Some(home) = self.roots[root].home else { return };
        let mut segments = std::mem::take(&mut self.roots[root].segments);
        let rubbish =
            (0..segments.len()).map(|at| segments.get(at)).filter(|segment| segment.is_rubbish(home));
        let rubbish: SmallVec<[Box3; 4]> = rubbish.map(|segment| segment.bounds).collect();
        self.clear_boxes(root, &mut segments, home, &rubbish, turn);
        self.roots[root].segments = segments;
    }

    /// A step that hands memory over has failed.
    pub(super) fn get_stuck(&mut self, id: NodeId, cause: &S::Cause, turn: &mut Turn<S>) {
        for i in 0..self.nodes[id].uses.len() {
            let root = self.nodes[id].uses[i].root;
            turn.causes.extend(self.roots[root].stuck.replace(cause.clone()));
        }
    }
}
