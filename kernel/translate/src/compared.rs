//! Comparisons of indices that are left in loops: what a kernel does in each turn that one written for a single device would not.
//!
//! In a text that promises its indices, memory is touched behind a comparison: a branch that touches memory itself, in place or
//! in a small function that does nothing else. Proving does away with many of them. Those that are left are found again by where
//! in the text they stand, which proving does not change; and so are loops that are written twice, of which the second, which
//! compares, runs only where the first cannot.

use std::collections::HashSet;

use naga::{AddressSpace, Block, Expression, Function, Handle, Module, Span, Statement};

use crate::prove::PROMISE;
use crate::statements::blocks_of;

/// Where the branches of a text stand that say something of its accesses. Found before anything is proved.
#[derive(Debug, Default)]
pub(crate) struct Branches {
    /// Those that touch memory themselves.
    comparisons: HashSet<Place>,
    /// Those of which one side promises what its loop reaches, and the other is the same loop once more.
    twins: HashSet<Place>,
}

type Place = (usize, usize);

/// An access in a loop whose index is compared in each turn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Comparison {
    memory: String,
    place: Place,
}

impl Comparison {
    /// The memory's name, and what the text says there.
    pub(crate) fn shown(&self, text: &str) -> String {
        let found = text.get(self.place.0..self.place.1).unwrap_or_default();
        // Of a branch the condition says enough.
        let said = found.strip_prefix("if ").map_or(found, |rest| rest.split(" {").next().unwrap_or(rest));
        format!("`{}`: `{}`", self.memory, said.trim())
    }
}

impl Branches {
    pub(crate) fn of(module: &Module) -> Self {
        let mut branches = Branches::default();
        let entries = module.entry_points.iter().map(|entry| &entry.function);
        for function in module.functions.iter().map(|(_, function)| function).chain(entries) {
            branches.find(module, function, &function.body);
        }
        branches
    }

    fn find(&mut self, module: &Module, function: &Function, block: &Block) {
        for (statement, span) in block.span_iter() {
            if let Statement::If { accept, .. } = statement {
                if touched(module, function, accept).is_some() {
                    self.comparisons.insert(place(*span));
                }
                if promises(module, accept, false) {
                    self.twins.insert(place(*span));
                }
            }
            blocks_of(statement).into_iter().for_each(|inner| self.find(module, function, inner));
        }
    }

    /// The comparisons that are left in a module's loops.
    pub(crate) fn left_in_loops(&self, module: &Module) -> Vec<Comparison> {
        let mut search = Search { branches: self, module, seen: HashSet::new(), found: Vec::new() };
        for entry in &module.entry_points {
            search.block(&entry.function, &entry.function.body, false, &entry.name);
        }
        search.found
    }
}

struct Search<'m> {
    branches: &'m Branches,
    module: &'m Module,
    /// Functions that were searched, in a loop or not.
    seen: HashSet<(Handle<Function>, bool)>,
    found: Vec<Comparison>,
}

impl Search<'_> {
    fn block(&mut self, function: &Function, block: &Block, looped: bool, entry: &str) {
        for (statement, span) in block.span_iter() {
            match statement {
                Statement::If { accept, .. } if self.branches.twins.contains(&place(*span)) => {
                    self.block(function, accept, looped, entry);
                }
                Statement::If { accept, .. } if self.branches.comparisons.contains(&place(*span)) => {
                    if looped && let Some(memory) = touched(self.module, function, accept) {
                        self.add(memory, *span);
                    }
                }
                Statement::Loop { body, continuing, .. } => {
                    self.block(function, body, true, entry);
                    self.block(function, continuing, true, entry);
                }
                Statement::Call { function: called, .. } => self.call(*called, *span, looped, entry),
                other => {
                    blocks_of(other).into_iter().for_each(|inner| self.block(function, inner, looped, entry))
                }
            }
        }
    }

    fn call(&mut self, called: Handle<Function>, span: Span, looped: bool, entry: &str) {
        let function = &self.module.functions[called];
        if looped && let Some(memory) = self.access(function) {
            return self.add(memory, span);
        }
        // An entry point goes from element to element in a loop of its own, which is none of the kernel's.
        let is_item = function
            .name
            .as_ref()
            .is_some_and(|name| name.strip_prefix(entry).is_some_and(|rest| rest.starts_with("_item")));
        let looped = looped && !is_item;
        if self.seen.insert((called, looped)) {
            self.block(function, &function.body, looped, entry);
        }
    }

    /// The memory of a function that compares an index, touches memory, and does nothing else.
    fn access(&self, function: &Function) -> Option<String> {
        let mut memory = None;
        for (statement, span) in function.body.span_iter() {
            match statement {
                Statement::If { accept, .. } if self.branches.comparisons.contains(&place(*span)) => {
                    memory = touched(self.module, function, accept);
                }
                Statement::Emit(_) | Statement::Return { .. } | Statement::Block(_) => {}
                _ => return None,
            }
        }
        memory
    }

    fn add(&mut self, memory: String, span: Span) {
        let found = Comparison { memory, place: place(span) };
        if !self.found.contains(&found) {
            self.found.push(found);
        }
    }
}

/// The memory that a block touches itself, or by a function of the text's own that compares nothing.
fn touched(module: &Module, function: &Function, block: &Block) -> Option<String> {
    block.iter().find_map(|statement| match statement {
        Statement::Emit(range) => {
            range.clone().find_map(|expression| match function.expressions[expression] {
                Expression::Load { pointer } => memory(module, function, pointer),
                _ => None,
            })
        }
        Statement::Store { pointer, .. } | Statement::Atomic { pointer, .. } => {
            memory(module, function, *pointer)
        }
        Statement::Block(inner) => touched(module, function, inner),
        Statement::Loop { body, .. } => touched(module, function, body),
        Statement::Call { function: called, .. } => {
            let called = &module.functions[*called];
            let is_ours = called.name.as_ref().is_some_and(|name| name.starts_with("w_"));
            is_ours.then(|| touched(module, called, &called.body)).flatten()
        }
        _ => None,
    })
}

/// The buffer, or the group's memory, that a pointer with an index points into.
fn memory(module: &Module, function: &Function, pointer: Handle<Expression>) -> Option<String> {
    let (mut at, mut is_indexed) = (pointer, false);
    loop {
        match function.expressions[at] {
            Expression::Access { base, .. } => (at, is_indexed) = (base, true),
            Expression::AccessIndex { base, .. } => at = base,
            Expression::GlobalVariable(global) if is_indexed => {
                let global = &module.global_variables[global];
                let counts = matches!(global.space, AddressSpace::Storage { .. } | AddressSpace::WorkGroup);
                // What `debug!` says is no work of the kernel's.
                return global.name.clone().filter(|name| counts && !name.starts_with("w_"));
            }
            _ => return None,
        }
    }
}

/// Whether a block has a loop that promises what it reaches.
fn promises(module: &Module, block: &Block, looped: bool) -> bool {
    block.iter().any(|statement| match statement {
        Statement::Call { function, .. } => {
            looped && module.functions[*function].name.as_deref() == Some(PROMISE)
        }
        Statement::Block(inner) => promises(module, inner, looped),
        Statement::Loop { body, .. } if !looped => promises(module, body, true),
        _ => false,
    })
}

fn place(span: Span) -> Place {
    span.to_range().map_or((0, 0), |range| (range.start, range.end))
}

#[cfg(test)]
mod tests {
    use crate::wgsl::Checked;

    fn left(body: &str) -> Vec<String> {
        let text = format!(
            "
struct Block {{ v_at: u32, v_len: u32 }}
@group(0) @binding(0) var<storage, read_write> v: array<u32>;
@group(0) @binding(1) var<uniform> block: Block;
fn w_promised(holds: bool) {{}}
fn get_v(i: u32) -> u32 {{
    if i < block.v_len {{ return v[block.v_at + i]; }}
    return u32();
}}
fn twice(i: u32) -> u32 {{ return 2u * get_v(i + 7u); }}
@compute @workgroup_size(64) fn main(@builtin(global_invocation_id) id: vec3<u32>) {{
    let n = id.y;
    var sum = get_v(id.x);
    {body}
    if id.x < block.v_len {{ v[block.v_at + id.x] = sum; }}
}}"
        );
        let checked = Checked::parse(&text).and_then(|checked| checked.pruned(true)).expect("it is right");
        checked.compared_in_loops(&text)
    }

    #[test]
    fn what_is_outside_of_loops_does_not_count() {
        assert!(left("sum += get_v(n) + twice(n);").is_empty());
    }

    #[test]
    fn calls_and_branches_in_loops_count_once() {
        let found = left(
            "for (var k = 0u; k < n; k += 1u) {
                sum += get_v(k * n) + twice(k);
                if k < block.v_len { v[block.v_at + k] = sum; }
            }",
        );
        assert_eq!(found, ["`v`: `get_v(k * n)`", "`v`: `get_v(i + 7u)`", "`v`: `k < block.v_len`"]);
    }

    #[test]
    fn what_is_proved_does_not_count() {
        assert!(left("for (var k = 0u; k < block.v_len; k += 1u) { sum += get_v(k); }").is_empty());
        // The condition stays, which is the author's; the comparison behind it is gone.
        let own = "for (var k = 0u; k < n; k += 1u) { if k < block.v_len { sum += get_v(k); } }";
        assert!(left(own).is_empty());
    }

    #[test]
    fn the_second_form_of_a_loop_that_is_written_twice_does_not_count() {
        let found = left(
            "if n <= block.v_len {
                for (var k = 0u; k < n; k += 1u) { w_promised(k < block.v_len); sum += get_v(k); }
            } else {
                for (var k = 0u; k < n; k += 1u) { sum += get_v(k); }
            }",
        );
        assert!(found.is_empty(), "{found:?}");
        let half = "
            for (var k = 0u; k < n; k += 1u) { w_promised(k < block.v_len); sum += get_v(k) + get_v(sum); }";
        assert_eq!(left(half), ["`v`: `get_v(sum)`"]);
    }
}
