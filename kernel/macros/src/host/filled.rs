//! Local memory that a kernel fills before it does anything else with it, and that need not be cleared therefore.

use std::collections::BTreeSet;

use super::derived::Derived;
use crate::builtin::Id;
use crate::hir::{Arg, Base, Expr, Function, Kind, Node, Slice, Space, Stmt, VarId, VarKind, walk_stmt};

/// The local memories of which a region, the kernel's first one, gives each item's own element its value, and which it
/// does not touch otherwise: `tile[local_id(0)] = …`. In a launch of one dimension only what lies behind the items'
/// elements is to be cleared then.
pub(super) fn filled(function: &Function, derived: &Derived<'_>, region: &[&Stmt]) -> BTreeSet<VarId> {
    let targets = region.iter().filter_map(|stmt| match stmt {
        Stmt::Assign(place, None, _) if place.path.is_empty() => match &place.base {
            Base::Element(var, at) if is_own(derived, at.first()?) => Some(*var),
            _ => None,
        },
        _ => None,
    });
    let is_local = |var: &VarId| {
        matches!(&function.vars[*var].kind, VarKind::Slice(Slice { space: Space::Local(_), dims: 1, .. }))
    };
    targets.filter(|var| is_local(var) && mentions(region, *var) == 1).collect()
}

/// Whether an index is the item's position in its group.
fn is_own(derived: &Derived<'_>, index: &Expr) -> bool {
    match &index.kind {
        Kind::Id(Id::Local, 0) => true,
        Kind::Var(var) => derived.value(*var).is_some_and(|value| is_own(derived, value)),
        _ => false,
    }
}

/// How often statements touch a memory.
fn mentions(stmts: &[&Stmt], memory: VarId) -> usize {
    let mut count = 0;
    for stmt in stmts {
        walk_stmt(stmt, &mut |node| {
            count += match node {
                Node::Expr(Expr { kind: Kind::Element(var, _) | Kind::Atomic(_, var, ..), .. }) => {
                    usize::from(*var == memory)
                }
                Node::Expr(Expr { kind: Kind::Call(_, args), .. }) => {
                    args.iter().filter(|arg| matches!(arg, Arg::Slice(var) if *var == memory)).count()
                }
                Node::Place(place) => {
                    usize::from(matches!(&place.base, Base::Element(var, _) if *var == memory))
                }
                _ => 0,
            };
        });
    }
    count
}
