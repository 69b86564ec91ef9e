//! Tuples become structs that nobody wrote, and enums numbers, once all types are known.

use quote::format_ident;

use crate::generic::Actual;
use crate::hir::{Base, Change, Expr, Kind, Module, Place, Step, Struct, Var, change, change_block};
use crate::ty::{I32, Ty};

/// The number of the struct that a tuple is, before it is one.
pub(crate) const TUPLE: usize = usize::MAX;

/// Replaces all of them.
pub(crate) fn lower(module: &mut Module) {
    let mut structs = std::mem::take(&mut module.structs);
    for at in 0..structs.len() {
        let mut fields = std::mem::take(&mut structs[at].fields);
        fields.iter_mut().for_each(|(_, ty)| whole(ty, &mut structs));
        structs[at].fields = fields;
        let mut actuals = std::mem::take(&mut structs[at].actuals);
        for actual in &mut actuals {
            if let Actual::Type(ty) = actual {
                whole(ty, &mut structs);
            }
        }
        structs[at].actuals = actuals;
    }
    for constant in &mut module.consts {
        whole(&mut constant.ty, &mut structs);
        change(&mut constant.value, &mut |node| lowered(node, &[], &mut structs));
    }
    for function in &mut module.functions {
        whole(&mut function.result, &mut structs);
        function.vars.iter_mut().for_each(|var| whole(&mut var.ty, &mut structs));
        let vars = &function.vars;
        change_block(&mut function.body, &mut |node| lowered(node, vars, &mut structs));
    }
    module.structs = structs;
}

fn lowered(node: Change<'_>, vars: &[Var], structs: &mut Vec<Struct>) {
    match node {
        Change::Expr(expr) => {
            whole(&mut expr.ty, structs);
            if let Expr { kind: Kind::Struct(at @ TUPLE, _), ty: Ty::Struct(of), .. } = expr {
                *at = *of;
            }
        }
        Change::Place(place) => {
            whole(&mut place.ty, structs);
            steps(place, vars, structs);
        }
    }
}

/// Says of each step into a tuple which struct that is.
fn steps(place: &mut Place, vars: &[Var], structs: &[Struct]) {
    let (Base::Var(var) | Base::Element(var, _)) = place.base;
    let mut ty = &vars[var].ty;
    for step in &mut place.path {
        match (step, ty) {
            (Step::Field(of, at), Ty::Struct(found)) => {
                *of = *found;
                ty = &structs[*found].fields[*at].1;
            }
            (Step::Component(_), Ty::Vector(_, of)) | (Step::Index(..), Ty::Array(of, _)) => ty = of,
            _ => return,
        }
    }
}

/// A type in which tuples are structs, and enums numbers.
fn whole(ty: &mut Ty, structs: &mut Vec<Struct>) {
    match ty {
        Ty::Enum(_) => *ty = I32,
        Ty::Array(of, _) => whole(of, structs),
        Ty::Tuple(parts) => {
            let mut parts = std::mem::take(parts);
            parts.iter_mut().for_each(|part| whole(part, structs));
            *ty = Ty::Struct(tuple(parts, structs));
        }
        _ => {}
    }
}

fn tuple(parts: Vec<Ty>, structs: &mut Vec<Struct>) -> usize {
    let same = |s: &Struct| s.is_tuple && s.fields.iter().map(|(_, ty)| ty).eq(&parts);
    if let Some(at) = structs.iter().position(same) {
        return at;
    }
    let field = |(at, ty): (usize, Ty)| (format_ident!("f{}", at), ty);
    let fields = parts.into_iter().enumerate().map(field).collect();
    let (name, template, actuals) = (format_ident!("Tuple"), None, Vec::new());
    structs.push(Struct { name, fields, template, actuals, is_tuple: true });
    structs.len() - 1
}
