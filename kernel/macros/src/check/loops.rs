//! Loops, and the ways out of them.
//!
//! WGSL has no labels. A jump to an outer loop sets a flag and leaves the innermost one; behind each loop on the way the flag is
//! asked, and the jump goes on from there.

use std::collections::HashMap;

use proc_macro2::{Ident, Span};
use syn::spanned::Spanned;

use super::Checker;
use super::exchange::exchange;
use crate::flow::leaves_loop;
use crate::hir::{Base, Block, Expr, Kind, Place, Stmt, VarId, VarKind};
use crate::ty::{BOOL, Ty, U32};

/// Turns of a loop that is unrolled.
const MOST_TURNS: i128 = 64;

/// The loops around what is being checked, the outermost first.
#[derive(Default)]
pub(super) struct Loops {
    /// The label of each.
    labels: Vec<Option<String>>,
    /// That of the loop whose body comes next.
    next: Option<String>,
    /// Jumps out of the innermost loops that have yet to go on.
    jumps: Vec<Jump>,
}

/// A jump to an outer loop.
#[derive(Clone)]
struct Jump {
    /// How many loops are around that one.
    target: usize,
    how: Stmt,
    flag: VarId,
}

impl Checker<'_> {
    /// A loop as a statement.
    pub(super) fn repeated(&mut self, expr: &syn::Expr, to: &mut Block) {
        let mut inner = Block::default();
        if let syn::Expr::While(syn::ExprWhile { attrs, .. }) | syn::Expr::Loop(syn::ExprLoop { attrs, .. }) =
            expr
        {
            self.refuse_unroll(attrs);
        }
        match expr {
            syn::Expr::While(repeat) => {
                if let syn::Expr::Let(pattern) = &*repeat.cond {
                    self.label(repeat.label.as_ref());
                    inner.stmts.extend(match exchange(&pattern.expr) {
                        Some(call) => self.exchange_while_let(call, &pattern.pat, &repeat.body),
                        None => self.while_let(pattern, &repeat.body),
                    });
                    self.loops.next = None;
                    return self.go_on(inner, expr.span(), to);
                }
                let condition = self.expr_to(&repeat.cond, &BOOL);
                self.label(repeat.label.as_ref());
                let body = self.body(&repeat.body);
                inner.stmts.push(Stmt::While(condition, body));
            }
            syn::Expr::Loop(repeat) => {
                self.label(repeat.label.as_ref());
                let body = self.body(&repeat.body);
                inner.stmts.push(Stmt::Loop(body));
            }
            syn::Expr::ForLoop(repeat) => {
                self.label(repeat.label.as_ref());
                self.for_loop(repeat, &mut inner);
            }
            _ => {}
        }
        self.loops.next = None;
        self.go_on(inner, expr.span(), to);
    }

    fn label(&mut self, label: Option<&syn::Label>) {
        self.loops.next = label.map(|label| label.name.ident.to_string());
    }

    /// What stands around a loop out of which jumps go on: their flags before it, and behind it the rest of their way.
    fn go_on(&mut self, inner: Block, span: Span, to: &mut Block) {
        let depth = self.loops.labels.len();
        let (here, farther): (Vec<Jump>, Vec<Jump>) =
            std::mem::take(&mut self.loops.jumps).into_iter().partition(|jump| jump.target + 1 == depth);
        for jump in &here {
            let never = Expr::new(Kind::Bool(false), BOOL, span);
            to.stmts.push(Stmt::Let(jump.flag, Some(never)));
        }
        to.stmts.extend(inner.stmts);
        let ends = here.iter().map(|jump| (jump.flag, jump.how.clone()));
        for (flag, how) in ends.chain(farther.iter().map(|jump| (jump.flag, Stmt::Break))) {
            let flag = Expr::new(Kind::Var(flag), BOOL, span);
            let yes = Block { stmts: vec![how], tail: None };
            let asked = Kind::If(Box::new(flag), yes, Block::default());
            to.stmts.push(Stmt::Expr(Expr::new(asked, Ty::Unit, span)));
        }
        self.loops.jumps = farther;
    }

    pub(super) fn body(&mut self, block: &syn::Block) -> Block {
        let label = self.loops.next.take();
        self.loops.labels.push(label);
        let mut body = self.block(block);
        self.loops.labels.pop();
        if let Some(tail) = body.tail.take() {
            self.expect(&tail.ty.clone(), &Ty::Unit, tail.span);
            body.stmts.push(Stmt::Expr(*tail));
        }
        body
    }

    /// `break` and `continue`.
    pub(super) fn jump(&mut self, span: Span, label: Option<&syn::Lifetime>, how: Stmt, to: &mut Block) {
        let what = if matches!(how, Stmt::Break) { "break" } else { "continue" };
        let Some(innermost) = self.loops.labels.len().checked_sub(1) else {
            return self.errors.at(span, format!("`{what}` stands in a loop"));
        };
        let target = match label {
            None => Some(innermost),
            Some(label) => {
                let name = label.ident.to_string();
                self.loops.labels.iter().rposition(|of| of.as_ref() == Some(&name))
            }
        };
        let Some(target) = target else {
            let span = label.map_or(span, syn::Lifetime::span);
            return self
                .errors
                .at(span, "there is no loop of this label around here; blocks have none in kernels");
        };
        if target == innermost {
            to.stmts.push(how);
            return;
        }
        let is_same = |jump: &Jump| {
            jump.target == target
                && matches!((&jump.how, &how), (Stmt::Break, Stmt::Break) | (Stmt::Continue, Stmt::Continue))
        };
        let flag = match self.loops.jumps.iter().find(|jump| is_same(jump)) {
            Some(jump) => jump.flag,
            None => {
                let flag = self.nameless("leaves", BOOL, true, span);
                self.loops.jumps.push(Jump { target, how, flag });
                flag
            }
        };
        let place = Place { base: Base::Var(flag), path: Vec::new(), ty: BOOL };
        to.stmts.push(Stmt::Assign(place, None, Expr::new(Kind::Bool(true), BOOL, span)));
        to.stmts.push(Stmt::Break);
    }

    /// A variable that nothing in the body can name.
    pub(super) fn nameless(&mut self, name: &str, ty: Ty, mutable: bool, span: Span) -> VarId {
        let name = Ident::new(name, span);
        self.vars.push(crate::hir::Var { name, ty, mutable, kind: VarKind::Value });
        self.vars.len() - 1
    }

    /// Gives a value such a variable.
    pub(super) fn keep(&mut self, value: Expr, to: &mut Vec<Stmt>) -> VarId {
        let var = self.nameless("kept", value.ty.clone(), false, value.span);
        to.push(Stmt::Let(var, Some(value)));
        var
    }

    fn for_loop(&mut self, repeat: &syn::ExprForLoop, to: &mut Block) {
        let mut of = &*repeat.expr;
        while let syn::Expr::Paren(inner) = of {
            of = &inner.expr;
        }
        if !matches!(of, syn::Expr::Range(_)) {
            self.refuse_unroll(&repeat.attrs);
        }
        if let Some((range, way)) = self.way(of) {
            return self.walked(repeat, range, way, to);
        }
        let syn::Expr::Range(range) = of else { return self.for_each(repeat, of, to) };
        let Some((from, until)) = self.ends(range) else { return };
        let ty = from.ty.clone();
        let inclusive = matches!(range.limits, syn::RangeLimits::Closed(_));
        if let Some(unroll) = unroll(&repeat.attrs) {
            return self.unrolled(repeat, unroll.span(), (from, until, inclusive), to);
        }
        self.scopes.push(HashMap::new());
        let (name, mutable) = self.counter(&repeat.pat);
        let var = self.bind(name, ty, mutable, VarKind::Value);
        let body = self.body(&repeat.body);
        self.scopes.pop();
        to.stmts.push(Stmt::For { var, from, to: until, inclusive, body });
    }

    fn refuse_unroll(&mut self, attrs: &[syn::Attribute]) {
        if let Some(unroll) = unroll(attrs) {
            self.errors.at(unroll.span(), "`#[unroll]` stands on a `for` over a range: `for k in 0..4`");
        }
    }

    /// `#[unroll]`: the turns one after the other, each with its number as one that is known.
    fn unrolled(
        &mut self,
        repeat: &syn::ExprForLoop,
        span: Span,
        (mut from, mut until, inclusive): (Expr, Expr, bool),
        to: &mut Block,
    ) {
        let ty = from.ty.clone();
        for end in [&mut from, &mut until] {
            self.settle_expr(end);
        }
        let (Kind::Int(first), Kind::Int(end)) = (&from.kind, &until.kind) else {
            return self.errors.at(span, "a loop that is unrolled goes from one known number to another");
        };
        let turns = *first..*end + i128::from(inclusive);
        if turns.end - turns.start > MOST_TURNS {
            return self.errors.at(
                span,
                format!(
                    "this loop has {} turns, and one of more than {MOST_TURNS} is not unrolled",
                    turns.end - turns.start
                ),
            );
        }
        for turn in turns {
            self.scopes.push(HashMap::new());
            let (name, mutable) = self.counter(&repeat.pat);
            let var = self.bind(name, ty.clone(), mutable, VarKind::Value);
            let mut body = self.body(&repeat.body);
            self.scopes.pop();
            if leaves_loop(&body) {
                return self.errors.at(span, "a loop with `break` or `continue` is not unrolled");
            }
            let number = Expr::new(Kind::Int(turn), ty.clone(), span);
            body.stmts.insert(0, Stmt::Let(var, Some(number)));
            to.stmts.push(Stmt::Expr(Expr::new(Kind::Block(body), Ty::Unit, span)));
        }
    }

    /// `for value in array`.
    fn for_each(&mut self, repeat: &syn::ExprForLoop, of: &syn::Expr, to: &mut Block) {
        let array = match of {
            syn::Expr::Reference(reference) if reference.mutability.is_none() => &*reference.expr,
            syn::Expr::MethodCall(call)
                if call.method == "iter" && call.args.is_empty() && self.slice(&call.receiver).is_none() =>
            {
                &*call.receiver
            }
            other => other,
        };
        if let syn::Expr::MethodCall(call) = array {
            return self.errors.at(
                of.span(),
                format!(
                    "kernels have no iterators, so no `.{}()`; a range may have `.rev()` or `.step_by(2)`, and what else \
                     there is to count, count by `while`",
                    call.method
                ),
            );
        }
        if self.slice(array).is_some() {
            return self.errors.at(of.span(), "a kernel's `for` goes over a range: `for i in 0..x.len()`");
        }
        let array = self.expr(array);
        let (elements, len) = match self.infer.shallow(&array.ty) {
            Ty::Array(elements, len) => (*elements, len),
            Ty::Error => return,
            _ => {
                return self
                    .errors
                    .at(of.span(), "a kernel's `for` goes over a range, `for i in 0..n`, or an array");
            }
        };
        let (span, ty) = (array.span, array.ty.clone());
        let array = self.keep(array, &mut to.stmts);
        let at = self.nameless("at", U32, false, span);
        let [array, index] =
            [(array, ty), (at, U32)].map(|(var, ty)| Box::new(Expr::new(Kind::Var(var), ty, span)));
        let value = Expr::new(Kind::Index(array, index), elements, span);
        self.scopes.push(HashMap::new());
        let mut named = Block::default();
        match &*repeat.pat {
            // `&value` of an array's `iter()`.
            syn::Pat::Reference(inner) => self.bind_pattern(&inner.pat, value, &mut named),
            pattern => self.bind_pattern(pattern, value, &mut named),
        }
        let mut body = self.body(&repeat.body);
        self.scopes.pop();
        body.stmts.splice(0..0, named.stmts);
        let number = |value: u32| Expr::new(Kind::Int(i128::from(value)), U32, span);
        to.stmts.push(Stmt::For { var: at, from: number(0), to: number(len), inclusive: false, body });
    }
}

/// Asks for a loop to be written out.
fn unroll(attrs: &[syn::Attribute]) -> Option<&syn::Attribute> {
    attrs.iter().find(|attr| attr.path().is_ident("unroll"))
}
