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
                Ok(at) => self.loaded(var, &ty, at, span),
                Err(at) => {
                    let given = [Given::value(at)];
                    self.image_call(&format!("load_{}_{dims}", seen.name()), span, &call.receiver, given)
                }
            },
            ("store", 2) if self.is_only_read(var) => {
                let image = self.vars[var].name.to_string();
                self.error(span, format!("`{image}` is only read; take it as `&mut Image`"))
            }
            ("store", 2) => match self.texel_place(dims, &call.args[0]) {
                Ok(at) => self.stored(var, &ty, at, &call.args[1], seen),
                Err(at) => {
                    let given = std::iter::once(Given::value(at)).chain(Given::all(&call.args).skip(1));
                    self.image_call(&format!("store_{}_{dims}", seen.name()), span, &call.receiver, given)
                }
            },
            ("sample", 2) if seen == Seen::Float => {
                let given = Given::all(&call.args);
                self.image_call(&format!("sample_{dims}"), span, &call.receiver, given)
            }
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

    /// The indices of a texel, outermost first, where its place can be taken apart without a trace: written as a vector of positions and
    /// of variables that do not change, or as one of these. Then it is seen which item is at its own place. Else what was written.
    fn texel_place(&mut self, dims: u8, at: &syn::Expr) -> Result<Vec<Expr>, Expr> {
        let wanted = if dims == 1 { U32 } else { Ty::Vector(dims, Box::new(U32)) };
        let at = self.expr_to(at, &wanted);
        let is_plain = |expr: &Expr| match &expr.kind {
            Kind::Var(var) => !self.vars[*var].mutable && self.vars[*var].kind == VarKind::Value,
            kind => matches!(kind, Kind::Id(..) | Kind::Int(_)),
        };
        match &at.kind {
            Kind::Vector(parts) if parts.iter().all(is_plain) => Ok(parts.iter().rev().cloned().collect()),
            _ if !is_plain(&at) => Err(at),
            _ if dims == 1 => Ok(vec![at]),
            _ => {
                let part = |part| Expr::new(Kind::Component(Box::new(at.clone()), part), U32, at.span);
                Ok((0..dims).rev().map(part).collect())
            }
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

    fn image_call<'e>(
        &mut self,
        function: &str,
        span: Span,
        image: &'e syn::Expr,
        given: impl IntoIterator<Item = Given<'e>>,
    ) -> Expr {
        let Some(source) = self.around.functions.find(function, LIBRARY) else {
            return self.error(span, "there is no such method");
        };
        let given = Given::all([image]).chain(given).collect();
        self.helper(Called { source, span, given, owner: None, own: None })
    }
}

/// How many texels an image has along a dimension, the outermost one first.
fn extent(var: VarId, dims: u8, dim: u8, span: Span) -> Expr {
    Expr::new(Kind::Len(var, (dims > 1).then_some(dim)), U32, span)
}
