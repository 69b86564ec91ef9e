//! What a use of a segment must come after, and what it leaves for those that come after it.

use slab::Slab;
use smallvec::SmallVec;

use super::boxes::Box3;
use super::edges::{DATA, NOTHING};
use super::ids::MemoryId;
use super::record::Record;
use super::segments::{Content, Replica, Segment, Segments};
use super::{Engine, Mode, NodeId, ReadSet, ReadSetId, Realm, Shell, Turn};

/// The predecessors of a node that is being planned.
#[derive(Debug, Default)]
pub(super) struct Preds {
    /// Nodes, and whether failure comes along: [`DATA`], [`EVENT`](super::edges::EVENT) or none.
    pub(super) nodes: SmallVec<[(NodeId, u8); 4]>,
    pub(super) read_sets: SmallVec<[ReadSetId; 4]>,
}

impl Preds {
    pub(super) fn clear(&mut self) {
        self.nodes.clear();
        self.read_sets.clear();
    }

    #[inline]
    pub(super) fn node(&mut self, id: Option<NodeId>, carries: u8) {
        let Some(id) = id else { return };
        // The common case, several boxes of one history, is caught here; the rest by `settle_duplicates`.
        match self.nodes.last_mut() {
            Some((last, also)) if *last == id => *also |= carries,
            _ => self.nodes.push((id, carries)),
        }
    }

    #[inline]
    fn read_set(&mut self, id: ReadSetId) {
        if self.read_sets.last() != Some(&id) {
            self.read_sets.push(id);
        }
    }

    /// Comes after all readers of a read set. It is closed here and now: whoever reads later, and be it the same group
    /// elsewhere, is not among them.
    pub(super) fn after_read_set(&mut self, id: ReadSetId, read_sets: &mut Slab<ReadSet>) {
        let read_set = &mut read_sets[id.0 as usize];
        if !read_set.is_over() {
            read_set.closed = true;
            self.read_set(id);
        }
    }

    /// Leaves each predecessor once, with all that its edges carry.
    #[inline]
    pub(super) fn settle_duplicates(&mut self) {
        if self.nodes.len() > 1 || self.read_sets.len() > 1 {
            self.sort();
        }
    }

    #[inline(never)]
    fn sort(&mut self) {
        if self.nodes.len() > 1 {
            self.nodes.sort_unstable_by_key(|(id, _)| id.sort_key());
            self.nodes.dedup_by(|(id, carries), (kept, also)| {
                *also |= if id == kept { *carries } else { NOTHING };
                id == kept
            });
        }
        if self.read_sets.len() > 1 {
            self.read_sets.sort_unstable_by_key(|e| e.0);
            self.read_sets.dedup();
        }
    }
}

impl<S: Shell> Engine<S> {
    /// Room for the predecessors of a node, to be given back.
    pub(super) fn take_scratch(&mut self) -> Box<Preds> {
        let mut preds = self.scratch.take().unwrap_or_default();
        preds.clear();
        preds
    }

    /// An entry of segments that were taken out of their root.
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

/// Who uses segments, and where.
#[derive(Clone, Copy, Debug)]
pub(super) struct User {
    pub(super) node: NodeId,
    pub(super) realm: Realm,
    pub(super) memory: MemoryId,
    pub(super) kind: Kind,
}

/// What a user's writes make of it.
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
    /// Why what is written anew had failed.
    pub(super) causes: &'e mut Vec<C>,
    /// The read set that the user reads in.
    pub(super) joined: Option<ReadSetId>,
}

impl<C: Clone + PartialEq> Entry<'_, C> {
    /// Adds what a use of this segment comes after.
    pub(super) fn hazards(&mut self, segment: &Segment<C>, mode: Mode) {
        for replica in &segment.replicas {
            if replica.memory == self.user.memory {
                self.hazards_of(replica, mode);
            }
        }
    }

    /// Adds what a use of this copy comes after: its last writer, and for a write the readers since. Failure comes along
    /// if the use reads.
    #[inline(always)]
    fn hazards_of(&mut self, replica: &Replica, mode: Mode) {
        if mode.reads() {
            self.preds.node(replica.fails_with, DATA);
            // A guard holds back those who read what it may write, and has no failure that they could share.
            if replica.writer != replica.fails_with {
                self.preds.node(replica.writer, NOTHING);
            }
        }
        if !mode.writes() {
            return;
        }
        if replica.read_sets.is_empty() {
            self.preds.node(replica.writer, NOTHING);
        } else {
            // The readers stand between: each of them is behind that writer.
            replica.read_sets.iter().for_each(|e| self.preds.after_read_set(*e, self.read_sets));
        }
    }

    /// Collects what the use of a whole segment comes after, and enters it, where that is simple: the only copy is the
    /// user's own, and a reader finds a read set to join. Says whether it was.
    #[inline]
    pub(super) fn use_alone(&mut self, segment: &mut Segment<C>, mode: Mode) -> bool {
        let [replica] = &mut segment.replicas[..] else { return false };
        if replica.memory != self.user.memory || self.user.kind != Kind::Author {
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

    /// Leaves the use as what later uses come after.
    #[inline]
    pub(super) fn enter(&mut self, segments: &mut Segments<C>, inside: &[usize], mode: Mode) {
        if !mode.writes() {
            return self.enter_reader(segments, inside);
        }
        let kind = self.user.kind;
        if kind == Kind::Author {
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
        let joins = |id: &&ReadSetId| {
            let read_set = &self.read_sets[id.0 as usize];
            let covers =
                |&i: &usize| segments.get(i).replica(memory).is_some_and(|r| r.read_sets.contains(id));
            read_set.takes_readers_of(inside.len()) && (inside.len() == 1 || inside.iter().all(covers))
        };
        let shared =
            segments.get(first).replica(memory).and_then(|r| r.read_sets.iter().find(joins).copied());
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

    /// Enters a node as the last to write these segments' copies: earlier users are behind it now.
    pub(super) fn enter_writer(&mut self, segments: &mut Segments<C>, inside: &[usize]) {
        for &i in inside {
            let replica = segments.get_mut(i).replica_mut(self.user.memory);
            self.write(replica);
        }
    }

    /// Enters a node that earlier users are behind, and later ones before, and that writes nothing.
    pub(super) fn enter_step(&mut self, segments: &mut Segments<C>, inside: &[usize]) {
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
        replica.valid_unless = None;
        replica.valid = true;
        replica.leave_read_sets(self.read_sets);
    }

    /// Makes a group the author of a new version of these segments: all other copies are stale from here on.
    fn enter_version(&mut self, segments: &mut Segments<C>, inside: &[usize]) {
        self.enter_writer(segments, inside);
        for &i in inside {
            let segment = segments.get_mut(i);
            segment.become_version_of(self.user.node, self.causes);
            for replica in &mut segment.replicas {
                let written = replica.memory == self.user.memory;
                (replica.valid_unless, replica.cleared) = (None, false);
                replica.valid = written;
                if written {
                    replica.last_group = Some(self.user.node);
                }
            }
        }
    }

    /// Enters a guard that may write these segments: what comes later counts on the heap's copy, and the others stay in
    /// reserve. One that is refused already only takes its place in the order.
    #[cold]
    fn enter_guard(&mut self, segments: &mut Segments<C>, inside: &[usize], refused: bool) {
        let User { node, memory: heap, .. } = self.user;
        for &i in inside {
            let segment = segments.get_mut(i);
            let replica = segment.replica_mut(heap);
            replica.writer = Some(node);
            replica.last_group = Some(node);
            replica.leave_read_sets(self.read_sets);
            if refused {
                continue;
            }
            replica.valid = true;
            segment.guards.push(node);
            // Zeros that nobody has written are as good in the heap as anywhere.
            let written = matches!(segment.content, Content::Written);
            segment.forget_clears();
            segment.content.become_other(Content::Written, self.causes);
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
