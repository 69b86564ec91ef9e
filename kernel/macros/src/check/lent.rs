//! What a helper is given as memory: memory of the kernel, an array, or a part of one of them.

use syn::spanned::Spanned;

use super::Checker;
use super::helper::Given;
use crate::builtin::Math;
use crate::hir::{Arg, BinOp, Expr, Kind, May, Piece, Slice, VarId, VarKind, Whole};
use crate::items::Param;
use crate::ty::{Ty, U32};

impl Checker<'_> {
    pub(super) fn memory_argument(&mut self, param: &Param, wanted: &Slice, given: Given<'_>) -> Option<Arg> {
        let written = given.written?;
        let (inner, range) = lent(written);
        let of = match self.slice(inner) {
            Some(var) => {
                self.fits(var, param, wanted, written);
                if range.is_none() {
                    return Some(Arg::Slice(var));
                }
                if wanted.dims > 1 {
                    self.errors.at(
                        written.span(),
                        "a part of a view has no form of its own; pass the view and where the part begins",
                    );
                    return None;
                }
                Whole::Memory(var)
            }
            None => self.array_argument(param, wanted, given, written)?,
        };
        let (from, to) = match range {
            Some(range) => self.bounds(range),
            None => (None, None),
        };
        Some(Arg::Piece(Piece { of, from: from.map(Box::new), to: to.map(Box::new) }))
    }

    /// Whether memory allows what the helper does with it.
    fn fits(&mut self, var: VarId, param: &Param, wanted: &Slice, written: &syn::Expr) {
        let VarKind::Slice(found) = &self.vars[var].kind else { return };
        let (found, name, span) = (found.clone(), self.vars[var].name.to_string(), written.span());
        if wanted.is_image != found.is_image {
            let (is, wanted) = if found.is_image { ("an image", "memory") } else { ("no image", "one") };
            self.errors.at(span, format!("`{name}` is {is}, and {wanted} is wanted"));
        }
        let fits = match (wanted.may, found.may) {
            (May::Read, May::Read | May::Write) | (May::Write, May::Write) => true,
            (a, b) => a == b,
        };
        if !fits {
            self.errors.at(
                span,
                format!("`{name}` does not allow what the helper does with it; see whether it is `&`, `&mut` or atomic"),
            );
        }
        if wanted.dims != found.dims {
            let (found, wanted) = (found.dims, wanted.dims);
            self.errors.at(span, format!("`{name}` has {found} dimensions, and {wanted} are wanted"));
        }
        let ty = self.vars[var].ty.clone();
        self.expect(&ty, &param.ty, span);
    }

    fn array_argument(
        &mut self,
        param: &Param,
        wanted: &Slice,
        given: Given<'_>,
        written: &syn::Expr,
    ) -> Option<Whole> {
        let (span, (inner, _)) = (written.span(), lent(written));
        let (of, ty) = match wanted.may {
            May::Read => {
                let value = match given.value {
                    Some(value) => value,
                    None => self.expr(inner),
                };
                let ty = value.ty.clone();
                (Whole::Array(value), ty)
            }
            May::Write if matches!(written, syn::Expr::Reference(lent) if lent.mutability.is_none()) => {
                self.errors.at(span, format!("`{}` is changed by the helper; pass `&mut …`", param.name));
                return None;
            }
            May::Write => {
                let place = self.place(inner)?;
                let ty = place.ty.clone();
                (Whole::Changed(place), ty)
            }
            May::Atomic => {
                self.errors
                    .at(span, "this parameter takes atomics, and these are memory that the kernel was given");
                return None;
            }
        };
        match self.infer.shallow(&ty) {
            Ty::Array(element, _) if wanted.dims == 1 => self.expect(&element, &param.ty, span),
            Ty::Error => return None,
            _ => {
                let what = if wanted.dims == 1 { "memory or an array" } else { "a view" };
                self.errors
                    .at(span, format!("this parameter takes {what}, and this is `{}`", self.show(&ty)));
                return None;
            }
        }
        Some(of)
    }

    /// Where a part begins, and where the next one would.
    fn bounds(&mut self, range: &syn::ExprRange) -> (Option<Expr>, Option<Expr>) {
        let from = range.start.as_ref().map(|from| self.expr_to(from, &U32));
        let to = range.end.as_ref().map(|to| self.expr_to(to, &U32));
        let behind = |last: Expr| {
            // Nothing is as long as the largest number, so that nothing is lost where the last index is that.
            let (span, int) = (last.span, |value| Expr::new(Kind::Int(value), U32, last.span));
            let most = int(i128::from(u32::MAX - 1));
            let one = int(1);
            let held = Expr::new(Kind::Math(Math::Min, vec![last, most]), U32, span);
            Expr::new(Kind::Binary(BinOp::Add, Box::new(held), Box::new(one)), U32, span)
        };
        match range.limits {
            syn::RangeLimits::HalfOpen(_) => (from, to),
            syn::RangeLimits::Closed(_) => (from, to.map(behind)),
        }
    }
}

/// What is behind `&`, and the part of it that is meant.
pub(super) fn lent(written: &syn::Expr) -> (&syn::Expr, Option<&syn::ExprRange>) {
    let inner = match written {
        syn::Expr::Reference(reference) => &*reference.expr,
        other => other,
    };
    match inner {
        syn::Expr::Index(index) => match &*index.index {
            syn::Expr::Range(range) => (&index.expr, Some(range)),
            _ => (inner, None),
        },
        _ => (inner, None),
    }
}
