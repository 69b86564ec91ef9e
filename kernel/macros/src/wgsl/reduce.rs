//! Reductions: each item's value in a variable of its own, those of the work-group's items combined in two steps, and one
//! atomic step for each group into the result.

use std::collections::HashMap;

use super::stmt::Body;
use super::{Memory, RANGE_GROUP, Work, Writer};
use crate::hir::{AtomicOp, Function, May, Reduction, Slice, Space, Var, VarId};
use crate::ty::{Scalar, Ty};

/// So many items combine the values of the others in the first step: about the root of how many there are.
const FIRST: u32 = 16;

impl<'m> Writer<'m> {
    /// Gives a reduction's result its place among the memories: atomic words.
    pub(super) fn result_memory(&mut self, param: VarId, var: &Var) {
        let name = self.unique(&format!("{}_result", var.name));
        let ty = match var.ty {
            Ty::Scalar(Scalar::F32) => Ty::Scalar(Scalar::U32),
            ref ty => ty.clone(),
        };
        self.results.insert(param, self.memories.len());
        self.memories.push(Memory {
            name,
            ty,
            slice: Slice { dims: 1, may: May::Atomic, space: Space::Global },
        });
    }

    /// The kernel's body as a function of its own, which may return early, and what the items do behind it.
    pub(super) fn reduced(&mut self, function: &'m Function, entry: &str, body: &str) -> Work {
        let items = if self.grouped { "group_items".into() } else { format!("{RANGE_GROUP}u") };
        let (mut params, mut given) = (Vec::new(), Vec::new());
        let positions: &[&str] =
            if self.grouped { &["global_id", "local_id", "group_id"] } else { &["global_id"] };
        for name in positions {
            for dim in 0..3 {
                params.push(format!("{name}_{dim}: u32"));
                given.push(format!("{name}_{dim}"));
            }
        }
        let (mut before, mut fill, mut step, mut last) =
            (String::new(), String::new(), String::new(), String::new());
        for reduction in &function.reductions {
            let var = &function.vars[reduction.param];
            let (ty, name) = (self.ty(&var.ty), self.unique(&format!("w_{}", var.name)));
            let pointer = self.pointers[&reduction.param].clone();
            params.push(format!("{pointer}: ptr<function, {ty}>"));
            given.push(format!("&{name}"));
            let (combined, identity) = self.combined(function, reduction, &name);
            let parts = self.unique(&format!("{name}_parts"));
            before.push_str(&format!("var {name}: {ty} = {identity}; "));
            self.helpers.text.push_str(&format!("var<workgroup> {parts}: array<{ty}, {items}>;\n\n"));
            fill.push_str(&format!("    {parts}[local] = {name};\n"));
            step.push_str(&format!(
                "            {parts}[local] = {combined}({parts}[local], {parts}[other]);\n"
            ));
            let into = self.group_step(reduction, &name, (&combined, &identity), &ty);
            last.push_str(&format!("        {into}({parts}[0]);\n"));
        }
        let work = self.unique(&format!("{entry}_item"));
        self.functions.text.push_str(&format!("fn {work}({}) {{\n{body}}}\n\n", params.join(", ")));
        let declared: String =
            before.split_inclusive("; ").map(|line| format!("    {}\n", line.trim())).collect();
        // In two steps and not in a tree: PoCL lets only the first item count in some loops that have a barrier.
        let together = format!(
            "{fill}    workgroupBarrier();
    if local < {FIRST}u {{
        for (var other = local + {FIRST}u; other < {items}; other += {FIRST}u) {{
{step}        }}
    }}
    workgroupBarrier();
    if local == 0u {{
        for (var other = 1u; other < min({items}, {FIRST}u); other += 1u) {{
{step}        }}
{last}    }}
"
        );
        Work::Called { declared, call: format!("{work}({});", given.join(", ")), together }
    }

    /// The function that makes one value of two, and the value that changes nothing.
    fn combined(&mut self, function: &'m Function, reduction: &'m Reduction, name: &str) -> (String, String) {
        let combined = self.unique(&format!("{name}_combined"));
        let [a, b] = ["a", "b"].map(|name| self.unique(name));
        let ty = self.ty(&function.vars[reduction.param].ty);
        let names = HashMap::from([(reduction.parts[0], a.clone()), (reduction.parts[1], b.clone())]);
        let mut body = Body {
            writer: self,
            function,
            names,
            memories: HashMap::new(),
            lines: Vec::new(),
            level: 1,
            entry: false,
        };
        let value = body.value(&reduction.combined);
        let lines: String = body.lines.iter().map(|line| format!("{line}\n")).collect();
        body.lines.clear();
        let identity = body.value(&reduction.identity);
        self.functions.text.push_str(&format!(
            "fn {combined}({a}: {ty}, {b}: {ty}) -> {ty} {{\n{lines}    return {value};\n}}\n\n"
        ));
        (combined, identity)
    }

    /// The function that combines a group's value with the result.
    fn group_step(
        &mut self,
        reduction: &Reduction,
        name: &str,
        (combined, identity): (&str, &str),
        ty: &str,
    ) -> String {
        let memory = &self.memories[self.results[&reduction.param]];
        let result = memory.name.clone();
        let place = format!("&{result}[block.{result}_at]");
        let stored = if memory.ty == Ty::Scalar(Scalar::I32) { "i32" } else { "u32" };
        let into = self.unique(&format!("{name}_into"));
        let step = match reduction.atomic {
            Some(op) => {
                let builtin = match op {
                    AtomicOp::Min => "atomicMin",
                    AtomicOp::Max => "atomicMax",
                    _ => "atomicAdd",
                };
                format!("    {builtin}({place}, value);\n")
            }
            // What is there is guessed at first, and not loaded: OpenCL C 1.2 has no atomic load.
            None => format!(
                "    var old = bitcast<{stored}>({identity});
    loop {{
        let next = bitcast<{stored}>({combined}(bitcast<{ty}>(old), value));
        let seen = atomicCompareExchangeWeak({place}, old, next);
        if seen.exchanged {{ break; }}
        old = seen.old_value;
    }}
"
            ),
        };
        self.functions.text.push_str(&format!(
            "fn {into}(value: {ty}) {{\n    if block.{result}_len == 0u {{ return; }}\n{step}}}\n\n"
        ));
        into
    }
}
