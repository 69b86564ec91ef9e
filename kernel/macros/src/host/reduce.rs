//! Reductions on the host: each item starts with what changes nothing, a block combines its items' values, and does one
//! atomic step into the result.

use proc_macro2::{Ident, TokenStream};
use quote::{format_ident, quote};

use super::Rust;
use crate::hir::VarId;

/// The pieces of code around a loop over items.
pub(super) struct Reduced {
    /// The block's values, before the loop.
    pub(super) before: TokenStream,
    /// An item's own values.
    pub(super) fresh: TokenStream,
    /// What an item leaves.
    pub(super) taken: TokenStream,
    /// What the block leaves.
    pub(super) after: TokenStream,
}

impl Rust<'_> {
    /// The operators, as closures.
    pub(super) fn operators(&self) -> TokenStream {
        let rt = self.rt;
        let operators = self.function.reductions.iter().map(|reduction| {
            let (operator, ty) = (self.operator(reduction.param), self.ty(&reduction.combined.ty));
            let ([a, b], combined) =
                (reduction.parts.map(|part| self.name(part)), self.value(&reduction.combined));
            let of_numbers = reduction.component.as_ref().map(|(combined, _)| {
                let (operator, ty, combined) =
                    (self.operator_of_numbers(reduction.param), self.ty(&combined.ty), self.value(combined));
                quote!(let #operator = |#a: #ty, #b: #ty| -> #ty { #combined };)
            });
            quote! {
                let #operator = |#a: #ty, #b: #ty| -> #ty {
                    let item = &#rt::Item::default();
                    #combined
                };
                #of_numbers
            }
        });
        quote!(#(#operators)*)
    }

    pub(super) fn operator(&self, param: VarId) -> Ident {
        format_ident!("{}_combined", self.name(param))
    }

    /// The operator by which a result is changed.
    pub(super) fn operator_of_numbers(&self, param: VarId) -> Ident {
        match self.function.reduction(param).is_some_and(|reduction| reduction.component.is_some()) {
            true => format_ident!("{}_combined_numbers", self.name(param)),
            false => self.operator(param),
        }
    }

    pub(super) fn reduced(&self, slots: &[usize]) -> Reduced {
        let (mut before, mut fresh, mut taken, mut after) = (vec![], vec![], vec![], vec![]);
        for (&param, slot) in self.function.params.iter().zip(slots) {
            let Some(reduction) = self.function.reduction(param) else { continue };
            let (name, ty, identity) =
                (self.name(param), self.ty(&reduction.combined.ty), self.value(&reduction.identity));
            let (all, operator) = (format_ident!("{}_all", name), self.operator(param));
            before.push(quote!(let mut #all: #ty = #identity;));
            fresh.push(quote!(let mut #name: #ty = #identity;));
            taken.push(quote!(#all = #operator(#all, #name);));
            let of_numbers = self.operator_of_numbers(param);
            after.push(quote!(launch.reduce(#slot, #all, #of_numbers);));
        }
        Reduced {
            before: quote!(#(#before)*),
            fresh: quote!(#(#fresh)*),
            taken: quote!(#(#taken)*),
            after: quote!(#(#after)*),
        }
    }
}
