//! Functions of a `kernels` module as they were written, and what becomes of generic ones.

use std::cell::RefCell;
use std::rc::Rc;

use proc_macro2::Ident;
use syn::spanned::Spanned;

use crate::errors::Errors;
use crate::generic::{Actual, Bound, Generic};
use crate::items::Signature;
use crate::origin::{Origin, meant};
use crate::structs::{StructName, Structs};
use crate::types::Types;

/// A function as it was written.
#[derive(Debug)]
pub(crate) struct Source<'a> {
    pub(crate) signature: &'a syn::Signature,
    pub(crate) body: &'a syn::Block,
    /// Whether it can be launched.
    pub(crate) kernel: bool,
    /// The type whose method it is, or with whom it goes.
    pub(crate) owner: Option<&'a syn::Type>,
    /// The operator's trait that it stands for.
    pub(crate) operator: Option<Ident>,
    /// Those of its `impl`, then its own.
    pub(crate) generics: Vec<Generic>,
    /// How many of these are the `impl`'s.
    pub(crate) outer: usize,
    pub(crate) origin: Origin,
}

impl<'a> Source<'a> {
    pub(crate) fn function(item: &'a syn::ItemFn, kernel: bool, origin: Origin, errors: &mut Errors) -> Self {
        let mut generics = crate::generic::read(&item.sig.generics, errors);
        if let Some(generic) = generics.first().filter(|_| kernel) {
            errors.at(
                generic.name().span(),
                "kernels are not generic; write one for each type, with a generic helper for what they share",
            );
            generics.clear();
        }
        let (owner, operator, outer) = (None, None, 0);
        Source { signature: &item.sig, body: &item.block, kernel, owner, operator, generics, outer, origin }
    }

    /// The struct whose function it is.
    fn owner_in(&self, structs: &Structs<'_>) -> Option<StructName> {
        structs.find(last_name(self.owner?)?, self.origin.home)
    }

    /// The functions of an `impl`.
    pub(crate) fn methods(item: &'a syn::ItemImpl, origin: Origin, errors: &mut Errors) -> Vec<Self> {
        let operator = match &item.trait_ {
            None => None,
            Some((None, path, _)) => {
                let name = path.segments.last().map(|segment| segment.ident.clone());
                let known = |name: &Ident| OPERATORS.iter().any(|operator| name == operator);
                let Some(name) = name.filter(known) else {
                    errors.at(
                        path.span(),
                        "kernels know the traits of operators: `Add`, `Mul`, `Neg` and the like",
                    );
                    return Vec::new();
                };
                Some(name)
            }
            Some((Some(not), path, _)) => {
                errors.at(not.span(), format!("nothing is known of what is no `{}`", quote::quote!(#path)));
                return Vec::new();
            }
        };
        let outer = crate::generic::read(&item.generics, errors);
        let mut methods = Vec::new();
        for part in &item.items {
            match part {
                syn::ImplItem::Fn(part) => {
                    let mut generics = outer.clone();
                    generics.extend(crate::generic::read(&part.sig.generics, errors));
                    methods.push(Source {
                        signature: &part.sig,
                        body: &part.block,
                        kernel: false,
                        owner: Some(&*item.self_ty),
                        operator: operator.clone(),
                        generics,
                        outer: outer.len(),
                        origin,
                    });
                }
                // `Output`, which the function's own result says.
                syn::ImplItem::Type(_) if operator.is_some() => {}
                other => {
                    errors.at(other.span(), "an `impl` for kernels has functions; constants stand beside it")
                }
            }
        }
        methods
    }
}

const OPERATORS: [&str; 22] = [
    "Add",
    "Sub",
    "Mul",
    "Div",
    "Rem",
    "BitAnd",
    "BitOr",
    "BitXor",
    "Shl",
    "Shr",
    "Neg",
    "Not",
    "AddAssign",
    "SubAssign",
    "MulAssign",
    "DivAssign",
    "RemAssign",
    "BitAndAssign",
    "BitOrAssign",
    "BitXorAssign",
    "ShlAssign",
    "ShrAssign",
];

/// A function that is checked and written: of a generic one, one for each set of arguments that it is called with.
#[derive(Debug)]
pub(crate) struct Instance {
    pub(crate) source: usize,
    pub(crate) bound: Bound,
    pub(crate) signature: Rc<Signature>,
    actuals: Vec<Actual>,
}

/// All functions.
#[derive(Debug)]
pub(crate) struct Functions<'a> {
    pub(crate) sources: Vec<Source<'a>>,
    made: RefCell<Vec<Rc<Instance>>>,
}

impl<'a> Functions<'a> {
    pub(crate) fn new(sources: Vec<Source<'a>>) -> Self {
        Functions { sources, made: RefCell::default() }
    }

    /// The function of this name in a module, of those that belong to no type.
    pub(crate) fn find(&self, name: &str, from: usize) -> Option<usize> {
        let named = self.sources.iter().enumerate();
        let named = named.filter(|(_, source)| source.owner.is_none() && source.signature.ident == name);
        meant(named.map(|(at, source)| (at, source.origin)), from)
    }

    /// The function of this name in an `impl` of a struct.
    pub(crate) fn of_type(&self, owner: StructName, name: &str, structs: &Structs<'_>) -> Option<usize> {
        self.sources.iter().position(|source| {
            source.operator.is_none()
                && source.signature.ident == name
                && source.owner_in(structs).is_some_and(|of| of == owner)
        })
    }

    /// Which number a function has with these arguments.
    pub(crate) fn instance(
        &self,
        source: usize,
        actuals: Vec<Actual>,
        structs: &Structs<'_>,
        errors: &mut Errors,
    ) -> usize {
        let same = |made: &Rc<Instance>| made.source == source && made.actuals == actuals;
        if let Some(at) = self.made.borrow().iter().position(same) {
            return at;
        }
        let of = &self.sources[source];
        let home = of.origin.home;
        let length = |name: &Ident| structs.length(name, home);
        let mut bound = Bound::of(&of.generics, &actuals);
        if let Some(owner) = of.owner {
            let own =
                Types { structs, length: &length, bound: &bound, sizes: true, home }.read(owner, errors);
            bound.types.insert("Self".into(), own);
        }
        let types = Types { structs, length: &length, bound: &bound, sizes: !of.kernel, home };
        let signature = Rc::new(types.signature(of.signature, of.kernel, errors));
        self.made.borrow_mut().push(Rc::new(Instance { source, bound, signature, actuals }));
        self.made.borrow().len() - 1
    }

    pub(crate) fn made(&self, at: usize) -> Option<Rc<Instance>> {
        self.made.borrow().get(at).cloned()
    }
}

/// The last name of a type's path.
pub(crate) fn last_name(ty: &syn::Type) -> Option<&Ident> {
    match ty {
        syn::Type::Path(path) => path.path.segments.last().map(|segment| &segment.ident),
        syn::Type::Paren(inner) => last_name(&inner.elem),
        syn::Type::Group(inner) => last_name(&inner.elem),
        _ => None,
    }
}
