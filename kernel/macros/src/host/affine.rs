//! Indices whose way from item to item is known: sums of positions, uniform values and counters of uniform loops.

use proc_macro2::TokenStream;
use quote::{format_ident, quote};

use super::model::Region;
use crate::builtin::Id;
use crate::hir::{BinOp, Expr, Kind, VarKind};
use crate::ty::{Scalar, Ty};

const U32: Ty = Ty::Scalar(Scalar::U32);
const I32: Ty = Ty::Scalar(Scalar::I32);

/// An index, one item after the other.
pub(super) struct Affine {
    pub(super) stride: TokenStream,
    pub(super) bounds: TokenStream,
}

impl<'m> Region<'_, 'm> {
    /// The items for which a condition about their position holds.
    pub(super) fn limited(&self, condition: &Expr) -> Option<TokenStream> {
        let Kind::Binary(op, a, b) = &condition.kind else { return None };
        let (at, limit, below) = match op {
            BinOp::Lt => (a, b, quote!(below)),
            BinOp::Gt => (b, a, quote!(below)),
            BinOp::Eq if self.uniform(b) => (a, b, quote!(only)),
            BinOp::Eq => (b, a, quote!(only)),
            _ => return None,
        };
        if limit.ty != U32 || !self.uniform(limit) {
            return None;
        }
        let (rt, stride) = (self.rust.rt, self.affine(at)?.stride);
        let (bindings, at, limit) = (self.bindings_of(at), self.rust.value(at), self.rust.value(limit));
        Some(quote! {{
            let found = {
                let limit = #limit;
                let item = &#rt::Row::item::<D>(&row, 0);
                #bindings
                #rt::Row::#below(row.count(), #at, limit).filter(|_| #stride == 1)
            };
            match found {
                Some((from, count)) => (from, count, true),
                None => (0_usize, row.count(), false),
            }
        }})
    }

    /// Whether an expression has one value for all items and all of the region, and may be evaluated at any time.
    pub(super) fn uniform(&self, expr: &Expr) -> bool {
        match &expr.kind {
            Kind::Int(_) | Kind::Const(_) | Kind::Len(..) => true,
            Kind::Id(id, _) => !matches!(id, Id::Global | Id::Local),
            Kind::Var(var) => {
                !self.differing.vars.contains(var)
                    && !self.declared.contains(var)
                    && self.rust.function.vars[*var].kind == VarKind::Value
            }
            Kind::Binary(_, a, b) => self.uniform(a) && self.uniform(b),
            Kind::Cast(a) | Kind::Unary(_, a) => self.uniform(a),
            _ => false,
        }
    }

    /// How an index goes from item to item, and where it goes at most. Numbers are followed modulo 2^32, so it does not matter
    /// whether they have a sign.
    pub(super) fn affine(&self, index: &Expr) -> Option<Affine> {
        if index.ty != U32 && index.ty != I32 {
            return None;
        }
        let rt = self.rust.rt;
        if self.uniform(index) {
            let value = self.rust.value(index);
            return Some(Affine { stride: quote!(0_u32), bounds: quote!(#rt::Bounds::at(#value)) });
        }
        match &index.kind {
            Kind::Id(id @ (Id::Global | Id::Local), dim) => {
                let (field, dim) =
                    (format_ident!("{}", if *id == Id::Global { "global" } else { "local" }), *dim as usize);
                let stride = match self.stands {
                    true => quote!(0_u32),
                    false => quote!(#rt::Row::stride::<D>(#dim)),
                };
                Some(Affine {
                    stride,
                    bounds: quote!(#rt::Bounds::between(first.#field[#dim], last.#field[#dim])),
                })
            }
            Kind::Var(var) if self.moved.contains_key(var) => {
                let (name, stride) = (self.rust.name(*var), &self.moved[var]);
                Some(Affine { stride: stride.clone(), bounds: quote!(#rt::Bounds::at(#name)) })
            }
            Kind::Var(var) => match self.counters.get(var) {
                Some((from, to, inclusive)) if from.ty == U32 && self.uniform(from) && self.uniform(to) => {
                    let of = format_ident!("{}", if *inclusive { "between" } else { "counter" });
                    let (from, to) = (self.rust.value(from), self.rust.value(to));
                    Some(Affine { stride: quote!(0_u32), bounds: quote!(#rt::Bounds::#of(#from, #to)) })
                }
                _ => self.affine(self.derived.value(*var)?),
            },
            Kind::Cast(a) => self.affine(a),
            Kind::Binary(op @ (BinOp::Add | BinOp::Sub), a, b) => {
                let (a, b) = (self.affine(a)?, self.affine(b)?);
                let (wrapping, checked) = match op {
                    BinOp::Add => (format_ident!("wrapping_add"), format_ident!("plus")),
                    _ => (format_ident!("wrapping_sub"), format_ident!("minus")),
                };
                let (stride, other, bounds, with) = (a.stride, b.stride, a.bounds, b.bounds);
                Some(Affine {
                    stride: quote!(#stride.#wrapping(#other)),
                    bounds: quote!(#bounds.#checked(#with)),
                })
            }
            Kind::Binary(BinOp::Mul, a, b) => {
                let (of, factor) = if self.uniform(b) { (a, b) } else { (b, a) };
                let (of, factor) = (self.affine(of)?, self.uniform(factor).then(|| self.rust.value(factor))?);
                let (stride, bounds) = (of.stride, of.bounds);
                Some(Affine {
                    stride: quote!(#stride.wrapping_mul((#factor) as u32)),
                    bounds: quote!(#bounds.times(#factor)),
                })
            }
            _ => None,
        }
    }
}
