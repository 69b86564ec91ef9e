//! Methods of images, which are functions of the language's own.

use proc_macro2::Span;

use super::Checker;
use super::helper::{Called, Given};
use crate::hir::{Base, Block, Expr, Kind, May, Place, Stmt, VarId, VarKind};
use crate::library::texels::Seen;
use crate::origin::LIBRARY;
use crate::ty::{Ty, U32};

impl Checker<'_> {
    pub(super) fn image_method(&mut self, var: VarId, dims: u8, call: &syn::ExprMethodCall) -> Expr {
        let (span, name) = (call.method.span(), call.method.to_string());
        let ty = self.infer.shallow(&self.vars[var].ty.clone());
        let Some(seen) = self.around.structs.texel(&ty) else {
            return Expr::new(Kind::Unit, Ty::Error, span);
        };
        let texel = self.show(&ty);
        match (name.as_str(), call.args.len()) {
            ("load", 1) => match self.texel_place(dims, &call.args[0]) {
                Some(at) => self.loaded(var, &ty, at, span),
                None => self.image_call(&format!("load_{}_{dims}", seen.name()), span, call),
            },
            ("store", 2) if self.is_only_read(var) => {
                let image = self.vars[var].name.to_string();
                self.error(span, format!("`{image}` is only read; take it as `&mut Image`"))
            }
            ("store", 2) => match self.texel_place(dims, &call.args[0]) {
                Some(at) => self.stored(var, &ty, at, &call.args[1], seen),
                None => self.image_call(&format!("store_{}_{dims}", seen.name()), span, call),
            },
            ("sample", 2) if seen == Seen::Float => self.image_call(&format!("sample_{dims}"), span, call),
            ("sample", 2) => {
                self.error(span, format!("what is between texels of `{texel}` is no integer; read one by `load`"))
            }
            ("load", _) => self.error(span, "`load` takes where the texel is"),
            ("store", _) => self.error(span, "`store` takes where the texel is, and a `Vec4` for it"),
            ("sample", _) => self.error(span, "`sample` takes a `Sampler`, and where to look"),
            ("width", 0) => extent(var, dims, dims - 1, span),
            ("height", 0) if dims > 1 => extent(var, dims, dims - 2, span),
            ("depth", 0) if dims > 2 => extent(var, dims, 0, span),
            ("size", 0) if dims == 1 => extent(var, dims, 0, span),
            ("size", 0) => {
                let all = (0..dims).rev().map(|dim| extent(var, dims, dim, span)).collect();
                Expr::new(Kind::Vector(all), Ty::Vector(dims, Box::new(U32)), span)
            }
            _ => self.error(
                span,
                format!(
                    "an image of {dims} dimensions has no method `{name}` in kernels; it has `load(at)`, `store(at, value)`, \
                     `sample(sampler, at)`, `size()`, and `width()` and its kind"
                ),
            ),
        }
    }

    /// The indices of a texel, outermost first, where its place can be taken apart without a trace: written as a vector of variables and
    /// positions, or a variable itself. Then it is seen which item is at its own place.
    fn texel_place(&mut self, dims: u8, at: &syn::Expr) -> Option<Vec<Expr>> {
        let at = match dims {
            1 => self.expr_to(at, &U32),
            _ => self.expr_to(at, &Ty::Vector(dims, Box::new(U32))),
        };
        let is_plain = |expr: &Expr| matches!(expr.kind, Kind::Var(_) | Kind::Id(..) | Kind::Int(_));
        match (dims, at.kind) {
            (1, kind) => {
                let at = Expr { kind, ..at };
                is_plain(&at).then(|| vec![at])
            }
            (_, Kind::Vector(parts)) => parts.iter().all(is_plain).then(|| parts.into_iter().rev().collect()),
            (_, Kind::Var(var)) => {
                let whole = || Box::new(Expr::new(Kind::Var(var), at.ty.clone(), at.span));
                let part = |part| Expr::new(Kind::Component(whole(), part), U32, at.span);
                Some((0..dims).rev().map(part).collect())
            }
            _ => None,
        }
    }

    fn loaded(&mut self, var: VarId, ty: &Ty, at: Vec<Expr>, span: Span) -> Expr {
        let texel = Expr::new(Kind::Element(var, at), ty.clone(), span);
        self.texel_call(ty, "decode", texel, span)
    }

    fn stored(&mut self, var: VarId, ty: &Ty, at: Vec<Expr>, value: &syn::Expr, seen: Seen) -> Expr {
        let wanted = Ty::Vector(4, Box::new(seen.ty()));
        let value = self.expr_to(value, &wanted);
        let span = value.span;
        let texel = self.texel_call(ty, "encode", value, span);
        let place = Place { base: Base::Element(var, at), path: Vec::new(), ty: ty.clone() };
        let stmts = vec![Stmt::Assign(place, None, texel)];
        Expr::new(Kind::Block(Block { stmts, tail: None }), Ty::Unit, span)
    }

    /// A function between a texel and what kernels see of it.
    fn texel_call(&mut self, ty: &Ty, name: &str, given: Expr, span: Span) -> Expr {
        let structs = self.around.structs;
        let source = structs.owner(ty).and_then(|(of, _)| self.around.functions.of_type(of, name, structs));
        match source {
            Some(source) => {
                let given = vec![Given::value(given)];
                self.helper(Called { source, span, given, owner: None, own: None })
            }
            None => self.error(span, "there is no such texel"),
        }
    }

    fn is_only_read(&self, var: VarId) -> bool {
        matches!(&self.vars[var].kind, VarKind::Slice(slice) if slice.may == May::Read)
    }

    fn image_call(&mut self, function: &str, span: Span, call: &syn::ExprMethodCall) -> Expr {
        let Some(source) = self.around.functions.find(function, LIBRARY) else {
            return self.error(span, "there is no such method");
        };
        let given = Given::all(std::iter::once(&*call.receiver).chain(&call.args)).collect();
        self.helper(Called { source, span, given, owner: None, own: None })
    }
}

/// How many texels an image has along a dimension, the outermost one first.
fn extent(var: VarId, dims: u8, dim: u8, span: Span) -> Expr {
    Expr::new(Kind::Len(var, (dims > 1).then_some(dim)), U32, span)
}
