//! Work-group memory starts as zeros: the items write them together, as far as somebody may read an element before it is
//! written, and wait.

use std::collections::BTreeMap;

use super::{Memory, Writer};
use crate::fills::{Count, Fill, fills};
use crate::hir::{Function, May, Space};

/// What clears the memory of a kernel's groups.
#[derive(Default)]
pub(super) struct Clearing {
    /// Before everything else.
    pub(super) first: String,
    /// Right before these statements of the kernel's body, which are barriers.
    pub(super) later: BTreeMap<usize, String>,
}

impl Writer<'_> {
    /// The statements that clear the memory of a kernel's groups. What the group's shape decides goes by overrides, whose
    /// branches are gone when the text has been built.
    pub(super) fn clearing(&mut self, function: &Function) -> Clearing {
        let mut filled = fills(self.module, function);
        let (mut clearing, mut always) = (Clearing::default(), String::new());
        for &param in &function.params {
            let is_memory = matches!(function.vars[param].kind, crate::hir::VarKind::Slice(_));
            let memory = match is_memory {
                true => self.memory_of(function, param).clone(),
                false => continue,
            };
            let Space::Local(len) = memory.slice.space else { continue };
            let len = len.map_or(format!("{}_len", memory.name), |len| format!("{len}u"));
            match filled.remove(&param) {
                // Where the kernel is a function of its own, the item's number is not at hand in it.
                Some(fill) if !function.reductions.is_empty() => {
                    self.rest(&memory, &len, &Fill { waits: None, ..fill }, &mut clearing)
                }
                Some(fill) => self.rest(&memory, &len, &fill, &mut clearing),
                None => always.push_str(&self.cleared(&memory, &len, "local")),
            }
        }
        if !always.is_empty() {
            always.push_str("    workgroupBarrier();\n");
        }
        clearing.first.push_str(&always);
        clearing
    }

    /// A loop over the elements from one on.
    fn cleared(&mut self, memory: &Memory, len: &str, from: &str) -> String {
        let (name, ty) = (&memory.name, self.stored(memory));
        let step = match memory.slice.may {
            May::Atomic => {
                let word = ty.trim_start_matches("atomic<").trim_end_matches('>');
                format!("atomicStore(&{name}[at], {word}());")
            }
            _ => format!("{name}[at] = {ty}();"),
        };
        format!("    for (var at = {from}; at < {len}; at += group_items) {{ {step} }}\n")
    }

    /// What lies behind the part that the items fill. Nobody waits there: a barrier comes behind the filling. So it is cleared only where
    /// nobody fills any of it, which is where the pieces that are filled lie exactly beside each other; a group of another shape clears
    /// everything, and waits. If it can be, the rest is cleared just before the barrier: the values that the memory is filled with come
    /// from far away, and their loads had to wait behind writes to the same memory (a scan of 16 Mi elements on an H200: 98 us, and 86
    /// with the loads first).
    fn rest(&mut self, memory: &Memory, len: &str, fill: &Fill, clearing: &mut Clearing) {
        let Fill { conditions, count, inner, waits } = fill;
        let count = match count {
            Count::Items(dim, factor) => format!("local_{dim} * {factor}u"),
            Count::Number(number) => format!("{number}u"),
        };
        let all_hold = |than: &str| {
            let holds = |(dim, factor, least): &(usize, u32, u32)| {
                format!("(local_{dim} * {factor}u {than} {least}u)")
            };
            match conditions.is_empty() {
                true => "true".into(),
                false => conditions.iter().map(holds).collect::<Vec<_>>().join(" & "),
            }
        };
        let (filled, exact) = (all_hold(">="), all_hold("=="));
        let whole = format!("({count} >= {len} * {inner}u)");
        let (enough, rest) = match inner {
            1 => {
                let rest = self.cleared(memory, len, &format!("{count} + local"));
                let rest = format!("    if {exact} & ({count} < {len}) {{\n    {rest}    }}\n");
                (format!("{filled} & ({whole} | ({exact}))"), rest)
            }
            // Part of an element is not cleared.
            _ => (format!("{filled} & {whole}"), String::new()),
        };
        match waits {
            Some(barrier) => clearing.later.entry(*barrier).or_default().push_str(&rest),
            None => clearing.first.push_str(&rest),
        }
        let all = self.cleared(memory, len, "local");
        clearing
            .first
            .push_str(&format!("    if !({enough}) {{\n{all}        workgroupBarrier();\n    }}\n"));
    }
}
