//! What kernels share: generic helpers and structs, methods, operators, other names for types.

use windlass::prelude::*;

use crate::everywhere::{everywhere, read};

#[windlass::kernels]
mod numbers {
    use windlass::prelude::*;

    const TAPS: usize = 3;
    type Weights = [f32; TAPS];

    #[derive(Clone, Copy)]
    struct Pair<T> {
        a: T,
        b: T,
    }

    #[derive(Clone, Copy)]
    struct Matrix<const ROWS: usize, const COLUMNS: usize> {
        at: [[f32; COLUMNS]; ROWS],
    }

    #[derive(Clone, Copy)]
    struct Complex {
        re: f32,
        im: f32,
    }

    impl Complex {
        fn new(re: f32, im: f32) -> Self {
            Complex { re, im }
        }

        fn norm(&self) -> f32 {
            self.re * self.re + self.im * self.im
        }

        fn turn(&mut self) {
            let re = self.re;
            self.re = 0.0 - self.im;
            self.im = re;
        }
    }

    impl Add for Complex {
        type Output = Complex;
        fn add(self, other: Complex) -> Complex {
            Complex::new(self.re + other.re, self.im + other.im)
        }
    }

    impl Mul for Complex {
        type Output = Self;
        fn mul(self, other: Self) -> Self {
            Self { re: self.re * other.re - self.im * other.im, im: self.re * other.im + self.im * other.re }
        }
    }

    impl Mul<f32> for Complex {
        type Output = Complex;
        fn mul(self, by: f32) -> Complex {
            Complex::new(self.re * by, self.im * by)
        }
    }

    impl Mul<Complex> for f32 {
        type Output = Complex;
        fn mul(self, of: Complex) -> Complex {
            of * self
        }
    }

    impl Neg for Complex {
        type Output = Complex;
        fn neg(self) -> Complex {
            Complex::new(-self.re, -self.im)
        }
    }

    impl SubAssign for Complex {
        fn sub_assign(&mut self, other: Complex) {
            self.re -= other.re;
            self.im -= other.im;
        }
    }

    impl<T> Pair<T> {
        fn of(a: T, b: T) -> Self {
            Pair { a, b }
        }

        fn sum(self) -> T {
            self.a + self.b
        }

        fn swap(&mut self) {
            let a = self.a;
            self.a = self.b;
            self.b = a;
        }
    }

    impl<T> Add for Pair<T> {
        type Output = Pair<T>;
        fn add(self, other: Pair<T>) -> Pair<T> {
            Pair { a: self.a + other.a, b: self.b + other.b }
        }
    }

    fn larger<T: PartialOrd>(a: T, b: T) -> T {
        if a > b { a } else { b }
    }

    fn sum<T, const N: usize>(values: &[T; N], start: T) -> T {
        let mut sum = start;
        for k in 0..N {
            sum += values[k];
        }
        sum
    }

    fn at<T>(x: &[T], index: usize, or: T) -> T {
        if index < x.len() { x[index] } else { or }
    }

    fn mul<const N: usize, const M: usize, const K: usize>(a: Matrix<N, M>, b: Matrix<M, K>) -> Matrix<N, K> {
        let mut out = Matrix::<N, K> { at: [[0.0; K]; N] };
        for i in 0..N {
            for k in 0..K {
                for j in 0..M {
                    out.at[i][k] += a.at[i][j] * b.at[j][k];
                }
            }
        }
        out
    }

    fn repeat<const N: u32>(x: f32) -> [f32; N] {
        [x; N]
    }

    #[kernel]
    pub fn generic(x: &[f32], n: &[u32], out: &mut [f32], counts: &mut [u32]) {
        let i = global_id(0);
        let last: usize = x.len() - 1;
        let three = [at(x, i, 0.0), at(x, i + 1, -1.0), at(x, last as usize, 0.0)];
        let weights: Weights = [0.5, 0.25, 0.125];
        let mut pair = Pair { a: n[i], b: 7 };
        pair.swap();
        let both = pair + Pair::of(1_u32, 2);
        counts[i] = both.sum() * 100 + larger(both.a, both.b) + sum(&[1, 2, 3, n[i]], 10);
        out[i] = larger(sum(&three, 0.0), x[i] * 2.0) + sum(&weights, 0.0) + sum(&repeat::<5>(x[i]), 0.5);
    }

    #[kernel]
    pub fn complex(x: &[f32], out: &mut [f32]) {
        let i = global_id(0);
        let mut z = Complex::new(x[i], 1.0);
        let c = Complex { re: 0.25, im: -0.5 };
        for _ in 0..2 {
            z = z * z + c * 2.0 + 0.5 * c;
        }
        z.turn();
        z += c;
        z -= -c;
        out[i] = z.norm() + z.re;
    }

    #[kernel]
    pub fn matrices(x: &[f32], out: &mut [f32]) {
        let i = global_id(0);
        let a = Matrix { at: [[x[i], 1.0, 2.0], [3.0, x[i], 4.0]] };
        let b = Matrix { at: [[1.0], [x[i]], [2.0]] };
        let c = mul(a, b);
        out[i] = c.at[0][0] + c.at[1][0] * 10.0;
    }
}

/// A module that others use, with names that they have too.
#[windlass::kernels]
mod noise {
    use windlass::prelude::*;

    const SEED: u32 = 17;
    pub(crate) const ROUNDS: u32 = 3;
    pub(crate) const SCALE: f32 = 0.5;

    #[derive(Clone, Copy)]
    pub(crate) struct Range<T> {
        pub(crate) low: T,
        pub(crate) high: T,
    }

    #[derive(Clone, Copy, DeviceCopy)]
    #[repr(C)]
    pub(crate) struct Point {
        pub(crate) at: Vec2<f32>,
        pub(crate) id: u32,
    }

    impl<T> Range<T> {
        pub(crate) fn width(self) -> T {
            self.high - self.low
        }
    }

    fn mix(x: u32) -> u32 {
        (x ^ SEED).wrapping_mul(2654435761)
    }

    pub(crate) fn hash(x: u32) -> u32 {
        let mut h = x;
        for _ in 0..ROUNDS {
            h = mix(h);
        }
        h
    }
}

/// Uses it, and hands it on.
#[windlass::kernels]
mod layers {
    #[kernels]
    pub(crate) use super::noise::*;

    pub(crate) fn layered<const N: usize>(x: u32) -> [u32; N] {
        let mut out = [0; N];
        for k in 0..N {
            out[k] = hash(x + k);
        }
        out
    }
}

#[windlass::kernels]
mod scene {
    #[kernels]
    use super::layers::*;
    #[kernels]
    use crate::shared::noise::*;

    const SEED: u32 = 5;

    /// Of the same name as one of the other module's own, which keeps that.
    fn mix(x: u32) -> u32 {
        x + SEED
    }

    #[kernel]
    pub(crate) fn points(points: &mut [Point], out: &mut [u32]) {
        let i = global_id(0);
        let range = Range { low: i, high: mix(i) * 3 };
        let layers = layered::<2>(i);
        points[i].at = points[i].at * SCALE;
        points[i].id = hash(i);
        out[i] = layers[0] ^ layers[1].rotate_left(3) ^ range.width();
    }
}

#[test]
fn modules_use_each_other() {
    let hash = |x: u32| (0..3).fold(x, |h, _| (h ^ 17).wrapping_mul(2654435761));
    let out = |i: u32| hash(i) ^ hash(i + 1).rotate_left(3) ^ ((i + 5) * 3 - i);
    let expected: Vec<u32> = (0..20).flat_map(|i| [out(i), hash(i), (i as f32 * 0.5).to_bits()]).collect();
    everywhere(&expected, |queue| {
        let all = (0..20).map(|i| noise::Point { at: Vec2::new(i as f32, 1.0), id: 0 });
        let (all, out) = (Buffer::from(all.collect::<Vec<_>>()), Buffer::<u32>::new(20));
        queue.submit(|cg| cg.parallel_for(20, scene::points(cg.read_write(&all), cg.overwrite(&out))))?;
        let all = read(&all)?;
        Ok(read(&out)?.iter().zip(all).flat_map(|(o, p)| [*o, p.id, p.at.x.to_bits()]).collect())
    });
}

fn values() -> Vec<f32> {
    (0..40).map(|i| (i % 9) as f32 * 0.25 - 1.0).collect()
}

#[test]
fn generic_helpers_are_made_for_each_of_their_types() {
    let (x, n) = (values(), (0..40).collect::<Vec<u32>>());
    let one = |i: usize| {
        let three = [x[i], x.get(i + 1).copied().unwrap_or(-1.0), x[39]];
        let five: f32 = [x[i]; 5].iter().fold(0.5, |sum, x| sum + x);
        let most = (three[0] + three[1] + three[2]).max(x[i] * 2.0);
        let both = [7 + 1, n[i] + 2];
        let count = (both[0] + both[1]) * 100 + both[0].max(both[1]) + 16 + n[i];
        (most + 0.875 + five, count)
    };
    let (floats, counts): (Vec<f32>, Vec<u32>) = (0..40).map(one).unzip();
    let expected: Vec<u32> = floats.iter().map(|x| x.to_bits()).chain(counts).collect();
    everywhere(&expected, |queue| {
        let (x, n) = (Buffer::from(x.clone()), Buffer::from(n.clone()));
        let (out, counts) = (Buffer::<f32>::new(40), Buffer::<u32>::new(40));
        queue.submit(|cg| {
            let call = numbers::generic(cg.read(&x), cg.read(&n), cg.overwrite(&out), cg.overwrite(&counts));
            cg.parallel_for(40, call)
        })?;
        Ok(read(&out)?.iter().map(|x| x.to_bits()).chain(read(&counts)?).collect())
    });
}

#[test]
fn methods_and_operators_are_those_of_the_struct() {
    let x = values();
    let one = |x: f32| {
        // All numbers on the way are exact, so that it does not matter whether a driver fuses operations, as Vulkan lets it.
        let (mut re, mut im, c) = (x, 1.0_f32, (0.25_f32, -0.5_f32));
        for _ in 0..2 {
            let square = (re * re - im * im, re * im + im * re);
            let (r, i) = (square.0 + c.0 * 2.0, square.1 + c.1 * 2.0);
            (re, im) = (r + c.0 * 0.5, i + c.1 * 0.5);
        }
        (re, im) = (0.0 - im, re);
        (re, im) = (re + c.0, im + c.1);
        (re, im) = (re + c.0, im + c.1);
        re * re + im * im + re
    };
    let expected: Vec<u32> = x.iter().map(|x| one(*x).to_bits()).collect();
    everywhere(&expected, |queue| {
        let (x, out) = (Buffer::from(x.clone()), Buffer::<f32>::new(40));
        queue.submit(|cg| cg.parallel_for(40, numbers::complex(cg.read(&x), cg.overwrite(&out))))?;
        Ok(read(&out)?.iter().map(|x| x.to_bits()).collect())
    });
}

#[test]
fn lengths_are_parameters_too() {
    let x = values();
    let one = |x: f32| (x + x + 4.0) + (3.0 + x * x + 8.0) * 10.0;
    let expected: Vec<u32> = x.iter().map(|x| one(*x).to_bits()).collect();
    everywhere(&expected, |queue| {
        let (x, out) = (Buffer::from(x.clone()), Buffer::<f32>::new(40));
        queue.submit(|cg| cg.parallel_for(40, numbers::matrices(cg.read(&x), cg.overwrite(&out))))?;
        Ok(read(&out)?.iter().map(|x| x.to_bits()).collect())
    });
}

/// Names that languages of devices have as well, or that the attribute gives to its own functions.
#[windlass::kernels]
#[allow(non_camel_case_types, non_snake_case, reason = "other languages have such names")]
mod odd_names {
    #[derive(Clone, Copy)]
    struct atomic_int {
        FLT_EPSILON: u32,
        MAXFLOAT: u32,
    }

    #[derive(Clone, Copy)]
    struct Pair<A, B> {
        a: A,
        b: B,
    }

    /// Of a pair and another one what stands outside.
    impl<A, B, C> Mul<Pair<B, C>> for Pair<A, B> {
        type Output = Pair<A, C>;
        fn mul(self, other: Pair<B, C>) -> Pair<A, C> {
            Pair { a: self.a, b: other.b }
        }
    }

    fn get(m: &[u32], i: u32) -> u32 {
        m[i]
    }

    fn set(m: &mut [u32], i: u32, value: u32) {
        m[i] = value;
    }

    fn get_global_id(x: u32) -> u32 {
        x + 1
    }

    fn convert_int(x: u32) -> u32 {
        x * 2
    }

    fn fetch_add_count(x: u32) -> u32 {
        x + 3
    }

    #[kernel]
    pub(crate) fn abs_diff(CHAR_BIT: &[u32], m: &mut [u32], count: &[AtomicU32]) {
        let i = global_id(0);
        let get_local_id = atomic_int { FLT_EPSILON: CHAR_BIT[i], MAXFLOAT: get(CHAR_BIT, i + 1) };
        let as_float = get_global_id(get_local_id.FLT_EPSILON) + convert_int(get_local_id.MAXFLOAT);
        let pair = Pair { a: as_float, b: 1.5_f32 } * Pair { a: 2.5, b: i };
        set(m, i, pair.a + pair.b);
        m[i] = get(m, i) + fetch_add_count(0);
        count[0].fetch_add(1, Relaxed);
    }
}

#[test]
fn names_are_the_authors_own() {
    let x: Vec<u32> = (0..20).map(|i| i * i).collect();
    let next = |i: usize| x.get(i + 1).copied().unwrap_or(0);
    let one = |i: usize| x[i] + 1 + next(i) * 2 + i as u32 + 3;
    let expected: Vec<u32> = (0..20).map(one).chain([20]).collect();
    everywhere(&expected, |queue| {
        let (x, m, count) = (Buffer::from(x.clone()), Buffer::<u32>::new(20), Buffer::<u32>::new(1));
        queue.submit(|cg| {
            let call = odd_names::abs_diff(cg.read(&x), cg.read_write(&m), cg.atomic(&count));
            cg.parallel_for(20, call)
        })?;
        Ok(read(&m)?.into_iter().chain(read(&count)?).collect())
    });
}

#[windlass::kernels]
mod tuples {
    use windlass::prelude::*;

    const STEPS: [(i32, u32); 3] = [(-1, 2), (0, 5), (1, 11)];

    #[derive(Clone, Copy)]
    struct Span {
        from: u32,
        to: u32,
        ends: (u32, f32),
    }

    fn divided(a: u32, b: u32) -> (u32, u32) {
        (a / b, a % b)
    }

    fn sorted<T: PartialOrd>(a: T, b: T) -> (T, T) {
        if a < b { (a, b) } else { (b, a) }
    }

    fn first<A, B>(pair: (A, B)) -> A {
        let (a, _) = pair;
        a
    }

    #[kernel]
    pub(crate) fn taken_apart(x: &[u32], out: &mut [u32], floats: &mut [f32]) {
        let i = global_id(0);
        let (quotient, rest) = divided(x[i], 7);
        let (low, high) = sorted(quotient, rest);
        let (mut a, mut b) = (low, high * 3);
        (a, b) = (b, a);
        let mut pair = (a, b as f32 * 0.5);
        pair.0 += 1;
        (pair.1, _) = sorted(pair.1, 2.5);
        for (d, weight) in STEPS {
            out[i] += x[i as i32 + d] * weight;
        }
        let span = Span { from: a, to: b, ends: pair };
        let Span { from, to: end, .. } = span;
        let [(p, q), (r, _)] = [divided(from, 3), (end, 1)];
        out[i] += first((from, 1.5)) * 100 + p + q + r;
        floats[i] = span.ends.1 + pair.1;
    }
}

#[test]
fn tuples_are_made_and_taken_apart() {
    let x: Vec<u32> = (0..40).map(|i| i * 17 % 53).collect();
    let one = |i: usize| {
        let (quotient, rest) = (x[i] / 7, x[i] % 7);
        let (low, high) = (quotient.min(rest), quotient.max(rest));
        let (a, b) = (high * 3, low);
        let lower = (b as f32 * 0.5).min(2.5);
        let near = |d: i32| usize::try_from(i as i32 + d).ok().and_then(|i| x.get(i)).copied().unwrap_or(0);
        let sum = near(-1) * 2 + near(0) * 5 + near(1) * 11;
        (sum + a * 100 + parts(a, b), lower + lower)
    };
    fn parts(a: u32, b: u32) -> u32 {
        a / 3 + b + a % 3
    }
    let (ints, floats): (Vec<u32>, Vec<f32>) = (0..40).map(one).unzip();
    let expected: Vec<u32> = ints.into_iter().chain(floats.iter().map(|x| x.to_bits())).collect();
    everywhere(&expected, |queue| {
        let (x, out, floats) = (Buffer::from(x.clone()), Buffer::<u32>::new(40), Buffer::<f32>::new(40));
        queue.submit(|cg| {
            let call = tuples::taken_apart(cg.read(&x), cg.read_write(&out), cg.overwrite(&floats));
            cg.parallel_for(40, call)
        })?;
        Ok(read(&out)?.into_iter().chain(read(&floats)?.iter().map(|x| x.to_bits())).collect())
    });
}
