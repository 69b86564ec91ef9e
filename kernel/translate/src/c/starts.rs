//! Arguments that are only ever reached from where the launch's range of them starts: `x[block.x_at + i]`. Their pointers
//! are moved there once, at the kernel's start, so that what is left in each access is an index as one writes it by hand.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use naga::valid::FunctionInfo;
use naga::{BinaryOperator, Expression, Function, GlobalVariable, Handle};

use super::flat::{Member, member_of};
use crate::wgsl::Checked;

/// The arguments whose pointers are moved.
#[derive(Default)]
pub(super) struct Starts {
    /// By which member of the block each is moved.
    pub(super) of: BTreeMap<Handle<GlobalVariable>, Member>,
    /// Where functions ask for such a member, and need it no longer.
    needless: HashMap<Handle<Function>, HashSet<Handle<Expression>>>,
}

/// An access of an argument from a start.
struct Access {
    argument: Handle<GlobalVariable>,
    start: Member,
    /// The member's place in the function's expressions.
    asked: Handle<Expression>,
}

impl Starts {
    /// Those of a module in which these members are passed one by one.
    pub(super) fn new(checked: &Checked, members: &BTreeSet<Member>) -> Self {
        let module = &checked.module;
        let functions = module.functions.iter().map(|(handle, function)| (Some(handle), function));
        let entries = module.entry_points.iter().map(|entry| (None, &entry.function));
        let mut starts: BTreeMap<Handle<GlobalVariable>, BTreeSet<Member>> = BTreeMap::new();
        let (mut otherwise, mut all) = (BTreeSet::new(), Vec::new());
        for (at, (handle, function)) in functions.chain(entries).enumerate() {
            let info = match handle {
                Some(handle) => &checked.info[handle],
                None => checked.info.get_entry_point(at - module.functions.len()),
            };
            let (accesses, others) = accesses(function, info, members);
            otherwise.extend(others);
            for access in &accesses {
                starts.entry(access.argument).or_default().insert(access.start);
            }
            all.push((handle, accesses));
        }
        starts.retain(|argument, starts| starts.len() == 1 && !otherwise.contains(argument));
        let of: BTreeMap<_, _> =
            starts.into_iter().filter_map(|(of, by)| Some((of, by.into_iter().next()?))).collect();
        let mut needless: HashMap<Handle<Function>, HashSet<Handle<Expression>>> = HashMap::new();
        for (handle, accesses) in all {
            let Some(handle) = handle else { continue };
            let moved = accesses.iter().filter(|access| of.contains_key(&access.argument));
            needless.insert(handle, moved.map(|access| access.asked).collect());
        }
        Starts { of, needless }
    }

    /// Whether a function asks for a member at this place for the start of a pointer that has been moved.
    pub(super) fn is_needless(&self, function: Handle<Function>, asked: Handle<Expression>) -> bool {
        self.needless.get(&function).is_some_and(|needless| needless.contains(&asked))
    }
}

/// A function's accesses from a start, and the arguments that it uses in another way as well.
fn accesses(
    function: &Function,
    info: &FunctionInfo,
    members: &BTreeSet<Member>,
) -> (Vec<Access>, Vec<Handle<GlobalVariable>>) {
    let expressions = &function.expressions;
    let (mut found, mut uses) = (Vec::new(), HashMap::new());
    for (_, expression) in expressions.iter() {
        if let Expression::Access { base, index } = *expression
            && let Expression::GlobalVariable(argument) = expressions[base]
            && let Some((start, asked)) = from_start(function, info, index)
            && members.contains(&start)
        {
            *uses.entry(base).or_insert(0) += 1;
            found.push(Access { argument, start, asked });
        }
    }
    let others = expressions.iter().filter_map(|(handle, expression)| match *expression {
        Expression::GlobalVariable(global) => {
            let known = uses.get(&handle).copied().unwrap_or(0);
            (info[handle].ref_count != known).then_some(global)
        }
        _ => None,
    });
    (found, others.collect())
}

/// The member of the block that an index counts from, which is asked for there and nowhere else.
fn from_start(
    function: &Function,
    info: &FunctionInfo,
    index: Handle<Expression>,
) -> Option<(Member, Handle<Expression>)> {
    let alone =
        |of: Handle<Expression>| info[of].ref_count == 1 && !function.named_expressions.contains_key(&of);
    let load = match function.expressions[index] {
        Expression::Binary { op: BinaryOperator::Add, left, .. } if alone(index) => left,
        _ => index,
    };
    let Expression::Load { pointer } = function.expressions[load] else { return None };
    (alone(load) && alone(pointer)).then_some((member_of(function, pointer)?, pointer))
}
