//! Transfers: nodes that read one replica and write another, shared by all nodes that need the copy.

use smallvec::SmallVec;

use super::boxes::Box3;
use super::hazard::{Kind, User};
use super::ids::{DeviceId, MemoryId};
use super::links::{DATA, push};
use super::machine::Memory;
use super::node::{Does, Half};
use super::preds::Preds;
use super::segments::{Inside, Segments};
use super::{Engine, HEAP, Mode, NodeId, Place, Recorded, RootId, Shell, Staged, Step, Transfer, Turn, Use};

/// The first and the last step of each part of a move.
pub(super) type Steps = SmallVec<[(NodeId, NodeId); 1]>;

/// How a move differs from those that planning asks for.
#[derive(Clone, Copy, Default)]
pub(super) struct Passage {
    /// Memory that only these steps use now.
    pub(super) swapped: Option<MemoryId>,
    /// Its first steps have one gate more.
    pub(super) is_held: bool,
}

/// What is moved.
struct Load<'s, C> {
    whole: Transfer,
    segments: &'s mut Segments<C>,
    inside: Inside,
    passage: Passage,
}

/// Who moves something.
pub(super) enum Route {
    Direct(DeviceId),
    Staged { from: Place, to: Place },
}

impl<S: Shell> Engine<S> {
    /// A device that can copy between these memories alone, or where each half of the way is made: on a device, or on the
    /// host between its own memory and staging.
    pub(super) fn route(&self, root: RootId, from: MemoryId, to: MemoryId, bytes: usize) -> Option<Route> {
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
            // A memory that no device works on is the host's, which is addressable.
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
        let Some(node) = self.clear_node(root, memory, bounds, Passage::default()) else { return };
        let inside = segments.carve(&bounds, &mut self.read_sets);
        let realm = self.realm(self.nodes[node].place);
        let user = User { node, realm, memory, kind: Kind::Author };
        let mut preds = Preds::default();
        let mut entry = self.entry(user, &mut preds, turn);
        inside.iter().for_each(|&i| entry.hazards(segments.get(i), Mode::Overwrite));
        entry.enter_writer(segments, &inside);
        inside.iter().for_each(|&i| segments.get_mut(i).replica_mut(memory).cleared = true);
        let gates = self.use_root(node, root, memory, Does::Writes, turn);
        self.attach(node, &mut preds, gates, turn);
        segments.tidy(&inside, &self.nodes, &mut self.read_sets);
    }

    /// Clears a box in memory that is swapped out, once there is any.
    pub(super) fn clear_swapped(
        &mut self,
        root: RootId,
        memory: MemoryId,
        bounds: Box3,
        turn: &mut Turn<S>,
    ) -> Option<(NodeId, NodeId)> {
        let passage = Passage { swapped: Some(memory), is_held: true };
        let node = self.clear_node(root, memory, bounds, passage)?;
        self.use_swapped(node, Use { root, memory, does: Does::Writes });
        self.attach(node, &mut Preds::default(), 1, turn);
        Some((node, node))
    }

    /// If no device is left that could clear it, its context is lost, and the node that wanted this fails for that.
    fn clear_node(
        &mut self,
        root: RootId,
        memory: MemoryId,
        bounds: Box3,
        passage: Passage,
    ) -> Option<NodeId> {
        let alive = |d: &DeviceId| self.lost(*d).is_none();
        let device = self.memories[memory.0 as usize].device.filter(alive)?;
        let bytes = bounds.volume() * self.roots[root].unit;
        self.tally.clears += 1;
        self.tally.bytes_cleared += bytes as u64;
        let step = Transfer { root, from: memory, to: memory, bounds, bytes, step: Step::Clear };
        Some(self.transfer_node(Place::Device(device), step, passage))
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
        let bytes = bounds.volume() * self.roots[root].unit;
        let whole = Transfer { root, from, to, bounds, bytes, step: Step::Direct };
        if self.move_whole(segments, whole, Passage::default(), turn).is_none() {
            // Nothing comes where the heap's memory was not to be cleared for it.
            self.roots[root].expose(to);
        }
    }

    /// Staged copies go in chunks, so that both halves of the way overlap: one chunk is uploaded while the next is downloaded. Returns
    /// the first and the last step of each.
    fn move_in_chunks(
        &mut self,
        route: &Route,
        segments: &mut Segments<S::Cause>,
        whole: Transfer,
        passage: Passage,
        turn: &mut Turn<S>,
    ) -> Steps {
        let unit = self.roots[whole.root].unit;
        let chunk = self.chunk(route, unit);
        let mut steps = Steps::new();
        whole.bounds.each_chunk(chunk, &mut |bounds| {
            let part = Transfer { bounds, bytes: bounds.volume() * unit, ..whole };
            steps.push(self.move_box(route, segments, part, passage, turn));
        });
        steps
    }

    /// How many elements go in one piece.
    pub(super) fn chunk(&self, route: &Route, unit: usize) -> usize {
        match route {
            Route::Direct(_) => usize::MAX,
            Route::Staged { .. } => (self.staging_chunk / unit).max(1),
        }
    }

    /// Moves a box. None where nothing leads from one memory to the other.
    pub(super) fn move_whole(
        &mut self,
        segments: &mut Segments<S::Cause>,
        whole: Transfer,
        passage: Passage,
        turn: &mut Turn<S>,
    ) -> Option<Steps> {
        let route = self.route(whole.root, whole.from, whole.to, whole.bytes)?;
        self.tally.transfers += 1;
        self.tally.bytes_moved += whole.bytes as u64;
        Some(self.move_in_chunks(&route, segments, whole, passage, turn))
    }

    /// Plans the nodes that move one box, as a whole. Returns the first and the last of them.
    fn move_box(
        &mut self,
        route: &Route,
        segments: &mut Segments<S::Cause>,
        whole: Transfer,
        passage: Passage,
        turn: &mut Turn<S>,
    ) -> (NodeId, NodeId) {
        let (reader, writer) = self.step_nodes(route, whole, passage);
        let inside = segments.carve(&whole.bounds, &mut self.read_sets);
        let mut load = Load { whole, segments, inside, passage };
        let mut preds = Preds::default();
        let mut gates = self.enter_half(reader, (whole.from, Mode::Read), &mut load, &mut preds, turn);
        gates += u32::from(passage.is_held);
        if reader != writer {
            // It does not hold staging while there is no memory for what it brings: to make room others may need some.
            if passage.swapped != Some(whole.to) && self.roots[whole.root].allocation(whole.to).is_none() {
                gates += self.await_memory(reader, whole.root, whole.to, turn);
            }
            self.join_halves(reader, writer, &mut preds, gates, turn);
            preds = Preds::default();
            gates = 1;
        }
        gates += self.enter_half(writer, (whole.to, Mode::Overwrite), &mut load, &mut preds, turn);
        self.attach(writer, &mut preds, gates, turn);
        if reader != writer {
            self.has_upload(reader, turn);
        }
        load.segments.tidy(&load.inside, &self.nodes, &mut self.read_sets);
        (reader, writer)
    }

    /// The nodes that move one box: one, or a download and an upload.
    pub(super) fn step_nodes(
        &mut self,
        route: &Route,
        whole: Transfer,
        passage: Passage,
    ) -> (NodeId, NodeId) {
        let step = |step| Transfer { step, ..whole };
        match *route {
            Route::Direct(device) => {
                let node = self.transfer_node(Place::Device(device), step(Step::Direct), passage);
                (node, node)
            }
            Route::Staged { from, to } => {
                let download = self.transfer_node(from, step(Step::Download), passage);
                let upload = self.transfer_node(to, step(Step::Upload), passage);
                (download, upload)
            }
        }
    }

    /// Takes a download in, with so many gates beside the one for staging, and ties its upload to it.
    ///
    /// The host holds both: the download until there is staging, the upload until the download has ended. So the edge between
    /// them orders nothing, and needs neither wait nor proxy; it carries failure, and keeps the upload from settling before
    /// the download has.
    pub(super) fn join_halves(
        &mut self,
        reader: NodeId,
        writer: NodeId,
        preds: &mut Preds,
        gates: u32,
        turn: &mut Turn<S>,
    ) {
        (self.nodes[reader].half, self.nodes[writer].half) = (Half::First, Half::Second);
        self.attach(reader, preds, gates + 1, turn);
        push(&mut self.edges, &mut self.nodes[reader].out, writer, DATA);
        self.nodes[writer].unsettled += 1;
        self.share_failure(reader, writer, DATA);
        self.note_edge(reader, writer);
        self.unstaged.insert(reader, writer);
    }

    /// A download's upload has been taken in, and with it all that the download waits for. Only now may it be ready: `stage` counts the
    /// upload's gates.
    pub(super) fn has_upload(&mut self, download: NodeId, turn: &mut Turn<S>) {
        if self.nodes[download].gates == 1 {
            self.stage(download, turn);
        } else {
            self.is_held_in_lines(download);
        }
    }

    /// Enters what a move does at one of its ends. Returns one gate if there is no allocation yet.
    fn enter_half(
        &mut self,
        node: NodeId,
        (memory, mode): (MemoryId, Mode),
        load: &mut Load<'_, S::Cause>,
        preds: &mut Preds,
        turn: &mut Turn<S>,
    ) -> u32 {
        let Load { whole, segments, inside, passage } = load;
        let (root, zeroed) = (whole.root, self.memories[memory.0 as usize].traits.zeroed);
        let does = match whole.from {
            _ if !mode.writes() => Does::Reads,
            // Where fresh memory is zeroed, what lies beside the box holds zeros that somebody may count on, and the heap may not.
            HEAP if zeroed && whole.bounds != self.roots[root].extent => Does::Writes,
            HEAP => Does::CopiesHeap(self.roots[root].copies.writers_in_heap),
            from => Does::Copies(from),
        };
        if passage.swapped == Some(memory) {
            self.use_swapped(node, Use { root, memory, does });
            return 0;
        }
        let realm = self.realm(self.nodes[node].place);
        let user = User { node, realm, memory, kind: Kind::Author };
        let mut entry = self.entry(user, preds, turn);
        inside.iter().for_each(|&i| entry.hazards(segments.get(i), mode));
        match mode.writes() {
            true => entry.enter_writer(segments, inside),
            false => entry.enter_reader(segments, inside),
        }
        let joined = entry.joined;
        self.nodes[node].read_sets.extend(joined);
        self.use_root(node, root, memory, does, turn)
    }

    /// Only the shell holds this step back now. If it is a download, it is time for its staging; not earlier, so
    /// that a transfer that waits for something outside never holds staging that others need.
    pub(super) fn stage(&mut self, id: NodeId, turn: &mut Turn<S>) {
        let Some(upload) = self.unstaged.remove(&id) else { return };
        let moves = self.nodes[upload].gates <= 1;
        for step in [id, upload] {
            self.comes_to(step, |node| node.staged = Some(moves));
        }
        turn.staged.push(Staged { download: id, upload, moves });
    }

    pub(super) fn transfer_node(&mut self, place: Place, step: Transfer, passage: Passage) -> NodeId {
        let id = self.fresh_node(place, |_| S::transfer(step));
        // A small copy into the memory of the lane's own device goes to the lane of its reader: that saves a
        // wait between lanes, and both are fed in one go. A copy out of that memory should not queue behind
        // kernels.
        let comes = matches!(place, Place::Device(device) if self.device_memory(device) == step.to);
        let small = step.bounds.volume() * self.roots[step.root].unit <= self.small_copy;
        let node = &mut self.nodes[id];
        (node.is_transfer, node.wants_copy_lane) = (true, !(small && comes));
        node.is_swap_step = passage.swapped.is_some();
        self.note_node(
            id,
            match passage.swapped {
                None => Recorded::Transfer(step),
                Some(_) => Recorded::Swap(step),
            },
        );
        id
    }
}
