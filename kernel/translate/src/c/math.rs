//! The math functions of WGSL, in C's terms.

use naga::{MathFunction as M, Scalar, ScalarKind, VectorSize};

use super::dialect::Dialect;
use super::functions::{Op, Operand, ScalarOperand, bits, call};
use super::program::Program;
use super::types::{CType, axes, short};
use crate::error::{Outcome, refuse};

impl Program<'_> {
    /// A function that works on each component by itself, on one of them.
    pub(super) fn scalar_math(&mut self, fun: M, to: Scalar, operands: &[ScalarOperand]) -> Outcome<String> {
        let Some((a, s)) = operands.first() else { return refuse(format!("{fun:?} of nothing")) };
        let arguments = || operands.iter().map(|(text, _)| text.as_str());
        if let Some(name) = same_name(fun, s.kind) {
            return Ok(call(name, arguments()));
        }
        let c = self.type_name(CType::Scalar(*s))?;
        let float = s.kind == ScalarKind::Float;
        let body = match fun {
            M::Abs if s.kind == ScalarKind::Uint => return Ok(a.clone()),
            M::Abs => {
                let (c, unsigned) = self.signed_and_unsigned(*s)?;
                format!("return a < 0 ? ({c})(({unsigned})0 - ({unsigned})a) : a;")
            }
            M::Min => "return a < b ? a : b;".into(),
            M::Max => "return a > b ? a : b;".into(),
            M::Clamp if float => "return fmin(fmax(a, b), c);".into(),
            M::Clamp => "const T low = a > b ? a : b; return low < c ? low : c;".into(),
            M::Saturate => "return fmin(fmax(a, (T)0), (T)1);".into(),
            M::Radians => "return a * (T)0.017453292519943295;".into(),
            M::Degrees => "return a * (T)57.29577951308232;".into(),
            M::Fract => "return a - floor(a);".into(),
            M::Mix => "return a * ((T)1 - c) + b * c;".into(),
            M::Step => "return b < a ? (T)0 : (T)1;".into(),
            M::SmoothStep => {
                "const T t = fmin(fmax((c - a) / (b - a), (T)0), (T)1); return t * t * ((T)3 - (T)2 * t);"
                    .into()
            }
            M::Sign => "return a > 0 ? (T)1 : a < 0 ? (T)-1 : (T)0;".into(),
            M::Ldexp => "return ldexp(a, b);".into(),
            M::QuantizeToF16 => return self.quantize(a),
            M::CountOneBits => return Ok(format!("({c}){}", self.popcount(*s, a))),
            M::CountLeadingZeros => return Ok(format!("({c}){}", self.leading_zeros(*s, a)?)),
            M::CountTrailingZeros => {
                let ones = self.popcount(*s, "((u & (0 - u)) - 1)");
                format!("const U u = (U)a; return (T)(a == 0 ? {} : {ones});", bits(*s))
            }
            M::FirstTrailingBit => {
                let ones = self.popcount(*s, "((u & (0 - u)) - 1)");
                format!("const U u = (U)a; return a == 0 ? (T)-1 : (T){ones};")
            }
            M::FirstLeadingBit => {
                let zeros = self.leading_zeros(*s, "u")?;
                format!(
                    "const U u = (U)(a < 0 ? ~a : a); return u == 0 ? (T)-1 : (T)({} - {zeros});",
                    bits(*s) - 1
                )
            }
            M::ReverseBits => format!(
                "U u = (U)a, r = 0; for (int i = 0; i < {}; i++) {{ r = (r << 1) | (u & 1); u >>= 1; }} return (T)r;",
                bits(*s)
            ),
            M::ExtractBits => EXTRACT.replace("BITS", &bits(*s).to_string()),
            M::InsertBits => INSERT.replace("BITS", &bits(*s).to_string()),
            other => return refuse(format!("{other:?}")),
        };
        let name = format!("w_{}_{}", format!("{fun:?}").to_lowercase(), short(*s));
        if !self.helpers.has(&name) {
            let result = self.type_name(CType::Scalar(to))?;
            let unsigned = if float { String::new() } else { self.signed_and_unsigned(*s)?.1 };
            let mut params = Vec::new();
            for ((_, s), letter) in operands.iter().zip(super::functions::LETTERS) {
                params.push(format!("{} {letter}", self.type_name(CType::Scalar(*s))?));
            }
            let (params, body) = (params.join(", "), words(&body, &c, &unsigned));
            self.helper(&name, || format!("{result} {name}({params}) {{ {body} }}"));
        }
        Ok(call(&name, arguments()))
    }

    fn popcount(&self, s: Scalar, a: &str) -> String {
        match (self.dialect, s.width) {
            (Dialect::OpenClC, _) => format!("popcount({a})"),
            (Dialect::CudaC, 8) => format!("__popcll({a})"),
            (Dialect::CudaC, _) => format!("__popc({a})"),
        }
    }

    fn leading_zeros(&mut self, s: Scalar, a: &str) -> Outcome<String> {
        let unsigned = self.signed_and_unsigned(s)?.1;
        Ok(match (self.dialect, s.width) {
            (Dialect::OpenClC, _) => format!("clz(({unsigned}){a})"),
            (Dialect::CudaC, 8) => format!("__clzll((long long){a})"),
            (Dialect::CudaC, _) => format!("__clz((int){a})"),
        })
    }

    /// Rounds to the precision of a half float.
    fn quantize(&mut self, a: &str) -> Outcome<String> {
        let (pack, unpack) = (self.half_packer(), self.half_unpacker());
        Ok(call(&unpack, [call(&pack, [a]).as_str()]))
    }

    fn half_packer(&mut self) -> String {
        let body = match self.dialect {
            Dialect::OpenClC => "ushort h; vstore_half(v, 0, (__private half *)&h); return h;",
            Dialect::CudaC => "ushort h; asm(\"cvt.rn.f16.f32 %0, %1;\" : \"=h\"(h) : \"f\"(v)); return h;",
        };
        self.helper("w_half_bits", || format!("uint w_half_bits(float v) {{ {body} }}"));
        "w_half_bits".into()
    }

    fn half_unpacker(&mut self) -> String {
        let body = match self.dialect {
            Dialect::OpenClC => "ushort h = (ushort)v; return vload_half(0, (__private const half *)&h);",
            Dialect::CudaC => {
                "ushort h = v; float f; asm(\"cvt.f32.f16 %0, %1;\" : \"=f\"(f) : \"h\"(h)); return f;"
            }
        };
        self.helper("w_from_half_bits", || format!("float w_from_half_bits(uint v) {{ {body} }}"));
        "w_from_half_bits".into()
    }

    /// A function of whole vectors or matrices; `None` where it is not one.
    pub(super) fn whole_math(
        &mut self,
        fun: M,
        result: CType,
        operands: &[Operand],
    ) -> Outcome<Option<String>> {
        let Some((_, first)) = operands.first() else { return Ok(None) };
        let body = match (fun, *first) {
            (
                M::Dot
                | M::Length
                | M::Distance
                | M::Normalize
                | M::Cross
                | M::FaceForward
                | M::Reflect
                | M::Refract,
                CType::Vector(size, s),
            ) => self.geometry(fun, size, s)?,
            (M::Length, CType::Scalar(_)) => "return fabs(a);".into(),
            (M::Distance, CType::Scalar(_)) => "return fabs(a - b);".into(),
            (M::Transpose | M::Determinant | M::Outer, _) => self.matrix_math(fun, result, operands)?,
            (M::Dot4I8Packed, _) => packed_dot("int", "(int)(", "<< (24 - s)) >> 24"),
            (M::Dot4U8Packed, _) => packed_dot("uint", "(", ">> s) & 255u"),
            _ => match self.packing(fun)? {
                Some(body) => body,
                None => return Ok(None),
            },
        };
        let mut name = format!("w_{}", format!("{fun:?}").to_lowercase());
        let mut params = Vec::new();
        for ((_, ty), letter) in operands.iter().zip(super::functions::LETTERS) {
            let c = self.type_name(*ty)?;
            name = format!("{name}_{}", c.replace(' ', "_"));
            params.push(format!("{c} {letter}"));
        }
        let (result, params) = (self.type_name(result)?, params.join(", "));
        self.helper(&name, || format!("{result} {name}({params}) {{ {} }}", body.replace("RESULT", &result)));
        Ok(Some(call(&name, operands.iter().map(|(text, _)| text.as_str()))))
    }

    fn geometry(&mut self, fun: M, size: VectorSize, s: Scalar) -> Outcome<String> {
        let c = self.type_name(CType::Scalar(s))?;
        let vector = self.type_name(CType::Vector(size, s))?;
        let zero = self.zero_of(CType::Vector(size, s))?;
        // Which does not depend on what it is made of.
        let form_of_all = self.vector_of(size, s, "PARTS")?;
        let each =
            |form: &str| -> Vec<String> { axes(size).iter().map(|axis| form.replace('@', axis)).collect() };
        let dot = |a: &str, b: &str| -> String {
            // In unsigned arithmetic for integers, where C lets signed sums overflow.
            let cast = match (s.kind, s.width) {
                (ScalarKind::Sint, 4) => "(uint)",
                (ScalarKind::Sint, _) if self.dialect == Dialect::OpenClC => "(ulong)",
                (ScalarKind::Sint, _) => "(unsigned long long)",
                _ => "",
            };
            each(&format!("{cast}{a}.@ * {cast}{b}.@")).join(" + ")
        };
        let whole = |parts: &str| form_of_all.replace("PARTS", parts);
        let made = |form: &str| whole(&each(form).join(", "));
        Ok(match fun {
            M::Dot => format!("return ({c})({});", dot("a", "b")),
            M::Length => format!("return sqrt({});", dot("a", "a")),
            M::Distance => {
                format!("const {vector} v = {}; return sqrt({});", made("a.@ - b.@"), dot("v", "v"))
            }
            M::Normalize => format!("const {c} l = sqrt({}); return {};", dot("a", "a"), made("a.@ / l")),
            M::Cross => {
                let parts = "a.y * b.z - a.z * b.y, a.z * b.x - a.x * b.z, a.x * b.y - a.y * b.x";
                format!("return {};", whole(parts))
            }
            M::FaceForward => format!("return {} < 0 ? a : {};", dot("b", "c"), made("-a.@")),
            M::Reflect => {
                format!("const {c} t = ({c})2 * ({}); return {};", dot("a", "b"), made("a.@ - t * b.@"))
            }
            M::Refract => format!(
                "const {c} t = {}, k = ({c})1 - c * c * (({c})1 - t * t); if (k < 0) return {}; \
                 const {c} q = c * t + sqrt(k); return {};",
                dot("b", "a"),
                zero,
                made("c * a.@ - q * b.@")
            ),
            other => return refuse(format!("{other:?}")),
        })
    }

    fn matrix_math(&mut self, fun: M, result: CType, operands: &[Operand]) -> Outcome<String> {
        let Some((_, from)) = operands.first() else { return refuse("a matrix function of nothing") };
        Ok(match (fun, *from, result) {
            (M::Transpose, CType::Matrix(columns, rows, _), CType::Matrix(..)) => {
                let mut lines = String::new();
                for (column, across) in (0..columns as usize).zip(["x", "y", "z", "w"]) {
                    for (row, down) in (0..rows as usize).zip(["x", "y", "z", "w"]) {
                        let (to, from) = (self.column("r", result, row), self.column("a", *from, column));
                        lines.push_str(&format!(" {to}.{across} = {from}.{down};"));
                    }
                }
                format!("RESULT r;{lines} return r;")
            }
            (M::Outer, CType::Vector(..), CType::Matrix(columns, rows, _)) => {
                let mut lines = String::new();
                for (column, across) in (0..columns as usize).zip(["x", "y", "z", "w"]) {
                    for down in axes(rows) {
                        let to = self.column("r", result, column);
                        lines.push_str(&format!(" {to}.{down} = a.{down} * b.{across};"));
                    }
                }
                format!("RESULT r;{lines} return r;")
            }
            (M::Determinant, CType::Matrix(size, ..), _) => {
                let at = |column: usize, row: usize| {
                    format!("{}.{}", self.column("a", *from, column), ["x", "y", "z", "w"][row])
                };
                let all: Vec<usize> = (0..size as usize).collect();
                format!("return {};", determinant(&at, 0, &all))
            }
            _ => return refuse(format!("{fun:?} of {from:?}")),
        })
    }

    /// A matrix' column.
    pub(super) fn column(&self, matrix: &str, ty: CType, at: usize) -> String {
        let padded = matches!(ty, CType::Matrix(_, VectorSize::Tri, _));
        format!("{matrix}.e[{at}]{}", if padded { ".v" } else { "" })
    }

    /// The body of a packing or unpacking function.
    fn packing(&mut self, fun: M) -> Outcome<Option<String>> {
        let pack = |n: usize, form: &str| {
            let parts = (0..n).map(|i| {
                let (axis, shift) = (["x", "y", "z", "w"][i], 32 / n * i);
                format!("(({}) << {shift})", form.replace('@', &format!("a.{axis}")))
            });
            Some(format!("return {};", parts.collect::<Vec<_>>().join(" | ")))
        };
        let unpack = |n: usize, form: &str| {
            let parts = (0..n).map(|i| {
                let (low, high) = (32 / n * i, 32 - 32 / n * (i + 1));
                let axis = ["x", "y", "z", "w"][i];
                format!(
                    " r.{axis} = {};",
                    form.replace("LOW", &low.to_string()).replace("HIGH", &high.to_string())
                )
            });
            Some(format!("RESULT r;{} return r;", parts.collect::<String>()))
        };
        Ok(match fun {
            M::Pack4x8snorm => pack(4, "(uint)(int)rint(fmin(fmax(@, -1.0f), 1.0f) * 127.0f) & 255u"),
            M::Pack4x8unorm => pack(4, "(uint)rint(fmin(fmax(@, 0.0f), 1.0f) * 255.0f)"),
            M::Pack2x16snorm => pack(2, "(uint)(int)rint(fmin(fmax(@, -1.0f), 1.0f) * 32767.0f) & 65535u"),
            M::Pack2x16unorm => pack(2, "(uint)rint(fmin(fmax(@, 0.0f), 1.0f) * 65535.0f)"),
            M::Pack2x16float => {
                let name = self.half_packer();
                pack(2, &format!("{name}(@)"))
            }
            M::Pack4xI8 | M::Pack4xU8 => pack(4, "(uint)@ & 255u"),
            M::Pack4xI8Clamp => pack(4, "(uint)(@ < -128 ? -128 : @ > 127 ? 127 : @) & 255u"),
            M::Pack4xU8Clamp => pack(4, "@ > 255u ? 255u : @"),
            M::Unpack4x8snorm => unpack(4, "fmax((float)((int)(a << HIGH) >> 24) / 127.0f, -1.0f)"),
            M::Unpack4x8unorm => unpack(4, "(float)((a >> LOW) & 255u) / 255.0f"),
            M::Unpack2x16snorm => unpack(2, "fmax((float)((int)(a << HIGH) >> 16) / 32767.0f, -1.0f)"),
            M::Unpack2x16unorm => unpack(2, "(float)((a >> LOW) & 65535u) / 65535.0f"),
            M::Unpack2x16float => {
                let name = self.half_unpacker();
                unpack(2, &format!("{name}((a >> LOW) & 65535u)"))
            }
            M::Unpack4xI8 => unpack(4, "(int)(a << HIGH) >> 24"),
            M::Unpack4xU8 => unpack(4, "(a >> LOW) & 255u"),
            _ => None,
        })
    }

    /// The two parts of a float, as the struct that WGSL gives them in.
    pub(super) fn split(&mut self, fun: M, result: CType, (value, from): &Operand) -> Outcome<String> {
        let (to, c) = (self.type_name(result)?, self.type_name(*from)?);
        let Some(s) = from.component() else { return refuse(format!("{fun:?} of a struct")) };
        let float = self.type_name(CType::Scalar(s))?;
        let step = match fun {
            M::Modf => "r.whole@ = trunc(a@); r.fract@ = a@ - r.whole@;".into(),
            _ => format!("{{ int e; const {float} f = frexp(a@, &e); r.fract@ = f; r.exp_@ = e; }}"),
        };
        let steps = match from {
            CType::Vector(size, _) => {
                axes(*size).iter().map(|axis| step.replace('@', &format!(".{axis}"))).collect()
            }
            _ => step.replace('@', ""),
        };
        let name = format!("w_{}_{c}", format!("{fun:?}").to_lowercase());
        // The members' own names come from the module's.
        let steps = self.member_names(result, steps);
        self.helper(&name, || format!("{to} {name}({c} a) {{ {to} r; {steps} return r; }}"));
        Ok(call(&name, [value.as_str()]))
    }

    fn member_names(&self, ty: CType, steps: String) -> String {
        let CType::Named(handle) = ty else { return steps };
        let member = |at| self.names.of(naga::proc::NameKey::StructMember(handle, at)).to_string();
        let (fract, second) = (member(0), member(1));
        let second = format!("r.{second}");
        steps.replace("r.fract", &format!("r.{fract}")).replace("r.whole", &second).replace("r.exp_", &second)
    }
}

/// Functions of floats whose result is exact, or rounded from the exact one.
pub(super) fn exact_name(fun: M) -> Option<&'static str> {
    Some(match fun {
        M::Abs => "fabs",
        M::Min => "fmin",
        M::Max => "fmax",
        M::Ceil => "ceil",
        M::Floor => "floor",
        M::Round => "rint",
        M::Trunc => "trunc",
        M::Fma => "fma",
        _ => return None,
    })
}

/// Functions with one name in WGSL's sense and C's.
fn same_name(fun: M, kind: ScalarKind) -> Option<&'static str> {
    if kind != ScalarKind::Float {
        return None;
    }
    if let Some(name) = exact_name(fun) {
        return Some(name);
    }
    Some(match fun {
        M::Cos => "cos",
        M::Cosh => "cosh",
        M::Sin => "sin",
        M::Sinh => "sinh",
        M::Tan => "tan",
        M::Tanh => "tanh",
        M::Acos => "acos",
        M::Asin => "asin",
        M::Atan => "atan",
        M::Atan2 => "atan2",
        M::Asinh => "asinh",
        M::Acosh => "acosh",
        M::Atanh => "atanh",
        M::Exp => "exp",
        M::Exp2 => "exp2",
        M::Log => "log",
        M::Log2 => "log2",
        M::Pow => "pow",
        M::Sqrt => "sqrt",
        M::InverseSqrt => "rsqrt",
        _ => return None,
    })
}

/// `T` and `U` as words of a body replaced by the type and its unsigned twin.
fn words(body: &str, ty: &str, unsigned: &str) -> String {
    let (mut text, mut word) = (String::new(), String::new());
    for c in body.chars().chain(['\0']) {
        if c.is_ascii_alphanumeric() || c == '_' {
            word.push(c);
            continue;
        }
        text.push_str(match word.as_str() {
            "T" => ty,
            "U" => unsigned,
            other => other,
        });
        word.clear();
        if c != '\0' {
            text.push(c);
        }
    }
    text
}

/// Bits `b` to `b + c` of `a`, both held inside the width.
const EXTRACT: &str = "const uint o = b < BITSu ? b : BITSu, n = c < BITSu - o ? c : BITSu - o; \
     return n == 0 ? (T)0 : (T)((T)((U)a << (BITSu - n - o)) >> (BITSu - n));";

/// `a` with bits `c` to `c + d` replaced by the low bits of `b`.
const INSERT: &str = "const uint o = c < BITSu ? c : BITSu, n = d < BITSu - o ? d : BITSu - o; if (n == 0) return a; \
     const U mask = (~(U)0 >> (BITSu - n)) << o; return (T)(((U)a & ~mask) | (((U)b << o) & mask));";

fn packed_dot(ty: &str, before: &str, after: &str) -> String {
    let part = |v: &str| format!("(({before}{v} {after}))");
    format!(
        "{ty} r = 0; for (uint s = 0; s < 32u; s += 8u) r += ({}) * ({}); return r;",
        part("a"),
        part("b")
    )
}

/// The expansion along the first of these columns.
fn determinant(at: &dyn Fn(usize, usize) -> String, column: usize, rows: &[usize]) -> String {
    match rows {
        [row] => at(column, *row),
        rows => {
            let mut text = String::new();
            for (i, row) in rows.iter().enumerate() {
                let others: Vec<usize> = rows.iter().copied().filter(|r| r != row).collect();
                let sign = if i % 2 == 0 { "+" } else { "-" };
                text.push_str(&format!(
                    " {sign} {} * ({})",
                    at(column, *row),
                    determinant(at, column + 1, &others)
                ));
            }
            text.trim_start_matches(" + ").into()
        }
    }
}

impl Program<'_> {
    /// A product with a matrix in it; componentwise sums of matrices too.
    pub(super) fn matrix_binary(
        &mut self,
        op: naga::BinaryOperator,
        result: CType,
        operands: &[Operand; 2],
    ) -> Outcome<String> {
        let [(left, a), (right, b)] = operands;
        let sign = naga::back::binary_operation_str(op);
        let body = match (*a, *b, result) {
            (CType::Matrix(columns, rows, _), CType::Vector(..), CType::Vector(..)) => {
                let each = axes(rows).iter().map(|down| {
                    let terms = (0..columns as usize).map(|k| {
                        format!("{}.{down} * b.{}", self.column("a", *a, k), ["x", "y", "z", "w"][k])
                    });
                    format!(" r.{down} = {};", terms.collect::<Vec<_>>().join(" + "))
                });
                each.collect::<String>()
            }
            (CType::Vector(size, _), CType::Matrix(columns, ..), CType::Vector(..)) => {
                let each = (0..columns as usize).map(|k| {
                    let column = self.column("b", *b, k);
                    let terms = axes(size).iter().map(|down| format!("a.{down} * {column}.{down}"));
                    format!(" r.{} = {};", ["x", "y", "z", "w"][k], terms.collect::<Vec<_>>().join(" + "))
                });
                each.collect()
            }
            (CType::Matrix(inner, ..), CType::Matrix(columns, ..), CType::Matrix(_, rows, _))
                if op == naga::BinaryOperator::Multiply =>
            {
                let mut text = String::new();
                for column in 0..columns as usize {
                    for down in axes(rows) {
                        let terms = (0..inner as usize).map(|k| {
                            let (from, across) = (self.column("b", *b, column), ["x", "y", "z", "w"][k]);
                            format!("{}.{down} * {from}.{across}", self.column("a", *a, k))
                        });
                        let to = self.column("r", result, column);
                        text.push_str(&format!(" {to}.{down} = {};", terms.collect::<Vec<_>>().join(" + ")));
                    }
                }
                text
            }
            (_, _, CType::Matrix(columns, rows, _)) => {
                let mut text = String::new();
                for column in 0..columns as usize {
                    for down in axes(rows) {
                        let part = |letter: &str, ty: CType| match ty {
                            CType::Matrix(..) => format!("{}.{down}", self.column(letter, ty, column)),
                            _ => letter.into(),
                        };
                        let (x, y) = (part("a", *a), part("b", *b));
                        text.push_str(&format!(
                            " {}.{down} = {x} {sign} {y};",
                            self.column("r", result, column)
                        ));
                    }
                }
                text
            }
            _ => return refuse(format!("{op:?} of {a:?} and {b:?}")),
        };
        let (x, y, r) = (self.type_name(*a)?, self.type_name(*b)?, self.type_name(result)?);
        let name = format!("w_{}_{x}_{y}", format!("{op:?}").to_lowercase());
        self.helper(&name, || format!("{r} {name}({x} a, {y} b) {{ {r} r;{body} return r; }}"));
        Ok(call(&name, [left.as_str(), right.as_str()]))
    }

    /// Whether all, or any, of a vector's components are true.
    pub(super) fn quantified(&mut self, all: bool, (value, ty): &Operand) -> Outcome<String> {
        let CType::Vector(size, _) = *ty else { return Ok(value.clone()) };
        let c = self.type_name(*ty)?;
        let (name, sign) = if all { (format!("w_all_{c}"), " && ") } else { (format!("w_any_{c}"), " || ") };
        let terms = axes(size).iter().map(|axis| format!("a.{axis}")).collect::<Vec<_>>().join(sign);
        self.helper(&name, || format!("bool {name}({c} a) {{ return {terms}; }}"));
        Ok(call(&name, [value.as_str()]))
    }

    /// A math function of any kind.
    pub(super) fn math(&mut self, fun: M, result: CType, operands: &[Operand]) -> Outcome<String> {
        if matches!(fun, M::Modf | M::Frexp)
            && let [operand] = operands
        {
            return self.split(fun, result, operand);
        }
        match self.whole_math(fun, result, operands)? {
            Some(text) => Ok(text),
            None => self.apply(Op::Math(fun), result, operands),
        }
    }
}
