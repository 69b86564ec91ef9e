//! A root's partition into segments: boxes whose bytes share one history.
//!
//! The segments are disjoint and cover the root. An access splits the segments that cross its border, changes
//! the state of those inside, and joins segments that have become equal. On a line the segments are sorted and
//! found by bisection; grids are scanned. A buffer that is used as a whole has one segment.

use std::hint::cold_path;

use slab::Slab;
use smallvec::SmallVec;

use super::boxes::Box3;
use super::ids::{MemoryId, Table};
use super::read_set::{ReadSet, ReadSetId};
use super::{Node, NodeId, NodeTag, Shell};

/// What is known of the newest version of a segment's bytes.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Content<C> {
    /// They were never written: they read as zeros everywhere, and are never moved.
    Never,
    /// Some replica holds them, or will.
    Written,
    /// The group that should have written them failed.
    Poisoned(C),
}

impl<C> Content<C> {
    /// Replaces the content. If it was poisoned, the cause goes to `causes`.
    #[inline]
    pub(super) fn become_other(&mut self, other: Content<C>, causes: &mut Vec<C>) {
        if let Content::Poisoned(cause) = std::mem::replace(self, other) {
            cold_path();
            // Not dropped here: the cause may be the user's own error, whose drop is foreign code.
            causes.push(cause);
        }
    }

    /// Why the data is missing, if it is poisoned.
    pub(super) fn poison(&self) -> Option<&C> {
        match self {
            Content::Poisoned(cause) => Some(cause),
            _ => None,
        }
    }
}

/// One memory's copy of a segment.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Replica {
    pub(super) memory: MemoryId,
    /// Holds the newest version, or will once all that is planned has run.
    pub(super) valid: bool,
    /// For bytes that were never written: this copy has been cleared, or will be. Not needed where fresh memory
    /// is zeroed.
    pub(super) cleared: bool,
    /// It held the newest version until this guard was planned, which may still write a newer one. If the guard
    /// ends without having written, this copy is valid again.
    pub(super) valid_unless: Option<NodeId>,
    /// The last node to write this copy, transfers included, until it settles.
    pub(super) writer: Option<NodeId>,
    /// The same without guards: the node that this copy fails with. A guard that has its memory does not fail,
    /// and one that never had it wrote nothing.
    pub(super) fails_with: Option<NodeId>,
    /// The last *group* (not transfer) to write this copy, until it settles. Guards wait for it.
    pub(super) last_group: Option<NodeId>,
    /// Readers of this copy since then.
    pub(super) read_sets: SmallVec<[ReadSetId; 1]>,
    /// Groups that have been writing it since then beside each other, until they settle.
    pub(super) beside: Vec<NodeId>,
}

impl Replica {
    fn new(memory: MemoryId, valid: bool) -> Self {
        Replica {
            memory,
            valid,
            cleared: false,
            valid_unless: None,
            writer: None,
            fails_with: None,
            last_group: None,
            read_sets: SmallVec::new(),
            beside: Vec::new(),
        }
    }

    /// A replica with no history is the same as none: stale once written, valid while never written.
    fn is_needed(&self, never_written: bool) -> bool {
        self.has_users() || self.valid && !never_written || self.cleared && never_written
    }

    /// Forgets the readers: a later user now comes after them.
    pub(super) fn leave_read_sets(&mut self, read_sets: &mut Slab<ReadSet>) {
        if !self.read_sets.is_empty() {
            self.read_sets.drain(..).for_each(|read_set| ReadSet::leave(read_set, read_sets));
        }
    }

    fn has_users(&self) -> bool {
        self.writer.is_some()
            || self.last_group.is_some()
            || self.fails_with.is_some()
            || self.valid_unless.is_some()
            || !self.read_sets.is_empty()
            || !self.beside.is_empty()
    }

    /// Forgets those who wrote it beside each other and have settled. Not each time that one of many comes: that would look through all of
    /// them for each.
    fn forget_beside(&mut self, is_live: impl Fn(&NodeId) -> bool) {
        let Some(last) = self.beside.last() else { return };
        if !is_live(last) || self.beside.len() < FEW || self.beside.len().is_power_of_two() {
            self.beside.retain(is_live);
        }
    }
}

/// How many nodes may be looked through at each use.
const FEW: usize = 8;

/// Where the newest version of a segment can be had.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Source {
    pub(super) memory: MemoryId,
    /// The node that writes this copy, until it settles: a reader of this copy fails with it. It is the author,
    /// or a transfer, which has one such source itself.
    pub(super) pending: Option<NodeId>,
}

impl Source {
    pub(super) fn sort_key(&self) -> (MemoryId, Option<(u32, u32)>) {
        (self.memory, self.pending.map(NodeId::sort_key))
    }
}

/// A box with one history.
#[derive(Clone, Debug)]
pub(super) struct Segment<C> {
    pub(super) bounds: Box3,
    pub(super) content: Content<C>,
    /// The group that wrote the newest version, while it is not settled.
    pub(super) author: Option<NodeId>,
    /// Guards that came since and may still write it, in their order.
    pub(super) guards: Vec<NodeId>,
    pub(super) replicas: SmallVec<[Replica; 1]>,
}

impl<C> Segment<C> {
    /// A group has written it, or will.
    pub(super) fn become_version_of(&mut self, author: NodeId, causes: &mut Vec<C>) {
        self.content.become_other(Content::Written, causes);
        self.author = Some(author);
        if !self.guards.is_empty() {
            self.guards.clear();
        }
    }

    /// It counts as written from now on, so which copies were cleared no longer matters.
    pub(super) fn forget_clears(&mut self) {
        if matches!(self.content, Content::Never) {
            self.replicas.iter_mut().for_each(|replica| replica.cleared = false);
        }
    }
}

impl<C: Clone + PartialEq> Segment<C> {
    pub(super) fn replica(&self, memory: MemoryId) -> Option<&Replica> {
        self.replicas.iter().find(|r| r.memory == memory)
    }

    pub(super) fn replica_mut(&mut self, memory: MemoryId) -> &mut Replica {
        let at = self.replicas.iter().position(|r| r.memory == memory).unwrap_or_else(|| {
            let valid = matches!(self.content, Content::Never);
            self.replicas.push(Replica::new(memory, valid));
            self.replicas.len() - 1
        });
        &mut self.replicas[at]
    }

    /// Whether its lists may have grown: if not, there is nothing to forget that takes up memory.
    pub(super) fn needs_tidying(&self) -> bool {
        !matches!(&self.replicas[..], [only] if only.read_sets.len() <= 1 && only.beside.is_empty())
    }

    /// Whether a reader in this memory needs a transfer first.
    pub(super) fn is_stale(&self, memory: MemoryId) -> bool {
        matches!(self.content, Content::Written) && !self.replica(memory).is_some_and(|r| r.valid)
    }

    /// Whether a reader in this memory, where fresh allocations are not zeroed, needs a clear first.
    pub(super) fn is_rubbish(&self, memory: MemoryId) -> bool {
        matches!(self.content, Content::Never) && !self.replica(memory).is_some_and(|r| r.cleared)
    }

    /// Whether somebody has written it, and this memory holds that, or will.
    pub(super) fn is_current_in(&self, memory: MemoryId) -> bool {
        matches!(self.content, Content::Written) && self.replica(memory).is_some_and(|r| r.valid)
    }

    /// What holds the newest version, or will.
    pub(super) fn sources(&self) -> impl Iterator<Item = Source> {
        self.replicas.iter().filter(|r| r.valid).map(|r| Source { memory: r.memory, pending: r.fails_with })
    }

    /// No replica holds the newest version.
    pub(super) fn is_nowhere(&self) -> bool {
        !self.replicas.iter().any(|r| r.valid)
    }

    /// What some memories hold is lost. Written data that is nowhere else is poisoned with the cause.
    pub(super) fn lose_copies(&mut self, is_lost: impl Fn(MemoryId) -> bool, cause: &C, causes: &mut Vec<C>) {
        for copy in self.replicas.iter_mut().filter(|copy| is_lost(copy.memory)) {
            (copy.valid, copy.valid_unless, copy.cleared) = (false, None, false);
        }
        if matches!(self.content, Content::Written) && self.is_nowhere() {
            self.content.become_other(Content::Poisoned(cause.clone()), causes);
        }
    }

    /// A memory has no copy any more; nobody uses it.
    pub(super) fn forget_copy(&mut self, memory: MemoryId, read_sets: &mut Slab<ReadSet>) {
        for replica in self.replicas.iter_mut().filter(|replica| replica.memory == memory) {
            replica.leave_read_sets(read_sets);
        }
        self.replicas.retain(|replica| replica.memory != memory);
    }

    /// A guard has ended. If it `wrote`, the copies kept in reserve for it are stale for good. If not, they are
    /// valid again, or stay in reserve for the next guard.
    pub(super) fn end_guard(&mut self, guard: NodeId, wrote: bool) {
        // A group that wrote the segment since has cleared the list: what the guard did no longer matters then.
        let Some(at) = self.guards.iter().position(|g| *g == guard) else { return };
        self.guards.remove(at);
        let next = self.guards.get(at).copied().filter(|_| !wrote);
        for replica in self.replicas.iter_mut().filter(|r| r.valid_unless == Some(guard)) {
            replica.valid_unless = next;
            replica.valid |= next.is_none() && !wrote;
        }
    }

    /// The copy that the guards were to have has not arrived, so none of them writes: all copies in reserve are
    /// valid again.
    pub(super) fn end_guards(&mut self) {
        self.guards.clear();
        for replica in &mut self.replicas {
            replica.valid |= replica.valid_unless.take().is_some();
        }
    }

    /// Equal apart from their bounds. One of two equal segments may be dropped at once: the other keeps the cause.
    fn same_state(&self, other: &Self) -> bool {
        self.author == other.author
            && self.content == other.content
            && self.replicas == other.replicas
            && self.guards == other.guards
    }
}

/// The partition of one root.
#[derive(Debug, Clone)]
pub(super) struct Segments<C> {
    /// Most roots have one history as a whole.
    list: SmallVec<[Segment<C>; 1]>,
    line: bool,
}

/// Positions of segments in the partition.
pub(super) type Inside = SmallVec<[usize; 4]>;

impl<C> Default for Segments<C> {
    fn default() -> Self {
        Segments { list: SmallVec::new(), line: true }
    }
}

impl<C: Clone + PartialEq> Segments<C> {
    /// The partition of a root whose content is in this memory, or in none if it was never written.
    pub(super) fn new(extent: Box3, memory: Option<MemoryId>) -> Self {
        let line = extent.hi[0] - extent.lo[0] <= 1 && extent.hi[1] - extent.lo[1] <= 1;
        let (content, replicas) = match memory {
            Some(memory) => (Content::Written, SmallVec::from_iter([Replica::new(memory, true)])),
            None => (Content::Never, SmallVec::new()),
        };
        let list = match extent.is_empty() {
            true => SmallVec::new(),
            false => SmallVec::from_iter([Segment {
                bounds: extent,
                content,
                author: None,
                guards: Vec::new(),
                replicas,
            }]),
        };
        Segments { list, line }
    }

    pub(super) fn len(&self) -> usize {
        self.list.len()
    }

    pub(super) fn get(&self, at: usize) -> &Segment<C> {
        &self.list[at]
    }

    pub(super) fn get_mut(&mut self, at: usize) -> &mut Segment<C> {
        &mut self.list[at]
    }

    /// Segments that share a byte with `bounds`.
    pub(super) fn overlapping(&self, bounds: &Box3) -> Inside {
        // This runs several times for every access of every group: plain pushes cost a fraction of a `collect`.
        let mut inside = Inside::new();
        if let [only] = &self.list[..] {
            if only.bounds.overlaps(bounds) {
                inside.push(0);
            }
        } else if self.line && !bounds.is_empty() {
            let mut at = self.list.partition_point(|c| c.bounds.hi[2] <= bounds.lo[2]);
            while at < self.list.len() && self.list[at].bounds.lo[2] < bounds.hi[2] {
                inside.push(at);
                at += 1;
            }
        } else if !self.line {
            inside.extend((0..self.list.len()).filter(|&i| self.list[i].bounds.overlaps(bounds)));
        }
        inside
    }

    /// The one segment of a root that has one history, as most have.
    pub(super) fn only(&self) -> Option<&Segment<C>> {
        match &self.list[..] {
            [only] => Some(only),
            _ => None,
        }
    }

    /// See [`Segments::only`].
    pub(super) fn only_mut(&mut self) -> Option<&mut Segment<C>> {
        match &mut self.list[..] {
            [only] => Some(only),
            _ => None,
        }
    }

    /// Whether a reader in `memory` has all that it needs there, or will; for roots of one history, without a search.
    pub(super) fn is_at_hand(&self, memory: MemoryId, zeroed: bool) -> bool {
        self.only().is_some_and(|segment| {
            segment.content.poison().is_none()
                && !segment.is_stale(memory)
                && (zeroed || !segment.is_rubbish(memory))
        })
    }

    /// Splits segments so that each lies inside `bounds` or outside, and says which lie inside.
    pub(super) fn carve(&mut self, bounds: &Box3, read_sets: &mut Slab<ReadSet>) -> Inside {
        let touched = self.overlapping(bounds);
        if touched.iter().all(|&i| bounds.contains(&self.list[i].bounds)) {
            return touched;
        }
        // From the last to the first: on a line the pieces are inserted beside the segment they were cut from,
        // which moves only positions that have been dealt with.
        for &i in touched.iter().rev() {
            let segment = &mut self.list[i];
            if bounds.contains(&segment.bounds) {
                continue;
            }
            let inside = segment.bounds.intersection(bounds);
            let outside = segment.bounds.without(&inside);
            segment.bounds = inside;
            for outside in outside.into_iter().rev() {
                // The piece has the same history, so it refers to the same read sets. Their count says from now
                // on that they belong to more segments than either part, which keeps readers of one part from
                // joining.
                let piece = Segment { bounds: outside, ..self.list[i].clone() };
                for read_set in piece.replicas.iter().flat_map(|r| &r.read_sets) {
                    read_sets[read_set.0 as usize].segments += 1;
                }
                match self.line {
                    true => self.list.insert(i + usize::from(outside.lo[2] > inside.lo[2]), piece),
                    false => self.list.push(piece),
                }
            }
        }
        self.overlapping(bounds)
    }

    /// Forgets what has settled in these segments, and joins those that have become equal.
    pub(super) fn tidy<S: Shell<Cause = C>>(
        &mut self,
        inside: &[usize],
        nodes: &Table<NodeTag, Node<S>>,
        read_sets: &mut Slab<ReadSet>,
    ) {
        // Forgetting comes first: segments that differ in nothing but nodes that are gone become equal by it.
        for &i in inside {
            forget_settled(&mut self.list[i], nodes, read_sets);
        }
        if self.list.len() <= 1 {
            return;
        }
        if self.line {
            let (first, last) = match (inside.first(), inside.last()) {
                (Some(&first), Some(&last)) => (first.saturating_sub(1), (last + 1).min(self.list.len() - 1)),
                _ => return,
            };
            for edge in [first, last] {
                forget_settled(&mut self.list[edge], nodes, read_sets);
            }
            self.join_line(first, last, read_sets);
        } else {
            self.join_grid(inside, read_sets);
        }
    }

    fn join_line(&mut self, first: usize, last: usize, read_sets: &mut Slab<ReadSet>) {
        let mut keep = first;
        for i in first + 1..=last {
            let (head, tail) = self.list.split_at_mut(i);
            if head[keep].same_state(&tail[0]) {
                head[keep].bounds.hi[2] = tail[0].bounds.hi[2];
                leave_read_sets(&tail[0], read_sets);
            } else {
                keep += 1;
                self.list.swap(keep, i);
            }
        }
        self.list.drain(keep + 1..=last);
    }

    /// Joins pairs of equal segments, of which one was touched, until there are none: a segment that was cut for an access
    /// grows back together with its surroundings once they share a history again.
    fn join_grid(&mut self, inside: &[usize], read_sets: &mut Slab<ReadSet>) {
        let mut grown: SmallVec<[Box3; 4]> = inside.iter().map(|&i| self.list[i].bounds).collect();
        // Boxes arranged like a pinwheel cannot be joined in pairs, but all at once they can.
        if let (true, Some(hull)) = (inside.len() > 2, hull(&grown)) {
            let first = &self.list[inside[0]];
            if inside.iter().all(|&i| self.list[i].same_state(first)) {
                for &i in inside[1..].iter().rev() {
                    leave_read_sets(&self.list[i], read_sets);
                    self.list.swap_remove(i);
                }
                self.list[inside[0]].bounds = hull;
                grown = SmallVec::from_iter([hull]);
            }
        }
        while let Some(bounds) = grown.pop() {
            let Some(i) = self.list.iter().position(|c| c.bounds == bounds) else { continue };
            let segment = &self.list[i];
            let partner = self.list.iter().enumerate().find_map(|(j, other)| {
                let both = segment.bounds.joined(&other.bounds)?;
                (i != j && segment.same_state(other)).then_some((j, both))
            });
            if let Some((j, both)) = partner {
                leave_read_sets(&self.list[j], read_sets);
                self.list[i].bounds = both;
                self.list.swap_remove(j);
                grown.push(both);
            }
        }
    }

    /// The root is going: its segments leave their read sets, and the causes of their failures go to `causes`.
    pub(super) fn clear(&mut self, read_sets: &mut Slab<ReadSet>, causes: &mut Vec<C>) {
        for mut segment in self.list.drain(..) {
            leave_read_sets(&segment, read_sets);
            segment.content.become_other(Content::Never, causes);
        }
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Segment<C>> {
        self.list.iter()
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Segment<C>> {
        self.list.iter_mut()
    }
}

/// The box that these disjoint boxes fill, if they fill one.
fn hull(boxes: &[Box3]) -> Option<Box3> {
    let (first, rest) = boxes.split_first()?;
    let all = rest.iter().fold(*first, |all, b| Box3 {
        lo: [0, 1, 2].map(|d| all.lo[d].min(b.lo[d])),
        hi: [0, 1, 2].map(|d| all.hi[d].max(b.hi[d])),
    });
    (boxes.iter().map(Box3::volume).sum::<usize>() == all.volume()).then_some(all)
}

fn forget_settled<S: Shell>(
    segment: &mut Segment<S::Cause>,
    nodes: &Table<NodeTag, Node<S>>,
    read_sets: &mut Slab<ReadSet>,
) {
    // All fields often name the group that has just been entered: it is looked up once.
    let known = segment.author.filter(|id| nodes.contains(*id));
    let live = |id: Option<NodeId>| id.filter(|id| known == Some(*id) || nodes.contains(*id));
    segment.author = known;
    let never = matches!(segment.content, Content::Never);
    let mut all_needed = true;
    for replica in &mut segment.replicas {
        replica.writer = live(replica.writer);
        replica.fails_with = live(replica.fails_with);
        replica.last_group = live(replica.last_group);
        replica.forget_beside(|id| nodes.contains(*id));
        if !replica.read_sets.is_empty() {
            replica.read_sets.retain(|read_set| {
                let over = read_sets[read_set.0 as usize].is_over();
                if over {
                    ReadSet::leave(*read_set, read_sets);
                }
                !over
            });
        }
        all_needed &= replica.is_needed(never);
    }
    if !all_needed {
        segment.replicas.retain(|r| r.is_needed(never));
    }
    // Replicas are compared as a list, so they are kept in one order.
    if segment.replicas.len() > 1 {
        segment.replicas.sort_unstable_by_key(|r| r.memory);
    }
}

fn leave_read_sets<C>(segment: &Segment<C>, read_sets: &mut Slab<ReadSet>) {
    for read_set in segment.replicas.iter().flat_map(|r| &r.read_sets) {
        ReadSet::leave(*read_set, read_sets);
    }
}
