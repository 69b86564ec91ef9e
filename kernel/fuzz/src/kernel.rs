//! Whole kernels, and whole programs of them.

use crate::expr::Both;
use crate::random::Random;

/// A type of variables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ty {
    I,
    U,
    F,
    B,
}

impl Ty {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Ty::I => "i32",
            Ty::U => "u32",
            Ty::F => "f32",
            Ty::B => "bool",
        }
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Var {
    pub(crate) name: String,
    pub(crate) ty: Ty,
    pub(crate) mutable: bool,
}

/// The writer of one kernel.
#[derive(Debug)]
pub(crate) struct Writer {
    pub(crate) random: Random,
    pub(crate) vars: Vec<Var>,
    pub(crate) arrays: Vec<Var>,
    pub(crate) structs: Vec<String>,
    pub(crate) in_helper: bool,
    pub(crate) may_read_results: bool,
    pub(crate) may_write: bool,
    pub(crate) may_return: bool,
    number: usize,
}

impl Writer {
    fn new(seed: u64) -> Self {
        let var = |name: &str, ty| Var { name: name.into(), ty, mutable: false };
        Writer {
            random: Random::new(seed),
            vars: vec![var("g", Ty::U), var("s", Ty::I), var("t", Ty::U)],
            arrays: Vec::new(),
            structs: Vec::new(),
            in_helper: false,
            may_read_results: true,
            may_write: true,
            may_return: true,
            number: 0,
        }
    }

    pub(crate) fn fresh(&mut self, stem: &str) -> String {
        self.number += 1;
        format!("{stem}{}", self.number)
    }

    /// The body of a helper over `p: i32` and `q: u32`.
    fn helper(&mut self) -> Both {
        let outer = std::mem::take(&mut self.vars);
        for (name, ty) in [("p", Ty::I), ("q", Ty::U)] {
            self.vars.push(Var { name: name.into(), ty, mutable: false });
        }
        self.in_helper = true;
        let value = self.expr(Ty::I, 3);
        self.in_helper = false;
        self.vars = outer;
        value
    }

    /// A kernel's module and its plain twin.
    fn kernel(&mut self, name: &str) -> String {
        let mix = self.helper();
        let grouped = self.random.once_in(6);
        let (kernel, plain) = if grouped { self.grouped() } else { self.single() };
        let local = if grouped { ", #[local] tile: &mut [i32; 16]" } else { "" };
        format!(
            "#[windlass::kernels]
mod {name} {{
    use windlass::prelude::*;
    const LIMIT: u32 = 17;
    #[derive(Clone, Copy)]
    pub struct Pair {{ low: i32, high: u32, rest: [i32; 3] }}
    fn mix(p: i32, q: u32) -> i32 {{ {} }}
    fn bump(v: &mut i32, by: i32) {{ *v += by; *v = *v ^ 5; }}
    fn total(of: &[u32], upto: u32) -> u32 {{
        let mut sum = 0;
        for i in 0..upto {{ if i % 3 == 1 {{ continue; }} sum += of[i]; }}
        sum
    }}
    #[kernel]
    pub fn run(a: &[i32], b: &[u32], x: &[f32], s: i32, t: u32, out: &mut [i32], uout: &mut [u32], fout: &mut [f32], acc: &[AtomicU32]{local}) {{
        let g = global_id(0);
{kernel}    }}
}}
mod {name}_plain {{
    use windlass::prelude::*;
    use windlass_kernel_fuzz::plain::*;
    const LIMIT: u32 = 17;
    #[derive(Clone, Copy)]
    struct Pair {{ low: i32, high: u32, rest: [i32; 3] }}
    fn mix(p: i32, q: u32) -> i32 {{ {} }}
    fn bump(v: &mut i32, by: i32) {{ *v = v.wrapping_add(by); *v ^= 5; }}
    fn total(of: &[u32], upto: u32) -> u32 {{
        let mut sum = 0_u32;
        for i in 0..upto {{ if i % 3 == 1 {{ continue; }} sum = sum.wrapping_add(read(of, i)); }}
        sum
    }}
{plain}}}
",
            mix.kernel, mix.plain
        )
    }

    fn single(&mut self) -> (String, String) {
        let body = self.opening(6, 3);
        let last = self.last();
        let plain = format!(
            "    fn item(g: u32, m: &mut Plain) {{
        let (s, t) = (m.s, m.t);
{}{}    }}
    pub fn run(items: u32, m: &mut Plain) {{ for g in 0..items {{ item(g, m); }} }}
",
            body.plain, last.plain
        );
        (body.kernel + &last.kernel, plain)
    }

    /// A kernel in two halves with a barrier between them: each item leaves a value, and takes a neighbour's.
    fn grouped(&mut self) -> (String, String) {
        (self.may_write, self.may_return, self.may_read_results) = (false, false, false);
        let before = self.opening(4, 3);
        let left = self.expr(Ty::I, 3);
        let step = 1 + self.random.below(15);
        (self.may_write, self.may_return, self.may_read_results) = (true, true, true);
        self.vars.push(Var { name: "near".into(), ty: Ty::I, mutable: false });
        let after = self.opening(3, 3);
        let last = self.last();
        let kernel = format!(
            "let l = local_id(0);\n{}tile[l] = {};\nbarrier();\nlet near = tile[(l + {step}) % 16];\n{}{}",
            before.kernel, left.kernel, after.kernel, last.kernel
        );
        let plain = format!(
            "    fn left(g: u32, m: &Plain) -> i32 {{
        let (s, t) = (m.s, m.t);
{}        {}
    }}
    fn item(g: u32, m: &mut Plain, near: i32) {{
        let (s, t) = (m.s, m.t);
{}{}{}    }}
    pub fn run(items: u32, m: &mut Plain) {{
        for group in 0..items / 16 {{
            let tile: Vec<i32> = (0..16).map(|l| left(group * 16 + l, m)).collect();
            for l in 0..16 {{ item(group * 16 + l, m, tile[((l + {step}) % 16) as usize]); }}
        }}
    }}
",
            before.plain, left.plain, before.plain, after.plain, last.plain
        );
        (kernel, plain)
    }

    fn last(&mut self) -> Both {
        let (i, u, f) = (self.expr(Ty::I, 4), self.expr(Ty::U, 4), self.expr(Ty::F, 3));
        Both::new(
            format!("out[g] = {};\nuout[g] = {};\nfout[g] = {};\n", i.kernel, u.kernel, f.kernel),
            format!(
                "let w = {}; write(&mut m.out, g, w);\nlet w = {}; write(&mut m.uout, g, w);\nlet w = {}; write(&mut m.fout, g, \
                 w);\n",
                i.plain, u.plain, f.plain
            ),
        )
    }
}

/// A program of `count` kernels, and a `main` that compares all of them on every device.
pub fn program(seed: u64, count: usize) -> String {
    let mut text = String::from(
        "#![allow(warnings, clippy::all)]\nuse windlass_kernel_fuzz::check::{Case, check_all};\n\n",
    );
    let mut cases = String::new();
    for at in 0..count {
        let seed = seed.wrapping_mul(1_000_003).wrapping_add(at as u64);
        let name = format!("k{at}");
        let kernel = Writer::new(seed).kernel(&name);
        let launch = if kernel.contains("#[local]") { "grouped" } else { "flat" };
        text.push_str(&kernel);
        cases.push_str(&format!(
            "        Case::{launch}({seed}, \"{name}\", |cg, m, range| cg.parallel_for(range, {name}::run(cg.read(&m.a), cg.read(&m.b), \
             cg.read(&m.x), m.s, m.t, cg.read_write(&m.out), cg.read_write(&m.uout), cg.read_write(&m.fout), \
             cg.atomic(&m.acc))), {name}_plain::run),\n"
        ));
    }
    text + &format!("fn main() {{\n    check_all(&[\n{cases}    ]);\n}}\n")
}
