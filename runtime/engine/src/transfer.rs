//! Transfers: nodes of their own, that read one replica and write another, shared by all who need them.

use super::boxes::Box3;
use super::edges::{self, DATA};
use super::hazard::{Kind, Preds, User};
use super::ids::{DeviceId, MemoryId};
use super::machine::Memory;
use super::segments::Segments;
use super::{Engine, HEAP, Mode, NodeId, Place, Recorded, RootId, Shell, Slot, Staged, Turn};

/// One step of moving a box of a root from one memory to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transfer {
    /// Of which root.
    pub root: RootId,
    /// Where it is.
    pub from: MemoryId,
    /// Where it goes.
    pub to: MemoryId,
    /// Which elements.
    pub bounds: Box3,
    /// Which part of the way.
    pub step: Step,
}

/// Which step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// The whole way in one copy.
    Direct,
    /// Into host staging.
    Download,
    /// Out of host staging.
    Upload,
    /// None of these: zeros are written where nobody has ever written. From and to are the same.
    Clear,
    /// Nothing moves: memory is given to the host, as a whole. From and to are the same.
    Map,
    /// Nothing moves: memory is taken back from the host, as a whole. From and to are the same.
    Unmap,
}

enum Route {
    Direct(DeviceId),
    Staged { from: Place, to: Place },
}

impl<S: Shell> Engine<S> {
    /// A device that can copy between these memories alone, or where each half of the way is made: on a device, or on the
    /// host between its own memory and staging.
    fn route(&self, root: RootId, from: MemoryId, to: MemoryId, bytes: usize) -> Option<Route> {
        let (source, target) = (&self.memories[from.0 as usize], &self.memories[to.0 as usize]);
        // The heap outlives the devices that share it.
        let alive = |d: &DeviceId| self.lost(*d).is_none();
        let (reader, writer) = (source.device.filter(alive), target.device.filter(alive));
        let pinned_by = self.roots[root].pinned_by.and_then(|by| self.memories[by.0 as usize].context);
        let pinned =
            |host, device: &Memory| host == HEAP && pinned_by.is_some() && pinned_by == device.context;
        let uploads_at_once = pinned(from, target) || bytes <= target.traits.upload_limit;
        let downloads_at_once = pinned(to, source) || bytes <= source.traits.download_limit;
        let (source, target) = (source.traits, target.traits);
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

    /// Plans a clear of a box that nobody has ever written, in a memory that is not zeroed by itself.
    pub(super) fn clear(
        &mut self,
        root: RootId,
        segments: &mut Segments<S::Cause>,
        memory: MemoryId,
        bounds: Box3,
        turn: &mut Turn<S>,
    ) {
        // Where no device is left that could, whoever wanted this fails for that.
        let alive = |d: &DeviceId| self.lost(*d).is_none();
        let Some(device) = self.memories[memory.0 as usize].device.filter(alive) else { return };
        let unit = self.roots[root].unit;
        self.tally.clears += 1;
        self.tally.bytes_cleared += (bounds.volume() * unit) as u64;
        let inside = segments.carve(&bounds, &mut self.read_sets);
        let step = Transfer { root, from: memory, to: memory, bounds, step: Step::Clear };
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
        if to == HEAP {
            self.pin_heap(root, from, bytes);
        }
        let Some(route) = self.route(root, from, to, bytes) else { return };
        self.tally.transfers += 1;
        self.tally.bytes_moved += bytes as u64;
        // What goes through staging goes in chunks: the first is on its way up while the next is on its way down.
        let chunk = match route {
            Route::Direct(_) => usize::MAX,
            Route::Staged { .. } => (self.staging_chunk / unit).max(1),
        };
        bounds.each_chunk(chunk, &mut |bounds| {
            self.move_box(
                &route,
                root,
                segments,
                Transfer { root, from, to, bounds, step: Step::Direct },
                turn,
            );
        });
    }

    /// A root that comes to the heap for the first time, out of memory whose copies block: its allocation there is made
    /// so that they do not, now or later. What is more than a piece of staging goes through that all the same: to pin so much takes
    /// longer than to copy it once more.
    fn pin_heap(&mut self, root: RootId, from: MemoryId, bytes: usize) {
        let source = self.memories[from.0 as usize].traits;
        let entry = &mut self.roots[root];
        let there = entry.slots.iter().any(|(memory, _)| *memory == HEAP);
        let is_small = entry.bytes <= self.staging_chunk;
        if !there && is_small && !source.addressable && bytes > source.download_limit {
            entry.pinned_by = Some(from);
        }
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
            self.attach(reader, &mut preds, gates + 1, turn);
            preds = Preds::default();
            edges::push(&mut self.edges, &mut self.nodes[reader].out, writer, DATA);
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
        if reader != writer && self.nodes[reader].gates == 1 {
            self.stage(reader, turn);
        }
        segments.tidy(&inside, &self.nodes, &mut self.read_sets);
    }

    /// Nothing holds this step back any more but the shell. If it is a download, it is time for its staging: no earlier,
    /// so that nobody holds staging who waits for something outside.
    pub(super) fn stage(&mut self, id: NodeId, turn: &mut Turn<S>) {
        let Some(upload) = self.unstaged.remove(&id) else { return };
        let pending = |u: &&super::Use| {
            self.roots[u.root].slots.iter().any(|(m, slot)| match slot {
                Slot::Pending(waiting) if *m == u.memory => self.listed_in(*waiting).contains(&upload),
                _ => false,
            })
        };
        // Memory to come holds it back, but is nothing outside. Not memory that others have asked for again, after this
        // one was told that there is none.
        let memory = self.nodes[upload].uses.iter().filter(pending).count() as u32;
        let moves = self.nodes[upload].gates <= 1 + memory;
        turn.staged.push(Staged { download: id, upload, moves });
    }

    pub(super) fn transfer_node(&mut self, place: Place, step: Transfer) -> NodeId {
        let id = self.fresh_node(place, |_| S::transfer(step));
        // What is small, and comes to the memory of the lane's own device, is read there next: behind it on one lane nobody
        // waits between lanes, and both are fed in one go. What leaves that memory is not to stand behind kernels.
        let comes = matches!(place, Place::Device(device) if self.device_memory(device) == step.to);
        let small = step.bounds.volume() * self.roots[step.root].unit <= self.small_copy;
        let node = &mut self.nodes[id];
        (node.is_transfer, node.wants_copy_lane) = (true, !(small && comes));
        self.note_node(id, Recorded::Transfer(step));
        id
    }
}
