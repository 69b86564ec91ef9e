//! Expressions: values, and places that pointers name.

use naga::back::FunctionType;
use naga::proc::index::{GuardedIndex, IndexableLength, access_needs_check};
use naga::proc::{NameKey, TypeResolution};
use naga::{
    AddressSpace, ArraySize, Expression, Handle, Literal, Scalar, ScalarKind, Type, TypeInner, VectorSize,
};

use super::body::Body;
use super::functions::{Op, Operand, call};
use super::program::Program;
use super::settled::memory_of;
use super::types::CType;
use super::{Bounds, Machine};
use crate::error::{Outcome, refuse};

/// What an access goes into.
enum Into {
    Struct(Handle<Type>),
    /// Whether the element is wrapped to reach the stride.
    Array {
        padded: bool,
        dynamic: bool,
    },
    Vector(VectorSize, Scalar),
    Matrix(CType),
}

impl Body<'_, '_> {
    pub(super) fn inner(&self, handle: Handle<Expression>) -> &TypeInner {
        self.info[handle].ty.inner_with(&self.program.checked.module.types)
    }

    /// The type of an expression's value.
    pub(super) fn type_of(&self, handle: Handle<Expression>) -> Outcome<CType> {
        match &self.info[handle].ty {
            TypeResolution::Handle(ty) => self.program.c_type(*ty),
            TypeResolution::Value(inner) => self.program.c_inner(inner),
        }
    }

    /// The space of a pointer, and its scalar where it points to an atomic.
    pub(super) fn pointer(&self, handle: Handle<Expression>) -> Option<(AddressSpace, Option<Scalar>)> {
        match *self.inner(handle) {
            TypeInner::Pointer { base, space } => match self.program.checked.module.types[base].inner {
                TypeInner::Atomic(scalar) => Some((space, Some(scalar))),
                _ => Some((space, None)),
            },
            TypeInner::ValuePointer { space, .. } => Some((space, None)),
            _ => None,
        }
    }

    /// An expression's value, or for a pointer its address.
    pub(super) fn value(&mut self, handle: Handle<Expression>) -> Outcome<String> {
        if let Some(name) = self.named.get(&handle) {
            return Ok(name.clone());
        }
        if let Some(name) = self.flat_member(handle) {
            return Ok(name.into());
        }
        if self.pointer(handle).is_some() {
            return Ok(format!("&{}", self.place(handle)?));
        }
        let result = |body: &Self| body.type_of(handle);
        match self.function.expressions[handle] {
            Expression::Literal(literal) => self.program.literal(literal),
            Expression::Constant(constant) => self.program.constant(constant),
            Expression::ZeroValue(ty) => {
                let ty = self.program.c_type(ty)?;
                self.program.zero(ty)
            }
            Expression::Compose { ty, ref components } => {
                let operands = self.operands(components)?;
                let ty = self.program.c_type(ty)?;
                self.program.compose(ty, &operands)
            }
            Expression::Splat { size, value } => {
                let Some(scalar) = self.type_of(value)?.component() else {
                    return refuse("a vector of structs");
                };
                let value = self.value(value)?;
                self.program.splat(size, scalar, &value)
            }
            Expression::Swizzle { size, vector, pattern } => {
                let (ty, value) = (self.type_of(vector)?, self.value(vector)?);
                let pattern: Vec<usize> = pattern[..size as usize].iter().map(|&c| c as usize).collect();
                self.program.swizzle(ty, &pattern, &value)
            }
            Expression::Access { base, index } => {
                let of = self.value(base)?;
                let into = self.goes_into(base)?;
                if let Into::Vector(size, scalar) = into {
                    let index = self.value(index)?;
                    return self.program.component(
                        CType::Vector(size, scalar),
                        &of,
                        &format!("(uint)({index})"),
                    );
                }
                let index = self.index(base, index)?;
                Ok(self.indexed(&of, &into, &index))
            }
            Expression::AccessIndex { base, index } => {
                let of = self.value(base)?;
                let into = self.goes_into(base)?;
                Ok(self.member(&of, &into, index))
            }
            Expression::FunctionArgument(at) => Ok(self.argument(at)),
            Expression::Load { pointer } => self.load(pointer),
            Expression::Unary { op, expr } => self.apply(Op::Unary(op), result(self)?, &[expr]),
            Expression::Binary { op, left, right } => self.binary(op, result(self)?, left, right),
            Expression::Select { condition, accept, reject } => {
                let scalar = matches!(self.type_of(condition)?, CType::Scalar(_));
                match scalar {
                    true => {
                        let [c, a, r] = [self.value(condition)?, self.value(accept)?, self.value(reject)?];
                        Ok(format!("({c} ? {a} : {r})"))
                    }
                    false => self.apply(Op::Select, result(self)?, &[accept, reject, condition]),
                }
            }
            Expression::Relational { fun, argument } => {
                use naga::RelationalFunction as R;
                let operand = (self.value(argument)?, self.type_of(argument)?);
                match fun {
                    R::All | R::Any => self.program.quantified(fun == R::All, &operand),
                    other => refuse(format!("{other:?}")),
                }
            }
            Expression::Math { fun, arg, arg1, arg2, arg3 } => {
                let arguments: Vec<_> = [Some(arg), arg1, arg2, arg3].into_iter().flatten().collect();
                let operands = self.operands(&arguments)?;
                self.program.math(fun, result(self)?, &operands)
            }
            Expression::As { expr, convert, .. } => {
                let op = if convert.is_some() { Op::Convert } else { Op::Bits };
                match (result(self)?, self.type_of(expr)?) {
                    (to, from) if to == from => self.value(expr),
                    (CType::Matrix(..), _) => refuse("conversions of matrices"),
                    (to, _) => self.apply(op, to, &[expr]),
                }
            }
            Expression::ArrayLength(pointer) => match self.length_of(pointer) {
                Some(name) => Ok(name),
                None => refuse("the length of an array that is no binding's"),
            },
            ref other => refuse(format!("{other:?}")),
        }
    }

    fn apply(&mut self, op: Op, result: CType, operands: &[Handle<Expression>]) -> Outcome<String> {
        let operands = self.operands(operands)?;
        self.program.apply(op, result, &operands)
    }

    fn operands(&mut self, handles: &[Handle<Expression>]) -> Outcome<Vec<Operand>> {
        handles.iter().map(|&handle| Ok((self.value(handle)?, self.type_of(handle)?))).collect()
    }

    fn binary(
        &mut self,
        op: naga::BinaryOperator,
        result: CType,
        left: Handle<Expression>,
        right: Handle<Expression>,
    ) -> Outcome<String> {
        let operands = [(self.value(left)?, self.type_of(left)?), (self.value(right)?, self.type_of(right)?)];
        match operands.iter().any(|(_, ty)| matches!(ty, CType::Matrix(..))) {
            true => self.program.matrix_binary(op, result, &operands),
            false => self.program.apply(Op::Binary(op), result, &operands),
        }
    }

    fn argument(&self, at: u32) -> String {
        let key = naga::back::FunctionCtx {
            ty: self.ty,
            info: self.info,
            expressions: &self.function.expressions,
            named_expressions: &self.function.named_expressions,
        }
        .argument_key(at);
        self.program.names.of(key).to_string()
    }

    /// The name of the parameter that an expression loads, if it loads a member that is passed by itself.
    pub(super) fn flat_member(&self, of: Handle<Expression>) -> Option<&str> {
        let Expression::Load { pointer } = self.function.expressions[of] else { return None };
        let Expression::AccessIndex { base, index } = self.function.expressions[pointer] else { return None };
        let Expression::GlobalVariable(global) = self.function.expressions[base] else { return None };
        self.program.flat_member(global, index)
    }

    pub(super) fn load(&mut self, pointer: Handle<Expression>) -> Outcome<String> {
        let place = self.place(pointer)?;
        match self.pointer(pointer) {
            Some((space, Some(scalar))) if !self.is_settled(pointer) => {
                self.program.atomic_load(space, scalar, &place)
            }
            _ => Ok(place),
        }
    }

    /// Whether nobody writes the memory that a place is in while this function runs.
    fn is_settled(&self, place: Handle<Expression>) -> bool {
        let FunctionType::Function(function) = self.ty else { return false };
        memory_of(self.function, place).is_some_and(|of| self.program.settled.contains(&(function, of)))
    }

    /// What a pointer points to, as something that can be assigned to.
    pub(super) fn place(&mut self, handle: Handle<Expression>) -> Outcome<String> {
        match self.function.expressions[handle] {
            Expression::GlobalVariable(global) => {
                let name = self.program.names.of(NameKey::GlobalVariable(global)).to_string();
                let ty = self.program.checked.module.global_variables[global].ty;
                match self.program.checked.module.types[ty].inner {
                    // The parameter points to the first element.
                    TypeInner::Array { size: ArraySize::Dynamic, .. } => Ok(name),
                    _ => Ok(format!("(*{name})")),
                }
            }
            Expression::LocalVariable(local) => Ok(self.local(local)),
            Expression::FunctionArgument(at) => Ok(format!("(*{})", self.argument(at))),
            Expression::Access { base, index } => {
                let into = self.goes_into(base)?;
                let of = self.place(base)?;
                let index = self.index(base, index)?;
                if let Into::Vector(_, scalar) = into {
                    let c = self.program.type_name(CType::Scalar(scalar))?;
                    let space =
                        self.pointer(base).map_or("", |(space, _)| self.program.dialect.pointer(space));
                    return Ok(format!("(({space}{c} *)&{of})[{index}]"));
                }
                Ok(self.indexed(&of, &into, &index))
            }
            Expression::AccessIndex { base, index } => {
                let into = self.goes_into(base)?;
                if let Into::Array { .. } | Into::Matrix(_) = into {
                    let of = self.place(base)?;
                    let index = self.known_index(base, index)?;
                    return Ok(self.indexed(&of, &into, &index));
                }
                let of = self.place(base)?;
                Ok(self.member(&of, &into, index))
            }
            ref other => refuse(format!("a pointer from {other:?}")),
        }
    }

    fn goes_into(&mut self, base: Handle<Expression>) -> Outcome<Into> {
        let (inner, handle) = match (self.inner(base), &self.info[base].ty) {
            (&TypeInner::Pointer { base, .. }, _) => {
                (self.program.checked.module.types[base].inner.clone(), Some(base))
            }
            (&TypeInner::ValuePointer { size: Some(size), scalar, .. }, _) => {
                (TypeInner::Vector { size, scalar }, None)
            }
            (inner, TypeResolution::Handle(handle)) => (inner.clone(), Some(*handle)),
            (inner, _) => (inner.clone(), None),
        };
        Ok(match (inner, handle) {
            (TypeInner::Struct { .. }, Some(handle)) => Into::Struct(handle),
            (TypeInner::Array { base, size, stride }, _) => {
                let (_, padded) = self.program.element(base, stride)?;
                Into::Array { padded, dynamic: size == ArraySize::Dynamic }
            }
            (TypeInner::Vector { size, scalar }, _) => Into::Vector(size, scalar),
            (TypeInner::Matrix { columns, rows, scalar }, _) => {
                Into::Matrix(CType::Matrix(columns, rows, scalar))
            }
            (other, _) => return refuse(format!("an access into {other:?}")),
        })
    }

    fn indexed(&self, of: &str, into: &Into, index: &str) -> String {
        match into {
            Into::Array { padded, dynamic } => {
                let elements = if *dynamic { "" } else { ".e" };
                format!("{of}{elements}[{index}]{}", if *padded { ".v" } else { "" })
            }
            Into::Matrix(CType::Matrix(_, VectorSize::Tri, _)) => format!("{of}.e[{index}].v"),
            _ => format!("{of}.e[{index}]"),
        }
    }

    fn member(&self, of: &str, into: &Into, index: u32) -> String {
        match into {
            Into::Struct(ty) => format!("{of}.{}", self.program.names.of(NameKey::StructMember(*ty, index))),
            Into::Vector(..) => format!("{of}.{}", ["x", "y", "z", "w"][index as usize]),
            other => self.indexed(of, other, &index.to_string()),
        }
    }

    /// An index, held below the length where it is not known to be. Where the text guards its indices, one that is counted from
    /// the start of a buffer's range lies in the buffer, so the sum does not wrap: said in as many bits as addresses have, compilers see
    /// that neighbours are neighbours.
    fn index(&mut self, base: Handle<Expression>, index: Handle<Expression>) -> Outcome<String> {
        if let Expression::GlobalVariable(global) = self.function.expressions[base]
            && self.program.starts.of.contains_key(&global)
        {
            return match self.function.expressions[index] {
                Expression::Binary { right, .. } => self.value(right),
                _ => Ok("0".into()),
            };
        }
        if (self.program.bounds, self.program.machine) == (Bounds::Guarded, Machine::Cpu)
            && let Expression::Binary { op: naga::BinaryOperator::Add, left, right } =
                self.function.expressions[index]
            && let Some(start) = self.flat_member(left).map(str::to_string)
            && !self.named.contains_key(&index)
            && matches!(self.pointer(base), Some((AddressSpace::Storage { .. }, _)))
        {
            let right = self.value(right)?;
            return Ok(format!("(size_t){start} + {right}"));
        }
        let text = self.value(index)?;
        self.checked_index(base, GuardedIndex::Expression(index), text)
    }

    fn known_index(&mut self, base: Handle<Expression>, index: u32) -> Outcome<String> {
        self.checked_index(base, GuardedIndex::Known(index), index.to_string())
    }

    fn checked_index(
        &mut self,
        base: Handle<Expression>,
        index: GuardedIndex,
        text: String,
    ) -> Outcome<String> {
        if self.program.bounds == Bounds::Guarded {
            return Ok(text);
        }
        let module = &self.program.checked.module;
        let last = match access_needs_check(base, index, module, &self.function.expressions, self.info) {
            None => return Ok(text),
            Some(IndexableLength::Known(length)) => format!("{}u", length.saturating_sub(1)),
            Some(IndexableLength::Dynamic) => match self.length_of(base) {
                Some(length) => format!("{length} - 1u"),
                None => return refuse("an array without a length that is no binding's"),
            },
        };
        self.program.helper("w_clamped", || {
            "uint w_clamped(uint i, uint last) { return i < last ? i : last; }".into()
        });
        Ok(call("w_clamped", [format!("(uint)({text})").as_str(), &last]))
    }

    /// The parameter that says how long the array at the end of a pointer's binding is.
    fn length_of(&self, pointer: Handle<Expression>) -> Option<String> {
        let global = memory_of(self.function, pointer)?;
        Some(format!("{}_len", self.program.names.of(NameKey::GlobalVariable(global))))
    }
}

impl Program<'_> {
    pub(super) fn literal(&mut self, literal: Literal) -> Outcome<String> {
        let long = self.dialect.long_suffix();
        let wrapped = |text: String| if text.starts_with('-') { format!("({text})") } else { text };
        Ok(match literal {
            Literal::Bool(value) => value.to_string(),
            Literal::I32(i32::MIN) => "(-2147483647 - 1)".into(),
            Literal::I32(value) => wrapped(value.to_string()),
            Literal::U32(value) => format!("{value}u"),
            Literal::I64(i64::MIN) => format!("(-9223372036854775807{long} - 1)"),
            Literal::I64(value) => wrapped(format!("{value}{long}")),
            Literal::U64(value) => format!("{value}u{long}"),
            Literal::I16(value) => format!("(short)({value})"),
            Literal::U16(value) => format!("(ushort){value}"),
            Literal::F32(value) if value.is_finite() => wrapped(format!("{value:?}f")),
            Literal::F32(value) => {
                self.dialect.bits(Scalar::F32, Scalar::U32, &format!("0x{:08x}u", value.to_bits()))
            }
            Literal::F64(value) => {
                let c = self.type_name(CType::Scalar(Scalar::F64))?;
                match value.is_finite() {
                    true => wrapped(format!("{value:?}")),
                    false => format!(
                        "({c})({})",
                        if value.is_nan() {
                            "0.0 / 0.0"
                        } else if value > 0.0 {
                            "1.0 / 0.0"
                        } else {
                            "-1.0 / 0.0"
                        }
                    ),
                }
            }
            Literal::F16(value) => {
                let c = self.type_name(CType::Scalar(Scalar { kind: ScalarKind::Float, width: 2 }))?;
                format!("({c})({:?}f)", f32::from(value))
            }
            Literal::AbstractInt(_) | Literal::AbstractFloat(_) => return refuse("literals without a type"),
        })
    }

    pub(super) fn zero(&mut self, ty: CType) -> Outcome<String> {
        let c = self.type_name(ty)?;
        Ok(match ty {
            CType::Scalar(scalar) => match scalar.kind {
                ScalarKind::Bool => "false".into(),
                ScalarKind::Uint if scalar.width == 4 => "0u".into(),
                ScalarKind::Sint if scalar.width == 4 => "0".into(),
                ScalarKind::Float if scalar.width == 4 => "0.0f".into(),
                _ => format!("({c})0"),
            },
            _ => self.zero_of(ty)?,
        })
    }

    pub(super) fn compose(&mut self, ty: CType, operands: &[Operand]) -> Outcome<String> {
        let joined = |texts: Vec<&str>| texts.join(", ");
        let texts: Vec<&str> = operands.iter().map(|(text, _)| text.as_str()).collect();
        let c = self.type_name(ty)?;
        let wrap = |padded: bool| -> Vec<String> {
            texts.iter().map(|t| if padded { format!("{{ {t} }}") } else { t.to_string() }).collect()
        };
        Ok(match ty {
            CType::Vector(..) if operands.iter().any(|(_, ty)| matches!(ty, CType::Vector(..))) => {
                self.join(ty, operands)?
            }
            CType::Matrix(columns, rows, scalar) => {
                // Columns, or all scalars column by column.
                let columns: Vec<String> = match operands.len() == columns as usize {
                    true => wrap(rows == VectorSize::Tri),
                    false => {
                        let chunks = texts.chunks(rows as usize);
                        let made = chunks.map(|part| self.vector_of(rows, scalar, &part.join(", ")));
                        let made: Vec<String> = made.collect::<Outcome<_>>()?;
                        let padded = |t| if rows == VectorSize::Tri { format!("{{ {t} }}") } else { t };
                        made.into_iter().map(padded).collect()
                    }
                };
                self.dialect.compound(&c, &format!("{{ {} }}", columns.join(", ")))
            }
            CType::Named(handle) => match self.module().types[handle].inner {
                TypeInner::Array { base, stride, .. } => {
                    let (_, padded) = self.element(base, stride)?;
                    self.dialect.compound(&c, &format!("{{ {} }}", wrap(padded).join(", ")))
                }
                _ => {
                    let members = self.members_with_padding(handle, &texts)?;
                    self.dialect.compound(&c, &members)
                }
            },
            CType::Vector(size, scalar) => self.vector_of(size, scalar, &joined(texts))?,
            _ => self.dialect.compound(&c, &joined(texts)),
        })
    }

    /// A struct's members as an initialiser, which also names the bytes between them.
    fn members_with_padding(&mut self, handle: Handle<Type>, texts: &[&str]) -> Outcome<String> {
        let TypeInner::Struct { members, .. } = &self.module().types[handle].inner else {
            return refuse("a struct that is none");
        };
        let (mut parts, mut end) = (Vec::new(), 0);
        for (member, text) in members.iter().zip(texts) {
            if member.offset > end {
                parts.push("{ 0 }".to_string());
            }
            parts.push(text.to_string());
            end = member.offset + self.bytes(member.ty);
        }
        Ok(parts.join(", "))
    }

    /// A constant expression outside all functions.
    pub(super) fn global_expression(&mut self, handle: Handle<Expression>) -> Outcome<String> {
        match self.module().global_expressions[handle] {
            Expression::Literal(literal) => self.literal(literal),
            Expression::Constant(constant) => self.global_expression(self.module().constants[constant].init),
            Expression::ZeroValue(ty) => {
                let ty = self.c_type(ty)?;
                self.zero(ty)
            }
            Expression::Splat { size, value } => {
                let Some(scalar) = self.checked.info[handle].inner_with(&self.module().types).scalar() else {
                    return refuse("a constant vector of structs");
                };
                let value = self.global_expression(value)?;
                self.vector_of(size, scalar, &vec![value; size as usize].join(", "))
            }
            Expression::Compose { ty, ref components } => {
                let ty = self.c_type(ty)?;
                let mut operands = Vec::new();
                for &component in components {
                    self.flat(component, matches!(ty, CType::Vector(..)), &mut operands)?;
                }
                self.compose(ty, &operands)
            }
            ref other => refuse(format!("a constant from {other:?}")),
        }
    }

    /// A component of a constant; a vector inside a vector falls into its own.
    fn flat(&mut self, handle: Handle<Expression>, split: bool, to: &mut Vec<Operand>) -> Outcome<()> {
        let handle = match self.module().global_expressions[handle] {
            Expression::Constant(constant) => self.module().constants[constant].init,
            _ => handle,
        };
        match self.module().global_expressions[handle] {
            Expression::Compose { ref components, .. } if split => {
                components.iter().try_for_each(|&component| self.flat(component, true, to))
            }
            Expression::Splat { size, value } if split => {
                (0..size as usize).try_for_each(|_| self.flat(value, true, to))
            }
            _ => {
                // Its type matters to nobody: it is no vector inside a vector.
                to.push((self.global_expression(handle)?, CType::Scalar(Scalar::U32)));
                Ok(())
            }
        }
    }
}
