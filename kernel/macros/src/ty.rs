//! Types of the kernel language, and how those that nobody wrote down are found.

use std::fmt;

use crate::structs::Structs;

/// A scalar type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Scalar {
    Bool,
    I8,
    U8,
    I16,
    U16,
    I32,
    U32,
    I64,
    U64,
    F16,
    F32,
    F64,
}

impl Scalar {
    pub(crate) const ALL: [Scalar; 12] = [
        Scalar::Bool,
        Scalar::I8,
        Scalar::U8,
        Scalar::I16,
        Scalar::U16,
        Scalar::I32,
        Scalar::U32,
        Scalar::I64,
        Scalar::U64,
        Scalar::F16,
        Scalar::F32,
        Scalar::F64,
    ];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Scalar::Bool => "bool",
            Scalar::I8 => "i8",
            Scalar::U8 => "u8",
            Scalar::I16 => "i16",
            Scalar::U16 => "u16",
            Scalar::I32 => "i32",
            Scalar::U32 => "u32",
            Scalar::I64 => "i64",
            Scalar::U64 => "u64",
            Scalar::F16 => "f16",
            Scalar::F32 => "f32",
            Scalar::F64 => "f64",
        }
    }

    pub(crate) fn from_name(name: &str) -> Option<Scalar> {
        Scalar::ALL.into_iter().find(|s| s.name() == name)
    }

    pub(crate) fn is_float(self) -> bool {
        matches!(self, Scalar::F16 | Scalar::F32 | Scalar::F64)
    }

    pub(crate) fn is_int(self) -> bool {
        !self.is_float() && self != Scalar::Bool
    }

    pub(crate) fn is_signed(self) -> bool {
        matches!(self, Scalar::I8 | Scalar::I16 | Scalar::I32 | Scalar::I64) || self.is_float()
    }

    pub(crate) fn bits(self) -> u32 {
        match self {
            Scalar::Bool => 1,
            Scalar::I8 | Scalar::U8 => 8,
            Scalar::I16 | Scalar::U16 | Scalar::F16 => 16,
            Scalar::I32 | Scalar::U32 | Scalar::F32 => 32,
            Scalar::I64 | Scalar::U64 | Scalar::F64 => 64,
        }
    }

    /// Whether it is an integer of less than 32 bits: devices have those in memory alone.
    pub(crate) fn is_small(self) -> bool {
        self.is_int() && self.bits() < 32
    }

    /// What devices count it with: for a small integer the one of 32 bits with the same sign.
    pub(crate) fn register(self) -> Scalar {
        match (self.is_small(), self.is_signed()) {
            (true, true) => Scalar::I32,
            (true, false) => Scalar::U32,
            _ => self,
        }
    }

    /// The values that an integer type has.
    pub(crate) fn bounds(self) -> (i128, i128) {
        match (self.is_signed(), self.bits()) {
            (true, bits) => (-(1 << (bits - 1)), (1 << (bits - 1)) - 1),
            (false, bits) => (0, (1 << bits) - 1),
        }
    }

    /// An integer as this type holds it: modulo its width.
    pub(crate) fn wrap(self, value: i128) -> i128 {
        let (low, high) = self.bounds();
        let span = high - low + 1;
        (value - low).rem_euclid(span) + low
    }
}

/// A type.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Ty {
    Unit,
    /// Of what never produces a value.
    Never,
    /// Of what was wrong and has been reported.
    Error,
    Scalar(Scalar),
    /// A vector of 2 to 4 scalars.
    Vector(u8, Box<Ty>),
    Array(Box<Ty>, u32),
    Struct(usize),
    /// Until all types are known; then it is `i32`, or with data a struct that nobody wrote (`tuples`).
    Enum(usize),
    /// Until all types are known; then it is such a struct.
    Tuple(Vec<Ty>),
    /// Likewise: a number, which is 1 where there is something, and what there is.
    Option(Box<Ty>),
    /// Not known yet.
    Var(usize),
}

pub(crate) const BOOL: Ty = Ty::Scalar(Scalar::Bool);
pub(crate) const U32: Ty = Ty::Scalar(Scalar::U32);
pub(crate) const I32: Ty = Ty::Scalar(Scalar::I32);
pub(crate) const F32: Ty = Ty::Scalar(Scalar::F32);

impl Ty {
    /// The scalar of a scalar or a vector.
    pub(crate) fn scalar(&self) -> Option<Scalar> {
        match self {
            Ty::Scalar(s) => Some(*s),
            Ty::Vector(_, of) => of.scalar(),
            _ => None,
        }
    }

    /// The number of components of a vector.
    pub(crate) fn width(&self) -> Option<u8> {
        match self {
            Ty::Vector(n, _) => Some(*n),
            _ => None,
        }
    }
}

/// What may become of a type that is not known yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Guess {
    Any,
    /// An integer literal's.
    Int,
    /// A float literal's.
    Float,
}

/// What is known about the types of one function.
#[derive(Debug, Default)]
pub(crate) struct Infer {
    vars: Vec<Result<Ty, Guess>>,
}

impl Infer {
    pub(crate) fn fresh(&mut self, guess: Guess) -> Ty {
        self.vars.push(Err(guess));
        Ty::Var(self.vars.len() - 1)
    }

    /// The type, as far as it is known by now.
    pub(crate) fn shallow(&self, ty: &Ty) -> Ty {
        match ty {
            Ty::Var(at) => match &self.vars[*at] {
                Ok(known) => self.shallow(known),
                Err(_) => ty.clone(),
            },
            Ty::Vector(n, of) => Ty::Vector(*n, Box::new(self.shallow(of))),
            Ty::Array(of, len) => Ty::Array(Box::new(self.shallow(of)), *len),
            Ty::Tuple(parts) => Ty::Tuple(parts.iter().map(|part| self.shallow(part)).collect()),
            Ty::Option(of) => Ty::Option(Box::new(self.shallow(of))),
            other => other.clone(),
        }
    }

    pub(crate) fn guess(&self, ty: &Ty) -> Option<Guess> {
        match self.shallow(ty) {
            Ty::Var(at) => self.vars[at].as_ref().err().copied(),
            _ => None,
        }
    }

    /// Whether the type can be one of the numbers that `is` accepts.
    pub(crate) fn could_be(&self, ty: &Ty, is: impl Fn(Scalar) -> bool) -> bool {
        match self.shallow(ty) {
            Ty::Scalar(s) => is(s),
            Ty::Vector(_, of) => self.could_be(&of, is),
            Ty::Var(_) => match self.guess(ty) {
                Some(Guess::Int) => Scalar::ALL.into_iter().any(|s| s.is_int() && is(s)),
                Some(Guess::Float) => Scalar::ALL.into_iter().any(|s| s.is_float() && is(s)),
                _ => true,
            },
            Ty::Error | Ty::Never => true,
            _ => false,
        }
    }

    /// Makes two types the same; false where they cannot be.
    pub(crate) fn unify(&mut self, a: &Ty, b: &Ty) -> bool {
        let (a, b) = (self.shallow(a), self.shallow(b));
        match (&a, &b) {
            (Ty::Error | Ty::Never, _) | (_, Ty::Error | Ty::Never) => true,
            (Ty::Var(x), Ty::Var(y)) if x == y => true,
            (Ty::Var(x), Ty::Var(y)) => {
                let (gx, gy) = (self.vars[*x].clone(), self.vars[*y].clone());
                match (gx, gy) {
                    (Err(Guess::Any), _) => self.vars[*x] = Ok(b),
                    (_, Err(Guess::Any)) => self.vars[*y] = Ok(a),
                    (Err(g), Err(h)) if g == h => self.vars[*x] = Ok(b),
                    _ => return false,
                }
                true
            }
            (Ty::Var(x), other) | (other, Ty::Var(x)) => {
                let fits = match (&self.vars[*x], other) {
                    (Err(Guess::Any), _) => true,
                    (Err(Guess::Int), Ty::Scalar(s)) => s.is_int(),
                    (Err(Guess::Float), Ty::Scalar(s)) => s.is_float(),
                    _ => false,
                };
                if fits {
                    self.vars[*x] = Ok(other.clone());
                }
                fits
            }
            (Ty::Vector(n, x), Ty::Vector(m, y)) => n == m && self.unify(x, y),
            (Ty::Array(x, n), Ty::Array(y, m)) => n == m && self.unify(x, y),
            (Ty::Option(x), Ty::Option(y)) => self.unify(x, y),
            (Ty::Tuple(x), Ty::Tuple(y)) => {
                x.len() == y.len() && x.iter().zip(y).fold(true, |all, (x, y)| self.unify(x, y) && all)
            }
            _ => a == b,
        }
    }

    /// The type at the end of the function: literals nobody asked anything of are `i32` and `f32`.
    pub(crate) fn resolve(&self, ty: &Ty) -> Option<Ty> {
        match self.shallow(ty) {
            Ty::Var(at) => match self.vars[at] {
                Err(Guess::Int) => Some(I32),
                Err(Guess::Float) => Some(F32),
                _ => None,
            },
            Ty::Vector(n, of) => Some(Ty::Vector(n, Box::new(self.resolve(&of)?))),
            Ty::Array(of, len) => Some(Ty::Array(Box::new(self.resolve(&of)?), len)),
            Ty::Option(of) => Some(Ty::Option(Box::new(self.resolve(&of)?))),
            Ty::Tuple(parts) => {
                parts.iter().map(|part| self.resolve(part)).collect::<Option<_>>().map(Ty::Tuple)
            }
            other => Some(other),
        }
    }
}

/// A type as a user writes it.
pub(crate) struct Shown<'a>(pub(crate) &'a Ty, pub(crate) &'a Infer, pub(crate) &'a Structs<'a>);

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Shown(ty, infer, structs) = self;
        match infer.shallow(ty) {
            Ty::Unit => f.write_str("()"),
            Ty::Never | Ty::Error => f.write_str("!"),
            Ty::Scalar(s) => f.write_str(s.name()),
            Ty::Vector(n, of) => write!(f, "Vec{n}<{}>", Shown(&of, infer, structs)),
            Ty::Array(of, len) => write!(f, "[{}; {len}]", Shown(&of, infer, structs)),
            Ty::Tuple(parts) => {
                let parts = parts.iter().map(|part| Shown(part, infer, structs).to_string());
                write!(f, "({})", parts.collect::<Vec<_>>().join(", "))
            }
            Ty::Option(of) => write!(f, "Option<{}>", Shown(&of, infer, structs)),
            Ty::Enum(at) => write!(f, "{}", structs.choice(at).name),
            Ty::Struct(at) => f.write_str(&structs.show(at, &|ty| Shown(ty, infer, structs).to_string())),
            var @ Ty::Var(_) => f.write_str(match infer.guess(&var) {
                Some(Guess::Int) => "an integer",
                Some(Guess::Float) => "a float",
                _ => "_",
            }),
        }
    }
}
