//! Arrays of an item that a loop gives all their values before anybody reads one.
//!
//! What such an array is declared with is never seen. Inside a loop it would be written in every turn, though, and a compiler
//! that takes the array for memory keeps these writes (a product of 4 x 4 elements an item on PoCL: 50 ms with them, 46
//! without). So it is declared once, before everything else, and without values.

use std::collections::BTreeSet;

use crate::hir::{
    Base, Block, Expr, Function, Kind, Node, Place, Step, Stmt, VarId, walk, walk_block, walk_stmt,
};
use crate::ty::Ty;

/// The arrays of a function that are filled so.
pub(super) fn filled(function: &Function) -> BTreeSet<VarId> {
    let mut found = BTreeSet::new();
    walk_block(&function.body, &mut |node| {
        if let Node::Block(block) = node {
            found.extend(of_block(function, block));
        }
    });
    found
}

fn of_block(function: &Function, block: &Block) -> BTreeSet<VarId> {
    let bound = block.stmts.iter().enumerate().filter_map(|(at, stmt)| match stmt {
        Stmt::Let(var, Some(init)) if is_literal(init) => Some((at, *var)),
        _ => None,
    });
    bound
        .filter(|&(at, var)| {
            let next = block.stmts[at + 1..].iter().find(|stmt| mentions(stmt, var));
            next.is_some_and(|next| fills(function, next, var))
        })
        .map(|(_, var)| var)
        .collect()
}

/// An array of literals, of which none is missed.
fn is_literal(init: &Expr) -> bool {
    let plain = |of: &Expr| matches!(of.kind, Kind::Int(_) | Kind::Float(_) | Kind::Bool(_));
    match &init.kind {
        Kind::Array(elements) => elements.iter().all(plain),
        Kind::Repeat(element) => plain(element),
        _ => false,
    }
}

/// Whether a statement is a loop that writes one element after the other, up to the last one, and does nothing else with
/// the array.
fn fills(function: &Function, stmt: &Stmt, array: VarId) -> bool {
    let Stmt::For { var: counter, from, to, inclusive: false, body } = stmt else { return false };
    let Ty::Array(_, length) = &function.vars[array].ty else { return false };
    let all = matches!((&from.kind, &to.kind), (Kind::Int(0), Kind::Int(to)) if *to == i128::from(*length));
    let mut left = false;
    walk_block(body, &mut |node| {
        left |= matches!(node, Node::Stmt(Stmt::Break | Stmt::Continue | Stmt::Return(_)));
    });
    let mut touching = body.stmts.iter().filter(|stmt| mentions(stmt, array));
    let (only, none) = (touching.next(), touching.next());
    let tail = body.tail.as_ref().is_some_and(|tail| reads(tail, array));
    let Some(Stmt::Assign(Place { base: Base::Var(_), path, .. }, None, value)) = only else { return false };
    let [Step::Index(Expr { kind: Kind::Var(at), .. }, _)] = &path[..] else { return false };
    let turns = all && !left && !function.vars[*counter].mutable;
    turns && none.is_none() && !tail && at == counter && !reads(value, array)
}

fn mentions(stmt: &Stmt, var: VarId) -> bool {
    let mut found = false;
    walk_stmt(stmt, &mut |node| found |= is_of(node, var));
    found
}

fn reads(expr: &Expr, var: VarId) -> bool {
    let mut found = false;
    walk(expr, &mut |node| found |= is_of(node, var));
    found
}

fn is_of(node: Node<'_>, var: VarId) -> bool {
    match node {
        Node::Expr(Expr { kind: Kind::Var(of), .. }) => *of == var,
        Node::Place(Place { base: Base::Var(of), .. }) => *of == var,
        _ => false,
    }
}
