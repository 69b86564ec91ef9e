//! Enums of a `kernels` module, which have no data. In a kernel's texts they are `i32`.

use proc_macro2::Ident;
use syn::spanned::Spanned;

use crate::errors::Errors;
use crate::origin::Origin;

/// One of them.
#[derive(Debug)]
pub(crate) struct Enum {
    pub(crate) name: Ident,
    /// Each with its number.
    pub(crate) variants: Vec<(Ident, i128)>,
    pub(crate) origin: Origin,
}

impl Enum {
    pub(crate) fn read(item: &syn::ItemEnum, origin: Origin, errors: &mut Errors) -> Self {
        if let Some(param) = item.generics.params.first() {
            errors.at(param.span(), "an enum for kernels is not generic");
        }
        let mut variants: Vec<(Ident, i128)> = Vec::new();
        for variant in &item.variants {
            if !matches!(variant.fields, syn::Fields::Unit) {
                errors.at(
                    variant.fields.span(),
                    "an enum for kernels has no data; put this into a struct beside it",
                );
            }
            let next = variants.last().map_or(0, |(_, last)| last + 1);
            let number = match &variant.discriminant {
                None => next,
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
            variants.push((variant.ident.clone(), number));
        }
        if variants.is_empty() {
            errors.at(item.ident.span(), "an enum for kernels has at least one variant");
        }
        Enum { name: item.ident.clone(), variants, origin }
    }

    pub(crate) fn variant(&self, name: &str) -> Option<i128> {
        self.variants.iter().find(|(variant, _)| variant == name).map(|(_, number)| *number)
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
