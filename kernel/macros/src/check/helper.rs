//! Calls of helpers and methods: which function that is, what stands for its generic parameters, and what it is given.

use proc_macro2::{Ident, Span};
use syn::spanned::Spanned;

use super::Checker;
use crate::functions::{Source, last_name};
use crate::generic::Actual;
use crate::hir::{Arg, Base, Expr, Kind, Node, Piece, Place, VarKind, Whole, walk};
use crate::items::Param;
use crate::origin::LIBRARY;
use crate::structs::StructName;
use crate::ty::Ty;

/// How many functions a module may come to: generic ones that call each other with ever new types would never end.
pub(crate) const MOST_FUNCTIONS: usize = 1024;

pub(super) type Arguments = syn::AngleBracketedGenericArguments;

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
    pub(super) fn all(args: impl IntoIterator<Item = &'e syn::Expr>) -> impl Iterator<Item = Self> {
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

pub(super) fn arguments(segment: &syn::PathSegment) -> Option<&Arguments> {
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
    pub(super) fn owner_named(&self, path: &syn::Path) -> Option<StructName> {
        let (owner, structs, home) = (&path.segments.first()?.ident, self.around.structs, self.origin.home);
        if let Some((owner, _)) = self.bound.types.get(&owner.to_string()).and_then(|ty| structs.owner(ty)) {
            return Some(owner);
        }
        let aliased = structs.aliased(owner, home).and_then(last_name);
        structs.find(aliased.unwrap_or(owner), home)
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
        let Some(source) = self.around.functions.of_type(owner, name, self.around.structs) else {
            return self.error(
                span,
                format!("this struct has no function `{name}`; an `impl` in its `kernels` module has them"),
            );
        };
        let (owner, own) =
            (path.segments.first().and_then(arguments), path.segments.last().and_then(arguments));
        let given = Given::all(&call.args).collect();
        self.helper(Called { source, span, given, owner, own })
    }

    /// `value.method(…)` of a struct or an enum.
    pub(super) fn struct_method(
        &mut self,
        (of, owner): (StructName, Ident),
        receiver: Expr,
        call: &syn::ExprMethodCall,
    ) -> Expr {
        let (span, name, structs) = (call.method.span(), &call.method, self.around.structs);
        let Some(source) = self.around.functions.of_type(of, &name.to_string(), structs) else {
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
            let is_method = source.signature.receiver().is_some() || source.origin.home == LIBRARY;
            let less = usize::from(is_method);
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

    pub(super) fn finish_call(&mut self, at: usize, args: Vec<Option<Arg>>, result: Ty, span: Span) -> Expr {
        let args: Option<Vec<Arg>> = args.into_iter().collect();
        if let Some(args) = &args {
            self.borrowed(args);
        }
        match args {
            Some(args) => Expr::new(Kind::Call(at, args), result, span),
            None => Expr::new(Kind::Unit, Ty::Error, span),
        }
    }

    /// Rust lends a variable to one argument alone.
    fn borrowed(&mut self, args: &[Arg]) {
        let lent = args.iter().enumerate().filter_map(|(at, arg)| match arg {
            Arg::Ref(place) | Arg::Piece(Piece { of: Whole::Changed(place), .. }) => match place.base {
                Base::Var(var) => Some((at, var)),
                Base::Element(..) => None,
            },
            _ => None,
        });
        for (lender, var) in lent {
            for (at, arg) in args.iter().enumerate().filter(|(at, _)| *at != lender) {
                let mut used = None;
                match arg {
                    Arg::Value(value) | Arg::Piece(Piece { of: Whole::Array(value), .. }) => {
                        walk(value, &mut |node| {
                            if let Node::Expr(Expr { kind: Kind::Var(other), span, .. }) = node
                                && *other == var
                            {
                                used = Some(*span);
                            }
                        })
                    }
                    Arg::Ref(Place { base: Base::Var(other), .. })
                    | Arg::Piece(Piece {
                        of: Whole::Changed(Place { base: Base::Var(other), .. }), ..
                    }) if *other == var && at > lender => {
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

    pub(super) fn argument(&mut self, param: &Param, given: Given<'_>) -> Option<Arg> {
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
                    Some(receiver) if param.name == "self" && is_place(receiver) => self.place(receiver)?,
                    Some(_) if param.name == "self" => {
                        self.errors.at(span, "the method changes what it is called on, and this is kept nowhere; name it by `let mut`");
                        return None;
                    }
                    _ => {
                        self.errors
                            .at(span, format!("`{}` is changed by the helper; pass `&mut …`", param.name));
                        return None;
                    }
                };
                self.expect(&place.ty.clone(), &param.ty, span);
                Some(Arg::Ref(place))
            }
            VarKind::Slice(wanted) => self.memory_argument(param, wanted, given),
        }
    }
}

/// Whether something is kept where an expression says.
fn is_place(expr: &syn::Expr) -> bool {
    match expr {
        syn::Expr::Path(_) => true,
        syn::Expr::Field(field) => is_place(&field.base),
        syn::Expr::Index(index) => is_place(&index.expr),
        syn::Expr::Paren(inner) => is_place(&inner.expr),
        syn::Expr::Unary(syn::ExprUnary { op: syn::UnOp::Deref(_), expr, .. }) => is_place(expr),
        _ => false,
    }
}
