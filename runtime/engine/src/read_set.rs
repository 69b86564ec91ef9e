//! Readers between two writes: one read set, which a writer waits for as a whole.
//!
//! A writer behind 100,000 readers costs one entry. The read set counts its readers per realm, because what a writer
//! needs of them differs: of those in its own native context that they have been fed (then it waits for the last
//! point per lane), of all others that they have settled (through a proxy).
//!
//! A read set belongs to one replica and to the set of segments its readers read. A reader of other segments
//! starts another read set, so that no writer waits for readers of bytes it does not touch. Once a writer waits
//! for it, a read set is closed: later readers belong to a later version.

use slab::Slab;
use smallvec::SmallVec;

use super::heirs::LastReader;
use super::links::NONE;
use super::points::LastPoints;
use super::{NodeId, ProxyId, Realm};

/// A read set's place in the engine's table; it lives as long as a segment or an unsettled reader refers to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct ReadSetId(pub(super) u32);

/// The readers of one realm.
#[derive(Debug)]
pub(super) struct Readers {
    pub(super) realm: Realm,
    pub(super) unfed: u32,
    pub(super) unsettled: u32,
    /// The last point per lane among those that were fed.
    pub(super) last: LastPoints,
    /// Readers that have passed and wait for the verdicts of what they read, and that the host did not wait for
    /// then; some may have settled since.
    pub(super) late: Vec<NodeId>,
    /// Edges to writers of this realm that wait until all are fed.
    pub(super) waiting: u32,
    /// Proxies that wait until all have settled.
    pub(super) proxies: SmallVec<[(Realm, ProxyId); 1]>,
}

/// See the module documentation.
#[derive(Debug)]
pub(super) struct ReadSet {
    pub(super) groups: SmallVec<[Readers; 1]>,
    /// How many segments refer to it.
    pub(super) segments: u32,
    pub(super) unsettled: u32,
    pub(super) closed: bool,
    /// The host waits for its end.
    pub(super) wanted: bool,
    pub(super) last_reader: LastReader,
}

impl ReadSet {
    pub(super) fn new(segments: usize) -> Self {
        ReadSet {
            groups: SmallVec::new(),
            segments: segments as u32,
            unsettled: 0,
            closed: false,
            wanted: false,
            last_reader: LastReader::Nobody,
        }
    }

    /// Whether a reader of this many segments, each of which refers to this read set, may join.
    #[inline]
    pub(super) fn takes_readers_of(&self, segments: usize) -> bool {
        // All its segments refer to the set, and there are as many as refer to the set: so they are the same
        // ones, and a writer of any of them overlaps every reader.
        !self.closed && self.segments as usize == segments
    }

    /// All its readers have settled.
    #[inline]
    pub(super) fn is_over(&self) -> bool {
        self.unsettled == 0
    }

    #[inline]
    pub(super) fn group(&mut self, realm: Realm) -> &mut Readers {
        match self.groups.first() {
            Some(first) if first.realm == realm => &mut self.groups[0],
            _ => self.find_group(realm),
        }
    }

    #[inline(never)]
    fn find_group(&mut self, realm: Realm) -> &mut Readers {
        let at = self.groups.iter().position(|g| g.realm == realm).unwrap_or_else(|| {
            self.groups.push(Readers {
                realm,
                unfed: 0,
                unsettled: 0,
                last: SmallVec::new(),
                late: Vec::new(),
                waiting: NONE,
                proxies: SmallVec::new(),
            });
            self.groups.len() - 1
        });
        &mut self.groups[at]
    }

    #[inline]
    pub(super) fn join(&mut self, realm: Realm) {
        self.unsettled += 1;
        let group = self.group(realm);
        group.unfed += 1;
        group.unsettled += 1;
    }

    /// A segment no longer refers to it.
    pub(super) fn leave(id: ReadSetId, read_sets: &mut Slab<ReadSet>) {
        let read_set = &mut read_sets[id.0 as usize];
        read_set.segments -= 1;
        // Unsettled readers still refer to it; the last of them removes it when it settles (`leave_read_set`).
        if read_set.segments == 0 && read_set.is_over() {
            read_sets.remove(id.0 as usize);
        }
    }
}
