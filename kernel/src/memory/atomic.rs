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

/// The integers that have atomic operations on every device.
pub trait AtomicInteger: DeviceCopy + sealed::Sealed {
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
        impl AtomicInteger for $t {
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
