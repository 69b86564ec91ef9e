//! Random expressions about what not every kernel has: wide numbers, vectors, positions, views, parts of elements,
//! reductions, and functions that devices round differently.

use crate::expr::{Both, form};
use crate::kernel::{Extra, Ty, Writer};

impl Writer {
    /// Over 64-bit integers.
    pub(crate) fn wide(&mut self, ty: Ty, depth: usize) -> Both {
        self.needs.wide = true;
        let (a, b) = (self.expr(ty, depth - 1), self.expr(Ty::U, depth - 1));
        let (kernel, plain) = match ty {
            Ty::I => *self.random.pick(&[
                (
                    "(({0} as i64 * ({1} as i64)) >> 13) as i32",
                    "({0} as i64).wrapping_mul({1} as i64).wrapping_shr(13) as i32",
                ),
                ("(({0} as i64) << (({1}) % 70)) as i32", "({0} as i64).wrapping_shl(({1}) % 70) as i32"),
                (
                    "(({0} as i64 - 77) % ({1} as i64 + 1)) as i32",
                    "(({0} as i64 - 77) % ({1} as i64 + 1)) as i32",
                ),
                ("(({0} as i64).min({1} as i64 - 5)) as i32", "(({0} as i64).min({1} as i64 - 5)) as i32"),
            ]),
            _ => *self.random.pick(&[
                (
                    "((({0} as u64) << 32 | ({1} as u64)) / ({1} as u64 + 3)) as u32",
                    "((({0} as u64) << 32 | ({1} as u64)) / ({1} as u64 + 3)) as u32",
                ),
                (
                    "(({0} as u64 * 0x9e37_79b9_7f4a_7c15) >> 32) as u32",
                    "(({0} as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as u32",
                ),
                ("(!({0} as u64) ^ ({1} as u64)) as u32", "(!({0} as u64) ^ ({1} as u64)) as u32"),
            ]),
        };
        form(&format!("({kernel})"), &format!("({plain})"), &[&a, &b])
    }

    /// Over 64-bit floats, which hold every 32-bit integer.
    pub(crate) fn double(&mut self, ty: Ty, depth: usize) -> Both {
        self.needs.double = true;
        let (a, b) = (self.expr(ty, depth - 1), self.expr(Ty::I, depth - 1));
        let name = ty.name();
        let text = format!("(({{0}} as f64 * 0.5 + {{1}} as f64) as {name})");
        let plain = format!("((({{0}} as f64) * 0.5 + ({{1}} as f64)) as {name})");
        form(&text, &plain, &[&a, &b])
    }

    /// Over 16-bit floats that are far from infinities, and exact: lavapipe (Mesa 22.3) rounds sums of sums once.
    pub(crate) fn half(&mut self, ty: Ty, depth: usize) -> Both {
        self.needs.half = true;
        let (a, b) = (self.expr(ty, depth - 1), self.expr(Ty::I, depth - 1));
        let name = ty.name();
        let (kernel, plain) = *self.random.pick(&[
            (
                "(({0} & 0x3ff) as f16 * 0.5 - ({1} & 0x7f) as f16)",
                "half(half(half(({0} & 0x3ff) as f32) * 0.5) - ({1} & 0x7f) as f32)",
            ),
            (
                "(({0} & 0xff) as f16).max(({1} & 0x1f) as f16 * 7.0 - 20.0)",
                "(({0} & 0xff) as f32).max(half(half(({1} & 0x1f) as f32 * 7.0) - 20.0))",
            ),
            (
                "((({0} & 0xff) as f16 + 0.25) + ({1} & 0x3f) as f16)",
                "half(half(({0} & 0xff) as f32 + 0.25) + ({1} & 0x3f) as f32)",
            ),
        ]);
        form(&format!("({kernel} as {name})"), &format!("({plain} as {name})"), &[&a, &b])
    }

    /// Over vectors of integers.
    pub(crate) fn lanes(&mut self, ty: Ty, depth: usize) -> Both {
        let (a, b) = (self.expr(ty, depth - 1), self.expr(ty, depth - 1));
        if ty == Ty::I && !self.in_helper && !self.vectors.is_empty() && self.random.once_in(2) {
            let name = self.random.pick(&self.vectors).clone();
            let (swizzle, at) = *self.random.pick(&[("x", 0), ("yz().y", 2), ("zyx().y", 1)]);
            return Both::new(format!("{name}.{swizzle}"), format!("{name}[{at}]"));
        }
        let (kernel, plain) = *self.random.pick(&[
            ("(Vec4::new({0}, {1}, {0}, 7) * Vec4::splat({1})).wzyx().y", "({0}).wrapping_mul({1})"),
            ("(Vec2::new({0}, {1}) ^ Vec2::new(5, 9)).y", "({1} ^ 9)"),
            ("(Vec3::new({0}, {1}, {0}) - {1}).x", "({0}).wrapping_sub({1})"),
            ("Vec3::new({0}, {1}, 4).max(Vec3::splat(3)).y", "({1}).max(3)"),
        ]);
        form(kernel, plain, &[&a, &b])
    }

    /// Operations that the other numbers do not have.
    pub(crate) fn more(&mut self, ty: Ty, depth: usize) -> Both {
        let (a, b) = (self.expr(Ty::I, depth - 1), self.expr(Ty::I, depth - 1));
        let (kernel, plain) = match ty {
            Ty::I => *self.random.pick(&[
                ("({0}).signum()", "({0}).signum()"),
                ("({0}).clamp(-50, 90)", "({0}).clamp(-50, 90)"),
                ("({0}).wrapping_neg()", "({0}).wrapping_neg()"),
                // Among others the least number by -1.
                (
                    "((({0} & 1) + i32::MAX) / ({1} | -2))",
                    "(({0} & 1).wrapping_add(i32::MAX)).quotient({1} | -2)",
                ),
                (
                    "((({0} & 1) + i32::MAX) % ({1} | -2))",
                    "(({0} & 1).wrapping_add(i32::MAX)).remainder({1} | -2)",
                ),
                // Into the range, and beyond both of its ends.
                (
                    "((({0} & 0xf_ffff) as f32 * 1.0e4_f32) as i32)",
                    "((({0} & 0xf_ffff) as f32 * 1.0e4_f32) as i32)",
                ),
                (
                    "((({0} & 0xf_ffff) as f32 * -1.0e4_f32) as i32)",
                    "((({0} & 0xf_ffff) as f32 * -1.0e4_f32) as i32)",
                ),
                ("ODDS[({0} as u32) % 4]", "read(&ODDS, ({0} as u32) % 4)"),
            ]),
            _ => *self.random.pick(&[
                ("({0}).abs_diff({1})", "({0}).abs_diff({1})"),
                (
                    "((({0} & 0xf_ffff) as f32 * 1.0e4_f32) as u32)",
                    "((({0} & 0xf_ffff) as f32 * 1.0e4_f32) as u32)",
                ),
                ("({0} as u32).rotate_right({1} as u32)", "({0} as u32).rotate_right(({1} as u32) & 31)"),
            ]),
        };
        form(kernel, plain, &[&a, &b])
    }

    /// Bits of floats.
    pub(crate) fn bits(&mut self, ty: Ty, depth: usize) -> Both {
        let of = self.expr(Ty::I, depth - 1);
        let text = match ty {
            Ty::U => "((({0} & 0xfff) as f32).to_bits())",
            _ => "(if (({0} & 0xfff) as f32).is_nan() { 1_i32 } else { -1_i32 })",
        };
        form(text, text, &[&of])
    }

    /// What only kernels of this kind have.
    pub(crate) fn extra(&mut self, ty: Ty, depth: usize) -> Both {
        if self.in_helper {
            return self.more(ty, depth);
        }
        match (self.extra, ty) {
            (Extra::Views, Ty::I) => {
                let (i, j) = (self.expr(Ty::U, depth - 1), self.expr(Ty::U, depth - 1));
                form("grid[({0}) % 7][({1}) % 10]", "read2(&m.grid, ({0}) % 7, ({1}) % 10)", &[&i, &j])
            }
            (Extra::Views, _) => Both::new("(grid.extent(0) * 16 + grid.extent(1))", "105_u32"),
            (Extra::Parts, Ty::I) if self.may_read_results => {
                let at = self.expr(Ty::U, depth - 1);
                let (kernel, plain) = *self.random.pick(&[
                    ("quads[g][({0}) % 5]", "read_part(&m.quads, g, ({0}) % 5)"),
                    ("trios[g].zyx().z", "read_part(&m.trios, g, 0)"),
                    ("trios[g].y", "read_part(&m.trios, g, 1)"),
                    ("(cells[g].side as i32)", "(read(&m.cells, g).side as i32)"),
                    (
                        "(cells[g].rest[({0}) % 3] as i32)",
                        "(read(&read(&m.cells, g).rest, ({0}) % 3) as i32)",
                    ),
                ]);
                form(kernel, plain, &[&at])
            }
            (Extra::Atomics, Ty::U) => {
                // Nobody changes these.
                let at = self.expr(Ty::U, 0);
                form("acc[24 + ({0}) % 5].load(Relaxed)", "read(&m.acc, 24 + ({0}) % 5)", &[&at])
            }
            (Extra::Reductions, Ty::U) if self.may_write => Both::new("(*rsum)", "r.0"),
            (Extra::Reductions, Ty::I) if self.may_write => Both::new("(*rmin)", "r.1"),
            _ => self.more(ty, depth),
        }
    }

    /// A statement about what only kernels of this kind have; nothing where there is none.
    pub(crate) fn extra_stmt(&mut self, depth: usize) -> Option<Both> {
        if !self.may_write {
            return None;
        }
        let (i, u, v) = (self.expr(Ty::U, 0), self.expr(Ty::U, depth), self.expr(Ty::I, depth));
        let (kernel, plain) = match self.extra {
            Extra::Atomics => return Some(self.atomic(depth)),
            Extra::Views => *self.random.pick(&[
                ("gout[g / 9][g % 9] = {1};\n", "let w = {1}; write2(&mut m.gout, g / 9, g % 9, w);\n"),
                (
                    "gout[g / 9][g % 9] += {1};\n",
                    "let w = read2(&m.gout, g / 9, g % 9).wrapping_add({1}); write2(&mut m.gout, g / 9, g % 9, w);\n",
                ),
                ("gout[g / 9][9 + ({0}) % 3] = {1};\n", "let _ = {1};\n"),
            ]),
            Extra::Parts => *self.random.pick(&[
                ("quads[g][({0}) % 5] = {2};\n", "let w = {2}; write_part(&mut m.quads, g, ({0}) % 5, w);\n"),
                ("quads[g] = [{2}, 1, s, -1];\n", "let w = [{2}, 1, s, -1]; write(&mut m.quads, g, w);\n"),
                (
                    "cells[g].rest[({0}) % 3] = ({2}) as u16;\n",
                    "let w = ({2}) as u16; let at = ({0}) % 3; if let Some(c) = m.cells.get_mut(g as usize) { write(&mut c.rest, at, w); }\n",
                ),
                (
                    "cells[g].low += ({1}) as u8;\n",
                    "let w = ({1}) as u8; if let Some(c) = m.cells.get_mut(g as usize) { c.low = c.low.wrapping_add(w); }\n",
                ),
                (
                    "cells[g] = Cell { low: ({1}) as u8, side: ({2}) as i8, rest: [t as u16, 7] };\n",
                    "let w = Cell { low: ({1}) as u8, side: ({2}) as i8, rest: [t as u16, 7] }; write(&mut m.cells, g, w);\n",
                ),
                ("trios[g].y = {2};\n", "let w = {2}; write_part(&mut m.trios, g, 1, w);\n"),
                (
                    "trios[g].z *= {2};\n",
                    "let w = read_part(&m.trios, g, 2).wrapping_mul({2}); write_part(&mut m.trios, g, 2, w);\n",
                ),
                (
                    "trios[g] = trios[g] + Vec3::new({2}, 3, s);\n",
                    "let w = [{2}, 3, s]; for p in 0..3 { let v = read_part(&m.trios, g, p).wrapping_add(w[p as usize]); write_part(&mut m.trios, g, p, v); }\n",
                ),
            ]),
            Extra::Reductions => *self.random.pick(&[
                ("*rsum += {1};\n", "let w = {1}; r.0 = r.0.wrapping_add(w);\n"),
                ("*rmin = (*rmin).min({2});\n", "let w = {2}; r.1 = r.1.min(w);\n"),
                ("*rmin = {2};\n", "let w = {2}; r.1 = w;\n"),
                ("*rxor = *rxor ^ {1};\n", "let w = {1}; r.2 ^= w;\n"),
                (
                    "*rpair += Vec2::new({1}, 3);\n",
                    "let w = {1}; r.3 = [r.3[0].wrapping_add(w), r.3[1].wrapping_add(3)];\n",
                ),
            ]),
        };
        Some(form(kernel, plain, &[&i, &u, &v]))
    }

    /// Vectors that change.
    pub(crate) fn vectors(&mut self, depth: usize) -> Both {
        if self.vectors.is_empty() || self.random.once_in(3) {
            let name = self.fresh("w");
            let (a, b) = (self.expr(Ty::I, depth), self.expr(Ty::I, 0));
            self.vectors.push(name.clone());
            let kernel = format!("let mut {name} = Vec3::new({{0}}, {{1}}, -3);\n");
            return form(&kernel, &format!("let mut {name} = [{{0}}, {{1}}, -3];\n"), &[&a, &b]);
        }
        let name = self.random.pick(&self.vectors).clone();
        let value = self.expr(Ty::I, depth);
        let (kernel, plain) = match self.random.below(3) {
            0 => (format!("{name}.y = {{0}};\n"), format!("{name}[1] = {{0}};\n")),
            1 => (format!("{name}.z += {{0}};\n"), format!("{name}[2] = {name}[2].wrapping_add({{0}});\n")),
            _ => (
                format!("{name} = {name} * {{0}};\n"),
                format!("let w = {{0}}; {name} = {name}.map(|c: i32| c.wrapping_mul(w));\n"),
            ),
        };
        form(&kernel, &plain, &[&value])
    }

    /// A float that nothing else depends on, so that it may come from a function that devices round differently.
    pub(crate) fn loose(&mut self, depth: usize) -> Both {
        let of = self.expr(Ty::F, depth);
        if self.random.once_in(2) {
            return of;
        }
        self.needs.loose = true;
        const FUNCTIONS: [&str; 22] = [
            "sin()",
            "cos()",
            "tan().clamp(-9.0, 9.0)",
            "atan()",
            "sinh()",
            "cosh()",
            "tanh()",
            "exp()",
            "exp2()",
            "asinh()",
            "abs().sqrt()",
            "atan2(1.5)",
            "to_degrees()",
            "to_radians()",
            "mul_add(1.5, -0.25)",
            "recip().clamp(-9.0, 9.0)",
            "abs().powf(1.5)",
            "tanh().asin()",
            "tanh().acos()",
            "cosh().acosh()",
            "cosh().ln()",
            "cosh().log2()",
        ];
        let function = *self.random.pick(&FUNCTIONS);
        // Small, and away from where tangents and reciprocals leap.
        let text = format!("(({{0}}).clamp(-1.0, 1.0) * 0.75 + 0.1).{function}");
        form(&text, &text, &[&of])
    }
}
