//! Random expressions, in both texts.

use crate::kernel::{Ty, Writer};

/// The same in the kernel language and in plain Rust.
#[derive(Clone, Debug)]
pub(crate) struct Both {
    pub(crate) kernel: String,
    pub(crate) plain: String,
}

impl Both {
    pub(crate) fn same(text: impl Into<String>) -> Self {
        let text = text.into();
        Both { kernel: text.clone(), plain: text }
    }

    pub(crate) fn new(kernel: impl Into<String>, plain: impl Into<String>) -> Self {
        Both { kernel: kernel.into(), plain: plain.into() }
    }
}

/// Fills `{0}`, `{1}` … of two patterns with operands.
pub(crate) fn form(kernel: &str, plain: &str, operands: &[&Both]) -> Both {
    let (mut k, mut p) = (kernel.to_string(), plain.to_string());
    for (at, operand) in operands.iter().enumerate() {
        k = k.replace(&format!("{{{at}}}"), &operand.kernel);
        p = p.replace(&format!("{{{at}}}"), &operand.plain);
    }
    Both::new(k, p)
}

impl Writer {
    pub(crate) fn expr(&mut self, ty: Ty, depth: usize) -> Both {
        if depth == 0 || self.random.once_in(6) {
            return self.leaf(ty);
        }
        match self.random.below(12) {
            0 => self.if_value(ty, depth),
            1 => self.match_value(ty, depth),
            2 => self.block_value(ty, depth),
            3 if !self.in_helper => self.helper_call(ty, depth),
            _ => match ty {
                Ty::I => self.int(ty, depth),
                Ty::U => self.int(ty, depth),
                Ty::F => self.float(depth),
                Ty::B => self.bool(depth),
            },
        }
    }

    fn leaf(&mut self, ty: Ty) -> Both {
        let vars: Vec<String> = self.vars.iter().filter(|v| v.ty == ty).map(|v| v.name.clone()).collect();
        if !vars.is_empty() && !self.random.once_in(3) {
            return Both::same(self.random.pick(&vars).clone());
        }
        let text = match ty {
            Ty::I => {
                const ODD: [&str; 6] = ["i32::MAX", "i32::MIN", "-1", "0", "31", "-2_000_000_011"];
                match self.random.once_in(4) {
                    true => (*self.random.pick(&ODD)).to_string(),
                    false => format!("{}", self.random.below(200) as i32 - 100),
                }
            }
            Ty::U if !self.in_helper && self.random.once_in(4) => {
                let positions = self.shape.positions();
                return self.random.pick(&positions).clone();
            }
            Ty::U => match self.random.once_in(4) {
                true => (*self.random.pick(&["u32::MAX", "0", "32", "0x8000_0000_u32", "LIMIT"])).to_string(),
                false => format!("{}", self.random.below(100)),
            },
            Ty::F => format!("{:?}", self.random.below(64) as f32 / 4.0 - 8.0),
            Ty::B => format!("{}", self.random.once_in(2)),
        };
        let suffix = match (ty, text.contains(|c: char| c.is_ascii_alphabetic())) {
            (Ty::I, false) => "_i32",
            (Ty::U, false) => "_u32",
            (Ty::F, _) => "_f32",
            _ => "",
        };
        let typed = format!("{text}{suffix}");
        if text.starts_with('-') { Both::same(format!("({typed})")) } else { Both::same(typed) }
    }

    fn int(&mut self, ty: Ty, depth: usize) -> Both {
        let signed = ty == Ty::I;
        let name = if signed { "i32" } else { "u32" };
        match self.random.below(30) {
            27..=29 => self.shared(ty, depth),
            20 if self.may_be_half && self.random.once_in(2) => self.half(ty, depth),
            20 if self.may_be_wide => self.wide(ty, depth),
            21 if self.may_be_wide => self.double(ty, depth),
            20 | 21 => self.more(ty, depth),
            22 => self.lanes(ty, depth),
            23 | 24 => self.extra(ty, depth),
            25 => self.more(ty, depth),
            26 => self.bits(ty, depth),
            0 => self.two(ty, depth, "({0} + {1})", "({0}).wrapping_add({1})"),
            1 => self.two(ty, depth, "({0} - {1})", "({0}).wrapping_sub({1})"),
            2 => self.two(ty, depth, "({0} * {1})", "({0}).wrapping_mul({1})"),
            3 => self.two(ty, depth, "({0} / {1})", "({0}).quotient({1})"),
            4 => self.two(ty, depth, "({0} % {1})", "({0}).remainder({1})"),
            5 => self.two(ty, depth, "({0} & {1})", "({0} & {1})"),
            6 => self.two(ty, depth, "({0} | {1})", "({0} | {1})"),
            7 => self.two(ty, depth, "({0} ^ {1})", "({0} ^ {1})"),
            8 | 9 => {
                let (left, by) = (self.expr(ty, depth - 1), self.expr(Ty::U, depth - 1));
                let (kernel, plain) = *self.random.pick(&[
                    ("({0} << {1})", "({0}).wrapping_shl({1})"),
                    ("({0} >> {1})", "({0}).wrapping_shr({1})"),
                ]);
                form(kernel, plain, &[&left, &by])
            }
            10 if signed => self.one(ty, depth, "(-{0})", "({0}).wrapping_neg()"),
            10 | 11 => self.one(ty, depth, "(!{0})", "(!{0})"),
            12 => self.two(ty, depth, "({0}).min({1})", "({0}).min({1})"),
            13 => self.two(ty, depth, "({0}).max({1})", "({0}).max({1})"),
            14 if signed => self.one(ty, depth, "({0}).abs()", "({0}).wrapping_abs()"),
            14 => self.one(ty, depth, "({0}).rotate_left(7)", "({0}).rotate_left(7)"),
            15 => {
                // From the other kinds of numbers.
                let from = *self.random.pick(&[Ty::I, Ty::U, Ty::B, Ty::F]);
                self.one(from, depth, &format!("({{0}} as {name})"), &format!("({{0}} as {name})"))
            }
            16 => self.memory(ty, depth),
            17 => self.array_element(ty, depth),
            18 => match signed {
                true => self.field(depth),
                false => self.one(Ty::U, depth, "({0}).count_ones()", "({0}).count_ones()"),
            },
            _ => {
                let method = *self.random.pick(&["leading_zeros()", "trailing_zeros()", "reverse_bits()"]);
                let text = format!("(({{0}} as u32).{method} as {name})");
                self.one(Ty::U, depth, &text, &text)
            }
        }
    }

    fn float(&mut self, depth: usize) -> Both {
        match self.random.below(13) {
            10 => {
                let method = *self.random.pick(&[
                    "ceil()",
                    "trunc()",
                    "round()",
                    "round_ties_even()",
                    "abs().sqrt().floor()",
                ]);
                // Only small numbers, whose square roots no rounding moves over a whole one.
                let of = self.expr(Ty::I, depth - 1);
                let text = format!("((({{0}} & 0xff) as f32) * 0.25).{method}");
                form(&text, &text, &[&of])
            }
            11 => self.one(
                Ty::U,
                depth,
                "f32::from_bits(0x3f80_0000 | (({0}) & 0x7f_ffff))",
                "f32::from_bits(0x3f80_0000 | (({0}) & 0x7f_ffff))",
            ),
            12 => {
                let text = *self.random.pick(&[
                    "({0}).clamp(-3.5, 9.25)",
                    "({0}).copysign(-2.0)",
                    "({0}).abs().fract()",
                    "f32::INFINITY.min({0})",
                    "({0}).max(-f32::INFINITY)",
                ]);
                self.one(Ty::F, depth, text, text)
            }
            0 => self.two(Ty::F, depth, "({0} + {1})", "({0} + {1})"),
            1 => self.two(Ty::F, depth, "({0} - {1})", "({0} - {1})"),
            2 => self.two(Ty::F, depth, "({0} * {1})", "({0} * {1})"),
            3 => self.two(Ty::F, depth, "({0}).min({1})", "({0}).min({1})"),
            4 => self.two(Ty::F, depth, "({0}).max({1})", "({0}).max({1})"),
            5 => self.one(Ty::F, depth, "({0}).abs()", "({0}).abs()"),
            6 => self.one(Ty::F, depth, "({0}).floor()", "({0}).floor()"),
            7 => self.vector(depth),
            8 => self.memory(Ty::F, depth),
            _ => {
                // Few enough bits for a float to hold them all.
                let of = self.expr(Ty::I, depth - 1);
                form("(({0} & 0xfff) as f32)", "(({0} & 0xfff) as f32)", &[&of])
            }
        }
    }

    fn bool(&mut self, depth: usize) -> Both {
        let ty = *self.random.pick(&[Ty::I, Ty::U]);
        match self.random.below(11) {
            10 if self.may_be_wide => {
                self.needs.wide = true;
                self.needs.compared = true;
                let text = "(({0} as i64) * 3 < ({1} as i64))";
                self.two(Ty::I, depth, text, text)
            }
            0 => self.two(ty, depth, "({0} < {1})", "({0} < {1})"),
            1 => self.two(ty, depth, "({0} <= {1})", "({0} <= {1})"),
            2 => self.two(ty, depth, "({0} > {1})", "({0} > {1})"),
            3 => self.two(ty, depth, "({0} >= {1})", "({0} >= {1})"),
            4 => self.two(ty, depth, "({0} == {1})", "({0} == {1})"),
            5 => self.two(ty, depth, "({0} != {1})", "({0} != {1})"),
            6 => self.two(Ty::B, depth, "({0} && {1})", "({0} && {1})"),
            7 => self.two(Ty::B, depth, "({0} || {1})", "({0} || {1})"),
            8 => self.two(Ty::B, depth, "({0} ^ {1})", "({0} ^ {1})"),
            _ => self.one(Ty::B, depth, "(!{0})", "(!{0})"),
        }
    }

    fn one(&mut self, ty: Ty, depth: usize, kernel: &str, plain: &str) -> Both {
        let operand = self.expr(ty, depth - 1);
        form(kernel, plain, &[&operand])
    }

    fn two(&mut self, ty: Ty, depth: usize, kernel: &str, plain: &str) -> Both {
        let (left, right) = (self.expr(ty, depth - 1), self.expr(ty, depth - 1));
        form(kernel, plain, &[&left, &right])
    }

    /// An element of a parameter, often outside.
    fn memory(&mut self, ty: Ty, depth: usize) -> Both {
        let (slice, own) = match ty {
            Ty::I => ("a", "out"),
            Ty::U => ("b", "uout"),
            _ => ("x", "fout"),
        };
        if !self.in_helper && self.may_read_results && self.random.once_in(3) {
            return Both::new(format!("{own}[g]"), format!("read(&m.{own}, g)"));
        }
        if self.in_helper {
            return self.leaf(ty);
        }
        let at = match self.random.once_in(4) {
            true => self.expr(Ty::U, depth - 1),
            false => form("(({0}) % 60)", "(({0}) % 60)", &[&self.expr(Ty::U, depth - 1)]),
        };
        form(&format!("{slice}[{{0}}]"), &format!("read(&m.{slice}, {{0}})"), &[&at])
    }

    /// An element of a local array, sometimes outside.
    fn array_element(&mut self, ty: Ty, depth: usize) -> Both {
        let arrays: Vec<String> = self.arrays.iter().filter(|v| v.ty == ty).map(|v| v.name.clone()).collect();
        if arrays.is_empty() {
            return self.leaf(ty);
        }
        let (array, at) = (self.random.pick(&arrays).clone(), self.expr(Ty::U, depth - 1));
        form(&format!("{array}[({{0}}) % 6]"), &format!("read(&{array}, ({{0}}) % 6)"), &[&at])
    }

    fn field(&mut self, depth: usize) -> Both {
        if self.structs.is_empty() || self.in_helper {
            return self.leaf(Ty::I);
        }
        let name = self.random.pick(&self.structs).clone();
        match self.random.below(3) {
            0 => Both::same(format!("{name}.low")),
            1 => Both::same(format!("({name}.high as i32)")),
            _ => {
                let at = self.expr(Ty::U, depth - 1);
                form(
                    &format!("{name}.rest[({{0}}) % 4]"),
                    &format!("read(&{name}.rest, ({{0}}) % 4)"),
                    &[&at],
                )
            }
        }
    }

    fn vector(&mut self, depth: usize) -> Both {
        let (x, y, z) =
            (self.expr(Ty::F, depth - 1), self.expr(Ty::F, depth - 1), self.expr(Ty::F, depth - 1));
        let text = *self.random.pick(&[
            "(Vec3::new({0}, {1}, {2}) + Vec3::splat(0.5)).y",
            "(Vec3::new({0}, {1}, {2}) * 2.0).z",
            "(Vec2::new({0}, {1}) - Vec2::new({2}, {0})).x",
            "Vec3::new({0}, {1}, 0.25).dot(Vec3::new(1.0, {2}, 2.0))",
        ]);
        form(text, text, &[&x, &y, &z])
    }

    fn if_value(&mut self, ty: Ty, depth: usize) -> Both {
        let condition = self.expr(Ty::B, depth - 1);
        let (yes, no) = (self.block_value(ty, depth - 1), self.expr(ty, depth - 1));
        form("(if {0} {1} else { {2} })", "(if {0} {1} else { {2} })", &[&condition, &yes, &no])
    }

    fn match_value(&mut self, ty: Ty, depth: usize) -> Both {
        let of = self.expr(Ty::I, depth - 1);
        let (a, b, c) = (self.expr(ty, depth - 1), self.block_value(ty, depth - 1), self.expr(ty, depth - 1));
        let text = "(match ({0}) % 4 { 0 => {1}, 1 | -1 => {2} _ => {3} })";
        let plain = "(match ({0}).remainder(4) { 0 => {1}, 1 | -1 => {2} _ => {3} })";
        form(text, plain, &[&of, &a, &b, &c])
    }

    /// A block with a variable of its own.
    fn block_value(&mut self, ty: Ty, depth: usize) -> Both {
        let inner = *self.random.pick(&[Ty::I, Ty::U]);
        let depth = depth.saturating_sub(1);
        let init = self.expr(inner, depth);
        let name = self.fresh("n");
        self.vars.push(crate::kernel::Var { name: name.clone(), ty: inner, mutable: false });
        let value = self.expr(ty, depth);
        self.vars.pop();
        let text = format!("{{ let {name} = {{0}}; {{1}} }}");
        form(&text, &text, &[&init, &value])
    }

    fn helper_call(&mut self, ty: Ty, depth: usize) -> Both {
        match ty {
            Ty::I => {
                let (p, q) = (self.expr(Ty::I, depth - 1), self.expr(Ty::U, depth - 1));
                form("mix({0}, {1})", "mix({0}, {1})", &[&p, &q])
            }
            Ty::U => {
                let at = self.expr(Ty::U, depth - 1);
                form("total(b, ({0}) % 50)", "total(&m.b, ({0}) % 50)", &[&at])
            }
            _ => self.leaf(ty),
        }
    }
}
