//! Atomics with an order: a relaxed one, as every device has it, between fences.

use proc_macro2::{Ident, Span};
use syn::spanned::Spanned;

use super::Checker;
use crate::hir::{AtomicOp, Block, Expr, Kind, Slice, Space, Stmt, Var, VarId, VarKind};
use crate::order::{Order, Promise, Scope};
use crate::ty::Ty;

/// An atomic operation's parts.
pub(super) struct Atomic {
    pub(super) op: AtomicOp,
    pub(super) var: VarId,
    pub(super) at: Vec<Expr>,
    pub(super) operands: Vec<Expr>,
    pub(super) span: Span,
}

/// What may stand behind an order.
const SCOPES: &str =
    ", for the device or, as in `Relaxed.group()`, for `item`, `sub_group`, `group`, `device` or `system`";

impl Checker<'_> {
    /// The order that an operation is given, if it can have it, and for whom.
    pub(super) fn order(&mut self, op: AtomicOp, argument: &syn::Expr) -> Promise {
        let (allowed, orders): (fn(Order) -> bool, _) = match op {
            AtomicOp::Load => (
                |o| !matches!(o, Order::Release | Order::AcqRel),
                "a load is `Relaxed`, `Acquire` or `SeqCst`",
            ),
            AtomicOp::Store => (
                |o| !matches!(o, Order::Acquire | Order::AcqRel),
                "a store is `Relaxed`, `Release` or `SeqCst`",
            ),
            _ => (|_| true, "the orders are `Relaxed`, `Acquire`, `Release`, `AcqRel` and `SeqCst`"),
        };
        match Promise::of(argument) {
            Some(promise) if allowed(promise.order) => promise,
            _ => {
                self.errors.at(argument.span(), format!("{orders}{SCOPES}"));
                Promise { order: Order::Relaxed, scope: None }
            }
        }
    }

    /// The operation with its fences. Its operands are evaluated before the first one: what they read is read before.
    pub(super) fn ordered(&mut self, Promise { order, scope }: Promise, atomic: Atomic) -> Expr {
        let Atomic { op, var, at, operands, span } = atomic;
        let result = if op == AtomicOp::Store { Ty::Unit } else { self.vars[var].ty.clone() };
        let made = |at, operands| Expr::new(Kind::Atomic(op, var, at, operands), result.clone(), span);
        if order == Order::Relaxed || scope == Some(Scope::Item) {
            return made(at, operands);
        }
        let local = matches!(self.vars[var].kind, VarKind::Slice(Slice { space: Space::Local(_), .. }));
        let scope = if local { Scope::Group } else { scope.unwrap_or(Scope::Device) };
        let fence = |order| Stmt::Expr(Expr::new(Kind::Fence(order, scope), Ty::Unit, span));
        let mut stmts = Vec::new();
        let mut kept = |list: Vec<Expr>, vars: &mut Vec<Var>| -> Vec<Expr> {
            let keep = |expr: Expr| {
                if matches!(expr.kind, Kind::Int(_)) {
                    return expr;
                }
                let ty = expr.ty.clone();
                vars.push(Var {
                    name: Ident::new("operand", span),
                    ty: ty.clone(),
                    mutable: false,
                    kind: VarKind::Value,
                });
                let at = vars.len() - 1;
                stmts.push(Stmt::Let(at, Some(expr)));
                Expr::new(Kind::Var(at), ty, span)
            };
            list.into_iter().map(keep).collect()
        };
        let (at, operands) = (kept(at, &mut self.vars), kept(operands, &mut self.vars));
        stmts.extend(order.before().map(fence));
        let done = made(at, operands);
        let tail = match result {
            Ty::Unit => {
                stmts.push(Stmt::Expr(done));
                None
            }
            ty => {
                self.vars.push(Var {
                    name: Ident::new("was", span),
                    ty: ty.clone(),
                    mutable: false,
                    kind: VarKind::Value,
                });
                let was = self.vars.len() - 1;
                stmts.push(Stmt::Let(was, Some(done)));
                Some(Box::new(Expr::new(Kind::Var(was), ty, span)))
            }
        };
        stmts.extend(order.behind().map(fence));
        let ty = tail.as_ref().map_or(Ty::Unit, |tail| tail.ty.clone());
        Expr::new(Kind::Block(Block { stmts, tail }), ty, span)
    }
}
