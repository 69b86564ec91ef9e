//! Values that are one of several things: `Option`s, enums with data, and parameters that a launch takes apart.

use crate::expr::{Both, form};
use crate::kernel::{Ty, Var, Writer};

/// What stands in each kernel's module.
pub(crate) const ITEMS: &str = "    #[derive(Clone, Copy)]
    pub enum Form { Empty, Flat(i32), Deep { by: u32, at: Option<i32> } }
    impl Form {
        fn value(self) -> i32 {
            match self {
                Form::Empty => 11,
                Self::Flat(a) => a * 3,
                Form::Deep { by, at } => match at { Some(a) => a + by as i32, None => -(by as i32) },
            }
        }
    }
    fn over(of: i32, least: i32) -> Option<i32> { if of % 7 > least - 5 { Some(of - least) } else { None } }
    fn found(of: i32, by: u32) -> Option<i32> {
        let high = over(of, 3)?;
        if by % 3 == 1 { return None; }
        Some(high ^ by as i32)
    }
";

/// The same in plain Rust.
pub(crate) const PLAIN_ITEMS: &str = "    #[derive(Clone, Copy)]
    pub enum Form { Empty, Flat(i32), Deep { by: u32, at: Option<i32> } }
    impl Form {
        fn value(self) -> i32 {
            match self {
                Form::Empty => 11,
                Form::Flat(a) => a.wrapping_mul(3),
                Form::Deep { by, at } => at.map_or((by as i32).wrapping_neg(), |a| a.wrapping_add(by as i32)),
            }
        }
    }
    fn over(of: i32, least: i32) -> Option<i32> { (of % 7 > least - 5).then(|| of.wrapping_sub(least)) }
    fn found(of: i32, by: u32) -> Option<i32> { over(of, 3).filter(|_| by % 3 != 1).map(|high| high ^ by as i32) }
    pub fn given(s: i32, t: u32) -> (Option<i32>, Form) {
        (found(s, t), if s < 0 { Form::Flat(s) } else { Form::Deep { by: t, at: Some(s) } })
    }
";

/// A parameter that all kernels have.
pub(crate) const PARAMETER: &str = "more: (Option<i32>, Form)";

/// What is passed for it.
pub(crate) fn argument(name: &str, of: &str) -> String {
    format!(
        "({name}_plain::given({of}.s, {of}.t).0, if {of}.s < 0 {{ {name}::Form::Flat({of}.s) }} else {{ \
         {name}::Form::Deep {{ by: {of}.t, at: Some({of}.s) }} }})"
    )
}

impl Writer {
    /// An `i32` out of a value that may be something else.
    pub(crate) fn variant(&mut self, depth: usize) -> Both {
        let (a, b, u) = (self.expr(Ty::I, depth), self.expr(Ty::I, depth), self.expr(Ty::U, depth));
        let text = match self.random.below(if self.in_helper { 5 } else { 7 }) {
            0 => "found({0}, {2}).unwrap_or({1})",
            1 => "(match found({0}, {2}) { Some(some) => some ^ 1, None => {1} })",
            2 => "(if let Some(some) = over({0}, 2).or(found({1}, {2})) { some } else { 5 })",
            3 => {
                "(if {0} < {1} { Form::Flat({1}) } else { Form::Deep { by: {2}, at: over({0}, 2) } }).value()"
            }
            4 => "(if found({0}, {2}).is_none() { Form::Empty } else { Form::Flat({1}) }).value()",
            5 => "more.0.unwrap_or({0})",
            _ => "(more.1.value() ^ {0})",
        };
        form(text, text, &[&a, &b, &u])
    }

    /// A loop that goes on while there is something, or a variable that is bound if there is.
    pub(crate) fn while_some(&mut self, depth: usize, in_loop: bool) -> Both {
        let (a, by) = (self.expr(Ty::I, depth), self.expr(Ty::U, 1));
        let leaves = match (in_loop, self.may_return) {
            (true, _) => Some("break"),
            (_, true) => Some("return"),
            _ => None,
        };
        if let (Some(leaves), true) = (leaves, self.random.once_in(3)) {
            let name = self.fresh("v");
            self.vars.push(Var { name: name.clone(), ty: Ty::I, mutable: false });
            let text = format!("let Some({name}) = found({{0}}, {{1}}) else {{\n{leaves};\n}};\n");
            return form(&text, &text, &[&a, &by]);
        }
        let [left, turns, sum] = ["left", "turns", "v"].map(|like| self.fresh(like));
        let head = format!(
            "let mut {left} = over({{0}}, 1);\nlet mut {turns}: u32 = 0;\nlet mut {sum}: u32 = {{1}};\n"
        );
        let step = format!("{turns} += 1;\nif {turns} > 4 {{\nbreak;\n}}\n");
        let kernel = format!(
            "{head}while let Some(more) = {left} {{\n{step}{sum} = {sum} * 3 + more as u32;\n{left} = over(more, 2);\n}}\n"
        );
        let plain = format!(
            "{head}while let Some(more) = {left} {{\n{step}{sum} = {sum}.wrapping_mul(3).wrapping_add(more as u32);\n{left} = \
             over(more, 2);\n}}\n"
        );
        let made = form(&kernel, &plain, &[&a, &by]);
        self.vars.push(Var { name: sum, ty: Ty::U, mutable: true });
        made
    }
}
