//! How much of the language random kernels use.

use crate::kernel::one;

/// The language's constructs, with a text by which a kernel that has one is known.
const CONSTRUCTS: &[(&str, &str)] = &[
    ("if as a value", "(if "),
    ("if as a statement", "\nif "),
    ("else", "else"),
    ("match as a value", "(match "),
    ("match as a statement", "\nmatch "),
    ("several values in an arm", "0 | 3 =>"),
    ("negative value in an arm", "| -1 =>"),
    ("block with a value", "{ let n"),
    ("while", "while k"),
    ("loop", "\nloop {"),
    ("for over a range", "\nfor i"),
    ("for up to the last value", "MAX - "),
    ("range with its end", "..="),
    ("break", "break;\n"),
    ("the least number divided", "+ i32::MAX) / "),
    ("break out of a match", "0 => {\nbreak;\n"),
    ("continue", "continue;\n"),
    ("return", "return;"),
    ("mutable variable", "let mut v"),
    ("array", "let mut r"),
    ("struct", "Pair {"),
    ("array in a struct", ".rest["),
    ("constant", "LIMIT"),
    ("array of constants", "ODDS["),
    ("helper", "mix("),
    ("helper over a slice", "total(b,"),
    ("helper that changes a variable", "bump(&mut v"),
    ("generic helper", "larger("),
    ("helper over a length", "at(["),
    ("generic helper over a slice", "below(b,"),
    ("method", ".sum()"),
    ("method that changes", ".shift(by)"),
    ("operator of a struct", ") + Pair::of("),
    ("assigning operator of a struct", " *= by"),
    ("another module's helper", "(scatter("),
    ("another module's generic struct", "Range::of("),
    ("helper in which items wait", "passed(tile"),
    ("negative index", ") % 64]"),
    ("saturating addition", ".saturating_add("),
    ("saturating multiplication", ".saturating_mul("),
    ("power", ".pow("),
    ("rem_euclid", ".rem_euclid("),
    ("isqrt", ".isqrt()"),
    ("next_power_of_two", ".next_power_of_two()"),
    ("for over an array", "\nfor e"),
    ("label", "'l"),
    ("break to a label", "break 'l"),
    ("continue with a label", "continue 'l"),
    ("range backwards", ".rev() {"),
    ("range by steps", ".step_by("),
    ("range in a pattern", "0..=7 | 30 =>"),
    ("several names in a let", "let (mut v"),
    ("compare_exchange", ".compare_exchange("),
    ("addition", " + "),
    ("subtraction", " - "),
    ("multiplication", " * "),
    ("division", " / "),
    ("remainder", " % "),
    ("left shift", " << "),
    ("right shift", " >> "),
    ("and", " & "),
    ("or", " | "),
    ("exclusive or", " ^ "),
    ("not", "(!"),
    ("negation", "(-v"),
    ("short-circuit and", " && "),
    ("short-circuit or", " || "),
    ("less", " < "),
    ("equal", " == "),
    ("compound assignment", " += "),
    ("compound division", " /= "),
    ("to i32", "as i32"),
    ("to u32", "as u32"),
    ("to f32", "as f32"),
    ("64-bit integers", "as i64"),
    ("unsigned 64-bit integers", "as u64"),
    ("64-bit floats", "as f64"),
    ("16-bit floats", "as f16"),
    ("floats beyond the range of integers", "1.0e4_f32) as "),
    ("min", ".min("),
    ("max", ".max("),
    ("clamp", ".clamp("),
    ("abs", ".abs()"),
    ("abs_diff", ".abs_diff("),
    ("signum", ".signum()"),
    ("count_ones", ".count_ones()"),
    ("leading_zeros", ".leading_zeros()"),
    ("trailing_zeros", ".trailing_zeros()"),
    ("reverse_bits", ".reverse_bits()"),
    ("rotate_left", ".rotate_left("),
    ("rotate_right", ".rotate_right("),
    ("wrapping_neg", ".wrapping_neg()"),
    ("to_bits", ".to_bits()"),
    ("from_bits", "f32::from_bits("),
    ("is_nan", ".is_nan()"),
    ("floor", ".floor()"),
    ("ceil", ".ceil()"),
    ("trunc", ".trunc()"),
    ("round", ".round()"),
    ("round_ties_even", ".round_ties_even()"),
    ("fract", ".fract()"),
    ("copysign", ".copysign("),
    ("sqrt", ".sqrt()"),
    ("sine", ".sin()"),
    ("cosine", ".cos()"),
    ("tangent", ".tan()"),
    ("arcs", ".a"),
    ("hyperbolic functions", "h()"),
    ("exponential functions", ".exp"),
    ("logarithms", ".l"),
    ("powf", ".powf("),
    ("mul_add", ".mul_add("),
    ("recip", ".recip()"),
    ("degrees and radians", ".to_"),
    ("Vec2", "Vec2::"),
    ("Vec3", "Vec3::"),
    ("Vec4", "Vec4::"),
    ("splat", "::splat("),
    ("swizzle", "().y"),
    ("dot", ".dot("),
    ("vector variable", "let mut w"),
    ("component of a variable", ".y = "),
    ("element of memory", "a["),
    ("element outside", "[g + 1000]"),
    ("own result read back", "uout[g]"),
    ("view", "grid["),
    ("view that is written", "gout["),
    ("extent", ".extent("),
    ("len", ".len()"),
    ("element of four", "quads[g] ="),
    ("part of an element", "quads[g]["),
    ("vector in memory", "trios[g]"),
    ("fetch_add", ".fetch_add("),
    ("fetch_sub", ".fetch_sub("),
    ("fetch_min", ".fetch_min("),
    ("fetch_max", ".fetch_max("),
    ("fetch_and", ".fetch_and("),
    ("fetch_or", ".fetch_or("),
    ("fetch_xor", ".fetch_xor("),
    ("load", ".load("),
    ("signed atomics", "iacc["),
    ("reduction to a sum", "*rsum"),
    ("reduction to a minimum", "*rmin"),
    ("reduction by a helper", "*rxor"),
    ("built-in value", "#[spec]"),
    ("two dimensions", "global_size(1)"),
    ("three dimensions", "global_size(2)"),
    ("barrier", "barrier();"),
    ("barrier in a loop", "while half"),
    ("local memory of a fixed size", "#[local] tile: &mut [i32;"),
    ("local memory sized at launch", "#[local] tile: &mut [i32],"),
    ("local atomics", "count["),
    ("local_id", "local_id("),
    ("local_size", "local_size("),
    ("group_id", "group_id("),
    ("group_count", "group_count("),
];

/// How many of so many kernels have each construct; kernels are the first of their programs, from a seed on.
pub fn shares(seed: u64, programs: u64, each: usize) -> Vec<(&'static str, usize)> {
    let mut counts: Vec<(&str, usize)> = CONSTRUCTS.iter().map(|(name, _)| (*name, 0)).collect();
    for seed in seed..seed + programs {
        for at in 0..each {
            let (text, _) = one(seed, at);
            // Everything but the helpers and constants that all have, and the plain twin.
            let body =
                text.split("#[kernel]").nth(1).and_then(|rest| rest.split("_plain {").next()).unwrap_or("");
            for ((_, needle), (_, count)) in CONSTRUCTS.iter().zip(&mut counts) {
                *count += usize::from(body.contains(needle));
            }
        }
    }
    counts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_construct_is_in_one_of_a_hundred_random_kernels() {
        let (programs, each) = (40, 50);
        for (name, count) in shares(1, programs, each) {
            assert!(
                count * 100 >= programs as usize * each,
                "{name} is in {count} of {} kernels",
                programs as usize * each
            );
        }
    }
}
