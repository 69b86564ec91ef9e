//! Where a group's own memory is only read.
//!
//! Loads of atomics are volatile in OpenCL C, so that a compiler makes each of them once and where it stands. Some make
//! slower code of a whole kernel for one of them (Intel's runtime: a histogram takes 12.9 ms, and 9.6 without). Nothing is
//! kept from them by a plain load where no item can write: the memory is one of the group's, and what the group does
//! between two of its barriers has no write to it.

use std::collections::{BTreeSet, HashMap, HashSet};

use naga::{AddressSpace, Barrier, Block, Expression, Function, GlobalVariable, Handle, Module, Statement};

use crate::statements::blocks_of;

/// Functions with memories of the group that nobody writes while the function runs.
pub(super) type Settled = HashSet<(Handle<Function>, Handle<GlobalVariable>)>;

/// What statements do, with all that they call.
#[derive(Clone, Default)]
struct Doing {
    calls: BTreeSet<Handle<Function>>,
    writes: BTreeSet<Handle<GlobalVariable>>,
}

pub(super) fn settled(module: &Module) -> Settled {
    let mut doing = HashMap::new();
    // What is called stands before.
    for (handle, function) in module.functions.iter() {
        let own = of_block(function, &function.body, &doing);
        doing.insert(handle, own);
    }
    let memories: Vec<_> = module
        .global_variables
        .iter()
        .filter(|(_, global)| global.space == AddressSpace::WorkGroup)
        .map(|(handle, _)| handle)
        .collect();
    let mut settled: Settled =
        doing.keys().flat_map(|called| memories.iter().map(|memory| (*called, *memory))).collect();
    for entry in &module.entry_points {
        for between in entry.function.body.split_inclusive(waits_for_the_group) {
            let mut all = Doing::default();
            for statement in between {
                all.add(&entry.function, statement, &doing);
            }
            settled.retain(|(called, memory)| !(all.calls.contains(called) && all.writes.contains(memory)));
        }
    }
    settled
}

fn waits_for_the_group(statement: &Statement) -> bool {
    matches!(statement, Statement::ControlBarrier(barrier) if barrier.contains(Barrier::WORK_GROUP))
}

fn of_block(function: &Function, block: &Block, called: &HashMap<Handle<Function>, Doing>) -> Doing {
    let mut all = Doing::default();
    block.iter().for_each(|statement| all.add(function, statement, called));
    all
}

impl Doing {
    fn add(&mut self, function: &Function, statement: &Statement, called: &HashMap<Handle<Function>, Doing>) {
        match statement {
            Statement::Store { pointer, .. } | Statement::Atomic { pointer, .. } => {
                self.writes.extend(memory_of(function, *pointer));
            }
            Statement::Call { function: to, arguments, .. } => {
                self.calls.insert(*to);
                if let Some(theirs) = called.get(to) {
                    self.calls.extend(&theirs.calls);
                    self.writes.extend(&theirs.writes);
                }
                // Who is given an address may write there.
                self.writes.extend(arguments.iter().filter_map(|argument| memory_of(function, *argument)));
            }
            _ => {}
        }
        for block in blocks_of(statement) {
            block.iter().for_each(|statement| self.add(function, statement, called));
        }
    }
}

/// The memory that an expression is a place in.
pub(super) fn memory_of(
    function: &Function,
    mut place: Handle<Expression>,
) -> Option<Handle<GlobalVariable>> {
    loop {
        match function.expressions[place] {
            Expression::GlobalVariable(global) => return Some(global),
            Expression::Access { base, .. } | Expression::AccessIndex { base, .. } => place = base,
            _ => return None,
        }
    }
}
