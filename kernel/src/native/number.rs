//! Numbers: what the language defines and Rust panics at.

use half::f16;

/// Types with a zero, which is what reading outside gives.
pub trait Zero: Copy {
    /// The zero.
    const ZERO: Self;
}

macro_rules! zero {
    ($($t:ident $zero:literal)*) => {$(
        impl Zero for $t {
            const ZERO: $t = $zero;
        }
    )*};
}
zero!(bool false i8 0 u8 0 i16 0 u16 0 i32 0 u32 0 i64 0 u64 0 f32 0.0 f64 0.0);

impl Zero for f16 {
    const ZERO: f16 = f16::ZERO;
}

impl<T: Zero, const N: usize> Zero for [T; N] {
    const ZERO: [T; N] = [T::ZERO; N];
}

impl<T: Copy> Zero for Option<T> {
    const ZERO: Option<T> = None;
}

impl Zero for () {
    const ZERO: () = ();
}

macro_rules! zero_tuple {
    ($($($t:ident)+;)*) => {$(
        impl<$($t: Zero),+> Zero for ($($t,)+) {
            const ZERO: Self = ($($t::ZERO,)+);
        }
    )*};
}
zero_tuple!(A; A B; A B C; A B C D; A B C D E; A B C D E F; A B C D E F G; A B C D E F G H;);

/// An element of an array value; outside, zero.
#[inline]
pub fn element<T: Zero>(array: &[T], at: u32) -> T {
    array.get(at as usize).copied().unwrap_or(T::ZERO)
}

/// An element of an array, to be changed; outside, nothing.
#[inline]
pub fn element_mut<T, const N: usize>(array: &mut [T; N], at: u32) -> Option<&mut T> {
    array.get_mut(at as usize)
}

/// Division that is defined for all operands.
pub trait Integer: Copy {
    /// The quotient; by zero, and where it does not fit, the dividend.
    fn div(self, by: Self) -> Self;
    /// The remainder; by zero, and where the quotient does not fit, zero.
    fn rem(self, by: Self) -> Self;
}

macro_rules! integer {
    ($($t:ident)*) => {$(
        impl Integer for $t {
            #[inline]
            fn div(self, by: $t) -> $t {
                self.checked_div(by).unwrap_or(self)
            }

            #[inline]
            fn rem(self, by: $t) -> $t {
                self.checked_rem(by).unwrap_or(0)
            }
        }
    )*};
}
integer!(i8 u8 i16 u16 i32 u32 i64 u64);

/// Numbers as types hold them, for those that a kernel is built with.
pub mod held {
    fn between(value: f64, low: f64, high: f64) -> Option<f64> {
        (value.fract() == 0.0 && (low..=high).contains(&value)).then_some(value)
    }

    /// A `u32`.
    pub fn u32(value: f64) -> Option<f64> {
        between(value, 0.0, u32::MAX.into())
    }

    /// An `i32`.
    pub fn i32(value: f64) -> Option<f64> {
        between(value, i32::MIN.into(), i32::MAX.into())
    }

    /// An `f32`.
    pub fn f32(value: f64) -> Option<f64> {
        Some(f64::from(value as f32)).filter(|value| value.is_finite())
    }

    /// A `bool`, as 0 or 1.
    pub fn bool(value: f64) -> Option<f64> {
        between(value, 0.0, 1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn division_is_defined_for_all_operands() {
        assert_eq!((7_i32.div(0), 7_i32.rem(0)), (7, 0));
        assert_eq!((i32::MIN.div(-1), i32::MIN.rem(-1)), (i32::MIN, 0));
        assert_eq!((7_u64.div(2), (-7_i64).rem(2)), (3, -1));
    }

    #[test]
    fn outside_an_array_is_zero() {
        assert_eq!((element(&[5, 6], 1), element(&[5, 6], 2)), (6, 0));
        assert_eq!(element_mut(&mut [1], 1), None);
    }
}
