//! What an attribute says about a kernel beside its function: `#[kernel(group = [16, 16])]`.

use proc_macro2::{Span, TokenStream};
use quote::quote;
use syn::parse::Parser;
use syn::spanned::Spanned;

use crate::builtin::Id;
use crate::errors::Errors;
use crate::hir::{Base, Change, Expr, Function, Kind, Node, change_block, walk_block};
use crate::ty::U32;
use crate::uses::{Uses, elementwise, position};

/// What is asked of a kernel.
#[derive(Clone, Debug, Default)]
pub(crate) struct Options {
    /// The extents of its work-groups.
    pub(crate) group: Vec<u32>,
    /// Whether devices may be less exact for speed.
    pub(crate) fast: bool,
    /// Where it says that each item keeps to its own element.
    pub(crate) elementwise: Option<Span>,
}

impl Options {
    /// Those in an attribute's arguments, and the path to the crate, if one is given.
    pub(crate) fn read(arguments: TokenStream) -> Result<(Options, TokenStream), syn::Error> {
        let (mut options, mut root) = (Options::default(), quote!(::windlass));
        let parser = syn::meta::parser(|meta| {
            if meta.path.is_ident("crate") {
                let path: syn::Path = meta.value()?.call(syn::Path::parse_mod_style)?;
                root = quote!(#path);
            } else if meta.path.is_ident("group") {
                let extents: syn::ExprArray = meta.value()?.parse()?;
                options.group = extents.elems.iter().map(extent).collect::<Result<_, _>>()?;
                if options.group.is_empty() || options.group.len() > 3 {
                    return Err(syn::Error::new(
                        extents.span(),
                        "a work-group has one, two or three dimensions",
                    ));
                }
            } else if meta.path.is_ident("fast") {
                options.fast = true;
            } else if meta.path.is_ident("elementwise") {
                options.elementwise = Some(meta.path.span());
            } else {
                return Err(
                    meta.error("the attribute knows `group = […]`, `elementwise`, `fast` and `crate = path`")
                );
            }
            Ok(())
        });
        parser.parse2(arguments)?;
        Ok((options, root))
    }

    /// Those on a function of a module.
    pub(crate) fn of(item: &syn::ItemFn) -> Result<Options, syn::Error> {
        let attr = item.attrs.iter().find(|attr| crate::expand::is_kernel(attr));
        match attr.map(|attr| &attr.meta) {
            Some(syn::Meta::List(list)) => Ok(Options::read(list.tokens.clone())?.0),
            _ => Ok(Options::default()),
        }
    }

    /// Tells the kernel what its groups are: their extents are numbers in its body then.
    pub(crate) fn settle(&self, function: &mut Function) {
        function.fast = self.fast;
        if self.group.is_empty() {
            return;
        }
        function.group.clone_from(&self.group);
        change_block(&mut function.body, &mut |change| {
            if let Change::Expr(Expr { kind: kind @ Kind::Id(Id::LocalSize, _), ty, .. }) = change
                && *ty == U32
                && let Kind::Id(_, dim) = *kind
            {
                *kind = Kind::Int(self.group.get(usize::from(dim)).copied().unwrap_or(1).into());
            }
        });
    }

    /// Refuses a kernel that is to work element by element, and does not.
    pub(crate) fn check(&self, function: &Function, uses: &Uses, errors: &mut Errors) {
        let Some(asked) = self.elementwise.filter(|_| elementwise(function, uses).is_none()) else { return };
        if uses.groups {
            return errors.at(asked, "a kernel that works in groups does not work element by element");
        }
        let own = |at: &[Expr]| (0..).zip(at).all(|(dim, index)| position(function, index) == Some(dim));
        let mut found: Option<(Span, String)> = None;
        walk_block(&function.body, &mut |node| {
            let (var, at, span) = match node {
                Node::Expr(expr) => match &expr.kind {
                    Kind::Element(var, at) => (*var, at, expr.span),
                    Kind::Atomic(_, var, at, _) => (*var, at, expr.span),
                    _ => return,
                },
                Node::Place(place) => match &place.base {
                    Base::Element(var, at) => (*var, at, at.first().map_or(asked, |index| index.span)),
                    Base::Var(_) => return,
                },
                Node::Block(_) | Node::Stmt(_) => return,
            };
            if uses.written.contains(&var)
                && (!own(at) || matches!(node, Node::Expr(Expr { kind: Kind::Atomic(..), .. })))
            {
                found.get_or_insert((span, function.vars[var].name.to_string()));
            }
        });
        let (span, message) = match found {
            Some((span, name)) => {
                let message = format!(
                    "this kernel is to work element by element, and here an item reaches `{name}` elsewhere than at its own \
                     position: what is written is read and written at `global_id(0)` alone, and so on for each dimension"
                );
                (span, message)
            }
            None => {
                let message = "this kernel is not known to work element by element: it writes nothing, slices of several \
                               dimensions, or through a helper that takes the whole slice";
                (asked, message.into())
            }
        };
        errors.at(span, message);
    }
}

fn extent(of: &syn::Expr) -> Result<u32, syn::Error> {
    if let syn::Expr::Lit(syn::ExprLit { lit: syn::Lit::Int(int), .. }) = of
        && let Ok(extent @ 1..) = int.base10_parse::<u32>()
    {
        return Ok(extent);
    }
    Err(syn::Error::new(of.span(), "an extent of a work-group is a literal, and not zero"))
}
