//! Operators between structs, which are functions of their `impl`s.

use proc_macro2::Span;

use super::Checker;
use super::helper::{Called, Given};
use crate::functions::{Source, last_name};
use crate::hir::{Arg, BinOp, Block, Expr, Kind, Place, Stmt};
use crate::ty::Ty;

/// The trait whose function an operator is.
pub(super) fn operator_trait(op: BinOp) -> Option<&'static str> {
    Some(match op {
        BinOp::Add => "Add",
        BinOp::Sub => "Sub",
        BinOp::Mul => "Mul",
        BinOp::Div => "Div",
        BinOp::Rem => "Rem",
        BinOp::And => "BitAnd",
        BinOp::Or => "BitOr",
        BinOp::Xor => "BitXor",
        BinOp::Shl => "Shl",
        BinOp::Shr => "Shr",
        _ => return None,
    })
}

impl Checker<'_> {
    /// The function that stands for an operator between values of these types.
    fn operator_for(&mut self, name: &str, operands: &[Ty]) -> Option<usize> {
        let functions = self.around.functions;
        let is_operator = |source: &Source<'_>| {
            source.operator.as_ref().is_some_and(|operator| operator == name)
                && source.signature.inputs.len() == operands.len()
        };
        let named = functions.sources.iter().enumerate().filter(|(_, source)| is_operator(source));
        let mut fitting = Vec::new();
        for (at, source) in named {
            if self.takes(source, operands) {
                fitting.push(at);
            }
        }
        fitting.first().copied()
    }

    /// Whether an operator's function could take values of these types.
    fn takes(&mut self, source: &Source<'_>, operands: &[Ty]) -> bool {
        let written = source.signature.inputs.iter().map(|input| match input {
            syn::FnArg::Receiver(_) => source.owner,
            syn::FnArg::Typed(typed) => match last_name(&typed.ty) {
                Some(name) if name == "Self" => source.owner,
                _ => Some(&*typed.ty),
            },
        });
        let written: Vec<_> = written.collect();
        written
            .iter()
            .zip(operands)
            .all(|(written, found)| written.is_some_and(|ty| self.could_be(source, ty, found)))
    }

    fn could_be(&self, source: &Source<'_>, written: &syn::Type, found: &Ty) -> bool {
        let Some(name) = last_name(written) else { return false };
        let is_generic = source.generics.iter().any(|generic| generic.name() == name);
        match self.infer.shallow(found) {
            Ty::Struct(at) => is_generic || self.around.structs.name(at) == *name,
            Ty::Scalar(scalar) => is_generic || name == scalar.name(),
            Ty::Vector(n, _) => is_generic || *name == format!("Vec{n}"),
            Ty::Var(_) => is_generic || crate::ty::Scalar::from_name(&name.to_string()).is_some(),
            _ => false,
        }
    }

    /// An operator whose operands are not all numbers and vectors.
    pub(super) fn overloaded(&mut self, name: &str, operands: Vec<Expr>, span: Span) -> Expr {
        let types: Vec<Ty> = operands.iter().map(|operand| operand.ty.clone()).collect();
        match self.operator_for(name, &types) {
            Some(source) => {
                let given = operands.into_iter().map(Given::value).collect();
                self.helper(Called { source, span, given, owner: None, own: None })
            }
            None => {
                let shown: Vec<String> = types.iter().map(|ty| format!("`{}`", self.show(ty))).collect();
                let between = shown.join(" and ");
                self.error(
                    span,
                    format!("there is no `impl {name}` for {between} in this `kernels` module; fields can be taken one by one"),
                )
            }
        }
    }

    /// `a += b` and its kind where `a` is a struct: by `AddAssign` where there is one, else as `a = a + b`.
    pub(super) fn assign_overloaded(
        &mut self,
        left: &syn::Expr,
        op: BinOp,
        place: Place,
        value: Expr,
        span: Span,
        to: &mut Block,
    ) {
        let Some(name) = operator_trait(op) else { return };
        let assigning = format!("{name}Assign");
        let types = [place.ty.clone(), value.ty.clone()];
        if let Some(source) = self.operator_for(&assigning, &types) {
            let given = vec![Given { written: Some(left), value: None }, Given::value(value)];
            let call = self.helper(Called { source, span, given, owner: None, own: None });
            to.stmts.push(Stmt::Expr(call));
            return;
        }
        let read = self.expr(left);
        let made = self.overloaded(name, vec![read, value], span);
        self.expect(&made.ty.clone(), &place.ty, span);
        if let Kind::Call(_, args) = &made.kind
            && args.iter().all(|arg| matches!(arg, Arg::Value(_)))
        {
            to.stmts.push(Stmt::Assign(place, None, made));
        }
    }
}
