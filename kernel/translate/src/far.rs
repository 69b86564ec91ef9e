//! Access by addresses, which WGSL has not: functions of certain names read and write one number at an address.
//!
//! The names are `w_far_load_TYPE` and `w_far_store_TYPE`, with the names that Rust has for numbers; the first argument is the address, a
//! `u64`, and the second what is written. Their bodies say nothing of what they do, so nobody may conclude anything from them. Only
//! texts of the attribute are taken at their word, which look before whether the launch reaches what is there: in any other
//! text they are what they say.

use naga::{Function, Scalar};

use crate::c::Dialect;

/// Such a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Far {
    /// The number's type, as Rust names it.
    pub(crate) name: &'static str,
    pub(crate) writes: bool,
}

const NAMES: [&str; 11] = ["i8", "u8", "i16", "u16", "i32", "u32", "i64", "u64", "f16", "f32", "f64"];

impl Far {
    /// What a function is, if it is one of these.
    pub(crate) fn of(function: &Function) -> Option<Far> {
        let name = function.name.as_deref()?;
        let (writes, rest) = match name.strip_prefix("w_far_load_") {
            Some(rest) => (false, rest),
            None => (true, name.strip_prefix("w_far_store_")?),
        };
        let name = NAMES.into_iter().find(|known| *known == rest)?;
        let fits = function.arguments.len() == 1 + usize::from(writes) && function.result.is_some() != writes;
        fits.then_some(Far { name, writes })
    }

    /// As C names what is in memory.
    pub(crate) fn c_type(self, dialect: Dialect) -> Option<&'static str> {
        match self.name {
            "i8" => Some("signed char"),
            "u8" => Some("uchar"),
            "i16" => Some("short"),
            "u16" => Some("ushort"),
            "i32" => dialect.scalar(Scalar::I32),
            "u32" => dialect.scalar(Scalar::U32),
            "i64" => dialect.scalar(Scalar::I64),
            "u64" => dialect.scalar(Scalar::U64),
            "f16" => dialect.scalar(Scalar::F16),
            "f32" => dialect.scalar(Scalar::F32),
            _ => dialect.scalar(Scalar::F64),
        }
    }
}
