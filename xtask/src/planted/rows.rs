//! Faults that are planted into the ways that kernels take on the host, and into what becomes of parts, enums and computed constants, one
//! after the other, to see whether the tests of these find them.

use super::{Fault, find};
use crate::Result;

const LANES: &str = "kernel/src/native/lanes.rs";
const LINES: &str = "kernel/macros/src/host/lines.rs";
const SPANS: &str = "kernel/macros/src/host/spans.rs";
const SPREAD: &str = "kernel/src/native/spread.rs";
const FILLS: &str = "kernel/macros/src/fills.rs";
const PIECES: &str = "kernel/macros/src/pieces.rs";
const PAIRS: &str = "kernel/macros/src/host/pairs.rs";
const GROUPS: &str = "kernel/macros/src/host/groups.rs";
const AFFINE: &str = "kernel/macros/src/host/affine.rs";

const FAULTS: &[Fault] = &[
    Fault("the second row of two is the first", PAIRS, "let pair = [row, next]", "let pair = [row, row]"),
    Fault("rows in pairs go once more", PAIRS, "paired = next.at() + count;", "paired = next.at() - count;"),
    Fault("a turn of four is left out", PAIRS, "four * 4 + within", "four * 4 + within % 3"),
    Fault("turns in fours begin at 0", PAIRS, "let #name: u32 = #first +", "let #name: u32 ="),
    Fault(
        "a last row that is alone is left out",
        GROUPS,
        "if paired < group.items() ||",
        "if paired == 0 ||",
    ),
    Fault(
        "the ends of rows that went in pairs are left out",
        GROUPS,
        "|| group.row_items::<D>() % #rt::LANES > 0",
        "|| group.row_items::<D>() == 0",
    ),
    Fault(
        "a row has an item too many inside",
        LANES,
        "(1, _) => (before.max(0), left.max(0)),",
        "(1, _) => (before.max(0), left.max(0) + 1),",
    ),
    Fault("a row's first items are left out", LANES, "(0..self.start.min(count)).chain(", "(0..0).chain("),
    Fault(
        "groups of turns are rounded up",
        LANES,
        "(self.end / each).max(start)",
        "self.end.div_ceil(each).max(start)",
    ),
    Fault(
        "a line's elements are neighbours",
        LANES,
        "Line::Apart(all, stride) => &all[item * stride]",
        "Line::Apart(all, _) => &all[item]",
    ),
    Fault(
        "what goes backwards stands",
        LANES,
        "i32::try_from(stride)",
        "i32::try_from(stride & 0x7fff_ffff)",
    ),
    Fault("a span ends a turn early", LANES, "(turns - 1) * by + 1", "(turns - 1) * by"),
    Fault(
        "differences are sums",
        AFFINE,
        "format_ident!(\"wrapping_sub\"), format_ident!(\"minus\")",
        "format_ident!(\"wrapping_add\"), format_ident!(\"plus\")",
    ),
    Fault("turns that overlap are a row", LINES, "#(&& #moves == turns)*", ""),
    Fault("turns are a row whatever stands beside indices", LINES, "all == indices", "all >= indices"),
    Fault("a stride of one leaves items out", LINES, "at += by;", "at += by.max(2);"),
    Fault(
        "starts need not follow each other",
        LINES,
        "if #stride == 1 && by > 0 && !wraps",
        "if by > 0 && !wraps",
    ),
    Fault("a loop's elements begin one late", SPANS, "quote!(turn * #by)", "quote!(turns - 1 - turn * #by)"),
    Fault(
        "what a loop changes stands before it",
        SPANS,
        "!(changed.contains(var) || inside.contains(var))",
        "!inside.contains(var)",
    ),
    Fault(
        "items are apart if each but the next one is",
        SPREAD,
        "if u128::from(worth) <= smaller",
        "if u128::from(worth) < smaller",
    ),
    Fault(
        "a return at the start is for the others",
        "kernel/macros/src/host/early.rs",
        "(BinOp::Ge, true) => Kind::Binary(BinOp::Lt, a, b)",
        "(BinOp::Ge, true) => Kind::Binary(BinOp::Le, a, b)",
    ),
    Fault(
        "a branch that fills fills for the other one",
        FILLS,
        "if a == b { a } else { State::Unknown }",
        "if a == b { a } else { State::Filled }",
    ),
    Fault(
        "a loop without turns fills",
        FILLS,
        "if behind == state { state } else { State::Unknown }",
        "if behind == state { state } else { State::Filled }",
    ),
    Fault(
        "tiles are as wide as their groups on devices",
        "kernel/macros/src/wgsl/clearing.rs",
        "(all_hold(\">=\"), all_hold(\"==\"))",
        "(String::from(\"true\"), all_hold(\"==\"))",
    ),
    Fault(
        "what lies behind the filled part stays on devices",
        "kernel/macros/src/wgsl/clearing.rs",
        "({count} < {len})",
        "({count} > {len})",
    ),
    Fault(
        "tiles are as deep as wide",
        "kernel/src/native/views.rs",
        "linear = linear * *extent as usize + *at as usize;",
        "linear = linear * extents[0] as usize + *at as usize;",
    ),
    Fault(
        "a part has an element too many",
        PIECES,
        "binary(BinOp::Lt, asked.clone(), var(len), BOOL)",
        "binary(BinOp::Le, asked.clone(), var(len), BOOL)",
    ),
    Fault(
        "a part begins where the whole does",
        PIECES,
        "value(binary(BinOp::Add, var(start), asked, U32))",
        "value(asked)",
    ),
    Fault(
        "a part of a part is counted from the whole",
        PIECES,
        "Expr::new(Kind::Binary(BinOp::Add, Box::new(var(start)), Box::new(held)), U32, span)",
        "held",
    ),
    Fault(
        "what a computing helper changes does not come back",
        "kernel/macros/src/evaluate/calls.rs",
        "all.splice(start..start + part.len(), part);",
        "let _ = (all, start, part);",
    ),
    Fault(
        "a variant is two behind the one before",
        "kernel/macros/src/enums.rs",
        "last.number + 1",
        "last.number + 2",
    ),
];

/// Plants each fault, and takes it out again.
pub(super) fn plant(words: &str) -> Result<()> {
    let which = "-- edges groups:: lines fills:: lent:: computed:: enums::";
    find(FAULTS, words, ["--workspace --all-features", "--test language", which], "the tests of rows' edges")
}

#[test]
fn faults_fit_the_sources() {
    super::fit(FAULTS);
}
