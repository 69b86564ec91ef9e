//! What one `kernels` module uses of others, also of other crates.
//!
//! An attribute sees the tokens that it stands on, and no others. So a module offers its items in a macro of its own name, and one
//! that uses it, by `#[kernels] use path::to::module::*`, becomes a call of that macro, which hands them to
//! [`continued`], and so on until all are there. Then the module is compiled with them, as if they stood in it: functions and
//! constants are written anew, and structs are the other module's own.

use proc_macro2::{Ident, Span, TokenStream};
use quote::{format_ident, quote};
use syn::parse::{Parse, ParseStream};
use syn::spanned::Spanned;

/// What a used module has.
pub(crate) struct Used {
    pub(crate) content: Vec<syn::Item>,
    /// The module itself names it, and not one that it uses.
    pub(crate) is_named: bool,
}

/// The modules that a module wants to use.
pub(crate) fn wanted(item: &syn::ItemMod) -> Result<Vec<syn::Path>, syn::Error> {
    let content = item.content.iter().flat_map(|(_, content)| content);
    let uses = content.filter_map(|item| match item {
        syn::Item::Use(item) if item.attrs.iter().any(is_kernels) => Some(path_of(item)),
        _ => None,
    });
    uses.collect()
}

fn is_kernels(attr: &syn::Attribute) -> bool {
    attr.path().segments.last().is_some_and(|segment| segment.ident == "kernels")
}

/// A `use` without the attribute.
pub(crate) fn plain_use(item: &syn::ItemUse) -> syn::ItemUse {
    let mut plain = item.clone();
    plain.attrs.retain(|attr| !is_kernels(attr));
    plain
}

/// The module of `use path::to::module::*`, as it is seen from where the using module stands.
fn path_of(item: &syn::ItemUse) -> Result<syn::Path, syn::Error> {
    let mut path =
        syn::Path { leading_colon: item.leading_colon, segments: syn::punctuated::Punctuated::new() };
    let mut tree = &item.tree;
    let names = loop {
        match tree {
            syn::UseTree::Path(part) => {
                path.segments.push(part.ident.clone().into());
                tree = &part.tree;
            }
            syn::UseTree::Glob(_) => break true,
            syn::UseTree::Group(_) | syn::UseTree::Name(_) | syn::UseTree::Rename(_) => break false,
        }
    };
    if !names || path.segments.is_empty() {
        return Err(syn::Error::new(
            item.tree.span(),
            "a module of kernels uses another one as a whole: `#[kernels] use path::to::module::*;`",
        ));
    }
    // From inside the module, its parent is `super`; the macro is called beside it.
    if path.leading_colon.is_none() && path.segments[0].ident == "super" {
        path.segments[0].ident = Ident::new("self", path.segments[0].ident.span());
        if path.segments.len() == 1 {
            return Err(syn::Error::new(item.tree.span(), "the module's parent is no module of kernels"));
        }
        if path.segments[1].ident == "super" {
            path.segments = path.segments.into_iter().skip(1).collect();
        }
    }
    Ok(path)
}

/// Asks for the next module that is wanted, or compiles, where all are there.
pub(crate) fn fetch(
    root: &TokenStream,
    mut wanted: Vec<syn::Path>,
    used: Vec<Used>,
    item: syn::ItemMod,
) -> Result<TokenStream, syn::Error> {
    if wanted.is_empty() {
        return crate::expand::module(root, &used, item);
    }
    let next = wanted.remove(0);
    let used = used.iter().map(Used::tokens);
    Ok(quote! {
        #next! { { #root::__private::kernels_with } { #root } { #(#wanted),* } { #(#used)* } #item }
    })
}

impl Used {
    fn tokens(&self) -> TokenStream {
        let (content, is_named) = (&self.content, self.is_named);
        quote!(#is_named { #(#content)* })
    }
}

/// What a module's macro hands on.
struct Handed {
    /// Its own items, and those of the modules that it uses.
    fetched: Vec<Vec<syn::Item>>,
    root: TokenStream,
    wanted: Vec<syn::Path>,
    used: Vec<Used>,
    item: syn::ItemMod,
}

fn braced(input: ParseStream<'_>) -> syn::Result<syn::parse::ParseBuffer<'_>> {
    let inner;
    syn::braced!(inner in input);
    Ok(inner)
}

fn items(input: ParseStream<'_>) -> syn::Result<Vec<syn::Item>> {
    let inner = braced(input)?;
    let mut items = Vec::new();
    while !inner.is_empty() {
        items.push(inner.parse()?);
    }
    Ok(items)
}

impl Parse for Handed {
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        let (mut fetched, mut used) = (Vec::new(), Vec::new());
        let inner = braced(input)?;
        while !inner.is_empty() {
            fetched.push(items(&inner)?);
        }
        let root = braced(input)?.parse()?;
        let wanted = braced(input)?.parse_terminated(syn::Path::parse_mod_style, syn::Token![,])?;
        let inner = braced(input)?;
        while !inner.is_empty() {
            let is_named = inner.parse::<syn::LitBool>()?.value;
            used.push(Used { is_named, content: items(&inner)? });
        }
        let wanted = wanted.into_iter().collect();
        Ok(Handed { fetched, root, wanted, used, item: input.parse()? })
    }
}

/// Goes on with what a module's macro has handed over.
pub(crate) fn continued(input: TokenStream) -> Result<TokenStream, syn::Error> {
    let Handed { fetched, root, wanted, mut used, item } = syn::parse2(input)?;
    let fetched = fetched.into_iter().enumerate();
    used.extend(fetched.map(|(at, content)| Used { content, is_named: at == 0 }));
    fetch(&root, wanted, used, item)
}

/// The macro by which other modules get a module's items; nothing where there is nothing to be had.
pub(crate) fn offer(item: &syn::ItemMod, content: &[syn::Item], used: &[Used]) -> TokenStream {
    let offered: Vec<&syn::Item> = content.iter().filter(|item| is_offered(item)).collect();
    if !offered.iter().any(|item| is_public(item)) {
        return TokenStream::new();
    }
    let used = used.iter().map(|used| {
        let content = &used.content;
        quote!({ #(#content)* })
    });
    let name = &item.ident;
    // Unlike any other of the crate: that is what the span is for, whose text is where it is.
    let place = format!("{:?}", name.span());
    let place: String = place.chars().filter(char::is_ascii_alphanumeric).collect();
    let hidden = format_ident!("__windlass_{}_{}", name, place, span = Span::call_site());
    let (exported, vis) = match item.vis {
        syn::Visibility::Public(_) => (quote!(#[macro_export]), quote!(pub)),
        _ => (quote!(), quote!(pub(crate))),
    };
    quote! {
        #[doc(hidden)]
        #exported
        #[allow(unused_macros, non_local_definitions, reason = "other modules of kernels may use it")]
        macro_rules! #hidden {
            ({ $($with:tt)* } $($rest:tt)*) => { $($with)* ! { { { #(#offered)* } #(#used)* } $($rest)* } };
        }
        #[doc(hidden)]
        #[allow(unused_imports, reason = "other modules of kernels may use it")]
        #vis use #hidden as #name;
    }
}

/// Everything but kernels, which are not called, and what is used.
fn is_offered(item: &syn::Item) -> bool {
    match item {
        syn::Item::Fn(item) => !item.attrs.iter().any(crate::expand::is_kernel),
        syn::Item::Use(_) => false,
        _ => true,
    }
}

fn is_public(item: &syn::Item) -> bool {
    let vis = match item {
        syn::Item::Fn(item) => &item.vis,
        syn::Item::Struct(item) => &item.vis,
        syn::Item::Enum(item) => &item.vis,
        syn::Item::Const(item) => &item.vis,
        syn::Item::Type(item) => &item.vis,
        _ => return false,
    };
    !matches!(vis, syn::Visibility::Inherited)
}
