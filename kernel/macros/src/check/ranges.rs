//! Ranges that a `for` goes through in another way than one by one: `(a..b).rev()` and `(a..b).step_by(n)`, as loops that find out
//! before each turn whether there is another one.

use std::collections::HashMap;

use proc_macro2::Ident;
use syn::spanned::Spanned;

use super::Checker;
use crate::hir::{Base, BinOp, Block, Expr, Kind, Place, Stmt, UnOp, VarKind};
use crate::ty::{BOOL, Scalar, Ty};

/// How.
pub(super) enum Way {
    Back,
    /// By so many, which is above zero.
    By(Expr),
}

impl Checker<'_> {
    /// The range of a `for` that goes another way, and how.
    pub(super) fn way<'e>(&mut self, of: &'e syn::Expr) -> Option<(&'e syn::ExprRange, Way)> {
        let syn::Expr::MethodCall(call) = of else { return None };
        let mut receiver = &*call.receiver;
        while let syn::Expr::Paren(inner) = receiver {
            receiver = &inner.expr;
        }
        let syn::Expr::Range(range) = receiver else { return None };
        let way = match (call.method.to_string().as_str(), call.args.first(), call.args.len()) {
            ("rev", None, 0) => Way::Back,
            ("step_by", Some(by), 1) => {
                let by = self.expr(by);
                let above = self.integer(&by).filter(|step| *step > 0);
                if above.is_none() {
                    self.errors.at(by.span, "a step is an integer literal or a constant, and above zero");
                }
                Way::By(Expr::new(Kind::Int(above.unwrap_or(1)), by.ty, by.span))
            }
            _ => return None,
        };
        Some((range, way))
    }

    /// What a literal or a constant says.
    pub(super) fn integer(&self, expr: &Expr) -> Option<i128> {
        match &expr.kind {
            Kind::Int(value) => Some(*value),
            Kind::Const(at) => self.integer(&self.consts[*at].value),
            Kind::Unary(UnOp::Neg, of) => Some(-self.integer(of)?),
            _ => None,
        }
    }

    /// Both ends of a `for`'s range.
    pub(super) fn ends(&mut self, range: &syn::ExprRange) -> Option<(Expr, Expr)> {
        let (Some(start), Some(end)) = (&range.start, &range.end) else {
            self.errors.at(range.span(), "the range of a `for` has both ends: `0..n`");
            return None;
        };
        let from = self.expr(start);
        let until = self.expr_to(end, &from.ty.clone());
        let counts = |scalar: Scalar| scalar.is_int() && !scalar.is_small();
        self.demand(
            &from.ty.clone(),
            from.span,
            counts,
            "a `for` counts integers of 32 or 64 bits, and this is `{}`",
        );
        Some((from, until))
    }

    /// The name that a `for` binds, and whether its body may change it.
    pub(super) fn counter(&mut self, pattern: &syn::Pat) -> (Ident, bool) {
        match pattern {
            syn::Pat::Ident(name) => (name.ident.clone(), name.mutability.is_some()),
            syn::Pat::Wild(wild) => (Ident::new("_i", wild.underscore_token.span), false),
            other => {
                self.errors.at(other.span(), "a `for` binds a plain name");
                (Ident::new("_i", other.span()), false)
            }
        }
    }

    /// The loop, in a block of its own. What comes next is found before the body, which may `continue`.
    pub(super) fn walked(
        &mut self,
        repeat: &syn::ExprForLoop,
        range: &syn::ExprRange,
        way: Way,
        to: &mut Block,
    ) {
        let span = range.span();
        let Some((from, until)) = self.ends(range) else { return };
        let ty = from.ty.clone();
        let inclusive = matches!(range.limits, syn::RangeLimits::Closed(_));
        self.scopes.push(HashMap::new());
        let mut block = Block::default();
        let mut keep = |checker: &mut Self, name: &str, value: Expr| {
            let var = checker.bind(Ident::new(name, span), value.ty.clone(), true, VarKind::Value);
            // The body has its own names, which may be these.
            checker.scopes.last_mut().expect("the loop's").clear();
            block.stmts.push(Stmt::Let(var, Some(value)));
            var
        };
        let first = keep(self, "_first", from);
        let last = keep(self, "_last", until);
        let of = |var: usize| Expr::new(Kind::Var(var), ty.clone(), span);
        let number = |number: i128| Expr::new(Kind::Int(number), ty.clone(), span);
        let compared =
            |op: BinOp, a: Expr, b: Expr| Expr::new(Kind::Binary(op, a.into(), b.into()), BOOL, span);
        let within = if inclusive { BinOp::Le } else { BinOp::Lt };
        let any = compared(within, of(first), of(last));
        let more = keep(self, "_more", any);
        let set = |var: usize, op: Option<BinOp>, value: Expr, ty: &Ty| {
            Stmt::Assign(Place { base: Base::Var(var), path: Vec::new(), ty: ty.clone() }, op, value)
        };
        let back = matches!(way, Way::Back);
        let next = keep(self, "_next", of(if back { last } else { first }));
        self.scopes.push(HashMap::new());
        let (name, mutable) = self.counter(&repeat.pat);
        let var = self.bind(name, ty.clone(), mutable, VarKind::Value);
        let taken = Stmt::Let(var, Some(of(next)));
        let mut turn = match way {
            Way::Back => {
                let down = set(next, Some(BinOp::Sub), number(1), &ty);
                let other = set(more, None, compared(BinOp::Ne, of(next), of(first)), &BOOL);
                // From the last one, or from behind it.
                if inclusive { vec![taken, other, down] } else { vec![down, taken, other] }
            }
            Way::By(by) => {
                self.expect(&by.ty.clone(), &ty, by.span);
                let up = set(next, Some(BinOp::Add), by, &ty);
                // A step beyond the largest number comes out below.
                let above = compared(BinOp::Gt, of(next), of(var));
                let inside = compared(within, of(next), of(last));
                let both = Expr::new(Kind::Logic(true, above.into(), inside.into()), BOOL, span);
                vec![taken, up, set(more, None, both, &BOOL)]
            }
        };
        let mut body = self.body(&repeat.body);
        turn.append(&mut body.stmts);
        body.stmts = turn;
        self.scopes.pop();
        self.scopes.pop();
        block.stmts.push(Stmt::While(Expr::new(Kind::Var(more), BOOL, span), body));
        to.stmts.push(Stmt::Expr(Expr::new(Kind::Block(block), Ty::Unit, span)));
    }
}

/// The integers of a range in a pattern; `None` where they are too many to be told apart.
pub(super) fn integers(from: i128, to: i128, inclusive: bool) -> Option<Vec<i128>> {
    let end = if inclusive { to + 1 } else { to };
    (end - from <= 1024).then(|| (from..end).collect())
}
