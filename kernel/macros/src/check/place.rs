//! Places: what can be assigned to, and elements of slices.

use proc_macro2::Span;
use syn::spanned::Spanned;

use super::{Checker, Named};
use crate::builtin::Math;
use crate::hir::{Base, BinOp, Block, Expr, Kind, May, Place, Step, Stmt, VarId, VarKind};
use crate::origin::LIBRARY;
use crate::ty::{I32, Ty, U32};

impl Checker<'_> {
    /// The slice that an expression names, if it names one.
    pub(super) fn slice(&self, expr: &syn::Expr) -> Option<VarId> {
        let ident = match expr {
            syn::Expr::Path(path) => path.path.get_ident()?,
            syn::Expr::Paren(inner) => return self.slice(&inner.expr),
            syn::Expr::Group(inner) => return self.slice(&inner.expr),
            _ => return None,
        };
        match self.look_up(&ident.to_string())? {
            Named::Var(at) if matches!(self.vars[at].kind, VarKind::Slice(_)) => Some(at),
            _ => None,
        }
    }

    /// `s[i]` of a slice, `v[i][j]` of a view: the slice and the indices. A view with too few is an error, and is
    /// said to be an element all the same.
    pub(super) fn element(&mut self, expr: &syn::Expr) -> Option<(VarId, Vec<Expr>)> {
        let mut indices = Vec::new();
        let mut at = expr;
        let var = loop {
            match at {
                syn::Expr::Index(index) => {
                    indices.push(index);
                    at = &index.expr;
                }
                syn::Expr::Paren(inner) => at = &inner.expr,
                syn::Expr::Group(inner) => at = &inner.expr,
                other => break self.slice(other)?,
            }
        };
        let VarKind::Slice(slice) = &self.vars[var].kind else { return None };
        let (dims, name) = (slice.dims as usize, self.vars[var].name.to_string());
        if slice.is_image && self.origin.home != LIBRARY {
            self.errors.at(expr.span(), format!("`{name}` is an image: `{name}.load(at)` reads a texel, and `{name}.store(at, value)` writes one"));
        }
        if indices.len() > dims {
            // The rest goes into an array that is the element; the caller comes again for the part that is the slice's.
            return None;
        }
        indices.reverse();
        let values: Vec<Expr> = indices.iter().map(|index| self.index_value(&index.index)).collect();
        if values.len() < dims {
            let all = "[…]".repeat(dims);
            self.errors
                .at(expr.span(), format!("`{name}` has {dims} dimensions: `{name}{all}` is an element"));
        }
        Some((var, values))
    }

    /// An index: of a signed one all that is negative is outside, as the largest index is, since nothing has so many elements.
    pub(super) fn index_value(&mut self, index: &syn::Expr) -> Expr {
        let value = self.expr(index);
        let span = value.span;
        if self.infer.shallow(&value.ty) != I32 {
            self.expect(&value.ty.clone(), &U32, span);
            return value;
        }
        let outside = Expr::new(Kind::Int(-1), I32, span);
        let held = Expr::new(Kind::Math(Math::Max, vec![value, outside]), I32, span);
        Expr::new(Kind::Cast(Box::new(held)), U32, span)
    }

    /// Something on the left of `=`, or behind `&mut`.
    pub(super) fn place(&mut self, expr: &syn::Expr) -> Option<Place> {
        let (pointer, by) = match expr {
            syn::Expr::Index(index) => (Some(&index.expr), Some(&*index.index)),
            syn::Expr::Unary(syn::ExprUnary { op: syn::UnOp::Deref(_), expr, .. }) => (Some(expr), None),
            _ => (None, None),
        };
        if let Some(pointer) = pointer
            && let Some(to) = self.pointee_of(pointer)
        {
            let pointer = self.expr(pointer);
            return Some(self.followed(pointer, &to, by));
        }
        if let syn::Expr::Index(_) = expr
            && let Some((var, at)) = self.element(expr)
        {
            return self.element_place(var, at, expr.span());
        }
        match expr {
            syn::Expr::Paren(inner) => self.place(&inner.expr),
            syn::Expr::Group(inner) => self.place(&inner.expr),
            syn::Expr::Unary(syn::ExprUnary { op: syn::UnOp::Deref(_), expr, .. }) => self.place(expr),
            syn::Expr::Path(path) => self.variable_place(path),
            syn::Expr::Field(field) => {
                let mut place = self.place(&field.base)?;
                let name = match &field.member {
                    syn::Member::Named(name) => name,
                    syn::Member::Unnamed(number) => return self.part_place(place, number),
                };
                let text = name.to_string();
                match self.infer.shallow(&place.ty) {
                    Ty::Struct(of) => {
                        let Some((at, ty)) = self.around.structs.field(of, &text) else {
                            let of = self.around.structs.name(of);
                            self.errors.at(name.span(), format!("`{of}` has no field `{text}`"));
                            return None;
                        };
                        place.ty = ty;
                        place.path.push(Step::Field(of, at));
                    }
                    Ty::Vector(n, of) => {
                        let Some(at) = super::expr::component(&text, n) else {
                            self.errors.at(
                                name.span(),
                                format!("a `Vec{n}` has no component `{text}` to assign to"),
                            );
                            return None;
                        };
                        place.ty = *of;
                        place.path.push(Step::Component(at));
                    }
                    Ty::Error => return None,
                    other => {
                        let shown = self.show(&other);
                        self.errors.at(name.span(), format!("`{shown}` has no fields"));
                        return None;
                    }
                }
                Some(place)
            }
            syn::Expr::Index(index) => {
                let mut place = self.place(&index.expr)?;
                match self.infer.shallow(&place.ty) {
                    Ty::Array(of, len) => {
                        let at = self.array_index(&index.index, len);
                        place.ty = *of;
                        place.path.push(Step::Index(at, len));
                        Some(place)
                    }
                    Ty::Error => None,
                    other => {
                        let shown = self.show(&other);
                        self.errors
                            .at(index.bracket_token.span.open(), format!("`{shown}` cannot be indexed"));
                        None
                    }
                }
            }
            other => {
                self.errors.at(other.span(), "this cannot be assigned to");
                None
            }
        }
    }

    fn element_place(&mut self, var: VarId, at: Vec<Expr>, span: Span) -> Option<Place> {
        let VarKind::Slice(slice) = &self.vars[var].kind else { return None };
        let (may, name) = (slice.may, self.vars[var].name.to_string());
        match may {
            May::Read => {
                self.errors.at(span, format!("`{name}` is only read; take it as `&mut`"));
                None
            }
            May::Atomic => {
                self.errors
                    .at(span, format!("atomics are written by a method: `{name}[i].store(value, Relaxed)`"));
                None
            }
            May::Write => {
                Some(Place { base: Base::Element(var, at), path: Vec::new(), ty: self.vars[var].ty.clone() })
            }
        }
    }

    fn variable_place(&mut self, path: &syn::ExprPath) -> Option<Place> {
        let ident = path.path.get_ident()?;
        match self.look_up(&ident.to_string()) {
            Some(Named::Var(at)) => {
                let var = &self.vars[at];
                match var.kind {
                    VarKind::Slice(_) => {
                        self.errors.at(
                            ident.span(),
                            format!("`{ident}` is memory; assign to an element: `{ident}[i] = …`"),
                        );
                        return None;
                    }
                    VarKind::Value if !var.mutable => {
                        self.errors.at(
                            ident.span(),
                            format!("`{ident}` is not mutable; bind it by `let mut {ident}`"),
                        );
                        return None;
                    }
                    _ => {}
                }
                Some(Place { base: Base::Var(at), path: Vec::new(), ty: self.vars[at].ty.clone() })
            }
            Some(Named::Const(_)) => {
                self.errors.at(ident.span(), format!("`{ident}` is a constant"));
                None
            }
            None => {
                self.errors.at(ident.span(), format!("there is no variable `{ident}` here"));
                None
            }
        }
    }

    pub(super) fn assign(
        &mut self,
        left: &syn::Expr,
        op: Option<BinOp>,
        right: &syn::Expr,
        span: Span,
        to: &mut Block,
    ) {
        if let (syn::Expr::Tuple(places), None) = (left, op) {
            return self.assign_several(places, right, to);
        }
        // `_ = x` evaluates and forgets.
        if let (syn::Expr::Infer(_), None) = (left, op) {
            let value = self.expr(right);
            to.stmts.push(Stmt::Expr(value));
            return;
        }
        let place = self.place(left);
        let value = self.expr(right);
        let Some(place) = place else { return };
        let value = match op {
            None => {
                self.expect(&value.ty.clone(), &place.ty, value.span);
                value
            }
            Some(op) if matches!(self.infer.shallow(&place.ty), Ty::Struct(_)) => {
                return self.assign_overloaded(left, op, place, value, span, to);
            }
            Some(op) => {
                // The rules for the operator are those of `place op value`, whose result must fit the place.
                let read = Expr::new(Kind::Unit, place.ty.clone(), span);
                let made = self.operation(op, read, value, span);
                self.expect(&made.ty.clone(), &place.ty, span);
                match made.kind {
                    Kind::Binary(_, _, right) => *right,
                    _ => return,
                }
            }
        };
        to.stmts.push(Stmt::Assign(place, op, value));
    }
}
