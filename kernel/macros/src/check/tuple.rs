//! Tuples, and patterns that take values apart.

use proc_macro2::Span;
use syn::punctuated::Punctuated;
use syn::spanned::Spanned;

use super::Checker;
use crate::builtin::Math;
use crate::hir::{Block, Expr, Kind, Place, Step, Stmt};
use crate::tuples::TUPLE;
use crate::ty::{Scalar, Ty, U32};

impl Checker<'_> {
    /// `(a, b)`.
    pub(super) fn tuple(&mut self, tuple: &syn::ExprTuple) -> Expr {
        let span = tuple.span();
        if tuple.elems.len() > 8 {
            return self.error(span, "a tuple has eight parts at most; make a struct");
        }
        let values: Vec<Expr> = tuple.elems.iter().map(|value| self.expr(value)).collect();
        if let Some(nothing) = values.iter().find(|value| self.infer.shallow(&value.ty) == Ty::Unit) {
            return self.error(nothing.span, "this has no value to be kept");
        }
        let ty = Ty::Tuple(values.iter().map(|value| value.ty.clone()).collect());
        Expr::new(Kind::Struct(TUPLE, values), ty, span)
    }

    /// `value.0`.
    pub(super) fn part(&mut self, of: Expr, number: &syn::Index) -> Expr {
        match self.part_of(&of.ty.clone(), number) {
            Some((at, ty)) => Expr::new(Kind::Field(Box::new(of), at), ty, number.span),
            None => Expr::new(Kind::Unit, Ty::Error, number.span),
        }
    }

    /// The same of a place.
    pub(super) fn part_place(&mut self, mut place: Place, number: &syn::Index) -> Option<Place> {
        let (at, ty) = self.part_of(&place.ty.clone(), number)?;
        place.path.push(Step::Field(TUPLE, at));
        place.ty = ty;
        Some(place)
    }

    fn part_of(&mut self, of: &Ty, number: &syn::Index) -> Option<(usize, Ty)> {
        let of = self.infer.shallow(of);
        let types = match of {
            Ty::Error | Ty::Never => return None,
            Ty::Tuple(types) => types,
            of => {
                let shown = self.show(&of);
                self.errors
                    .at(number.span, format!("`{shown}` is no tuple, and has no part `{}`", number.index));
                return None;
            }
        };
        let at = number.index as usize;
        if at >= types.len() {
            self.errors
                .at(number.span, format!("this tuple has {} parts, the first of which is `0`", types.len()));
        }
        types.get(at).cloned().map(|ty| (at, ty))
    }

    /// The sine and the cosine of what is found once.
    pub(super) fn sin_cos(&mut self, call: &syn::ExprMethodCall, to: &mut Block) -> Vec<Expr> {
        let (angle, span) = (self.expr(&call.receiver), call.method.span());
        let ty = angle.ty.clone();
        self.demand(&ty, span, Scalar::is_float, "`sin_cos` is for floats, and this is `{}`");
        let angle = self.keep(angle, &mut to.stmts);
        let angle = Expr::new(Kind::Var(angle), ty.clone(), span);
        [Math::Sin, Math::Cos]
            .map(|math| Expr::new(Kind::Math(math, vec![angle.clone()]), ty.clone(), span))
            .to_vec()
    }

    /// Binds several patterns to as many values.
    pub(super) fn bind_several<P>(
        &mut self,
        patterns: &Punctuated<syn::Pat, P>,
        values: Vec<Expr>,
        to: &mut Block,
    ) {
        for (pattern, value) in patterns.iter().zip(values) {
            self.bind_pattern(pattern, value, to);
        }
    }

    /// Binds what a pattern names to the parts of a value.
    pub(super) fn bind_pattern(&mut self, pattern: &syn::Pat, value: Expr, to: &mut Block) {
        let (ty, span) = (self.infer.shallow(&value.ty), pattern.span());
        match pattern {
            syn::Pat::Ident(name) => self.bind_name(name, value.ty.clone(), Some(value), to),
            syn::Pat::Wild(_) => to.stmts.push(Stmt::Expr(value)),
            syn::Pat::Paren(inner) => self.bind_pattern(&inner.pat, value, to),
            syn::Pat::Type(typed) => {
                let declared = self.read_type(&typed.ty);
                self.expect(&value.ty.clone(), &declared, value.span);
                self.bind_pattern(&typed.pat, value, to);
            }
            syn::Pat::Tuple(parts) => match ty {
                Ty::Tuple(types) if types.len() == parts.elems.len() => {
                    let of = self.apart(value, to);
                    let part = |(at, ty)| Expr::new(Kind::Field(Box::new(of.clone()), at), ty, span);
                    let values = types.into_iter().enumerate().map(part).collect();
                    self.bind_several(&parts.elems, values, to);
                }
                ty => self.refuse_pattern(pattern, &ty, span),
            },
            syn::Pat::Struct(parts) => self.bind_fields(parts, value, to),
            syn::Pat::Slice(parts) => match ty {
                Ty::Array(elements, len) if len as usize == parts.elems.len() => {
                    let of = self.apart(value, to);
                    let part = |at| {
                        let at = Expr::new(Kind::Int(i128::from(at)), U32, span);
                        let index = Kind::Index(Box::new(of.clone()), Box::new(at));
                        Expr::new(index, (*elements).clone(), span)
                    };
                    let values = (0..len).map(part).collect();
                    self.bind_several(&parts.elems, values, to);
                }
                ty => self.refuse_pattern(pattern, &ty, span),
            },
            _ => self.refuse_pattern(pattern, &ty, span),
        }
    }

    fn bind_fields(&mut self, parts: &syn::PatStruct, value: Expr, to: &mut Block) {
        let span = parts.path.span();
        let wanted = self.owner_named(&parts.path);
        let at = match self.infer.shallow(&value.ty) {
            Ty::Struct(at) if wanted == Some(self.around.structs.named(at)) => at,
            ty => {
                let pattern = syn::Pat::Struct(parts.clone());
                return self.refuse_pattern(&pattern, &ty, span);
            }
        };
        let fields = self.around.structs.fields_of(at);
        if parts.rest.is_none() && parts.fields.len() < fields.len() {
            self.errors.at(span, "name all fields, or write `..` for the others");
        }
        let of = self.apart(value, to);
        for part in &parts.fields {
            let found = match &part.member {
                syn::Member::Named(name) => fields.iter().position(|(field, _)| field == name),
                syn::Member::Unnamed(_) => None,
            };
            let Some(field) = found else {
                let name = self.around.structs.name(at);
                self.errors.at(part.member.span(), format!("`{name}` has no such field"));
                self.bind_for_nothing(&part.pat);
                continue;
            };
            let value = Expr::new(Kind::Field(Box::new(of.clone()), field), fields[field].1.clone(), span);
            self.bind_pattern(&part.pat, value, to);
        }
    }

    /// A value that is to be taken apart, found once.
    fn apart(&mut self, value: Expr, to: &mut Block) -> Expr {
        let (ty, span) = (value.ty.clone(), value.span);
        Expr::new(Kind::Var(self.keep(value, &mut to.stmts)), ty, span)
    }

    fn refuse_pattern(&mut self, pattern: &syn::Pat, ty: &Ty, span: Span) {
        if *ty != Ty::Error {
            let shown = self.show(ty);
            let advice = match self.around.structs.variants(ty) {
                Some(_) => "`let … else`, `if let` and `match` ask which one it is",
                None => "names, tuples, fields and the elements of an array are bound",
            };
            self.errors.at(span, format!("this pattern does not take `{shown}` apart; {advice}"));
        }
        self.bind_for_nothing(pattern);
    }

    /// `(a, b) = …;`, of which all values are found before the first of them is written.
    pub(super) fn assign_several(&mut self, places: &syn::ExprTuple, right: &syn::Expr, to: &mut Block) {
        let values: Vec<Expr> = match right {
            syn::Expr::Tuple(values) if values.elems.len() == places.elems.len() => {
                let mut kept = Vec::new();
                for (place, value) in places.elems.iter().zip(&values.elems) {
                    let value = match self.type_of_place(place) {
                        Some(ty) => self.expr_to(value, &ty),
                        None => self.expr(value),
                    };
                    kept.push(self.apart(value, to));
                }
                kept
            }
            right => {
                let value = self.expr(right);
                let types = match self.infer.shallow(&value.ty) {
                    Ty::Tuple(types) => types,
                    _ => Vec::new(),
                };
                if types.len() != places.elems.len() {
                    let shown = self.show(&value.ty.clone());
                    return self
                        .errors
                        .at(right.span(), format!("`{shown}` is no tuple of {} parts", places.elems.len()));
                }
                let (of, span) = (self.apart(value, to), right.span());
                let part = |(at, ty)| Expr::new(Kind::Field(Box::new(of.clone()), at), ty, span);
                types.into_iter().enumerate().map(part).collect()
            }
        };
        for (left, value) in places.elems.iter().zip(values) {
            if matches!(left, syn::Expr::Infer(_)) {
                continue;
            }
            let Some(place) = self.place(left) else { continue };
            self.expect(&value.ty.clone(), &place.ty, value.span);
            to.stmts.push(Stmt::Assign(place, None, value));
        }
    }

    /// What a variable holds, where a place is one.
    fn type_of_place(&self, place: &syn::Expr) -> Option<Ty> {
        let syn::Expr::Path(path) = place else { return None };
        match self.look_up(&path.path.get_ident()?.to_string())? {
            super::Named::Var(at) => Some(self.vars[at].ty.clone()),
            super::Named::Const(_) => None,
        }
    }
}
