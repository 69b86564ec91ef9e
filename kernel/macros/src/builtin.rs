//! What the language brings along: positions, math functions, constants.

use crate::ty::Scalar;

/// A position or an extent of the launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Id {
    Global,
    GlobalSize,
    Local,
    LocalSize,
    Group,
    Groups,
}

impl Id {
    pub(crate) const ALL: [(&'static str, Id); 6] = [
        ("global_id", Id::Global),
        ("global_size", Id::GlobalSize),
        ("local_id", Id::Local),
        ("local_size", Id::LocalSize),
        ("group_id", Id::Group),
        ("group_count", Id::Groups),
    ];

    pub(crate) fn name(self) -> &'static str {
        Id::ALL.iter().find(|(_, id)| *id == self).map_or("", |(name, _)| name)
    }

    /// Whether only launches with work-groups have it.
    pub(crate) fn needs_groups(self) -> bool {
        !matches!(self, Id::Global | Id::GlobalSize)
    }
}

/// What a work-item does together with its sub-group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum SubgroupOp {
    Size,
    Lane,
    Add,
    Min,
    Max,
    InclusiveAdd,
    ExclusiveAdd,
    All,
    Any,
    First,
    Shuffle,
    Ballot,
    Barrier,
    Id,
    Count,
}

impl SubgroupOp {
    /// Each with its name in the language and in WGSL.
    const ALL: [(&'static str, SubgroupOp, &'static str); 15] = [
        ("subgroup_size", SubgroupOp::Size, "subgroup_size"),
        ("subgroup_lane", SubgroupOp::Lane, "subgroup_invocation_id"),
        ("subgroup_add", SubgroupOp::Add, "subgroupAdd"),
        ("subgroup_min", SubgroupOp::Min, "subgroupMin"),
        ("subgroup_max", SubgroupOp::Max, "subgroupMax"),
        ("subgroup_inclusive_add", SubgroupOp::InclusiveAdd, "subgroupInclusiveAdd"),
        ("subgroup_exclusive_add", SubgroupOp::ExclusiveAdd, "subgroupExclusiveAdd"),
        ("subgroup_all", SubgroupOp::All, "subgroupAll"),
        ("subgroup_any", SubgroupOp::Any, "subgroupAny"),
        ("subgroup_first", SubgroupOp::First, "subgroupBroadcastFirst"),
        ("subgroup_shuffle", SubgroupOp::Shuffle, "subgroupShuffle"),
        ("subgroup_ballot", SubgroupOp::Ballot, "subgroupBallot"),
        ("subgroup_barrier", SubgroupOp::Barrier, "subgroupBarrier"),
        ("subgroup_id", SubgroupOp::Id, "subgroup_id"),
        ("subgroup_count", SubgroupOp::Count, "num_subgroups"),
    ];

    pub(crate) fn from_name(name: &str) -> Option<SubgroupOp> {
        SubgroupOp::ALL.iter().find(|(known, ..)| *known == name).map(|(_, op, _)| *op)
    }

    pub(crate) fn name(self) -> &'static str {
        SubgroupOp::ALL.iter().find(|(_, op, _)| *op == self).map_or("", |(name, ..)| name)
    }

    /// WGSL's function; of numbers, the entry point's parameter.
    pub(crate) fn wgsl(self) -> &'static str {
        SubgroupOp::ALL.iter().find(|(_, op, _)| *op == self).map_or("", |(.., wgsl)| wgsl)
    }

    /// Whether it is a number that each item knows for itself.
    pub(crate) fn is_number(self) -> bool {
        matches!(self, SubgroupOp::Size | SubgroupOp::Lane | SubgroupOp::Id | SubgroupOp::Count)
    }

    pub(crate) fn operands(self) -> usize {
        match self {
            SubgroupOp::Barrier => 0,
            _ if self.is_number() => 0,
            SubgroupOp::Shuffle => 2,
            _ => 1,
        }
    }
}

/// Which numbers a function takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Domain {
    Float,
    /// `f32` alone.
    Single,
    /// 32-bit integers.
    Word,
    Int,
    /// Integers without a sign.
    Unsigned,
    /// All numbers.
    Number,
    /// Numbers with a sign.
    Signed,
    /// Vectors of floats.
    FloatVector,
}

/// What a function's value is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Gives {
    /// Of the receiver's type.
    Same,
    /// The receiver's scalar.
    Component,
    Bool,
    U32,
    F32,
}

/// A function of numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Math {
    Abs,
    Signum,
    Min,
    Max,
    Clamp,
    Sqrt,
    Recip,
    Sin,
    Cos,
    Tan,
    Asin,
    Acos,
    Atan,
    Atan2,
    Sinh,
    Cosh,
    Tanh,
    Asinh,
    Acosh,
    Atanh,
    Exp,
    Exp2,
    Ln,
    Log2,
    Log10,
    Powf,
    Floor,
    Ceil,
    Round,
    RoundTiesEven,
    Trunc,
    Fract,
    MulAdd,
    Copysign,
    ToDegrees,
    ToRadians,
    IsNan,
    ToBits,
    FromBits,
    CountOnes,
    LeadingZeros,
    TrailingZeros,
    ReverseBits,
    RotateLeft,
    RotateRight,
    WrappingNeg,
    AbsDiff,
    Dot,
    Cross,
    Length,
    Distance,
    Normalize,
}

/// A method: its name, how many operands stand in the parentheses, what it takes and what it gives.
pub(crate) struct Method {
    pub(crate) name: &'static str,
    pub(crate) math: Math,
    pub(crate) operands: usize,
    pub(crate) on: Domain,
    pub(crate) gives: Gives,
}

const fn method(name: &'static str, math: Math, operands: usize, on: Domain, gives: Gives) -> Method {
    Method { name, math, operands, on, gives }
}

use Domain::{Float, FloatVector, Int, Number, Signed, Single, Unsigned, Word};
use Gives::{Bool, Component, F32, Same, U32};

pub(crate) const METHODS: &[Method] = &[
    method("abs", Math::Abs, 0, Signed, Same),
    method("signum", Math::Signum, 0, Signed, Same),
    method("min", Math::Min, 1, Number, Same),
    method("max", Math::Max, 1, Number, Same),
    method("clamp", Math::Clamp, 2, Number, Same),
    method("sqrt", Math::Sqrt, 0, Float, Same),
    method("recip", Math::Recip, 0, Float, Same),
    method("sin", Math::Sin, 0, Float, Same),
    method("cos", Math::Cos, 0, Float, Same),
    method("tan", Math::Tan, 0, Float, Same),
    method("asin", Math::Asin, 0, Float, Same),
    method("acos", Math::Acos, 0, Float, Same),
    method("atan", Math::Atan, 0, Float, Same),
    method("atan2", Math::Atan2, 1, Float, Same),
    method("sinh", Math::Sinh, 0, Float, Same),
    method("cosh", Math::Cosh, 0, Float, Same),
    method("tanh", Math::Tanh, 0, Float, Same),
    method("asinh", Math::Asinh, 0, Float, Same),
    method("acosh", Math::Acosh, 0, Float, Same),
    method("atanh", Math::Atanh, 0, Float, Same),
    method("exp", Math::Exp, 0, Float, Same),
    method("exp2", Math::Exp2, 0, Float, Same),
    method("ln", Math::Ln, 0, Float, Same),
    method("log2", Math::Log2, 0, Float, Same),
    method("log10", Math::Log10, 0, Float, Same),
    method("powf", Math::Powf, 1, Float, Same),
    method("floor", Math::Floor, 0, Float, Same),
    method("ceil", Math::Ceil, 0, Float, Same),
    method("round", Math::Round, 0, Float, Same),
    method("round_ties_even", Math::RoundTiesEven, 0, Float, Same),
    method("trunc", Math::Trunc, 0, Float, Same),
    method("fract", Math::Fract, 0, Float, Same),
    method("mul_add", Math::MulAdd, 2, Float, Same),
    method("copysign", Math::Copysign, 1, Single, Same),
    method("to_degrees", Math::ToDegrees, 0, Float, Same),
    method("to_radians", Math::ToRadians, 0, Float, Same),
    method("is_nan", Math::IsNan, 0, Single, Bool),
    method("to_bits", Math::ToBits, 0, Single, U32),
    method("count_ones", Math::CountOnes, 0, Word, U32),
    method("leading_zeros", Math::LeadingZeros, 0, Word, U32),
    method("trailing_zeros", Math::TrailingZeros, 0, Word, U32),
    method("reverse_bits", Math::ReverseBits, 0, Word, Same),
    method("rotate_left", Math::RotateLeft, 1, Word, Same),
    method("rotate_right", Math::RotateRight, 1, Word, Same),
    method("wrapping_neg", Math::WrappingNeg, 0, Int, Same),
    method("abs_diff", Math::AbsDiff, 1, Int, Same),
    method("dot", Math::Dot, 1, FloatVector, Component),
    method("cross", Math::Cross, 1, FloatVector, Same),
    method("length", Math::Length, 0, FloatVector, Component),
    method("distance", Math::Distance, 1, FloatVector, Component),
    method("normalize", Math::Normalize, 0, FloatVector, Same),
];

/// `f32::from_bits`, a function and no method.
pub(crate) const FROM_BITS: Method = method("from_bits", Math::FromBits, 0, Int, F32);

pub(crate) fn find(name: &str) -> Option<&'static Method> {
    METHODS.iter().find(|m| m.name == name)
}

impl Math {
    /// The method's name in Rust.
    pub(crate) fn name(self) -> &'static str {
        METHODS.iter().chain([&FROM_BITS]).find(|m| m.math == self).map_or("", |m| m.name)
    }
}

impl Domain {
    /// Whether a scalar may be one of these.
    pub(crate) fn takes(self, scalar: Scalar) -> bool {
        match self {
            Float | FloatVector => scalar.is_float(),
            Single => scalar == Scalar::F32,
            Word => scalar.is_int() && scalar.bits() == 32,
            Int => scalar.is_int(),
            Unsigned => scalar.is_int() && !scalar.is_signed(),
            Number => scalar != Scalar::Bool,
            Signed => scalar.is_signed(),
        }
    }

    pub(crate) fn words(self) -> &'static str {
        match self {
            Float => "floats",
            Single => "`f32`",
            Word => "`u32` and `i32`",
            Int => "integers",
            Unsigned => "integers without a sign",
            Number => "numbers",
            Signed => "numbers with a sign",
            FloatVector => "vectors of floats",
        }
    }

    /// Whether vectors are taken component by component, or, for `FloatVector`, as a whole.
    pub(crate) fn vectors(self, math: Math) -> bool {
        match self {
            FloatVector => true,
            Float => !matches!(math, Math::Atan2),
            Number | Signed => true,
            Single | Word | Int | Unsigned => false,
        }
    }
}

/// Associated constants of the scalars.
pub(crate) fn constant(scalar: Scalar, name: &str) -> Option<ConstValue> {
    use ConstValue::{Float, Int};
    if scalar == Scalar::Bool {
        return None;
    }
    if scalar.is_int() {
        let (low, high) = scalar.bounds();
        return match name {
            "MIN" => Some(Int(low)),
            "MAX" => Some(Int(high)),
            "BITS" => Some(Int(i128::from(scalar.bits()))),
            _ => None,
        };
    }
    match (scalar, name) {
        (_, "INFINITY") => Some(Float(f64::INFINITY)),
        (_, "NEG_INFINITY") => Some(Float(f64::NEG_INFINITY)),
        (Scalar::F32, "MAX") => Some(Float(f64::from(f32::MAX))),
        (Scalar::F32, "MIN") => Some(Float(f64::from(f32::MIN))),
        (Scalar::F32, "EPSILON") => Some(Float(f64::from(f32::EPSILON))),
        (Scalar::F32, "MIN_POSITIVE") => Some(Float(f64::from(f32::MIN_POSITIVE))),
        (Scalar::F16, "MAX") => Some(Float(65504.0)),
        (Scalar::F16, "MIN") => Some(Float(-65504.0)),
        (Scalar::F16, "EPSILON") => Some(Float(f64::from(f32::EPSILON) * 8192.0)),
        (Scalar::F64, "MAX") => Some(Float(f64::MAX)),
        (Scalar::F64, "MIN") => Some(Float(f64::MIN)),
        (Scalar::F64, "EPSILON") => Some(Float(f64::EPSILON)),
        _ => None,
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum ConstValue {
    Int(i128),
    Float(f64),
}

/// The constants of `core::f32::consts` and `core::f64::consts`.
pub(crate) fn math_constant(name: &str) -> Option<f64> {
    use std::f64::consts as c;
    Some(match name {
        "PI" => c::PI,
        "TAU" => c::TAU,
        "E" => c::E,
        "SQRT_2" => c::SQRT_2,
        "LN_2" => c::LN_2,
        "LN_10" => c::LN_10,
        "FRAC_PI_2" => c::FRAC_PI_2,
        "FRAC_PI_4" => c::FRAC_PI_4,
        "FRAC_1_PI" => c::FRAC_1_PI,
        "FRAC_1_SQRT_2" => c::FRAC_1_SQRT_2,
        _ => return None,
    })
}
