//! Whole kernels, and whole programs of them.

use crate::expr::Both;
use crate::random::Random;
use crate::sharing::{ITEMS, PLAIN_ITEMS, PLAIN_TOOLS, TOOLS};
use crate::variants;

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
    seed: u64,
    pub(crate) random: Random,
    pub(crate) vars: Vec<Var>,
    pub(crate) arrays: Vec<Var>,
    pub(crate) structs: Vec<String>,
    pub(crate) in_helper: bool,
    pub(crate) may_read_results: bool,
    pub(crate) may_write: bool,
    pub(crate) may_return: bool,
    pub(crate) may_be_wide: bool,
    /// Whether it may have 16-bit floats.
    pub(crate) may_be_half: bool,
    pub(crate) shape: Shape,
    pub(crate) extra: Extra,
    /// Variables that are vectors of three.
    pub(crate) vectors: Vec<String>,
    /// Whether 64-bit integers, 64-bit floats and functions that devices round differently occur.
    pub(crate) needs: Needs,
    number: usize,
}

/// What a kernel asks of a device.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Needs {
    pub(crate) wide: bool,
    pub(crate) compared: bool,
    pub(crate) half: bool,
    pub(crate) double: bool,
    pub(crate) loose: bool,
}

/// How a kernel is launched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    Line,
    Square,
    Cube,
    /// Groups of so many items in a line.
    Groups(usize),
    /// Groups of two rows of so many.
    Rows(usize),
}

/// What a kernel has besides what all have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Extra {
    Atomics,
    Views,
    Parts,
    Reductions,
}

impl Shape {
    /// A group's items.
    fn group(self) -> usize {
        match self {
            Shape::Groups(items) => items,
            Shape::Rows(width) => 2 * width,
            _ => 1,
        }
    }

    fn is_grouped(self) -> bool {
        self.group() > 1
    }

    fn range(self) -> String {
        match self {
            Shape::Line => "64".into(),
            Shape::Square => "[8, 8]".into(),
            Shape::Cube => "[4, 4, 4]".into(),
            Shape::Groups(items) => format!("NdRange {{ global: [64], local: [{items}] }}"),
            Shape::Rows(width) => {
                format!("NdRange {{ global: [{}, {width}], local: [2, {width}] }}", 64 / width)
            }
        }
    }

    /// Where the item is, as a number.
    fn place(self) -> &'static str {
        match self {
            Shape::Line | Shape::Groups(_) => "let g = global_id(0);\n",
            Shape::Square | Shape::Rows(_) => "let g = global_id(0) * global_size(1) + global_id(1);\n",
            Shape::Cube => {
                "let g = (global_id(0) * global_size(1) + global_id(1)) * global_size(2) + global_id(2);\n"
            }
        }
    }

    /// Positions and extents, with what they are.
    pub(crate) fn positions(self) -> Vec<Both> {
        let both = |(kernel, plain): (&str, String)| Both::new(kernel, plain);
        let mut all = vec![("b.len()", "50_u32".into())];
        match self {
            Shape::Line => all.extend([("global_id(0)", "g".into()), ("global_size(0)", "64_u32".into())]),
            Shape::Square => all.extend([
                ("global_id(0)", "(g / 8)".into()),
                ("global_id(1)", "(g % 8)".into()),
                ("global_size(1)", "8_u32".into()),
                ("global_size(2)", "1_u32".into()),
            ]),
            Shape::Cube => all.extend([
                ("global_id(0)", "(g / 16)".into()),
                ("global_id(1)", "(g / 4 % 4)".into()),
                ("global_id(2)", "(g % 4)".into()),
                ("global_size(2)", "4_u32".into()),
            ]),
            Shape::Groups(n) => all.extend([
                ("local_id(0)", format!("(g % {n})")),
                ("group_id(0)", format!("(g / {n})")),
                ("local_size(0)", format!("{n}_u32")),
                ("group_count(0)", format!("{}_u32", 64 / n)),
            ]),
            Shape::Rows(n) => all.extend([
                ("local_id(0)", format!("(g / {n} % 2)")),
                ("local_id(1)", format!("(g % {n})")),
                ("group_id(0)", format!("(g / {})", 2 * n)),
                ("local_size(1)", format!("{n}_u32")),
                ("group_count(1)", "1_u32".into()),
            ]),
        }
        all.into_iter().map(both).collect()
    }
}

impl Writer {
    fn new(seed: u64) -> Self {
        let var = |name: &str, ty| Var { name: name.into(), ty, mutable: false };
        Writer {
            seed,
            random: Random::new(seed),
            vars: vec![var("g", Ty::U), var("s", Ty::I), var("t", Ty::U)],
            arrays: Vec::new(),
            structs: Vec::new(),
            in_helper: false,
            may_read_results: true,
            may_write: true,
            may_return: true,
            may_be_wide: false,
            may_be_half: false,
            shape: Shape::Line,
            extra: Extra::Atomics,
            vectors: Vec::new(),
            needs: Needs::default(),
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

    /// A kernel's module, its plain twin, and the case of both.
    fn kernel(&mut self, seed: u64, name: &str) -> (String, String) {
        self.shape = match self.random.below(12) {
            0..4 => Shape::Line,
            4 | 5 => Shape::Square,
            6 => Shape::Cube,
            7 => Shape::Groups(16),
            8 => Shape::Groups(32),
            9 => Shape::Groups(64),
            10 => Shape::Rows(8),
            _ => Shape::Rows(16),
        };
        self.extra = *self.random.pick(&[Extra::Atomics, Extra::Views, Extra::Parts, Extra::Reductions]);
        self.may_be_wide = self.random.once_in(4);
        self.may_be_half = self.random.once_in(8);
        let spec = if self.random.once_in(4) { "#[spec] " } else { "" };
        let mix = self.helper();
        let (kernel, plain) = if self.shape.is_grouped() { self.grouped() } else { self.single() };
        let (sized, items) = (self.random.once_in(2), self.shape.group());
        let (local, local_args) = match (self.shape.is_grouped(), sized) {
            (false, _) => (String::new(), String::new()),
            (true, true) => {
                (", #[local] tile: &mut [i32], #[local] count: &[AtomicU32; 4]".into(), format!(", {items}"))
            }
            (true, false) => {
                (format!(", #[local] tile: &mut [i32; {items}], #[local] count: &[AtomicU32]"), ", 4".into())
            }
        };
        let (params, args) = match self.extra {
            Extra::Atomics => {
                ("acc: &[AtomicU32], iacc: &[AtomicI32]", "cg.atomic(&m.acc), cg.atomic(&m.iacc)")
            }
            Extra::Views => {
                ("grid: &View<i32, 2>, gout: &mut View<u32, 2>", "cg.read(&m.grid), cg.read_write(&m.gout)")
            }
            Extra::Parts => (
                "quads: &mut [[i32; 4]], trios: &mut [Vec3<i32>], cells: &mut [Cell]",
                "cg.read_write(&m.quads), cg.read_write(&m.trios), cg.read_write(&m.cells)",
            ),
            Extra::Reductions => (
                "#[reduce(sum)] rsum: &mut u32, #[reduce(min)] rmin: &mut i32, #[reduce(join, identity = 0)] rxor: &mut u32, \
                 #[reduce(sum)] rpair: &mut Vec2<u32>",
                "cg.read_write(&m.rsum), cg.read_write(&m.rmin), cg.read_write(&m.rxor), cg.read_write(&m.rpair)",
            ),
        };
        // A launch of a line has several groups, then.
        let group = match self.shape {
            Shape::Line if self.random.once_in(3) => "(group = [16])",
            _ => "",
        };
        let text = format!(
            "#[windlass::kernels]
mod {name}_tools {{
{TOOLS}}}
#[windlass::kernels]
mod {name} {{
    use windlass::prelude::*;
    #[kernels]
    use super::{name}_tools::*;
    #[kernels]
    use windlass_kernel_fuzz::cells::*;
    const LIMIT: u32 = 17;
    const ODDS: [i32; 3] = [-7, 1 << 20, 3];
    #[derive(Clone, Copy)]
    pub struct Pair {{ low: i32, high: u32, rest: Row }}
{ITEMS}{}    fn mix(p: i32, q: u32) -> i32 {{ {} }}
    fn join(p: u32, q: u32) -> u32 {{ p ^ q }}
    fn bump(v: &mut i32, by: i32) {{ *v += by; *v = *v ^ 5; }}
    fn total(of: &[u32], upto: u32) -> u32 {{
        let mut sum = 0;
        for i in 0..upto {{ if i % 3 == 1 {{ continue; }} sum += of[i]; }}
        sum
    }}
    #[kernel{group}]
    pub fn run(a: &[i32], b: &[u32], x: &[f32], s: i32, {spec}t: u32, {}, out: &mut [i32], uout: &mut [u32], fout: &mut [f32], {params}{local}) {{
        {}{kernel}    }}
}}
mod {name}_plain {{
    use windlass::prelude::*;
    use windlass_kernel_fuzz::plain::*;
    const LIMIT: u32 = 17;
    const ODDS: [i32; 3] = [-7, 1 << 20, 3];
    #[derive(Clone, Copy)]
    struct Pair {{ low: i32, high: u32, rest: [i32; 3] }}
{PLAIN_TOOLS}{PLAIN_ITEMS}{}    fn mix(p: i32, q: u32) -> i32 {{ {} }}
    fn bump(v: &mut i32, by: i32) {{ *v = v.wrapping_add(by); *v ^= 5; }}
    fn total(of: &[u32], upto: u32) -> u32 {{
        let mut sum = 0_u32;
        for i in 0..upto {{ if i % 3 == 1 {{ continue; }} sum = sum.wrapping_add(read(of, i)); }}
        sum
    }}
{plain}}}
",
            variants::ITEMS,
            mix.kernel,
            variants::PARAMETER,
            self.shape.place(),
            variants::PLAIN_ITEMS,
            mix.plain
        );
        let Needs { wide, compared, double, half, loose } = self.needs;
        let range = self.shape.range();
        // On this thread, over slices: there all work-groups are run by one thread, one after the other.
        let (before, slices, after) = match self.extra {
            Extra::Atomics => ("", Some("&mut p.acc[..], &mut p.iacc[..]"), ""),
            Extra::Reductions => (
                "let (mut sum, mut min, mut xor) = ([p.reduced.0], [p.reduced.1], [p.reduced.2]); \
                 let mut pair = [Vec2::new(p.reduced.3[0], p.reduced.3[1])]; ",
                Some("&mut sum[..], &mut min[..], &mut xor[..], &mut pair[..]"),
                " p.reduced = (sum[0], min[0], xor[0], [pair[0].x, pair[0].y]);",
            ),
            Extra::Views | Extra::Parts => ("", None, ""),
        };
        let here = slices.map_or("None".to_string(), |slices| {
            format!(
                "Some(|p| {{ {before}{name}::run(&p.a[..], &p.b[..], &p.x[..], p.s, p.t, {}, &mut p.out[..], &mut p.uout[..], \
                 &mut p.fout[..], {slices}{local_args}).run_here({range})?;{after} Ok(()) }})",
                variants::argument(name, "p")
            )
        });
        let case = format!(
            "        Case {{ seed: {seed}, name: \"{name}\", wide: {wide}, compared: {compared}, double: {double}, half: {half}, loose: {loose}, launch: |cg, m| \
             cg.parallel_for({range}, {name}::run(cg.read(&m.a), cg.read(&m.b), cg.read(&m.x), m.s, m.t, {}, \
             cg.read_write(&m.out), cg.read_write(&m.uout), cg.read_write(&m.fout), {args}{local_args})), here: {here}, plain: \
             {name}_plain::run }},\n",
            variants::argument(name, "m")
        );
        (text, case)
    }

    fn single(&mut self) -> (String, String) {
        let body = self.opening(6, 3);
        let last = self.last();
        let plain = format!(
            "    fn item(g: u32, m: &mut Plain, r: &mut Own) {{
        let (s, t, more) = (m.s, m.t, given(m.s, m.t));
{}{}    }}
    pub fn run(m: &mut Plain) {{ for g in 0..64 {{ let mut r = NOTHING; item(g, m, &mut r); m.fold(r); }} }}
",
            body.plain, last.plain
        );
        (body.kernel + &last.kernel, plain)
    }

    /// A kernel in two halves with a barrier between them: each item leaves a value and counts something, and takes
    /// what its neighbours left.
    fn grouped(&mut self) -> (String, String) {
        let items = self.shape.group();
        (self.may_write, self.may_return, self.may_read_results) = (false, false, false);
        let before = self.opening(4, 3);
        let left = self.expr(Ty::I, 3);
        let (which, by) = (self.expr(Ty::U, 1), self.expr(Ty::U, 2));
        let step = 1 + self.random.below(items - 1);
        let (stage, stage_plain) = self.stage(items);
        (self.may_write, self.may_return, self.may_read_results) = (true, true, true);
        for (name, ty) in [("near", Ty::I), ("wave", Ty::I), ("all", Ty::I), ("counted", Ty::U)] {
            self.vars.push(Var { name: name.into(), ty, mutable: false });
        }
        let after = self.opening(3, 3);
        let last = self.last();
        let l = match self.shape {
            Shape::Rows(width) => format!("local_id(0) * {width} + local_id(1)"),
            _ => "local_id(0)".into(),
        };
        let kernel = format!(
            "let l = {l};\n{}tile[l] = {};\ncount[({}) % 5].fetch_add({}, Relaxed);\nbarrier();\nlet near = tile[(l + {step}) % \
             {items}];\nlet mut wave = 0;\nfor q in 0..3 {{\nwave += tile[l + q - 1] * (q as i32 + 1);\n}}\nlet counted = count[l % \
             4].load(Relaxed);\n{stage}{}{}",
            before.kernel, left.kernel, which.kernel, by.kernel, after.kernel, last.kernel
        );
        let plain = format!(
            "    fn left(g: u32, m: &Plain, count: &mut [u32; 4]) -> i32 {{
        let (s, t, more) = (m.s, m.t, given(m.s, m.t));
{}        let left = {};
        let at = ({}) % 5;
        let sum = read(count, at).wrapping_add({});
        write(count, at, sum);
        left
    }}
    fn item(g: u32, m: &mut Plain, r: &mut Own, near: i32, wave: i32, all: i32, counted: u32) {{
        let (s, t, more) = (m.s, m.t, given(m.s, m.t));
{}{}{}    }}
    fn stage(tile: &[i32], near: &[i32], t: u32) -> Vec<i32> {{
        let mut tile = tile.to_vec();
{stage_plain}    }}
    pub fn run(m: &mut Plain) {{
        for group in 0..64 / {items} {{
            let mut count = [0; 4];
            let tile: Vec<i32> = (0..{items}).map(|l| left(group * {items} + l, m, &mut count)).collect();
            let near: Vec<i32> = (0..{items}).map(|l| tile[(l + {step}) % {items}]).collect();
            let all = stage(&tile, &near, m.t);
            for l in 0..{items}_u32 {{
                let wave = (0..3_u32).fold(0_i32, |sum, q| {{
                    sum.wrapping_add(read(&tile, (l + q).wrapping_sub(1)).wrapping_mul(q as i32 + 1))
                }});
                let at = l as usize;
                let mut r = NOTHING;
                item(group * {items} + l, m, &mut r, near[at], wave, all[at], count[at % 4]);
                m.fold(r);
            }}
        }}
    }}
",
            before.plain, left.plain, which.plain, by.plain, before.plain, after.plain, last.plain
        );
        (kernel, plain)
    }

    /// More steps of the group with its memory, and what `all` is in the end.
    fn stage(&mut self, items: usize) -> (String, String) {
        let half = items / 2;
        match self.random.below(5) {
            4 => (
                "let all = passed(tile, l, near + 1);\n".into(),
                format!("(0..{items}).map(|l: usize| near[l ^ 1].wrapping_add(1)).collect()\n"),
            ),
            0 => (
                // One item more would show.
                format!("barrier();\nif l < {} {{\ntile[l] += tile[l + {half}] + 7;\n}}\nbarrier();\nlet all = tile[l];\n", half - 1),
                format!(
                    "for l in 0..{} {{ tile[l] = tile[l].wrapping_add(tile[l + {half}]).wrapping_add(7); }}\ntile\n",
                    half - 1
                ),
            ),
            1 => (
                "barrier();\nlet mut half = local_size(0) * local_size(1) / 2;\nwhile half > 0 {\nif l < half {\ntile[l] = tile[l] \
                 ^ tile[l + half] * 3;\n}\nbarrier();\nhalf /= 2;\n}\nlet all = tile[0];\n"
                    .into(),
                format!(
                    "let mut half = {half};\nwhile half > 0 {{ for l in 0..half {{ tile[l] ^= tile[l + half].wrapping_mul(3); }} half \
                     /= 2; }}\nvec![tile[0]; {items}]\n"
                ),
            ),
            2 => {
                let only = self.random.below(items);
                (
                    format!(
                        "barrier();\nif l == {only} {{\ntile[l] = near;\n}}\nbarrier();\nlet mut all = 0;\nfor q in 0..t % 9 {{\nall = all * \
                         5 + tile[l + q * 2];\n}}\n"
                    ),
                    format!(
                        "tile[{only}] = near[{only}];\n(0..{items}_u32).map(|l| (0..t % 9).fold(0_i32, |all, q| \
                         all.wrapping_mul(5).wrapping_add(read(&tile, l + q * 2)))).collect()\n"
                    ),
                )
            }
            // The last item's neighbour is outside.
            _ => (
                "let all = tile[l + 1] - near;\n".into(),
                "(1..).zip(near).map(|(at, b)| read(&tile, at).wrapping_sub(*b)).collect()\n".into(),
            ),
        }
    }

    fn last(&mut self) -> Both {
        let (i, u, f) = (self.expr(Ty::I, 4), self.expr(Ty::U, 4), self.loose(3));
        let (said, heard) = self.message();
        Both::new(
            format!(
                "let last = {};\nout[g] = last;\n{said}uout[g] = {};\nfout[g] = {};\n",
                i.kernel, u.kernel, f.kernel
            ),
            format!(
                "let last: i32 = {}; write(&mut m.out, g, last);\n{heard}let w = {}; write(&mut m.uout, g, w);\nlet w = {}; \
                 write(&mut m.fout, g, w);\n",
                i.plain, u.plain, f.plain
            ),
        )
    }

    /// What some kernels' items say, and how it is heard.
    fn message(&self) -> (String, String) {
        // Random numbers of its own, so that the kernel is the same with a message and without.
        let mut random = Random::new(self.seed ^ 0xdeb6);
        if !random.once_in(12) {
            return (String::new(), String::new());
        }
        let (item, words) = (random.below(64), random.pick(&MESSAGES));
        (
            format!("if g == {item} {{\ndebug!({words});\n}}\n"),
            format!("if g == {item} {{ m.said.push(format!({words})); }}\n"),
        )
    }
}

/// What may be said at a kernel's end.
const MESSAGES: [&str; 4] = [
    r#""{} of {:?}", last, t"#,
    r#""{last:>14}|{0:<#12x}|{s:+}", last ^ 5"#,
    r#""{t:b} and {}, {{{last:010}}}", last > 3"#,
    r#""{0:?} {1:X} {0}", Vec3::new(s, last, 7).y, t"#,
];

/// A program of `count` kernels, and a `main` that compares all of them on every device.
pub fn program(seed: u64, count: usize) -> String {
    let mut text = String::from(
        "#![allow(warnings, clippy::all)]\nuse windlass::NdRange;\nuse windlass::prelude::*;\nuse windlass_kernel_fuzz::check::{Case, \
         check_all};\n\n",
    );
    let mut cases = String::new();
    for at in 0..count {
        let (kernel, case) = one(seed, at);
        text.push_str(&kernel);
        cases.push_str(&case);
    }
    text + &format!("fn main() {{\n    check_all(&[\n{cases}    ]);\n}}\n")
}

/// Kernel `at` of a program, and its case.
pub(crate) fn one(seed: u64, at: usize) -> (String, String) {
    let seed = seed.wrapping_mul(1_000_003).wrapping_add(at as u64);
    Writer::new(seed).kernel(seed, &format!("k{at}"))
}
