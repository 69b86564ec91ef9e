//! Calls of generic helpers: what stands for their parameters.

use std::collections::HashMap;

use proc_macro2::Span;

use super::Checker;
use super::helper::{Arguments, Called, Given, arguments};
use super::lent::lent;
use crate::functions::Source;
use crate::generic::{Actual, Bound, Generic, asks_ahead, length_named};
use crate::hir::Expr;
use crate::ty::{Guess, Ty};
use crate::types::vector_width;
use syn::spanned::Spanned;

/// Numbers of functions from here on are of [`Open`] calls.
pub(super) const OPEN: usize = usize::MAX / 2;

/// A call of a generic helper, whose arguments are known when all types of the function are.
pub(super) struct Open {
    source: usize,
    bound: Bound,
    span: Span,
}

impl<'a> Checker<'a> {
    /// A call of a generic helper: what stands for its parameters is found in the arguments, from the first one to the last. Types may
    /// still be open behind it, and lengths may not.
    pub(super) fn generic(&mut self, source: &'a Source<'a>, called: Called<'_>) -> Expr {
        let Called { source: number, span, given, owner, own } = called;
        let mut bound = self.open_bound(&source.generics);
        let (outer, inner) = source.generics.split_at(source.outer);
        let home = source.origin.home;
        for (generics, written) in [(outer, owner), (inner, own)] {
            if let Some(written) = written {
                self.turbofish(generics, written, &mut bound);
            }
        }
        let mut args = Vec::new();
        for (input, mut given) in source.signature.inputs.iter().zip(given) {
            let param = match input {
                syn::FnArg::Receiver(receiver) => {
                    if let (Some(owner), Some(value)) = (source.owner, &given.value) {
                        self.fit(owner, &value.ty.clone(), &source.generics, &mut bound);
                    }
                    let known = self.known(source, &bound);
                    self.with_types_of(home, &known, |types, errors| types.receiver(receiver, errors))
                }
                syn::FnArg::Typed(typed) => {
                    if asks_ahead(&typed.ty, &source.generics) {
                        self.look_ahead(&typed.ty, &mut given, &source.generics, &mut bound);
                    }
                    let known = self.known(source, &bound);
                    self.with_types_of(home, &known, |types, errors| types.param(typed, false, errors))
                }
            };
            args.push(param.and_then(|param| self.argument(&param, given)));
        }
        if let syn::ReturnType::Type(_, ty) = &source.signature.output
            && asks_ahead(ty, &source.generics)
        {
            self.take_guesses(&bound);
        }
        let known = self.known(source, &bound);
        let result = match &source.signature.output {
            syn::ReturnType::Default => Ty::Unit,
            syn::ReturnType::Type(_, ty) => {
                self.with_types_of(home, &known, |types, errors| types.read(ty, errors))
            }
        };
        self.open.push(Open { source: number, bound, span });
        self.finish_call(OPEN + self.open.len() - 1, args, result, span)
    }

    /// Literals that nothing was asked of are what they are without.
    pub(super) fn take_guesses(&mut self, bound: &Bound) {
        for ty in bound.types.values() {
            if let Some(resolved) = self.infer.resolve(ty) {
                self.infer.unify(ty, &resolved);
            }
        }
    }

    /// What stands for generic parameters before anything is known.
    pub(super) fn open_bound(&mut self, generics: &[Generic]) -> Bound {
        let mut bound = Bound::default();
        for generic in generics {
            if let Generic::Type(name) = generic {
                bound.types.insert(name.to_string(), self.infer.fresh(Guess::Any));
            }
        }
        bound
    }

    /// `::<…>`.
    fn turbofish(&mut self, generics: &[Generic], written: &Arguments, bound: &mut Bound) {
        if written.args.len() != generics.len() {
            let (wanted, found) = (generics.len(), written.args.len());
            return self
                .errors
                .at(written.span(), format!("{wanted} generic arguments are wanted, and not {found}"));
        }
        for (generic, argument) in generics.iter().zip(&written.args) {
            if matches!(argument, syn::GenericArgument::Type(syn::Type::Infer(_))) {
                continue;
            }
            let own = std::mem::take(&mut self.bound);
            let actual = self.with_types(&own, |types, errors| types.actual(generic, argument, errors));
            self.bound = own;
            let name = generic.name().to_string();
            match actual {
                Some(Actual::Type(ty)) => drop(bound.types.insert(name, ty)),
                Some(Actual::Length(len)) => drop(bound.lengths.insert(name, len)),
                None => drop(bound.types.insert(name, Ty::Error)),
            }
        }
    }

    /// What an argument says of a parameter's generic names, where these have to be known before the parameter's type is.
    fn look_ahead(&mut self, ty: &syn::Type, given: &mut Given<'_>, generics: &[Generic], bound: &mut Bound) {
        let found = match (ty, given.written) {
            (syn::Type::Reference(reference), Some(written)) => {
                let (inner, _) = lent(written);
                let found = match self.slice(inner) {
                    Some(var) => Some(self.vars[var].ty.clone()),
                    None if reference.mutability.is_some() => self.place(inner).map(|place| place.ty),
                    None => Some(self.value_of(given, inner)),
                };
                match (&*reference.elem, found.map(|found| self.infer.shallow(&found))) {
                    // An array in the place of memory.
                    (syn::Type::Slice(_), Some(Ty::Array(element, _))) => Some(*element),
                    (_, found) => found,
                }
            }
            (_, Some(written)) => Some(self.value_of(given, written)),
            (_, None) => given.value.as_ref().map(|value| value.ty.clone()),
        };
        if let Some(found) = found {
            self.fit(ty, &found, generics, bound);
        }
    }

    /// An argument's type, for which it is made a value.
    fn value_of(&mut self, given: &mut Given<'_>, written: &syn::Expr) -> Ty {
        let value = match given.value.take() {
            Some(value) => value,
            None => self.expr(written),
        };
        let ty = value.ty.clone();
        given.value = Some(value);
        ty
    }

    /// Finds out what the generic names in a written type stand for where this type is found. What does not fit is said later, when the
    /// whole type is compared.
    pub(super) fn fit(&mut self, written: &syn::Type, found: &Ty, generics: &[Generic], bound: &mut Bound) {
        let found = self.infer.shallow(found);
        match (written, &found) {
            (syn::Type::Reference(inner), _) => self.fit(&inner.elem, &found, generics, bound),
            (syn::Type::Paren(inner), _) => self.fit(&inner.elem, &found, generics, bound),
            (syn::Type::Group(inner), _) => self.fit(&inner.elem, &found, generics, bound),
            // Of a slice the element's type is known.
            (syn::Type::Slice(inner), _) => self.fit(&inner.elem, &found, generics, bound),
            (syn::Type::Tuple(tuple), Ty::Tuple(types)) => {
                for (written, found) in tuple.elems.iter().zip(types) {
                    self.fit(written, found, generics, bound);
                }
            }
            (syn::Type::Array(array), Ty::Array(of, len)) => {
                if let syn::Expr::Path(path) = &array.len
                    && let Some(name) = length_named(&path.path, generics)
                {
                    bound.lengths.entry(name).or_insert(*len);
                }
                self.fit(&array.elem, of, generics, bound);
            }
            (syn::Type::Path(path), _) => {
                let Some(last) = path.path.segments.last() else { return };
                let name = last.ident.to_string();
                if let Some(ty) = bound.types.get(&name).cloned() {
                    // Two arguments that differ here are an error of the second one, when it is compared.
                    self.infer.unify(&ty, &found);
                    return;
                }
                let Some(written) = arguments(last) else { return };
                match &found {
                    Ty::Vector(_, of) if vector_width(&name).is_some() => {
                        if let Some(syn::GenericArgument::Type(written)) = written.args.first() {
                            self.fit(written, of, generics, bound);
                        }
                    }
                    Ty::Option(of) if name == "Option" => {
                        if let Some(syn::GenericArgument::Type(written)) = written.args.first() {
                            self.fit(written, of, generics, bound);
                        }
                    }
                    Ty::Struct(at) => match (self.pointee(&found), written.args.first()) {
                        (Some(to), Some(syn::GenericArgument::Type(written))) if name == "Ptr" => {
                            self.fit(written, &to, generics, bound);
                        }
                        _ => self.fit_struct(last, written, *at, generics, bound),
                    },
                    _ => {}
                }
            }
            _ => {}
        }
    }

    fn fit_struct(
        &mut self,
        segment: &syn::PathSegment,
        written: &Arguments,
        at: usize,
        generics: &[Generic],
        bound: &mut Bound,
    ) {
        let structs = self.around.structs;
        let Some((template, actuals)) = structs.origin(at) else { return };
        if *structs.name_of_template(template) != segment.ident {
            return;
        }
        for (written, actual) in written.args.iter().zip(actuals) {
            match (written, actual) {
                (syn::GenericArgument::Type(written), Actual::Type(ty)) => {
                    self.fit(written, &ty, generics, bound);
                }
                (syn::GenericArgument::Type(syn::Type::Path(path)), Actual::Length(len)) => {
                    if let Some(name) = length_named(&path.path, generics) {
                        bound.lengths.entry(name).or_insert(len);
                    }
                }
                _ => {}
            }
        }
    }

    /// What is known by now, and what `Self` is by that. A literal that nothing was asked of is what it is without.
    fn known(&mut self, source: &Source<'_>, bound: &Bound) -> Bound {
        let mut known = bound.clone();
        for ty in known.types.values_mut() {
            *ty = self.infer.shallow(ty);
        }
        let Some(owner) = source.owner else { return known };
        // Its own names are enough: others may be found in the arguments behind.
        let named = |name: &str| names(owner, name);
        let mut whole = Bound { types: HashMap::new(), lengths: known.lengths.clone() };
        for (name, ty) in known.types.iter().filter(|(name, _)| named(name)) {
            let Some(resolved) = self.infer.resolve(ty) else { return known };
            whole.types.insert(name.clone(), resolved);
        }
        let lengths = source.generics.iter().take(source.outer).all(|generic| match generic {
            Generic::Length(name, _) => {
                !named(&name.to_string()) || whole.lengths.contains_key(&name.to_string())
            }
            Generic::Type(_) => true,
        });
        if lengths {
            let own =
                self.with_types_of(source.origin.home, &whole, |types, errors| types.read(owner, errors));
            known.types.insert("Self".into(), own);
        }
        known
    }

    /// What stands for each generic parameter in the end.
    pub(super) fn actuals(&mut self, generics: &[Generic], bound: &Bound, span: Span) -> Option<Vec<Actual>> {
        let mut actuals = Vec::new();
        for generic in generics {
            let name = generic.name().to_string();
            let found = match generic {
                Generic::Type(_) => {
                    bound.types.get(&name).and_then(|ty| self.infer.resolve(ty)).map(Actual::Type)
                }
                Generic::Length(..) => bound.lengths.get(&name).map(|len| Actual::Length(*len)),
            };
            match found {
                Some(Actual::Type(Ty::Error | Ty::Never)) => return None,
                Some(found) => actuals.push(found),
                None => {
                    self.errors.at(span, format!("nothing says what `{name}` is here; write it: `::<…>`"));
                    return None;
                }
            }
        }
        Some(actuals)
    }

    /// The numbers of the functions that open calls are of, now that all types are known.
    pub(super) fn settle_calls(&mut self) -> Vec<usize> {
        let open = std::mem::take(&mut self.open);
        let settle = |open: Open| {
            let generics = &self.around.functions.sources[open.source].generics;
            let actuals = self.actuals(generics, &open.bound, open.span);
            // Nobody looks at the number after an error.
            actuals.map_or(0, |actuals| self.instance(open.source, actuals))
        };
        open.into_iter().map(settle).collect()
    }
}

/// Whether a type names something.
fn names(ty: &syn::Type, name: &str) -> bool {
    fn among(tokens: proc_macro2::TokenStream, name: &str) -> bool {
        tokens.into_iter().any(|token| match token {
            proc_macro2::TokenTree::Ident(ident) => ident == name,
            proc_macro2::TokenTree::Group(group) => among(group.stream(), name),
            _ => false,
        })
    }
    among(quote::ToTokens::to_token_stream(ty), name)
}
