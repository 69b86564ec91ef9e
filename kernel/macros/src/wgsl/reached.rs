//! What pointers lead to. WGSL has no addresses, so what reads and writes one number by its address is a function of a certain name,
//! in whose place a writer of another language puts that language's own access (`windlass_kernel_translate`); a device that takes WGSL
//! itself has no kernel that follows pointers. All else is in the text: an address is compared with the parts of memory that the launch
//! names for the type, and a struct is read and written number by number.

use super::place::Access;
use super::stmt::Body;
use super::{Memory, Writer};
use crate::hir::{BinOp, Expr, Kind, Place, Step};
use crate::pointers::PARTS;
use crate::ty::{Scalar, Ty};

/// A place where a pointer leads: an element, or a part of one.
pub(super) struct Followed {
    inside: String,
    address: String,
    ty: Ty,
}

impl Writer<'_> {
    /// The table of a memory, which the block has, and the functions that look into it.
    pub(super) fn reach(&mut self, memory: &Memory) {
        let Memory { name, ty, .. } = memory;
        let (bytes, value) = (self.bytes(ty), self.ty(ty));
        let mut tests = String::new();
        for part in 0..PARTS {
            let start = self.block_scalar(Scalar::U64, &format!("{name}_start_{part}"));
            let size = self.block_scalar(Scalar::U64, &format!("{name}_size_{part}"));
            tests
                .push_str(&format!("    if w_part_{name}(at, {start}, {size}, writes) {{ return true; }}\n"));
        }
        let read = self.far_read(ty, "at");
        // A size is twice the bytes, and one more where they may be written.
        self.helpers.text.push_str(&format!(
            "fn w_part_{name}(at: u64, start: u64, size: u64, writes: bool) -> bool {{
    let behind = at - start;
    return (behind < (size >> 1u)) & ((behind % {bytes}lu) == 0lu) & (!writes | ((size & 1lu) == 1lu));
}}

fn w_inside_{name}(at: u64, writes: bool) -> bool {{
{tests}    return false;
}}

fn get_{name}(at: u64) -> {value} {{
    if w_inside_{name}(at, false) {{ return {read}; }}
    return {value}();
}}

"
        ));
    }

    /// A value at an address, which is a name or a sum.
    fn far_read(&mut self, ty: &Ty, at: &str) -> String {
        match ty {
            Ty::Scalar(scalar) => {
                let (name, value) = (format!("w_far_load_{}", scalar.name()), self.ty(ty));
                if self.helpers.claim(&name) {
                    let text = format!("fn {name}(at: u64) -> {value} {{\n    return {value}();\n}}\n\n");
                    self.helpers.text.push_str(&text);
                }
                format!("{name}({at})")
            }
            Ty::Vector(..) => self.far_parts(ty, at),
            ty => {
                let name = format!("w_far_get_{}", self.tag(ty));
                if self.helpers.claim(&name) {
                    let (value, parts) = (self.ty(ty), self.far_parts(ty, "at"));
                    let text = format!("fn {name}(at: u64) -> {value} {{\n    return {parts};\n}}\n\n");
                    self.helpers.text.push_str(&text);
                }
                format!("{name}({at})")
            }
        }
    }

    fn far_parts(&mut self, ty: &Ty, at: &str) -> String {
        let parts = self.packed_parts(ty);
        let parts = parts.iter().map(|(_, offset, ty)| self.far_read(ty, &behind(at, *offset)));
        let parts = parts.collect::<Vec<_>>().join(", ");
        format!("{}({parts})", self.ty(ty))
    }

    /// The statements that write a value, which is a name, to an address.
    fn far_write(&mut self, ty: &Ty, at: &str, value: &str) -> String {
        match ty {
            Ty::Scalar(scalar) => {
                let (name, held) = (format!("w_far_store_{}", scalar.name()), self.ty(ty));
                if self.helpers.claim(&name) {
                    self.helpers.text.push_str(&format!("fn {name}(at: u64, value: {held}) {{}}\n\n"));
                }
                format!("{name}({at}, {value});")
            }
            Ty::Vector(..) => self.far_writes(ty, at, value),
            ty => {
                let name = format!("w_far_put_{}", self.tag(ty));
                if self.helpers.claim(&name) {
                    let (held, writes) = (self.ty(ty), self.far_writes(ty, "at", "m"));
                    let text = format!("fn {name}(at: u64, m: {held}) {{\n    {writes}\n}}\n\n");
                    self.helpers.text.push_str(&text);
                }
                format!("{name}({at}, {value});")
            }
        }
    }

    fn far_writes(&mut self, ty: &Ty, at: &str, value: &str) -> String {
        let parts = self.packed_parts(ty);
        let write = |(part, offset, ty): &(String, u32, Ty)| {
            self.far_write(ty, &behind(at, *offset), &format!("{value}{part}"))
        };
        parts.iter().map(write).collect::<Vec<_>>().join(" ")
    }
}

impl<'m> Body<'_, 'm> {
    /// Where a pointer leads to, and a path behind that.
    pub(super) fn followed(&mut self, memory: &Memory, address: &'m Expr, path: &'m [Step]) -> Access {
        let address = self.value(address);
        let mut address = self.kept(address, "at", "u64");
        let mut inside = vec![format!("w_inside_{}({address}, true)", memory.name)];
        let mut ty = memory.ty.clone();
        for step in path {
            let parts = self.writer.packed_parts(&ty);
            let part = |at: usize| parts.get(at).cloned();
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
                    let first = part(0);
                    if let Some((_, _, of)) = &first {
                        address = format!("{address} + u64({index}) * {}lu", self.writer.bytes(of));
                    }
                    first
                }
            };
            match found {
                Some((_, offset, of)) => (address, ty) = (behind(&address, offset), of),
                // Nothing is there.
                None => {
                    inside.push("false".into());
                    ty = parts.first().map_or(ty, |(_, _, of)| of.clone());
                }
            }
        }
        Access::Followed(Followed { inside: inside.join(" && "), address, ty })
    }

    pub(super) fn assign_followed(&mut self, to: &Followed, place: &Place, op: Option<BinOp>, value: &str) {
        let Followed { inside, address, ty } = to;
        let read = if op.is_some() { self.writer.far_read(ty, address) } else { String::new() };
        let (new, held) = (self.combined(place, op, &read, value), self.writer.ty(ty));
        let write = self.writer.far_write(ty, address, "w_new");
        self.line(format!("if {inside} {{ let w_new: {held} = {new}; {write} }}"));
    }

    /// Fills a copy of what is lent, and says how it is brought back.
    pub(super) fn lend_followed(
        &mut self,
        from: &Followed,
        (name, held): (&str, &str),
        after: &mut Vec<String>,
    ) {
        let Followed { inside, address, ty } = from;
        let (read, write) = (self.writer.far_read(ty, address), self.writer.far_write(ty, address, name));
        self.line(format!("var {name}: {held};"));
        self.line(format!("if {inside} {{ {name} = {read}; }}"));
        after.push(format!("if {inside} {{ {write} }}"));
    }
}

/// An address, and so many bytes behind it.
fn behind(at: &str, offset: u32) -> String {
    if offset == 0 { at.into() } else { format!("{at} + {offset}lu") }
}
