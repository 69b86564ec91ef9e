//! Signatures, structs and constants: what stands around the bodies.

use proc_macro2::{Ident, Span};
use syn::spanned::Spanned;

use crate::apart::{Apart, MOST_PARTS};
use crate::errors::Errors;
use crate::hir::{May, Slice, Space, VarKind};
use crate::ty::{Scalar, Ty};
use crate::types::Types;

/// A function's outside.
#[derive(Debug)]
pub(crate) struct Signature {
    pub(crate) name: Ident,
    pub(crate) params: Vec<Param>,
    pub(crate) result: Ty,
    /// Whether its author promises, by `unsafe`, that no two work-items meet at an element that one of them writes.
    pub(crate) alone: bool,
}

#[derive(Debug)]
pub(crate) struct Param {
    pub(crate) name: Ident,
    /// The value's type, or the elements'.
    pub(crate) ty: Ty,
    pub(crate) mutable: bool,
    pub(crate) kind: VarKind,
    pub(crate) role: Role,
    /// A kernel's value that crosses in parts.
    pub(crate) apart: Option<Apart>,
    /// The type as it was written, for errors of the compiler that speak about it.
    pub(crate) span: Span,
}

/// What an attribute makes of a parameter.
#[derive(Debug)]
pub(crate) enum Role {
    Plain,
    /// A value that the kernel is built with.
    Spec,
    /// All items' values, combined.
    Reduce(Operator),
}

/// How two values become one.
#[derive(Debug)]
pub(crate) struct Operator {
    /// `sum`, `min`, `max`, or a helper.
    pub(crate) name: Ident,
    /// What changes nothing; the known operators have their own.
    pub(crate) identity: Option<syn::Expr>,
}

impl Types<'_, '_> {
    pub(crate) fn signature(&self, item: &syn::Signature, kernel: bool, errors: &mut Errors) -> Signature {
        refuse_decorations(item, kernel, errors);
        let mut params = Vec::new();
        for input in &item.inputs {
            match input {
                syn::FnArg::Receiver(receiver) => params.extend(self.receiver(receiver, errors)),
                syn::FnArg::Typed(typed) => params.extend(self.param(typed, kernel, errors)),
            }
        }
        let result = match &item.output {
            syn::ReturnType::Default => Ty::Unit,
            syn::ReturnType::Type(_, ty) if kernel => {
                errors.at(ty.span(), "a kernel returns nothing; write its results to a `&mut [T]`");
                Ty::Unit
            }
            syn::ReturnType::Type(_, ty) => self.read(ty, errors),
        };
        Signature { name: item.ident.clone(), params, result, alone: item.unsafety.is_some() }
    }

    /// `self`, by value or by a reference.
    pub(crate) fn receiver(&self, receiver: &syn::Receiver, errors: &mut Errors) -> Option<Param> {
        let span = receiver.self_token.span;
        let Some(ty) = self.bound.types.get("Self").cloned() else {
            errors
                .at(span, "a function with `self` stands in the `impl` of a struct of this `kernels` module");
            return None;
        };
        if let Some(colon) = &receiver.colon_token {
            errors.at(colon.span(), "a method takes `self`, `&self` or `&mut self`");
        }
        let (by_reference, mutable) = (receiver.reference.is_some(), receiver.mutability.is_some());
        let kind = if by_reference && mutable { VarKind::Ref } else { VarKind::Value };
        let name = Ident::new("self", span);
        let role = Role::Plain;
        Some(Param { name, ty, mutable: mutable && !by_reference, kind, role, apart: None, span })
    }

    pub(crate) fn param(&self, typed: &syn::PatType, kernel: bool, errors: &mut Errors) -> Option<Param> {
        let syn::Pat::Ident(pattern) = &*typed.pat else {
            errors.at(typed.pat.span(), "a parameter has a plain name; take it apart in the body");
            return None;
        };
        if pattern.by_ref.is_some() || pattern.subpat.is_some() {
            errors.at(pattern.span(), "a parameter has a plain name");
        }
        let local = typed.attrs.iter().find(|attr| attr.path().is_ident("local"));
        let role = role(&typed.attrs, kernel, errors);
        let (ty, kind) = match &*typed.ty {
            syn::Type::Reference(reference) if matches!(role, Role::Reduce(_)) => {
                let ty = self.read(&reference.elem, errors);
                let atomic = |s: Scalar| s.bits() >= 32;
                let fits = ty == Ty::Error || ty.scalar().is_some_and(atomic);
                if reference.mutability.is_none() || !fits {
                    errors.at(typed.ty.span(), REDUCED);
                }
                (ty, VarKind::Ref)
            }
            ty if matches!(role, Role::Reduce(_)) => {
                errors.at(ty.span(), REDUCED);
                (Ty::Error, VarKind::Value)
            }
            syn::Type::Reference(reference) => self.reference(reference, kernel, local.is_some(), errors),
            ty => {
                if let Some(local) = local {
                    errors.at(
                        local.span(),
                        "local memory is a reference: `&mut [f32; 64]`, or `&mut [f32]` sized at launch",
                    );
                }
                let read = self.read(ty, errors);
                (read, VarKind::Value)
            }
        };
        if matches!(role, Role::Spec) {
            let fits = match &ty {
                Ty::Scalar(s) => matches!(s, Scalar::Bool | Scalar::F32) || (s.is_int() && s.bits() == 32),
                ty => *ty == Ty::Error,
            };
            if !fits || kind != VarKind::Value {
                errors.at(
                    typed.ty.span(),
                    "what a kernel is built with is a `u32`, an `i32`, an `f32` or a `bool`",
                );
            }
        }
        let known = ["local", "spec", "reduce"];
        for attr in typed.attrs.iter().filter(|attr| !known.iter().any(|name| attr.path().is_ident(name))) {
            errors.at(
                attr.span(),
                "a kernel's parameter knows the attributes `#[local]`, `#[spec]` and `#[reduce(…)]`",
            );
        }
        let apart = match kernel && kind == VarKind::Value {
            true => self.apart(&pattern.ident, &ty, &typed.ty, errors),
            false => None,
        };
        Some(Param {
            name: pattern.ident.clone(),
            apart,
            ty,
            mutable: pattern.mutability.is_some(),
            kind,
            role,
            span: typed.ty.span(),
        })
    }

    /// The parts of a kernel's value, if it has no form by which it could cross as a whole.
    fn apart(&self, name: &Ident, ty: &Ty, written: &syn::Type, errors: &mut Errors) -> Option<Apart> {
        self.structs.formless(ty)?;
        let count = crate::apart::count(ty, self.structs);
        if count > MOST_PARTS {
            let message = format!(
                "a launch would pass this in {count} parts, and passes {MOST_PARTS} at most; put it into a buffer"
            );
            errors.at(written.span(), message);
            return None;
        }
        let parts = crate::apart::parts(ty, quote::quote!(#name), self.structs);
        Some(Apart { written: written.clone(), parts })
    }

    /// A parameter behind a reference.
    fn reference(
        &self,
        reference: &syn::TypeReference,
        kernel: bool,
        local: bool,
        errors: &mut Errors,
    ) -> (Ty, VarKind) {
        let write = reference.mutability.is_some();
        if let Some(lifetime) = &reference.lifetime {
            errors.at(lifetime.span(), "kernels need no lifetimes; leave it away");
        }
        let may = if write { May::Write } else { May::Read };
        let space = Space::Global;
        let slice = |ty, dims, may, space| (ty, VarKind::Slice(Slice { dims, may, space, is_image: false }));
        match &*reference.elem {
            syn::Type::Slice(of) => {
                if let Some(scalar) = atomic(&of.elem) {
                    if write {
                        errors.at(reference.span(), "atomics are shared: take `&[AtomicU32]`");
                    }
                    let space = if local { Space::Local(None) } else { space };
                    return slice(Ty::Scalar(scalar), 1, May::Atomic, space);
                }
                let ty = self.element(&of.elem, errors);
                let space = if local { Space::Local(None) } else { space };
                slice(ty, 1, may, space)
            }
            syn::Type::Array(of) if local => {
                let len = self.array_length(&of.len);
                if len.is_none() {
                    errors.at(of.len.span(), "the length is an integer literal or a constant, and not zero");
                }
                let (ty, may) = match atomic(&of.elem) {
                    Some(scalar) => (Ty::Scalar(scalar), May::Atomic),
                    None => (self.read(&of.elem, errors), may),
                };
                slice(ty, 1, may, Space::Local(len))
            }
            syn::Type::Path(path) if path.path.segments.last().is_some_and(|s| s.ident == "View") => {
                let (ty, dims) = self.view(path, None, errors);
                slice(ty, dims, may, space)
            }
            syn::Type::Path(path) if path.path.segments.last().is_some_and(|s| self.is_image(&s.ident)) => {
                let (ty, dims) = self.view(path, Some(2), errors);
                if ty != Ty::Error && !matches!(ty, Ty::Var(_)) && self.structs.texel(&ty).is_none() {
                    errors.at(path.span(), IMAGE);
                    return (Ty::Error, VarKind::Value);
                }
                (ty, VarKind::Slice(Slice { dims, may, space, is_image: true }))
            }
            other if kernel => {
                errors.at(
                    other.span(),
                    "a kernel takes `&[T]`, `&mut [T]`, `&View<T, 2>` or values; pass this by value",
                );
                (Ty::Error, VarKind::Value)
            }
            other => {
                let ty = self.read(other, errors);
                (ty, if write { VarKind::Ref } else { VarKind::Value })
            }
        }
    }

    /// Whether a name means the language's images, and not a struct of the module's.
    fn is_image(&self, name: &Ident) -> bool {
        name == "Image" && self.structs.find(name, self.home).is_none()
    }

    /// The type of elements in memory, which is one of those that every device lays out alike.
    fn element(&self, ty: &syn::Type, errors: &mut Errors) -> Ty {
        let read = self.read(ty, errors);
        if read == Ty::Scalar(Scalar::Bool) {
            errors.at(ty.span(), "`bool` has no fixed form in memory; use `u32`, zero or not");
            return Ty::Error;
        }
        if let Some(message) = self.structs.formless(&read) {
            errors.at(ty.span(), message);
            return Ty::Error;
        }
        read
    }

    fn view(&self, path: &syn::TypePath, dims: Option<u8>, errors: &mut Errors) -> (Ty, u8) {
        let mut found = (None, dims);
        if let Some(segment) = path.path.segments.last()
            && let syn::PathArguments::AngleBracketed(arguments) = &segment.arguments
        {
            for argument in &arguments.args {
                match argument {
                    syn::GenericArgument::Type(ty) => found.0 = Some(self.element(ty, errors)),
                    syn::GenericArgument::Const(syn::Expr::Lit(syn::ExprLit {
                        lit: syn::Lit::Int(int),
                        ..
                    })) => {
                        found.1 = int.base10_parse::<u8>().ok();
                    }
                    _ => {}
                }
            }
        }
        match found {
            (Some(ty), Some(dims @ 1..=3)) => (ty, dims),
            _ => {
                let message = match dims {
                    None => "a view says its elements and its dimensions: `View<f32, 2>`",
                    Some(_) => IMAGE,
                };
                errors.at(path.span(), message);
                (Ty::Error, 2)
            }
        }
    }
}

const IMAGE: &str = "an image says its texels, `Image<Rgba8Unorm>`, and its dimensions where it has not two: `Image<R32Float, 3>`";

const REDUCED: &str = "what is reduced is a `&mut u32` or another number of 32 or 64 bits, or a vector of them, in which each work-item has a \
                       value of its own";

/// What the attributes make of a parameter.
fn role(attrs: &[syn::Attribute], kernel: bool, errors: &mut Errors) -> Role {
    let mut role = Role::Plain;
    for attr in attrs {
        let (spec, reduce) = (attr.path().is_ident("spec"), attr.path().is_ident("reduce"));
        if (spec || reduce) && !kernel {
            errors.at(attr.span(), "parameters of kernels have this, and a helper takes the value");
        } else if spec {
            role = Role::Spec;
        } else if reduce {
            role = operator(attr, errors).map_or(Role::Plain, Role::Reduce);
        }
    }
    role
}

/// `sum`, `min`, `max`, or `helper, identity = value`.
fn operator(attr: &syn::Attribute, errors: &mut Errors) -> Option<Operator> {
    let (mut name, mut identity) = (None, None);
    let read = attr.parse_nested_meta(|meta| {
        if meta.path.is_ident("identity") {
            identity = Some(meta.value()?.parse()?);
        } else {
            name = Some(meta.path.require_ident()?.clone());
        }
        Ok(())
    });
    let known = |name: &Ident| ["sum", "min", "max"].iter().any(|known| name == known);
    match (read, name) {
        (Ok(()), Some(name)) if known(&name) == identity.is_none() => Some(Operator { name, identity }),
        _ => {
            errors.at(
                attr.span(),
                "say how two values become one: `#[reduce(sum)]`, `min`, `max`, or a helper with a value that changes \
                 nothing: `#[reduce(gcd, identity = 0)]`",
            );
            None
        }
    }
}

fn atomic(ty: &syn::Type) -> Option<Scalar> {
    let syn::Type::Path(path) = ty else { return None };
    match path.path.segments.last()?.ident.to_string().as_str() {
        "AtomicU32" => Some(Scalar::U32),
        "AtomicI32" => Some(Scalar::I32),
        "AtomicU64" => Some(Scalar::U64),
        "AtomicI64" => Some(Scalar::I64),
        "AtomicF32" => Some(Scalar::F32),
        _ => None,
    }
}

fn refuse_decorations(item: &syn::Signature, kernel: bool, errors: &mut Errors) {
    if let Some(token) = &item.asyncness {
        errors.at(
            token.span,
            "a kernel cannot be async: it runs on the device, and what is awaited is the event of its group",
        );
    }
    if let Some(token) = item.unsafety.as_ref().filter(|_| !kernel) {
        errors.at(token.span, "a helper promises nothing by itself; that word stands at the kernel");
    }
    if let Some(token) = item.constness.as_ref().filter(|_| kernel) {
        errors.at(token.span, "a kernel is not evaluated by the compiler; leave `const` away");
    }
    if let Some(abi) = &item.abi {
        errors.at(abi.span(), "a kernel's calling convention is its device's; leave `extern` away");
    }
    if let Some(token) = &item.variadic {
        errors.at(token.span(), "a kernel takes a fixed number of arguments");
    }
}
