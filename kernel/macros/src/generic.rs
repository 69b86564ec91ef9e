//! Generic parameters: what they are called, and what stands for them in one use.

use std::collections::HashMap;

use proc_macro2::Ident;
use syn::spanned::Spanned;

use crate::errors::Errors;
use crate::ty::Ty;
use crate::types::vector_width;

/// A parameter of a generic helper or struct.
#[derive(Clone, Debug)]
pub(crate) enum Generic {
    Type(Ident),
    /// An integer that array lengths and expressions may name, of this type.
    Length(Ident, Ty),
}

impl Generic {
    pub(crate) fn name(&self) -> &Ident {
        match self {
            Generic::Type(name) | Generic::Length(name, _) => name,
        }
    }
}

/// What one use puts in the place of a generic parameter.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Actual {
    Type(Ty),
    Length(u32),
}

/// What names stand for in one use of something generic.
#[derive(Clone, Debug, Default)]
pub(crate) struct Bound {
    pub(crate) types: HashMap<String, Ty>,
    pub(crate) lengths: HashMap<String, u32>,
}

impl Bound {
    /// Each generic parameter with what was put in its place.
    pub(crate) fn of(generics: &[Generic], actuals: &[Actual]) -> Self {
        let mut bound = Bound::default();
        for (generic, actual) in generics.iter().zip(actuals) {
            let name = generic.name().to_string();
            match actual {
                Actual::Type(ty) => drop(bound.types.insert(name, ty.clone())),
                Actual::Length(len) => drop(bound.lengths.insert(name, *len)),
            }
        }
        bound
    }
}

/// The generic parameters that stand behind a name. Their bounds say nothing here: each use is checked with the types that it has.
pub(crate) fn read(generics: &syn::Generics, errors: &mut Errors) -> Vec<Generic> {
    let mut found = Vec::new();
    for param in &generics.params {
        match param {
            syn::GenericParam::Type(ty) => found.push(Generic::Type(ty.ident.clone())),
            syn::GenericParam::Const(length) => match integer(&length.ty) {
                Some(ty) => found.push(Generic::Length(length.ident.clone(), ty)),
                None => errors.at(length.ty.span(), "a kernel's generic constants are `u32` or `usize`"),
            },
            syn::GenericParam::Lifetime(lifetime) => {
                errors.at(lifetime.span(), "kernels need no lifetimes; leave it away");
            }
        }
    }
    found
}

fn integer(ty: &syn::Type) -> Option<Ty> {
    let syn::Type::Path(path) = ty else { return None };
    let name = path.path.get_ident()?;
    (name == "u32" || name == "usize").then_some(crate::ty::U32)
}

/// Whether a type names one of these lengths or has generic arguments, so that what stands for the names has to be known before it
/// can be read.
pub(crate) fn asks_ahead(ty: &syn::Type, generics: &[Generic]) -> bool {
    match ty {
        syn::Type::Reference(inner) => asks_ahead(&inner.elem, generics),
        syn::Type::Paren(inner) => asks_ahead(&inner.elem, generics),
        syn::Type::Group(inner) => asks_ahead(&inner.elem, generics),
        syn::Type::Slice(inner) => asks_ahead(&inner.elem, generics),
        syn::Type::Tuple(tuple) => tuple.elems.iter().any(|ty| asks_ahead(ty, generics)),
        syn::Type::Array(array) => {
            let names_length =
                matches!(&array.len, syn::Expr::Path(path) if length_named(&path.path, generics).is_some());
            names_length || asks_ahead(&array.elem, generics)
        }
        syn::Type::Path(path) => path.path.segments.last().is_some_and(|last| match &last.arguments {
            syn::PathArguments::AngleBracketed(arguments)
                if vector_width(&last.ident.to_string()).is_none() =>
            {
                !arguments.args.is_empty()
            }
            _ => false,
        }),
        _ => false,
    }
}

/// The generic length that a path names, if it names one.
pub(crate) fn length_named(path: &syn::Path, generics: &[Generic]) -> Option<String> {
    let name = path.get_ident()?;
    let is_one = |generic: &Generic| matches!(generic, Generic::Length(of, _) if of == name);
    generics.iter().any(is_one).then(|| name.to_string())
}
