//! Transfers: nodes that read one replica and write another, shared by all nodes that need the copy.

use super::boxes::Box3;
use super::hazard::{Kind, User};
use super::ids::{DeviceId, MemoryId};
use super::links::{DATA, push};
use super::machine::Memory;
use super::preds::Preds;
use super::segments::Segments;
use super::{Engine, HEAP, Mode, NodeId, Place, Recorded, RootId, Shell, Slot, Staged, Step, Transfer, Turn};

enum Route {
    Direct(DeviceId),
    Staged { from: Place, to: Place },
}

impl<S: Shell> Engine<S> {
    /// A device that can copy between these memories alone, or where each half of the way is made: on a device, or on the
    /// host between its own memory and staging.
    fn route(&self, root: RootId, from: MemoryId, to: MemoryId, bytes: usize) -> Option<Route> {
        let (source, target) = (&self.memories[from.0 as usize], &self.memories[to.0 as usize]);
        // The device that works on a memory is lost with it, except where that memory is the heap, which goes on.
        let alive = |d: &DeviceId| self.lost(*d).is_none();
        let (reader, writer) = (source.device.filter(alive), target.device.filter(alive));
        let pinned_by = self.roots[root].pinned_by().and_then(|by| self.memories[by.0 as usize].context);
        let pinned =
            |host, device: &Memory| host == HEAP && pinned_by.is_some() && pinned_by == device.context;
        // A copy between pageable host memory and a device blocks the thread that feeds it, beyond the size that
        // the driver takes at once. A blocking `feed` would break the promise that submitting never waits.
        let uploads_at_once = pinned(from, target) || bytes <= target.traits.upload_limit;
        let downloads_at_once = pinned(to, source) || bytes <= source.traits.download_limit;
        let (source, target) = (source.traits, target.traits);
        // The staged routes come first: the arms behind them would match the same pairs, and copy directly.
        // Where either device could copy, the target's does, because the data is read next on its lanes.
        match (reader, writer) {
            (_, Some(d)) if source.addressable && !target.addressable && !uploads_at_once => {
                Some(Route::Staged { from: Place::Host, to: Place::Device(d) })
            }
            (Some(d), _) if target.addressable && !source.addressable && !downloads_at_once => {
                Some(Route::Staged { from: Place::Device(d), to: Place::Host })
            }
            (_, Some(d)) if source.addressable => Some(Route::Direct(d)),
            (Some(d), _) if target.addressable => Some(Route::Direct(d)),
            (Some(_), Some(d)) if self.links.contains(&(from, to)) => Some(Route::Direct(d)),
            (Some(from), Some(to)) => {
                Some(Route::Staged { from: Place::Device(from), to: Place::Device(to) })
            }
            // A memory that no device works on is the heap, which is addressable.
            _ => None,
        }
    }

    /// Plans a clear of a box that was never written, in a memory whose allocations are not zeroed.
    pub(super) fn clear(
        &mut self,
        root: RootId,
        segments: &mut Segments<S::Cause>,
        memory: MemoryId,
        bounds: Box3,
        turn: &mut Turn<S>,
    ) {
        // If no device is left that could clear it, its context is lost, and the node that wanted this fails for
        // that.
        let alive = |d: &DeviceId| self.lost(*d).is_none();
        let Some(device) = self.memories[memory.0 as usize].device.filter(alive) else { return };
        let unit = self.roots[root].unit;
        self.tally.clears += 1;
        self.tally.bytes_cleared += (bounds.volume() * unit) as u64;
        let inside = segments.carve(&bounds, &mut self.read_sets);
        let bytes = bounds.volume() * unit;
        let step = Transfer { root, from: memory, to: memory, bounds, bytes, step: Step::Clear };
        let node = self.transfer_node(Place::Device(device), step);
        let user = User { node, realm: self.realm(Place::Device(device)), memory, kind: Kind::Author };
        let mut preds = Preds::default();
        let mut entry = self.entry(user, &mut preds, turn);
        inside.iter().for_each(|&i| entry.hazards(segments.get(i), Mode::Overwrite));
        entry.enter_writer(segments, &inside);
        inside.iter().for_each(|&i| segments.get_mut(i).replica_mut(memory).cleared = true);
        let gates = self.use_root(node, root, memory, true, turn);
        self.attach(node, &mut preds, gates, turn);
        segments.tidy(&inside, &self.nodes, &mut self.read_sets);
    }

    /// Plans the move of a box, all of whose bytes are valid in `from` and stale in `to`.
    pub(super) fn transfer(
        &mut self,
        root: RootId,
        segments: &mut Segments<S::Cause>,
        from: MemoryId,
        to: MemoryId,
        bounds: Box3,
        turn: &mut Turn<S>,
    ) {
        let unit = self.roots[root].unit;
        let bytes = bounds.volume() * unit;
        let Some(route) = self.route(root, from, to, bytes) else {
            // Nothing comes where the heap's memory was not to be cleared for it.
            return self.roots[root].expose(to);
        };
        self.tally.transfers += 1;
        self.tally.bytes_moved += bytes as u64;
        // Staged copies go in chunks, so that both halves of the way overlap: one chunk is uploaded while the
        // next is downloaded.
        let chunk = match route {
            Route::Direct(_) => usize::MAX,
            Route::Staged { .. } => (self.staging_chunk / unit).max(1),
        };
        bounds.each_chunk(chunk, &mut |bounds| {
            self.move_box(
                &route,
                root,
                segments,
                Transfer { root, from, to, bounds, bytes: bounds.volume() * unit, step: Step::Direct },
                turn,
            );
        });
    }

    /// Plans the nodes that move one box, as a whole.
    fn move_box(
        &mut self,
        route: &Route,
        root: RootId,
        segments: &mut Segments<S::Cause>,
        whole: Transfer,
        turn: &mut Turn<S>,
    ) {
        let Transfer { from, to, bounds, .. } = whole;
        let inside = segments.carve(&bounds, &mut self.read_sets);
        let step = |step| Transfer { step, ..whole };
        let (reader, writer) = match *route {
            Route::Direct(device) => {
                let node = self.transfer_node(Place::Device(device), step(Step::Direct));
                (node, node)
            }
            Route::Staged { from, to } => {
                let download = self.transfer_node(from, step(Step::Download));
                let upload = self.transfer_node(to, step(Step::Upload));
                (download, upload)
            }
        };
        let user = |engine: &Self, node, memory| {
            let realm = engine.realm(engine.nodes[node].place);
            User { node, realm, memory, kind: Kind::Author }
        };
        let mut preds = Preds::default();
        let mut entry = self.entry(user(self, reader, from), &mut preds, turn);
        inside.iter().for_each(|&i| entry.hazards(segments.get(i), Mode::Read));
        entry.enter_reader(segments, &inside);
        let joined = entry.joined;
        self.nodes[reader].read_sets.extend(joined);
        let mut gates = self.use_root(reader, root, from, false, turn);
        if reader != writer {
            // The host holds both: the download until there is staging, the upload until the download has ended.
            // So the edge between them orders nothing, and needs neither wait nor proxy; it carries failure, and
            // keeps the upload from settling before the download has.
            self.attach(reader, &mut preds, gates + 1, turn);
            preds = Preds::default();
            push(&mut self.edges, &mut self.nodes[reader].out, writer, DATA);
            self.nodes[writer].unsettled += 1;
            self.share_failure(reader, writer, DATA);
            self.note_edge(reader, writer);
            self.unstaged.insert(reader, writer);
            gates = 1;
        }
        let mut entry = self.entry(user(self, writer, to), &mut preds, turn);
        inside.iter().for_each(|&i| entry.hazards(segments.get(i), Mode::Overwrite));
        entry.enter_writer(segments, &inside);
        gates += self.use_root(writer, root, to, true, turn);
        self.attach(writer, &mut preds, gates, turn);
        // Only now, although the download was ready before: `stage` counts the upload's gates.
        if reader != writer && self.nodes[reader].gates == 1 {
            self.stage(reader, turn);
        }
        segments.tidy(&inside, &self.nodes, &mut self.read_sets);
    }

    /// Only the shell holds this step back now. If it is a download, it is time for its staging; not earlier, so
    /// that a transfer that waits for something outside never holds staging that others need.
    pub(super) fn stage(&mut self, id: NodeId, turn: &mut Turn<S>) {
        let Some(upload) = self.unstaged.remove(&id) else { return };
        let pending = |u: &&super::Use| {
            self.roots[u.root].slots.iter().any(|(m, slot)| match slot {
                Slot::Pending(waiting) if *m == u.memory => self.listed_in(*waiting).contains(&upload),
                _ => false,
            })
        };
        // Memory to come is a gate too, but not one that depends on anything outside. It counts only where the
        // upload is on the list of the pending slot: a slot that failed may have been asked for again, and this
        // one is not there.
        let memory = self.nodes[upload].uses.iter().filter(pending).count() as u32;
        let moves = self.nodes[upload].gates <= 1 + memory;
        turn.staged.push(Staged { download: id, upload, moves });
    }

    pub(super) fn transfer_node(&mut self, place: Place, step: Transfer) -> NodeId {
        let id = self.fresh_node(place, |_| S::transfer(step));
        // A small copy into the memory of the lane's own device goes to the lane of its reader: that saves a
        // wait between lanes, and both are fed in one go. A copy out of that memory should not queue behind
        // kernels.
        let comes = matches!(place, Place::Device(device) if self.device_memory(device) == step.to);
        let small = step.bounds.volume() * self.roots[step.root].unit <= self.small_copy;
        let node = &mut self.nodes[id];
        (node.is_transfer, node.wants_copy_lane) = (true, !(small && comes));
        self.note_node(id, Recorded::Transfer(step));
        id
    }
}
