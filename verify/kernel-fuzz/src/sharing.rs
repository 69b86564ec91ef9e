//! What kernels share, and ways through loops: generic helpers, methods, operators, another module, labels, arrays to go through.

use crate::expr::{Both, form};
use crate::kernel::{Extra, Ty, Var, Writer};

/// A module that each kernel's module uses: it has names that the other one has as well.
pub(crate) const TOOLS: &str = "    use windlass::prelude::*;
    const LIMIT: u32 = 3;
    pub const TURNS: u32 = 2;
    #[derive(Clone, Copy)]
    pub struct Range<T> { pub low: T, pub high: T }
    impl<T> Range<T> {
        pub fn of(a: T, b: T) -> Self { if a < b { Range { low: a, high: b } } else { Range { low: b, high: a } } }
        pub fn middle(self, by: T) -> T { self.low + (self.high - self.low) / by }
    }
    fn mix(x: u32) -> u32 { (x ^ LIMIT) * 2_654_435_761 }
    pub fn scatter(x: u32) -> u32 {
        let mut h = x;
        for _ in 0..TURNS { h = mix(h).rotate_left(5); }
        h
    }
";

/// The same in plain Rust.
pub(crate) const PLAIN_TOOLS: &str = "    fn scatter(x: u32) -> u32 {
        (0..2).fold(x, |h, _| (h ^ 3).wrapping_mul(2_654_435_761).rotate_left(5))
    }
";

/// What stands in each kernel's module.
pub(crate) const ITEMS: &str = "    type Row = [i32; 3];
    impl Pair {
        fn of(low: i32, high: u32) -> Self { Pair { low, high, rest: [1, low, -3] } }
        fn sum(&self) -> i32 { let mut sum = self.low + self.high as i32; for r in self.rest { sum += r; } sum }
        fn shift(&mut self, by: i32) { self.low += by; self.rest[1] = self.low; }
    }
    impl Add for Pair {
        type Output = Pair;
        fn add(self, other: Pair) -> Pair { Pair { low: self.low + other.low, high: self.high + other.high, rest: self.rest } }
    }
    impl MulAssign<u32> for Pair {
        fn mul_assign(&mut self, by: u32) { self.high *= by; self.rest[0] -= 1; }
    }
    #[derive(Clone, Copy, PartialEq)]
    enum Way { Up, Down = 5, Over = -2 }
    const WAYS: [Way; 2] = [Way::Down, turned(Way::Down)];
    const MASKS: [u32; 6] = masks(LIMIT);
    const fn turned(way: Way) -> Way { match way { Way::Up => Way::Down, Way::Down => Way::Over, Way::Over => Way::Up } }
    const fn masks(from: u32) -> [u32; 6] {
        let mut all = [0; 6];
        let mut last = from;
        for i in 0..6_u32 {
            last = last * 0x9e37_79b1 + i;
            all[i] = if last % 3 == 0 { last >> 7_u32 } else { last };
        }
        all
    }
    impl Way {
        fn go(self, a: i32, b: i32) -> i32 { match self { Way::Up => a + b, Way::Down => a - b, Way::Over => a ^ b } }
    }
    fn folded(x: &[u32], from: u32) -> u32 {
        let mut all = from ^ x.len();
        for i in 0..x.len() + 1 { all = all * 31 + x[i]; }
        all
    }
    fn swapped<T>(x: &mut [T], by: T) {
        let last = x.len() - 1;
        let kept = x[0];
        x[0] = x[last];
        x[last] = kept;
        x[1] += by;
    }
    fn larger<T: PartialOrd>(a: T, b: T) -> T { if a > b { a } else { b } }
    fn at<T, const N: usize>(of: [T; N], index: usize) -> T { let last: usize = N - 1; of[index.min(last)] }
    fn below<T>(of: &[T], index: u32, or: T) -> T { if index < of.len() { of[index] } else { or } }
    fn passed<T>(tile: &mut [T], l: u32, value: T) -> T {
        barrier();
        tile[l] = value;
        barrier();
        let other = tile[l ^ 1];
        barrier();
        other
    }
";

/// The same in plain Rust.
pub(crate) const PLAIN_ITEMS: &str = "    #[derive(Clone, Copy, PartialEq)]
    enum Way { Up, Down = 5, Over = -2 }
    const WAYS: [Way; 2] = [Way::Down, Way::Over];
    impl Way {
        fn turned(self) -> Way { match self { Way::Up => Way::Down, Way::Down => Way::Over, Way::Over => Way::Up } }
        fn go(self, a: i32, b: i32) -> i32 {
            match self { Way::Up => a.wrapping_add(b), Way::Down => a.wrapping_sub(b), Way::Over => a ^ b }
        }
    }
    fn masks() -> Vec<u32> {
        (0..6).scan(LIMIT, |last, i| { *last = last.wrapping_mul(0x9e37_79b1).wrapping_add(i); Some(*last) })
            .map(|last| if last % 3 == 0 { last >> 7 } else { last })
            .collect()
    }
    fn folded(x: &[u32], from: u32) -> u32 {
        x.iter().chain([&0]).fold(from ^ x.len() as u32, |all, x| all.wrapping_mul(31).wrapping_add(*x))
    }
    impl Pair {
        fn of(low: i32, high: u32) -> Self { Pair { low, high, rest: [1, low, -3] } }
        fn sum(&self) -> i32 { self.rest.iter().fold(self.low.wrapping_add(self.high as i32), |sum, r| sum.wrapping_add(*r)) }
        fn shift(&mut self, by: i32) { self.low = self.low.wrapping_add(by); self.rest[1] = self.low; }
        fn plus(self, other: Pair) -> Pair {
            Pair { low: self.low.wrapping_add(other.low), high: self.high.wrapping_add(other.high), rest: self.rest }
        }
        fn times(&mut self, by: u32) { self.high = self.high.wrapping_mul(by); self.rest[0] = self.rest[0].wrapping_sub(1); }
    }
";

impl Writer {
    /// A value by something that is shared.
    pub(crate) fn shared(&mut self, ty: Ty, depth: usize) -> Both {
        if ty == Ty::I && self.random.once_in(4) {
            return self.variant(depth - 1);
        }
        let (a, b) = (self.expr(ty, depth - 1), self.expr(ty, depth - 1));
        let u = self.expr(Ty::U, depth - 1);
        if self.in_helper {
            return self.arithmetic(ty, &a, &b, &u);
        }
        match (self.random.below(8), ty) {
            (6, Ty::U) => form(
                "folded(&b[({0}) % 60..({1}) % 90], {2})",
                "folded(part(&m.b, ({0}) % 60, ({1}) % 90), {2})",
                &[&a, &b, &u],
            ),
            (7, Ty::U) => form(
                "(folded(&[{0}, {1}, {0}][1..], 3) ^ MASKS[({2}) % 7])",
                "(folded(&[{1}, {0}], 3) ^ read(&masks(), ({2}) % 7))",
                &[&a, &b, &u],
            ),
            (6, _) => form(
                "turned(WAYS[({2}) % 2]).go({0}, {1})",
                "WAYS[(({2}) % 2) as usize].turned().go({0}, {1})",
                &[&a, &b, &u],
            ),
            (7, _) => form(
                "(match (if {0} < {1} { Way::Up } else { turned(Way::Down) }) { Way::Up => {1}, way => way as i32 })",
                "(if {0} < {1} { {1} } else { -2 })",
                &[&a, &b],
            ),
            (0, _) => self.arithmetic(ty, &a, &b, &u),
            (1, _) => form("larger({0}, {1})", "({0}).max({1})", &[&a, &b]),
            (2, _) => form(
                "at([{0}, {1}, {0}], ({2}) % 5)",
                "(read(&[{0}, {1}, {0}], (({2}) % 5).min(2)))",
                &[&a, &b, &u],
            ),
            (3, Ty::U) => form("(scatter({0}))", "(scatter({0}))", &[&a]),
            (3, _) => {
                let kernel = "(Pair::of({0}, {2}) + Pair::of({1}, 3)).sum()";
                form(kernel, "Pair::of({0}, {2}).plus(Pair::of({1}, 3)).sum()", &[&a, &b, &u])
            }
            (4, Ty::U) => form(
                "below(b, ({0}) % 70, {1})",
                "*m.b.get((({0}) % 70) as usize).unwrap_or(&({1}))",
                &[&a, &b],
            ),
            // Outside on both sides.
            (4, _) => {
                let kernel = "a[({0}) % 64]";
                form(kernel, "u32::try_from(({0}).remainder(64)).map_or(0, |at| read(&m.a, at))", &[&a])
            }
            (_, Ty::U) => form(
                "Range::of({0} % 1000, {1} % 1000).middle(2)",
                "(({0} % 1000).min({1} % 1000) + (({0} % 1000).abs_diff({1} % 1000)) / 2)",
                &[&a, &b],
            ),
            _ => self.arithmetic(ty, &a, &b, &u),
        }
    }

    /// Methods of numbers that are written in the language itself.
    fn arithmetic(&mut self, ty: Ty, a: &Both, b: &Both, u: &Both) -> Both {
        let (kernel, plain) = match (self.random.below(9), ty) {
            (6.., _) => return self.narrow(ty, a, b, u),
            (0, _) => ("({0}).saturating_add({1})", "({0}).saturating_add({1})"),
            (1, _) => ("({0}).saturating_sub({1})", "({0}).saturating_sub({1})"),
            (2, _) => ("({0}).saturating_mul({1})", "({0}).saturating_mul({1})"),
            (3, _) => ("({0}).pow(({2}) % 6)", "({0}).wrapping_pow(({2}) % 6)"),
            // Among small numbers are enough squares.
            (4, Ty::U) => {
                ("(({0}).isqrt() ^ (({1}) % 26).isqrt())", "(({0}).isqrt() ^ (({1}) % 26).isqrt())")
            }
            (_, Ty::U) => (
                "(({0}).next_power_of_two() ^ ({0}).is_power_of_two() as u32)",
                "(({0}).checked_next_power_of_two().unwrap_or(0) ^ ({0}).is_power_of_two() as u32)",
            ),
            (4, _) => ("({0}).rem_euclid({1} | 1)", "({0}).wrapping_rem_euclid({1} | 1)"),
            _ => ("({0}).div_euclid({1} | 1)", "({0}).wrapping_div_euclid({1} | 1)"),
        };
        form(kernel, plain, &[a, b, u])
    }

    /// Over integers of 8 and 16 bits.
    fn narrow(&mut self, ty: Ty, a: &Both, b: &Both, u: &Both) -> Both {
        let (kernel, plain) = match ty {
            Ty::U => *self.random.pick(&[
                ("((({0}) as u8 + ({1}) as u8) as u32)", "((({0}) as u8).wrapping_add(({1}) as u8) as u32)"),
                (
                    "((({0}) as u16 * ({1}) as u16 / (({1}) as u8 as u16 | 1)) as u32)",
                    "((({0}) as u16).wrapping_mul(({1}) as u16) / (({1}) as u8 as u16 | 1)) as u32",
                ),
                (
                    "((({0} & 0xfff) as f32 * 0.25) as u8 as u32)",
                    "((({0} & 0xfff) as f32 * 0.25) as u8 as u32)",
                ),
                ("((!(({0}) as u8) << ({2})) as u32)", "((!(({0}) as u8)).wrapping_shl({2}) as u32)"),
            ]),
            _ => *self.random.pick(&[
                ("((({0}) as i8 * ({1}) as i8) as i32)", "((({0}) as i8).wrapping_mul(({1}) as i8) as i32)"),
                (
                    "(((({0}) as i16) << ({2})) as i32 - ((({1}) as i8) >> 3_u32) as i32)",
                    "((({0}) as i16).wrapping_shl({2}) as i32).wrapping_sub(((({1}) as i8) >> 3_u32) as i32)",
                ),
                (
                    "((({0}) as i8).saturating_sub(({1}) as i8) as i32)",
                    "((({0}) as i8).saturating_sub(({1}) as i8) as i32)",
                ),
                (
                    "((-(({0}) as i16)).abs_diff(({1}) as i16) as i32)",
                    "((({0}) as i16).wrapping_neg().abs_diff(({1}) as i16) as i32)",
                ),
            ]),
        };
        form(&format!("({kernel})"), &format!("({plain})"), &[a, b, u])
    }

    /// A statement about something shared, or a loop of another kind.
    pub(crate) fn shared_stmt(&mut self, depth: usize, in_loop: bool) -> Both {
        match self.random.below(13) {
            8 | 9 => self.lent(),
            0 | 10 => self.method(depth),
            11 | 12 => self.while_some(depth, in_loop),
            1 if depth > 1 => self.each(depth),
            2 | 3 if depth > 1 => self.labelled(depth),
            4 if depth > 1 => self.another_way(depth),
            5 if depth > 1 => self.ranges(depth, in_loop),
            6 if self.extra == Extra::Atomics && self.may_write => self.exchange(depth),
            _ => self.several(depth),
        }
    }

    /// An array, or a part of one, that a helper changes as memory.
    fn lent(&mut self) -> Both {
        let arrays: Vec<Var> = self.arrays.iter().filter(|array| array.mutable).cloned().collect();
        if arrays.is_empty() {
            return self.array(1);
        }
        let name = self.random.pick(&arrays).name.clone();
        let by = self.random.below(20);
        let (kernel, from, to) = match self.random.below(3) {
            0 => (format!("&mut {name}"), 0, 5),
            1 => (format!("&mut {name}[1..4]"), 1, 4),
            _ => (format!("&mut {name}[2..=9]"), 2, 5),
        };
        let plain = format!(
            "{name}.swap({from}, {}); {name}[{}] = {name}[{}].wrapping_add({by});\n",
            to - 1,
            from + 1,
            from + 1
        );
        Both::new(format!("swapped({kernel}, {by});\n"), plain)
    }

    fn method(&mut self, depth: usize) -> Both {
        let Some(name) = self.structs.first().cloned() else {
            let name = self.fresh("p");
            let (low, high) = (self.expr(Ty::I, depth), self.expr(Ty::U, depth));
            self.structs.push(name.clone());
            let text = format!("let mut {name} = Pair::of({{0}}, {{1}});\n");
            return form(&text, &text, &[&low, &high]);
        };
        if self.random.once_in(2) {
            let by = self.expr(Ty::I, depth);
            let text = format!("let by = {{0}};\n{name}.shift(by);\n");
            return form(&text, &text, &[&by]);
        }
        let by = self.expr(Ty::U, depth);
        form(
            &format!("let by = {{0}};\n{name} *= by;\n"),
            &format!("let by = {{0}};\n{name}.times(by);\n"),
            &[&by],
        )
    }

    fn several(&mut self, depth: usize) -> Both {
        let names = [self.fresh("v"), self.fresh("v")];
        let (a, b) = (self.expr(Ty::I, depth), self.expr(Ty::U, depth));
        for (name, ty) in names.iter().zip([Ty::I, Ty::U]) {
            self.vars.push(Var { name: name.clone(), ty, mutable: *name == names[0] });
        }
        let text = format!("let (mut {}, {}) = ({{0}}, {{1}});\n", names[0], names[1]);
        form(&text, &text, &[&a, &b])
    }

    fn each(&mut self, depth: usize) -> Both {
        let name = self.fresh("e");
        let (a, b) = (self.expr(Ty::I, depth - 1), self.expr(Ty::I, 0));
        self.vars.push(Var { name: name.clone(), ty: Ty::I, mutable: false });
        let body = self.stmts(2, depth - 1, true);
        self.vars.retain(|v| v.name != name);
        let text = format!("for {name} in [{{0}}, {{1}}, -4] {{\n{{2}}}}\n");
        form(&text, &text, &[&a, &b, &body])
    }

    fn another_way(&mut self, depth: usize) -> Both {
        let name = self.fresh("i");
        let (from, count) = (self.random.below(4), self.random.below(9));
        let way = *self.random.pick(&["rev()", "step_by(2)", "step_by(3)"]);
        let range = match self.random.once_in(5) {
            true => "(u32::MAX - 3..=u32::MAX)".into(),
            false => format!("({from}_u32..{})", from + count),
        };
        self.vars.push(Var { name: name.clone(), ty: Ty::U, mutable: false });
        let body = self.stmts(2, depth - 1, true);
        self.vars.retain(|v| v.name != name);
        let text = format!("for {name} in {range}.{way} {{\n{{0}}}}\n");
        form(&text, &text, &[&body])
    }

    /// Two or three loops in each other, of which the inner one leaves the outer one or goes on with it. What is counted
    /// tells which way was gone.
    fn labelled(&mut self, depth: usize) -> Both {
        let [label, i, k, n] = ["l", "i", "k", "n"].map(|like| self.fresh(like));
        let how = if self.random.once_in(2) { "break" } else { "continue" };
        let (between, behind_it) = match self.random.once_in(2) {
            true => ("for _ in 0..2_u32 {\n".to_string(), format!("{n} = ({n} * 7 + 1) % 1000;\n}}\n")),
            false => Default::default(),
        };
        let stop = self.random.below(5);
        self.vars.push(Var { name: i.clone(), ty: Ty::U, mutable: false });
        let condition = self.expr(Ty::B, depth.min(2));
        let inner = self.stmts(1, depth - 1, true);
        // It may bind a variable, which ends with the loop's body.
        let outer = self.vars.clone();
        let behind = self.assign(1);
        self.vars = outer;
        self.vars.retain(|v| v.name != i);
        let changed = self.vars.iter().find(|v| v.mutable && v.ty == Ty::U);
        let seen = changed.map_or(String::new(), |var| format!("{} ^= {n};\n", var.name));
        self.vars.push(Var { name: n.clone(), ty: Ty::U, mutable: true });
        let text = format!(
            "let mut {n}: u32 = 0;\n'{label}: for {i} in 0..4_u32 {{\n{between}let mut {k}: u32 = 0;\nwhile {k} < 3 {{\n{k} += 1;\n\
             {n} = ({n} * 5 + {i} + {k}) % 1000;\n{{1}}if ({{0}}) || {k} + {i} == {stop} {{\n{how} '{label};\n}}\n}}\n{behind_it}{{2}}}}\n{seen}"
        );
        form(&text, &text, &[&condition, &inner, &behind])
    }

    fn ranges(&mut self, depth: usize, in_loop: bool) -> Both {
        let of = self.expr(Ty::U, depth - 1);
        let (a, b) = (self.stmts(1, depth - 1, in_loop), self.stmts(1, depth - 1, in_loop));
        let text = "match ({0}) % 40 {\n0..=7 | 30 => {\n{1}}\n9..12 => {\n{2}}\n_ => {}\n}\n";
        form(text, text, &[&of, &a, &b])
    }

    /// An exchange that is never made: nobody changes these, and none of them is so large.
    fn exchange(&mut self, depth: usize) -> Both {
        let (at, value) = (self.expr(Ty::U, 0), self.expr(Ty::U, depth));
        let name = self.fresh("v");
        self.vars.push(Var { name: name.clone(), ty: Ty::U, mutable: false });
        let place = "24 + ({0}) % 4";
        let kernel = format!(
            "let {name} = match acc[{place}].compare_exchange(0xffff_fff0, {{1}}, Relaxed, Relaxed) {{\nOk(was) => was + 1,\nErr(seen) => \
             seen,\n}};\n"
        );
        form(&kernel, &format!("let {name} = read(&m.acc, {place});\n"), &[&at, &value])
    }
}
