//! Recorded sequences: checked when they are recorded, and run in another order than the one they were recorded in.

use std::any::Any;
use std::sync::Arc;

use smallvec::SmallVec;
use windlass_backend::{Command, Keeps, Node, Sequence};

use crate::kernel::{Job, Refused, names_of};
use crate::machine::{Shared, Uses};
use crate::memory::FaultyMemory;
use crate::window::{Reach, Window};

/// Commands that a context has taken over.
pub(crate) struct FaultySequence {
    nodes: Vec<Job>,
    /// The order in which they run: of those that may be next always the one that was recorded last, so that what relies on more
    /// than it said comes out wrong.
    order: Vec<usize>,
    uses: Uses,
    kernels: Vec<String>,
    /// Where it may run.
    pub(crate) context: usize,
    _keeps: Keeps,
    shared: Arc<Shared>,
}

impl Sequence for FaultySequence {}

impl Drop for FaultySequence {
    fn drop(&mut self) {
        let mut machine = self.shared.lock();
        machine.called();
        machine.audit.sequences -= 1;
    }
}

impl FaultySequence {
    pub(crate) fn new(
        nodes: &[Node<'_>],
        keeps: Keeps,
        context: usize,
        shared: &Arc<Shared>,
    ) -> Result<Self, Refused> {
        let (mut jobs, mut uses, mut kernels) = (Vec::new(), Uses::new(), Vec::new());
        for (at, node) in nodes.iter().enumerate() {
            if let Some(wrong) = node.after.iter().find(|after| **after >= at) {
                return Err(format!("command {at} of a sequence comes after {wrong}").into());
            }
            kernels.extend(names_of(&node.command).into_iter().map(str::to_owned));
            let command = match &node.command {
                Command::Launch(launch) => {
                    let kept = |kernel: &&Arc<_>| std::ptr::addr_eq(Arc::as_ptr(kernel), launch.kernel);
                    if !keeps.kernels.iter().any(|kernel| kept(&kernel)) {
                        return Err("a sequence runs a kernel that it was not given to keep"
                            .to_owned()
                            .into());
                    }
                    Command::Launch(*launch)
                }
                Command::Copy(copy) => Command::Copy(*copy),
                Command::Fill(fill) => Command::Fill(*fill),
                other => return Err(format!("{other:?} in a sequence").into()),
            };
            jobs.push(Job::new(command, Reach { context, peers: &[] }, &mut uses)?);
        }
        let kept = |block| {
            let memory =
                keeps.memory.iter().filter_map(|m| (&**m as &dyn Any).downcast_ref::<FaultyMemory>());
            memory.into_iter().any(|memory| Arc::ptr_eq(&memory.block, block))
        };
        if !uses.iter().all(kept) {
            return Err("a sequence uses memory that it was not given to keep".to_owned().into());
        }
        let all = reachable(nodes);
        for (b, reached) in all.iter().enumerate() {
            if let Some(a) = (0..b).find(|a| !reached[*a] && jobs[*a].conflicts(&jobs[b])) {
                return Err(format!("commands {a} and {b} of a sequence are in each other's way").into());
            }
        }
        let order = latest_first(nodes);
        let mut machine = shared.lock();
        machine.called();
        machine.audit.sequences += 1;
        machine.audit.recorded += 1;
        drop(machine);
        let shared = shared.clone();
        Ok(FaultySequence { nodes: jobs, order, uses, kernels, context, _keeps: keeps, shared })
    }

    /// Its commands, in the order in which they run.
    pub(crate) fn jobs(&self) -> impl Iterator<Item = &Job> {
        self.order.iter().map(|at| &self.nodes[*at])
    }

    /// The names of its kernels.
    pub(crate) fn kernels(&self) -> impl Iterator<Item = &str> {
        self.kernels.iter().map(String::as_str)
    }

    pub(crate) fn uses(&self) -> &Uses {
        &self.uses
    }

    /// A sequence of this backend's.
    pub(crate) fn of(sequence: Arc<dyn Sequence>) -> Result<Arc<Self>, Refused> {
        let any: Arc<dyn Any + Send + Sync> = sequence;
        any.downcast().map_err(|_| Refused::Breach("a sequence that another backend recorded".into()))
    }
}

/// For each command which earlier ones it comes after, by whatever way.
fn reachable(nodes: &[Node<'_>]) -> Vec<Vec<bool>> {
    let mut all: Vec<Vec<bool>> = Vec::new();
    for (at, node) in nodes.iter().enumerate() {
        let mut own = vec![false; at];
        for &after in node.after {
            own[after] = true;
            all[after].iter().enumerate().for_each(|(i, is)| own[i] |= is);
        }
        all.push(own);
    }
    all
}

fn latest_first(nodes: &[Node<'_>]) -> Vec<usize> {
    let (mut order, mut done) = (Vec::new(), vec![false; nodes.len()]);
    while order.len() < nodes.len() {
        let may = |at: &usize| !done[*at] && nodes[*at].after.iter().all(|after| done[*after]);
        let Some(next) = (0..nodes.len()).rev().find(may) else {
            unreachable!("edges point to earlier commands")
        };
        done[next] = true;
        order.push(next);
    }
    order
}

impl Job {
    /// Whether one of two commands writes bytes that the other uses.
    fn conflicts(&self, other: &Job) -> bool {
        let (ours, theirs) = (self.writing(), other.writing());
        ours.iter().any(|(a, writes)| theirs.iter().any(|(b, also)| (*writes || *also) && a.meets(b)))
    }

    /// Its windows, and whether it writes them.
    fn writing(&self) -> SmallVec<[(&Window, bool); 4]> {
        let written: SmallVec<[&Window; 4]> = self.written().collect();
        let is_written = |w: &Window| written.iter().any(|other| std::ptr::eq(*other, w));
        self.windows().map(|w| (w, is_written(w))).collect()
    }
}
