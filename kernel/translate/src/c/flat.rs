//! Uniform buffers whose members are passed one by one: those of scalars that are only ever loaded whole. A compiler then sees
//! values that nothing can change, and not memory that a store might reach.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use naga::{AddressSpace, Expression, Function, GlobalVariable, Handle, Module, Statement, TypeInner};

use super::starts::Starts;
use crate::statements::for_each;

/// A member of a uniform buffer: the buffer, and the member's number.
pub(super) type Member = (Handle<GlobalVariable>, u32);

/// The members that are used, of all buffers that can be passed so.
pub(super) fn members(module: &Module) -> BTreeSet<Member> {
    let candidates = module
        .global_variables
        .iter()
        .filter(|(_, global)| global.space == AddressSpace::Uniform && is_of_scalars(module, global.ty));
    let mut used: BTreeMap<Handle<GlobalVariable>, BTreeSet<u32>> =
        candidates.map(|(handle, _)| (handle, BTreeSet::new())).collect();
    let functions = module.functions.iter().map(|(_, function)| function);
    for function in functions.chain(module.entry_points.iter().map(|entry| &entry.function)) {
        note(function, &mut used);
    }
    used.into_iter()
        .flat_map(|(global, members)| members.into_iter().map(move |member| (global, member)))
        .collect()
}

/// The member of a uniform buffer that an expression is the place of.
pub(super) fn member_of(function: &Function, place: Handle<Expression>) -> Option<Member> {
    match function.expressions[place] {
        Expression::AccessIndex { base, index } => match function.expressions[base] {
            Expression::GlobalVariable(global) => Some((global, index)),
            _ => None,
        },
        _ => None,
    }
}

/// The members that each function loads, itself or by what it calls, but for where pointers start.
pub(super) fn needs(module: &Module, starts: &Starts) -> HashMap<Handle<Function>, BTreeSet<Member>> {
    let mut needs: HashMap<Handle<Function>, BTreeSet<Member>> = HashMap::new();
    // What is called stands before.
    for (handle, function) in module.functions.iter() {
        let mut own = BTreeSet::new();
        for (place, _) in function.expressions.iter() {
            own.extend(member_of(function, place).filter(|_| !starts.is_needless(handle, place)));
        }
        for called in calls(function) {
            own.extend(needs.get(&called).into_iter().flatten());
        }
        needs.insert(handle, own);
    }
    needs
}

fn is_of_scalars(module: &Module, ty: Handle<naga::Type>) -> bool {
    let scalar = |ty: Handle<naga::Type>| matches!(module.types[ty].inner, TypeInner::Scalar(_));
    match &module.types[ty].inner {
        TypeInner::Struct { members, .. } => members.iter().all(|member| scalar(member.ty)),
        _ => false,
    }
}

/// Notes the members that a function loads; a buffer that it uses in another way is none of these.
fn note(function: &Function, used: &mut BTreeMap<Handle<GlobalVariable>, BTreeSet<u32>>) {
    let expressions = &function.expressions;
    let global = |handle: Handle<Expression>| match expressions[handle] {
        Expression::GlobalVariable(global) => Some(global),
        _ => None,
    };
    let part = |handle: Handle<Expression>| member_of(function, handle);
    let mut other = Vec::new();
    for (_, expression) in expressions.iter() {
        match *expression {
            Expression::Load { pointer } => match part(pointer) {
                Some((global, member)) => {
                    used.get_mut(&global).map(|members| members.insert(member));
                }
                None => other.extend(global(pointer)),
            },
            Expression::AccessIndex { base, .. } | Expression::Access { base, .. } => {
                other.extend(part(base).map(|(global, _)| global));
                if matches!(expression, Expression::Access { .. }) {
                    other.extend(global(base));
                }
            }
            _ => {}
        }
    }
    for_each(function, &mut |statement| {
        if let Statement::Call { arguments, .. } = statement {
            let named = arguments.iter().filter_map(|a| global(*a).or_else(|| part(*a).map(|(g, _)| g)));
            other.extend(named);
        }
    });
    other.iter().for_each(|global| drop(used.remove(global)));
}

fn calls(function: &Function) -> Vec<Handle<Function>> {
    let mut calls = Vec::new();
    for_each(function, &mut |statement| {
        if let Statement::Call { function, .. } = statement {
            calls.push(*function);
        }
    });
    calls
}
