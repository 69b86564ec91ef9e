//! Values that a launch takes apart: tuples, enums, `Option`s and structs that hold such have no form that all devices share, so their
//! parts cross by themselves, as parameters that nobody wrote.

use std::ops::Range;

use proc_macro2::TokenStream;
use quote::{ToTokens, format_ident, quote};

use crate::enums::Variant;
use crate::hir::{Change, Expr, Function, Kind, Node, Stmt, VarId, change_block, walk_block};
use crate::structs::Structs;
use crate::tuples::TUPLE;
use crate::ty::{Scalar, Ty};

/// How many parts a value may have.
pub(crate) const MOST_PARTS: usize = 64;

/// A parameter that is taken apart.
#[derive(Debug)]
pub(crate) struct Apart {
    /// The type as it was written, which the launch function takes.
    pub(crate) written: syn::Type,
    pub(crate) parts: Vec<Part>,
}

/// One of its parts.
#[derive(Debug)]
pub(crate) struct Part {
    pub(crate) ty: Ty,
    /// How the launch function finds it.
    pub(crate) value: TokenStream,
}

/// The name by which a launch function knows what is zero of any type.
pub(crate) const ZERO: &str = "__Zero";

/// How many parts a value has: counted before they are made, since an array may have any number of them.
pub(crate) fn count(ty: &Ty, structs: &Structs<'_>) -> usize {
    if structs.formless(ty).is_none() {
        return 1;
    }
    let inner = structs.parts_of(ty).iter().map(|part| count(part, structs)).fold(0, usize::saturating_add);
    match ty {
        Ty::Array(_, len) => inner.saturating_mul(*len as usize),
        // The number that says what it is.
        Ty::Enum(_) | Ty::Option(_) => inner.saturating_add(1),
        _ => inner,
    }
}

/// The parts of a value, which is found by `value`; a type that crosses as it is has one.
pub(crate) fn parts(ty: &Ty, value: TokenStream, structs: &Structs<'_>) -> Vec<Part> {
    let all = |of: &mut dyn Iterator<Item = (Ty, TokenStream)>| -> Vec<Part> {
        of.flat_map(|(ty, value)| parts(&ty, value, structs)).collect()
    };
    match ty {
        _ if structs.formless(ty).is_none() => vec![Part { ty: ty.clone(), value }],
        Ty::Tuple(types) => all(&mut types.iter().enumerate().map(|(at, ty)| {
            let at = syn::Index::from(at);
            (ty.clone(), quote!(#value.#at))
        })),
        Ty::Array(of, len) => all(&mut (0..*len as usize).map(|at| ((**of).clone(), quote!(#value[#at])))),
        Ty::Struct(at) => {
            let fields = structs.fields_of(*at);
            all(&mut fields.into_iter().map(|(name, ty)| (ty, quote!(#value.#name))))
        }
        ty => match structs.variants(ty) {
            Some(variants) => of_variants(ty, &variants, &value, structs),
            None => vec![Part { ty: ty.clone(), value: quote!((#value) as i32) }],
        },
    }
}

/// Which variant it is, and what each of them holds: zero of those that it is not.
fn of_variants(ty: &Ty, variants: &[Variant], value: &TokenStream, structs: &Structs<'_>) -> Vec<Part> {
    let path = |variant: &Variant| {
        let name = &variant.name;
        match ty {
            Ty::Enum(at) => {
                let of = &structs.choice(*at).name;
                quote!(#of::#name)
            }
            _ => quote!(::core::option::Option::#name),
        }
    };
    let arms = variants.iter().map(|variant| {
        let (path, number) = (path(variant), proc_macro2::Literal::i32_suffixed(variant.number as i32));
        quote!(#path { .. } => #number)
    });
    let number = Part { ty: crate::ty::I32, value: quote!(match #value { #(#arms),* }) };
    let zero = format_ident!("{}", ZERO);
    let mut found = vec![number];
    for variant in variants {
        for (at, (name, ty)) in variant.fields.iter().enumerate() {
            let (path, at) = (path(variant), syn::Index::from(at));
            let field = name.as_ref().map_or_else(|| at.to_token_stream(), ToTokens::to_token_stream);
            for Part { ty, value: inner } in parts(ty, quote!(part), structs) {
                let zero = match ty {
                    Ty::Enum(_) => quote!(0_i32),
                    Ty::Scalar(Scalar::Bool) => quote!(false),
                    _ => quote!(#zero::ZERO),
                };
                found.push(Part {
                    ty,
                    value: quote!(match #value { #path { #field: part, .. } => #inner, _ => #zero }),
                });
            }
        }
    }
    found
}

/// The value that parts make together.
fn whole(ty: &Ty, parts: &mut dyn Iterator<Item = Expr>, structs: &Structs<'_>, at: &Expr) -> Expr {
    let mut all =
        |types: Vec<Ty>| -> Vec<Expr> { types.iter().map(|ty| whole(ty, parts, structs, at)).collect() };
    let kind = match ty {
        _ if structs.formless(ty).is_none() => return parts.next().unwrap_or_else(|| at.clone()),
        Ty::Tuple(types) => Kind::Struct(TUPLE, all(types.clone())),
        Ty::Array(of, len) => Kind::Array(all(vec![(**of).clone(); *len as usize])),
        Ty::Struct(number) => {
            Kind::Struct(*number, all(structs.fields_of(*number).into_iter().map(|(_, ty)| ty).collect()))
        }
        ty => match structs.variants(ty) {
            Some(variants) => Kind::Struct(TUPLE, all(crate::enums::parts(&variants))),
            None => return parts.next().unwrap_or_else(|| at.clone()),
        },
    };
    Expr::new(kind, ty.clone(), at.span)
}

/// Puts a value that was taken apart together at the beginning of a body; where only its parts are asked for, these stand there.
pub(crate) fn put_together(function: &mut Function, var: VarId, parts: Range<usize>, structs: &Structs<'_>) {
    let span = function.vars[var].name.span();
    let of = |var: VarId| Expr::new(Kind::Var(var), function.vars[var].ty.clone(), span);
    let mut parts = function.params[parts].iter().map(|part| of(*part));
    let value = whole(&function.vars[var].ty, &mut parts, structs, &of(var));
    if !function.vars[var].mutable {
        change_block(&mut function.body, &mut |node| {
            let Change::Expr(expr) = node else { return };
            // An enum without data is its only part.
            if let (Kind::Var(asked), Kind::Var(_)) = (&expr.kind, &value.kind)
                && *asked == var
            {
                *expr = value.clone();
            }
            let Kind::Field(of, at) = &mut expr.kind else { return };
            if let Kind::Var(asked) = of.kind
                && asked == var
            {
                **of = value.clone();
            }
            if let Kind::Struct(_, parts) = &mut of.kind
                && parts.iter().all(is_plain)
            {
                *expr = parts.swap_remove(*at);
            }
        });
    }
    let mut is_used = false;
    walk_block(&function.body, &mut |node| {
        is_used |= matches!(node, Node::Expr(Expr { kind: Kind::Var(asked), .. }) if *asked == var);
    });
    if is_used || function.vars[var].mutable {
        function.body.stmts.insert(0, Stmt::Let(var, Some(value)));
    }
}

/// Whether a value is made of parameters alone, so that nothing is lost with the others.
fn is_plain(expr: &Expr) -> bool {
    match &expr.kind {
        Kind::Var(_) => true,
        Kind::Struct(_, parts) | Kind::Array(parts) => parts.iter().all(is_plain),
        _ => false,
    }
}
