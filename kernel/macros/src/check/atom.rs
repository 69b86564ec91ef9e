//! Literals, names, and values that are made of others.

use syn::spanned::Spanned;

use super::{Checker, Named};
use crate::builtin::{ConstValue, constant, math_constant};
use crate::hir::{Expr, Kind, VarKind};
use crate::structs::StructName;
use crate::ty::{BOOL, Guess, Scalar, Ty, U32};
use crate::types::vector_width;

impl Checker<'_> {
    pub(super) fn literal(&mut self, lit: &syn::Lit) -> Expr {
        let span = lit.span();
        match lit {
            syn::Lit::Bool(value) => Expr::new(Kind::Bool(value.value), BOOL, span),
            syn::Lit::Int(int) => {
                let Ok(value) = int.base10_parse::<i128>() else {
                    return self.error(span, "this number is too large for every type of kernels");
                };
                let suffix = if int.suffix() == "usize" { "u32" } else { int.suffix() };
                match Scalar::from_name(suffix) {
                    Some(s) if s.is_float() => Expr::new(Kind::Float(value as f64), Ty::Scalar(s), span),
                    Some(s) => Expr::new(Kind::Int(value), Ty::Scalar(s), span),
                    None if suffix.is_empty() => {
                        let ty = self.infer.fresh(Guess::Int);
                        Expr::new(Kind::Int(value), ty, span)
                    }
                    None => {
                        let message = format!(
                            "there are no `{}` in kernels; indices and lengths are `u32`",
                            int.suffix()
                        );
                        self.error(span, message)
                    }
                }
            }
            syn::Lit::Float(float) => {
                let Ok(value) = float.base10_parse::<f64>() else {
                    return self.error(span, "this is no float that a kernel can hold");
                };
                let ty = match Scalar::from_name(float.suffix()) {
                    Some(s) => Ty::Scalar(s),
                    None => self.infer.fresh(Guess::Float),
                };
                Expr::new(Kind::Float(value), ty, span)
            }
            _ => self.error(span, "kernels have numbers and `bool`, and no text"),
        }
    }

    pub(super) fn path(&mut self, path: &syn::Path) -> Expr {
        let span = path.span();
        if let Some(ident) = path.get_ident() {
            let name = ident.to_string();
            return match self.look_up(&name) {
                Some(Named::Var(at)) if matches!(self.vars[at].kind, VarKind::Slice(_)) => self.error(
                    span,
                    format!("`{name}` is memory, not a value; use `{name}[i]` or `{name}.len()`, or pass it to a helper"),
                ),
                Some(Named::Var(at)) => Expr::new(Kind::Var(at), self.vars[at].ty.clone(), span),
                Some(Named::Const(at)) => {
                    let constant = &self.consts[at];
                    // A scalar constant is its value, so that what is made of it can be folded.
                    let kind = match constant.value.kind {
                        Kind::Int(_) | Kind::Bool(_) => constant.value.kind.clone(),
                        // Devices have no way to write one down.
                        Kind::Float(value) if value.is_infinite() => constant.value.kind.clone(),
                        _ => Kind::Const(at),
                    };
                    Expr::new(kind, constant.ty.clone(), span)
                }
                None if name == "None" => self.none(span),
                None if self.around.functions.find(&name, self.origin.home).is_some() => {
                    self.error(span, format!("`{name}` is a function, and kernels have no function values; call it"))
                }
                None if math_constant(&name).is_some() => {
                    self.error(span, format!("there is no `{name}` here; write `std::f32::consts::{name}`, since a `use` brings nothing into kernels"))
                }
                None => self.error(span, format!("there is no `{name}` here; a kernel knows its parameters, its own variables, what stands in its `kernels` module and in those that this one uses")),
            };
        }
        let names: Vec<String> = path.segments.iter().map(|s| s.ident.to_string()).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        match names[..] {
            [.., of, name] if self.scalar_named(of).is_some() => {
                let Some(scalar) = self.scalar_named(of) else { return self.error(span, "no such constant") };
                match constant(scalar, name) {
                    Some(ConstValue::Int(value)) => {
                        let ty = if name == "BITS" { U32 } else { Ty::Scalar(scalar) };
                        Expr::new(Kind::Int(value), ty, span)
                    }
                    Some(ConstValue::Float(value)) => Expr::new(Kind::Float(value), Ty::Scalar(scalar), span),
                    None if name == "NAN" => self.error(
                        span,
                        format!(
                            "devices differ in what they make of `{of}::NAN`; keep a `bool` beside the value"
                        ),
                    ),
                    None => self.error(span, format!("kernels have no constant `{of}::{name}`")),
                }
            }
            [.., of @ ("f32" | "f64"), "consts", name] => {
                match (math_constant(name), Scalar::from_name(of)) {
                    (Some(value), Some(scalar)) => Expr::new(Kind::Float(value), Ty::Scalar(scalar), span),
                    _ => self.error(span, format!("kernels have no constant `{of}::consts::{name}`")),
                }
            }
            [.., name] => match self.owner_named(path) {
                Some(StructName::Enum(at)) => self.variant(at, name, span),
                _ => self.error(
                    span,
                    "a kernel knows what stands in its own `kernels` module, and nothing behind other paths",
                ),
            },
            [] => self.error(span, "a name is wanted here"),
        }
    }

    /// A scalar type by its name, or by that of a generic parameter that stands for one.
    fn scalar_named(&self, name: &str) -> Option<Scalar> {
        match self.bound.types.get(name) {
            Some(Ty::Scalar(scalar)) => Some(*scalar),
            Some(_) => None,
            None if name == "usize" => Some(Scalar::U32),
            None => Scalar::from_name(name),
        }
    }

    /// A struct with its fields. One that is generic, and says not what it is made of, is the `hinted` one if that is of its kind,
    /// or what its fields make it.
    pub(super) fn make_struct(&mut self, made: &syn::ExprStruct, hinted: Option<usize>) -> Expr {
        let span = made.path.span();
        if let Some(token) = &made.dot2_token {
            return self.error(token.span(), "kernels name every field; there is no `..`");
        }
        let segments = &made.path.segments;
        if let (2, Some(StructName::Enum(at)), Some(last)) =
            (segments.len(), self.owner_named(&made.path), segments.last())
        {
            return self.variant_fields(at, &last.ident.to_string(), made);
        }
        let Some(last) = segments.last().filter(|_| segments.len() == 1) else {
            return self.error(span, "a struct for kernels goes by its plain name");
        };
        if let Some(width) = vector_width(&last.ident.to_string()) {
            let parts = ["x, y", "x, y, z", "x, y, z, w"][usize::from(width) - 2];
            return self.error(span, format!("a vector is made by `Vec{width}::new({parts})`"));
        }
        let structs = self.around.structs;
        if let (Some(StructName::Template(template)), syn::PathArguments::None) =
            (structs.find(&last.ident, self.origin.home), &last.arguments)
        {
            let hinted = hinted.filter(|at| structs.origin(*at).is_some_and(|(of, _)| of == template));
            return match hinted {
                Some(at) => self.struct_of(at, made),
                None => self.struct_of_fields(template, made),
            };
        }
        let path = syn::Type::Path(syn::TypePath { qself: None, path: made.path.clone() });
        match self.read_type(&path) {
            Ty::Struct(at) => self.struct_of(at, made),
            Ty::Error => Expr::new(Kind::Unit, Ty::Error, span),
            other => {
                let other = self.show(&other);
                self.error(span, format!("`{other}` is no struct of this `kernels` module"))
            }
        }
    }

    fn struct_of(&mut self, at: usize, made: &syn::ExprStruct) -> Expr {
        let fields = self.around.structs.fields_of(at);
        let mut values: Vec<Option<Expr>> = fields.iter().map(|_| None).collect();
        for field in &made.fields {
            let syn::Member::Named(name) = &field.member else {
                self.errors.at(field.span(), "fields have names");
                continue;
            };
            match fields.iter().position(|(n, _)| n == name) {
                Some(place) => values[place] = Some(self.expr_to(&field.expr, &fields[place].1)),
                None => {
                    let of = self.around.structs.name(at);
                    self.errors.at(name.span(), format!("`{of}` has no field `{name}`"));
                }
            }
        }
        let span = made.path.span();
        if let Some(missing) = values.iter().position(Option::is_none) {
            return self.error(span, format!("the field `{}` is missing", fields[missing].0));
        }
        Expr::new(Kind::Struct(at, values.into_iter().flatten().collect()), Ty::Struct(at), span)
    }

    /// A generic struct whose fields say what it is made of.
    fn struct_of_fields(&mut self, template: usize, made: &syn::ExprStruct) -> Expr {
        let (structs, span) = (self.around.structs, made.path.span());
        let generics = structs.generics(template);
        let mut bound = self.open_bound(generics);
        let mut values: Vec<(String, Expr)> = Vec::new();
        for field in &made.fields {
            let value = self.expr(&field.expr);
            let syn::Member::Named(name) = &field.member else { continue };
            let written = structs.written_fields(template).find(|(of, _)| *of == name);
            match written {
                Some((_, ty)) => self.fit(ty, &value.ty.clone(), generics, &mut bound),
                None => {
                    let of = structs.name_of_template(template);
                    self.errors.at(name.span(), format!("`{of}` has no field `{name}`"));
                }
            }
            values.push((name.to_string(), value));
        }
        let Some(actuals) = self.actuals(generics, &bound, span) else {
            return Expr::new(Kind::Unit, Ty::Error, span);
        };
        let at = structs.instance(template, actuals, self.errors);
        let mut list = Vec::new();
        for (name, ty) in structs.fields_of(at) {
            let Some(place) = values.iter().position(|(of, _)| name == of) else {
                return self.error(span, format!("the field `{name}` is missing"));
            };
            let (_, value) = values.remove(place);
            self.expect(&value.ty.clone(), &ty, value.span);
            list.push(value);
        }
        Expr::new(Kind::Struct(at, list), Ty::Struct(at), span)
    }

    pub(super) fn make_array(&mut self, array: &syn::ExprArray) -> Expr {
        let span = array.bracket_token.span.open();
        let ty = self.infer.fresh(Guess::Any);
        let values: Vec<Expr> = array.elems.iter().map(|e| self.expr_to(e, &ty)).collect();
        match u32::try_from(values.len()) {
            Ok(0) | Err(_) => self.error(span, "an array has at least one element"),
            Ok(len) => Expr::new(Kind::Array(values), Ty::Array(Box::new(ty), len), span),
        }
    }

    pub(super) fn repeat(&mut self, repeat: &syn::ExprRepeat) -> Expr {
        let span = repeat.bracket_token.span.open();
        let value = self.expr(&repeat.expr);
        let ty = value.ty.clone();
        let mut len = self.expr_to(&repeat.len, &U32);
        self.settle_expr(&mut len);
        match len.kind {
            Kind::Int(n) if n > 0 && n <= i128::from(u32::MAX) => {
                Expr::new(Kind::Repeat(Box::new(value)), Ty::Array(Box::new(ty), n as u32), span)
            }
            _ => self.error(len.span, "an array's length is an integer literal or a constant, and not zero"),
        }
    }
}
