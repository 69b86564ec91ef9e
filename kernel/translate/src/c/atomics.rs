//! Atomic operations, relaxed, as far as each language has them.

use naga::{AddressSpace, AtomicFunction, Expression, Handle, Scalar, ScalarKind};

use super::body::Body;
use super::dialect::Dialect;
use super::program::Program;
use super::types::{CType, short};
use crate::error::{Outcome, refuse};

impl Program<'_> {
    pub(super) fn atomic_load(
        &mut self,
        space: AddressSpace,
        scalar: Scalar,
        place: &str,
    ) -> Outcome<String> {
        let pointer = self.volatile(space, scalar, place)?;
        Ok(format!("*{pointer}"))
    }

    /// The address of an atomic, as one that the compiler does not see through.
    fn volatile(&mut self, space: AddressSpace, scalar: Scalar, place: &str) -> Outcome<String> {
        let c = self.type_name(CType::Scalar(scalar))?;
        Ok(match self.dialect {
            Dialect::OpenClC => format!("(volatile {}{c} *)&{place}", self.dialect.pointer(space)),
            Dialect::CudaC => format!("({c} *)&{place}"),
        })
    }

    /// A read-modify-write of an integer, which gives what was there.
    fn modify(&mut self, fun: AtomicFunction, scalar: Scalar, pointer: &str, value: &str) -> Outcome<String> {
        use AtomicFunction as A;
        let wide = scalar.width == 8;
        if wide && self.dialect == Dialect::OpenClC {
            for extension in ["base", "extended"] {
                let line = format!("#pragma OPENCL EXTENSION cl_khr_int64_{extension}_atomics : enable\n");
                if !self.extensions.contains(&line) {
                    self.extensions.push_str(&line);
                }
            }
        }
        let verb = match (self.dialect, fun) {
            (Dialect::OpenClC, A::Add) => "add",
            (Dialect::OpenClC, A::Subtract) => "sub",
            (Dialect::OpenClC, A::And) => "and",
            (Dialect::OpenClC, A::ExclusiveOr) => "xor",
            (Dialect::OpenClC, A::InclusiveOr) => "or",
            (Dialect::OpenClC, A::Min) => "min",
            (Dialect::OpenClC, A::Max) => "max",
            (Dialect::OpenClC, A::Exchange { .. }) => "xchg",
            (Dialect::CudaC, A::Add | A::Subtract) => "Add",
            (Dialect::CudaC, A::And) => "And",
            (Dialect::CudaC, A::ExclusiveOr) => "Xor",
            (Dialect::CudaC, A::InclusiveOr) => "Or",
            (Dialect::CudaC, A::Min) => "Min",
            (Dialect::CudaC, A::Max) => "Max",
            (Dialect::CudaC, A::Exchange { .. }) => "Exch",
        };
        Ok(match self.dialect {
            Dialect::OpenClC => format!("atom{}_{verb}({pointer}, {value})", if wide { "" } else { "ic" }),
            // CUDA subtracts 32-bit integers only, and adds signed 64-bit ones as unsigned.
            Dialect::CudaC => {
                let value = if fun == A::Subtract { format!("0 - {value}") } else { value.into() };
                let unsigned = wide && matches!(fun, A::Add | A::Subtract | A::Exchange { .. });
                match unsigned && scalar.kind == ScalarKind::Sint {
                    true => format!(
                        "(long long)atomic{verb}((unsigned long long *){pointer}, (unsigned long long)({value}))"
                    ),
                    false => format!("atomic{verb}({pointer}, {value})"),
                }
            }
        })
    }

    /// The name of a float's read-modify-write, made of compare-and-exchange on its bits.
    fn float_modify(&mut self, fun: AtomicFunction, space: AddressSpace) -> Outcome<String> {
        let (verb, new) = match fun {
            AtomicFunction::Add => ("add", "old + v"),
            AtomicFunction::Subtract => ("sub", "old - v"),
            AtomicFunction::Exchange { .. } => ("xchg", "v"),
            other => return refuse(format!("{other:?} of atomic floats")),
        };
        let (place, pointer) = match (self.dialect, space) {
            (Dialect::OpenClC, AddressSpace::WorkGroup) => ("local", "volatile __local"),
            (Dialect::OpenClC, _) => ("global", "volatile __global"),
            (Dialect::CudaC, _) => ("any", "volatile"),
        };
        let name = format!("w_atomic_{verb}_f32_{place}");
        let (bits, float) = (
            self.dialect.bits(Scalar::U32, Scalar::F32, &format!("({new})")),
            self.dialect.bits(Scalar::F32, Scalar::U32, "seen"),
        );
        let swap = match self.dialect {
            Dialect::OpenClC => format!("atomic_cmpxchg(({pointer} uint *)p, seen, {bits})"),
            Dialect::CudaC => format!("atomicCAS((uint *)p, seen, {bits})"),
        };
        self.helper(&name, || {
            format!(
                "float {name}({pointer} float *p, float v) {{ uint seen = *({pointer} uint *)p, was; float old; do {{ \
                 was = seen; old = {float}; seen = {swap}; }} while (seen != was); return old; }}"
            )
        });
        Ok(name)
    }
}

impl Body<'_, '_> {
    pub(super) fn atomic(
        &mut self,
        pointer: Handle<Expression>,
        fun: AtomicFunction,
        value: Handle<Expression>,
        result: Option<Handle<Expression>>,
    ) -> Outcome<()> {
        let Some((space, Some(scalar))) = self.pointer(pointer) else {
            return refuse("an atomic operation on something that is not atomic");
        };
        let place = self.place(pointer)?;
        let value = self.value(value)?;
        let address = self.program.volatile(space, scalar, &place)?;
        if let AtomicFunction::Exchange { compare: Some(compare) } = fun {
            let compare = self.value(compare)?;
            return self.exchange_if(scalar, &address, &compare, &value, result);
        }
        let text = match scalar.kind {
            ScalarKind::Float if scalar.width == 4 => {
                let name = self.program.float_modify(fun, space)?;
                format!("{name}({address}, {value})")
            }
            ScalarKind::Sint | ScalarKind::Uint => self.program.modify(fun, scalar, &address, &value)?,
            _ => return refuse(format!("atomics of {}", short(scalar))),
        };
        match result {
            Some(result) => self.declare(result, &text),
            None => {
                self.line(&format!("{text};"));
                Ok(())
            }
        }
    }

    fn exchange_if(
        &mut self,
        scalar: Scalar,
        address: &str,
        compare: &str,
        value: &str,
        result: Option<Handle<Expression>>,
    ) -> Outcome<()> {
        let wide = scalar.width == 8;
        let text = match self.program.dialect {
            Dialect::OpenClC => {
                format!("atom{}_cmpxchg({address}, {compare}, {value})", if wide { "" } else { "ic" })
            }
            Dialect::CudaC if wide && scalar.kind == ScalarKind::Sint => format!(
                "(long long)atomicCAS((unsigned long long *){address}, (unsigned long long)({compare}), \
                 (unsigned long long)({value}))"
            ),
            Dialect::CudaC => format!("atomicCAS({address}, {compare}, {value})"),
        };
        let Some(result) = result else {
            self.line(&format!("{text};"));
            return Ok(());
        };
        let old = self.fresh("old");
        let c = self.program.type_name(CType::Scalar(scalar))?;
        self.line(&format!("const {c} {old} = {text};"));
        let ty = self.type_of(result)?;
        let made = self.program.compose(
            ty,
            &[
                (old.clone(), CType::Scalar(scalar)),
                (format!("{old} == {compare}"), CType::Scalar(Scalar::BOOL)),
            ],
        )?;
        self.declare(result, &made)
    }
}
