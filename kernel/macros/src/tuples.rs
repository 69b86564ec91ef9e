//! Tuples, `Option`s and enums with data become structs that nobody wrote, and other enums numbers, once all types are known. So does
//! nothing at all become literals.

use std::collections::HashSet;

use quote::format_ident;

use crate::enums::{self, Enum};
use crate::generic::Actual;
use crate::hir::{Base, Change, Expr, Kind, Module, Place, Step, Struct, Var, change, change_block};
use crate::ty::{I32, Scalar, Ty};

/// The number of the struct that a tuple is, before it is one.
pub(crate) const TUPLE: usize = usize::MAX;

/// Replaces all of them.
pub(crate) fn lower(module: &mut Module) {
    let enums = std::mem::take(&mut module.enums);
    let mut types = Types { structs: std::mem::take(&mut module.structs), enums: &enums };
    // What holds enums as they were written is a struct of other fields here.
    let holding: Vec<bool> =
        (0..types.structs.len()).map(|at| types.holds_enum(&Ty::Struct(at), &mut HashSet::new())).collect();
    types.structs.iter_mut().zip(holding).for_each(|(of, holds)| of.is_tuple |= holds);
    for at in 0..types.structs.len() {
        let mut fields = std::mem::take(&mut types.structs[at].fields);
        fields.iter_mut().for_each(|(_, ty)| types.whole(ty));
        types.structs[at].fields = fields;
        let mut actuals = std::mem::take(&mut types.structs[at].actuals);
        for actual in &mut actuals {
            if let Actual::Type(ty) = actual {
                types.whole(ty);
            }
        }
        types.structs[at].actuals = actuals;
    }
    for constant in &mut module.consts {
        types.whole(&mut constant.ty);
        change(&mut constant.value, &mut |node| types.lowered(node, &[]));
    }
    for function in &mut module.functions {
        types.whole(&mut function.result);
        function.vars.iter_mut().for_each(|var| types.whole(&mut var.ty));
        let vars = &function.vars;
        change_block(&mut function.body, &mut |node| types.lowered(node, vars));
    }
    module.structs = types.structs;
    module.enums = enums;
}

struct Types<'m> {
    structs: Vec<Struct>,
    enums: &'m [Enum],
}

impl Types<'_> {
    fn lowered(&mut self, node: Change<'_>, vars: &[Var]) {
        match node {
            Change::Expr(expr) => {
                self.whole(&mut expr.ty);
                if let Expr { kind: Kind::Struct(at @ TUPLE, _), ty: Ty::Struct(of), .. } = expr {
                    *at = *of;
                }
                if let Kind::Zero = expr.kind {
                    *expr = self.zero(&expr.ty, expr);
                }
            }
            Change::Place(place) => {
                self.whole(&mut place.ty);
                self.steps(place, vars);
            }
        }
    }

    /// Says of each step into a tuple which struct that is.
    fn steps(&self, place: &mut Place, vars: &[Var]) {
        let (Base::Var(var) | Base::Element(var, _)) = place.base;
        let mut ty = &vars[var].ty;
        for step in &mut place.path {
            match (step, ty) {
                (Step::Field(of, at), Ty::Struct(found)) => {
                    *of = *found;
                    ty = &self.structs[*found].fields[*at].1;
                }
                (Step::Component(_), Ty::Vector(_, of)) | (Step::Index(..), Ty::Array(of, _)) => ty = of,
                _ => return,
            }
        }
    }

    /// Whether there is an enum or an `Option` in a type that has not been replaced yet. A struct is looked at once.
    fn holds_enum(&self, ty: &Ty, seen: &mut HashSet<usize>) -> bool {
        match ty {
            Ty::Enum(_) | Ty::Option(_) => true,
            Ty::Array(of, _) => self.holds_enum(of, seen),
            Ty::Tuple(parts) => parts.iter().any(|part| self.holds_enum(part, seen)),
            Ty::Struct(at) if seen.insert(*at) => {
                self.structs[*at].fields.iter().any(|(_, ty)| self.holds_enum(ty, seen))
            }
            _ => false,
        }
    }

    /// A type in which all of them are structs and numbers.
    fn whole(&mut self, ty: &mut Ty) {
        let parts = match ty {
            Ty::Array(of, _) => return self.whole(of),
            Ty::Enum(at) if !self.enums[*at].has_data() => {
                *ty = I32;
                return;
            }
            Ty::Enum(at) => enums::parts(&self.enums[*at].variants),
            Ty::Option(of) => vec![I32, std::mem::replace(of, Ty::Unit)],
            Ty::Tuple(parts) => std::mem::take(parts),
            _ => return,
        };
        let mut parts = parts;
        parts.iter_mut().for_each(|part| self.whole(part));
        *ty = Ty::Struct(self.tuple(parts));
    }

    fn tuple(&mut self, parts: Vec<Ty>) -> usize {
        let same = |s: &Struct| s.is_tuple && s.fields.iter().map(|(_, ty)| ty).eq(&parts);
        if let Some(at) = self.structs.iter().position(same) {
            return at;
        }
        let field = |(at, ty): (usize, Ty)| (format_ident!("f{}", at), ty);
        let fields = parts.into_iter().enumerate().map(field).collect();
        let (name, template, actuals) = (format_ident!("Tuple"), None, Vec::new());
        self.structs.push(Struct {
            name,
            fields,
            template,
            actuals,
            is_library: false,
            is_pointer: false,
            is_tuple: true,
        });
        self.structs.len() - 1
    }

    /// What reading outside gives, in literals.
    fn zero(&self, ty: &Ty, at: &Expr) -> Expr {
        let of = |ty| self.zero(ty, at);
        let kind = match ty {
            Ty::Scalar(Scalar::Bool) => Kind::Bool(false),
            Ty::Scalar(scalar) if scalar.is_float() => Kind::Float(0.0),
            Ty::Scalar(_) => Kind::Int(0),
            Ty::Vector(_, part) => Kind::Splat(Box::new(of(part))),
            Ty::Array(part, _) => Kind::Repeat(Box::new(of(part))),
            Ty::Struct(number) => {
                Kind::Struct(*number, self.structs[*number].fields.iter().map(|(_, ty)| of(ty)).collect())
            }
            _ => Kind::Unit,
        };
        Expr::new(kind, ty.clone(), at.span)
    }
}
