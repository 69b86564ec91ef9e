//! `if position >= limit { return; }` at a kernel's start, as the condition of all that follows: what looks for limits then
//! finds them in one form.

use crate::hir::{BinOp, Block, Expr, Function, Kind, Stmt, UnOp};
use crate::ty::{Scalar, Ty};

/// The function with its early returns turned into conditions of what stands behind them.
pub(super) fn turned(function: &Function) -> Function {
    let mut function = function.clone();
    function.body.stmts = turned_stmts(std::mem::take(&mut function.body.stmts));
    function
}

fn turned_stmts(stmts: Vec<Stmt>) -> Vec<Stmt> {
    let mut stmts = stmts.into_iter();
    let mut kept = Vec::new();
    while let Some(stmt) = stmts.next() {
        match stmt {
            Stmt::Expr(Expr { kind: Kind::If(condition, yes, no), span, .. })
                if is_return(&yes) && is_nothing(&no) =>
            {
                let rest = turned_stmts(stmts.collect());
                let rest = Block { stmts: rest, tail: None };
                let condition = Box::new(opposite(*condition));
                kept.push(Stmt::Expr(Expr::new(Kind::If(condition, rest, Block::default()), Ty::Unit, span)));
                return kept;
            }
            other => kept.push(other),
        }
    }
    kept
}

fn is_return(block: &Block) -> bool {
    matches!(block.stmts[..], [Stmt::Return(None)]) && block.tail.is_none()
}

fn is_nothing(block: &Block) -> bool {
    block.stmts.is_empty() && block.tail.is_none()
}

/// What is true where `condition` is false.
fn opposite(condition: Expr) -> Expr {
    let Expr { kind, ty, span } = condition;
    let kind = match kind {
        Kind::Binary(op, a, b) => match (op, a.ty.scalar().is_some_and(Scalar::is_int)) {
            (BinOp::Ge, true) => Kind::Binary(BinOp::Lt, a, b),
            (BinOp::Le, true) => Kind::Binary(BinOp::Gt, a, b),
            (BinOp::Gt, true) => Kind::Binary(BinOp::Le, a, b),
            (BinOp::Lt, true) => Kind::Binary(BinOp::Ge, a, b),
            // Neither holds for what is no number.
            _ => return not(Expr::new(Kind::Binary(op, a, b), ty, span)),
        },
        Kind::Logic(and, a, b) => Kind::Logic(!and, Box::new(opposite(*a)), Box::new(opposite(*b))),
        other => return not(Expr::new(other, ty, span)),
    };
    Expr::new(kind, ty, span)
}

fn not(condition: Expr) -> Expr {
    let (ty, span) = (condition.ty.clone(), condition.span);
    Expr::new(Kind::Unary(UnOp::Not, Box::new(condition)), ty, span)
}
