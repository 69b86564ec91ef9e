//! `compare_exchange`, whose result is asked for by `is_ok()` and `is_err()`, or by a `match` or an `if let` with `Ok` and `Err`.

use std::collections::HashMap;

use proc_macro2::Span;
use syn::spanned::Spanned;

use super::Checker;
use super::ordered::Atomic;
use crate::hir::{AtomicOp, BinOp, Block, Expr, Kind, May, Stmt, VarId, VarKind};
use crate::order::{Order, Promise};
use crate::ty::{BOOL, Ty};

/// An exchange that has been made: what was to be there, and what was.
struct Made {
    stmts: Vec<Stmt>,
    current: VarId,
    seen: VarId,
    span: Span,
}

/// The call, if an expression is one.
pub(super) fn exchange(expr: &syn::Expr) -> Option<&syn::ExprMethodCall> {
    match expr {
        syn::Expr::Paren(inner) => exchange(&inner.expr),
        syn::Expr::Group(inner) => exchange(&inner.expr),
        syn::Expr::MethodCall(call)
            if call.method == "compare_exchange" || call.method == "compare_exchange_weak" =>
        {
            Some(call)
        }
        _ => None,
    }
}

impl Checker<'_> {
    /// `exchange.is_ok()` and `exchange.is_err()`.
    pub(super) fn exchanged(&mut self, call: &syn::ExprMethodCall, wants: bool) -> Expr {
        match self.exchange_made(call) {
            Some(made) => {
                let op = if wants { BinOp::Eq } else { BinOp::Ne };
                let (span, tail) = (made.span, self.compared(&made, op));
                let block = Block { stmts: made.stmts, tail: Some(Box::new(tail)) };
                Expr::new(Kind::Block(block), BOOL, span)
            }
            None => Expr::new(Kind::Unit, Ty::Error, call.method.span()),
        }
    }

    /// `match exchange { Ok(was) => …, Err(was) => … }`.
    pub(super) fn exchange_match(&mut self, call: &syn::ExprMethodCall, choice: &syn::ExprMatch) -> Expr {
        let span = choice.match_token.span;
        let Some(made) = self.exchange_made(call) else { return Expr::new(Kind::Unit, Ty::Error, span) };
        let (mut ok, mut err) = (None, None);
        for arm in &choice.arms {
            if let Some((token, _)) = &arm.guard {
                self.errors.at(token.span, "a kernel's `match` has no guards; put an `if` into the arm");
            }
            let side = side(&arm.pat);
            let (yes, no) = match side {
                Some(wants) => (wants, !wants),
                None => (true, true),
            };
            let is_new = yes && ok.is_none() || no && err.is_none();
            if !is_new || !is_known(&arm.pat) {
                self.errors.at(arm.pat.span(), "an exchange is `Ok(was)` or `Err(was)`, each once");
                continue;
            }
            let block = self.side_block(&made, &arm.pat, |checker| checker.arm(&arm.body));
            // `_` may stand for both only where neither came before, since a block is written once.
            match (yes && ok.is_none(), no && err.is_none()) {
                (true, true) => {
                    self.errors.at(arm.pat.span(), "name what the exchange is: `Ok(_)` or `Err(_)`");
                }
                (true, false) => ok = Some(block),
                _ => err = Some(block),
            }
        }
        let (Some(ok), Some(err)) = (ok, err) else {
            return self.error(span, "an exchange is both `Ok(was)` and `Err(was)`");
        };
        self.either(made, ok, err, span)
    }

    /// `if let Err(was) = exchange { … } else { … }`.
    pub(super) fn exchange_if_let(
        &mut self,
        call: &syn::ExprMethodCall,
        pattern: &syn::Pat,
        branch: &syn::ExprIf,
    ) -> Expr {
        let span = branch.if_token.span;
        let Some(wants) = side(pattern).filter(|_| is_known(pattern)) else {
            return self.error(pattern.span(), "an exchange is `Ok(was)` or `Err(was)`");
        };
        let Some(made) = self.exchange_made(call) else { return Expr::new(Kind::Unit, Ty::Error, span) };
        let then = self.side_block(&made, pattern, |checker| checker.block(&branch.then_branch));
        let otherwise = self.otherwise(branch);
        let (ok, err) = if wants { (then, otherwise) } else { (otherwise, then) };
        let value = self.either(made, ok, err, span);
        if branch.else_branch.is_none() && !matches!(value.ty, Ty::Unit | Ty::Never | Ty::Error) {
            return self.error(span, "an `if` that has a value needs an `else`");
        }
        value
    }

    /// `while let Err(was) = exchange { … }`.
    pub(super) fn exchange_while_let(
        &mut self,
        call: &syn::ExprMethodCall,
        pattern: &syn::Pat,
        body: &syn::Block,
    ) -> Option<Stmt> {
        let Some(wants) = side(pattern).filter(|_| is_known(pattern)) else {
            self.errors.at(pattern.span(), "an exchange is `Ok(was)` or `Err(was)`");
            return None;
        };
        let made = self.exchange_made(call)?;
        let span = made.span;
        let turn = self.side_block(&made, pattern, |checker| checker.body(body));
        let end = Block { stmts: vec![Stmt::Break], tail: None };
        let (ok, err) = if wants { (turn, end) } else { (end, turn) };
        let either = self.either(made, ok, err, span);
        Some(Stmt::Loop(Block { stmts: vec![Stmt::Expr(either)], tail: None }))
    }

    fn either(&mut self, made: Made, ok: Block, err: Block, span: Span) -> Expr {
        let ty = self.common(&[&ok, &err], span);
        let condition = self.compared(&made, BinOp::Eq);
        self.behind(made.stmts, Expr::new(Kind::If(Box::new(condition), ok, err), ty, span))
    }

    /// A block in which the pattern's name is what was there.
    fn side_block(
        &mut self,
        made: &Made,
        pattern: &syn::Pat,
        block: impl FnOnce(&mut Self) -> Block,
    ) -> Block {
        self.scopes.push(HashMap::new());
        let bound = name(pattern).map(|name| {
            let ty = self.vars[made.seen].ty.clone();
            let was = Expr::new(Kind::Var(made.seen), ty.clone(), name.ident.span());
            let var = self.bind(name.ident.clone(), ty, name.mutability.is_some(), VarKind::Value);
            Stmt::Let(var, Some(was))
        });
        let mut block = block(self);
        self.scopes.pop();
        block.stmts.splice(0..0, bound);
        block
    }

    fn compared(&self, made: &Made, op: BinOp) -> Expr {
        let ty = &self.vars[made.seen].ty;
        let of = |var| Box::new(Expr::new(Kind::Var(var), ty.clone(), made.span));
        Expr::new(Kind::Binary(op, of(made.seen), of(made.current)), BOOL, made.span)
    }

    /// The exchange itself, once all that it is made of has a name.
    fn exchange_made(&mut self, call: &syn::ExprMethodCall) -> Option<Made> {
        let span = call.method.span();
        let element = self
            .indexed_slice(&call.receiver)
            .filter(|var| matches!(&self.vars[*var].kind, VarKind::Slice(slice) if slice.may == May::Atomic));
        if element.is_none() {
            self.errors.at(span, "only an element of atomics is exchanged like this");
            return None;
        }
        let (var, at) = self.element(&call.receiver)?;
        let [current, new, success, failure] = &call.args.iter().collect::<Vec<_>>()[..] else {
            self.errors
                .at(span, "an exchange takes what is to be there, what is written then, and two orders");
            return None;
        };
        let ty = self.vars[var].ty.clone();
        if !matches!(ty, Ty::Scalar(scalar) if scalar.is_int()) {
            self.errors.at(span, "integers are exchanged like this; of a float take the bits");
            return None;
        }
        let mut stmts = Vec::new();
        let at = at.into_iter().map(|index| {
            let index_ty = index.ty.clone();
            let kept = self.keep(index, &mut stmts);
            Expr::new(Kind::Var(kept), index_ty, span)
        });
        let at: Vec<Expr> = at.collect();
        let [current, new] = [current, new].map(|value| {
            let value = self.expr_to(value, &ty);
            self.keep(value, &mut stmts)
        });
        // Both ends of it lie between the same fences.
        let mut order = self.order(AtomicOp::ExchangeIf, success);
        match Promise::of(failure) {
            Some(refused) if matches!(refused.order, Order::Relaxed | Order::Acquire | Order::SeqCst) => {
                order = order.and(refused);
            }
            _ => self.errors.at(
                failure.span(),
                "an exchange that is not made is a load: `Relaxed`, `Acquire` or `SeqCst`",
            ),
        }
        let operands = [current, new].map(|var| Expr::new(Kind::Var(var), ty.clone(), span)).to_vec();
        let done = self.ordered(order, Atomic { op: AtomicOp::ExchangeIf, var, at, operands, span });
        let seen = self.keep(done, &mut stmts);
        Some(Made { stmts, current, seen, span })
    }
}

/// Whether a pattern is `Ok` or `Err`; none where it is `_`.
fn side(pattern: &syn::Pat) -> Option<bool> {
    match pattern {
        syn::Pat::TupleStruct(of) if of.path.is_ident("Ok") => Some(true),
        syn::Pat::TupleStruct(of) if of.path.is_ident("Err") => Some(false),
        _ => None,
    }
}

/// Whether it is one of those that an exchange takes.
fn is_known(pattern: &syn::Pat) -> bool {
    match pattern {
        syn::Pat::Wild(_) => true,
        syn::Pat::TupleStruct(of) if of.elems.len() == 1 => {
            matches!(&of.elems[0], syn::Pat::Wild(_) | syn::Pat::Ident(_)) && side(pattern).is_some()
        }
        _ => false,
    }
}

/// The name that a pattern binds.
fn name(pattern: &syn::Pat) -> Option<&syn::PatIdent> {
    let syn::Pat::TupleStruct(of) = pattern else { return None };
    match of.elems.first() {
        Some(syn::Pat::Ident(name)) => Some(name),
        _ => None,
    }
}
