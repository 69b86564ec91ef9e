//! Vectors of two to four numbers.

use bytemuck::{Pod, Zeroable};

use half::f16;

use super::number::Zero;

/// What vectors have in common, for code that works on components.
pub trait Vector<T>: Copy {
    /// This kind of vector with other components.
    type Of<U>;
    /// A vector of `f` of each component.
    fn map<U>(self, f: impl FnMut(T) -> U) -> Self::Of<U>;
    /// A vector of `f` of the components of two.
    fn zip<U>(self, other: Self, f: impl FnMut(T, T) -> U) -> Self::Of<U>;
    /// A vector of `f` of the components of three.
    fn zip3<U>(self, second: Self, third: Self, f: impl FnMut(T, T, T) -> U) -> Self::Of<U>;
}

macro_rules! vector {
    ($($(#[doc = $doc:literal])* $name:ident $n:literal $($axis:ident $at:literal)*;)*) => {$(
        $(#[doc = $doc])*
        ///
        /// In memory it is its components one after the other, aligned as one of them is, on every device.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
        #[repr(C)]
        pub struct $name<T> {
            $(#[doc = concat!("Component ", $at, ".")] pub $axis: T,)*
        }

        impl<T> $name<T> {
            /// A vector of these components.
            #[inline]
            pub const fn new($($axis: T),*) -> Self {
                $name { $($axis),* }
            }

            /// A vector whose components are all the same.
            #[inline]
            pub const fn splat(value: T) -> Self where T: Copy {
                $name { $($axis: value),* }
            }
        }

        // SAFETY: `repr(C)` puts components of one type one after the other, without padding.
        unsafe impl<T: Zeroable> Zeroable for $name<T> {}
        // SAFETY: as above; every bit pattern of each component is valid.
        unsafe impl<T: Pod> Pod for $name<T> {}

        impl<T: Zero> Zero for $name<T> {
            const ZERO: Self = $name { $($axis: T::ZERO),* };
        }

        impl<T> From<[T; $n]> for $name<T> {
            fn from([$($axis),*]: [T; $n]) -> Self {
                $name { $($axis),* }
            }
        }

        impl<T> From<$name<T>> for [T; $n] {
            fn from(v: $name<T>) -> [T; $n] {
                [$(v.$axis),*]
            }
        }

        impl<T: Copy> Vector<T> for $name<T> {
            type Of<U> = $name<U>;
            #[inline]
            fn map<U>(self, mut f: impl FnMut(T) -> U) -> $name<U> {
                $name { $($axis: f(self.$axis)),* }
            }
            #[inline]
            fn zip<U>(self, other: Self, mut f: impl FnMut(T, T) -> U) -> $name<U> {
                $name { $($axis: f(self.$axis, other.$axis)),* }
            }
            #[inline]
            fn zip3<U>(self, second: Self, third: Self, mut f: impl FnMut(T, T, T) -> U) -> $name<U> {
                $name { $($axis: f(self.$axis, second.$axis, third.$axis)),* }
            }
        }

        vector!(operators $name Add add + Sub sub - Mul mul * Div div /);
        vector!(floats $name $($axis)*; f32 f64);

        impl $name<f16> {
            /// The sum of the products of the components, rounded once.
            #[inline]
            pub fn dot(self, other: Self) -> f16 {
                f16::from_f32(self.wide().dot(other.wide()))
            }

            /// The Euclidean length.
            #[inline]
            pub fn length(self) -> f16 {
                f16::from_f32(self.wide().length())
            }

            /// The length of the difference.
            #[inline]
            pub fn distance(self, other: Self) -> f16 {
                f16::from_f32(self.wide().distance(other.wide()))
            }

            /// The vector of this direction whose length is 1.
            #[inline]
            pub fn normalize(self) -> Self {
                self.wide().normalize().map(f16::from_f32)
            }

            fn wide(self) -> $name<f32> {
                self.map(f16::to_f32)
            }
        }
    )*};
    (operators $name:ident $($trait:ident $method:ident $sign:tt)*) => {$(
        impl<T: Copy + std::ops::$trait<Output = T>> std::ops::$trait for $name<T> {
            type Output = Self;
            #[inline]
            fn $method(self, other: Self) -> Self {
                self.zip(other, |a, b| a $sign b)
            }
        }

        impl<T: Copy + std::ops::$trait<Output = T>> std::ops::$trait<T> for $name<T> {
            type Output = Self;
            #[inline]
            fn $method(self, other: T) -> Self {
                self.map(|a| a $sign other)
            }
        }
    )*};
    (floats $name:ident $($axis:ident)*; f32 f64) => {
        vector!(float $name f32 $($axis)*);
        vector!(float $name f64 $($axis)*);
    };
    (float $name:ident $t:ident $($axis:ident)*) => {
        impl $name<$t> {
            /// The sum of the products of the components.
            #[inline]
            pub fn dot(self, other: Self) -> $t {
                0.0 $(+ self.$axis * other.$axis)*
            }

            /// The Euclidean length.
            #[inline]
            pub fn length(self) -> $t {
                self.dot(self).sqrt()
            }

            /// The length of the difference.
            #[inline]
            pub fn distance(self, other: Self) -> $t {
                (self - other).length()
            }

            /// The vector of this direction whose length is 1.
            #[inline]
            pub fn normalize(self) -> Self {
                self / self.length()
            }
        }
    };
}
vector! {
    /// Two numbers.
    Vec2 2 x 0 y 1;
    /// Three numbers.
    Vec3 3 x 0 y 1 z 2;
    /// Four numbers.
    Vec4 4 x 0 y 1 z 2 w 3;
}

macro_rules! cross {
    ($($t:ident)*) => {$(
        impl Vec3<$t> {
            /// The vector that stands upright on both.
            #[inline]
            pub fn cross(self, other: Self) -> Self {
                Vec3 {
                    x: self.y * other.z - self.z * other.y,
                    y: self.z * other.x - self.x * other.z,
                    z: self.x * other.y - self.y * other.x,
                }
            }
        }
    )*};
}
cross!(f32 f64 f16);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vectors_are_their_components() {
        let v = Vec3::new(1.0_f32, 2.0, 3.0);
        assert_eq!(size_of::<Vec3<f32>>(), 12);
        assert_eq!(bytemuck::bytes_of(&v), bytemuck::bytes_of(&[1.0_f32, 2.0, 3.0]));
        assert_eq!(v.cross(Vec3::new(0.0, 1.0, 0.0)), Vec3::new(-3.0, 0.0, 1.0));
        assert_eq!((v * 2.0).dot(v), 28.0);
        assert_eq!(Vec2::new(3.0_f64, 4.0).normalize(), Vec2::new(0.6, 0.8));
    }
}
