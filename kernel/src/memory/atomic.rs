//! What can be done to memory atomically.

/// The orders of [`fence`].
pub use std::sync::atomic::Ordering as Order;

use crate::DeviceCopy;

/// Orders this thread's accesses to kernel memory, which are relaxed.
pub fn fence(order: Order) {
    std::sync::atomic::fence(order);
}

/// How an atomic is changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AtomicOp {
    /// The sum.
    Add,
    /// The difference.
    Sub,
    /// The bits in both.
    And,
    /// The bits in either.
    Or,
    /// The bits in one.
    Xor,
    /// The smaller.
    Min,
    /// The larger.
    Max,
    /// The new value.
    Swap,
}

/// The numbers that kernels change atomically.
pub trait AtomicElement: DeviceCopy + sealed::Sealed {
    /// Whether a word's own arithmetic is not the number's.
    #[doc(hidden)]
    const IS_FLOAT: bool;

    /// What an operation makes of two values.
    #[doc(hidden)]
    fn combined(op: AtomicOp, old: Self, value: Self) -> Self;
}

mod sealed {
    #[allow(unnameable_types, reason = "sealing is what this trait is for")]
    pub trait Sealed {}
}

macro_rules! atomic_integer {
    ($($t:ident)*) => {$(
        impl sealed::Sealed for $t {}
        impl AtomicElement for $t {
            const IS_FLOAT: bool = false;

            #[inline]
            fn combined(op: AtomicOp, old: Self, value: Self) -> Self {
                match op {
                    AtomicOp::Add => old.wrapping_add(value),
                    AtomicOp::Sub => old.wrapping_sub(value),
                    AtomicOp::And => old & value,
                    AtomicOp::Or => old | value,
                    AtomicOp::Xor => old ^ value,
                    AtomicOp::Min => old.min(value),
                    AtomicOp::Max => old.max(value),
                    AtomicOp::Swap => value,
                }
            }
        }
    )*};
}
atomic_integer!(u32 i32 u64 i64);

impl sealed::Sealed for f32 {}
impl AtomicElement for f32 {
    const IS_FLOAT: bool = true;

    #[inline]
    fn combined(op: AtomicOp, old: Self, value: Self) -> Self {
        let bits = |of: fn(u32, u32) -> u32| f32::from_bits(of(old.to_bits(), value.to_bits()));
        match op {
            AtomicOp::Add => old + value,
            AtomicOp::Sub => old - value,
            AtomicOp::Min => old.min(value),
            AtomicOp::Max => old.max(value),
            AtomicOp::Swap => value,
            // The kernel language has none of these for floats.
            AtomicOp::And => bits(|a, b| a & b),
            AtomicOp::Or => bits(|a, b| a | b),
            AtomicOp::Xor => bits(|a, b| a ^ b),
        }
    }
}
