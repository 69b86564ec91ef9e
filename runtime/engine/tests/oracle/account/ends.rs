//! How nodes end, by decision 3, and what that makes of the data.

use super::*;

impl Account<'_> {
    /// The engine says that a node has ended.
    pub(in super::super) fn settled(&mut self, at: usize, outcome: Outcome<u32>) -> Result<(), Fault> {
        let node = &self.nodes[at];
        if node.settled.is_some() {
            return Err(Fault::new(format!("{at} ends twice")));
        }
        if let Some(other) = members(node.reads | node.shares).find(|n| self.nodes[*n].settled.is_none()) {
            return Err(Fault::new(format!("{at} ends before {other}, whose data it reads")));
        }
        if node.told.as_ref().is_some_and(|told| *told != outcome) {
            return Err(Fault::new(format!("{at} was told to end {:?}", node.told)));
        }
        self.over |= node.before | bit(at);
        self.end_guard(at, outcome == Outcome::Done);
        self.nodes[at].settled = Some(outcome);
        let fate = self.fate(at);
        self.nodes[at].fate = Some(fate);
        if fate == Fate::Bad {
            self.fail(at);
        }
        Ok(())
    }

    /// The engine says how a node is going to end that will not run.
    pub(in super::super) fn told(&mut self, at: usize, outcome: Outcome<u32>) -> Result<(), Fault> {
        let (node, input) = (&self.nodes[at], self.has_bad_input(at));
        let right = match outcome {
            Outcome::Done => false,
            Outcome::Failed(_) => node.own_failure,
            Outcome::Doomed(_) => input,
            Outcome::Cancelled(_) => node.cancelled,
        };
        if !right || node.settled.is_some() || node.told.is_some() {
            return Err(Fault::new(format!("{at} is told to end {outcome:?}")));
        }
        self.nodes[at].told = Some(outcome);
        Ok(())
    }

    /// Whether it is certain that an item will not end well, and nobody has been told.
    pub(in super::super) fn is_kept_secret(&self, at: usize) -> bool {
        let node = &self.nodes[at];
        let open = node.settled.is_none() && node.told.is_none() && matches!(node.what, What::Item(_));
        open && (node.cancelled || node.own_failure || self.has_bad_input(at))
    }

    /// What a failed node wrote is no longer current.
    pub(super) fn fail(&mut self, at: usize) {
        match self.nodes[at].what {
            What::Item(_) => {
                for element in self.elements.iter_mut().filter(|e| e.author == Some(at)) {
                    if element.content == Content::Written {
                        element.content = Content::Poisoned(bit(at));
                    }
                }
                let is_beside = |users: &Users| users.fresh & bit(at) != 0;
                for element in self.elements.iter_mut().filter(|e| e.users.iter().any(is_beside)) {
                    match &mut element.content {
                        Content::Poisoned(by) => *by |= bit(at),
                        Content::Written => element.content = Content::Poisoned(bit(at)),
                        Content::Never | Content::Lost => {}
                    }
                }
            }
            What::Copy(Transfer { step: Step::Map | Step::Unmap, .. }) => {}
            What::Copy(copy) if copy.step != Step::Download => {
                let (to, ahead) = (copy.to.0 as usize, self.nodes[at].reads | bit(at));
                // Before a copy out of lost memory has ended, whoever finds nothing else waits for no verdict of it.
                let is_over = members(ahead).all(|n| self.nodes[n].settled.is_some());
                let nothing = if is_over { Content::Poisoned(ahead) } else { Content::Lost };
                let root = copy.root.sort_key().0 as usize;
                self.exposed[root] |= to == 0 && self.pinned[root].is_some();
                for &e in &self.nodes[at].elements {
                    let element = &mut self.elements[e];
                    if element.users[to].last == Some(at) {
                        element.users[to].cleared = false;
                        // What was to be cleared may count as written by now: a guard had it.
                        element.current &= !(1 << to);
                        element.forget(to);
                        element.fall_back();
                        if element.content == Content::Written && element.current == 0 {
                            element.content = nothing;
                        }
                    }
                }
            }
            What::Copy(_) => {}
        }
    }

    /// A context is lost, and with it these buffers' allocations in whatever memory. What it was to pin of buffers whose memory in
    /// the heap is still to come is the heap's own instead.
    pub(in super::super) fn lost(
        &mut self,
        context: usize,
        given_up: &[(usize, usize)],
        waits_for_heap: impl Iterator<Item = usize>,
    ) {
        self.lost.push(context);
        for root in waits_for_heap {
            if self.pinned[root].is_some_and(|by| self.program.memories[by - 1].context == context) {
                (self.pinned[root], self.exposed[root]) = (None, false);
            }
        }
        for &(root, memory) in given_up {
            for e in self.program.elements_of(root) {
                self.lose_copy(e, memory);
            }
        }
        for (i, memory) in self.program.memories.iter().enumerate() {
            if memory.context != context {
                continue;
            }
            (0..self.elements.len()).for_each(|e| self.lose_copy(e, i + 1));
        }
        // Nobody counts on what is certain not to come.
        for at in 0..self.nodes.len() {
            let is_copy = matches!(self.nodes[at].what, What::Copy(_));
            if is_copy && self.nodes[at].settled.is_none() && self.fate(at) == Fate::Bad {
                self.fail(at);
            }
        }
    }

    pub(super) fn lose_copy(&mut self, element: usize, memory: usize) {
        let element = &mut self.elements[element];
        element.current &= !(1 << memory);
        element.forget(memory);
        element.users[memory].cleared = false;
        if element.content == Content::Written && element.current == 0 {
            element.content = Content::Lost;
        }
    }

    /// Whether a node was asked to share the failure of another, which had not ended then.
    pub(in super::super) fn shares(&self, at: usize, other: usize) -> bool {
        self.nodes[at].shares & bit(other) != 0
    }

    /// How a node counts for those who read what it writes.
    pub(in super::super) fn fate(&self, at: usize) -> Fate {
        let node = &self.nodes[at];
        if let Some(fate) = node.fate {
            return fate;
        }
        let bad = node.own_failure || self.has_bad_input(at);
        let kept = match node.what {
            What::Item(item) => node.cancelled && self.program.items[item].keep,
            What::Copy(_) => false,
        };
        match (node.cancelled, bad) {
            (false, false) => Fate::Done,
            (true, false) if kept => Fate::Kept,
            _ => Fate::Bad,
        }
    }

    /// Whether something it reads has failed, or something whose failure it was asked to share.
    pub(in super::super) fn has_bad_input(&self, at: usize) -> bool {
        let node = &self.nodes[at];
        node.reads_lost
            || members(node.reads).any(|n| self.spoils(n))
            || members(node.shares).any(|n| self.fate(n) != Fate::Done)
    }

    /// Whether one of a lineage spoils what has come by it. A transfer does so only if it fails by itself: what it took
    /// along beside this is no concern of those that read this.
    fn spoils(&self, at: usize) -> bool {
        match self.nodes[at].what {
            What::Item(_) => self.fate(at) == Fate::Bad,
            What::Copy(_) => self.nodes[at].own_failure,
        }
    }

    /// The outcome that the engine gave is one that this account allows.
    pub(in super::super) fn check_outcome(&self, at: usize, any_loss: bool) -> Result<(), Fault> {
        let node = &self.nodes[at];
        let input = self.has_bad_input(at);
        let wrong = |what: &str| Err(Fault::new(format!("{at} is {:?}, but {what}", node.settled)));
        match &node.settled {
            None => wrong("everything is over"),
            Some(Outcome::Done) if node.cancelled => wrong("it was cancelled"),
            Some(Outcome::Done) if node.own_failure || input => wrong("something failed"),
            Some(Outcome::Done) => Ok(()),
            Some(Outcome::Failed(_)) if !node.own_failure => wrong("it did not fail itself"),
            Some(Outcome::Doomed(_)) if !input => wrong("nothing it reads failed"),
            Some(Outcome::Cancelled(_)) if !node.cancelled => wrong("nobody cancelled it"),
            Some(Outcome::Doomed(cause)) if !any_loss && !self.has_lost_aside => {
                match self.is_cause(at, *cause) {
                    true => Ok(()),
                    false => wrong("for another reason"),
                }
            }
            Some(_) => Ok(()),
        }
    }

    /// Whether a failure is that of a node whose data is read, directly or not.
    pub(super) fn is_cause(&self, at: usize, cause: u32) -> bool {
        let mut all = self.nodes[at].reads | self.nodes[at].shares;
        let mut todo = all;
        while todo != 0 {
            // A step hands on the failure of a clear, as the only transfer that takes anything from others.
            let hands_on = |what: &What| match what {
                What::Item(_) => true,
                What::Copy(copy) => matches!(copy.step, Step::Map | Step::Unmap),
            };
            let those = members(todo).filter(|n| hands_on(&self.nodes[*n].what));
            let next = those.fold(0, |set, n| set | self.nodes[n].reads | self.nodes[n].shares);
            todo = next & !all;
            all |= next;
        }
        let bad = |n: usize| self.nodes[n].own_failure || self.nodes[n].cancelled;
        match cause as usize {
            n if n < self.nodes.len() => all & bit(n) != 0 && bad(n),
            _ => members(all).any(bad),
        }
    }
}
