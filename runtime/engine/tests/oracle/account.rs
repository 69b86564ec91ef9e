//! The independent account: for every single element, who used which copy, which copies are current, and who must
//! come after whom (decision 4), fail with whom (decision 3), and move what (decision 5). Nothing is shared with the
//! engine but its answers.

mod copies;
mod ends;
mod evicted;
mod guards;
mod swap;

use windlass_engine::{Allocate, HEAP, Outcome, Step, Transfer};

use super::Fault;
use super::fewest::fewest;
use super::program::{Kind, Need, Program};
use super::world::Fate;

/// A set of nodes, by their position among all that were planned.
pub(super) type Set = u128;

/// The most nodes that a set holds.
pub(super) const MOST: usize = 128;

pub(super) const fn bit(node: usize) -> Set {
    1 << node
}

fn members(mut set: Set) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        (set != 0).then(|| {
            let first = set.trailing_zeros() as usize;
            set &= set - 1;
            first
        })
    })
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Content {
    Never,
    Written,
    /// By one of these.
    Poisoned(Set),
    /// Its only copy was in a context that is lost.
    Lost,
}

#[derive(Clone, Copy, Debug, Default)]
struct Users {
    readers: Set,
    writers: Set,
    last: Option<usize>,
    /// Those who write it beside each other, and which of them since it was last written by one alone.
    beside: Set,
    fresh: Set,
    /// Whose version this copy holds, and the steps of transfers that brought it here.
    lineage: Set,
    /// Nobody has written the element, and here it was cleared, or will be.
    cleared: bool,
}

#[derive(Clone, Debug)]
struct Element {
    content: Content,
    author: Option<usize>,
    /// Memories that hold the newest version, or will.
    current: u16,
    /// Guards that may still write it, in their order, and where it is current if neither they nor those after them do.
    pending: Vec<(usize, u16)>,
    /// By memory.
    users: Vec<Users>,
    /// Groups, in whatever memory.
    group_readers: Set,
    group_writers: Set,
    guard_readers: Set,
    guard_writers: Set,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum What {
    Item(usize),
    Copy(Transfer),
}

/// What is known of a node.
#[derive(Clone, Debug)]
pub(super) struct Node {
    pub(super) what: What,
    /// All that it must come after, directly or not.
    before: Set,
    /// All that the engine put before it, directly or not.
    engine: Set,
    /// Who wrote what it reads, and what brought just that: the lineage of every element, and nothing that a transfer
    /// has taken along beside it.
    reads: Set,
    /// Whose failure it was asked to share.
    shares: Set,
    /// Something it reads is gone with its context.
    reads_lost: bool,
    /// Elements it uses, for copies.
    pub(super) elements: Vec<usize>,
    pub(super) own_failure: bool,
    pub(super) cancelled: bool,
    pub(super) settled: Option<Outcome<u32>>,
    /// How it is going to end, if the engine has told that it will not run.
    pub(super) told: Option<Outcome<u32>>,
    /// Once it is settled.
    fate: Option<Fate>,
}

pub(super) struct Account<'a> {
    program: &'a Program,
    pub(super) needs: Vec<Vec<(usize, Need)>>,
    elements: Vec<Element>,
    pub(super) nodes: Vec<Node>,
    /// Settled nodes, and all that must have come before them.
    over: Set,
    by_item: Vec<Option<usize>>,
    last_in_queue: [Option<usize>; 2],
    /// Roots whose memory is with the host once all that is planned has run, and all steps that gave it to one of the two.
    with_host: Vec<bool>,
    steps: Vec<Set>,
    /// For which memory's sake the heap's allocation of a root was asked for.
    pinned: Vec<Option<usize>>,
    /// A copy to it there has failed, so that it may show what another root had there.
    exposed: Vec<bool>,
    /// Contexts that are lost.
    lost: Vec<usize>,
    pub(super) transfers: u64,
    pub(super) moved: u64,
    /// Nobody looks at edges, nor at what goes in one transfer: what is wrong has to show in data and outcomes.
    pub(super) blind: bool,
    /// Something was lost for want of room to come back to, which is the cause of those that read it.
    has_lost_aside: bool,
}

impl<'a> Account<'a> {
    pub(super) fn new(program: &'a Program) -> Self {
        // The heap, the program's, and the one for what is swapped out aside.
        let memories = program.memories.len() + 2;
        let elements = program.roots.iter().flat_map(|root| {
            let element = Element {
                content: if root.data { Content::Written } else { Content::Never },
                author: None,
                current: if root.data { 1 << root.home.unwrap_or(0) } else { 0 },
                pending: Vec::new(),
                users: vec![Users::default(); memories],
                group_readers: 0,
                group_writers: 0,
                guard_readers: 0,
                guard_writers: 0,
            };
            std::iter::repeat_n(element, root.len())
        });
        program.items.iter().for_each(|item| item.shown_in.set(Default::default()));
        Account {
            program,
            needs: (0..program.items.len()).map(|i| program.needs(i)).collect(),
            elements: elements.collect(),
            nodes: Vec::new(),
            over: 0,
            by_item: vec![None; program.items.len()],
            last_in_queue: [None; 2],
            with_host: vec![false; program.roots.len()],
            steps: vec![0; program.roots.len()],
            pinned: (0..program.roots.len()).map(|root| program.pinned_by(root)).collect(),
            exposed: vec![false; program.roots.len()],
            lost: Vec::new(),
            transfers: 0,
            moved: 0,
            has_lost_aside: false,
            blind: false,
        }
    }

    pub(super) fn node_of(&self, item: usize) -> Option<usize> {
        self.by_item[item]
    }

    pub(super) fn in_queue(&self, queue: usize) -> Option<usize> {
        self.last_in_queue[queue]
    }

    /// Whether a node reads what another has written or brought.
    pub(super) fn reads(&self, at: usize, other: usize) -> bool {
        self.nodes[at].reads & bit(other) != 0
    }

    fn node(what: What) -> Node {
        Node {
            what,
            before: 0,
            engine: 0,
            reads: 0,
            shares: 0,
            reads_lost: false,
            elements: Vec::new(),
            own_failure: false,
            cancelled: false,
            settled: None,
            told: None,
            fate: None,
        }
    }

    /// An item has been planned, and these transfers with it; `edges` are the engine's.
    pub(super) fn planned(
        &mut self,
        item: usize,
        copies: &[Transfer],
        edges: &[(usize, usize)],
        in_heap: Vec<bool>,
    ) -> Result<(), Fault> {
        let at = self.nodes.len();
        self.nodes.push(Self::node(What::Item(item)));
        for copy in copies {
            let mut node = Self::node(What::Copy(*copy));
            let root = copy.root.sort_key().0 as usize;
            let base = self.program.base(root);
            node.elements = self.program.roots[root].elements(&copy.bounds).map(|e| base + e).collect();
            self.nodes.push(node);
        }
        self.check_copies(item, at, copies, in_heap)?;
        let mut skip = false;
        for (i, copy) in copies.iter().enumerate() {
            if std::mem::take(&mut skip) {
                continue;
            }
            let reader = at + 1 + i;
            let staged = copy.step == Step::Download;
            self.enter_copy(reader, reader + usize::from(staged));
            skip = staged;
        }
        self.enter_item(item, at);
        self.by_item[item] = Some(at);
        self.check_edges(at, edges)
    }

    fn enter_item(&mut self, item: usize, at: usize) {
        let spec = &self.program.items[item];
        let guard = spec.kind == Kind::Guard;
        let (mut before, mut reads) = (0, 0);
        let refused = guard && self.is_refused(item);
        for root in self.used_roots(item) {
            before |= self.steps[root];
            self.nodes[at].shares |= self.steps[root];
            self.nodes[at].reads_lost |= self.is_home_lost(root);
        }
        for (e, need) in &self.needs[item] {
            let memory = self.program.memory_at(item, *e);
            let element = &mut self.elements[*e];
            let users = &mut element.users[memory];
            before |= users.writers | if need.new { users.readers } else { 0 };
            before |= if need.beside { 0 } else { users.beside };
            before |= element.guard_writers | if need.new { element.guard_readers } else { 0 };
            if guard {
                before |= element.group_writers | if need.new { element.group_readers } else { 0 };
            }
            if need.old {
                match element.content {
                    Content::Poisoned(by) => reads |= by,
                    Content::Lost => self.nodes[at].reads_lost = true,
                    Content::Written if element.current & 1 << memory != 0 => {
                        reads |= users.lineage | if need.beside { 0 } else { users.fresh };
                    }
                    Content::Never if users.cleared => reads |= users.lineage,
                    // It is doomed for something else, or fresh memory is as good.
                    Content::Written | Content::Never => {}
                }
            }
            let (readers, writers) = match guard {
                true => (&mut element.guard_readers, &mut element.guard_writers),
                false => (&mut element.group_readers, &mut element.group_writers),
            };
            if need.beside {
                users.beside |= bit(at);
                users.fresh |= bit(at);
                *writers |= bit(at);
                if element.content == Content::Never {
                    users.cleared = false;
                    (element.content, element.current) = (Content::Written, 1 << memory);
                }
            } else if need.new {
                users.writers |= bit(at);
                *writers |= bit(at);
                match guard {
                    true if refused => {}
                    true => {
                        if !need.old {
                            // It has its memory already, and cannot fail.
                            (users.lineage, users.last, users.cleared) = (0, None, false);
                            users.fresh = 0;
                        }
                        element.await_guard(at, memory);
                    }
                    false => {
                        users.last = Some(at);
                        users.lineage = bit(at);
                        (users.cleared, users.fresh) = (false, 0);
                        element.content = Content::Written;
                        element.author = Some(at);
                        element.current = 1 << memory;
                        element.pending.clear();
                    }
                }
            } else {
                users.readers |= bit(at);
                *readers |= bit(at);
            }
        }
        for (other, carries) in &spec.after {
            let Some(other) = self.by_item[*other].filter(|n| self.nodes[*n].settled.is_none()) else {
                continue;
            };
            before |= bit(other);
            self.nodes[at].shares |= if *carries { bit(other) } else { 0 };
        }
        if let (Some(queue), Kind::Group(_)) = (spec.queue, spec.kind) {
            before |= self.last_in_queue[queue].map_or(0, bit);
            self.last_in_queue[queue] = Some(at);
        }
        self.nodes[at].reads = reads;
        self.close(at, before);
    }

    fn close(&mut self, node: usize, direct: Set) {
        self.nodes[node].before = members(direct).fold(direct, |all, n| all | self.nodes[n].before);
    }

    /// What the engine orders is what must be ordered: nothing less, except behind what is over, and nothing more.
    fn check_edges(&mut self, first: usize, edges: &[(usize, usize)]) -> Result<(), Fault> {
        for &(from, to) in edges {
            self.nodes[to].engine |= self.nodes[from].engine | bit(from);
        }
        for (at, node) in self.nodes.iter().enumerate().skip(first).filter(|_| !self.blind) {
            if let Some(other) = members(node.before & !self.over & !node.engine).next() {
                return Err(Fault::new(format!("no edge from {other} to {at}")));
            }
            if let Some(other) = members(node.engine & !node.before).next() {
                return Err(Fault::new(format!("an edge from {other} to {at} that nothing asks for")));
            }
        }
        Ok(())
    }

    /// What the newest version of every element is, and where it is current.
    pub(super) fn contents(&self) -> impl Iterator<Item = Option<u16>> {
        self.elements.iter().map(|e| match e.content {
            Content::Written => Some(e.current),
            Content::Never => Some(1),
            Content::Poisoned(_) | Content::Lost => None,
        })
    }
}
