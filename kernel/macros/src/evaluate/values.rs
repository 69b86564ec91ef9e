//! Values of constants.

use proc_macro2::Span;

use super::Failure;
use crate::hir::{Expr, Kind};
use crate::structs::Structs;
use crate::tuples::TUPLE;
use crate::ty::Ty;

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Value {
    Unit,
    Bool(bool),
    Int(i128),
    /// Of a narrower type it is what that can hold.
    Float(f64),
    /// The elements, fields or components.
    Parts(Vec<Value>),
}

impl Value {
    pub(super) fn part(&self, at: usize) -> Option<Value> {
        match self {
            Value::Parts(parts) => parts.get(at).cloned(),
            _ => None,
        }
    }

    /// How many parts it has at once.
    pub(super) fn parts(&self) -> u32 {
        match self {
            Value::Parts(parts) => u32::try_from(parts.len()).unwrap_or(u32::MAX),
            _ => 0,
        }
    }

    /// What is found on a way into it, to be changed; none is outside.
    pub(super) fn part_mut(&mut self, path: &[usize]) -> Option<&mut Value> {
        path.iter().try_fold(self, |value, at| match value {
            Value::Parts(parts) => parts.get_mut(*at),
            _ => None,
        })
    }

    /// The value in literals, as constants are written in every language.
    pub(super) fn written(&self, ty: &Ty, structs: &Structs<'_>, span: Span) -> Result<Expr, Failure> {
        let all = |parts: &[Value], of: &Ty| -> Result<Vec<Expr>, Failure> {
            parts.iter().map(|part| part.written(of, structs, span)).collect()
        };
        let fields = |parts: &[Value], types: &mut dyn Iterator<Item = &Ty>| -> Result<Vec<Expr>, Failure> {
            parts.iter().zip(types).map(|(part, ty)| part.written(ty, structs, span)).collect()
        };
        let kind = match (self, ty) {
            (Value::Bool(value), _) => Kind::Bool(*value),
            (Value::Int(value), _) => Kind::Int(*value),
            (Value::Float(value), _) if value.is_finite() => Kind::Float(*value),
            (Value::Float(value), _) => {
                let message = format!(
                    "this comes to {value}, which devices cannot write into a constant; the largest number is `f32::MAX`"
                );
                return Err((span, message));
            }
            (Value::Parts(parts), Ty::Array(of, _)) => Kind::Array(all(parts, of)?),
            (Value::Parts(parts), Ty::Vector(_, of)) => Kind::Vector(all(parts, of)?),
            (Value::Parts(parts), Ty::Tuple(types)) => Kind::Struct(TUPLE, fields(parts, &mut types.iter())?),
            (Value::Parts(parts), Ty::Option(_) | Ty::Enum(_)) => {
                let variants = structs.variants(ty).unwrap_or_default();
                Kind::Struct(TUPLE, fields(parts, &mut crate::enums::parts(&variants).iter())?)
            }
            (Value::Parts(parts), Ty::Struct(at)) => {
                let types = structs.fields_of(*at);
                Kind::Struct(*at, fields(parts, &mut types.iter().map(|(_, ty)| ty))?)
            }
            _ => return Err((span, "this is no value that a constant can have".into())),
        };
        Ok(Expr::new(kind, ty.clone(), span))
    }
}
