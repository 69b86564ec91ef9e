//! Expressions as a message shows them: near to what the author wrote.

use crate::hir::{Expr, Function, Kind, Module, UnOp};

/// An expression's text, with `…` for what is no short one.
pub(crate) fn shown(module: &Module, function: &Function, expr: &Expr) -> String {
    let all = |expr: &Expr| shown(module, function, expr);
    let name = |var: usize| function.vars[var].name.to_string();
    match &expr.kind {
        Kind::Bool(value) => value.to_string(),
        Kind::Int(value) => value.to_string(),
        Kind::Float(value) => format!("{value:?}"),
        Kind::Const(at) => module.consts[*at].name.to_string(),
        Kind::Var(var) => name(*var),
        Kind::Unary(UnOp::Neg, of) => format!("-{}", all(of)),
        Kind::Unary(UnOp::Not, of) => format!("!{}", all(of)),
        Kind::Binary(op, a, b) => format!("{} {} {}", all(a), op.sign(), all(b)),
        Kind::Logic(and, a, b) => format!("{} {} {}", all(a), if *and { "&&" } else { "||" }, all(b)),
        Kind::Cast(of) => all(of),
        Kind::Element(var, at) => {
            let at: String = at.iter().map(|index| format!("[{}]", all(index))).collect();
            format!("{}{at}", name(*var))
        }
        Kind::Len(var, None) => format!("{}.len()", name(*var)),
        Kind::Len(var, Some(dim)) => format!("{}.extent({dim})", name(*var)),
        Kind::Id(id, dim) => format!("{}({dim})", id.name()),
        Kind::Math(math, list) => {
            let Some((of, rest)) = list.split_first() else { return "…".into() };
            let rest: Vec<String> = rest.iter().map(all).collect();
            format!("{}.{}({})", all(of), math.name(), rest.join(", "))
        }
        _ => "…".into(),
    }
}
