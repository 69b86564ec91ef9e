//! Values that are one of several things: `Option`s and enums with data. Each is a number that says which one it is, and what all of them
//! hold, of which the others' parts are zero.

use proc_macro2::Span;
use syn::spanned::Spanned;

use super::Checker;
use super::cases::Choice;
use crate::enums::Variant;
use crate::hir::{BinOp, Block, Expr, Kind, Stmt};
use crate::tuples::TUPLE;
use crate::ty::{BOOL, Guess, I32, Ty};

impl Checker<'_> {
    /// What a type can be, if it is one of several things.
    pub(super) fn variants_of(&self, ty: &Ty) -> Option<Vec<Variant>> {
        self.around.structs.variants(&self.infer.shallow(ty))
    }

    /// `Some(value)`.
    pub(super) fn some(&mut self, call: &syn::ExprCall) -> Expr {
        let span = call.func.span();
        let Some(value) = call.args.first().filter(|_| call.args.len() == 1) else {
            return self.error(span, "`Some` takes one value");
        };
        let value = self.expr(value);
        if self.infer.shallow(&value.ty) == Ty::Unit {
            return self.error(value.span, "this has no value to be kept");
        }
        let ty = Ty::Option(Box::new(value.ty.clone()));
        Expr::new(Kind::Struct(TUPLE, vec![number(1, span), value]), ty, span)
    }

    /// `None`.
    pub(super) fn none(&mut self, span: Span) -> Expr {
        let of = self.infer.fresh(Guess::Any);
        let nothing = Expr::new(Kind::Zero, of.clone(), span);
        let parts = vec![number(0, span), nothing];
        Expr::new(Kind::Struct(TUPLE, parts), Ty::Option(Box::new(of)), span)
    }

    /// A variant of an enum by its name, without its data.
    pub(super) fn variant(&mut self, at: usize, name: &str, span: Span) -> Expr {
        let of = self.around.structs.choice(at);
        match of.variant(name) {
            Some(variant) if !of.has_data() => Expr::new(Kind::Int(variant.number), Ty::Enum(at), span),
            Some(variant) if variant.fields.is_empty() => self.variant_with(at, variant, Vec::new(), span),
            Some(variant) => {
                let shown = shown(variant);
                self.error(span, format!("it has data: `{}::{shown}`", of.name))
            }
            None => self.error(span, format!("`{}` has no variant `{name}`", of.name)),
        }
    }

    /// `Enum::Variant(values)`; none where the enum has no such variant.
    pub(super) fn variant_call(&mut self, at: usize, name: &str, call: &syn::ExprCall) -> Option<Expr> {
        let variant = self.around.structs.choice(at).variant(name)?;
        let (span, fields) = (call.func.span(), &variant.fields);
        if fields.len() != call.args.len() || fields.iter().any(|(name, _)| name.is_some()) {
            return Some(self.error(span, format!("this variant is written `{}`", shown(variant))));
        }
        let values = call.args.iter().zip(fields).map(|(value, (_, ty))| self.expr_to(value, ty)).collect();
        Some(self.variant_with(at, variant, values, span))
    }

    /// `Enum::Variant { field: value }`.
    pub(super) fn variant_fields(&mut self, at: usize, name: &str, made: &syn::ExprStruct) -> Expr {
        let span = made.path.span();
        let Some(variant) = self.around.structs.choice(at).variant(name) else {
            return self.variant(at, name, span);
        };
        let mut values: Vec<Option<Expr>> = variant.fields.iter().map(|_| None).collect();
        for field in &made.fields {
            match field_of(variant, &field.member) {
                Some(place) => values[place] = Some(self.expr_to(&field.expr, &variant.fields[place].1)),
                None => self
                    .errors
                    .at(field.member.span(), format!("this variant is written `{}`", shown(variant))),
            }
        }
        if values.iter().any(Option::is_none) {
            return self.error(span, format!("a field is missing: `{}`", shown(variant)));
        }
        self.variant_with(at, variant, values.into_iter().flatten().collect(), span)
    }

    fn variant_with(&mut self, at: usize, variant: &Variant, values: Vec<Expr>, span: Span) -> Expr {
        let types = crate::enums::parts(&self.around.structs.choice(at).variants);
        let mut parts: Vec<Expr> = types.into_iter().map(|ty| Expr::new(Kind::Zero, ty, span)).collect();
        parts[0] = number(variant.number, span);
        for (field, value) in values.into_iter().enumerate() {
            parts[variant.place(field)] = value;
        }
        Expr::new(Kind::Struct(TUPLE, parts), Ty::Enum(at), span)
    }

    /// `value?`, which returns `None` where there is nothing.
    pub(super) fn or_return(&mut self, asked: &syn::ExprTry) -> Expr {
        let span = asked.question_token.span();
        let value = self.expr(&asked.expr);
        let mut stmts = Vec::new();
        let of = match self.chosen(value, &mut stmts) {
            Ok(of) if matches!(self.infer.shallow(&of.value.ty), Ty::Option(_)) => of,
            Ok(Choice { value, .. }) | Err(value) => {
                let shown = self.show(&value.ty);
                return match value.ty {
                    Ty::Error => value,
                    _ => self.error(span, format!("`?` is for an `Option`, and this is `{shown}`")),
                };
            }
        };
        if !matches!(self.infer.shallow(&self.result.clone()), Ty::Option(_)) {
            return self.error(span, "`?` returns `None`, and this function returns no `Option`");
        }
        let nothing = self.none(span);
        let result = self.result.clone();
        self.expect(&nothing.ty.clone(), &result, span);
        let leaves = Block { stmts: vec![Stmt::Return(Some(nothing))], tail: None };
        let missing = Kind::If(Box::new(is_number(&of.value, 0)), leaves, Block::default());
        stmts.push(Stmt::Expr(Expr::new(missing, Ty::Unit, span)));
        let found = part(&of.value, &of.variants[1], 0);
        let ty = found.ty.clone();
        Expr::new(Kind::Block(Block { stmts, tail: Some(Box::new(found)) }), ty, span)
    }

    /// What an `Option` is asked.
    pub(super) fn option_method(&mut self, of: Expr, inner: &Ty, call: &syn::ExprMethodCall) -> Expr {
        let (span, name) = (call.method.span(), call.method.to_string());
        let args: Vec<&syn::Expr> = call.args.iter().collect();
        let ty = of.ty.clone();
        match (name.as_str(), &args[..]) {
            ("is_some", []) => is_number(&of, 1),
            ("is_none", []) => is_number(&of, 0),
            ("unwrap_or" | "or", [other]) => {
                let wanted = if name == "or" { ty } else { inner.clone() };
                let mut stmts = Vec::new();
                let other = self.expr_to(other, &wanted);
                let [of, other] = [of, other].map(|value| self.found_once(value, &mut stmts));
                let found = if name == "or" { of.clone() } else { Expr::new(Kind::Field(Box::new(of.clone()), 1), wanted.clone(), span) };
                let value = |value| Block { stmts: Vec::new(), tail: Some(Box::new(value)) };
                let either = Kind::If(Box::new(is_number(&of, 1)), value(found), value(other));
                self.behind(stmts, Expr::new(either, wanted, span))
            }
            // Where there is nothing, that part is zero.
            ("unwrap_or_default", []) => Expr::new(Kind::Field(Box::new(of), 1), inner.clone(), span),
            ("unwrap" | "expect", _) => self.error(span, format!("nothing can be aborted on a device, so `{name}` does not exist; `unwrap_or`, `if let` or `let … else`")),
            _ => self.error(span, format!("an `Option` has no method `{name}` in kernels; it has `is_some`, `is_none`, `unwrap_or`, `unwrap_or_default` and `or`, and `if let` and `match` take it apart")),
        }
    }

    /// A value that is found behind some statements.
    pub(super) fn behind(&mut self, before: Vec<Stmt>, value: Expr) -> Expr {
        if before.is_empty() {
            return value;
        }
        let (ty, span) = (value.ty.clone(), value.span);
        let mut block = Block { stmts: before, tail: None };
        match self.infer.shallow(&ty) {
            Ty::Unit | Ty::Never => block.stmts.push(Stmt::Expr(value)),
            _ => block.tail = Some(Box::new(value)),
        }
        Expr::new(Kind::Block(block), ty, span)
    }
}

fn number(value: i128, span: Span) -> Expr {
    Expr::new(Kind::Int(value), I32, span)
}

/// The number that says what a value is.
pub(super) fn tag(of: &Expr) -> Expr {
    Expr::new(Kind::Field(Box::new(of.clone()), 0), I32, of.span)
}

pub(super) fn is_number(of: &Expr, value: i128) -> Expr {
    let (tag, value) = (Box::new(tag(of)), Box::new(number(value, of.span)));
    Expr::new(Kind::Binary(BinOp::Eq, tag, value), BOOL, of.span)
}

/// What a variant holds, of a value that is it.
pub(super) fn part(of: &Expr, variant: &Variant, field: usize) -> Expr {
    Expr::new(
        Kind::Field(Box::new(of.clone()), variant.place(field)),
        variant.fields[field].1.clone(),
        of.span,
    )
}

pub(super) fn field_of(variant: &Variant, member: &syn::Member) -> Option<usize> {
    match member {
        syn::Member::Named(name) => variant.fields.iter().position(|(of, _)| of.as_ref() == Some(name)),
        syn::Member::Unnamed(_) => None,
    }
}

/// A variant as it is written.
pub(super) fn shown(variant: &Variant) -> String {
    let name = &variant.name;
    let names: Vec<String> =
        variant.fields.iter().filter_map(|(name, _)| Some(name.as_ref()?.to_string())).collect();
    match (variant.fields.len(), names.is_empty()) {
        (0, _) => name.to_string(),
        (count, true) => format!("{name}({})", vec!["…"; count].join(", ")),
        _ => format!("{name} {{ {} }}", names.join(", ")),
    }
}
