//! Reductions: each item's value in a variable of its own, over all elements that it takes, those of the work-group's items
//! combined as a tree, and one atomic step for each group into the result.

use std::collections::HashMap;

use super::entry::{Entry, Work};
use super::stmt::Body;
use super::{Memory, Writer};
use crate::hir::{AtomicOp, BinOp, Expr, Function, Kind, May, Reduction, Slice, Space, Var, VarId};
use crate::ty::{Scalar, Ty};

/// No work-group has more than twice as many items.
const HALF_OF_MOST: u32 = 2048;

impl<'m> Writer<'m> {
    /// Gives a reduction's result its place among the memories: atomic words.
    pub(super) fn result_memory(&mut self, param: VarId, var: &Var) {
        let name = self.unique(&format!("{}_result", var.name));
        let ty = match var.ty.scalar() {
            Some(Scalar::F64) => Ty::Scalar(Scalar::U64),
            Some(scalar) if !scalar.is_float() => Ty::Scalar(scalar),
            _ => Ty::Scalar(Scalar::U32),
        };
        self.results.insert(param, self.memories.len());
        self.memories.push(Memory {
            name,
            ty,
            slice: Slice { dims: 1, may: May::Atomic, space: Space::Global, is_image: false },
        });
    }

    /// The kernel's body as a function of its own, which may return early, and what the items do behind it.
    pub(super) fn reduced(&mut self, function: &'m Function, form: &Entry<'_>, body: &str) -> Work {
        let items = if self.grouped { "group_items" } else { "items" };
        let (mut params, mut given) = (Vec::new(), Vec::new());
        let (mut before, mut fill, mut step, mut last) =
            (String::new(), String::new(), String::new(), String::new());
        let (mut own, mut owned, mut gathered) = (String::new(), Vec::new(), String::new());
        for reduction in &function.reductions {
            let var = &function.vars[reduction.param];
            let (ty, name) = (self.ty(&var.ty), self.unique(&format!("w_{}", var.name)));
            let pointer = self.pointers[&reduction.param].clone();
            params.push(format!("{pointer}: ptr<function, {ty}>"));
            given.push(format!("&{name}"));
            let (combined, identity) = self.combined(
                function,
                reduction,
                &name,
                &var.ty,
                (&reduction.combined, &reduction.identity),
            );
            let of_numbers = match &reduction.component {
                None => (combined.clone(), identity.clone()),
                Some((both, nothing)) => {
                    let number = Ty::Scalar(var.ty.scalar().unwrap_or(Scalar::U32));
                    self.combined(function, reduction, &format!("{name}_number"), &number, (both, nothing))
                }
            };
            let parts = self.unique(&format!("{name}_parts"));
            before.push_str(&format!("    var {name}: {ty} = {identity};\n"));
            let value = self.unique(&format!("{name}_own"));
            own.push_str(&format!("    var {value}: {ty} = {identity};\n"));
            owned.push(format!("&{value}"));
            gathered.push_str(&format!("    *{pointer} = {combined}(*{pointer}, {value});\n"));
            self.helpers.text.push_str(&format!("var<workgroup> {parts}: array<{ty}, {items}>;\n\n"));
            fill.push_str(&format!("    {parts}[local] = {name};\n"));
            step.push_str(&format!("{parts}[local] = {combined}({parts}[local], {parts}[local + HALF]); "));
            let into = self.group_step(reduction, &name, &of_numbers, &var.ty);
            last.push_str(&format!("        {into}({parts}[0]);\n"));
        }
        let (names, dims): (&[&str], _) = match self.grouped {
            true => (&["global_id", "local_id", "group_id"], 3),
            false => (&["global_id"], form.positions),
        };
        for name in names {
            params.extend((0..dims).map(|dim| format!("{name}_{dim}: u32")));
        }
        let mut work = self.unique(&format!("{}_item", form.name));
        let params = params.join(", ");
        self.functions.text.push_str(&format!("fn {work}({params}) {{\n{body}}}\n\n"));
        if !self.grouped {
            // The kernel may set its value, whatever it was: each element has one of its own.
            let element = self.unique(&format!("{}_element", form.name));
            let positions = (0..dims).map(|dim| format!("global_id_{dim}"));
            let all: Vec<String> = owned.into_iter().chain(positions).collect();
            self.functions.text.push_str(&format!(
                "fn {element}({params}) {{\n{own}    {work}({});\n{gathered}}}\n\n",
                all.join(", ")
            ));
            work = element;
        }
        // As a tree, whose steps are written out: PoCL (3.1 does) lets only the first item count in some loops that have a
        // barrier. The steps that a group is too small for are gone when the text has been built.
        let halves = std::iter::successors(Some(HALF_OF_MOST), |half| (*half > 1).then_some(half / 2));
        let steps: String = halves
            .map(|half| {
                let step = step.replace("HALF", &format!("{half}u"));
                format!(
                    "    if {items} > {half}u {{
        if local < min({half}u, {items} - {half}u) {{ {step}}}
        workgroupBarrier();
    }}
"
                )
            })
            .collect();
        let together = format!("{fill}    workgroupBarrier();\n{steps}    if local == 0u {{\n{last}    }}\n");
        Work::Called { declared: before, function: work, given, together }
    }

    /// The function that makes one value of two, and the value that changes nothing.
    fn combined(
        &mut self,
        function: &'m Function,
        reduction: &'m Reduction,
        name: &str,
        ty: &Ty,
        (both, nothing): (&'m Expr, &'m Expr),
    ) -> (String, String) {
        let combined = self.unique(&format!("{name}_combined"));
        let [a, b] = ["a", "b"].map(|name| self.unique(name));
        let ty = self.ty(ty);
        let names = HashMap::from([(reduction.parts[0], a.clone()), (reduction.parts[1], b.clone())]);
        let mut body = Body::new(self, function, names, HashMap::new());
        let value = body.value(both);
        let lines: String = body.lines.iter().map(|line| format!("{line}\n")).collect();
        body.lines.clear();
        let identity = body.value(nothing);
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
        (combined, identity): &(String, String),
        ty: &Ty,
    ) -> String {
        let memory = &self.memories[self.results[&reduction.param]];
        let (result, stored) = (memory.name.clone(), memory.ty.clone());
        let (stored, whole) = (self.ty(&stored), self.ty(ty));
        let number = self.ty(&Ty::Scalar(ty.scalar().unwrap_or(Scalar::U32)));
        let into = self.unique(&format!("{name}_into"));
        if let Some(width) = ty.width() {
            let own = self.unique(&format!("{into}_number"));
            let place = format!("&{result}[block.{result}_at * {width}u + at]");
            let step = self.number_step(reduction, name, (combined, identity), (&place, &stored, &number));
            let each: String = (0..width)
                .map(|at| format!("    {own}({at}u, value.{});\n", ["x", "y", "z", "w"][usize::from(at)]))
                .collect();
            self.functions.text.push_str(&format!(
                "fn {own}(at: u32, value: {number}) {{\n{step}}}\n
fn {into}(value: {whole}) {{\n    if block.{result}_len == 0u {{ return; }}\n{each}}}\n\n"
            ));
            return into;
        }
        let place = format!("&{result}[block.{result}_at]");
        let step = self.number_step(reduction, name, (combined, identity), (&place, &stored, &number));
        self.functions.text.push_str(&format!(
            "fn {into}(value: {whole}) {{\n    if block.{result}_len == 0u {{ return; }}\n{step}}}\n\n"
        ));
        into
    }

    /// The statements that combine a number with the one at a place.
    fn number_step(
        &mut self,
        reduction: &Reduction,
        name: &str,
        (combined, identity): (&str, &str),
        (place, stored, ty): (&str, &str, &str),
    ) -> String {
        match reduction.atomic {
            Some(op) => {
                let builtin = match op {
                    AtomicOp::Min => "atomicMin",
                    AtomicOp::Max => "atomicMax",
                    _ => "atomicAdd",
                };
                format!("    {builtin}({place}, value);\n")
            }
            // What is there is guessed at first, and not loaded: OpenCL C 1.2 has no atomic load.
            None => {
                let guessing = format!(
                    "    var old = bitcast<{stored}>({identity});
    loop {{
        let next = bitcast<{stored}>({combined}(bitcast<{ty}>(old), value));
        let seen = atomicCompareExchangeWeak({place}, old, next);
        if seen.exchanged {{ break; }}
        old = seen.old_value;
    }}
"
                );
                match is_float_sum(reduction) {
                    false => guessing,
                    // Devices that add floats in one step do that in this function's place, which is known by its name.
                    true => {
                        let add = self.unique(&format!("w_float_add_{}", name.trim_start_matches("w_")));
                        self.functions.text.push_str(&format!("fn {add}(value: {ty}) {{\n{guessing}}}\n\n"));
                        format!("    {add}(value);\n")
                    }
                }
            }
        }
    }
}

fn is_float_sum(reduction: &Reduction) -> bool {
    let of = |expr: &Expr, part: VarId| matches!(expr.kind, Kind::Var(var) if var == part);
    let Kind::Binary(BinOp::Add, a, b) = &reduction.combined.kind else { return false };
    let [first, second] = reduction.parts;
    reduction.combined.ty == Ty::Scalar(Scalar::F32) && of(a, first) && of(b, second)
}
