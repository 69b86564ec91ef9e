//! `#[derive(DeviceCopy)]`.

use proc_macro2::TokenStream;
use quote::{quote, quote_spanned};
use syn::spanned::Spanned;

/// The traits that elements need, and the proof that they may be had: `repr(C)`, every field such a type itself, and
/// no byte between or behind them.
pub(crate) fn derive(item: TokenStream) -> Result<TokenStream, syn::Error> {
    let item: syn::DeriveInput = syn::parse2(item)?;
    let syn::Data::Struct(data) = &item.data else {
        return Err(syn::Error::new(
            item.ident.span(),
            "only structs can live in device memory: an enum's values are not all valid",
        ));
    };
    let repr_c = item.attrs.iter().filter(|attr| attr.path().is_ident("repr")).any(|attr| {
        let mut found = false;
        let _ = attr.parse_nested_meta(|meta| {
            found |= meta.path.is_ident("C") || meta.path.is_ident("transparent");
            Ok(())
        });
        found
    });
    let is_packed = |attr: &syn::Attribute| {
        let mut found = false;
        let _ = attr.parse_nested_meta(|meta| {
            found |= meta.path.is_ident("packed");
            // Those with a number in brackets, too.
            if meta.input.peek(syn::token::Paren) {
                let _ = meta.input.parse::<proc_macro2::TokenTree>()?;
            }
            Ok(())
        });
        found
    };
    if item.attrs.iter().filter(|attr| attr.path().is_ident("repr")).any(is_packed) {
        return Err(syn::Error::new(
            item.ident.span(),
            "its fields are not aligned, as devices want them: leave `packed` out, and put fields of larger alignment first",
        ));
    }
    if !repr_c {
        return Err(syn::Error::new(
            item.ident.span(),
            "its layout is left to the compiler: add `#[repr(C)]`",
        ));
    }
    if let Some(param) = item.generics.params.first() {
        return Err(syn::Error::new(param.span(), "a struct for device memory is not generic"));
    }
    let name = &item.ident;
    let root = quote!(::windlass::__private);
    let types: Vec<&syn::Type> = data.fields.iter().map(|field| &field.ty).collect();
    let checks = types.iter().map(|ty| {
        quote_spanned!(ty.span()=> const _: fn() = || {
            fn lives_in_device_memory<T: ::windlass::DeviceCopy>() {}
            lives_in_device_memory::<#ty>();
        };)
    });
    let message =
        format!("`{name}` has padding: put fields of larger alignment first, or fill the gaps with fields");
    Ok(quote! {
        #(#checks)*
        const _: () = assert!(
            ::core::mem::size_of::<#name>() == 0 #(+ ::core::mem::size_of::<#types>())*,
            #message
        );
        // SAFETY: all fields are valid with every byte zero.
        unsafe impl #root::Zeroable for #name {}
        // SAFETY: the layout is C's, every field may have any bit pattern, and there is no padding, all as checked above.
        unsafe impl #root::Pod for #name {}
    })
}
