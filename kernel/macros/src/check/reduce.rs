//! Parameters that are reduced: how two values become one, and what changes nothing.

use proc_macro2::Span;
use quote::format_ident;

use super::Checker;
use crate::builtin::{ConstValue, Math, constant};
use crate::hir::{Arg, AtomicOp, BinOp, Expr, Kind, Reduction, Var, VarKind};
use crate::items::{Operator, Param, Role, Signature};
use crate::ty::Ty;

impl Checker<'_> {
    /// A kernel's reductions, in the order of its parameters, which are not bound yet.
    pub(super) fn reductions(&mut self, signature: &Signature) -> Vec<Reduction> {
        let mut found = Vec::new();
        for param in &signature.params {
            if let Role::Reduce(operator) = &param.role {
                found.extend(self.reduction(param, operator));
            }
        }
        found
    }

    fn reduction(&mut self, param: &Param, operator: &Operator) -> Option<Reduction> {
        let (ty, span) = (param.ty.clone(), operator.name.span());
        let scalar = ty.scalar()?;
        // Variables that nothing in the body can name.
        let parts = ["a", "b"].map(|name| {
            let (name, kind) = (format_ident!("{name}"), VarKind::Value);
            self.vars.push(Var { name, ty: ty.clone(), mutable: false, kind });
            self.vars.len() - 1
        });
        let number = Ty::Scalar(scalar);
        let part = |at: usize, ty: &Ty| Expr::new(Kind::Var(parts[at]), ty.clone(), span);
        let known = |least: &str| -> Expr {
            let kind = match constant(scalar, least) {
                Some(ConstValue::Int(value)) => Kind::Int(value),
                Some(ConstValue::Float(value)) => Kind::Float(value),
                None if scalar.is_float() => Kind::Float(0.0),
                None => Kind::Int(0),
            };
            Expr::new(kind, number.clone(), span)
        };
        let sum = |a, b| Kind::Binary(BinOp::Add, Box::new(a), Box::new(b));
        let extreme = |math| move |a, b| Kind::Math(math, vec![a, b]);
        let (identity, kind, atomic): (_, Box<dyn Fn(Expr, Expr) -> Kind>, _) = match operator
            .name
            .to_string()
            .as_str()
        {
            "sum" => (known(""), Box::new(sum), AtomicOp::Add),
            "min" => (known("MAX"), Box::new(extreme(Math::Min)), AtomicOp::Min),
            "max" => (known("MIN"), Box::new(extreme(Math::Max)), AtomicOp::Max),
            name if ty.width().is_some() => {
                self.errors.at(span, format!("`{name}` would have to change a vector at once, which no device can: vectors are reduced by `sum`, `min` and `max`"));
                return None;
            }
            _ => {
                let helper = self.operator(operator, &ty, span)?;
                let identity = self.identity(operator, &ty);
                let kind = Kind::Call(helper, vec![Arg::Value(part(0, &ty)), Arg::Value(part(1, &ty))]);
                let combined = Expr::new(kind, ty, span);
                let (atomic, component) = (None, None);
                return Some(Reduction { param: usize::MAX, identity, parts, combined, atomic, component });
            }
        };
        let combined = |ty: &Ty| Expr::new(kind(part(0, ty), part(1, ty)), ty.clone(), span);
        let (identity, component) = match ty.width() {
            None => (identity, None),
            Some(_) => {
                let all = Expr::new(Kind::Splat(Box::new(identity.clone())), ty.clone(), span);
                (all, Some((combined(&number), identity)))
            }
        };
        let (combined, atomic) = (combined(&ty), scalar.is_int().then_some(atomic));
        Some(Reduction { param: usize::MAX, identity, parts, combined, atomic, component })
    }

    /// The helper that makes one value of two.
    fn operator(&mut self, operator: &Operator, ty: &Ty, span: Span) -> Option<usize> {
        let name = &operator.name;
        let found = self.around.functions.find(&name.to_string(), self.origin.home).filter(|source| {
            let source = &self.around.functions.sources[*source];
            !source.kernel && source.generics.is_empty()
        });
        let found = found.map(|source| self.instance(source, Vec::new()));
        let fits = found.and_then(|at| self.around.functions.made(at)).is_some_and(|made| {
            let signature = &made.signature;
            let values = signature.params.iter().all(|p| p.ty == *ty && p.kind == VarKind::Value);
            signature.params.len() == 2 && values && signature.result == *ty
        });
        if !fits {
            let ty = self.show(ty);
            self.errors.at(
                span,
                format!(
                    "there is no helper `fn {name}(a: {ty}, b: {ty}) -> {ty}` in this `kernels` module; the operators that \
                     are there by themselves are `sum`, `min` and `max`"
                ),
            );
        }
        found.filter(|_| fits)
    }

    fn identity(&mut self, operator: &Operator, ty: &Ty) -> Expr {
        let Some(written) = &operator.identity else {
            return Expr::new(Kind::Unit, Ty::Error, operator.name.span());
        };
        let mut value = self.expr_to(written, ty);
        self.settle_expr(&mut value);
        if !super::is_constant(&value) {
            self.errors.at(value.span, "what changes nothing is made of literals and constants");
        }
        value
    }
}
