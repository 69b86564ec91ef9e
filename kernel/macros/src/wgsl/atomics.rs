//! Atomic operations: a function for each of them and each memory.

use super::Writer;
use super::memory::guard;
use crate::hir::AtomicOp;
use crate::ty::F32;

impl Writer<'_> {
    /// The name of the function that does an atomic operation on a memory.
    pub(super) fn atomic(&mut self, at: usize, op: AtomicOp) -> String {
        let memory = self.memories[at].clone();
        let name = format!("{}_{}", verb(op), memory.name);
        if !self.helpers.claim(&name) {
            return name;
        }
        let ty = self.ty(&memory.ty);
        let (params, inside, index) = guard(&memory);
        let place = format!("&{}[{index}]", memory.name);
        let body = if memory.ty == F32 { float_body(op, &place) } else { body(op, &place) };
        let operands = match op {
            AtomicOp::Load => String::new(),
            AtomicOp::ExchangeIf => format!(", current: {ty}, value: {ty}"),
            _ => format!(", value: {ty}"),
        };
        let text = match op {
            AtomicOp::Store => {
                format!("fn {name}({params}{operands}) {{\n    if {inside} {{ {body} }}\n}}\n\n")
            }
            _ => format!(
                "fn {name}({params}{operands}) -> {ty} {{\n    if {inside} {{ {body} }}\n    return {ty}();\n}}\n\n"
            ),
        };
        self.helpers.text.push_str(&text);
        name
    }
}

fn verb(op: AtomicOp) -> &'static str {
    match op {
        AtomicOp::Load => "load",
        AtomicOp::Store => "store",
        AtomicOp::Add => "fetch_add",
        AtomicOp::Sub => "fetch_sub",
        AtomicOp::And => "fetch_and",
        AtomicOp::Or => "fetch_or",
        AtomicOp::Xor => "fetch_xor",
        AtomicOp::Min => "fetch_min",
        AtomicOp::Max => "fetch_max",
        AtomicOp::Swap => "swap",
        AtomicOp::ExchangeIf => "exchange_if",
    }
}

/// What is done to an integer.
fn body(op: AtomicOp, place: &str) -> String {
    let builtin = match op {
        AtomicOp::Load => return format!("return atomicLoad({place});"),
        AtomicOp::Store => return format!("atomicStore({place}, value);"),
        // The one that WGSL has may write nothing although it could.
        AtomicOp::ExchangeIf => {
            return format!(
                "loop {{
            let seen = atomicCompareExchangeWeak({place}, current, value);
            if seen.exchanged | (seen.old_value != current) {{ return seen.old_value; }}
        }}"
            );
        }
        AtomicOp::Add => "atomicAdd",
        AtomicOp::Sub => "atomicSub",
        AtomicOp::And => "atomicAnd",
        AtomicOp::Or => "atomicOr",
        AtomicOp::Xor => "atomicXor",
        AtomicOp::Min => "atomicMin",
        AtomicOp::Max => "atomicMax",
        AtomicOp::Swap => "atomicExchange",
    };
    format!("return {builtin}({place}, value);")
}

/// What is done to a float, by its bits.
fn float_body(op: AtomicOp, place: &str) -> String {
    let made = match op {
        AtomicOp::Load => return format!("return bitcast<f32>(atomicLoad({place}));"),
        AtomicOp::Store => return format!("atomicStore({place}, bitcast<u32>(value));"),
        AtomicOp::Swap => {
            return format!("return bitcast<f32>(atomicExchange({place}, bitcast<u32>(value)));");
        }
        AtomicOp::Sub => "bitcast<f32>(old) - value",
        AtomicOp::Min => "min(bitcast<f32>(old), value)",
        AtomicOp::Max => "max(bitcast<f32>(old), value)",
        // Nothing else is asked of floats.
        _ => "bitcast<f32>(old) + value",
    };
    // What is there is guessed at first, and not loaded: OpenCL C 1.2 has no atomic load.
    format!(
        "var old = 0u;
        loop {{
            let next = bitcast<u32>({made});
            let seen = atomicCompareExchangeWeak({place}, old, next);
            if seen.exchanged {{ break; }}
            old = seen.old_value;
        }}
        return bitcast<f32>(old);"
    )
}
