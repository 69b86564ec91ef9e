//! Methods of numbers and images that are written in the kernel language itself, so that they mean the same on every device.

pub(crate) mod texels;

use crate::builtin::Domain;

/// Their text. Each takes what it is called on first.
pub(crate) const TEXT: &str = include_str!("library/numbers.rs");

/// The methods: what they are for. Where a name is for floats and for integers, each has a function of its own.
const METHODS: &[(&str, Domain, &str)] = &[
    ("saturating_add", Domain::Int, "saturating_add"),
    ("saturating_sub", Domain::Int, "saturating_sub"),
    ("saturating_mul", Domain::Int, "saturating_mul"),
    ("pow", Domain::Int, "pow"),
    ("powi", Domain::Float, "powi"),
    ("hypot", Domain::Float, "hypot"),
    ("rem_euclid", Domain::Int, "rem_euclid"),
    ("rem_euclid", Domain::Float, "rem_euclid_of_floats"),
    ("div_euclid", Domain::Int, "div_euclid"),
    ("div_ceil", Domain::Unsigned, "div_ceil"),
    ("is_multiple_of", Domain::Unsigned, "is_multiple_of"),
    ("is_power_of_two", Domain::Unsigned, "is_power_of_two"),
    ("next_power_of_two", Domain::Unsigned, "next_power_of_two"),
    ("ilog2", Domain::Word, "ilog2"),
    ("isqrt", Domain::Unsigned, "isqrt"),
    ("is_finite", Domain::Float, "is_finite"),
    ("is_infinite", Domain::Float, "is_infinite"),
];

/// The functions that may be meant by a method's name.
pub(crate) fn find(name: &str) -> impl Iterator<Item = (Domain, &'static str)> {
    METHODS.iter().filter(move |(of, ..)| *of == name).map(|(_, domain, function)| (*domain, *function))
}
