//! What the plain Rust of a random kernel is made of: the language's definitions, written a second time.

pub use crate::cells::Cell;

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

/// A number rounded to 16 bits.
pub fn half(value: f32) -> f32 {
    windlass::f16::from_f32(value).to_f32()
}

/// Element `at`, and zero outside.
pub fn read<T: Copy + Default>(of: &[T], at: u32) -> T {
    of.get(at as usize).copied().unwrap_or_default()
}

/// The elements from one on up to another one, as far as there are such.
pub fn part<T>(of: &[T], from: u32, to: u32) -> &[T] {
    let from = (from as usize).min(of.len());
    &of[from..(to as usize).clamp(from, of.len().max(from))]
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
    /// Atomics, four elements for each operation.
    pub acc: Vec<u32>,
    /// Signed atomics: minima, and behind them maxima.
    pub iacc: Vec<i32>,
    /// Six rows of nine, to be read.
    pub grid: Vec<i32>,
    /// Results, in six rows of nine.
    pub gout: Vec<u32>,
    /// Results, elements of four words.
    pub quads: Vec<[i32; 4]>,
    /// Results, elements of three words.
    pub trios: Vec<[i32; 3]>,
    /// Results, elements of bytes.
    pub cells: Vec<Cell>,
    /// What is reduced: a sum, a minimum, an exclusive or, and sums of two numbers.
    pub reduced: Own,
    /// What its items have said.
    pub said: Vec<String>,
}

/// What an item gives to the reductions.
pub type Own = (u32, i32, u32, [u32; 2]);

/// What an item has that gives nothing.
pub const NOTHING: Own = (0, i32::MAX, 0, [0; 2]);

impl Plain {
    /// Takes what an item gives.
    pub fn fold(&mut self, own: Own) {
        let all = &mut self.reduced;
        let [x, y] = [0, 1].map(|at| all.3[at].wrapping_add(own.3[at]));
        *all = (all.0.wrapping_add(own.0), all.1.min(own.1), all.2 ^ own.2, [x, y]);
    }
}

/// Element `[i][j]` of six rows of nine.
pub fn read2<T: Copy + Default>(of: &[T], i: u32, j: u32) -> T {
    if i < 6 && j < 9 { read(of, i * 9 + j) } else { T::default() }
}

/// Writes it.
pub fn write2<T>(to: &mut [T], i: u32, j: u32, value: T) {
    if i < 6 && j < 9 {
        write(to, i * 9 + j, value);
    }
}

/// A part of element `at`.
pub fn read_part<const N: usize>(of: &[[i32; N]], at: u32, part: u32) -> i32 {
    of.get(at as usize).map_or(0, |element| read(element, part))
}

/// Writes it.
pub fn write_part<const N: usize>(to: &mut [[i32; N]], at: u32, part: u32, value: i32) {
    if let Some(element) = to.get_mut(at as usize) {
        write(element, part, value);
    }
}
