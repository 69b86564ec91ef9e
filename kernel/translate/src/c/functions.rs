//! Operations: on scalars as C has them or as small functions, on vectors component by component.

use naga::{BinaryOperator, MathFunction, Scalar, ScalarKind, UnaryOperator, VectorSize};

use super::Machine;
use super::dialect::Dialect;
use super::math::exact_name;
use super::program::Program;
use super::types::{CType, axes, short};
use crate::error::{Outcome, refuse};

/// An operation that works on each component by itself.
#[derive(Clone, Copy, Debug)]
pub(super) enum Op {
    Unary(UnaryOperator),
    Binary(BinaryOperator),
    /// To the result's scalar, by value.
    Convert,
    /// To the result's scalar, by bits.
    Bits,
    /// Of accept, reject, condition.
    Select,
    Math(MathFunction),
}

/// A value and its type.
pub(super) type Operand = (String, CType);

/// A scalar value and its type.
pub(super) type ScalarOperand = (String, Scalar);

impl Program<'_> {
    /// The operation on operands of which some may be vectors, which are of one size.
    pub(super) fn apply(&mut self, op: Op, result: CType, operands: &[Operand]) -> Outcome<String> {
        let size = operands
            .iter()
            .find_map(|(_, ty)| if let CType::Vector(size, _) = ty { Some(*size) } else { None });
        let Some(to) = result.component() else {
            return refuse(format!("{op:?} with a result of {result:?}"));
        };
        let Some(size) = size else {
            let operands = operands.iter().map(|(text, ty)| Some((text.clone(), ty.component()?)));
            let Some(operands) = operands.collect::<Option<Vec<_>>>() else {
                return refuse(format!("{op:?} of structs"));
            };
            return self.scalar(op, to, &operands);
        };
        if let Some(text) = self.vector_operation(op, size, to, operands) {
            return Ok(text);
        }
        let name = self.lifted(op, to, size, operands)?;
        Ok(call(&name, operands.iter().map(|(text, _)| text.as_str())))
    }

    /// The operation as the language has it for its own vectors, where that means the same: with floats, and with unsigned integers,
    /// which wrap. Its results are of its operands' type, so comparisons are not among them. Of the functions it is those with one
    /// right result: compilers take them for one instruction, and do not see that in four of them.
    fn vector_operation(
        &self,
        op: Op,
        size: VectorSize,
        scalar: Scalar,
        operands: &[Operand],
    ) -> Option<String> {
        use BinaryOperator as B;
        self.own_vector(size, scalar)?;
        match (op, operands, scalar.kind) {
            (Op::Unary(UnaryOperator::Negate), [(a, _)], ScalarKind::Float) => Some(format!("(-{a})")),
            (
                Op::Binary(op @ (B::Add | B::Subtract | B::Multiply)),
                [(a, _), (b, _)],
                ScalarKind::Float | ScalarKind::Uint,
            )
            | (Op::Binary(op @ B::Divide), [(a, _), (b, _)], ScalarKind::Float) => {
                Some(format!("({a} {} {b})", naga::back::binary_operation_str(op)))
            }
            (Op::Math(fun), operands, ScalarKind::Float) => {
                let name = exact_name(fun)?;
                let are_vectors = operands.iter().all(|(_, ty)| *ty == CType::Vector(size, scalar));
                are_vectors.then(|| call(name, operands.iter().map(|(text, _)| text.as_str())))
            }
            _ => None,
        }
    }

    /// The name of a function that does `op` to each component.
    fn lifted(&mut self, op: Op, to: Scalar, size: VectorSize, operands: &[Operand]) -> Outcome<String> {
        let mut name = format!("w_{}", op_name(op));
        if matches!(op, Op::Convert | Op::Bits) {
            name = format!("{name}_{}", short(to));
        }
        let mut params = Vec::new();
        for ((_, ty), letter) in operands.iter().zip(LETTERS) {
            let c = self.type_name(*ty)?;
            name = match ty {
                CType::Scalar(s) => format!("{name}_{}", short(*s)),
                _ => format!("{name}_{c}"),
            };
            params.push(format!("{c} {letter}"));
        }
        if self.helpers.has(&name) {
            return Ok(name);
        }
        let result = self.type_name(CType::Vector(size, to))?;
        let mut lines = String::new();
        for axis in axes(size) {
            let parts = operands.iter().zip(LETTERS).map(|((_, ty), letter)| match *ty {
                CType::Vector(_, s) => Some((format!("{letter}.{axis}"), s)),
                other => Some((letter.to_string(), other.component()?)),
            });
            let Some(parts) = parts.collect::<Option<Vec<ScalarOperand>>>() else {
                return refuse(format!("{op:?} of structs"));
            };
            lines.push_str(&format!(" r.{axis} = {};", self.scalar(op, to, &parts)?));
        }
        let params = params.join(", ");
        self.helper(&name, || format!("{result} {name}({params}) {{ {result} r;{lines} return r; }}"));
        Ok(name)
    }

    fn scalar(&mut self, op: Op, to: Scalar, operands: &[ScalarOperand]) -> Outcome<String> {
        match (op, operands) {
            (Op::Unary(op), [(a, s)]) => self.unary(op, *s, a),
            (Op::Binary(op), [(a, s), (b, _)]) => self.binary(op, *s, a, b),
            (Op::Convert, [(a, from)]) => self.convert(to, *from, a),
            (Op::Bits, [(a, from)]) => {
                self.type_name(CType::Scalar(to))?;
                Ok(if to == *from { a.clone() } else { self.dialect.bits(to, *from, a) })
            }
            (Op::Select, [(accept, _), (reject, _), (condition, _)]) => {
                Ok(format!("({condition} ? {accept} : {reject})"))
            }
            (Op::Math(fun), operands) => self.scalar_math(fun, to, operands),
            _ => refuse(format!("{op:?} of {} operands", operands.len())),
        }
    }

    fn unary(&mut self, op: UnaryOperator, s: Scalar, a: &str) -> Outcome<String> {
        Ok(match (op, s.kind) {
            (UnaryOperator::Negate, ScalarKind::Sint) => {
                let (c, unsigned) = self.signed_and_unsigned(s)?;
                format!("({c})(({unsigned})0 - ({unsigned}){a})")
            }
            (UnaryOperator::Negate, _) => format!("(-{a})"),
            (UnaryOperator::LogicalNot, _) => format!("(!{a})"),
            (UnaryOperator::BitwiseNot, _) => {
                let c = self.type_name(CType::Scalar(s))?;
                format!("({c})(~{a})")
            }
        })
    }

    fn binary(&mut self, op: BinaryOperator, s: Scalar, a: &str, b: &str) -> Outcome<String> {
        use BinaryOperator as B;
        let sign = naga::back::binary_operation_str(op);
        let plain = format!("({a} {sign} {b})");
        Ok(match (op, s.kind) {
            (B::Modulo, ScalarKind::Float) if s.width == 2 => format!("(half)fmod({a}, {b})"),
            (B::Modulo, ScalarKind::Float) => format!("fmod({a}, {b})"),
            (B::Divide | B::Modulo, ScalarKind::Sint | ScalarKind::Uint) if !is_above_zero(b) => {
                let name = self.division(op, s)?;
                call(&name, [a, b])
            }
            (B::Add | B::Subtract | B::Multiply, ScalarKind::Sint) => {
                let (c, unsigned) = self.signed_and_unsigned(s)?;
                format!("({c})(({unsigned}){a} {sign} ({unsigned}){b})")
            }
            (B::Add | B::Subtract | B::Multiply, ScalarKind::Uint) if s.width == 2 => {
                format!("(ushort)((uint){a} {sign} (uint){b})")
            }
            (B::ShiftLeft, ScalarKind::Sint) => {
                let (c, unsigned) = self.signed_and_unsigned(s)?;
                format!("({c})(({unsigned}){a} << ({b} & {}u))", bits(s) - 1)
            }
            (B::ShiftLeft | B::ShiftRight, _) => {
                let c = self.type_name(CType::Scalar(s))?;
                format!("({c})({a} {sign} ({b} & {}u))", bits(s) - 1)
            }
            (B::And, ScalarKind::Bool) => format!("({a} && {b})"),
            (B::InclusiveOr, ScalarKind::Bool) => format!("({a} || {b})"),
            _ => plain,
        })
    }

    /// The name of an integer's division or remainder that is defined for every pair of values.
    fn division(&mut self, op: BinaryOperator, s: Scalar) -> Outcome<String> {
        let (c, unsigned) = self.signed_and_unsigned(s)?;
        let (verb, otherwise, sign) = match op {
            BinaryOperator::Divide => ("div", "a", "/"),
            _ => ("rem", "0", "%"),
        };
        let name = format!("w_{verb}_{}", short(s));
        let undefined = match s.kind {
            // The least value has no negative.
            ScalarKind::Sint => {
                format!("b == 0 || (b == -1 && a == ({c})(({unsigned})1 << {}))", bits(s) - 1)
            }
            _ => "b == 0".into(),
        };
        self.helper(&name, || {
            format!("{c} {name}({c} a, {c} b) {{ return {undefined} ? {otherwise} : a {sign} b; }}")
        });
        Ok(name)
    }

    fn convert(&mut self, to: Scalar, from: Scalar, a: &str) -> Outcome<String> {
        let c = self.type_name(CType::Scalar(to))?;
        Ok(match (to.kind, from.kind) {
            _ if to == from => a.into(),
            (ScalarKind::Bool, _) => format!("({a} != 0)"),
            (ScalarKind::Sint | ScalarKind::Uint, ScalarKind::Float) => {
                let name = self.saturating(to, from)?;
                call(&name, [a])
            }
            _ => format!("({c}){a}"),
        })
    }

    /// The name of a conversion from floats that gives the nearest bound outside the integer's range, and 0 for NaN.
    fn saturating(&mut self, to: Scalar, from: Scalar) -> Outcome<String> {
        let name = format!("w_{}_from_{}", short(to), short(from));
        let (c, unsigned) = self.signed_and_unsigned(to)?;
        let float = self.type_name(CType::Scalar(from))?;
        // Powers of two, which every float type with such a range represents; half floats are compared as floats.
        let wide = if from.width == 8 { "double" } else { "float" };
        let (least, below, above) = match to.kind {
            ScalarKind::Sint => {
                let top = format!("({wide}){}", 2f64.powi(bits(to) as i32 - 1));
                (format!("({c})(({unsigned})1 << {})", bits(to) - 1), format!("-{top}"), top)
            }
            _ => ("0".into(), "0".into(), format!("({wide}){}", 2f64.powi(bits(to) as i32))),
        };
        let most = match to.kind {
            ScalarKind::Sint => format!("({c})~(({unsigned})1 << {})", bits(to) - 1),
            _ => format!("~({c})0"),
        };
        // Intel's compiler takes an integer's cast back to a float away, and a negative fraction becomes a negative zero then.
        let inside = match (self.dialect, self.machine) {
            (Dialect::OpenClC, Machine::Cpu) => format!("convert_{c}_rtz(v)"),
            _ => format!("({c})v"),
        };
        self.helper(&name, || {
            let cases = format!("v != v ? 0 : v <= {below} ? {least} : v >= {above} ? {most} : {inside}");
            format!("{c} {name}({float} w) {{ const {wide} v = w; return {cases}; }}")
        });
        Ok(name)
    }

    /// An integer type's C name, and that of the unsigned one of its width.
    pub(super) fn signed_and_unsigned(&mut self, s: Scalar) -> Outcome<(String, String)> {
        let c = self.type_name(CType::Scalar(s))?;
        let unsigned = self.type_name(CType::Scalar(Scalar { kind: ScalarKind::Uint, width: s.width }))?;
        // A cast's type is one word or stands in parentheses; `unsigned long long` stands in both.
        Ok((c, unsigned))
    }

    /// Writes one of the writer's own functions, once.
    pub(super) fn helper(&mut self, name: &str, text: impl FnOnce() -> String) {
        let qualifier = self.dialect.function();
        self.helpers.define(name, || format!("{qualifier}{}\n", text()));
    }

    /// A vector of one value.
    pub(super) fn splat(&mut self, size: VectorSize, scalar: Scalar, value: &str) -> Outcome<String> {
        let ty = self.type_name(CType::Vector(size, scalar))?;
        if self.own_vector(size, scalar).is_some() {
            return self.vector_of(size, scalar, value);
        }
        let name = format!("w_splat_{ty}");
        let c = self.type_name(CType::Scalar(scalar))?;
        let value_for_all = self.vector_of(size, scalar, &vec!["v"; size as usize].join(", "))?;
        self.helper(&name, || format!("{ty} {name}({c} v) {{ return {value_for_all}; }}"));
        Ok(call(&name, [value]))
    }

    /// A vector of some of another's components.
    pub(super) fn swizzle(&mut self, from: CType, pattern: &[usize], value: &str) -> Outcome<String> {
        let CType::Vector(_, scalar) = from else {
            return refuse("a swizzle of something other than a vector");
        };
        let Some(size) = vector_size(pattern.len()) else {
            return refuse("a swizzle of that many components");
        };
        let (to, ty) = (self.type_name(CType::Vector(size, scalar))?, self.type_name(from)?);
        let letters: String = pattern.iter().map(|&at| ["x", "y", "z", "w"][at]).collect();
        let name = format!("w_{letters}_{ty}");
        let parts: Vec<_> = letters.chars().map(|axis| format!("v.{axis}")).collect();
        let made = self.vector_of(size, scalar, &parts.join(", "))?;
        self.helper(&name, || format!("{to} {name}({ty} v) {{ return {made}; }}"));
        Ok(call(&name, [value]))
    }

    /// A vector from scalars and shorter vectors.
    pub(super) fn join(&mut self, ty: CType, operands: &[Operand]) -> Outcome<String> {
        let to = self.type_name(ty)?;
        let mut name = format!("w_join_{to}");
        let (mut params, mut parts) = (Vec::new(), Vec::new());
        for ((_, ty), letter) in operands.iter().zip(LETTERS) {
            params.push(format!("{} {letter}", self.type_name(*ty)?));
            match ty {
                CType::Vector(size, _) => {
                    name = format!("{name}_{}", *size as u8);
                    parts.extend(axes(*size).iter().map(|axis| format!("{letter}.{axis}")));
                }
                _ => {
                    name.push_str("_1");
                    parts.push(letter.to_string());
                }
            }
        }
        let (params, parts) = (params.join(", "), parts.join(", "));
        let made = match ty {
            CType::Vector(size, scalar) => self.vector_of(size, scalar, &parts)?,
            _ => self.dialect.compound(&to, &parts),
        };
        self.helper(&name, || format!("{to} {name}({params}) {{ return {made}; }}"));
        Ok(call(&name, operands.iter().map(|(text, _)| text.as_str())))
    }

    /// A vector's component by number; a number outside counts as the last one.
    pub(super) fn component(&mut self, ty: CType, value: &str, index: &str) -> Outcome<String> {
        let CType::Vector(size, scalar) = ty else {
            return refuse("a component of something other than a vector");
        };
        let (c, vector) = (self.type_name(CType::Scalar(scalar))?, self.type_name(ty)?);
        let name = format!("w_at_{vector}");
        let (last, others) = match axes(size) {
            [others @ .., last] => (last, others),
            [] => return refuse("vectors without components"),
        };
        let cases: String =
            others.iter().enumerate().map(|(i, axis)| format!("i == {i} ? v.{axis} : ")).collect();
        self.helper(&name, || format!("{c} {name}({vector} v, uint i) {{ return {cases}v.{last}; }}"));
        Ok(call(&name, [value, index]))
    }
}

/// Parameter names of the writer's own functions.
pub(super) const LETTERS: [&str; 4] = ["a", "b", "c", "d"];

pub(super) fn call<'a>(name: &str, arguments: impl IntoIterator<Item = &'a str>) -> String {
    format!("{name}({})", arguments.into_iter().collect::<Vec<_>>().join(", "))
}

pub(super) fn bits(scalar: Scalar) -> u32 {
    8 * u32::from(scalar.width)
}

pub(super) fn vector_size(components: usize) -> Option<VectorSize> {
    match components {
        2 => Some(VectorSize::Bi),
        3 => Some(VectorSize::Tri),
        4 => Some(VectorSize::Quad),
        _ => None,
    }
}

fn op_name(op: Op) -> String {
    let camel = match op {
        Op::Unary(op) => format!("{op:?}"),
        Op::Binary(op) => format!("{op:?}"),
        Op::Convert => "to".into(),
        Op::Bits => "as".into(),
        Op::Select => "select".into(),
        Op::Math(fun) => format!("{fun:?}"),
    };
    let mut name = String::new();
    for (at, c) in camel.chars().enumerate() {
        if c.is_ascii_uppercase() && at > 0 {
            name.push('_');
        }
        name.push(c.to_ascii_lowercase());
    }
    name
}

/// Whether a text is a number above zero.
fn is_above_zero(text: &str) -> bool {
    text.trim_end_matches(['u', 'l']).parse::<u64>().is_ok_and(|number| number > 0)
}
