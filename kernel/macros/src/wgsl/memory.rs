//! Types in registers and in memory, and the functions through which memory is reached.
//!
//! In memory lies what Rust's `repr(C)` says: vectors are arrays there, since WGSL would align them further. A type
//! without vectors is the same in both places, and so is an element that is a vector of 8 or 16 bytes: allocations start at
//! multiples of more than that, and a range of such elements at a multiple of its elements, so that devices load it at once.

use super::{Memory, Writer};
use crate::hir::{May, Space};
use crate::ty::{F32, Scalar, Ty};

impl Memory {
    /// Whether an element looks there as it does in registers.
    pub(super) fn is_as_in_registers(&self) -> bool {
        let is_word = |of: &Ty| matches!(of, Ty::Scalar(Scalar::F32 | Scalar::I32 | Scalar::U32));
        match (&self.slice.space, &self.ty) {
            (Space::Local(_), _) => true,
            (Space::Global, Ty::Vector(2 | 4, of)) => is_word(of),
            _ => false,
        }
    }
}

impl Writer<'_> {
    /// A type's name in registers.
    pub(super) fn ty(&mut self, ty: &Ty) -> String {
        match ty {
            Ty::Scalar(scalar) => {
                self.half |= *scalar == Scalar::F16;
                scalar.register().name().into()
            }
            Ty::Vector(n, of) => format!("vec{n}<{}>", self.ty(of)),
            Ty::Array(of, len) => format!("array<{}, {len}>", self.ty(of)),
            Ty::Struct(at) => self.structure(*at),
            _ => "u32".into(),
        }
    }

    fn structure(&mut self, at: usize) -> String {
        if let Some(name) = self.structs.get(&at) {
            return name.clone();
        }
        let module = self.module;
        let item = &module.structs[at];
        let name = self.unique(&item.name.to_string());
        self.structs.insert(at, name.clone());
        let members: String = item
            .fields
            .iter()
            .map(|(field, ty)| format!("    {}: {},\n", member(field), self.ty(ty)))
            .collect();
        self.types.text.push_str(&format!("struct {name} {{\n{members}}}\n\n"));
        name
    }

    /// Whether a type looks different in memory.
    pub(super) fn differs(&self, ty: &Ty) -> bool {
        match ty {
            Ty::Vector(..) => true,
            Ty::Array(of, _) => self.differs(of),
            Ty::Struct(at) => self.module.structs[*at].fields.iter().any(|(_, ty)| self.differs(ty)),
            _ => false,
        }
    }

    /// A type's name in memory.
    pub(super) fn memory_ty(&mut self, ty: &Ty) -> String {
        match ty {
            Ty::Vector(n, of) => format!("array<{}, {n}>", self.ty(of)),
            Ty::Array(of, len) => format!("array<{}, {len}>", self.memory_ty(of)),
            Ty::Struct(at) if self.differs(ty) => {
                let name = format!("{}_in_memory", self.structure(*at));
                if self.types.claim(&name) {
                    let module = self.module;
                    let members: String = module.structs[*at]
                        .fields
                        .iter()
                        .map(|(field, ty)| format!("    {}: {},\n", member(field), self.memory_ty(ty)))
                        .collect();
                    self.types.text.push_str(&format!("struct {name} {{\n{members}}}\n\n"));
                }
                name
            }
            other => self.ty(other),
        }
    }

    /// What lies at an element of a memory: work-group memory holds values as registers do.
    pub(super) fn stored(&mut self, memory: &Memory) -> String {
        if self.packed(memory, "").is_some() {
            return if memory.slice.may == May::Write { "atomic<u32>".into() } else { "u32".into() };
        }
        let element = match memory.is_as_in_registers() {
            true => self.ty(&memory.ty),
            false => self.memory_ty(&memory.ty),
        };
        match memory.slice.may {
            // Only integers are atomic everywhere: a float's bits are.
            May::Atomic if memory.ty == F32 => "atomic<u32>".into(),
            May::Atomic => format!("atomic<{element}>"),
            _ => element,
        }
    }

    /// A short name of a type, as part of a function's name.
    pub(super) fn tag(&mut self, ty: &Ty) -> String {
        let name = match ty {
            Ty::Scalar(scalar) => scalar.name().into(),
            Ty::Vector(n, of) => format!("vec{n}<{}>", self.tag(of)),
            _ => self.ty(ty),
        };
        name.replace(", ", "x").replace(['<', '>', ' '], "_").trim_end_matches('_').into()
    }

    /// A value in memory as one in registers.
    pub(super) fn loaded(&mut self, ty: &Ty, text: &str) -> String {
        if !self.differs(ty) {
            return text.into();
        }
        let name = format!("w_load_{}", self.tag(ty));
        if self.helpers.claim(&name) {
            let (value, memory) = (self.ty(ty), self.memory_ty(ty));
            let parts = self.parts(ty, |writer, ty, part| writer.loaded(ty, &part));
            self.helpers.text.push_str(&format!(
                "fn {name}(m: {memory}) -> {value} {{\n    return {value}({parts});\n}}\n\n"
            ));
        }
        format!("{name}({text})")
    }

    /// A value in registers as one in memory.
    pub(super) fn as_stored(&mut self, ty: &Ty, text: &str) -> String {
        if !self.differs(ty) {
            return text.into();
        }
        let name = format!("w_store_{}", self.tag(ty));
        if self.helpers.claim(&name) {
            let (value, memory) = (self.ty(ty), self.memory_ty(ty));
            let parts = self.parts(ty, |writer, ty, part| writer.as_stored(ty, &part));
            self.helpers.text.push_str(&format!(
                "fn {name}(m: {value}) -> {memory} {{\n    return {memory}({parts});\n}}\n\n"
            ));
        }
        format!("{name}({text})")
    }

    fn parts(&mut self, ty: &Ty, mut each: impl FnMut(&mut Self, &Ty, String) -> String) -> String {
        let mut parts = Vec::new();
        match ty {
            Ty::Vector(n, of) => {
                for i in 0..*n {
                    parts.push(each(self, of, format!("m[{i}]")));
                }
            }
            Ty::Array(of, len) => {
                for i in 0..*len {
                    parts.push(each(self, of, format!("m[{i}]")));
                }
            }
            Ty::Struct(at) => {
                let module = self.module;
                for (field, ty) in &module.structs[*at].fields {
                    parts.push(each(self, ty, format!("m.{}", member(field))));
                }
            }
            _ => {}
        }
        parts.join(", ")
    }

    /// The functions that read and write whole elements, for every memory.
    pub(super) fn access_functions(&mut self) {
        for at in 0..self.memories.len() {
            let memory = self.memories[at].clone();
            if memory.slice.may == May::Atomic || memory.slice.space == Space::Reached {
                continue;
            }
            let (name, value) = (memory.name.clone(), self.ty(&memory.ty));
            let (params, inside, index) = guard(&memory);
            if let Some(packed) = self.packed(&memory, &index) {
                self.packed_functions(&memory, &packed, (&params, &inside));
                continue;
            }
            let same = memory.is_as_in_registers();
            let element = format!("{name}[{index}]");
            let read = if same { element.clone() } else { self.loaded(&memory.ty, &element) };
            let get = format!(
                "fn get_{name}({params}) -> {value} {{\n    if {inside} {{ return {read}; }}\n    return {value}();\n}}\n\n"
            );
            self.helpers.text.push_str(&get);
            if memory.slice.may == May::Write {
                let written = if same { "value".into() } else { self.as_stored(&memory.ty, "value") };
                let set = format!(
                    "fn set_{name}({params}, value: {value}) {{\n    if {inside} {{ {element} = {written}; }}\n}}\n\n"
                );
                self.helpers.text.push_str(&set);
            }
        }
    }
}

/// The parameters of an access, the condition that it is inside, and where the element is.
pub(super) fn guard(memory: &Memory) -> (String, String, String) {
    let letters = &["i", "j", "k"][..memory.slice.dims as usize];
    let params: Vec<String> = letters.iter().map(|l| format!("{l}: u32")).collect();
    let (inside, index) = guarded(memory, letters);
    (params.join(", "), inside, index)
}

/// The condition that indices are inside, and where the element is.
pub(super) fn guarded(memory: &Memory, indices: &[impl AsRef<str>]) -> (String, String) {
    let name = &memory.name;
    let Some(first) = indices.first().map(AsRef::as_ref) else { return ("false".into(), "0u".into()) };
    match (&memory.slice.space, indices.len()) {
        // What has addresses is looked for by those (`reached`).
        (Space::Reached, _) => ("false".into(), "0u".into()),
        (Space::Local(len), _) => {
            let len = len.map_or(format!("{name}_len"), |len| format!("{len}u"));
            (format!("{first} < {len}"), first.into())
        }
        (Space::Global, 1) => (format!("{first} < block.{name}_len"), format!("block.{name}_at + {first}")),
        (Space::Global, _) => {
            let texts: Vec<&str> = indices.iter().map(AsRef::as_ref).collect();
            let inside: Vec<String> =
                texts.iter().enumerate().map(|(d, i)| format!("({i} < block.{name}_extent_{d})")).collect();
            let index = match texts[..] {
                [i, j] => format!("({i}) * block.{name}_row + {j}"),
                [i, j, k] => format!("({i}) * block.{name}_slice + ({j}) * block.{name}_row + {k}"),
                _ => first.to_string(),
            };
            (inside.join(" & "), format!("block.{name}_at + ({index})"))
        }
    }
}

/// A member's name. Members have a room of their own, so only reserved words are changed.
pub(super) fn member(name: &proc_macro2::Ident) -> String {
    let name = name.to_string();
    let name = name.trim_start_matches("r#");
    let reserved = super::is_reserved(name) || name.starts_with("__");
    if reserved { format!("{}_k", name.trim_start_matches('_')) } else { name.into() }
}
