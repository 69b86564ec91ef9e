//! Work-group memory starts as zeros: the items write them together, as far as somebody may read an element before it is
//! written, and wait.

use super::{Memory, Writer};
use crate::fills::{Count, Fill, fills};
use crate::hir::{Function, May, Space};

impl Writer<'_> {
    /// The statements that clear the memory of a kernel's groups. What the group's shape decides goes by overrides, whose
    /// branches are gone when the text has been built.
    pub(super) fn clearing(&mut self, function: &Function) -> String {
        let mut filled = fills(self.module, function);
        let (mut shaped, mut always) = (String::new(), String::new());
        for &param in &function.params {
            let is_memory = matches!(function.vars[param].kind, crate::hir::VarKind::Slice(_));
            let memory = match is_memory {
                true => self.memory_of(function, param).clone(),
                false => continue,
            };
            let Space::Local(len) = memory.slice.space else { continue };
            let len = len.map_or(format!("{}_len", memory.name), |len| format!("{len}u"));
            match filled.remove(&param) {
                Some(fill) => shaped.push_str(&self.rest(&memory, &len, &fill)),
                None => always.push_str(&self.cleared(&memory, &len, "local")),
            }
        }
        if !always.is_empty() {
            always.push_str("    workgroupBarrier();\n");
        }
        shaped + &always
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

    /// What lies behind the part that the items fill. Nobody waits there: a barrier comes behind the filling.
    fn rest(&mut self, memory: &Memory, len: &str, fill: &Fill) -> String {
        let Fill { conditions, count, inner } = fill;
        let count = match count {
            Count::Items(dim, factor) => format!("local_{dim} * {factor}u"),
            Count::Number(number) => format!("{number}u"),
        };
        let mut holds: Vec<String> = conditions
            .iter()
            .map(|(dim, factor, least)| format!("(local_{dim} * {factor}u >= {least}u)"))
            .collect();
        let all = self.cleared(memory, len, "local");
        let rest = match inner {
            1 => {
                let rest = self.cleared(memory, len, &format!("{count} + local"));
                format!("    if {count} < {len} {{\n    {rest}    }}\n")
            }
            // Part of an element is not cleared.
            _ => {
                holds.push(format!("({count} >= {len} * {inner}u)"));
                String::new()
            }
        };
        match holds.is_empty() {
            true => rest,
            false => {
                let holds = holds.join(" & ");
                format!("    if {holds} {{\n{rest}    }} else {{\n{all}    workgroupBarrier();\n    }}\n")
            }
        }
    }
}
