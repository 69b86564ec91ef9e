//! Patterns that ask what a value is: of `match`, `if let`, `while let` and `let … else`, on `Option`s and enums with data.

use std::collections::HashMap;

use syn::spanned::Spanned;

use super::expr::block_ty;
use super::variants::{field_of, is_number, part, shown, tag};
use super::{Checker, Named};
use crate::enums::Variant;
use crate::hir::{Block, Expr, Kind, Stmt, VarKind};
use crate::structs::StructName;
use crate::ty::{BOOL, Ty};

/// A value that has been found, and what it can be.
pub(super) struct Choice {
    /// The variable that it is kept in.
    pub(super) value: Expr,
    pub(super) variants: Vec<Variant>,
}

/// What an arm is for.
enum Case {
    /// These variants, and what the only one binds.
    Of(Vec<Variant>, Vec<(syn::Pat, Expr)>),
    /// All that is left, by a name where there is one.
    Rest(Option<syn::PatIdent>),
}

/// Why a condition's pattern is refused.
const TAKES_ALL: &str = "this takes everything, whatever the value is: write `let`";

impl Checker<'_> {
    /// A value that is one of several things, kept in a variable; the value itself where it is none.
    pub(super) fn chosen(&mut self, value: Expr, to: &mut Vec<Stmt>) -> Result<Choice, Expr> {
        match self.variants_of(&value.ty) {
            Some(variants) => Ok(Choice { value: self.found_once(value, to), variants }),
            None => Err(value),
        }
    }

    /// A value that may be asked for several times: in a variable, unless it is one that stays as it is.
    pub(super) fn found_once(&mut self, value: Expr, to: &mut Vec<Stmt>) -> Expr {
        let is_kept = match value.kind {
            Kind::Var(var) => !self.vars[var].mutable && self.vars[var].kind == VarKind::Value,
            Kind::Int(_) | Kind::Float(_) | Kind::Bool(_) => true,
            _ => false,
        };
        if is_kept {
            return value;
        }
        let (ty, span) = (value.ty.clone(), value.span);
        Expr::new(Kind::Var(self.keep(value, to)), ty, span)
    }

    /// `match` on such a value.
    pub(super) fn variants_match(&mut self, of: Choice, before: Vec<Stmt>, choice: &syn::ExprMatch) -> Expr {
        let span = choice.match_token.span;
        let (mut left, mut is_refused) = (of.variants.clone(), false);
        let mut arms: Vec<(Vec<i128>, Block)> = Vec::new();
        for arm in &choice.arms {
            if let Some((token, _)) = &arm.guard {
                self.errors.at(token.span, "a kernel's `match` has no guards; put an `if` into the arm");
            }
            let Some(case) = self.case(&arm.pat, &of) else {
                is_refused = true;
                continue;
            };
            let mut numbers: Vec<i128> = match &case {
                Case::Of(variants, _) => variants.iter().map(|variant| variant.number).collect(),
                Case::Rest(_) => left.iter().map(|variant| variant.number).collect(),
            };
            numbers.retain(|number| left.iter().any(|variant| variant.number == *number));
            if numbers.is_empty() {
                self.errors.at(arm.pat.span(), "nothing gets here: all of it has an arm already");
            }
            left.retain(|variant| !numbers.contains(&variant.number));
            let block = self.case_block(case, &of, |checker| checker.arm(&arm.body));
            arms.push((numbers, block));
        }
        if is_refused {
            return Expr::new(Kind::Unit, Ty::Error, span);
        }
        if let Some(variant) = left.first() {
            return self.error(span, format!("`{}` has no arm", shown(variant)));
        }
        let blocks: Vec<&Block> = arms.iter().map(|(_, block)| block).collect();
        let ty = self.common(&blocks, span);
        let Some((_, last)) = arms.pop() else { return self.error(span, "this `match` has no arms") };
        let made = match &arms[..] {
            [] => Kind::Block(last),
            [(numbers, first)] if numbers.len() == 1 => {
                Kind::If(Box::new(is_number(&of.value, numbers[0])), first.clone(), last)
            }
            _ => {
                arms.push((Vec::new(), last));
                Kind::Match(Box::new(tag(&of.value)), arms)
            }
        };
        self.behind(before, Expr::new(made, ty, span))
    }

    /// `if let pattern = value`.
    pub(super) fn if_let(&mut self, pattern: &syn::ExprLet, branch: &syn::ExprIf) -> Expr {
        let span = branch.if_token.span;
        let mut before = Vec::new();
        let value = self.expr(&pattern.expr);
        let Some((of, case)) = self.asked(&pattern.pat, value, &mut before) else {
            return Expr::new(Kind::Unit, Ty::Error, span);
        };
        let condition = self.is_case(&case, &of);
        let yes = self.case_block(case, &of, |checker| checker.block(&branch.then_branch));
        let no = self.otherwise(branch);
        let ty = self.common(&[&yes, &no], span);
        if branch.else_branch.is_none() && !matches!(ty, Ty::Unit | Ty::Never | Ty::Error) {
            return self.error(span, "an `if` that has a value needs an `else`");
        }
        self.behind(before, Expr::new(Kind::If(Box::new(condition), yes, no), ty, span))
    }

    /// `while let pattern = value`.
    pub(super) fn while_let(&mut self, pattern: &syn::ExprLet, body: &syn::Block) -> Option<Stmt> {
        let span = pattern.let_token.span;
        let mut turn = Vec::new();
        let value = self.expr(&pattern.expr);
        let (of, case) = self.asked(&pattern.pat, value, &mut turn)?;
        let condition = self.is_case(&case, &of);
        let yes = self.case_block(case, &of, |checker| checker.body(body));
        let no = Block { stmts: vec![Stmt::Break], tail: None };
        let either = Kind::If(Box::new(condition), yes, no);
        turn.push(Stmt::Expr(Expr::new(either, Ty::Unit, span)));
        Some(Stmt::Loop(Block { stmts: turn, tail: None }))
    }

    /// `let pattern = value else { … };`
    pub(super) fn let_else(
        &mut self,
        pattern: &syn::Pat,
        value: Expr,
        otherwise: &syn::Expr,
        to: &mut Block,
    ) {
        let (span, mut before) = (value.span, Vec::new());
        let (Some((of, case)), syn::Expr::Block(otherwise)) =
            (self.asked(pattern, value, &mut before), otherwise)
        else {
            return self.bind_for_nothing(pattern);
        };
        to.stmts.append(&mut before);
        let condition = self.is_case(&case, &of);
        let leaves = self.block(&otherwise.block);
        if !matches!(self.infer.shallow(&block_ty(&leaves)), Ty::Never | Ty::Error) {
            self.errors
                .at(otherwise.span(), "the `else` of a `let` leaves: by `return`, `break` or `continue`");
        }
        let asked = Kind::If(Box::new(condition), Block::default(), leaves);
        to.stmts.push(Stmt::Expr(Expr::new(asked, Ty::Unit, span)));
        self.bind_case(case, &of, to);
    }

    /// A value that a pattern asks, and the case that it asks for.
    fn asked(&mut self, pattern: &syn::Pat, value: Expr, before: &mut Vec<Stmt>) -> Option<(Choice, Case)> {
        let of = match self.chosen(value, before) {
            Ok(of) => of,
            Err(Expr { ty, span, .. }) => {
                if self.infer.shallow(&ty) != Ty::Error {
                    let shown = self.show(&ty);
                    self.errors.at(span, format!("this pattern is for `Option`s, enums with data and exchanges, and this is `{shown}`; use `==` or `match`"));
                }
                return None;
            }
        };
        match self.case(pattern, &of)? {
            Case::Rest(_) => {
                self.errors.at(pattern.span(), TAKES_ALL);
                None
            }
            case => Some((of, case)),
        }
    }

    /// What a pattern takes, and what it binds.
    fn case(&mut self, pattern: &syn::Pat, of: &Choice) -> Option<Case> {
        let one = |variant: &Variant, binds| Some(Case::Of(vec![variant.clone()], binds));
        match pattern {
            syn::Pat::Wild(_) => Some(Case::Rest(None)),
            syn::Pat::Paren(inner) => self.case(&inner.pat, of),
            syn::Pat::Reference(inner) => self.case(&inner.pat, of),
            syn::Pat::Or(or) => {
                let mut all = Vec::new();
                for case in &or.cases {
                    match self.case(case, of)? {
                        Case::Of(variants, binds) if binds.is_empty() => all.extend(variants),
                        Case::Of(..) => {
                            self.errors
                                .at(case.span(), "a pattern that binds names stands alone in a kernel's arm");
                            return None;
                        }
                        rest => return Some(rest),
                    }
                }
                Some(Case::Of(all, Vec::new()))
            }
            syn::Pat::Ident(name) if name.subpat.is_none() && name.by_ref.is_none() => {
                let is_none =
                    name.ident == "None" && matches!(self.infer.shallow(&of.value.ty), Ty::Option(_));
                match is_none {
                    true => one(&of.variants[0], Vec::new()),
                    false if matches!(self.look_up(&name.ident.to_string()), Some(Named::Const(_))) => {
                        self.errors.at(
                            name.ident.span(),
                            "a constant is no pattern here; name what the value can be",
                        );
                        None
                    }
                    false => Some(Case::Rest(Some(name.clone()))),
                }
            }
            syn::Pat::Path(path) => {
                let variant = self.variant_named(&path.path, of)?;
                match variant.fields.is_empty() {
                    true => one(&variant, Vec::new()),
                    false => self.wrong_pattern(pattern, &variant),
                }
            }
            syn::Pat::TupleStruct(parts) => {
                let variant = self.variant_named(&parts.path, of)?;
                let is_unnamed = variant.fields.iter().all(|(name, _)| name.is_none());
                let count = variant.fields.len();
                match parts.elems.first() {
                    Some(syn::Pat::Rest(_)) if parts.elems.len() == 1 && is_unnamed => {
                        return one(&variant, Vec::new());
                    }
                    _ if count == parts.elems.len() && is_unnamed => {}
                    _ => return self.wrong_pattern(pattern, &variant),
                }
                let values = (0..count).map(|field| part(&of.value, &variant, field));
                let binds = parts.elems.iter().cloned().zip(values);
                one(&variant, binds.filter(|(pattern, _)| !matches!(pattern, syn::Pat::Wild(_))).collect())
            }
            syn::Pat::Struct(parts) => {
                let variant = self.variant_named(&parts.path, of)?;
                let mut binds = Vec::new();
                for field in &parts.fields {
                    let Some(place) = field_of(&variant, &field.member) else {
                        return self.wrong_pattern(pattern, &variant);
                    };
                    binds.push(((*field.pat).clone(), part(&of.value, &variant, place)));
                }
                if parts.rest.is_none() && parts.fields.len() < variant.fields.len() {
                    self.errors.at(parts.path.span(), "name all fields, or write `..` for the others");
                }
                one(&variant, binds)
            }
            other => {
                self.errors.at(
                    other.span(),
                    "a pattern here is what the value can be, with names for what it holds, or `_`",
                );
                None
            }
        }
    }

    fn wrong_pattern(&mut self, pattern: &syn::Pat, variant: &Variant) -> Option<Case> {
        self.errors.at(pattern.span(), format!("this variant is written `{}`", shown(variant)));
        None
    }

    /// The variant that a pattern's path names.
    fn variant_named(&mut self, path: &syn::Path, of: &Choice) -> Option<Variant> {
        let (ty, name) = (self.infer.shallow(&of.value.ty), &path.segments.last()?.ident);
        let is_its = match (&ty, path.segments.len()) {
            (Ty::Option(_), 1) => true,
            (Ty::Enum(at), 2) => self.owner_named(path) == Some(StructName::Enum(*at)),
            _ => false,
        };
        let found = of.variants.iter().find(|variant| is_its && variant.name == *name);
        if found.is_none() {
            let shown = self.show(&ty);
            self.errors.at(path.span(), format!("`{shown}` is never this"));
        }
        found.cloned()
    }

    fn is_case(&mut self, case: &Case, of: &Choice) -> Expr {
        let span = of.value.span;
        let numbers = match case {
            Case::Of(variants, _) => variants.iter().map(|variant| variant.number).collect(),
            Case::Rest(_) => Vec::new(),
        };
        let asked = numbers.into_iter().map(|number| is_number(&of.value, number));
        let either = asked.reduce(|a, b| Expr::new(Kind::Logic(false, Box::new(a), Box::new(b)), BOOL, span));
        either.unwrap_or_else(|| Expr::new(Kind::Bool(true), BOOL, span))
    }

    /// A block in which the case's names are bound.
    fn case_block(&mut self, case: Case, of: &Choice, block: impl FnOnce(&mut Self) -> Block) -> Block {
        self.scopes.push(HashMap::new());
        let mut made = Block::default();
        self.bind_case(case, of, &mut made);
        let inner = block(self);
        self.scopes.pop();
        made.stmts.extend(inner.stmts);
        made.tail = inner.tail;
        made
    }

    fn bind_case(&mut self, case: Case, of: &Choice, to: &mut Block) {
        match case {
            Case::Of(_, binds) => {
                binds.into_iter().for_each(|(pattern, value)| self.bind_pattern(&pattern, value, to));
            }
            Case::Rest(Some(name)) => {
                let ty = of.value.ty.clone();
                let var = self.bind(name.ident, ty, name.mutability.is_some(), VarKind::Value);
                to.stmts.push(Stmt::Let(var, Some(of.value.clone())));
            }
            Case::Rest(None) => {}
        }
    }
}
