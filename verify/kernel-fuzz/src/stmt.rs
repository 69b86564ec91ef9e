//! Random statements, in both texts.

use crate::expr::{Both, form};
use crate::kernel::{Ty, Var, Writer};

impl Writer {
    /// A few statements; in a loop they may leave it or go on with it.
    pub(crate) fn stmts(&mut self, count: usize, depth: usize, in_loop: bool) -> Both {
        let outer = (self.vars.clone(), self.arrays.clone(), self.structs.clone(), self.vectors.clone());
        let mut all = Both::same("");
        for _ in 0..count {
            let stmt = self.stmt(depth, in_loop);
            all.kernel.push_str(&stmt.kernel);
            all.plain.push_str(&stmt.plain);
        }
        (self.vars, self.arrays, self.structs, self.vectors) = outer;
        all
    }

    /// The statements of a body, whose variables stay known.
    pub(crate) fn opening(&mut self, count: usize, depth: usize) -> Both {
        let mut all = Both::same("");
        for _ in 0..count {
            let stmt = self.stmt(depth, false);
            all.kernel.push_str(&stmt.kernel);
            all.plain.push_str(&stmt.plain);
        }
        all
    }

    fn stmt(&mut self, depth: usize, in_loop: bool) -> Both {
        match self.random.below(23) {
            0..=2 => self.bind(depth),
            3 | 4 => self.assign(depth),
            5 => self.array(depth),
            6 => self.structure(depth),
            7 if depth > 1 => self.branch(depth, in_loop),
            8 if depth > 1 => self.counted(depth),
            9 if depth > 1 => self.repeated(depth),
            10 if depth > 1 => self.choice(depth, in_loop),
            11 => self.result(depth),
            12 | 17 => self.extra_stmt(depth).unwrap_or_else(|| self.bind(depth)),
            18 | 19 => self.vectors(depth),
            13 => self.changed(depth),
            20..=22 => self.shared_stmt(depth, in_loop),
            14 if in_loop => self.jump(depth),
            15 if self.may_return => self.leave(depth),
            _ => self.bind(depth),
        }
    }

    fn bind(&mut self, depth: usize) -> Both {
        let ty = *self.random.pick(&[Ty::I, Ty::I, Ty::U, Ty::U, Ty::F, Ty::B]);
        let init = self.expr(ty, depth);
        // Sometimes under a name that is taken.
        let name = match (self.random.once_in(8), self.vars.last()) {
            (true, Some(var)) if var.name.starts_with('v') => var.name.clone(),
            _ => self.fresh("v"),
        };
        let mutable = self.random.once_in(2);
        self.vars.retain(|v| v.name != name);
        self.vars.push(Var { name: name.clone(), ty, mutable });
        let keyword = if mutable { "let mut" } else { "let" };
        let text = format!("{keyword} {name}: {} = {{0}};\n", ty.name());
        form(&text, &text, &[&init])
    }

    pub(crate) fn assign(&mut self, depth: usize) -> Both {
        let vars: Vec<Var> = self.vars.iter().filter(|v| v.mutable).cloned().collect();
        if vars.is_empty() {
            return self.bind(depth);
        }
        let var = self.random.pick(&vars).clone();
        let value = self.expr(var.ty, depth);
        let name = &var.name;
        let (kernel, plain) = match (var.ty, self.random.below(5)) {
            (Ty::I | Ty::U, 0) => {
                (format!("{name} += {{0}};\n"), format!("{name} = {name}.wrapping_add({{0}});\n"))
            }
            (Ty::I | Ty::U, 1) => {
                (format!("{name} *= {{0}};\n"), format!("{name} = {name}.wrapping_mul({{0}});\n"))
            }
            (Ty::I | Ty::U, 2) => (format!("{name} ^= {{0}};\n"), format!("{name} ^= {{0}};\n")),
            (Ty::I | Ty::U, 3) => {
                (format!("{name} /= {{0}};\n"), format!("{name} = {name}.quotient({{0}});\n"))
            }
            (Ty::F, 0) => (format!("{name} -= {{0}};\n"), format!("{name} -= {{0}};\n")),
            _ => (format!("{name} = {{0}};\n"), format!("{name} = {{0}};\n")),
        };
        let made = form(&kernel, &plain, &[&value]);
        match self.random.below(12) {
            0 => Both { kernel: format!("#[cfg(any())]\n{}", made.kernel), plain: String::new() },
            1 => Both { kernel: format!("#[cfg(all())]\n{}", made.kernel), ..made },
            _ => made,
        }
    }

    pub(crate) fn array(&mut self, depth: usize) -> Both {
        let ty = *self.random.pick(&[Ty::I, Ty::U]);
        let known: Vec<String> = self.arrays.iter().filter(|v| v.ty == ty).map(|v| v.name.clone()).collect();
        if known.is_empty() || self.random.once_in(3) {
            let name = self.fresh("r");
            let values = [self.expr(ty, depth), self.expr(ty, 0)];
            self.arrays.push(Var { name: name.clone(), ty, mutable: true });
            let text = format!("let mut {name} = [{{0}}, {{1}}, {{1}}, {{0}}, {{1}}];\n");
            return form(&text, &text, &[&values[0], &values[1]]);
        }
        let name = self.random.pick(&known).clone();
        let (at, value) = (self.expr(Ty::U, depth), self.expr(ty, depth));
        let kernel = format!("{name}[({{0}}) % 7] = {{1}};\n");
        // The value comes first.
        let plain =
            format!("{{ let value = {{1}}; let at = ({{0}}) % 7; write(&mut {name}, at, value); }}\n");
        form(&kernel, &plain, &[&at, &value])
    }

    fn structure(&mut self, depth: usize) -> Both {
        if self.structs.is_empty() || self.random.once_in(3) {
            let name = self.fresh("p");
            let (low, high) = (self.expr(Ty::I, depth), self.expr(Ty::U, depth));
            self.structs.push(name.clone());
            let text = format!("let mut {name} = Pair {{ low: {{0}}, high: {{1}}, rest: [1, 2, -3] }};\n");
            return form(&text, &text, &[&low, &high]);
        }
        let name = self.random.pick(&self.structs).clone();
        match self.random.below(3) {
            0 => {
                let value = self.expr(Ty::I, depth);
                form(&format!("{name}.low = {{0}};\n"), &format!("{name}.low = {{0}};\n"), &[&value])
            }
            1 => {
                let value = self.expr(Ty::U, depth);
                let plain = format!("{name}.high = {name}.high.wrapping_add({{0}});\n");
                form(&format!("{name}.high += {{0}};\n"), &plain, &[&value])
            }
            _ => {
                let (at, value) = (self.expr(Ty::U, 0), self.expr(Ty::I, depth));
                let kernel = format!("{name}.rest[({{0}}) % 4] = {{1}};\n");
                form(
                    &kernel,
                    &format!("let w = {{1}}; write(&mut {name}.rest, ({{0}}) % 4, w);\n"),
                    &[&at, &value],
                )
            }
        }
    }

    fn branch(&mut self, depth: usize, in_loop: bool) -> Both {
        let condition = self.expr(Ty::B, depth - 1);
        let (yes, no) = (self.stmts(2, depth - 1, in_loop), self.stmts(1, depth - 1, in_loop));
        form("if {0} {\n{1}} else {\n{2}}\n", "if {0} {\n{1}} else {\n{2}}\n", &[&condition, &yes, &no])
    }

    fn counted(&mut self, depth: usize) -> Both {
        let name = self.fresh("i");
        let ty = *self.random.pick(&[Ty::I, Ty::U]);
        let (from, count, name_of) = (self.random.below(5), self.random.below(4), ty.name());
        let dots = if self.random.once_in(3) { "..=" } else { ".." };
        let range = match (self.random.once_in(6), ty) {
            // At the end of the type's values, where counting on must stop.
            (true, Ty::U) => "u32::MAX - 2..=u32::MAX".into(),
            (true, _) => "i32::MAX - 1..=i32::MAX".into(),
            _ => format!("{from}_{name_of}{dots}{}", from + count),
        };
        self.vars.push(Var { name: name.clone(), ty, mutable: false });
        // One that is written out has no way out of it.
        let unrolled = self.random.once_in(4);
        let body = self.stmts(2, depth - 1, !unrolled);
        self.vars.retain(|v| v.name != name);
        let text = format!("for {name} in {range} {{\n{{0}}}}\n");
        let kernel = if unrolled { format!("#[unroll]\n{text}") } else { text.clone() };
        form(&kernel, &text, &[&body])
    }

    fn repeated(&mut self, depth: usize) -> Both {
        let name = self.fresh("k");
        let most = 1 + self.random.below(5);
        let condition = self.expr(Ty::B, depth - 1);
        self.vars.push(Var { name: name.clone(), ty: Ty::U, mutable: false });
        let body = self.stmts(2, depth - 1, true);
        self.vars.retain(|v| v.name != name);
        // The counter goes on before anything can go on with the loop.
        let head = match self.random.once_in(2) {
            true => format!("while {name} < {most} {{\n{name} += 1;\n"),
            false => format!("loop {{\nif {name} >= {most} || {{0}} {{ break; }}\n{name} += 1;\n"),
        };
        let text = format!("let mut {name}: u32 = 0;\n{head}{{1}}}}\n");
        form(&text, &text, &[&condition, &body])
    }

    fn choice(&mut self, depth: usize, in_loop: bool) -> Both {
        let of = self.expr(Ty::U, depth - 1);
        let (a, b, c) = (
            self.stmts(1, depth - 1, in_loop),
            self.stmts(1, depth - 1, in_loop),
            self.stmts(1, depth - 1, in_loop),
        );
        let text = "match ({0}) % 5 {\n0 | 3 => {\n{1}}\n1 => {\n{2}}\n_ => {\n{3}}\n}\n";
        form(text, text, &[&of, &a, &b, &c])
    }

    /// Writes a result: the item's own, or one that is not there.
    fn result(&mut self, depth: usize) -> Both {
        let (ty, name) = *self.random.pick(&[(Ty::I, "out"), (Ty::U, "uout"), (Ty::F, "fout")]);
        if !self.may_write {
            return self.bind(depth);
        }
        let value = self.expr(ty, depth);
        match self.random.once_in(5) {
            true => form(&format!("{name}[g + 1000] = {{0}};\n"), "let _ = {0};\n", &[&value]),
            false => form(
                &format!("{name}[g] = {{0}};\n"),
                &format!("let w = {{0}}; write(&mut m.{name}, g, w);\n"),
                &[&value],
            ),
        }
    }

    pub(crate) fn atomic(&mut self, depth: usize) -> Both {
        let (at, value) = (self.expr(Ty::U, 0), self.expr(Ty::U, depth));
        if self.random.once_in(4) {
            let signed = self.expr(Ty::I, depth);
            let (verb, first) = *self.random.pick(&[("min", 0), ("max", 4)]);
            return form(
                &format!("iacc[({{0}}) % 4 + {first}].fetch_{verb}({{1}}, Relaxed);\n"),
                &format!(
                    "let (at, value) = (({{0}}) % 4 + {first}, {{1}}); let old = read(&m.iacc, at); write(&mut m.iacc, at, \
                     old.{verb}(value));\n"
                ),
                &[&at, &signed],
            );
        }
        let (verb, first, plain) = *self.random.pick(&[
            ("fetch_add", 0, "old.wrapping_add(value)"),
            ("fetch_sub", 0, "old.wrapping_sub(value)"),
            ("fetch_max", 4, "old.max(value)"),
            ("fetch_xor", 8, "old ^ value"),
            ("fetch_min", 12, "old.min(value)"),
            ("fetch_and", 16, "old & value"),
            ("fetch_or", 20, "old | value"),
        ]);
        form(
            &format!("acc[({{0}}) % 4 + {first}].{verb}({{1}}, Relaxed);\n"),
            &format!(
                "let (at, value) = (({{0}}) % 4 + {first}, {{1}}); let old = read(&m.acc, at); write(&mut m.acc, at, {plain});\n"
            ),
            &[&at, &value],
        )
    }

    /// A helper that changes a variable.
    fn changed(&mut self, depth: usize) -> Both {
        let vars: Vec<Var> = self.vars.iter().filter(|v| v.mutable && v.ty == Ty::I).cloned().collect();
        let Some(var) = vars.first() else { return self.bind(depth) };
        let by = self.expr(Ty::I, depth);
        let text = format!("let by = {{0}};\nbump(&mut {}, by);\n", var.name);
        form(&text, &text, &[&by])
    }

    fn jump(&mut self, depth: usize) -> Both {
        if self.random.once_in(2) {
            // Out of a `match`, which in other languages a `break` leaves alone; behind it stands what would show that.
            let (of, behind) = (self.expr(Ty::U, depth.min(2)), self.assign(1));
            let text = *self.random.pick(&[
                "match ({0}) % 3 {\n0 => {\nbreak;\n}\n1 => {\ncontinue;\n}\n_ => {}\n}\n{1}",
                "match ({0}) % 2 {\n0 => {\nbreak;\n}\n_ => {}\n}\n{1}",
            ]);
            return form(text, text, &[&of, &behind]);
        }
        let condition = self.expr(Ty::B, depth.min(2));
        let text = *self.random.pick(&["if {0} {\nbreak;\n}\n", "if {0} {\ncontinue;\n}\n"]);
        form(text, text, &[&condition])
    }

    fn leave(&mut self, depth: usize) -> Both {
        let condition = self.expr(Ty::B, depth.min(2));
        form("if {0} {\nreturn;\n}\n", "if {0} {\nreturn;\n}\n", &[&condition])
    }
}
