//! What types are called, and how long arrays are.

use proc_macro2::{Ident, Span};
use syn::spanned::Spanned;

use crate::errors::Errors;
use crate::generic::{Actual, Bound, Generic};
use crate::structs::{StructName, Structs};
use crate::ty::{Scalar, Ty};

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
                self.refuse(ty, errors, "kernels have no raw pointers; take a slice and an index, or a `Ptr<T>`, by which a kernel reaches what its launch names")
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

    pub(crate) fn array_length(&self, len: &syn::Expr) -> Option<u32> {
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
        if let ("Option", syn::PathArguments::AngleBracketed(of)) = (name.as_str(), &last.arguments)
            && let (Some(syn::GenericArgument::Type(of)), 1) = (of.args.first(), of.args.len())
        {
            return match self.read(of, errors) {
                Ty::Error => Ty::Error,
                Ty::Unit => {
                    errors.at(path.span(), "an `Option` of nothing is a `bool`");
                    Ty::Error
                }
                of => Ty::Option(Box::new(of)),
            };
        }
        if name == "usize" && self.sizes {
            return Ty::Scalar(Scalar::U32);
        }
        if let Some(bound) = self.bound.types.get(&name) {
            return bound.clone();
        }
        match self.structs.find(&last.ident, self.home) {
            Some(StructName::Plain(at)) => return Ty::Struct(at),
            Some(StructName::Template(template)) => return self.instance(template, last, errors),
            Some(StructName::Enum(at)) => return Ty::Enum(at),
            None => {}
        }
        if let Some(ty) = self.structs.aliased(&last.ident, self.home) {
            return self.read(ty, errors);
        }
        if name == "Ptr" {
            return self.pointer(last, errors);
        }
        errors.at(last.ident.span(), unknown_type(&name));
        Ty::Error
    }

    /// A pointer, to elements of a type that memory can have.
    fn pointer(&self, segment: &syn::PathSegment, errors: &mut Errors) -> Ty {
        let of = match &segment.arguments {
            syn::PathArguments::AngleBracketed(of) if of.args.len() == 1 => of.args.first(),
            _ => None,
        };
        let Some(syn::GenericArgument::Type(of)) = of else {
            errors.at(segment.ident.span(), "say what it points to: `Ptr<f32>`");
            return Ty::Error;
        };
        match self.read(of, errors) {
            Ty::Error => Ty::Error,
            Ty::Var(_) => {
                errors.at(of.span(), "nothing says yet what type this is; write it");
                Ty::Error
            }
            Ty::Scalar(Scalar::Bool) => {
                errors.at(of.span(), "`bool` has no fixed form in memory; point to a `u32`, zero or not");
                Ty::Error
            }
            to => Ty::Struct(self.structs.pointer(to)),
        }
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
}

/// The vector that a path to its `new` or `splat` makes, by its width.
pub(crate) fn vector_made(path: &syn::Path) -> Option<u8> {
    let of = path.segments.len().checked_sub(2)?;
    vector_width(&path.segments[of].ident.to_string())
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
        "Box" | "Rc" | "Arc" | "Result" | "HashMap" => {
            format!(
                "`{name}` does not exist in kernels, which have numbers, vectors, arrays and structs of them"
            )
        }
        "AtomicU32" | "AtomicI32" | "AtomicU64" | "AtomicI64" | "AtomicF32" => {
            format!("atomics are elements of a parameter: `&[{name}]`")
        }
        "Option" => "say what may be there: `Option<f32>`".into(),
        "Image" => "an image is a parameter: `&Image<Rgba8Unorm>` or `&mut Image<Rgba8Unorm>`".into(),
        "View" => "a view is a parameter: `&View<f32, 2>` or `&mut View<f32, 2>`".into(),
        _ => format!(
            "there is no type `{name}` here; structs for kernels stand in the same `#[windlass::kernels] mod`"
        ),
    }
}
