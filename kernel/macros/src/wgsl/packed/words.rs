//! Values with small integers that start at a word and fill it, and those behind it: nobody else has a part of these words.

use super::Packed;
use crate::ty::{Scalar, Ty};
use crate::wgsl::Writer;

impl Writer<'_> {
    /// Whether a place has its words to itself.
    pub(super) fn is_words(&self, packed: &Packed) -> bool {
        let whole = |bytes: u32| bytes.is_multiple_of(4);
        whole(packed.offset)
            && packed.terms.iter().all(|(_, bytes)| whole(*bytes))
            && whole(self.bytes(&packed.ty))
            && self.has_small(&packed.ty)
    }

    pub(super) fn words_read(&mut self, packed: &Packed) -> String {
        let name = format!("w_get_words_{}_{}", self.tag(&packed.ty), packed.memory);
        if self.helpers.claim(&name) {
            let read = self.number_reader(packed, Scalar::U32);
            let words: Vec<String> = (0..self.bytes(&packed.ty) / 4).map(|at| format!("w{at}")).collect();
            let value = self.of_words(&packed.ty, &words, 0);
            let lets = words.iter().enumerate();
            let lets: String =
                lets.map(|(at, word)| format!("    let {word} = {read}(at + {at}u);\n")).collect();
            let ty = self.ty(&packed.ty);
            let text = format!("fn {name}(at: u32) -> {ty} {{\n{lets}    return {value};\n}}\n\n");
            self.helpers.text.push_str(&text);
        }
        format!("{name}({})", packed.at(4))
    }

    pub(super) fn words_write(&mut self, packed: &Packed, value: &str) -> String {
        let name = format!("w_put_words_{}_{}", self.tag(&packed.ty), packed.memory);
        if self.helpers.claim(&name) {
            let write = self.number_writer(packed, Scalar::U32);
            let mut words = vec![Vec::new(); (self.bytes(&packed.ty) / 4) as usize];
            self.fill_words(&packed.ty, "m", 0, &mut words);
            let words = words.iter().enumerate();
            let words: String = words
                .map(|(at, parts)| format!("    {write}(at + {at}u, {});\n", parts.join(" | ")))
                .collect();
            let ty = self.ty(&packed.ty);
            self.helpers.text.push_str(&format!("fn {name}(at: u32, m: {ty}) {{\n{words}}}\n\n"));
        }
        format!("{name}({}, {value});", packed.at(4))
    }

    /// What a value puts into each word.
    fn fill_words(&mut self, ty: &Ty, value: &str, offset: u32, words: &mut [Vec<String>]) {
        let Ty::Scalar(scalar) = ty else {
            for (part, behind, ty) in self.packed_parts(ty) {
                self.fill_words(&ty, &format!("{value}{part}"), offset + behind, words);
            }
            return;
        };
        let word = (offset / 4) as usize;
        let bits = match scalar {
            Scalar::I64 | Scalar::U64 | Scalar::F64 => {
                let bits = format!("bitcast<u64>({value})");
                words[word].push(format!("u32({bits} & 4294967295lu)"));
                return words[word + 1].push(format!("u32({bits} >> 32u)"));
            }
            Scalar::U32 => value.to_owned(),
            Scalar::I32 | Scalar::F32 => format!("bitcast<u32>({value})"),
            Scalar::F16 => format!("(pack2x16float(vec2<f32>(f32({value}), 0.0)) & 65535u)"),
            _ => format!("(u32({value}) & {}u)", (1_u32 << scalar.bits()) - 1),
        };
        let shift = offset % 4 * 8;
        let part = if shift == 0 { bits } else { format!("({bits} << {shift}u)") };
        words[word].push(part);
    }
}
