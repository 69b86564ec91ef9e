//! Texts, and what of their comparisons is left.

use naga::{Block, Statement};

use crate::wgsl::Checked;

const HEAD: &str = "
    struct Block { at: u32, len: u32, rows: u32 }
    @group(0) @binding(0) var<storage, read_write> v: array<u32>;
    @group(0) @binding(1) var<uniform> block: Block;
    var<workgroup> tile: array<u32, 256>;
    fn get_v(i: u32) -> u32 { if i < block.len { return v[block.at + i]; } return 0u; }
    fn get_tile(i: u32) -> u32 { if i < 256u { return tile[i]; } return 0u; }
    fn w_promised(holds: bool) {}
    fn w_far_load_u32(at: u64) -> u32 { return u32(); }
    @compute @workgroup_size(16, 16) fn main(
        @builtin(local_invocation_id) place: vec3<u32>, @builtin(global_invocation_id) at: vec3<u32>,
    ) {
        let i = at.x;
        let limit = block.rows;
        var out = 0u;
";

fn branches(block: &Block) -> usize {
    block
        .iter()
        .map(|statement| match statement {
            Statement::If { accept, reject, .. } => 1 + branches(accept) + branches(reject),
            Statement::Block(inner) => branches(inner),
            Statement::Loop { body, continuing, .. } => branches(body) + branches(continuing),
            Statement::Switch { cases, .. } => cases.iter().map(|case| branches(&case.body)).sum(),
            _ => 0,
        })
        .sum()
}

/// How many branches the functions and the entry point have, of a text with this body.
fn left(body: &str, trusted: bool) -> usize {
    let text = format!("{HEAD}{body} v[0] = out; }}");
    let checked = Checked::parse(&text).unwrap_or_else(|error| panic!("{error}"));
    let checked = checked.pruned(trusted).unwrap_or_else(|error| panic!("{error}"));
    let module = checked.module();
    let functions = module.functions.iter().map(|(_, function)| branches(&function.body)).sum::<usize>();
    functions + branches(&module.entry_points[0].function.body)
}

#[test]
fn what_a_group_is_too_small_for_is_not_compared() {
    assert_eq!(left("out = get_tile(place.y * 16u + place.x);", false), 0);
    assert_eq!(left("out = get_tile(place.y * 17u + place.x);", false), 1, "it may be 270");
    assert_eq!(left("out = get_tile(place.y * 16u + place.x - 1u);", false), 1, "it may wrap");
    assert_eq!(left("out = get_tile(i);", false), 1);
    assert_eq!(
        left("out = get_tile(i % 256u) + get_tile((i >> 8u) & 255u) + get_tile(min(i, 255u));", false),
        0
    );
}

/// Seen to fail where the bodies of such functions were believed: then all that is read is zero, and no comparison is left.
#[test]
fn nothing_is_known_of_what_stands_at_an_address() {
    for trusted in [false, true] {
        assert_eq!(left("out = get_tile(w_far_load_u32(u64(i)));", trusted), 1);
        let twice = "if w_far_load_u32(u64(i)) < 256u { out = get_tile(w_far_load_u32(u64(i))); }";
        assert_eq!(left(twice, trusted), 2, "it may be another number by then");
    }
}

#[test]
fn what_was_compared_is_not_compared_again() {
    assert_eq!(left("if i < block.len { out = get_v(i); }", false), 1);
    assert_eq!(left("if i < block.len { out = get_v(i + 1u); }", false), 2);
    assert_eq!(left("if i >= block.len { return; } out = get_v(i);", false), 1);
    assert_eq!(left("if i < block.len { out = 1u; } else { out = get_v(i); }", false), 1, "it is outside");
    assert_eq!(
        left("if i < 5u { out = 1u; } else { out = get_tile(i); }", false),
        2,
        "it is not below 5 there"
    );
    assert_eq!(left("if i < limit { out = get_v(i); }", false), 2, "another limit");
    assert_eq!(left("if i > 0u & (i < block.len) { out = get_v(i - 1u); }", false), 1);
    assert_eq!(left("if i < block.len { out = get_v(i - 1u); }", false), 2, "it may wrap");
    // Behind the branch it is not known any more.
    assert_eq!(left("if i < block.len { out = 1u; } out = get_v(i);", false), 2);
}

#[test]
fn conditions_are_put_together() {
    assert_eq!(left("if i > 3u && i < block.len { out = get_v(i); }", false), 2, "the two parts of it");
    assert_eq!(left("if i > 3u || i < block.len { out = get_v(i); }", false), 3);
    assert_eq!(left("if !(i > 3u || i >= block.len) { out = get_v(i) + get_v(i); }", false), 2);
}

#[test]
fn loops_count_to_their_bounds() {
    assert_eq!(left("for (var k = 0u; k < block.len; k += 1u) { out += get_v(k); }", false), 1);
    assert_eq!(left("for (var k = 0u; k < limit; k += 1u) { out += get_v(k); }", false), 2);
    assert_eq!(left("for (var k = 0u; k < 16u; k += 1u) { out += get_tile(place.y * 16u + k); }", false), 1);
    assert_eq!(left("for (var k = 0u; k <= 16u; k += 1u) { out += get_tile(place.y * 16u + k); }", false), 2);
    // Halves, and a place that is the one or the other.
    let halves = "var half = 128u; while half > 0u { out += get_tile(place.x + half); half /= 2u; }";
    assert_eq!(left(halves, false), 1);
    let either = "var start = 0u; for (var k = 0u; k < 8u; k += 1u) { out += get_tile(start + place.x); start = 240u - start; }";
    assert_eq!(left(either, false), 1);
    let grows =
        "var start = 0u; for (var k = 0u; k < 8u; k += 1u) { out += get_tile(start); start += 100u; }";
    assert_eq!(left(grows, false), 2);
    // What is counted on before it is used has not been compared.
    let late = "var k = 0u; while k < block.len { k += 1u; out += get_v(k); }";
    assert_eq!(left(late, false), 2);
    let continued = "var k = 0u; loop { if k >= block.len { break; } if i == 3u { k += 1u; continue; } out += get_v(k); k += 1u; }";
    assert_eq!(left(continued, false), 2);
    // Behind the loop, its counter is not below the bound.
    let behind = "var k = 0u; while k < block.len { k += 1u; } out = get_v(k);";
    assert_eq!(left(behind, false), 2);
}

#[test]
fn memory_that_may_have_changed_is_not_known() {
    assert_eq!(left("if v[3] < block.len { out = get_v(v[3]); }", false), 2);
    assert_eq!(left("let k = v[3]; if k < block.len { out = get_v(k); }", false), 1);
    assert_eq!(left("var k = i; if k < block.len { k = v[2]; out = get_v(k); }", false), 2);
}

#[test]
fn promises_count_where_they_are_trusted() {
    let promised = "w_promised(i < block.len); out = get_v(i);";
    assert_eq!((left(promised, true), left(promised, false)), (0, 1));
    let of_one_way = "if i > 7u { w_promised(i < block.len); out = 1u; } out += get_v(i);";
    assert_eq!(left(of_one_way, true), 2);
}

/// A function is written once for each outcome of its comparisons.
#[test]
fn a_function_becomes_several() {
    let body = "out = get_tile(place.x) + get_tile(place.y) + get_tile(i) + get_tile(i + 1u);";
    let checked = Checked::parse(&format!("{HEAD}{body} v[0] = out; }}")).unwrap().pruned(false).unwrap();
    assert_eq!(checked.module().functions.len(), 2);
}

/// Reads without branches compare as often, and go nowhere else.
#[test]
fn reads_make_no_branches_where_that_is_wanted() {
    let text = format!("{HEAD}out = get_v(i) + get_tile(i); v[0] = out; }}");
    let checked = Checked::parse(&text).unwrap().pruned(false).unwrap().unbranched().unwrap();
    let module = checked.module();
    assert_eq!(module.functions.iter().map(|(_, function)| branches(&function.body)).sum::<usize>(), 0);
    let selects = |function: &naga::Function| {
        function.expressions.iter().filter(|(_, e)| matches!(e, naga::Expression::Select { .. })).count()
    };
    assert_eq!(module.functions.iter().map(|(_, function)| selects(function)).collect::<Vec<_>>(), [2, 2]);
}

#[test]
fn float_sums_become_atomics_of_floats() {
    let text = "
        struct Block { at: u32 }
        @group(0) @binding(0) var<storage, read_write> sum: array<atomic<u32>>;
        @group(0) @binding(1) var<uniform> block: Block;
        fn w_float_add_sum(value: f32) {
            var old = 0u;
            loop {
                let seen = atomicCompareExchangeWeak(&sum[block.at], old, bitcast<u32>(bitcast<f32>(old) + value));
                if seen.exchanged { break; }
                old = seen.old_value;
            }
        }
        @compute @workgroup_size(1) fn main() { w_float_add_sum(1.5); }";
    let checked = Checked::parse(text).unwrap().pruned(true).unwrap().with_float_atomics().unwrap();
    let (_, add) = checked.module().functions.iter().next().unwrap();
    let adds = |s: &Statement| matches!(s, Statement::Atomic { fun: naga::AtomicFunction::Add, .. });
    assert!(add.body.iter().any(adds) && branches(&add.body) == 0);
}
