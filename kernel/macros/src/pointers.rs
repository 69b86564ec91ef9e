//! What pointers lead to is memory that a kernel gets from its launch: one for each type, in which an index is an address.
//!
//! A function that follows pointers has a parameter more for each type that it follows pointers to, which nobody passes, and so has
//! who calls it. To devices it is a table of the parts of memory that the launch names, to the host their spans.

use crate::errors::Errors;
use crate::hir::{
    Arg, Change, Expr, Function, Kind, Module, Node, Slice, Space, VarId, VarKind, change_block, walk,
    walk_block,
};
use crate::ty::Ty;

/// How many parts of memory a table has; what the attribute writes says that the other crates agree.
pub(crate) const PARTS: usize = 8;

/// Whether a variable is what pointers lead to.
pub(crate) fn is_reached(kind: &VarKind) -> bool {
    matches!(kind, VarKind::Slice(Slice { space: Space::Reached, .. }))
}

/// Gives the functions their parameters.
pub(crate) fn lower(module: &mut Module, errors: &mut Errors) {
    let types = followed(module);
    let mut params: Vec<Vec<VarId>> = Vec::new();
    for (function, types) in module.functions.iter_mut().zip(&types) {
        params.push(types.iter().map(|ty| memory(function, ty)).collect());
    }
    for at in 0..module.functions.len() {
        let function = &mut module.functions[at];
        function.params.extend(&params[at]);
        change_block(&mut function.body, &mut |node| {
            let Change::Expr(Expr { kind: Kind::Call(helper, args), .. }) = node else { return };
            let own = |ty: &Ty| types[at].iter().position(|known| known == ty).map(|known| params[at][known]);
            args.extend(types[*helper].iter().filter_map(own).map(Arg::Slice));
        });
    }
    for function in &module.functions {
        for reduction in &function.reductions {
            walk(&reduction.combined, &mut |node| {
                if let Node::Expr(Expr { kind: Kind::Call(helper, _), .. }) = node
                    && !types[*helper].is_empty()
                {
                    let name = &module.functions[*helper].name;
                    let message =
                        format!("`{name}` combines values for a reduction, and can follow no pointers there");
                    errors.at(name.span(), message);
                }
            });
        }
    }
}

/// The types that each function follows pointers to, itself or in what it calls.
fn followed(module: &Module) -> Vec<Vec<Ty>> {
    let own = |function: &Function| {
        let vars = function.vars.iter().filter(|var| is_reached(&var.kind));
        vars.map(|var| var.ty.clone()).collect::<Vec<_>>()
    };
    let mut found: Vec<Vec<Ty>> = module.functions.iter().map(own).collect();
    loop {
        let mut grown = false;
        for (at, function) in module.functions.iter().enumerate() {
            let mut more = Vec::new();
            walk_block(&function.body, &mut |node| {
                if let Node::Expr(Expr { kind: Kind::Call(helper, _), .. }) = node {
                    more.extend(found[*helper].iter().cloned());
                }
            });
            for ty in more {
                if !found[at].contains(&ty) {
                    found[at].push(ty);
                    grown = true;
                }
            }
        }
        if !grown {
            return found;
        }
    }
}

/// A function's variable for what pointers to a type lead to.
fn memory(function: &mut Function, ty: &Ty) -> VarId {
    let known = function.vars.iter().position(|var| is_reached(&var.kind) && var.ty == *ty);
    known.unwrap_or_else(|| {
        let (may, space) = (crate::hir::May::Write, Space::Reached);
        let kind = VarKind::Slice(Slice { dims: 1, may, space, is_image: false });
        let name = proc_macro2::Ident::new("w_reached", function.name.span());
        function.vars.push(crate::hir::Var { name, ty: ty.clone(), mutable: false, kind });
        function.vars.len() - 1
    })
}
