//! The attributes: from their items to what stands in their place.

use proc_macro2::TokenStream;
use quote::quote;
use syn::parse::Parser;
use syn::spanned::Spanned;

use crate::check::{Around, Checker};
use crate::errors::Errors;
use crate::hir::Module;
use crate::items::{Signature, Types, structure};
use crate::launch::Launched;
use crate::uniform::Differing;
use crate::{limits, uses};

/// `#[kernel]` on a function.
pub(crate) fn kernel(arguments: TokenStream, item: TokenStream) -> Result<TokenStream, syn::Error> {
    let root = root(arguments)?;
    limits::tokens(&item)?;
    let item: syn::ItemFn = match syn::parse2(item.clone()) {
        Ok(item) => item,
        Err(_) => {
            return Err(syn::Error::new(
                item.span(),
                "`#[kernel]` stands on a function; a module of kernels is `#[kernels]`",
            ));
        }
    };
    let functions = [Source { item: &item, kernel: true }];
    let made = compile(&functions, &[], &[], &root)?;
    Ok(quote!(#(#made)*))
}

/// `#[kernels]` on a module.
pub(crate) fn kernels(arguments: TokenStream, item: TokenStream) -> Result<TokenStream, syn::Error> {
    let root = root(arguments)?;
    limits::tokens(&item)?;
    let mut item: syn::ItemMod = match syn::parse2(item.clone()) {
        Ok(item) => item,
        Err(_) => return Err(syn::Error::new(item.span(), "`#[kernels]` stands on a module with a body")),
    };
    let Some((_, content)) = item.content.take() else {
        return Err(syn::Error::new(
            item.span(),
            "`#[kernels]` needs the module's body here: `mod name { … }`",
        ));
    };
    let (mut functions, mut structs, mut consts, mut others) = (vec![], vec![], vec![], vec![]);
    let mut errors = Errors::default();
    for item in &content {
        match item {
            syn::Item::Fn(item) => {
                let kernel = item.attrs.iter().any(is_kernel);
                functions.push(Source { item, kernel });
            }
            syn::Item::Struct(item) => structs.push(item),
            syn::Item::Const(item) => consts.push(item),
            syn::Item::Use(item) => others.push(item),
            other => errors.at(
                other.span(),
                "a `kernels` module has functions, structs, constants and `use`; other items stand outside",
            ),
        }
    }
    if let Some(error) = errors.into_error() {
        return Err(error);
    }
    let made = compile(&functions, &structs, &consts, &root)?;
    let kernels = functions.iter().filter(|source| source.kernel).map(|source| &source.item.sig.ident);
    let (attrs, vis, name) = (&item.attrs, &item.vis, &item.ident);
    Ok(quote! {
        #(#attrs)*
        #vis mod #name {
            #[allow(unused_imports, reason = "helpers, which are written anew, may be all that used them")]
            use super::*;
            #(#others)*
            #(#structs)*
            #(#made)*

            /// All kernels of the module, to be built ahead.
            #[allow(dead_code, reason = "a program may leave building to the first launch")]
            pub fn bundle() -> #root::Bundle {
                #root::Bundle::new([#(#kernels::kernel()),*])
            }
        }
    })
}

fn is_kernel(attr: &syn::Attribute) -> bool {
    attr.path().segments.last().is_some_and(|s| s.ident == "kernel")
}

/// A function as it was written.
struct Source<'a> {
    item: &'a syn::ItemFn,
    kernel: bool,
}

/// `crate = path`, for those who have the crate under another name.
fn root(arguments: TokenStream) -> Result<TokenStream, syn::Error> {
    let mut root = quote!(::windlass);
    let parser = syn::meta::parser(|meta| {
        if meta.path.is_ident("crate") {
            let path: syn::Path = meta.value()?.call(syn::Path::parse_mod_style)?;
            root = quote!(#path);
            return Ok(());
        }
        Err(meta.error("the attribute knows `crate = path` only"))
    });
    parser.parse2(arguments)?;
    Ok(root)
}

/// Checks everything, and gives what each kernel and each struct becomes.
fn compile(
    sources: &[Source<'_>],
    struct_items: &[&syn::ItemStruct],
    const_items: &[&syn::ItemConst],
    root: &TokenStream,
) -> Result<Vec<TokenStream>, syn::Error> {
    let mut errors = Errors::default();
    let mut module = Module::default();
    // Lengths of arrays come first, since structs need them; constants of other types may need the structs.
    let (lengths, others): (Vec<_>, Vec<_>) = const_items.iter().partition(|item| is_integer(&item.ty));
    for item in lengths {
        let around = Around { structs: &[], signatures: &[] };
        Checker::new(&around, &mut module.consts, &mut errors).constant(item);
    }
    // Structs may name those before them, as their fields' types.
    for item in struct_items {
        let consts = &module.consts;
        let length = |name: &syn::Ident| length_of(consts, name);
        let made = structure(item, &Types { structs: &module.structs, length: &length }, &mut errors);
        copyable(item, &mut errors);
        module.structs.push(made);
    }
    let structs = std::mem::take(&mut module.structs);
    for item in others {
        let around = Around { structs: &structs, signatures: &[] };
        Checker::new(&around, &mut module.consts, &mut errors).constant(item);
    }
    let signatures: Vec<Signature> = sources
        .iter()
        .map(|source| {
            let consts = &module.consts;
            let length = |name: &syn::Ident| length_of(consts, name);
            Types { structs: &structs, length: &length }.signature(
                &source.item.sig,
                source.kernel,
                &mut errors,
            )
        })
        .collect();
    let around = Around { structs: &structs, signatures: &signatures };
    for (source, signature) in sources.iter().zip(&signatures) {
        let function =
            Checker::new(&around, &mut module.consts, &mut errors).function(signature, &source.item.block);
        module.functions.push(function);
    }
    module.structs = structs;
    module.kernels = (0..sources.len()).filter(|&at| sources[at].kernel).collect();
    if errors.is_empty() {
        limits::check(&module, &mut errors);
    }
    let uses = match errors.is_empty() {
        true => uses::all(&module, &mut errors),
        false => Vec::new(),
    };
    let differing: Vec<Differing> = match errors.is_empty() {
        true => {
            (0..sources.len()).map(|at| crate::uniform::differing(&module, &uses, at, &mut errors)).collect()
        }
        false => Vec::new(),
    };
    if let Some(error) = errors.into_error() {
        return Err(error);
    }
    let mut made: Vec<TokenStream> = module.structs.iter().map(|item| zero(item, root)).collect();
    made.extend(const_items.iter().filter_map(|item| constant(item, &module, root)));
    for (at, (source, signature)) in sources.iter().zip(&signatures).enumerate() {
        if source.kernel {
            let attrs: Vec<syn::Attribute> =
                source.item.attrs.iter().filter(|attr| !is_kernel(attr)).cloned().collect();
            let (module, uses, vis) = (&module, &uses[..], &source.item.vis);
            let differing = &differing[at];
            made.push(
                Launched { module, uses, differing, at, signature, attrs: &attrs, vis, root }.tokens()?,
            );
        }
    }
    Ok(made)
}

fn is_integer(ty: &syn::Type) -> bool {
    let syn::Type::Path(path) = ty else { return false };
    let name = path.path.get_ident().map(ToString::to_string).unwrap_or_default();
    crate::ty::Scalar::from_name(&name).is_some_and(crate::ty::Scalar::is_int)
}

/// The value of an integer constant.
fn length_of(consts: &[crate::hir::Const], name: &syn::Ident) -> Option<i128> {
    let found = consts.iter().find(|c| c.name == *name)?;
    if let crate::hir::Kind::Int(value) = found.value.kind { Some(value) } else { None }
}

/// Structs are copied as kernels copy them.
fn copyable(item: &syn::ItemStruct, errors: &mut Errors) {
    let derives = |name: &str| {
        item.attrs.iter().filter(|attr| attr.path().is_ident("derive")).any(|attr| {
            let mut found = false;
            let _ = attr.parse_nested_meta(|meta| {
                found |= meta.path.segments.last().is_some_and(|s| s.ident == name);
                Ok(())
            });
            found
        })
    };
    if !derives("Copy") {
        errors.at(item.ident.span(), "a struct for kernels is copied by them: add `#[derive(Clone, Copy)]`");
    }
}

/// A constant as the rest of the program sees it: of the type and the value that it has in kernels.
fn constant(item: &syn::ItemConst, module: &Module, root: &TokenStream) -> Option<TokenStream> {
    let constant = module.consts.iter().find(|c| c.name == item.ident)?;
    let (attrs, vis, name) = (&item.attrs, &item.vis, &item.ident);
    let (ty, value) = crate::host::constant(module, &quote!(#root::__private), constant);
    Some(quote! {
        #(#attrs)*
        #[allow(dead_code, reason = "kernels have its value")]
        #vis const #name: #ty = #value;
    })
}

/// The value that reading outside gives.
fn zero(item: &crate::hir::Struct, root: &TokenStream) -> TokenStream {
    let (name, fields) = (&item.name, item.fields.iter().map(|(field, _)| field));
    quote! {
        impl #root::__private::Zero for #name {
            const ZERO: Self = #name { #(#fields: #root::__private::Zero::ZERO),* };
        }
    }
}
