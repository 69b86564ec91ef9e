//! Local memory of nested arrays, `[[f32; 16]; 16]`, as memory of two or three dimensions: a number of it is then an element that is
//! reached by itself, and not a part of a row that is copied for it.

use std::collections::BTreeMap;

use crate::hir::{
    Arg, Base, Change, Expr, Function, Kind, Node, Slice, Space, Step, VarId, VarKind, change_block,
    walk_block,
};
use crate::ty::Ty;

/// The inner extents of local memories.
pub(super) type Inner = BTreeMap<VarId, Vec<u32>>;

/// The function with those local memories flat that it reaches number by number, and their inner extents.
pub(super) fn flat(function: &Function) -> (Function, Inner) {
    let (mut function, mut inner) = (function.clone(), Inner::new());
    for var in function.params.clone() {
        if let Some((flat, lens)) = one(&function, var) {
            function = flat;
            inner.insert(var, lens);
        }
    }
    (function, inner)
}

fn one(function: &Function, var: VarId) -> Option<(Function, Vec<u32>)> {
    let VarKind::Slice(Slice { dims: 1, space: Space::Local(_), .. }) = function.vars[var].kind else {
        return None;
    };
    let (mut lens, mut ty) = (Vec::new(), function.vars[var].ty.clone());
    while let (Ty::Array(of, len), true) = (&ty, lens.len() < 2) {
        lens.push(*len);
        ty = (**of).clone();
    }
    let dims = lens.len() + 1;
    if dims == 1 {
        return None;
    }
    let mut flat = function.clone();
    change_block(&mut flat.body, &mut |change| match change {
        Change::Expr(expr) => {
            if let Kind::Index(of, index) = &mut expr.kind
                && let Kind::Element(memory, at) = &mut of.kind
                && *memory == var
                && at.len() < dims
            {
                let index = std::mem::replace(&mut **index, Expr::new(Kind::Unit, Ty::Unit, expr.span));
                let mut at = std::mem::take(at);
                at.push(index);
                expr.kind = Kind::Element(var, at);
            }
        }
        Change::Place(place) => {
            if let Base::Element(memory, at) = &mut place.base
                && *memory == var
            {
                while at.len() < dims && matches!(place.path.first(), Some(Step::Index(..))) {
                    let Step::Index(index, _) = place.path.remove(0) else { break };
                    at.push(index);
                }
            }
        }
    });
    flat.vars[var].ty = ty;
    if let VarKind::Slice(slice) = &mut flat.vars[var].kind {
        slice.dims = dims as u8;
    }
    // Whoever takes a whole row, or hands all of it on, wants it as it is.
    let mut whole = true;
    walk_block(&flat.body, &mut |node| match node {
        Node::Expr(Expr { kind: Kind::Element(memory, at), .. }) if *memory == var => {
            whole &= at.len() == dims
        }
        Node::Expr(Expr { kind: Kind::Call(_, args), .. }) => {
            whole &= !args.iter().any(|arg| matches!(arg, Arg::Slice(of) if *of == var));
        }
        Node::Place(place) => {
            if let Base::Element(memory, at) = &place.base {
                whole &= *memory != var || at.len() == dims;
            }
        }
        _ => {}
    });
    // `len()` asks for the outermost extent.
    change_block(&mut flat.body, &mut |change| {
        if let Change::Expr(Expr { kind: Kind::Len(memory, dim @ None), .. }) = change
            && *memory == var
        {
            *dim = Some(0);
        }
    });
    whole.then_some((flat, lens))
}
