//! Numbers that the language does not have by itself.

/// Complex numbers, and ranges of anything that can be compared.
#[windlass::kernels]
pub mod numbers {
    /// A complex number.
    #[derive(Clone, Copy, Debug, PartialEq)]
    pub struct Complex<T> {
        /// The real part.
        pub re: T,
        /// The imaginary part.
        pub im: T,
    }

    impl<T> Complex<T> {
        pub fn new(re: T, im: T) -> Self {
            Complex { re, im }
        }

        /// The square of its distance from zero.
        pub fn norm(self) -> T {
            self.re * self.re + self.im * self.im
        }
    }

    impl<T> Add for Complex<T> {
        type Output = Complex<T>;
        fn add(self, other: Complex<T>) -> Complex<T> {
            Complex { re: self.re + other.re, im: self.im + other.im }
        }
    }

    impl<T> Mul for Complex<T> {
        type Output = Complex<T>;
        fn mul(self, other: Complex<T>) -> Complex<T> {
            Complex {
                re: self.re * other.re - self.im * other.im,
                im: self.re * other.im + self.im * other.re,
            }
        }
    }

    /// From the least to the greatest of some values.
    #[derive(Clone, Copy, Debug, PartialEq)]
    pub struct Range<T> {
        /// The least.
        pub low: T,
        /// The greatest.
        pub high: T,
    }

    impl<T> Range<T> {
        pub fn of(value: T) -> Self {
            Range { low: value, high: value }
        }

        /// Widens the range as far as is needed for a value to be in it.
        pub fn take(&mut self, value: T) {
            self.low = self.low.min(value);
            self.high = self.high.max(value);
        }

        pub fn width(self) -> T {
            self.high - self.low
        }
    }
}
