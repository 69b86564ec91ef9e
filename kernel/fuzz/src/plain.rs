//! What the plain Rust of a random kernel is made of: the language's definitions, written a second time.

/// Division as kernels define it.
pub trait Defined: Copy {
    /// The quotient.
    fn quotient(self, by: Self) -> Self;
    /// The remainder.
    fn remainder(self, by: Self) -> Self;
}

impl Defined for i32 {
    fn quotient(self, by: i32) -> i32 {
        match (self, by) {
            (a, 0) => a,
            (i32::MIN, -1) => i32::MIN,
            (a, b) => a / b,
        }
    }

    fn remainder(self, by: i32) -> i32 {
        match (self, by) {
            (_, 0) | (_, -1) => 0,
            (a, b) => a % b,
        }
    }
}

impl Defined for u32 {
    fn quotient(self, by: u32) -> u32 {
        self.checked_div(by).unwrap_or(self)
    }

    fn remainder(self, by: u32) -> u32 {
        self.checked_rem(by).unwrap_or(0)
    }
}

/// Element `at`, and zero outside.
pub fn read<T: Copy + Default>(of: &[T], at: u32) -> T {
    of.get(at as usize).copied().unwrap_or_default()
}

/// Writes element `at`, and nothing outside.
pub fn write<T>(to: &mut [T], at: u32, value: T) {
    if let Some(element) = to.get_mut(at as usize) {
        *element = value;
    }
}

/// What a random kernel's memory is, in plain Rust.
#[derive(Clone, Debug, PartialEq)]
pub struct Plain {
    /// Integers to be read.
    pub a: Vec<i32>,
    /// Unsigned integers to be read.
    pub b: Vec<u32>,
    /// Floats to be read.
    pub x: Vec<f32>,
    /// A plain value.
    pub s: i32,
    /// A plain value.
    pub t: u32,
    /// Results.
    pub out: Vec<i32>,
    /// Results.
    pub uout: Vec<u32>,
    /// Results.
    pub fout: Vec<f32>,
    /// Atomics: sums, and behind them maxima and exclusive ors.
    pub acc: Vec<u32>,
}
