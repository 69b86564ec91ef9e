//! Signatures, structs and constants: what stands around the bodies.

use proc_macro2::{Ident, Span};
use syn::spanned::Spanned;

use crate::errors::Errors;
use crate::generic::{Actual, Bound, Generic};
use crate::hir::{May, Slice, Space, VarKind};
use crate::structs::{Named, Structs};
use crate::ty::{Scalar, Ty};

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
    /// The type as it was written, for errors of the compiler that speak about it.
    pub(crate) span: Span,
}

const NO_TUPLES: &str = "tuples have no fixed form in memory, and a launch passes none; make a struct with `#[derive(DeviceCopy)]`";

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

/// What type names mean, and how long arrays are.
pub(crate) struct Types<'a, 's> {
    pub(crate) structs: &'a Structs<'s>,
    /// The value of an integer constant of this name.
    pub(crate) length: &'a dyn Fn(&Ident) -> Option<i128>,
    /// What stands for generic parameters, and for `Self`.
    pub(crate) bound: &'a Bound,
    /// Whether there is `usize`, which is `u32` in kernels: not where the rest of the program sees the type.
    pub(crate) sizes: bool,
    /// In which module they are written.
    pub(crate) home: usize,
}

impl Types<'_, '_> {
    pub(crate) fn read(&self, ty: &syn::Type, errors: &mut Errors) -> Ty {
        match ty {
            syn::Type::Paren(inner) => self.read(&inner.elem, errors),
            syn::Type::Group(inner) => self.read(&inner.elem, errors),
            syn::Type::Path(path) if path.qself.is_none() => self.path(&path.path, errors),
            syn::Type::Array(array) => {
                let of = self.read(&array.elem, errors);
                match self.array_length(&array.len) {
                    Some(len) => Ty::Array(Box::new(of), len),
                    None => {
                        errors.at(
                            array.len.span(),
                            "an array's length is an integer literal or a constant, and not zero",
                        );
                        Ty::Error
                    }
                }
            }
            syn::Type::Tuple(tuple) if tuple.elems.is_empty() => Ty::Unit,
            syn::Type::Tuple(tuple) => {
                if tuple.elems.len() > 8 {
                    errors.at(ty.span(), "a tuple has eight parts at most; make a struct");
                    return Ty::Error;
                }
                let types: Vec<Ty> = tuple.elems.iter().map(|ty| self.read(ty, errors)).collect();
                match types.iter().any(|ty| matches!(ty, Ty::Error | Ty::Unit)) {
                    true => Ty::Error,
                    false => Ty::Tuple(types),
                }
            }
            syn::Type::Reference(_) => {
                self.refuse(ty, errors, "references are types of parameters only; a variable holds a value")
            }
            syn::Type::Slice(_) => {
                self.refuse(ty, errors, "a slice is a parameter behind a reference: `&[T]` or `&mut [T]`")
            }
            syn::Type::Ptr(_) => {
                self.refuse(ty, errors, "kernels have no raw pointers; take a slice and an index")
            }
            syn::Type::BareFn(_) | syn::Type::ImplTrait(_) | syn::Type::TraitObject(_) => {
                self.refuse(ty, errors, "kernels have no function values; call a helper function by its name")
            }
            syn::Type::Infer(_) => self.refuse(ty, errors, "write the type, or leave the `: _` away"),
            _ => self.refuse(ty, errors, "this type does not exist in kernels"),
        }
    }

    fn refuse(&self, ty: &syn::Type, errors: &mut Errors, message: &str) -> Ty {
        errors.at(ty.span(), message);
        Ty::Error
    }

    fn array_length(&self, len: &syn::Expr) -> Option<u32> {
        let value = match len {
            syn::Expr::Lit(syn::ExprLit { lit: syn::Lit::Int(int), .. }) => int.base10_parse().ok()?,
            syn::Expr::Path(path) => {
                let name = path.path.get_ident()?;
                match self.bound.lengths.get(&name.to_string()) {
                    Some(len) => i128::from(*len),
                    None => (self.length)(name)?,
                }
            }
            syn::Expr::Block(block) => match &block.block.stmts[..] {
                [syn::Stmt::Expr(len, None)] => return self.array_length(len),
                _ => return None,
            },
            syn::Expr::Binary(both) => {
                let (a, b) = (self.array_length(&both.left)?, self.array_length(&both.right)?);
                return match both.op {
                    syn::BinOp::Add(_) => a.checked_add(b),
                    syn::BinOp::Sub(_) => a.checked_sub(b),
                    syn::BinOp::Mul(_) => a.checked_mul(b),
                    syn::BinOp::Div(_) => a.checked_div(b),
                    _ => None,
                }
                .filter(|&len| len > 0);
            }
            // As a struct's field needs it, which is Rust's own.
            syn::Expr::Cast(cast) => return self.array_length(&cast.expr),
            syn::Expr::Paren(inner) => return self.array_length(&inner.expr),
            _ => return None,
        };
        u32::try_from(value).ok().filter(|&len| len > 0)
    }

    fn path(&self, path: &syn::Path, errors: &mut Errors) -> Ty {
        let Some(last) = path.segments.last() else { return Ty::Error };
        let name = last.ident.to_string();
        if let Some(width) = vector_width(&name) {
            return self.vector(width, last, errors);
        }
        if let Some(scalar) = Scalar::from_name(&name) {
            return Ty::Scalar(scalar);
        }
        if name == "usize" && self.sizes {
            return Ty::Scalar(Scalar::U32);
        }
        if let Some(bound) = self.bound.types.get(&name) {
            return bound.clone();
        }
        match self.structs.find(&last.ident, self.home) {
            Some(Named::Plain(at)) => return Ty::Struct(at),
            Some(Named::Template(template)) => return self.instance(template, last, errors),
            None => {}
        }
        if let Some(ty) = self.structs.aliased(&last.ident, self.home) {
            return self.read(ty, errors);
        }
        errors.at(last.ident.span(), unknown_type(&name));
        Ty::Error
    }

    /// A generic struct with its arguments.
    fn instance(&self, template: usize, segment: &syn::PathSegment, errors: &mut Errors) -> Ty {
        let generics = self.structs.generics(template);
        let name = &segment.ident;
        let arguments: Vec<&syn::GenericArgument> = match &segment.arguments {
            syn::PathArguments::AngleBracketed(arguments) => arguments.args.iter().collect(),
            _ => Vec::new(),
        };
        if let Some(lifetime @ syn::GenericArgument::Lifetime(_)) = arguments.first() {
            errors.at(
                lifetime.span(),
                "structs of kernels hold values, and no references to memory; pass the memory beside them",
            );
            return Ty::Error;
        }
        if arguments.len() != generics.len() {
            let names: Vec<String> = generics.iter().map(|generic| generic.name().to_string()).collect();
            errors.at(name.span(), format!("say what it is made of: `{name}<{}>`", names.join(", ")));
            return Ty::Error;
        }
        let mut actuals = Vec::new();
        for (generic, argument) in generics.iter().zip(arguments) {
            actuals.extend(self.actual(generic, argument, errors));
        }
        match actuals.len() == generics.len() {
            true => Ty::Struct(self.structs.instance(template, actuals, errors)),
            false => Ty::Error,
        }
    }

    /// What an argument puts in the place of a generic parameter, if that is known.
    pub(crate) fn actual(
        &self,
        generic: &Generic,
        argument: &syn::GenericArgument,
        errors: &mut Errors,
    ) -> Option<Actual> {
        match (generic, argument) {
            (Generic::Type(_), syn::GenericArgument::Type(ty)) => match self.read(ty, errors) {
                Ty::Error => None,
                Ty::Var(_) => {
                    errors.at(ty.span(), "nothing says yet what type this is; write it");
                    None
                }
                ty => Some(Actual::Type(ty)),
            },
            (Generic::Length(..), syn::GenericArgument::Const(len)) => {
                self.length_of(len, len.span(), errors)
            }
            // The name of a constant, which looks like a type to the parser.
            (Generic::Length(..), syn::GenericArgument::Type(syn::Type::Path(path))) => {
                let len = syn::Expr::Path(syn::ExprPath {
                    attrs: Vec::new(),
                    qself: None,
                    path: path.path.clone(),
                });
                self.length_of(&len, path.span(), errors)
            }
            (generic, other) => {
                let name = generic.name();
                errors.at(other.span(), format!("this does not fit the parameter `{name}`"));
                None
            }
        }
    }

    fn length_of(&self, len: &syn::Expr, span: Span, errors: &mut Errors) -> Option<Actual> {
        let found = self.array_length(len);
        if found.is_none() {
            errors.at(span, "a length is an integer literal or a constant, and not zero");
        }
        found.map(Actual::Length)
    }

    fn vector(&self, width: u8, segment: &syn::PathSegment, errors: &mut Errors) -> Ty {
        if let syn::PathArguments::AngleBracketed(arguments) = &segment.arguments
            && let Some(syn::GenericArgument::Type(of)) = arguments.args.first()
        {
            return match self.read(of, errors) {
                Ty::Scalar(Scalar::Bool) => {
                    errors.at(of.span(), "vectors hold numbers; use one `bool` per component");
                    Ty::Error
                }
                scalar @ (Ty::Scalar(_) | Ty::Var(_) | Ty::Error) => Ty::Vector(width, Box::new(scalar)),
                _ => {
                    errors.at(of.span(), "a vector's components are scalars");
                    Ty::Error
                }
            };
        }
        errors.at(segment.ident.span(), format!("say what the vector holds: `Vec{width}<f32>`"));
        Ty::Error
    }

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
        Some(Param { name, ty, mutable: mutable && !by_reference, kind, role: Role::Plain, span })
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
                let fits =
                    matches!(ty, Ty::Scalar(s) if s.bits() == 32 && s != Scalar::Bool) || ty == Ty::Error;
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
                if kernel && self.structs.has_tuple(&read) {
                    errors.at(ty.span(), NO_TUPLES);
                }
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
        Some(Param {
            name: pattern.ident.clone(),
            ty,
            mutable: pattern.mutability.is_some(),
            kind,
            role,
            span: typed.ty.span(),
        })
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
        let slice = |ty, dims, may, space| (ty, VarKind::Slice(Slice { dims, may, space }));
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
                let (ty, dims) = self.view(path, errors);
                slice(ty, dims, may, space)
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

    /// The type of elements in memory, which is one of those that every device lays out alike.
    fn element(&self, ty: &syn::Type, errors: &mut Errors) -> Ty {
        let read = self.read(ty, errors);
        if read == Ty::Scalar(Scalar::Bool) {
            errors.at(ty.span(), "`bool` has no fixed form in memory; use `u32`, zero or not");
            return Ty::Error;
        }
        if self.structs.has_tuple(&read) {
            errors.at(ty.span(), NO_TUPLES);
            return Ty::Error;
        }
        read
    }

    fn view(&self, path: &syn::TypePath, errors: &mut Errors) -> (Ty, u8) {
        let mut found = (None, None);
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
                errors.at(path.span(), "a view says its elements and its dimensions: `View<f32, 2>`");
                (Ty::Error, 2)
            }
        }
    }
}

const REDUCED: &str = "what is reduced is a `&mut u32`, `&mut i32` or `&mut f32`, in which each work-item has a value of its own";

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

pub(crate) fn vector_width(name: &str) -> Option<u8> {
    match name {
        "Vec2" => Some(2),
        "Vec3" => Some(3),
        "Vec4" => Some(4),
        _ => None,
    }
}

fn unknown_type(name: &str) -> String {
    match name {
        "usize" => "`usize` has another size on every device, so it stands inside kernels only, where it is `u32`; what a \
                    kernel takes and what stands in memory is `u32`"
            .into(),
        "isize" => "`isize` has another size on every device; use `i32`".into(),
        "u8" | "i8" | "u16" | "i16" => {
            format!(
                "`{name}` does not exist on every device; use `u32` or `i32`, and pack several into one if memory matters"
            )
        }
        "u128" | "i128" => {
            format!("`{name}` does not exist on devices; the widest integers are `u64` and `i64`")
        }
        "char" | "str" | "String" => format!("kernels have no text, so no `{name}`"),
        "Vec" => "a kernel cannot allocate; use an array `[T; N]`, or a vector of numbers `Vec3<f32>`".into(),
        "Box" | "Rc" | "Arc" | "Option" | "Result" | "HashMap" => {
            format!(
                "`{name}` does not exist in kernels, which have numbers, vectors, arrays and structs of them"
            )
        }
        "AtomicU32" | "AtomicI32" | "AtomicU64" | "AtomicI64" | "AtomicF32" => {
            format!("atomics are elements of a parameter: `&[{name}]`")
        }
        "View" => "a view is a parameter: `&View<f32, 2>` or `&mut View<f32, 2>`".into(),
        _ => format!(
            "there is no type `{name}` here; structs for kernels stand in the same `#[windlass::kernels] mod`"
        ),
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
