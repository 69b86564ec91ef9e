//! Calls of helpers and methods: which function that is, what stands for its generic parameters, and what it is given.

use proc_macro2::{Ident, Span};
use syn::spanned::Spanned;

use super::Checker;
use crate::functions::{Source, last_name};
use crate::generic::{Actual, Bound, Generic, asks_ahead};
use crate::hir::{Arg, Base, Expr, Kind, May, Node, Place, VarKind, walk};
use crate::items::{Param, vector_width};
use crate::ty::{Guess, Ty};

/// Numbers of functions from here on are of [`Open`] calls.
pub(super) const OPEN: usize = usize::MAX / 2;

/// How many functions a module may come to: generic ones that call each other with ever new types would never end.
pub(crate) const MOST_FUNCTIONS: usize = 1024;

/// A call of a generic helper, whose arguments are known when all types of the function are.
pub(super) struct Open {
    source: usize,
    bound: Bound,
    span: Span,
}

type Arguments = syn::AngleBracketedGenericArguments;

/// What a helper is called with.
pub(super) struct Called<'e> {
    pub(super) source: usize,
    pub(super) span: Span,
    pub(super) given: Vec<Given<'e>>,
    /// Behind the name of the type whose function it is.
    pub(super) owner: Option<&'e Arguments>,
    /// Behind its own name.
    pub(super) own: Option<&'e Arguments>,
}

/// An argument as it was written, or as a value, or both.
pub(super) struct Given<'e> {
    pub(super) written: Option<&'e syn::Expr>,
    pub(super) value: Option<Expr>,
}

impl<'e> Given<'e> {
    fn all(args: impl IntoIterator<Item = &'e syn::Expr>) -> impl Iterator<Item = Self> {
        args.into_iter().map(|arg| Given { written: Some(arg), value: None })
    }

    pub(super) fn value(value: Expr) -> Self {
        Given { written: None, value: Some(value) }
    }

    fn span(&self) -> Span {
        match (&self.written, &self.value) {
            (Some(written), _) => written.span(),
            (None, Some(value)) => value.span,
            (None, None) => Span::call_site(),
        }
    }
}

fn arguments(segment: &syn::PathSegment) -> Option<&Arguments> {
    match &segment.arguments {
        syn::PathArguments::AngleBracketed(arguments) => Some(arguments),
        _ => None,
    }
}

impl<'a> Checker<'a> {
    /// `helper(…)`.
    pub(super) fn called(
        &mut self,
        source: usize,
        span: Span,
        path: &syn::Path,
        call: &syn::ExprCall,
    ) -> Expr {
        let own = path.segments.last().and_then(arguments);
        let given = Given::all(&call.args).collect();
        self.helper(Called { source, span, given, owner: None, own })
    }

    /// The struct before the last name of a path.
    pub(super) fn owner_named(&self, path: &syn::Path) -> Option<Ident> {
        let owner = &path.segments.first()?.ident;
        if let Some(Ty::Struct(at)) = self.bound.types.get(&owner.to_string()) {
            return Some(self.around.structs.name(*at));
        }
        let structs = self.around.structs;
        let aliased = structs.aliased(owner).and_then(last_name);
        let owner = aliased.unwrap_or(owner);
        (structs.find(owner).is_some() || structs.find_template(owner).is_some()).then(|| owner.clone())
    }

    /// `Type::function(…)`.
    pub(super) fn associated(
        &mut self,
        name: &str,
        span: Span,
        path: &syn::Path,
        call: &syn::ExprCall,
    ) -> Expr {
        let Some(owner) = self.owner_named(path) else {
            return self.error(span, "there is no such type here");
        };
        let Some(source) = self.around.functions.of_type(&owner, name) else {
            return self.error(span, format!("`{owner}` has no function `{name}` in this `kernels` module"));
        };
        let (owner, own) =
            (path.segments.first().and_then(arguments), path.segments.last().and_then(arguments));
        let given = Given::all(&call.args).collect();
        self.helper(Called { source, span, given, owner, own })
    }

    /// `value.method(…)` of a struct.
    pub(super) fn struct_method(&mut self, at: usize, receiver: Expr, call: &syn::ExprMethodCall) -> Expr {
        let (span, owner, name) = (call.method.span(), self.around.structs.name(at), &call.method);
        let Some(source) = self.around.functions.of_type(&owner, &name.to_string()) else {
            return self.error(
                span,
                format!(
                    "`{owner}` has no method `{name}`; methods stand in an `impl` in its `kernels` module"
                ),
            );
        };
        let takes_self = self.around.functions.sources[source].signature.receiver().is_some();
        if !takes_self {
            return self.error(span, format!("this is no method: write `{owner}::{name}(…)`"));
        }
        let first = Given { written: Some(&call.receiver), value: Some(receiver) };
        let given = std::iter::once(first).chain(Given::all(&call.args)).collect();
        self.helper(Called { source, span, given, owner: None, own: call.turbofish.as_ref() })
    }

    /// Which function it is with these arguments.
    pub(super) fn instance(&mut self, source: usize, actuals: Vec<Actual>) -> usize {
        let around = self.around;
        let at = around.functions.instance(source, actuals, around.structs, self.errors);
        if at == MOST_FUNCTIONS {
            let name = &around.functions.sources[source].signature.ident;
            self.errors.at(name.span(), "generic helpers that call each other with ever new types never end");
        }
        at
    }

    pub(super) fn helper(&mut self, called: Called<'_>) -> Expr {
        let functions = self.around.functions;
        let source: &'a Source<'a> = &functions.sources[called.source];
        let (name, span) = (&source.signature.ident, called.span);
        if source.kernel {
            return self.error(span, format!("`{name}` is a kernel, and kernels are launched, not called; make what they share a helper"));
        }
        let (wanted, found) = (source.signature.inputs.len(), called.given.len());
        if wanted != found {
            // Nobody counts `self`.
            let less = usize::from(source.signature.receiver().is_some());
            let (wanted, found) = (wanted - less, found.saturating_sub(less));
            return self.error(span, format!("`{name}` takes {wanted} arguments, and gets {found}"));
        }
        if !source.generics.is_empty() {
            return self.generic(source, called);
        }
        if let Some(extra) = called.own.or(called.owner) {
            self.errors.at(extra.span(), format!("`{name}` is not generic"));
        }
        let at = self.instance(called.source, Vec::new());
        let Some(made) = functions.made(at) else { return self.error(span, "there is no such function") };
        let given = made.signature.params.iter().zip(called.given);
        let args: Vec<Option<Arg>> = given.map(|(param, given)| self.argument(param, given)).collect();
        self.finish_call(at, args, made.signature.result.clone(), span)
    }

    fn finish_call(&mut self, at: usize, args: Vec<Option<Arg>>, result: Ty, span: Span) -> Expr {
        let args: Option<Vec<Arg>> = args.into_iter().collect();
        if let Some(args) = &args {
            self.borrowed(args);
        }
        match args {
            Some(args) => Expr::new(Kind::Call(at, args), result, span),
            None => Expr::new(Kind::Unit, Ty::Error, span),
        }
    }

    /// A call of a generic helper: what stands for its parameters is found in the arguments, from the first one to the last. Types may
    /// still be open behind it, and lengths may not.
    fn generic(&mut self, source: &'a Source<'a>, called: Called<'_>) -> Expr {
        let Called { source: number, span, given, owner, own } = called;
        let mut bound = self.open_bound(&source.generics);
        let (outer, inner) = source.generics.split_at(source.outer);
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
                    self.with_types(&known, |types, errors| types.receiver(receiver, errors))
                }
                syn::FnArg::Typed(typed) => {
                    if asks_ahead(&typed.ty, &source.generics) {
                        self.look_ahead(&typed.ty, &mut given, &source.generics, &mut bound);
                    }
                    let known = self.known(source, &bound);
                    self.with_types(&known, |types, errors| types.param(typed, false, errors))
                }
            };
            args.push(param.and_then(|param| self.argument(&param, given)));
        }
        let known = self.known(source, &bound);
        let result = match &source.signature.output {
            syn::ReturnType::Default => Ty::Unit,
            syn::ReturnType::Type(_, ty) => self.with_types(&known, |types, errors| types.read(ty, errors)),
        };
        self.open.push(Open { source: number, bound, span });
        self.finish_call(OPEN + self.open.len() - 1, args, result, span)
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
                let inner = match written {
                    syn::Expr::Reference(reference) => &*reference.expr,
                    other => other,
                };
                match self.slice(inner) {
                    Some(var) => Some(self.vars[var].ty.clone()),
                    None if reference.mutability.is_some() => self.place(inner).map(|place| place.ty),
                    None => Some(self.value_of(given, inner)),
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
            (syn::Type::Array(array), Ty::Array(of, len)) => {
                if let syn::Expr::Path(path) = &array.len
                    && let Some(name) = path.path.get_ident()
                    && generics.iter().any(|generic| generic.name() == name)
                {
                    bound.lengths.entry(name.to_string()).or_insert(*len);
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
                    Ty::Struct(at) => self.fit_struct(last, written, *at, generics, bound),
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
                    if let Some(name) = path.path.get_ident()
                        && generics.iter().any(|generic| generic.name() == name)
                    {
                        bound.lengths.entry(name.to_string()).or_insert(len);
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
        let mut whole = known.clone();
        for ty in whole.types.values_mut() {
            let Some(resolved) = self.infer.resolve(ty) else { return known };
            *ty = resolved;
        }
        let lengths = source.generics.iter().take(source.outer).all(|generic| match generic {
            Generic::Length(name, _) => whole.lengths.contains_key(&name.to_string()),
            Generic::Type(_) => true,
        });
        if lengths {
            let own = self.with_types(&whole, |types, errors| types.read(owner, errors));
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

    /// Rust lends a variable to one argument alone.
    fn borrowed(&mut self, args: &[Arg]) {
        let lent = args.iter().enumerate().filter_map(|(at, arg)| match arg {
            Arg::Ref(place) => match place.base {
                Base::Var(var) => Some((at, var)),
                Base::Element(..) => None,
            },
            _ => None,
        });
        for (lender, var) in lent {
            for (at, arg) in args.iter().enumerate().filter(|(at, _)| *at != lender) {
                let mut used = None;
                match arg {
                    Arg::Value(value) => walk(value, &mut |node| {
                        if let Node::Expr(Expr { kind: Kind::Var(other), span, .. }) = node
                            && *other == var
                        {
                            used = Some(*span);
                        }
                    }),
                    Arg::Ref(Place { base: Base::Var(other), .. }) if *other == var && at > lender => {
                        used = Some(self.vars[var].name.span());
                    }
                    _ => {}
                }
                if let Some(span) = used {
                    let name = self.vars[var].name.to_string();
                    self.errors.at(span, format!("`{name}` is lent to the helper by `&mut`; keep this in a variable before the call"));
                }
            }
        }
    }

    fn argument(&mut self, param: &Param, given: Given<'_>) -> Option<Arg> {
        let span = given.span();
        match &param.kind {
            VarKind::Value => {
                let value = match (given.value, given.written) {
                    (Some(value), _) => {
                        self.expect(&value.ty.clone(), &param.ty, value.span);
                        value
                    }
                    // `&x` for a helper's `&T`, which is the value.
                    (None, Some(syn::Expr::Reference(reference))) if reference.mutability.is_none() => {
                        self.expr_to(&reference.expr, &param.ty)
                    }
                    (None, Some(written)) => self.expr_to(written, &param.ty),
                    (None, None) => return None,
                };
                Some(Arg::Value(value))
            }
            VarKind::Ref => {
                let place = match given.written {
                    Some(syn::Expr::Reference(reference)) if reference.mutability.is_some() => {
                        self.place(&reference.expr)?
                    }
                    // A helper's own `&mut T`, handed on.
                    Some(path @ syn::Expr::Path(_)) => self.place(path)?,
                    // Whose method it is.
                    Some(receiver) if param.name == "self" => self.place(receiver)?,
                    _ => {
                        self.errors
                            .at(span, format!("`{}` is changed by the helper; pass `&mut …`", param.name));
                        return None;
                    }
                };
                self.expect(&place.ty.clone(), &param.ty, span);
                Some(Arg::Ref(place))
            }
            VarKind::Slice(wanted) => {
                let inner = match given.written? {
                    syn::Expr::Reference(reference) => &*reference.expr,
                    other => other,
                };
                let Some(var) = self.slice(inner) else {
                    self.errors.at(span, "this parameter takes a slice that the kernel was given; arrays are passed as `&[T; N]`");
                    return None;
                };
                let VarKind::Slice(found) = &self.vars[var].kind else { return None };
                let name = self.vars[var].name.to_string();
                let fits = match (wanted.may, found.may) {
                    (May::Read, May::Read | May::Write) | (May::Write, May::Write) => true,
                    (a, b) => a == b,
                };
                if !fits {
                    self.errors.at(span, format!("`{name}` does not allow what the helper does with it; see whether it is `&`, `&mut` or atomic"));
                }
                if wanted.dims != found.dims {
                    self.errors.at(
                        span,
                        format!("`{name}` has {} dimensions, and {} are wanted", found.dims, wanted.dims),
                    );
                }
                let ty = self.vars[var].ty.clone();
                self.expect(&ty, &param.ty, span);
                Some(Arg::Slice(var))
            }
        }
    }
}
