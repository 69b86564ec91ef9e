//! Where control goes.

use std::collections::BTreeSet;

use crate::hir::{Arg, Base, Block, Expr, Kind, Module, Node, Stmt, VarId, walk, walk_block, walk_stmt};
use crate::ty::Ty;

/// Whether nothing behind the block is ever reached through its end.
pub(crate) fn diverges(block: &Block) -> bool {
    block.stmts.iter().any(stmt_diverges) || block.tail.as_ref().is_some_and(|tail| expr_diverges(tail))
}

fn stmt_diverges(stmt: &Stmt) -> bool {
    match stmt {
        Stmt::Break | Stmt::Continue | Stmt::Return(_) => true,
        Stmt::Expr(e) | Stmt::Let(_, Some(e)) => expr_diverges(e),
        // A loop that nothing leaves.
        Stmt::Loop(body) => !breaks(body),
        _ => false,
    }
}

fn expr_diverges(expr: &Expr) -> bool {
    match &expr.kind {
        Kind::If(_, yes, no) => diverges(yes) && diverges(no),
        Kind::Match(_, arms) => !arms.is_empty() && arms.iter().all(|(_, block)| diverges(block)),
        Kind::Block(block) => diverges(block),
        _ => expr.ty == Ty::Never,
    }
}

/// Makes statements of the last expressions that have no value, in a block without a value and in those inside it, so that
/// whoever looks at statements sees everything.
pub(crate) fn tail_to_stmt(block: &mut Block) {
    if let Some(tail) = block.tail.take_if(|tail| matches!(tail.ty, Ty::Unit | Ty::Never)) {
        block.stmts.push(Stmt::Expr(*tail));
    }
    for stmt in &mut block.stmts {
        match stmt {
            Stmt::While(_, body) | Stmt::Loop(body) | Stmt::For { body, .. } => tail_to_stmt(body),
            Stmt::Expr(Expr { kind: Kind::If(_, yes, no), .. }) => {
                tail_to_stmt(yes);
                tail_to_stmt(no);
            }
            Stmt::Expr(Expr { kind: Kind::Match(_, arms), .. }) => {
                arms.iter_mut().for_each(|(_, arm)| tail_to_stmt(arm));
            }
            Stmt::Expr(Expr { kind: Kind::Block(block), .. }) => tail_to_stmt(block),
            _ => {}
        }
    }
}

/// Whether a statement returns from its function somewhere.
pub(crate) fn returns(stmt: &Stmt) -> bool {
    let mut found = false;
    walk_stmt(stmt, &mut |node| found |= matches!(node, Node::Stmt(Stmt::Return(_))));
    found
}

/// Whether a block leaves the loop that it is the body of.
pub(crate) fn breaks(block: &Block) -> bool {
    jumps(block, &|stmt| matches!(stmt, Stmt::Break))
}

/// Whether a block leaves the loop around it, or goes on with it.
pub(crate) fn leaves_loop(block: &Block) -> bool {
    jumps(block, &|stmt| matches!(stmt, Stmt::Break | Stmt::Continue))
}

fn jumps(block: &Block, is: &dyn Fn(&Stmt) -> bool) -> bool {
    let stmt = |stmt: &Stmt| match stmt {
        Stmt::Expr(e) | Stmt::Let(_, Some(e)) | Stmt::Assign(_, _, e) | Stmt::Return(Some(e)) => {
            expr_jumps(e, is)
        }
        // Those inside a loop are about that one.
        other => is(other),
    };
    block.stmts.iter().any(stmt) || block.tail.as_ref().is_some_and(|tail| expr_jumps(tail, is))
}

fn expr_jumps(expr: &Expr, is: &dyn Fn(&Stmt) -> bool) -> bool {
    match &expr.kind {
        Kind::If(_, yes, no) => jumps(yes, is) || jumps(no, is),
        Kind::Match(_, arms) => arms.iter().any(|(_, block)| jumps(block, is)),
        Kind::Block(block) => jumps(block, is),
        _ => false,
    }
}

/// Whether there is a jump in a block, wherever it leads.
pub(crate) fn jumps_anywhere(block: &Block) -> bool {
    let mut found = false;
    walk_block(block, &mut |node| {
        found |= matches!(node, Node::Stmt(Stmt::Break | Stmt::Continue | Stmt::Return(_)));
    });
    found
}

/// Which variables a statement uses or declares.
pub(crate) fn used(stmt: &Stmt) -> BTreeSet<VarId> {
    let mut found = BTreeSet::new();
    walk_stmt(stmt, &mut |node| match node {
        Node::Expr(Expr { kind: Kind::Var(var), .. }) => {
            found.insert(*var);
        }
        Node::Place(place) => {
            if let Base::Var(var) = place.base {
                found.insert(var);
            }
        }
        Node::Stmt(Stmt::Let(var, _)) => {
            found.insert(*var);
        }
        _ => {}
    });
    found
}

/// Whether evaluating an expression changes nothing.
pub(crate) fn changes_nothing(expr: &Expr) -> bool {
    let mut changes = false;
    walk(expr, &mut |node| {
        changes |= matches!(node, Node::Stmt(Stmt::Assign(..))) || has_effect(node);
    });
    !changes
}

/// Whether an expression itself changes memory or order, or calls what may change its caller's variables or memory.
pub(crate) fn has_effect(node: Node<'_>) -> bool {
    match node {
        Node::Expr(Expr { kind: Kind::Atomic(..) | Kind::Fence(..), .. }) => true,
        Node::Expr(Expr { kind: Kind::Call(_, args), .. }) => {
            !args.iter().all(|arg| matches!(arg, Arg::Value(_)))
        }
        _ => false,
    }
}

/// The functions in which something of this kind stands, or in helpers that they call.
pub(crate) fn functions_with(module: &Module, is_it: impl Fn(&Kind) -> bool) -> BTreeSet<usize> {
    let mut found: BTreeSet<usize> = BTreeSet::new();
    loop {
        let before = found.len();
        for (at, function) in module.functions.iter().enumerate() {
            walk_block(&function.body, &mut |node| {
                let Node::Expr(expr) = node else { return };
                let calls_one = matches!(&expr.kind, Kind::Call(helper, _) if found.contains(helper));
                found.extend((calls_one || is_it(&expr.kind)).then_some(at));
            });
        }
        if found.len() == before {
            return found;
        }
    }
}
