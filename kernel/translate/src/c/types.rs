//! Types: names, and definitions as they are needed.

use naga::proc::NameKey;
use naga::proc::index::IndexableLength;
use naga::{ArraySize, Handle, Scalar, ScalarKind, Type, TypeInner, VectorSize};

use super::Machine;
use super::program::Program;
use crate::error::{Outcome, refuse};

/// A type whose values C code can hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CType {
    Scalar(Scalar),
    Vector(VectorSize, Scalar),
    Matrix(VectorSize, VectorSize, Scalar),
    /// An array of known length or a struct.
    Named(Handle<Type>),
}

impl CType {
    /// The scalar of scalars, vectors and matrices.
    pub(super) fn component(self) -> Option<Scalar> {
        match self {
            CType::Scalar(s) | CType::Vector(_, s) | CType::Matrix(_, _, s) => Some(s),
            CType::Named(_) => None,
        }
    }
}

/// The components' names of a vector of this size.
pub(super) fn axes(size: VectorSize) -> &'static [&'static str] {
    &["x", "y", "z", "w"][..size as usize]
}

/// A scalar's name in the writer's own functions and types, which is Rust's.
pub(super) fn short(scalar: Scalar) -> String {
    let letter = match scalar.kind {
        ScalarKind::Bool => return "bool".into(),
        ScalarKind::Sint | ScalarKind::AbstractInt => 'i',
        ScalarKind::Uint => 'u',
        ScalarKind::Float | ScalarKind::AbstractFloat => 'f',
    };
    format!("{letter}{}", 8 * u32::from(scalar.width))
}

impl Program<'_> {
    /// The type behind a handle, as C sees it.
    pub(super) fn c_type(&self, handle: Handle<Type>) -> Outcome<CType> {
        match &self.module().types[handle].inner {
            TypeInner::Array { .. } | TypeInner::Struct { .. } => Ok(CType::Named(handle)),
            inner => self.c_inner(inner),
        }
    }

    pub(super) fn c_inner(&self, inner: &TypeInner) -> Outcome<CType> {
        match *inner {
            TypeInner::Scalar(scalar) | TypeInner::Atomic(scalar) => Ok(CType::Scalar(scalar)),
            TypeInner::Vector { size, scalar } => Ok(CType::Vector(size, scalar)),
            TypeInner::Matrix { columns, rows, scalar } => Ok(CType::Matrix(columns, rows, scalar)),
            TypeInner::Image { .. } | TypeInner::Sampler { .. } => refuse("textures and samplers"),
            ref other => refuse(format!("the type {other:?}")),
        }
    }

    /// The C name of a type, whose definition is written if it was not yet.
    pub(super) fn type_name(&mut self, ty: CType) -> Outcome<String> {
        match ty {
            CType::Scalar(scalar) => self.scalar_name(scalar),
            CType::Vector(size, scalar) => self.vector(size, scalar),
            CType::Matrix(columns, rows, scalar) => self.matrix(columns, rows, scalar),
            CType::Named(handle) => self.named(handle),
        }
    }

    fn scalar_name(&mut self, scalar: Scalar) -> Outcome<String> {
        if let Some(extension) = self.dialect.extension(scalar)
            && !self.extensions.contains(extension)
        {
            self.extensions.push_str(extension);
        }
        match self.dialect.scalar(scalar) {
            Some(name) => Ok(name.into()),
            None => refuse(format!("{} in {:?}", short(scalar), self.dialect)),
        }
    }

    /// The language's own vector, on processors: their compilers keep its components together, while those of GPUs, which take them
    /// apart anyhow, have more registers at hand for structs (the best product of matrices on an H200: 566 us with `float4`, 440 with
    /// structs).
    pub(super) fn own_vector(&self, size: VectorSize, scalar: Scalar) -> Option<String> {
        match self.machine {
            Machine::Cpu => self.dialect.vector(size, scalar),
            Machine::Gpu => None,
        }
    }

    fn vector(&mut self, size: VectorSize, scalar: Scalar) -> Outcome<String> {
        let name = format!("vec{}_{}", size as u8, short(scalar));
        let component = self.scalar_name(scalar)?;
        if let Some(own) = self.own_vector(size, scalar) {
            self.types.define(&name, || format!("typedef {own} {name};\n"));
            return Ok(name);
        }
        let align = match size {
            // Twelve bytes, aligned to four: as WGSL's structs have it. Arrays of it are padded.
            VectorSize::Tri => 0,
            _ if scalar.kind == ScalarKind::Bool => 0,
            _ => size as u32 * u32::from(scalar.width),
        };
        let members = format!("{component} {};", axes(size).join(", "));
        self.types.define(&name, || structure(&name, align, &members));
        Ok(name)
    }

    /// A vector of these components.
    pub(super) fn vector_of(&mut self, size: VectorSize, scalar: Scalar, parts: &str) -> Outcome<String> {
        let name = self.vector(size, scalar)?;
        Ok(match self.own_vector(size, scalar) {
            Some(_) => format!("({name})({parts})"),
            None => self.dialect.compound(&name, parts),
        })
    }

    /// What the initializer of a type begins with for its first member to be zero, where that is one of the language's own vectors, for
    /// which a `0` is too few.
    fn first_vector(&mut self, ty: CType) -> Outcome<Option<String>> {
        let first = match ty {
            CType::Scalar(_) => return Ok(None),
            CType::Vector(size, scalar) => {
                let own = self.own_vector(size, scalar).is_some();
                return Ok(if own { Some(self.vector_of(size, scalar, "0")?) } else { None });
            }
            CType::Matrix(_, rows, scalar) => CType::Vector(rows, scalar),
            CType::Named(handle) => match &self.module().types[handle].inner {
                TypeInner::Array { base, .. } => self.c_type(*base)?,
                TypeInner::Struct { members, .. } => match members.first() {
                    Some(first) => self.c_type(first.ty)?,
                    None => return Ok(None),
                },
                _ => return Ok(None),
            },
        };
        self.first_vector(first)
    }

    /// The value of a type other than a scalar whose bytes are all zero.
    pub(super) fn zero_of(&mut self, ty: CType) -> Outcome<String> {
        let name = self.type_name(ty)?;
        Ok(match (self.first_vector(ty)?, ty) {
            (Some(zero), CType::Vector(..)) => zero,
            (Some(zero), _) => self.dialect.compound(&name, &zero),
            (None, _) => self.dialect.zero(&name),
        })
    }

    fn matrix(&mut self, columns: VectorSize, rows: VectorSize, scalar: Scalar) -> Outcome<String> {
        let name = format!("w_mat{}x{}_{}", columns as u8, rows as u8, short(scalar));
        let column = self.vector(rows, scalar)?;
        let stride = column_stride(rows, scalar);
        let element = self.padded(&column, rows as u32 * u32::from(scalar.width), stride);
        self.types.define(&name, || structure(&name, 0, &format!("{element} e[{}];", columns as u8)));
        Ok(name)
    }

    /// A type like `element`, of `bytes` bytes, that takes `stride`.
    fn padded(&mut self, element: &str, bytes: u32, stride: u32) -> String {
        if bytes == stride {
            return element.into();
        }
        let name = format!("w_in{stride}_{}", element.replace(' ', "_"));
        let members = format!("{element} v; uchar pad[{}];", stride - bytes);
        self.types.define(&name, || structure(&name, 0, &members));
        name
    }

    /// The element type of an array in memory, and whether the element proper is its member `v`.
    pub(super) fn element(&mut self, base: Handle<Type>, stride: u32) -> Outcome<(String, bool)> {
        let ty = self.c_type(base)?;
        let name = self.type_name(ty)?;
        let bytes = self.bytes(base);
        Ok((self.padded(&name, bytes, stride), bytes != stride))
    }

    pub(super) fn bytes(&self, ty: Handle<Type>) -> u32 {
        self.module().types[ty].inner.size(self.module().to_ctx())
    }

    fn named(&mut self, handle: Handle<Type>) -> Outcome<String> {
        match self.module().types[handle].inner {
            TypeInner::Array {
                base,
                size: size @ (ArraySize::Constant(_) | ArraySize::Pending(_)),
                stride,
            } => {
                let Ok(IndexableLength::Known(length)) = size.resolve(self.module().to_ctx()) else {
                    return refuse("an array whose length is not known");
                };
                let (element, padded) = self.element(base, stride)?;
                let of = if padded { element.clone() } else { self.type_tag(base)? };
                let name = format!("w_array{length}_{of}");
                self.types.define(&name, || structure(&name, 0, &format!("{element} e[{length}];")));
                Ok(name)
            }
            TypeInner::Array { .. } => refuse("an array without a length as a value"),
            _ => self.structure(handle),
        }
    }

    /// A type's name as a part of another name.
    pub(super) fn type_tag(&mut self, handle: Handle<Type>) -> Outcome<String> {
        match self.c_type(handle)? {
            CType::Scalar(scalar) => Ok(short(scalar)),
            other => self.type_name(other),
        }
    }

    fn structure(&mut self, handle: Handle<Type>) -> Outcome<String> {
        let name = self.names.of(NameKey::Type(handle)).to_string();
        if self.types.has(&name) {
            return Ok(name);
        }
        let checked = self.checked;
        let TypeInner::Struct { members, span } = &checked.module.types[handle].inner else {
            return refuse(format!("the type {:?}", checked.module.types[handle].inner));
        };
        let (mut text, mut end) = (String::new(), 0);
        for (at, member) in (0..).zip(members) {
            let label = self.names.of(NameKey::StructMember(handle, at)).to_string();
            pad(&mut text, end, member.offset);
            let (declaration, bytes) = self.member(member.ty, &label)?;
            text.push_str(&declaration);
            end = member.offset + bytes;
        }
        pad(&mut text, end, *span);
        self.types.define(&name, || structure(&name, 0, &text));
        Ok(name)
    }

    /// A struct member's declaration and its bytes. An array without a length, which can only be last, is declared
    /// with one element.
    fn member(&mut self, ty: Handle<Type>, label: &str) -> Outcome<(String, u32)> {
        if let TypeInner::Array { base, size: ArraySize::Dynamic, stride } = self.module().types[ty].inner {
            let (element, _) = self.element(base, stride)?;
            return Ok((format!(" {element} {label}[1];"), stride));
        }
        let c = self.c_type(ty)?;
        let name = self.type_name(c)?;
        Ok((format!(" {name} {label};"), self.bytes(ty)))
    }
}

fn structure(name: &str, align: u32, members: &str) -> String {
    let align = if align == 0 { String::new() } else { format!("W_ALIGNED({align}) ") };
    format!("typedef struct {align}{{ {} }} {name};\n", members.trim())
}

fn pad(text: &mut String, from: u32, to: u32) {
    if to > from {
        text.push_str(&format!(" uchar w_pad{from}[{}];", to - from));
    }
}

/// Bytes from one column of a matrix to the next.
fn column_stride(rows: VectorSize, scalar: Scalar) -> u32 {
    let components = if rows == VectorSize::Tri { 4 } else { rows as u32 };
    components * u32::from(scalar.width)
}
