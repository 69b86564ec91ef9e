//! Variables that each item finds anew wherever they are used, since that is cheaper than to keep them for every item,
//! and lets the compiler see what they are: names for something made of positions and uniform values.

use std::collections::{BTreeMap, BTreeSet};

use proc_macro2::TokenStream;

use super::Rust;
use crate::hir::{Expr, Function, Kind, Node, Stmt, VarId, VarKind, walk, walk_block};
use crate::ty::Ty;
use crate::uniform::Differing;

/// The variables, with the statements that bind them.
#[derive(Debug, Default)]
pub(super) struct Derived<'m> {
    bindings: BTreeMap<VarId, (&'m Stmt, &'m Expr)>,
}

impl<'m> Derived<'m> {
    pub(super) fn new(function: &'m Function, differing: &Differing) -> Self {
        let mut derived = Derived::default();
        // Bindings are met in their order, so what one is made of is known before it.
        walk_block(&function.body, &mut |node| {
            if let Node::Stmt(stmt @ Stmt::Let(var, Some(init))) = node
                && !function.vars[*var].mutable
                && differing.vars.contains(var)
                && matches!(init.ty, Ty::Scalar(_))
                && derived.may_be_found_again(function, differing, init)
            {
                derived.bindings.insert(*var, (stmt, init));
            }
        });
        derived
    }

    fn may_be_found_again(&self, function: &Function, differing: &Differing, expr: &Expr) -> bool {
        let again = |e: &Expr| self.may_be_found_again(function, differing, e);
        match &expr.kind {
            Kind::Int(_) | Kind::Bool(_) | Kind::Const(_) | Kind::Len(..) | Kind::Id(..) => true,
            Kind::Var(var) => {
                let of = &function.vars[*var];
                let fixed = !of.mutable && of.kind == VarKind::Value && !differing.vars.contains(var);
                fixed || self.contains(*var)
            }
            Kind::Unary(_, a) | Kind::Cast(a) => again(a),
            Kind::Binary(_, a, b) | Kind::Logic(_, a, b) => again(a) && again(b),
            _ => false,
        }
    }

    pub(super) fn contains(&self, var: VarId) -> bool {
        self.bindings.contains_key(&var)
    }

    pub(super) fn is_binding(&self, stmt: &Stmt) -> bool {
        matches!(stmt, Stmt::Let(var, _) if self.contains(*var))
    }

    /// What a variable is a name for.
    pub(super) fn value(&self, var: VarId) -> Option<&'m Expr> {
        self.bindings.get(&var).map(|(_, value)| *value)
    }

    /// An expression with what its names stand for.
    pub(super) fn unnamed(&self, expr: &Expr) -> Expr {
        let mut expr = expr.clone();
        let bound = self.bindings.iter().map(|(var, (_, value))| (*var, *value)).collect();
        super::spans::unnamed(&mut expr, &bound);
        expr
    }

    /// The statements that bind these variables, as far as they are such, and what they are made of.
    pub(super) fn bindings(&self, rust: &Rust<'m>, names: &BTreeSet<VarId>) -> TokenStream {
        let (mut wanted, mut open) = (BTreeSet::new(), names.iter().copied().collect::<Vec<_>>());
        while let Some(var) = open.pop() {
            if let Some((_, value)) = self.bindings.get(&var)
                && wanted.insert(var)
            {
                walk(value, &mut |node| {
                    if let Node::Expr(Expr { kind: Kind::Var(var), .. }) = node {
                        open.push(*var);
                    }
                });
            }
        }
        wanted.iter().map(|var| rust.stmt(self.bindings[var].0)).collect()
    }
}
