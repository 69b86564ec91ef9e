//! Memory with integers of 8 and 16 bits, which WGSL has not: functions of certain names read and write one number in the words that a
//! binding is made of. A writer of a language that has such integers puts its own access in the function's place.
//!
//! The names are `w_read_TYPE_…` and `w_write_TYPE_…`, of `i8`, `u8`, `i16` and `u16`, and of `u32` and `u64`, which stand beside those
//! in structs; the first argument is the number of the integer, counted in such integers from the start of the one binding that the
//! function uses, the second what is written. Only texts of the attribute are
//! taken at their word.

use naga::valid::FunctionInfo;
use naga::{AddressSpace, Function, GlobalVariable, Handle, Module};

use crate::c::Dialect;

/// Such a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Packed {
    pub(crate) binding: Handle<GlobalVariable>,
    /// As C names the integer.
    pub(crate) ty: &'static str,
    pub(crate) writes: bool,
}

impl Packed {
    /// What a function is, if it is one of these.
    pub(crate) fn of(
        module: &Module,
        function: &Function,
        info: &FunctionInfo,
        dialect: Dialect,
    ) -> Option<Packed> {
        let name = function.name.as_deref()?;
        let (writes, rest) = match name.strip_prefix("w_read_") {
            Some(rest) => (false, rest),
            None => (true, name.strip_prefix("w_write_")?),
        };
        let wide = |scalar| dialect.scalar(scalar).unwrap_or_default();
        let known = [
            ("i8_", "signed char"),
            ("u8_", "unsigned char"),
            ("i16_", "short"),
            ("u16_", "unsigned short"),
            ("u32_", wide(naga::Scalar::U32)),
            ("u64_", wide(naga::Scalar::U64)),
        ];
        let (_, ty) = known.into_iter().find(|(tag, _)| rest.starts_with(tag))?;
        // What keeps a driver from losing negations may use the launch's numbers as well.
        let is_memory = |variable: &GlobalVariable| matches!(variable.space, AddressSpace::Storage { .. });
        let used = |(handle, _): &(Handle<GlobalVariable>, _)| !info[*handle].is_empty();
        let mut used =
            module.global_variables.iter().filter(|(_, variable)| is_memory(variable)).filter(used);
        let (binding, _) = used.next()?;
        let fits = function.arguments.len() == 1 + usize::from(writes) && function.result.is_some() != writes;
        (fits && used.next().is_none()).then_some(Packed { binding, ty, writes })
    }
}
