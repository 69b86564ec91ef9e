//! Enums of a `kernels` module. In a kernel's texts one without data is an `i32`, and one with data a struct: the number of the variant,
//! and the data of all variants one after the other.

use proc_macro2::{Ident, Span};
use syn::spanned::Spanned;

use crate::errors::Errors;
use crate::origin::Origin;
use crate::ty::{I32, Ty};

/// One of them.
#[derive(Debug)]
pub(crate) struct Enum {
    pub(crate) name: Ident,
    pub(crate) variants: Vec<Variant>,
    pub(crate) origin: Origin,
}

/// One of the things that a value can be.
#[derive(Clone, Debug)]
pub(crate) struct Variant {
    pub(crate) name: Ident,
    pub(crate) number: i128,
    /// Its data, with names where these have some; known when all structs are.
    pub(crate) fields: Vec<(Option<Ident>, Ty)>,
    /// Which of the struct's fields is the first of them.
    pub(crate) first: usize,
}

impl Variant {
    /// The field of the struct that is one of the variant's own.
    pub(crate) fn place(&self, field: usize) -> usize {
        self.first + field
    }
}

/// What an `Option` is made of, in the same words.
pub(crate) fn option(of: Ty, span: Span) -> [Variant; 2] {
    let name = |name| Ident::new(name, span);
    [
        Variant { name: name("None"), number: 0, fields: Vec::new(), first: 1 },
        Variant { name: name("Some"), number: 1, fields: vec![(None, of)], first: 1 },
    ]
}

/// The fields of the struct that is one of several variants with data.
pub(crate) fn parts(variants: &[Variant]) -> Vec<Ty> {
    let fields = variants.iter().flat_map(|variant| &variant.fields);
    std::iter::once(I32).chain(fields.map(|(_, ty)| ty.clone())).collect()
}

impl Enum {
    /// Reads one, and its data's types later: these may be structs, which may have enums.
    pub(crate) fn read(item: &syn::ItemEnum, origin: Origin, errors: &mut Errors) -> Self {
        if let Some(param) = item.generics.params.first() {
            errors.at(param.span(), "an enum for kernels is not generic");
        }
        let has_data = item.variants.iter().any(|variant| !matches!(variant.fields, syn::Fields::Unit));
        let (mut variants, mut first): (Vec<Variant>, usize) = (Vec::new(), 1);
        for variant in &item.variants {
            let next = variants.last().map_or(0, |last| last.number + 1);
            let number = match &variant.discriminant {
                None => next,
                Some((_, said)) if has_data => {
                    errors.at(said.span(), "the variants of an enum with data are numbered by the kernel");
                    next
                }
                Some((_, said)) => literal(said).unwrap_or_else(|| {
                    errors.at(said.span(), "a variant's number is an integer literal");
                    next
                }),
            };
            if i32::try_from(number).is_err() {
                errors.at(
                    variant.span(),
                    format!("`{number}` does not fit `i32`, as which kernels keep enums"),
                );
            }
            let fields: Vec<_> =
                variant.fields.iter().map(|field| (field.ident.clone(), Ty::Error)).collect();
            let next_first = first + fields.len();
            variants.push(Variant { name: variant.ident.clone(), number, fields, first });
            first = next_first;
        }
        if variants.is_empty() {
            errors.at(item.ident.span(), "an enum for kernels has at least one variant");
        }
        Enum { name: item.ident.clone(), variants, origin }
    }

    pub(crate) fn has_data(&self) -> bool {
        self.variants.iter().any(|variant| !variant.fields.is_empty())
    }

    pub(crate) fn variant(&self, name: &str) -> Option<&Variant> {
        self.variants.iter().find(|variant| variant.name == name)
    }
}

fn literal(expr: &syn::Expr) -> Option<i128> {
    match expr {
        syn::Expr::Lit(syn::ExprLit { lit: syn::Lit::Int(int), .. }) => int.base10_parse().ok(),
        syn::Expr::Unary(syn::ExprUnary { op: syn::UnOp::Neg(_), expr, .. }) => {
            literal(expr).map(|value| -value)
        }
        _ => None,
    }
}
