//! What a use of a segment must come after, and what it leaves for those that come after it.

use slab::Slab;

use super::boxes::Box3;
use super::ids::MemoryId;
use super::links::{DATA, NOTHING};
use super::preds::Preds;
use super::record::Record;
use super::segments::{Content, Replica, Segment, Segments};
use super::{Engine, Mode, NodeId, ReadSet, ReadSetId, Realm, Shell, Turn};

impl<S: Shell> Engine<S> {
    /// An entry for segments that were taken out of their root.
    pub(super) fn entry<'e>(
        &'e mut self,
        user: User,
        preds: &'e mut Preds,
        turn: &'e mut Turn<S>,
    ) -> Entry<'e, S::Cause> {
        let Engine { read_sets, record, .. } = self;
        Entry { user, preds, read_sets, record, causes: &mut turn.causes, joined: None }
    }
}

/// The node that uses segments, and where.
#[derive(Clone, Copy, Debug)]
pub(super) struct User {
    pub(super) node: NodeId,
    pub(super) realm: Realm,
    pub(super) memory: MemoryId,
    pub(super) kind: Kind,
}

/// What a user is to the data that it writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// The author of a new version.
    Author,
    /// A guard, which may or may not write.
    Guard,
    /// A guard that will not have its memory.
    RefusedGuard,
}

/// A use of some segments, with the tables beside theirs that it is entered in.
pub(super) struct Entry<'e, C> {
    pub(super) user: User,
    pub(super) preds: &'e mut Preds,
    pub(super) read_sets: &'e mut Slab<ReadSet>,
    pub(super) record: &'e mut Option<Box<Record>>,
    /// Causes of failures that are forgotten because the data is written anew.
    pub(super) causes: &'e mut Vec<C>,
    /// The read set that the user reads in.
    pub(super) joined: Option<ReadSetId>,
}

impl<C: Clone + PartialEq> Entry<'_, C> {
    /// Adds what a use of this segment comes after.
    pub(super) fn hazards(&mut self, segment: &Segment<C>, mode: Mode) {
        // Users in other memories touch other bytes, so they are not in the way. What they wrote comes here by a
        // transfer, and that is a user of this copy, behind them.
        for replica in &segment.replicas {
            if replica.memory == self.user.memory {
                self.hazards_of(replica, mode);
            }
        }
    }

    /// Adds what a use of this copy comes after: its last writer, and for a write the readers since. The
    /// writer's failure is shared if the use reads. Those who have been writing it since beside each other are ahead of all but their
    /// own kind: those come after the readers among them, but not after each other.
    #[inline(always)]
    fn hazards_of(&mut self, replica: &Replica, mode: Mode) {
        if mode.reads() {
            self.preds.node(replica.fails_with, DATA);
            // The two differ where a guard, or a step that hands over the memory, came after the node that wrote
            // the data. Those hold readers back, but it is not their data: a guard has no failure to share, and
            // the failure of a step reaches every later user by `Root::handed_over`.
            if replica.writer != replica.fails_with {
                self.preds.node(replica.writer, NOTHING);
            }
        }
        if mode != Mode::Concurrent {
            let shares = match mode.reads() {
                true => DATA,
                false => NOTHING,
            };
            replica.beside.iter().for_each(|id| self.preds.node(Some(*id), shares));
        }
        if !mode.writes() {
            return;
        }
        if replica.read_sets.is_empty() {
            self.preds.node(replica.writer, NOTHING);
        } else {
            // The readers stand between: each of them is behind that writer, so the write is too. A set whose
            // readers have all settled adds nothing, and need not: the writer they were behind settled before
            // them.
            replica.read_sets.iter().for_each(|e| self.preds.after_read_set(*e, self.read_sets));
        }
    }

    /// The fast path of [`Entry::hazards`] and [`Entry::enter`], for a whole segment whose only copy is in the
    /// user's memory, and for readers only if there is a read set to join. False if it did not apply; then
    /// nothing has changed.
    #[inline]
    pub(super) fn use_alone(&mut self, segment: &mut Segment<C>, mode: Mode) -> bool {
        let [replica] = &mut segment.replicas[..] else { return false };
        if replica.memory != self.user.memory || self.user.kind != Kind::Author || mode == Mode::Concurrent {
            return false;
        }
        if mode.writes() {
            self.hazards_of(replica, mode);
            self.write(replica);
            replica.last_group = Some(self.user.node);
            replica.cleared = false;
            segment.become_version_of(self.user.node, self.causes);
            return true;
        }
        let [id] = replica.read_sets[..] else { return false };
        if !self.read_sets[id.0 as usize].takes_readers_of(1) {
            return false;
        }
        self.hazards_of(replica, mode);
        self.join(id);
        true
    }

    /// Records the use, for later uses to come after.
    #[inline]
    pub(super) fn enter(&mut self, segments: &mut Segments<C>, inside: &[usize], mode: Mode) {
        if !mode.writes() {
            return self.enter_reader(segments, inside);
        }
        let kind = self.user.kind;
        if mode == Mode::Concurrent {
            self.enter_beside(segments, inside);
        } else if kind == Kind::Author {
            self.enter_version(segments, inside);
        } else {
            self.enter_guard(segments, inside, kind == Kind::RefusedGuard);
        }
    }

    /// Enters a reader of these segments' copies.
    pub(super) fn enter_reader(&mut self, segments: &mut Segments<C>, inside: &[usize]) {
        let Some(&first) = inside.first() else { return };
        let memory = self.user.memory;
        for &i in inside {
            segments.get_mut(i).replica_mut(memory);
        }
        // A set is joined only if it belongs to exactly these segments. Joining a wider one would make writers
        // of the rest wait for this reader; joining a narrower one would hide it from writers of what is not in
        // the set.
        let joins = |id: &&ReadSetId| {
            let read_set = &self.read_sets[id.0 as usize];
            let covers =
                |&i: &usize| segments.get(i).replica(memory).is_some_and(|r| r.read_sets.contains(id));
            read_set.takes_readers_of(inside.len()) && (inside.len() == 1 || inside.iter().all(covers))
        };
        let shared =
            segments.get(first).replica(memory).and_then(|r| r.read_sets.iter().find(joins).copied());
        // A set that covers these segments is on the first of them, so it is enough to search there.
        let id = shared.unwrap_or_else(|| {
            let id = ReadSetId(self.read_sets.insert(ReadSet::new(inside.len())) as u32);
            for &i in inside {
                segments.get_mut(i).replica_mut(memory).read_sets.push(id);
            }
            Record::read_set(self.record, id);
            id
        });
        self.join(id);
    }

    #[inline(always)]
    fn join(&mut self, id: ReadSetId) {
        self.read_sets[id.0 as usize].join(self.user.realm);
        self.joined = Some(id);
        Record::reader(self.record, id, self.user.node);
    }

    /// Enters a node as the last to write these segments' copies.
    pub(super) fn enter_writer(&mut self, segments: &mut Segments<C>, inside: &[usize]) {
        // Earlier users need not be remembered: this node comes after all of them, and later users come after
        // it. So a copy keeps one writer and the readers since, however long its history is.
        for &i in inside {
            let replica = segments.get_mut(i).replica_mut(self.user.memory);
            self.write(replica);
        }
    }

    /// Enters a node that comes after all earlier users and before all later ones, but writes nothing.
    pub(super) fn enter_step(&mut self, segments: &mut Segments<C>, inside: &[usize]) {
        // `fails_with` stays: the data is still that of the node that wrote it, and so is its failure.
        for &i in inside {
            let replica = segments.get_mut(i).replica_mut(self.user.memory);
            replica.writer = Some(self.user.node);
            replica.leave_read_sets(self.read_sets);
        }
    }

    #[inline(always)]
    fn write(&mut self, replica: &mut Replica) {
        replica.writer = Some(self.user.node);
        replica.fails_with = Some(self.user.node);
        // A new version, or a transfer from the newest: either way this copy no longer depends on what a guard
        // does.
        replica.valid_unless = None;
        replica.valid = true;
        replica.leave_read_sets(self.read_sets);
        replica.beside.clear();
    }

    /// Enters a group that writes these segments beside others. It makes no version of its own: what there is afterwards is of all of
    /// them, and unusable if one of them fails.
    #[cold]
    fn enter_beside(&mut self, segments: &mut Segments<C>, inside: &[usize]) {
        let User { node, memory, .. } = self.user;
        for &i in inside {
            let segment = segments.get_mut(i);
            let replica = segment.replica_mut(memory);
            replica.beside.push(node);
            if matches!(segment.content, Content::Never) {
                segment.forget_clears();
                segment.replica_mut(memory).valid = true;
                segment.content = Content::Written;
            }
        }
    }

    /// Makes a group the author of a new version of these segments: all other copies are stale from here on.
    fn enter_version(&mut self, segments: &mut Segments<C>, inside: &[usize]) {
        self.enter_writer(segments, inside);
        for &i in inside {
            let segment = segments.get_mut(i);
            segment.become_version_of(self.user.node, self.causes);
            for replica in &mut segment.replicas {
                // Copies that are valid again only if a guard does not write go stale too: this version is newer
                // than the guard's, whichever way that ends.
                let written = replica.memory == self.user.memory;
                (replica.valid_unless, replica.cleared) = (None, false);
                replica.valid = written;
                if written {
                    replica.last_group = Some(self.user.node);
                }
            }
        }
    }

    /// Enters a guard that may write these segments: later users count on the heap's copy, and the others are
    /// kept in reserve. A guard that is refused already only takes its place in the order.
    #[cold]
    fn enter_guard(&mut self, segments: &mut Segments<C>, inside: &[usize], refused: bool) {
        let User { node, memory: heap, .. } = self.user;
        for &i in inside {
            let segment = segments.get_mut(i);
            let replica = segment.replica_mut(heap);
            replica.writer = Some(node);
            replica.last_group = Some(node);
            replica.leave_read_sets(self.read_sets);
            // It will not write, so the copies stay as they are. Later users still come after it here, and
            // through it after the readers whose sets have just been left.
            if refused {
                continue;
            }
            // `fails_with` is left alone: a guard has no failure of its own, and later readers share the one of the data
            // that it was given.
            replica.valid = true;
            segment.guards.push(node);
            // Bytes that were never written read as zeros in the heap too, so no copy of them is needed in reserve.
            let written = matches!(segment.content, Content::Written);
            segment.forget_clears();
            segment.content.become_other(Content::Written, self.causes);
            // Copies in reserve for an earlier guard are not valid now, and are left to that one: when it ends
            // without having written it passes them on to this guard (`Segment::end_guard`).
            for replica in segment.replicas.iter_mut().filter(|r| r.valid && r.memory != heap) {
                replica.valid = false;
                replica.valid_unless = written.then_some(node);
            }
        }
    }
}

/// Guards conflict by region, whatever memory the other side works in.
#[cold]
pub(super) fn guards_ahead(guards: &[(NodeId, Box3, bool)], bounds: &Box3, writes: bool, preds: &mut Preds) {
    for &(guard, held, exclusive) in guards {
        if (exclusive || writes) && held.overlaps(bounds) {
            preds.node(Some(guard), NOTHING);
        }
    }
}
