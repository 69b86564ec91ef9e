//! The attributes: from their items to what stands in their place.

use std::rc::Rc;

use proc_macro2::TokenStream;
use quote::{ToTokens as _, quote};
use syn::spanned::Spanned;

use crate::check::{Around, Checker, MOST_FUNCTIONS};
use crate::errors::Errors;
use crate::functions::{Functions, Instance, Source};
use crate::hir::{Const, Module};
use crate::launch::Launched;
use crate::modules::{self, Used};
use crate::options::Options;
use crate::origin::{LIBRARY, Origin};
use crate::structs::Structs;
use crate::uniform::Differing;
use crate::{conditional, evaluate, library, limits, outside, uses};
use library::texels;

/// `#[kernel]` on a function.
pub(crate) fn kernel(arguments: TokenStream, item: TokenStream) -> Result<TokenStream, syn::Error> {
    let (options, root) = Options::read(arguments.clone())?;
    limits::tokens(&item)?;
    if let Some(decided) = conditional::decided(&quote!(#[#root::kernel(#arguments)]), &item)? {
        return Ok(decided);
    }
    let item: syn::ItemFn = match syn::parse2(item.clone()) {
        Ok(item) => item,
        Err(_) => {
            return Err(syn::Error::new(
                item.span(),
                "`#[kernel]` stands on a function; a module of kernels is `#[kernels]`",
            ));
        }
    };
    let items = Items { functions: vec![&item], ..Items::default() };
    let asked = |_: &syn::ItemFn| Some(Ok(options.clone()));
    let images = texels::text(&item.to_token_stream());
    let made = compile(&items, &[], &images, &asked, &root)?;
    Ok(quote!(#(#made)*))
}

/// `#[kernels]` on a module.
pub(crate) fn kernels(arguments: TokenStream, item: TokenStream) -> Result<TokenStream, syn::Error> {
    let (options, root) = Options::read(arguments.clone())?;
    if !options.group.is_empty() || options.elementwise.is_some() || options.fast {
        return Err(syn::Error::new(arguments.span(), "this stands on a kernel: `#[kernel(…)]`"));
    }
    limits::tokens(&item)?;
    if let Some(decided) = conditional::decided(&quote!(#[#root::kernels(#arguments)]), &item)? {
        return Ok(decided);
    }
    let item: syn::ItemMod = match syn::parse2(item.clone()) {
        Ok(item) => item,
        Err(_) => return Err(syn::Error::new(item.span(), "`#[kernels]` stands on a module with a body")),
    };
    let wanted = modules::wanted(&item)?;
    modules::fetch(&root, wanted, Vec::new(), item)
}

/// The module, with the modules that it uses: of each, what it has.
pub(super) fn module(
    root: &TokenStream,
    used: &[Used],
    mut item: syn::ItemMod,
) -> Result<TokenStream, syn::Error> {
    let Some((_, content)) = item.content.take() else {
        return Err(syn::Error::new(
            item.span(),
            "`#[kernels]` needs the module's body here: `mod name { … }`",
        ));
    };
    let all = content.iter().chain(used.iter().flat_map(|used| &used.content));
    let images = texels::text(&quote!(#(#all)*));
    let items = Items::of(&content)?;
    let others = used.iter().map(|used| Items::of(&used.content));
    let others = others.zip(used).map(|(items, used)| Ok((items?, used.is_named)));
    let others: Vec<(Items<'_>, bool)> = others.collect::<Result<_, syn::Error>>()?;
    let made = compile(
        &items,
        &others,
        &images,
        &|item| item.attrs.iter().any(is_kernel).then(|| Options::of(item)),
        root,
    )?;
    let kernels = items.functions.iter().filter(|item| item.attrs.iter().any(is_kernel));
    let kernels = kernels.map(|item| &item.sig.ident);
    let Items { structs, enums, types, .. } = &items;
    let others = items.others.iter().map(|item| modules::plain_use(item));
    let (attrs, vis, name) = (&item.attrs, &item.vis, &item.ident);
    let offered = modules::offer(&item, &content, used);
    Ok(quote! {
        #(#attrs)*
        #vis mod #name {
            #[allow(unused_imports, reason = "helpers, which are written anew, may be all that used them")]
            use super::*;
            #(
                #[allow(unused_imports, reason = "helpers, which are written anew, may be all that used them")]
                #others
            )*
            #(
                #[allow(dead_code, reason = "helpers, which are written anew, may be all that used it")]
                #types
            )*
            #(
                #[allow(dead_code, reason = "kernels may be all that uses these")]
                #structs
            )*
            #(
                #[allow(dead_code, reason = "kernels may be all that makes these")]
                #enums
            )*
            #(#made)*

            /// All kernels of the module, to be built ahead.
            #[allow(dead_code, reason = "a program may leave building to the first launch")]
            pub fn bundle() -> #root::Bundle {
                #root::Bundle::new([#(#kernels::kernel()),*])
            }
        }
        #offered
    })
}

pub(super) fn is_kernel(attr: &syn::Attribute) -> bool {
    attr.path().segments.last().is_some_and(|s| s.ident == "kernel")
}

/// What stands in a module.
#[derive(Default)]
pub(super) struct Items<'a> {
    functions: Vec<&'a syn::ItemFn>,
    impls: Vec<&'a syn::ItemImpl>,
    structs: Vec<&'a syn::ItemStruct>,
    enums: Vec<&'a syn::ItemEnum>,
    pub(super) consts: Vec<&'a syn::ItemConst>,
    types: Vec<&'a syn::ItemType>,
    others: Vec<&'a syn::ItemUse>,
}

impl<'a> Items<'a> {
    fn of(content: &'a [syn::Item]) -> Result<Self, syn::Error> {
        let (mut items, mut errors) = (Items::default(), Errors::default());
        for item in content {
            match item {
                syn::Item::Fn(item) => items.functions.push(item),
                syn::Item::Impl(item) => items.impls.push(item),
                syn::Item::Struct(item) => items.structs.push(item),
                syn::Item::Enum(item) => items.enums.push(item),
                syn::Item::Const(item) => items.consts.push(item),
                syn::Item::Type(item) => items.types.push(item),
                syn::Item::Use(item) => items.others.push(item),
                other => errors.at(
                    other.span(),
                    "a `kernels` module has functions, structs and enums with their `impl`s, constants, `type` and `use`; other items \
                     stand outside",
                ),
            }
        }
        errors.into_error().map_or(Ok(items), Err)
    }
}

/// Checks everything, and gives what each kernel and each struct becomes.
fn compile(
    items: &Items<'_>,
    others: &[(Items<'_>, bool)],
    images: &str,
    asked: &dyn Fn(&syn::ItemFn) -> Option<Result<Options, syn::Error>>,
    root: &TokenStream,
) -> Result<Vec<TokenStream>, syn::Error> {
    let mut errors = Errors::default();
    let mut module = Module::default();
    let library = syn::parse_file(library::TEXT)?;
    let library = Items::of(&library.items)?;
    let images = syn::parse_file(images)?;
    let images = Items::of(&images.items)?;
    let all: Vec<(&Items<'_>, usize, bool)> = std::iter::once((items, 0, true))
        .chain(others.iter().enumerate().map(|(at, (items, is_named))| (items, at + 1, *is_named)))
        .chain([(&library, LIBRARY, false), (&images, LIBRARY, true)])
        .collect();
    // Lengths of arrays come first, since structs need them; constants of other types may need the structs.
    let (none, nothing) = (Structs::default(), Functions::new(Vec::new()));
    let computed = evaluate::computed(all.iter().flat_map(|(items, ..)| items.consts.iter().copied()));
    let is_computed = |item: &syn::ItemConst| computed.contains(&item.ident.to_string());
    let is_length = |item: &syn::ItemConst| !is_computed(item) && is_integer(&item.ty);
    let is_plain = |item: &syn::ItemConst| !is_computed(item) && !is_integer(&item.ty);
    constants(&all, &is_length, &none, &nothing, &mut module.consts, &mut errors);
    let lengths = crate::lengths::found(&all, &module.consts, &is_computed, &|item| asked(item).is_some());
    let structs = all_structs(&all, &lengths, &mut errors);
    constants(&all, &is_plain, &structs, &nothing, &mut module.consts, &mut errors);
    let functions = all_functions(&all, &|item| asked(item).is_some(), &structs, &mut errors);
    constants(&all, &is_computed, &structs, &functions, &mut module.consts, &mut errors);
    let shared = module.consts.len();
    let around = Around { structs: &structs, functions: &functions, consts: shared };
    // Each may call generic helpers with types of its own, which makes more of them.
    while let Some(instance) = functions.made(module.functions.len()) {
        let origin = functions.sources[instance.source].origin;
        let function = Checker::new(&around, origin, &mut module.consts, &mut errors).function(&instance);
        module.functions.push(function);
        if module.functions.len() > MOST_FUNCTIONS {
            break;
        }
    }
    let kernels: Vec<Kernel<'_>> = all_kernels(items, &functions);
    module.kernels = kernels.iter().map(|kernel| kernel.at).collect();
    // In kernels these have other types than the rest of the program sees.
    let other: Vec<Option<TokenStream>> = items
        .consts
        .iter()
        .map(|item| outside::formless(item, is_computed(item), &module.consts, &structs, &mut errors))
        .collect();
    (module.structs, module.enums) = structs.into_made();
    if errors.is_empty() {
        crate::pointers::lower(&mut module, &mut errors);
        crate::messages::lower(&mut module, &mut errors);
        crate::pieces::lower(&mut module);
        crate::tuples::lower(&mut module);
        crate::inline::helpers(&mut module, &mut errors);
    }
    if errors.is_empty() {
        limits::check(&module, &mut errors);
    }
    let mut options = Vec::new();
    for Kernel { at, item, .. } in &kernels {
        let of = asked(item).transpose()?.unwrap_or_default();
        of.settle(&mut module.functions[*at]);
        options.push((*at, of));
    }
    let uses = match errors.is_empty() {
        true => uses::all(&module, &mut errors),
        false => Vec::new(),
    };
    let differing: Vec<Differing> = match errors.is_empty() {
        true => (0..module.functions.len())
            .map(|at| crate::uniform::differing(&module, &uses, at, &mut errors))
            .collect(),
        false => Vec::new(),
    };
    if errors.is_empty() {
        for (at, options) in &options {
            options.check(&module.functions[*at], &uses[*at], &mut errors);
        }
    }
    if let Some(error) = errors.into_error() {
        return Err(error);
    }
    let plain = items.structs.iter().map(|item| outside::zero(item, root));
    let mut made: Vec<TokenStream> = plain.collect();
    made.extend(items.enums.iter().map(|item| outside::zero_of_enum(item, root)));
    made.extend(items.consts.iter().zip(other).filter_map(|(item, other)| match other {
        Some(tokens) => Some(tokens),
        None => outside::constant(item, &module, root),
    }));
    for Kernel { at, item, instance } in &kernels {
        let attrs: Vec<syn::Attribute> =
            item.attrs.iter().filter(|attr| !self::is_kernel(attr)).cloned().collect();
        let (module, uses, at) = (&module, &uses[..], *at);
        let (differing, vis, signature) = (&differing[at], &item.vis, &*instance.signature);
        made.push(Launched { module, uses, differing, at, signature, attrs: &attrs, vis, root }.tokens()?);
    }
    Ok(made)
}

/// A kernel with its number among the functions.
struct Kernel<'a> {
    at: usize,
    item: &'a syn::ItemFn,
    instance: Rc<Instance>,
}

/// The items of a module, which of the modules it is, and whether the first of them names it.
pub(super) type Of<'i, 'a> = (&'i Items<'a>, usize, bool);

/// Where an item stands.
pub(super) fn origin(home: usize, is_named: bool, vis: &syn::Visibility) -> Origin {
    Origin { home, is_open: is_named && !matches!(vis, syn::Visibility::Inherited) }
}

/// Checks the constants that `which` says.
pub(super) fn constants(
    all: &[Of<'_, '_>],
    which: &dyn Fn(&syn::ItemConst) -> bool,
    structs: &Structs<'_>,
    functions: &Functions<'_>,
    consts: &mut Vec<Const>,
    errors: &mut Errors,
) {
    // A module's constants may be made of those of the modules that it uses, which stand behind it.
    for (items, home, is_named) in all.iter().rev() {
        for item in items.consts.iter().filter(|item| which(item)) {
            let around = Around { structs, functions, consts: consts.len() };
            let origin = origin(*home, *is_named, &item.vis);
            Checker::new(&around, origin, consts, errors).constant(item);
        }
    }
}

pub(super) fn all_structs<'a>(all: &[Of<'_, 'a>], consts: &[Const], errors: &mut Errors) -> Structs<'a> {
    let mut structs = Structs::new(consts);
    for (items, home, is_named) in all.iter().rev() {
        for item in &items.types {
            structs.alias(item, origin(*home, *is_named, &item.vis), errors);
        }
        for item in items.structs.iter().filter(|item| !item.generics.params.is_empty()) {
            structs.template(item, origin(*home, *is_named, &item.vis), errors);
        }
        for item in &items.enums {
            structs.enumerate(item, origin(*home, *is_named, &item.vis), errors);
            copyable(&item.attrs, &item.ident, errors);
        }
    }
    for (items, home, is_named) in all.iter().rev() {
        let plain = items.structs.iter().filter(|item| item.generics.params.is_empty());
        let plain =
            plain.map(|item| (structs.plain(item, origin(*home, *is_named, &item.vis), errors), item));
        for (at, item) in plain.collect::<Vec<_>>() {
            structs.fill(at, item, *home, errors);
        }
        items.structs.iter().for_each(|item| copyable(&item.attrs, &item.ident, errors));
    }
    structs.data_of_enums(errors);
    structs
}

/// All functions, of which those that are not generic have their numbers.
pub(super) fn all_functions<'a>(
    all: &[Of<'_, 'a>],
    is_kernel: &dyn Fn(&syn::ItemFn) -> bool,
    structs: &Structs<'_>,
    errors: &mut Errors,
) -> Functions<'a> {
    let mut sources: Vec<Source<'a>> = Vec::new();
    for (items, home, is_named) in all {
        for item in &items.functions {
            let kernel = *home == 0 && is_kernel(item);
            sources.push(Source::function(item, kernel, origin(*home, *is_named, &item.vis), errors));
        }
        for item in &items.impls {
            let origin = Origin { home: *home, is_open: *is_named };
            sources.extend(Source::methods(item, origin, errors));
        }
    }
    let functions = Functions::new(sources);
    for (at, source) in functions.sources.iter().enumerate() {
        if source.generics.is_empty() {
            functions.instance(at, Vec::new(), structs, errors);
        }
    }
    functions
}

fn all_kernels<'a>(items: &Items<'a>, functions: &Functions<'_>) -> Vec<Kernel<'a>> {
    let all = (0..).map_while(|at| Some((at, functions.made(at)?)));
    let kernels = all.filter(|(_, instance)| functions.sources[instance.source].kernel);
    // Functions are the first sources, in their order.
    kernels.map(|(at, instance)| Kernel { at, item: items.functions[instance.source], instance }).collect()
}

pub(super) fn is_integer(ty: &syn::Type) -> bool {
    let syn::Type::Path(path) = ty else { return false };
    let name = path.path.get_ident().map(ToString::to_string).unwrap_or_default();
    name == "usize" || crate::ty::Scalar::from_name(&name).is_some_and(crate::ty::Scalar::is_int)
}

/// Structs and enums are copied as kernels copy them.
fn copyable(attrs: &[syn::Attribute], name: &proc_macro2::Ident, errors: &mut Errors) {
    let derives = |name: &str| {
        attrs.iter().filter(|attr| attr.path().is_ident("derive")).any(|attr| {
            let mut found = false;
            let _ = attr.parse_nested_meta(|meta| {
                found |= meta.path.segments.last().is_some_and(|s| s.ident == name);
                Ok(())
            });
            found
        })
    };
    if !derives("Copy") {
        errors.at(
            name.span(),
            format!("kernels copy their structs and enums: add `#[derive(Clone, Copy)]` to `{name}`"),
        );
    }
}
