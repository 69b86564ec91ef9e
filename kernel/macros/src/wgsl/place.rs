//! Places: where what is assigned or lent stands, and what must hold for it to be there.

use super::Memory;
use super::memory::{guarded, member};
use super::packed::Packed;
use super::reached::Followed;
use super::stmt::Body;
use crate::hir::{Base, Expr, Kind, Place, Space, Step};
use crate::ty::Ty;

impl<'m> Body<'_, 'm> {
    /// Where a place is, and what must hold for it to be there.
    pub(super) fn place(&mut self, place: &'m Place) -> Access {
        let mut inside: Vec<String> = Vec::new();
        let (mut text, mut ty, in_memory) = match &place.base {
            Base::Var(var) => (self.names[var].clone(), self.function.vars[*var].ty.clone(), false),
            Base::Element(var, at) => {
                let memory: Memory = self.writer.memories[self.memories[var]].clone();
                if let (Space::Reached, [address]) = (&memory.slice.space, &at[..]) {
                    return self.followed(&memory, address, &place.path);
                }
                let at: Vec<&'m Expr> = at.iter().collect();
                let texts = self.operands(&at);
                let indices: Vec<String> =
                    texts.into_iter().map(|text| self.kept(text, "i", "u32")).collect();
                let (condition, index) = match (&memory.slice.space, at.first().map(|at| &at.kind)) {
                    // As above.
                    (Space::Local(Some(len)), Some(Kind::Int(known))) if *known >= i128::from(*len) => {
                        ("false".into(), "0u".into())
                    }
                    _ => guarded(&memory, &indices),
                };
                inside.push(condition);
                if let Some(packed) = self.writer.packed(&memory, &index) {
                    return self.packed_place(packed, inside, &place.path);
                }
                let differs = !memory.is_as_in_registers();
                (format!("{}[{index}]", memory.name), memory.ty.clone(), differs)
            }
        };
        for step in &place.path {
            match step {
                Step::Field(of, at) => {
                    let module = self.writer.module;
                    let (field, field_ty) = &module.structs[*of].fields[*at];
                    text = format!("{text}.{}", member(field));
                    ty = field_ty.clone();
                }
                Step::Component(at) => {
                    // In memory a vector is an array.
                    text = match in_memory {
                        true => format!("{text}[{at}]"),
                        false => format!("{text}.{}", ["x", "y", "z", "w"][*at as usize]),
                    };
                    if let Ty::Vector(_, of) = ty {
                        ty = *of;
                    }
                }
                Step::Index(index, len) => {
                    if let Kind::Int(known) = index.kind
                        && known < i128::from(*len)
                    {
                        text = format!("{text}[{known}]");
                    } else if let Kind::Int(_) = index.kind {
                        // Nothing is there, and WGSL refuses an index that is known to be outside.
                        inside.push("false".into());
                        text = format!("{text}[0]");
                    } else {
                        let index = self.value(index);
                        let index = self.kept(index, "i", "u32");
                        inside.push(format!("{index} < {len}u"));
                        text = format!("{text}[{index}]");
                    }
                    if let Ty::Array(of, _) = ty {
                        ty = *of;
                    }
                }
            }
        }
        match inside.is_empty() {
            true => Access::Plain(text),
            false => Access::Guarded { inside: inside.join(" && "), text, memory: in_memory },
        }
    }

    /// A pointer to a place: to the variable itself, or to a copy that is brought back.
    pub(super) fn reference(&mut self, place: &'m Place, after: &mut Vec<String>) -> String {
        if let (Base::Var(var), true) = (&place.base, place.path.is_empty()) {
            let name = &self.names[var];
            return match name.strip_prefix("(*").and_then(|name| name.strip_suffix(')')) {
                Some(pointer) => pointer.into(),
                None => format!("&{name}"),
            };
        }
        let ty = self.writer.ty(&place.ty);
        let access = self.place(place);
        let name = self.temporary("copy");
        match access {
            Access::Plain(text) => {
                self.line(format!("var {name}: {ty} = {text};"));
                after.push(format!("{text} = {name};"));
            }
            Access::Guarded { inside, text, memory } => {
                let read = if memory { self.writer.loaded(&place.ty, &text) } else { text.clone() };
                self.line(format!("var {name}: {ty};"));
                self.line(format!("if {inside} {{ {name} = {read}; }}"));
                let write = if memory { self.writer.as_stored(&place.ty, &name) } else { name.clone() };
                after.push(format!("if {inside} {{ {text} = {write}; }}"));
            }
            Access::Packed { inside, packed } => {
                let read = self.writer.packed_read(&packed);
                self.line(format!("var {name}: {ty};"));
                self.line(format!("if {inside} {{ {name} = {read}; }}"));
                let write = self.writer.packed_write(&packed, &name);
                after.push(format!("if {inside} {{ {write} }}"));
            }
            Access::Followed(followed) => self.lend_followed(&followed, (&name, &ty), after),
        }
        format!("&{name}")
    }
}

/// How a place is reached.
pub(super) enum Access {
    Plain(String),
    Guarded {
        inside: String,
        text: String,
        /// Whether the text names a value as it is in memory.
        memory: bool,
    },
    /// In a memory that is made of words.
    Packed {
        inside: String,
        packed: Packed,
    },
    /// Where a pointer leads.
    Followed(Followed),
}
