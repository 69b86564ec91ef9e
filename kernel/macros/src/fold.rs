//! Integer arithmetic on literals, done here so that every language sees the same result: some refuse constants that
//! overflow.

use crate::hir::{BinOp, Expr, Kind, UnOp};
use crate::ty::{Scalar, Ty};

/// Replaces an operation on literals by its value.
pub(crate) fn fold(expr: &mut Expr) {
    let Ty::Scalar(scalar) = expr.ty else { return };
    let folded = match &expr.kind {
        Kind::Unary(UnOp::Neg, a) => match (&a.kind, scalar.is_int()) {
            (Kind::Int(value), true) => Some(Kind::Int(scalar.wrap(-value))),
            (Kind::Float(value), _) => Some(Kind::Float(-value)),
            _ => None,
        },
        Kind::Unary(UnOp::Not, a) => match a.kind {
            Kind::Int(value) => Some(Kind::Int(scalar.wrap(!value))),
            Kind::Bool(value) => Some(Kind::Bool(!value)),
            _ => None,
        },
        Kind::Binary(op, a, b) => match (&a.kind, &b.kind, &a.ty) {
            (Kind::Int(a), Kind::Int(b), Ty::Scalar(of)) => Some(integers(*op, *of, *a, *b)),
            // Some languages refuse a division by a literal zero, whose result is the dividend here.
            (_, Kind::Int(0), _) if *op == BinOp::Div => Some(a.kind.clone()),
            (_, Kind::Int(0), _) if *op == BinOp::Rem => {
                let zero = Expr::new(Kind::Int(0), expr.ty.clone(), expr.span);
                let stmts = vec![crate::hir::Stmt::Expr((**a).clone())];
                Some(Kind::Block(crate::hir::Block { stmts, tail: Some(Box::new(zero)) }))
            }
            _ => None,
        },
        // The second one counts where the first one is what the operator asks for; else it is not evaluated.
        Kind::Logic(and, a, b) => match a.kind {
            Kind::Bool(first) if first == *and => Some(b.kind.clone()),
            Kind::Bool(first) => Some(Kind::Bool(first)),
            _ => None,
        },
        Kind::Cast(a) => match (&a.kind, &a.ty) {
            (Kind::Int(value), _) if scalar.is_int() => Some(Kind::Int(scalar.wrap(*value))),
            (Kind::Bool(value), _) if scalar.is_int() => Some(Kind::Int(i128::from(*value))),
            _ => None,
        },
        _ => None,
    };
    if let Some(kind) = folded {
        expr.kind = kind;
    }
}

/// The result that the language defines, for operands of type `of`.
pub(crate) fn integers(op: BinOp, of: Scalar, a: i128, b: i128) -> Kind {
    let shift = (b & i128::from(of.bits() - 1)) as u32;
    Kind::Int(of.wrap(match op {
        BinOp::Add => a + b,
        BinOp::Sub => a - b,
        BinOp::Mul => a.wrapping_mul(b),
        BinOp::Div => {
            if b == 0 {
                a
            } else {
                a / b
            }
        }
        BinOp::Rem => {
            if b == 0 {
                0
            } else {
                a % b
            }
        }
        BinOp::And => a & b,
        BinOp::Or => a | b,
        BinOp::Xor => a ^ b,
        BinOp::Shl => a << shift,
        BinOp::Shr => a >> shift,
        BinOp::Eq => return Kind::Bool(a == b),
        BinOp::Ne => return Kind::Bool(a != b),
        BinOp::Lt => return Kind::Bool(a < b),
        BinOp::Le => return Kind::Bool(a <= b),
        BinOp::Gt => return Kind::Bool(a > b),
        BinOp::Ge => return Kind::Bool(a >= b),
    }))
}
