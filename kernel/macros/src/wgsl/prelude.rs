//! Math and conversions: WGSL's own where it says what Rust says, else written out.

use super::Writer;
use super::stmt::integer;
use crate::builtin::Math;
use crate::ty::{Scalar, Ty};

impl Writer<'_> {
    /// A conversion by `as`.
    pub(super) fn cast(&mut self, to: Scalar, from: Scalar, text: &str) -> String {
        if to == from {
            return text.into();
        }
        if from.is_small() {
            return self.cast_of(to, from.register(), text);
        }
        self.cast_of(to, from, text)
    }

    fn cast_of(&mut self, to: Scalar, from: Scalar, text: &str) -> String {
        if to.is_small() {
            let wide = self.cast(to.register(), from, text);
            return match from.is_float() {
                // What does not fit becomes the nearest bound here, too.
                true => {
                    let (low, high) = to.bounds();
                    format!("clamp({wide}, {}, {})", integer(to, low), integer(to, high))
                }
                false => self.cut(&Ty::Scalar(to), wide),
            };
        }
        if to == from {
            return text.into();
        }
        self.half |= to == Scalar::F16;
        // naga's SPIR-V extends by the sign of the target, where the language goes by that of the source.
        let wide = if from.is_signed() { Scalar::I64 } else { Scalar::U64 };
        if from.is_int() && to.is_int() && from.bits() < to.bits() && to != wide {
            return format!("{}({}({text}))", to.name(), wide.name());
        }
        if !from.is_float() || !to.is_int() {
            return format!("{}({text})", to.name());
        }
        // What does not fit becomes the nearest bound, and what is no number becomes zero.
        let name = format!("w_{}_from_{}", to.name(), from.name());
        if self.helpers.claim(&name) {
            let (low, high) = to.bounds();
            let bound = |writer: &mut Self, value: f64| writer.float(from, value);
            let top = 2f64.powi(to.bits() as i32 - i32::from(to.is_signed()));
            let bottom = if to.is_signed() { -top } else { 0.0 };
            // Half floats do not reach the bounds of any integer.
            let limits = match from {
                Scalar::F16 if to.is_signed() => String::new(),
                Scalar::F16 => format!("    if x <= 0.0h {{ return {}; }}\n", integer(to, 0)),
                _ => format!(
                    "    if x >= {} {{ return {}; }}\n    if x <= {} {{ return {}; }}\n",
                    bound(self, top),
                    integer(to, high),
                    bound(self, bottom),
                    integer(to, low)
                ),
            };
            let nan = match from {
                Scalar::F32 => "(bitcast<u32>(x) & 0x7fffffffu) > 0x7f800000u",
                Scalar::F16 => "(bitcast<u32>(f32(x)) & 0x7fffffffu) > 0x7f800000u",
                _ => "(bitcast<u64>(x) & 0x7ffffffffffffffflu) > 0x7ff0000000000000lu",
            };
            let (to, from, zero) = (to.name(), from.name(), integer(to, 0));
            self.helpers.text.push_str(&format!(
                "fn {name}(x: {from}) -> {to} {{\n    if {nan} {{ return {zero}; }}\n{limits}    return {to}(x);\n}}\n\n"
            ));
        }
        format!("{name}({text})")
    }

    /// A function of numbers on values of type `ty`.
    pub(super) fn math(&mut self, math: Math, ty: &Ty, texts: &[String]) -> String {
        let text = self.math_of_register(math, ty, texts);
        match math {
            Math::Abs | Math::WrappingNeg => self.cut(ty, text),
            _ => text,
        }
    }

    fn math_of_register(&mut self, math: Math, ty: &Ty, texts: &[String]) -> String {
        let all = texts.join(", ");
        let scalar = ty.scalar().unwrap_or(Scalar::F32).register();
        if let Some(name) = same(math) {
            return format!("{name}({all})");
        }
        let a = &texts[0];
        match math {
            Math::Clamp => format!("min(max({a}, {}), {})", texts[1], texts[2]),
            Math::Signum if scalar.is_int() => format!("sign({a})"),
            Math::Recip => format!("({} / {a})", self.one(ty)),
            Math::Log10 => {
                let factor = self.float(scalar, std::f64::consts::LOG10_E);
                format!("(log({a}) * {factor})")
            }
            Math::WrappingNeg if scalar.is_signed() => format!("(-{a})"),
            Math::WrappingNeg => format!("({} - {a})", integer(scalar, 0)),
            Math::ToBits => format!("bitcast<u32>({a})"),
            Math::CountOnes | Math::LeadingZeros | Math::TrailingZeros => {
                let name = match math {
                    Math::CountOnes => "countOneBits",
                    Math::LeadingZeros => "countLeadingZeros",
                    _ => "countTrailingZeros",
                };
                format!("u32({name}({a}))")
            }
            _ => self.written_out(math, ty, scalar, &all),
        }
    }

    fn one(&mut self, ty: &Ty) -> String {
        let one = self.float(ty.scalar().unwrap_or(Scalar::F32), 1.0);
        match ty {
            Ty::Vector(..) => format!("{}({one})", self.ty(ty)),
            _ => one,
        }
    }

    /// A function that WGSL does not have, or not in Rust's sense.
    fn written_out(&mut self, math: Math, ty: &Ty, scalar: Scalar, all: &str) -> String {
        let name = format!("w_{}_{}", math.name(), scalar.name());
        if self.helpers.claim(&name) {
            let text =
                definition(math, scalar).replace("NAME", &name).replace("T(", &format!("{}(", scalar.name()));
            let text = text
                .replace(": T", &format!(": {}", scalar.name()))
                .replace("-> T", &format!("-> {}", scalar.name()));
            self.helpers.text.push_str(&text);
        }
        let Ty::Vector(n, _) = ty else { return format!("{name}({all})") };
        let lifted = format!("{name}_{n}");
        if self.helpers.claim(&lifted) {
            let shown = self.ty(ty);
            let parts: Vec<String> =
                "xyzw".chars().take(*n as usize).map(|axis| format!("{name}(v.{axis})")).collect();
            let made = parts.join(", ");
            self.helpers.text.push_str(&format!(
                "fn {lifted}(v: {shown}) -> {shown} {{\n    return {shown}({made});\n}}\n\n"
            ));
        }
        format!("{lifted}({all})")
    }
}

/// The functions that WGSL has under another name or its own, in the same sense.
fn same(math: Math) -> Option<&'static str> {
    Some(match math {
        Math::Abs => "abs",
        Math::Min => "min",
        Math::Max => "max",
        Math::Sqrt => "sqrt",
        Math::Sin => "sin",
        Math::Cos => "cos",
        Math::Tan => "tan",
        Math::Asin => "asin",
        Math::Acos => "acos",
        Math::Atan => "atan",
        Math::Atan2 => "atan2",
        Math::Sinh => "sinh",
        Math::Cosh => "cosh",
        Math::Tanh => "tanh",
        Math::Asinh => "asinh",
        Math::Acosh => "acosh",
        Math::Atanh => "atanh",
        Math::Exp => "exp",
        Math::Exp2 => "exp2",
        Math::Ln => "log",
        Math::Log2 => "log2",
        Math::Powf => "pow",
        Math::Floor => "floor",
        Math::Ceil => "ceil",
        Math::RoundTiesEven => "round",
        Math::Trunc => "trunc",
        Math::MulAdd => "fma",
        Math::ToDegrees => "degrees",
        Math::ToRadians => "radians",
        Math::ReverseBits => "reverseBits",
        Math::Dot => "dot",
        Math::Cross => "cross",
        Math::Length => "length",
        Math::Distance => "distance",
        Math::Normalize => "normalize",
        _ => return None,
    })
}

/// The text of a function for scalars of a type `T`.
fn definition(math: Math, scalar: Scalar) -> &'static str {
    match (math, scalar) {
        (Math::Fract, _) => "fn NAME(x: T) -> T {\n    return x - trunc(x);\n}\n\n",
        // Halves go away from zero, in Rust; WGSL's `round` takes them to the even side.
        (Math::Round, _) => {
            "fn NAME(x: T) -> T {\n    let t = trunc(x);\n    if abs(x - t) >= T(0.5) { return t + sign(x); }\n    return t;\n}\n\n"
        }
        (Math::Signum, Scalar::F32) => {
            "fn NAME(x: T) -> T {\n    return bitcast<f32>((bitcast<u32>(x) & 0x80000000u) | 0x3f800000u);\n}\n\n"
        }
        (Math::Signum, _) => "fn NAME(x: T) -> T {\n    return select(T(1.0), T(-1.0), x < T(0.0));\n}\n\n",
        (Math::Copysign, _) => {
            "fn NAME(x: T, y: T) -> T {\n    return bitcast<f32>((bitcast<u32>(x) & 0x7fffffffu) | (bitcast<u32>(y) & \
             0x80000000u));\n}\n\n"
        }
        (Math::IsNan, _) => {
            "fn NAME(x: T) -> bool {\n    return (bitcast<u32>(x) & 0x7fffffffu) > 0x7f800000u;\n}\n\n"
        }
        (Math::FromBits, _) => "fn NAME(x: u32) -> f32 {\n    return bitcast<f32>(x);\n}\n\n",
        (Math::RotateLeft, Scalar::U32) => {
            "fn NAME(x: T, n: u32) -> T {\n    return (x << (n & 31u)) | (x >> ((32u - (n & 31u)) & 31u));\n}\n\n"
        }
        (Math::RotateRight, Scalar::U32) => {
            "fn NAME(x: T, n: u32) -> T {\n    return (x >> (n & 31u)) | (x << ((32u - (n & 31u)) & 31u));\n}\n\n"
        }
        (Math::RotateLeft, _) => {
            "fn NAME(x: T, n: u32) -> T {\n    let u = u32(x);\n    return T((u << (n & 31u)) | (u >> ((32u - (n & 31u)) & \
             31u)));\n}\n\n"
        }
        (Math::RotateRight, _) => {
            "fn NAME(x: T, n: u32) -> T {\n    let u = u32(x);\n    return T((u >> (n & 31u)) | (u << ((32u - (n & 31u)) & \
             31u)));\n}\n\n"
        }
        (Math::AbsDiff, Scalar::I32) => {
            "fn NAME(x: T, y: T) -> u32 {\n    return u32(max(x, y)) - u32(min(x, y));\n}\n\n"
        }
        (Math::AbsDiff, Scalar::I64) => {
            "fn NAME(x: T, y: T) -> u64 {\n    return u64(max(x, y)) - u64(min(x, y));\n}\n\n"
        }
        (Math::AbsDiff, _) => "fn NAME(x: T, y: T) -> T {\n    return max(x, y) - min(x, y);\n}\n\n",
        _ => "",
    }
}
