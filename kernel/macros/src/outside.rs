//! What the rest of the program sees of constants, structs and enums.

use proc_macro2::TokenStream;
use quote::quote;
use syn::spanned::Spanned;

use crate::errors::Errors;
use crate::functions::last_name;
use crate::hir::{Const, Expr, Kind, Module};
use crate::structs::Structs;
use crate::ty::Ty;

/// The module's own constant: those that it uses may have some of the same name.
fn of_module<'c>(item: &syn::ItemConst, consts: &'c [Const]) -> Option<&'c Const> {
    consts.iter().find(|c| c.name == item.ident && c.origin.home == 0)
}

/// A constant as the rest of the program sees it: of the type and the value that it has in kernels.
pub(crate) fn constant(item: &syn::ItemConst, module: &Module, root: &TokenStream) -> Option<TokenStream> {
    let constant = of_module(item, &module.consts)?;
    let (attrs, vis, name) = (&item.attrs, &item.vis, &item.ident);
    let (mut ty, mut value) = crate::host::constant(module, &quote!(#root::__private), constant);
    // Of this type there are none in kernels, and lengths of arrays outside are.
    if last_name(&item.ty).is_some_and(|name| name == "usize") {
        (ty, value) = (quote!(usize), quote!(#value as usize));
    }
    Some(quote! {
        #(#attrs)*
        #[allow(dead_code, clippy::approx_constant, reason = "kernels have its value, which was a name here")]
        #vis const #name: #ty = #value;
    })
}

/// The same where kernels know the value by a type of their own: none where they do not.
pub(crate) fn formless(
    item: &syn::ItemConst,
    is_computed: bool,
    consts: &[Const],
    structs: &Structs<'_>,
    errors: &mut Errors,
) -> Option<TokenStream> {
    let constant = of_module(item, consts).filter(|c| structs.has_enum(&c.ty))?;
    let (attrs, vis, name, ty, written) = (&item.attrs, &item.vis, &item.ident, &item.ty, &item.expr);
    let value = match (numbers(&constant.ty, structs), is_computed) {
        (true, _) => variants(&constant.value, structs),
        (false, false) => quote!(#written),
        (false, true) if matches!(vis, syn::Visibility::Inherited) => return Some(TokenStream::new()),
        (false, true) => {
            let message = "the rest of the program sees no `Option` or enum with data that a function computes; leave `pub` away";
            errors.at(ty.span(), message);
            return None;
        }
    };
    Some(quote! {
        #(#attrs)*
        #[allow(dead_code, reason = "kernels have its value")]
        #vis const #name: #ty = #value;
    })
}

/// Whether a type is an enum that is a number in kernels, or an array of such.
fn numbers(ty: &Ty, structs: &Structs<'_>) -> bool {
    match ty {
        Ty::Array(of, _) => numbers(of, structs),
        Ty::Enum(at) => !structs.choice(*at).has_data(),
        _ => false,
    }
}

fn variants(value: &Expr, structs: &Structs<'_>) -> TokenStream {
    match (&value.kind, &value.ty) {
        (Kind::Int(number), Ty::Enum(at)) => {
            let of = structs.choice(*at);
            let (name, variant) = (&of.name, of.variants.iter().find(|known| known.number == *number));
            let variant = variant.map(|variant| &variant.name);
            quote!(#name::#variant)
        }
        (Kind::Array(list), _) => {
            let list = list.iter().map(|value| variants(value, structs));
            quote!([#(#list),*])
        }
        (Kind::Repeat(of), Ty::Array(_, len)) => {
            let (of, len) = (variants(of, structs), *len as usize);
            quote!([#of; #len])
        }
        _ => TokenStream::new(),
    }
}

/// The value that reading outside gives: of an enum the first one, of which nobody hears in kernels.
pub(crate) fn zero_of_enum(item: &syn::ItemEnum, root: &TokenStream) -> TokenStream {
    let name = &item.ident;
    let Some(syn::Variant { ident: first, fields, .. }) = item.variants.first() else {
        return TokenStream::new();
    };
    let zeros = fields.members().map(|field| quote!(#field: #root::__private::Zero::ZERO));
    quote! {
        impl #root::__private::Zero for #name {
            const ZERO: Self = #name::#first { #(#zeros),* };
        }
    }
}

/// The value that reading outside gives.
pub(crate) fn zero(item: &syn::ItemStruct, root: &TokenStream) -> TokenStream {
    let name = &item.ident;
    let fields = item.fields.iter().filter_map(|field| field.ident.as_ref());
    let mut generics = item.generics.clone();
    for param in generics.type_params_mut() {
        param.bounds.push(syn::parse_quote!(#root::__private::Zero));
    }
    let (outer, inner, bounds) = generics.split_for_impl();
    quote! {
        impl #outer #root::__private::Zero for #name #inner #bounds {
            const ZERO: Self = #name { #(#fields: #root::__private::Zero::ZERO),* };
        }
    }
}
