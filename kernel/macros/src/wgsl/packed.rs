//! Integers of 8 and 16 bits. In registers they are numbers of 32, cut off after each operation; a memory that has them, by
//! themselves or as parts of its elements, is made of words here. A write changes its own bits of a word alone, by atomic
//! operations, since others may write the rest of it; what fills its words is written by words (`words`). Languages that have such integers in memory have their own for the functions
//! that read and write one number (`windlass_kernel_translate`).

mod words;

use super::place::Access;
use super::stmt::Body;
use super::{Memory, Writer};
use crate::hir::{Expr, Kind, May, Space, Step};
use crate::ty::{Scalar, Ty};

/// A place in a memory that is made of words: an element, or a part of one.
#[derive(Clone)]
pub(super) struct Packed {
    memory: String,
    ty: Ty,
    atomic: bool,
    /// The numbers that say where it is, and how many bytes each counts.
    terms: Vec<(String, u32)>,
    /// How many bytes behind that.
    offset: u32,
}

impl Packed {
    /// A part of it, so many bytes behind its start.
    fn part(&self, offset: u32, ty: &Ty) -> Packed {
        Packed { offset: self.offset + offset, ty: ty.clone(), ..self.clone() }
    }

    /// The same with a number more that says where it is.
    fn behind(mut self, number: &str, bytes: u32) -> Packed {
        self.terms.push((number.into(), bytes));
        self
    }

    /// Where it is, counted in numbers of so many bytes: all that its place is made of are multiples of what it is aligned to.
    fn at(&self, bytes: u32) -> String {
        let mut parts: Vec<String> = self
            .terms
            .iter()
            .map(|(number, each)| match each / bytes {
                1 if self.terms.len() == 1 && self.offset == 0 => number.clone(),
                1 => format!("({number})"),
                times => format!("({number}) * {times}u"),
            })
            .collect();
        if self.offset != 0 {
            parts.push(format!("{}u", self.offset / bytes));
        }
        parts.join(" + ")
    }
}

impl Writer<'_> {
    /// A memory's element at an index, if that has small integers.
    pub(super) fn packed(&self, memory: &Memory, index: &str) -> Option<Packed> {
        if memory.slice.space != Space::Global || !self.has_small(&memory.ty) {
            return None;
        }
        let (name, ty) = (memory.name.clone(), memory.ty.clone());
        let terms = vec![(index.into(), self.bytes(&ty))];
        Some(Packed { memory: name, ty, atomic: memory.slice.may == May::Write, terms, offset: 0 })
    }

    pub(super) fn has_small(&self, ty: &Ty) -> bool {
        match ty {
            Ty::Array(of, _) => self.has_small(of),
            Ty::Struct(at) => self.module.structs[*at].fields.iter().any(|(_, ty)| self.has_small(ty)),
            ty => ty.scalar().is_some_and(Scalar::is_small),
        }
    }

    /// How many bytes a type has in memory, where nothing has gaps.
    pub(super) fn bytes(&self, ty: &Ty) -> u32 {
        match ty {
            Ty::Scalar(scalar) => scalar.bits() / 8,
            Ty::Vector(n, of) => u32::from(*n) * self.bytes(of),
            Ty::Array(of, len) => len * self.bytes(of),
            Ty::Struct(at) => self.module.structs[*at].fields.iter().map(|(_, ty)| self.bytes(ty)).sum(),
            _ => 4,
        }
    }

    /// What a type is aligned to in memory.
    fn alignment(&self, ty: &Ty) -> u32 {
        match ty {
            Ty::Vector(_, of) | Ty::Array(of, _) => self.alignment(of),
            Ty::Struct(at) => {
                let fields = self.module.structs[*at].fields.iter();
                fields.map(|(_, ty)| self.alignment(ty)).max().unwrap_or(1)
            }
            ty => self.bytes(ty),
        }
    }

    /// The types that a value is made of, and how many bytes into it each starts, with what names it.
    pub(super) fn packed_parts(&self, ty: &Ty) -> Vec<(String, u32, Ty)> {
        let each = |of: &Ty, len: u32| {
            let bytes = self.bytes(of);
            (0..len).map(|at| (format!("[{at}]"), at * bytes, of.clone())).collect()
        };
        match ty {
            Ty::Vector(n, of) => each(of, u32::from(*n)),
            Ty::Array(of, len) => each(of, *len),
            Ty::Struct(at) => {
                let mut offset = 0;
                let fields = self.module.structs[*at].fields.iter();
                let place = fields.map(|(field, ty)| {
                    let part = (format!(".{}", super::memory::member(field)), offset, ty.clone());
                    offset += self.bytes(ty);
                    part
                });
                place.collect()
            }
            _ => Vec::new(),
        }
    }

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
        memory: &Memory,
        packed: &Packed,
        (params, inside): (&str, &str),
    ) {
        let (name, value) = (&memory.name, self.ty(&memory.ty));
        let read = self.packed_read(packed);
        self.helpers.text.push_str(&format!(
            "fn get_{name}({params}) -> {value} {{\n    if {inside} {{ return {read}; }}\n    return {value}();\n}}\n\n"
        ));
        if packed.atomic {
            let write = self.packed_write(packed, "value");
            self.helpers.text.push_str(&format!(
                "fn set_{name}({params}, value: {value}) {{\n    if {inside} {{ {write} }}\n}}\n\n"
            ));
        }
    }

    /// The value at a place.
    pub(super) fn packed_read(&mut self, packed: &Packed) -> String {
        match &packed.ty {
            _ if self.is_words(packed) => self.words_read(packed),
            Ty::Scalar(scalar) => self.number_read(packed, *scalar),
            Ty::Vector(n, of) => {
                let bytes = self.bytes(of);
                let parts: Vec<String> =
                    (0..u32::from(*n)).map(|part| self.packed_read(&packed.part(part * bytes, of))).collect();
                format!("{}({})", self.ty(&packed.ty), parts.join(", "))
            }
            ty => {
                let ty = ty.clone();
                let name = format!("w_get_{}_{}", self.tag(&ty), packed.memory);
                if self.helpers.claim(&name) {
                    let (whole, parts) = (self.start(packed), self.packed_parts(&ty));
                    let parts: Vec<String> = parts
                        .iter()
                        .map(|(_, offset, ty)| self.packed_read(&whole.part(*offset, ty)))
                        .collect();
                    let (value, parts) = (self.ty(&ty), parts.join(", "));
                    let text =
                        format!("fn {name}(at: u32) -> {value} {{\n    return {value}({parts});\n}}\n\n");
                    self.helpers.text.push_str(&text);
                }
                format!("{name}({})", packed.at(self.alignment(&ty)))
            }
        }
    }

    /// The statements that write a value, which is a name, to a place.
    pub(super) fn packed_write(&mut self, packed: &Packed, value: &str) -> String {
        match &packed.ty {
            _ if self.is_words(packed) => self.words_write(packed, value),
            Ty::Scalar(scalar) => self.number_write(packed, *scalar, value),
            Ty::Vector(..) => self.packed_writes(packed, value).join(" "),
            ty => {
                let ty = ty.clone();
                let name = format!("w_put_{}_{}", self.tag(&ty), packed.memory);
                if self.helpers.claim(&name) {
                    let whole = self.start(packed);
                    let writes = self.packed_writes(&whole, "m").join("\n    ");
                    let value = self.ty(&ty);
                    let text = format!("fn {name}(at: u32, m: {value}) {{\n    {writes}\n}}\n\n");
                    self.helpers.text.push_str(&text);
                }
                format!("{name}({}, {value});", packed.at(self.alignment(&ty)))
            }
        }
    }

    fn packed_writes(&mut self, packed: &Packed, value: &str) -> Vec<String> {
        let parts = self.packed_parts(&packed.ty);
        let write = |(part, offset, ty): &(String, u32, Ty)| {
            self.packed_write(&packed.part(*offset, ty), &format!("{value}{part}"))
        };
        parts.iter().map(write).collect()
    }

    /// The place that a function of its own is given, as `at`.
    fn start(&self, packed: &Packed) -> Packed {
        let terms = vec![("at".into(), self.alignment(&packed.ty))];
        Packed { terms, offset: 0, ..packed.clone() }
    }

    fn number_read(&mut self, packed: &Packed, scalar: Scalar) -> String {
        let read = |writer: &mut Self, of: Scalar| {
            let name = writer.number_reader(packed, of);
            format!("{name}({})", packed.at(of.bits() / 8))
        };
        match scalar {
            Scalar::I32 | Scalar::F32 => format!("bitcast<{}>({})", scalar.name(), read(self, Scalar::U32)),
            Scalar::I64 | Scalar::F64 => format!("bitcast<{}>({})", scalar.name(), read(self, Scalar::U64)),
            Scalar::F16 => {
                self.half = true;
                format!("f16(unpack2x16float({}).x)", read(self, Scalar::U16))
            }
            _ => read(self, scalar),
        }
    }

    fn number_write(&mut self, packed: &Packed, scalar: Scalar, value: &str) -> String {
        let (of, value) = match scalar {
            Scalar::I32 | Scalar::F32 => (Scalar::U32, format!("bitcast<u32>({value})")),
            Scalar::I64 | Scalar::F64 => (Scalar::U64, format!("bitcast<u64>({value})")),
            Scalar::F16 => (Scalar::U16, format!("(pack2x16float(vec2<f32>(f32({value}), 0.0)) & 65535u)")),
            _ => (scalar, value.into()),
        };
        let name = self.number_writer(packed, of);
        format!("{name}({}, {value});", packed.at(of.bits() / 8))
    }

    /// The function that reads one integer.
    fn number_reader(&mut self, packed: &Packed, scalar: Scalar) -> String {
        let Packed { memory, atomic, .. } = packed;
        let (tag, register) = (scalar.name(), scalar.register().name());
        let name = format!("w_read_{tag}_{memory}");
        if self.helpers.claim(&name) {
            let load = |word: String| if *atomic { format!("atomicLoad(&{word})") } else { word };
            let value = match scalar.bits() {
                64 => {
                    let [low, high] = ["2u * at", "2u * at + 1u"].map(|at| load(format!("{memory}[{at}]")));
                    format!("(u64({high}) << 32u) | u64({low})")
                }
                32 => load(format!("{memory}[at]")),
                bits => {
                    let (word, shift) = place(memory, bits);
                    self.cut(&Ty::Scalar(scalar), format!("{register}({} >> {shift})", load(word)))
                }
            };
            let text = format!("fn {name}(at: u32) -> {register} {{\n    return {value};\n}}\n\n");
            self.helpers.text.push_str(&text);
        }
        name
    }

    /// The function that writes one integer.
    fn number_writer(&mut self, packed: &Packed, scalar: Scalar) -> String {
        let Packed { memory, .. } = packed;
        let (tag, register) = (scalar.name(), scalar.register().name());
        let name = format!("w_write_{tag}_{memory}");
        if self.helpers.claim(&name) {
            let body = match scalar.bits() {
                64 => format!(
                    "    atomicStore(&{memory}[2u * at], u32(value & 4294967295lu));
    atomicStore(&{memory}[2u * at + 1u], u32(value >> 32u));
"
                ),
                32 => format!("    atomicStore(&{memory}[at], value);\n"),
                bits => {
                    let ((word, shift), mask) = (place(memory, bits), (1_u32 << bits) - 1);
                    format!(
                        "    let shift = {shift};
    atomicAnd(&{word}, ~({mask}u << shift));
    atomicOr(&{word}, (u32(value) & {mask}u) << shift);
"
                    )
                }
            };
            self.helpers.text.push_str(&format!("fn {name}(at: u32, value: {register}) {{\n{body}}}\n\n"));
        }
        name
    }
}

impl<'m> Body<'_, 'm> {
    /// The part of an element to which a path leads.
    pub(super) fn packed_place(
        &mut self,
        mut packed: Packed,
        mut inside: Vec<String>,
        path: &'m [Step],
    ) -> Access {
        for step in path {
            let parts = self.writer.packed_parts(&packed.ty);
            let part = |at: usize| parts.get(at).map(|(_, offset, ty)| packed.part(*offset, ty));
            let found = match step {
                Step::Field(_, at) => part(*at),
                Step::Component(at) => part(usize::from(*at)),
                Step::Index(Expr { kind: Kind::Int(known), .. }, _) => {
                    usize::try_from(*known).ok().and_then(part)
                }
                Step::Index(index, len) => {
                    let index = self.value(index);
                    let index = self.kept(index, "i", "u32");
                    inside.push(format!("{index} < {len}u"));
                    let bytes = self.writer.bytes(&packed.ty) / len;
                    part(0).map(|first| first.behind(&index, bytes))
                }
            };
            packed = found.unwrap_or_else(|| {
                // Nothing is there.
                inside.push("false".into());
                packed.part(0, &parts[0].2)
            });
        }
        Access::Packed { inside: inside.join(" && "), packed }
    }
}

/// The word in which a number stands, and how far up in it.
fn place(memory: &str, bits: u32) -> (String, String) {
    match bits {
        8 => (format!("{memory}[at >> 2u]"), "((at & 3u) * 8u)".into()),
        _ => (format!("{memory}[at >> 1u]"), "((at & 1u) * 16u)".into()),
    }
}
