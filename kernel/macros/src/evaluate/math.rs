//! Arithmetic on constants, as the language defines it.

use super::values::Value;
use crate::builtin::Math;
use crate::fold;
use crate::hir::{BinOp, Kind, UnOp};
use crate::ty::{Scalar, Ty};

/// A float as its type holds it.
pub(super) fn rounded(value: f64, ty: &Ty) -> Value {
    Value::Float(match ty.scalar() {
        Some(Scalar::F32) => f64::from(value as f32),
        _ => value,
    })
}

/// Nothing here rounds to 16 bits.
fn is_exact(scalar: &Scalar) -> bool {
    *scalar != Scalar::F16
}

pub(super) fn unary(op: UnOp, a: &Value, ty: &Ty) -> Option<Value> {
    Some(match (op, a) {
        (UnOp::Neg, Value::Float(value)) => Value::Float(-value),
        (UnOp::Neg, Value::Int(value)) => Value::Int(ty.scalar()?.wrap(-value)),
        (UnOp::Not, Value::Int(value)) => Value::Int(ty.scalar()?.wrap(!value)),
        (UnOp::Not, Value::Bool(value)) => Value::Bool(!value),
        (_, Value::Parts(parts)) => {
            Value::Parts(parts.iter().map(|part| unary(op, part, ty)).collect::<Option<_>>()?)
        }
        _ => return None,
    })
}

/// An operation on two values of type `ty`.
pub(super) fn binary(op: BinOp, a: &Value, b: &Value, ty: &Ty) -> Option<Value> {
    let scalar = match ty {
        Ty::Enum(_) => Scalar::I32,
        ty => ty.scalar().filter(is_exact)?,
    };
    Some(match (a, b) {
        (Value::Int(a), Value::Int(b)) => match fold::integers(op, scalar, *a, *b) {
            Kind::Bool(value) => Value::Bool(value),
            Kind::Int(value) => Value::Int(value),
            _ => return None,
        },
        (Value::Bool(a), Value::Bool(b)) => Value::Bool(match op {
            BinOp::And => a & b,
            BinOp::Or => a | b,
            BinOp::Xor | BinOp::Ne => a != b,
            BinOp::Eq => a == b,
            _ => return None,
        }),
        (Value::Float(a), Value::Float(b)) => floats(op, *a, *b, ty)?,
        (Value::Parts(a), Value::Parts(b)) => {
            let both = a.iter().zip(b).map(|(a, b)| binary(op, a, b, ty));
            Value::Parts(both.collect::<Option<_>>()?)
        }
        _ => return None,
    })
}

/// Two floats. A result of 64 bits is one of 32 bits when it is rounded once more: for these operations twice is as once.
fn floats(op: BinOp, a: f64, b: f64, ty: &Ty) -> Option<Value> {
    Some(match op {
        BinOp::Add => rounded(a + b, ty),
        BinOp::Sub => rounded(a - b, ty),
        BinOp::Mul => rounded(a * b, ty),
        BinOp::Div => rounded(a / b, ty),
        BinOp::Rem => rounded(a % b, ty),
        BinOp::Eq => Value::Bool(a == b),
        BinOp::Ne => Value::Bool(a != b),
        BinOp::Lt => Value::Bool(a < b),
        BinOp::Le => Value::Bool(a <= b),
        BinOp::Gt => Value::Bool(a > b),
        BinOp::Ge => Value::Bool(a >= b),
        _ => return None,
    })
}

pub(super) fn cast(value: &Value, to: &Ty) -> Option<Value> {
    let scalar = to.scalar()?;
    let (low, high) = scalar.bounds();
    Some(match (value, scalar.is_int(), scalar.is_float()) {
        (Value::Int(value), true, _) => Value::Int(scalar.wrap(*value)),
        (Value::Bool(value), true, _) => Value::Int(i128::from(*value)),
        // Held inside the range; what is no number is 0.
        (Value::Float(value), true, _) => Value::Int((*value as i128).clamp(low, high)),
        // From 128 bits at once, since two roundings would be one too many.
        (Value::Int(value), _, true) => match scalar {
            Scalar::F32 => Value::Float(f64::from(*value as f32)),
            _ => Value::Float(*value as f64),
        },
        (Value::Float(value), _, true) => rounded(*value, to),
        _ => return None,
    })
}

/// A function of values of type `of`, whose result is of type `to`.
pub(super) fn function(math: Math, values: &[Value], of: &Ty, to: &Ty) -> Option<Value> {
    of.scalar().filter(is_exact)?;
    if let [Value::Parts(first), ..] = values {
        let one = |at: usize| {
            let parts: Option<Vec<Value>> = values.iter().map(|value| value.part(at)).collect();
            function(math, &parts?, of, to)
        };
        return match math {
            Math::Dot | Math::Cross | Math::Length | Math::Distance | Math::Normalize => None,
            _ => (0..first.len()).map(one).collect::<Option<_>>().map(Value::Parts),
        };
    }
    match values {
        [Value::Int(a)] => integer(math, *a, of.scalar()?),
        [Value::Int(a), Value::Int(b)] => two_integers(math, *a, *b, of.scalar()?),
        [Value::Int(a), Value::Int(b), Value::Int(c)] if math == Math::Clamp => {
            Some(Value::Int((*a).max(*b).min(*c)))
        }
        [Value::Float(a)] => one_float(math, *a, of, to),
        [Value::Float(a), Value::Float(b)] => Some(rounded(
            match math {
                Math::Min => a.min(*b),
                Math::Max => a.max(*b),
                Math::Atan2 => a.atan2(*b),
                Math::Powf => a.powf(*b),
                Math::Copysign => a.copysign(*b),
                _ => return None,
            },
            to,
        )),
        [Value::Float(a), Value::Float(b), Value::Float(c)] => match (math, of.scalar()?) {
            (Math::Clamp, _) => Some(Value::Float(a.max(*b).min(*c))),
            (Math::MulAdd, Scalar::F32) => {
                Some(Value::Float(f64::from((*a as f32).mul_add(*b as f32, *c as f32))))
            }
            (Math::MulAdd, Scalar::F64) => Some(Value::Float(a.mul_add(*b, *c))),
            _ => None,
        },
        _ => None,
    }
}

fn integer(math: Math, a: i128, of: Scalar) -> Option<Value> {
    let bits = a as u32;
    Some(Value::Int(match math {
        Math::Abs => of.wrap(a.abs()),
        Math::Signum => a.signum(),
        Math::WrappingNeg => of.wrap(-a),
        Math::CountOnes => bits.count_ones().into(),
        Math::LeadingZeros => bits.leading_zeros().into(),
        Math::TrailingZeros => bits.trailing_zeros().into(),
        Math::ReverseBits => of.wrap(bits.reverse_bits().into()),
        Math::FromBits => return Some(Value::Float(f32::from_bits(bits).into())),
        _ => return None,
    }))
}

fn two_integers(math: Math, a: i128, b: i128, of: Scalar) -> Option<Value> {
    Some(Value::Int(match math {
        Math::Min => a.min(b),
        Math::Max => a.max(b),
        Math::AbsDiff => (a - b).abs(),
        Math::RotateLeft => of.wrap((a as u32).rotate_left(b as u32).into()),
        Math::RotateRight => of.wrap((a as u32).rotate_right(b as u32).into()),
        _ => return None,
    }))
}

fn one_float(math: Math, a: f64, of: &Ty, to: &Ty) -> Option<Value> {
    Some(rounded(
        match math {
            Math::IsNan => return Some(Value::Bool(a.is_nan())),
            Math::ToBits => return Some(Value::Int((a as f32).to_bits().into())),
            Math::Abs => a.abs(),
            Math::Signum => a.signum(),
            Math::Sqrt => a.sqrt(),
            Math::Recip => a.recip(),
            Math::Sin => a.sin(),
            Math::Cos => a.cos(),
            Math::Tan => a.tan(),
            Math::Asin => a.asin(),
            Math::Acos => a.acos(),
            Math::Atan => a.atan(),
            Math::Sinh => a.sinh(),
            Math::Cosh => a.cosh(),
            Math::Tanh => a.tanh(),
            Math::Asinh => a.asinh(),
            Math::Acosh => a.acosh(),
            Math::Atanh => a.atanh(),
            Math::Exp => a.exp(),
            Math::Exp2 => a.exp2(),
            Math::Ln => a.ln(),
            Math::Log2 => a.log2(),
            Math::Log10 => a.log10(),
            Math::Floor => a.floor(),
            Math::Ceil => a.ceil(),
            Math::Round => a.round(),
            Math::RoundTiesEven => a.round_ties_even(),
            Math::Trunc => a.trunc(),
            Math::Fract => a.fract(),
            Math::ToDegrees if of.scalar() == Some(Scalar::F32) => f64::from((a as f32).to_degrees()),
            Math::ToRadians if of.scalar() == Some(Scalar::F32) => f64::from((a as f32).to_radians()),
            Math::ToDegrees => a.to_degrees(),
            Math::ToRadians => a.to_radians(),
            _ => return None,
        },
        to,
    ))
}
