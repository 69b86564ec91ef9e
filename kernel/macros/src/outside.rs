//! What the rest of the program sees of constants, structs and enums.

use proc_macro2::TokenStream;
use quote::quote;

use crate::functions::last_name;
use crate::hir::{Const, Expr, Kind, Module};
use crate::structs::{StructName, Structs};
use crate::ty::Ty;

/// Whether an enum's name stands in a type.
pub(crate) fn names_enum(ty: &syn::Type, structs: &Structs<'_>) -> bool {
    match ty {
        syn::Type::Array(array) => names_enum(&array.elem, structs),
        ty => last_name(ty).is_some_and(|name| matches!(structs.find(name, 0), Some(StructName::Enum(_)))),
    }
}

/// A constant as the rest of the program sees it: of the type and the value that it has in kernels.
pub(crate) fn constant(item: &syn::ItemConst, module: &Module, root: &TokenStream) -> Option<TokenStream> {
    let constant = module.consts.iter().find(|c| c.name == item.ident)?;
    let (attrs, vis, name) = (&item.attrs, &item.vis, &item.ident);
    let (mut ty, mut value) = crate::host::constant(module, &quote!(#root::__private), constant);
    // Of this type there are none in kernels, and lengths of arrays outside are.
    if last_name(&item.ty).is_some_and(|name| name == "usize") {
        (ty, value) = (quote!(usize), quote!(#value as usize));
    }
    Some(quote! {
        #(#attrs)*
        #[allow(dead_code, reason = "kernels have its value")]
        #vis const #name: #ty = #value;
    })
}

/// The same of enums and arrays of them.
pub(crate) fn constant_of_enum(
    item: &syn::ItemConst,
    consts: &[Const],
    structs: &Structs<'_>,
) -> TokenStream {
    let (attrs, vis, name, ty) = (&item.attrs, &item.vis, &item.ident, &item.ty);
    let value = consts.iter().find(|c| c.name == item.ident).map(|c| variants(&c.value, structs));
    quote! {
        #(#attrs)*
        #[allow(dead_code, reason = "kernels have its value")]
        #vis const #name: #ty = #value;
    }
}

fn variants(value: &Expr, structs: &Structs<'_>) -> TokenStream {
    match (&value.kind, &value.ty) {
        (Kind::Int(number), Ty::Enum(at)) => {
            let of = structs.choice(*at);
            let (name, variant) = (&of.name, of.variants.iter().find(|(_, known)| known == number));
            let variant = variant.map(|(variant, _)| variant);
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
