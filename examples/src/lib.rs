//! The README's code, as documentation tests.
#![doc = include_str!("../../README.md")]
