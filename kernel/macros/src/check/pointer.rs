//! Pointers: the address of an element, and what is done with it. What they lead to is memory whose index is an address.

use proc_macro2::{Ident, Span};
use syn::spanned::Spanned;

use super::{Checker, Named};
use crate::hir::{Base, BinOp, Block, Expr, Kind, May, Place, Slice, Space, Stmt, Var, VarId, VarKind};
use crate::ty::{BOOL, Scalar, Ty, U32};

const U64: Ty = Ty::Scalar(Scalar::U64);

impl Checker<'_> {
    /// What a pointer leads to, if a type is one.
    pub(super) fn pointee(&self, ty: &Ty) -> Option<Ty> {
        self.around.structs.pointee(&self.infer.shallow(ty))
    }

    /// What an expression leads to, if it is a pointer, as far as that is seen without looking at all of it.
    pub(super) fn pointee_of(&self, expr: &syn::Expr) -> Option<Ty> {
        self.pointee(&self.seen_type(expr)?)
    }

    /// The type of an expression that is a place, or a step from a pointer.
    fn seen_type(&self, expr: &syn::Expr) -> Option<Ty> {
        match expr {
            syn::Expr::Paren(inner) => self.seen_type(&inner.expr),
            syn::Expr::Group(inner) => self.seen_type(&inner.expr),
            syn::Expr::Path(path) => match self.look_up(&path.path.get_ident()?.to_string())? {
                Named::Var(at) if !matches!(self.vars[at].kind, VarKind::Slice(_)) => {
                    Some(self.infer.shallow(&self.vars[at].ty))
                }
                _ => None,
            },
            syn::Expr::Unary(syn::ExprUnary { op: syn::UnOp::Deref(_), expr, .. }) => {
                let ty = self.seen_type(expr)?;
                Some(self.pointee(&ty).unwrap_or(ty))
            }
            syn::Expr::Field(field) => match (self.seen_type(&field.base)?, &field.member) {
                (Ty::Struct(at), syn::Member::Named(name)) => {
                    self.around.structs.field(at, &name.to_string()).map(|(_, ty)| ty)
                }
                (Ty::Tuple(parts), syn::Member::Unnamed(at)) => parts.get(at.index as usize).cloned(),
                _ => None,
            },
            syn::Expr::Index(index) => match self.indexed_slice(expr) {
                Some(var) => self.seen_element(var, expr),
                None => match self.seen_type(&index.expr)? {
                    Ty::Array(of, _) => Some(*of),
                    ty => self.pointee(&ty),
                },
            },
            syn::Expr::MethodCall(call) => {
                let ty = self.seen_type(&call.receiver)?;
                let to = self.pointee(&ty)?;
                Some(if call.method == "read" { to } else { ty })
            }
            _ => None,
        }
    }

    /// The type of an element of memory, or of a part of one.
    fn seen_element(&self, var: VarId, mut expr: &syn::Expr) -> Option<Ty> {
        let VarKind::Slice(slice) = &self.vars[var].kind else { return None };
        let (mut ty, mut indices) = (self.infer.shallow(&self.vars[var].ty), 0);
        while let syn::Expr::Index(index) = expr {
            (expr, indices) = (&index.expr, indices + 1);
        }
        for _ in usize::from(slice.dims)..indices {
            ty = match ty {
                Ty::Array(of, _) => *of,
                other => self.pointee(&other)?,
            };
        }
        (indices >= usize::from(slice.dims)).then_some(ty)
    }

    /// The place of the element at a pointer, or so many behind it.
    pub(super) fn followed(&mut self, pointer: Expr, to: &Ty, by: Option<&syn::Expr>) -> Place {
        let span = pointer.span;
        let by = by.map(|by| self.index_value(by));
        let address = self.moved(address(pointer), by.map(|by| (BinOp::Add, by)), to);
        let var = self.reached(to, span);
        Place { base: Base::Element(var, vec![address]), path: Vec::new(), ty: to.clone() }
    }

    /// The value of the element at a pointer, or so many behind it.
    pub(super) fn follow(&mut self, pointer: Expr, to: &Ty, by: Option<&syn::Expr>) -> Expr {
        let span = pointer.span;
        match self.followed(pointer, to, by) {
            Place { base: Base::Element(var, at), .. } => Expr::new(Kind::Element(var, at), to.clone(), span),
            _ => self.error(span, "this leads nowhere"),
        }
    }

    /// The memory that pointers to a type lead to, as a variable that nothing in the body can name.
    fn reached(&mut self, to: &Ty, span: Span) -> VarId {
        if let Some(message) = self.around.structs.formless(to) {
            self.errors.at(span, message);
        }
        let space = Space::Reached;
        let kind = VarKind::Slice(Slice { dims: 1, may: May::Write, space, is_image: false });
        if let Some(known) = self.vars.iter().position(|var| var.kind == kind && var.ty == *to) {
            return known;
        }
        let name = Ident::new("w_reached", Span::call_site());
        self.vars.push(Var { name, ty: to.clone(), mutable: false, kind });
        self.vars.len() - 1
    }

    /// An address, and how many elements of a type to go from there.
    fn moved(&self, from: Expr, by: Option<(BinOp, Expr)>, to: &Ty) -> Expr {
        let Some((op, by)) = by.filter(|(_, by)| !matches!(by.kind, Kind::Int(0))) else { return from };
        let span = by.span;
        let bytes = Expr::new(Kind::Int(i128::from(self.around.structs.bytes(to))), U64, span);
        let by = Expr::new(Kind::Cast(Box::new(by)), U64, span);
        let far = Expr::new(Kind::Binary(BinOp::Mul, Box::new(by), Box::new(bytes)), U64, span);
        Expr::new(Kind::Binary(op, Box::new(from), Box::new(far)), U64, span)
    }

    pub(super) fn pointer_method(&mut self, pointer: Expr, to: &Ty, call: &syn::ExprMethodCall) -> Expr {
        let (name, span, ty) = (call.method.to_string(), call.method.span(), pointer.ty.clone());
        let args: Vec<&syn::Expr> = call.args.iter().collect();
        match (name.as_str(), &args[..]) {
            ("address", []) => address(pointer),
            ("is_null", []) => compared(BinOp::Eq, address(pointer), number(0, span), span),
            ("add" | "sub", [by]) => {
                let op = if name == "add" { BinOp::Add } else { BinOp::Sub };
                let by = self.expr_to(by, &U32);
                let address = self.moved(address(pointer), Some((op, by)), to);
                made(&ty, address, span)
            }
            ("read", []) => self.follow(pointer, to, None),
            ("write", [value]) => {
                let place = self.followed(pointer, to, None);
                let value = self.expr_to(value, to);
                let stmts = vec![Stmt::Assign(place, None, value)];
                Expr::new(Kind::Block(Block { stmts, tail: None }), Ty::Unit, span)
            }
            _ => self.error(
                span,
                format!(
                    "a pointer has no method `{name}` of this form in kernels; it has `read()`, `write(value)`, `add(n)`, `sub(n)`, \
                     `is_null()` and `address()`, and `p[i]` is an element"
                ),
            ),
        }
    }

    /// `Ptr::<T>::null()` and its kind; nothing where the name means something of the module's.
    pub(super) fn pointer_call(&mut self, path: &syn::Path, call: &syn::ExprCall) -> Option<Expr> {
        let (of, name) = match path.segments.iter().rev().collect::<Vec<_>>()[..] {
            [name, of, ..] if of.ident == "Ptr" => (of, name),
            _ => return None,
        };
        if self.around.structs.find(&of.ident, self.origin.home).is_some() {
            return None;
        }
        let (span, args) = (path.span(), call.args.iter().collect::<Vec<_>>());
        if of.arguments.is_none() {
            return Some(self.error(span, format!("say what it points to: `Ptr::<f32>::{}(…)`", name.ident)));
        }
        let ty = syn::TypePath { qself: None, path: of.clone().into() };
        let ty = self.read_type(&syn::Type::Path(ty));
        self.pointee(&ty)?;
        Some(match (name.ident.to_string().as_str(), &args[..]) {
            ("null", []) => made(&ty, number(0, span), span),
            ("from_address", [address]) => {
                let address = self.expr_to(address, &U64);
                made(&ty, address, span)
            }
            _ => self
                .error(span, "a pointer is made by `Ptr::<T>::null()` or `Ptr::<T>::from_address(address)`"),
        })
    }

    /// Whether two pointers lead to the same place, or not; nothing where they are not pointers.
    pub(super) fn pointers_compared(
        &mut self,
        op: BinOp,
        left: &Expr,
        right: &Expr,
        span: Span,
    ) -> Option<Expr> {
        self.pointee(&left.ty)?;
        if !matches!(op, BinOp::Eq | BinOp::Ne) {
            let sign = op.sign();
            let message =
                format!("`{sign}` takes no pointers, which are equal or not; `p.address()` is a number");
            return Some(self.error(span, message));
        }
        self.expect(&right.ty.clone(), &left.ty.clone(), right.span);
        Some(compared(op, address(left.clone()), address(right.clone()), span))
    }
}

fn number(value: i128, span: Span) -> Expr {
    Expr::new(Kind::Int(value), U64, span)
}

fn compared(op: BinOp, left: Expr, right: Expr, span: Span) -> Expr {
    Expr::new(Kind::Binary(op, Box::new(left), Box::new(right)), BOOL, span)
}

/// A pointer's address.
fn address(pointer: Expr) -> Expr {
    let span = pointer.span;
    match pointer.kind {
        Kind::Struct(_, mut parts) if parts.len() == 1 => parts.remove(0),
        kind => {
            let pointer = Expr::new(kind, pointer.ty, span);
            Expr::new(Kind::Field(Box::new(pointer), 0), U64, span)
        }
    }
}

/// A pointer of a type to an address.
fn made(ty: &Ty, address: Expr, span: Span) -> Expr {
    let at = if let Ty::Struct(at) = ty { *at } else { 0 };
    Expr::new(Kind::Struct(at, vec![address]), ty.clone(), span)
}
