//! Integers of 8 and 16 bits. In registers they are numbers of 32, cut off after each operation; in memory several of them stand in
//! a word. A write changes its own bits of a word alone, by atomic operations, since others may write the rest of it. Languages that
//! have such integers in memory have their own for the functions that read and write one (`windlass_kernel_translate`).

use super::stmt::Access;
use super::{Memory, Writer};
use crate::hir::{May, Space};
use crate::ty::{Scalar, Ty};

/// How small integers stand in a memory.
pub(super) struct Packed {
    memory: String,
    scalar: Scalar,
    ty: Ty,
    atomic: bool,
}

impl Memory {
    /// What it is made of, if these are small integers.
    pub(super) fn packed(&self) -> Option<Packed> {
        let scalar = self.ty.scalar().filter(|scalar| scalar.is_small())?;
        let (memory, ty) = (self.name.clone(), self.ty.clone());
        let atomic = self.slice.may == May::Write;
        (self.slice.space == Space::Global).then_some(Packed { memory, scalar, ty, atomic })
    }
}

impl Packed {
    /// The same with a part of each element.
    pub(super) fn part(self) -> Self {
        Packed { ty: Ty::Scalar(self.scalar), ..self }
    }

    /// How many numbers an element has.
    pub(super) fn width(&self) -> u8 {
        self.ty.width().unwrap_or(1)
    }
}

impl Writer<'_> {
    /// A result as a number of its type: modulo its width.
    pub(super) fn cut(&mut self, ty: &Ty, text: String) -> String {
        let Some(scalar) = ty.scalar().filter(|scalar| scalar.is_small()) else { return text };
        let all = |number: String| match ty {
            Ty::Vector(n, _) => format!("vec{n}<u32>({number})"),
            _ => number,
        };
        match scalar.is_signed() {
            true => {
                let bits = all(format!("{}u", 32 - scalar.bits()));
                format!("(({text} << {bits}) >> {bits})")
            }
            false => format!("({text} & {})", all(format!("{}u", scalar.bounds().1))),
        }
    }

    /// The functions that read and write whole elements.
    pub(super) fn packed_functions(
        &mut self,
        packed: &Packed,
        memory: &Memory,
        (params, inside, index): (&str, &str, &str),
    ) {
        let (name, value) = (&memory.name, self.ty(&memory.ty));
        let read = self.packed_read(packed, index);
        self.helpers.text.push_str(&format!(
            "fn get_{name}({params}) -> {value} {{\n    if {inside} {{ return {read}; }}\n    return {value}();\n}}\n\n"
        ));
        if packed.atomic {
            let write = self.packed_write(packed, index, "value");
            self.helpers.text.push_str(&format!(
                "fn set_{name}({params}, value: {value}) {{\n    if {inside} {{ {write} }}\n}}\n\n"
            ));
        }
    }

    /// The element at an index.
    pub(super) fn packed_read(&mut self, packed: &Packed, index: &str) -> String {
        let Packed { memory, scalar, ty, atomic } = packed;
        let (tag, register, bits) = (scalar.name(), scalar.register().name(), scalar.bits());
        let name = format!("w_read_{tag}_{memory}");
        if self.helpers.claim(&name) {
            let (word, shift) = place(memory, bits);
            let word = if *atomic { format!("atomicLoad(&{word})") } else { word };
            let value = self.cut(&Ty::Scalar(*scalar), format!("{register}({word} >> {shift})"));
            let text = format!("fn {name}(at: u32) -> {register} {{\n    return {value};\n}}\n\n");
            self.helpers.text.push_str(&text);
        }
        match ty {
            Ty::Vector(n, _) => {
                let parts: Vec<String> =
                    (0..*n).map(|part| format!("{name}(({index}) * {n}u + {part}u)")).collect();
                format!("{}({})", self.ty(ty), parts.join(", "))
            }
            _ => format!("{name}({index})"),
        }
    }

    /// The statements that write a value to the element at an index.
    pub(super) fn packed_write(&mut self, packed: &Packed, index: &str, value: &str) -> String {
        let Packed { memory, scalar, ty, .. } = packed;
        let (tag, register, bits) = (scalar.name(), scalar.register().name(), scalar.bits());
        let name = format!("w_write_{tag}_{memory}");
        if self.helpers.claim(&name) {
            let (word, shift) = place(memory, bits);
            let mask = (1_u32 << bits) - 1;
            self.helpers.text.push_str(&format!(
                "fn {name}(at: u32, value: {register}) {{
    let shift = {shift};
    atomicAnd(&{word}, ~({mask}u << shift));
    atomicOr(&{word}, (u32(value) & {mask}u) << shift);
}}

"
            ));
        }
        match ty {
            Ty::Vector(n, _) => (0..*n)
                .map(|part| {
                    let axis = ["x", "y", "z", "w"][usize::from(part)];
                    format!("{name}(({index}) * {n}u + {part}u, {value}.{axis});")
                })
                .collect::<Vec<String>>()
                .join(" "),
            _ => format!("{name}({index}, {value});"),
        }
    }

    /// A place in such a memory, or a component of one.
    pub(super) fn packed_place(
        &self,
        packed: Packed,
        inside: String,
        index: String,
        component: Option<u8>,
    ) -> Access {
        match component {
            None => Access::Packed { inside, packed, index },
            Some(at) => {
                let index = format!("(({index}) * {}u + {at}u)", packed.width());
                Access::Packed { inside, packed: packed.part(), index }
            }
        }
    }
}

/// The word in which a number stands, and how far up in it.
fn place(memory: &str, bits: u32) -> (String, String) {
    match bits {
        8 => (format!("{memory}[at >> 2u]"), "((at & 3u) * 8u)".into()),
        _ => (format!("{memory}[at >> 1u]"), "((at & 1u) * 16u)".into()),
    }
}
