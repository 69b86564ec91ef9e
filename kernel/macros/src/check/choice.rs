//! `match`.

use std::collections::HashMap;

use syn::spanned::Spanned;

use super::exchange::exchange;
use super::ranges::integers;
use super::{Checker, Named};
use crate::enums::Variant;
use crate::hir::{Block, Expr, Kind, Stmt, VarKind};
use crate::ty::{BOOL, Scalar, Ty};

impl Checker<'_> {
    pub(super) fn choice(&mut self, choice: &syn::ExprMatch) -> Expr {
        let span = choice.match_token.span;
        if let Some(call) = exchange(&choice.expr) {
            return self.exchange_match(call, choice);
        }
        let of = self.expr(&choice.expr);
        let ty = of.ty.clone();
        if self.infer.shallow(&ty) == BOOL {
            return self.either_way(of, choice);
        }
        let mut before = Vec::new();
        let of = match self.chosen(of, &mut before) {
            Ok(of) => return self.variants_match(of, before, choice),
            Err(of) => of,
        };
        // An arm that gives the value a name is for all others, and the value is found once.
        let names = choice.arms.iter().any(|arm| self.named_rest(&arm.pat).is_some());
        let of = match names {
            true => {
                let kept = self.keep(of, &mut before);
                Expr::new(Kind::Var(kept), ty.clone(), choice.expr.span())
            }
            false => of,
        };
        let choices = match self.infer.shallow(&ty) {
            Ty::Enum(at) => Some(at),
            _ => {
                let message = "a kernel's `match` is on integers, `bool`, enums and `Option`s, and this is `{}`; use `if`";
                self.demand(&ty, of.span, Scalar::is_int, message);
                None
            }
        };
        let mut arms: Vec<(Vec<i128>, Block)> = Vec::new();
        let mut rest = false;
        for arm in &choice.arms {
            if let Some((token, _)) = &arm.guard {
                self.errors.at(token.span, "a kernel's `match` has no guards; put an `if` into the arm");
            }
            if rest {
                self.errors.at(arm.pat.span(), "nothing gets here: the arm before takes all others");
            }
            let mut values = Vec::new();
            let rest_name = self.named_rest(&arm.pat).cloned();
            let all = rest_name.is_some() || self.pattern(&arm.pat, &ty, &mut values);
            values.sort_unstable();
            values.dedup();
            // The first arm has it, as in Rust.
            let first = values.first().copied();
            values.retain(|value| !arms.iter().any(|(others, _)| others.contains(value)));
            if let (Some(value), true) = (first, values.is_empty()) {
                self.errors.at(arm.pat.span(), format!("`{value}` has an arm already"));
            }
            if all {
                values.clear();
            }
            rest |= all;
            self.scopes.push(HashMap::new());
            let named = rest_name.map(|name| {
                let var =
                    self.bind(name.ident.clone(), ty.clone(), name.mutability.is_some(), VarKind::Value);
                Stmt::Let(var, Some(of.clone()))
            });
            let mut block = self.arm(&arm.body);
            self.scopes.pop();
            block.stmts.splice(0..0, named);
            arms.push((values, block));
        }
        if let (false, Some(at)) = (rest, choices) {
            let of = self.around.structs.choice(at);
            let is_left =
                |variant: &&Variant| !arms.iter().any(|(values, _)| values.contains(&variant.number));
            if let Some(Variant { name, .. }) = of.variants.iter().find(is_left) {
                return self.error(span, format!("`{}::{name}` has no arm", of.name));
            }
            // All others are what is left for the last one.
            arms.last_mut().into_iter().for_each(|(values, _)| values.clear());
        } else if !rest {
            return self.error(span, "a `match` on integers ends in an arm for all others: `_ => …`");
        }
        let blocks: Vec<&Block> = arms.iter().map(|(_, block)| block).collect();
        let common = self.common(&blocks, span);
        self.behind(before, Expr::new(Kind::Match(Box::new(of), arms), common, span))
    }

    /// The name that a pattern gives to whatever comes.
    fn named_rest<'p>(&self, pattern: &'p syn::Pat) -> Option<&'p syn::PatIdent> {
        match pattern {
            syn::Pat::Ident(name) if name.by_ref.is_none() && name.subpat.is_none() => {
                let is_const = matches!(self.look_up(&name.ident.to_string()), Some(Named::Const(_)));
                (!is_const).then_some(name)
            }
            _ => None,
        }
    }

    /// What an arm does.
    pub(super) fn arm(&mut self, body: &syn::Expr) -> Block {
        match body {
            syn::Expr::Block(block) if block.label.is_none() => self.block(&block.block),
            body => {
                let inner = self.expr(body);
                Block { stmts: Vec::new(), tail: Some(Box::new(inner)) }
            }
        }
    }

    /// `match condition { true => …, false => … }`.
    fn either_way(&mut self, of: Expr, choice: &syn::ExprMatch) -> Expr {
        let span = choice.match_token.span;
        let (mut yes, mut no) = (None, None);
        for arm in &choice.arms {
            if let Some((token, _)) = &arm.guard {
                self.errors.at(token.span, "a kernel's `match` has no guards; put an `if` into the arm");
            }
            let side = match &arm.pat {
                syn::Pat::Lit(syn::ExprLit { lit: syn::Lit::Bool(value), .. }) => Some(value.value),
                // All that is left.
                syn::Pat::Wild(_) if yes.is_some() != no.is_some() => Some(yes.is_none()),
                _ => None,
            };
            let place = match side {
                Some(true) if yes.is_none() => &mut yes,
                Some(false) if no.is_none() => &mut no,
                _ => {
                    self.errors.at(
                        arm.pat.span(),
                        "a `match` on a `bool` has the arms `true` and `false`, each once",
                    );
                    continue;
                }
            };
            *place = Some(self.arm(&arm.body));
        }
        let (Some(yes), Some(no)) = (yes, no) else {
            return self.error(span, "a `match` on a `bool` has the arms `true` and `false`");
        };
        let ty = self.common(&[&yes, &no], span);
        Expr::new(Kind::If(Box::new(of), yes, no), ty, span)
    }

    /// The values of a pattern; whether it takes everything.
    fn pattern(&mut self, pattern: &syn::Pat, ty: &Ty, values: &mut Vec<i128>) -> bool {
        match pattern {
            syn::Pat::Wild(_) => return true,
            syn::Pat::Or(or) => return or.cases.iter().any(|case| self.pattern(case, ty, values)),
            syn::Pat::Paren(inner) => return self.pattern(&inner.pat, ty, values),
            syn::Pat::Lit(lit) => {
                let mut value = self.expr(&syn::Expr::Lit(lit.clone()));
                self.expect(&value.ty.clone(), ty, value.span);
                self.settle_expr(&mut value);
                match value.kind {
                    Kind::Int(value) => values.push(value),
                    _ => self.errors.at(value.span, "a pattern is an integer, several of them, or `_`"),
                }
            }
            syn::Pat::Path(path) => {
                let value = self.path(&path.path);
                self.expect(&value.ty.clone(), ty, value.span);
                match value.kind {
                    Kind::Int(value) => values.push(value),
                    _ if value.ty == Ty::Error => {}
                    _ => self.errors.at(value.span, "a pattern is an integer, several of them, or `_`"),
                }
            }
            syn::Pat::Ident(name) if name.subpat.is_none() && name.by_ref.is_none() => {
                match self.look_up(&name.ident.to_string()) {
                    Some(Named::Const(at)) => match self.consts[at].value.kind {
                        Kind::Int(value) => {
                            let of = self.consts[at].ty.clone();
                            self.expect(&of, ty, name.ident.span());
                            values.push(value);
                        }
                        _ => self
                            .errors
                            .at(name.ident.span(), "a pattern is an integer, several of them, or `_`"),
                    },
                    _ => self.errors.at(
                        name.ident.span(),
                        "a pattern does not bind a name; write `_`, and use the value that is matched",
                    ),
                }
            }
            syn::Pat::Range(range) => {
                let mut end = |end: &Option<Box<syn::Expr>>| {
                    let end = end.as_deref()?;
                    let mut value = self.expr(end);
                    self.expect(&value.ty.clone(), ty, end.span());
                    self.settle_expr(&mut value);
                    self.integer(&value)
                };
                let inclusive = matches!(range.limits, syn::RangeLimits::Closed(_));
                match (end(&range.start), end(&range.end)) {
                    (Some(from), Some(to)) => match integers(from, to, inclusive) {
                        Some(all) if all.is_empty() => self.errors.at(range.span(), "this range is empty"),
                        Some(all) => values.extend(all),
                        None => self.errors.at(
                            range.span(),
                            "a range in a kernel's pattern has 1024 integers at most; use `if`",
                        ),
                    },
                    _ => self.errors.at(
                        range.span(),
                        "a range in a kernel's pattern has both ends, integers or constants: `1..=9`",
                    ),
                }
            }
            other => {
                // A negative literal is an expression to syn, which it wraps in no pattern of its own.
                let text = quote::ToTokens::to_token_stream(other);
                match syn::parse2::<syn::Expr>(text) {
                    Ok(syn::Expr::Unary(unary)) => {
                        let mut value = self.unary(&unary);
                        self.expect(&value.ty.clone(), ty, value.span);
                        self.settle_expr(&mut value);
                        match value.kind {
                            Kind::Int(value) => values.push(value),
                            _ => {
                                self.errors.at(value.span, "a pattern is an integer, several of them, or `_`")
                            }
                        }
                    }
                    _ => self.errors.at(other.span(), "a pattern is an integer, several of them, or `_`"),
                }
            }
        }
        false
    }
}
