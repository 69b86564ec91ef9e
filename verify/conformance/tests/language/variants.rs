//! `Option`s, enums with data, and what a launch takes apart.

use windlass::prelude::*;

use crate::everywhere::{everywhere, read};

#[windlass::kernels]
mod variants {
    use windlass::prelude::*;

    #[derive(Clone, Copy, Debug, PartialEq)]
    pub(crate) enum Shape {
        Nothing,
        Circle(f32),
        Box { width: f32, height: f32 },
        Of(Side, u32),
    }

    #[derive(Clone, Copy, Debug, PartialEq)]
    pub(crate) enum Side {
        Left,
        Right = 7,
    }

    #[derive(Clone, Copy)]
    pub(crate) struct Scene {
        pub(crate) side: Side,
        pub(crate) first: Option<Shape>,
        pub(crate) weights: (f32, Vec2<u32>),
    }

    #[derive(Clone, Copy)]
    struct Range<T> {
        low: Option<T>,
        high: T,
    }

    pub(crate) const UNIT: Shape = Shape::Box { width: 1.0, height: 1.0 };
    const LIMIT: Option<u32> = Some(40);
    const FOUND: [Option<u32>; 3] = [None, first_square(10), first_square(200)];

    const fn first_square(from: u32) -> Option<u32> {
        for i in 0..15_u32 {
            if i * i >= from {
                return Some(i * i);
            }
        }
        None
    }

    impl Shape {
        fn area(self) -> f32 {
            match self {
                Shape::Nothing => 0.0,
                Self::Circle(radius) => 3.0 * radius * radius,
                Shape::Box { width, height: h } => width * h,
                Shape::Of(side, n) => match side {
                    Side::Left => n as f32,
                    Side::Right => -(n as f32),
                },
            }
        }

        fn larger(&self) -> Option<Shape> {
            match self {
                Shape::Circle(radius) => Some(Shape::Circle(radius + 1.0)),
                Shape::Box { width, .. } => Some(Shape::Box { height: 2.0, width: width * 2.0 }),
                _ => None,
            }
        }

        fn grow(&mut self, by: f32) {
            if let Shape::Circle(radius) = self {
                *self = Shape::Circle(radius + by);
            }
        }
    }

    fn even(x: u32) -> Option<u32> {
        if x % 2 == 0 { Some(x) } else { None }
    }

    fn quarter(x: u32) -> Option<u32> {
        let half = even(x)? / 2;
        Some(even(half)? / 2)
    }

    fn or_other<T>(value: Option<T>, other: T) -> T {
        match value {
            Some(value) => value,
            None => other,
        }
    }

    fn spread<T>(range: Range<T>) -> T {
        range.high - range.low.unwrap_or(range.high)
    }

    #[kernel]
    pub(crate) fn options(limit: Option<u32>, x: &[u32], out: &mut [u32]) {
        let i = global_id(0);
        let mut sum = or_other(quarter(x[i]), 1000) + or_other(None, 1) + or_other(Some(i), 0);
        let Some(most) = limit.or(LIMIT) else {
            out[i] = u32::MAX;
            return;
        };
        let mut left = even(x[i]);
        while let Some(value) = left {
            sum += 3;
            if value > most {
                break;
            }
            left = quarter(value * 4 + i % 2);
            if sum > 2000 {
                left = None;
            }
        }
        let kept = [left, Some(i), None];
        for k in 0..4_u32 {
            if let Some(value) = kept[k] {
                sum += value * 7;
            } else if let None = kept[k] {
                sum += 100_000;
            }
        }
        if limit.is_none() && left.is_some() {
            sum += 5_000_000;
        }
        let range = Range { low: FOUND[i % 3], high: sum };
        out[i] = spread(range) + FOUND[i % 3].unwrap_or_default() * 3;
    }

    #[kernel]
    pub(crate) fn areas(shape: Shape, scene: Scene, pair: (bool, [Side; 2]), x: &[f32], out: &mut [f32]) {
        let i = global_id(0);
        let mut own = match i % 4 {
            0 => shape,
            1 => Shape::Circle(x[i]),
            2 => Shape::Of(scene.side, i),
            _ => Shape::Box { width: x[i], height: scene.weights.0 },
        };
        own.grow(2.0);
        let larger = match own.larger() {
            Some(shape) => shape,
            None => UNIT,
        };
        let first = match scene.first {
            Some(first) => first.area(),
            None => -1.0,
        };
        let which = match larger {
            Shape::Circle(_) | Shape::Nothing => 1.0,
            Shape::Box { height, .. } => height,
            other => other.area(),
        };
        let mut sum = own.area() + larger.area() * 100.0 + first * 10_000.0 + which;
        if pair.0 && pair.1[i % 2] == Side::Right {
            sum += (scene.weights.1.x + scene.weights.1.y) as f32;
        }
        out[i] = sum;
    }
}

use variants::{Scene, Shape, Side};

fn quarter(x: u32) -> Option<u32> {
    x.is_multiple_of(4).then_some(x / 4)
}

fn sums(limit: Option<u32>, x: &[u32]) -> Vec<u32> {
    let found = [None, Some(16), None];
    let one = |(i, x): (u32, u32)| {
        let mut sum = quarter(x).unwrap_or(1000) + 1 + i;
        let most = limit.unwrap_or(40);
        let mut left = x.is_multiple_of(2).then_some(x);
        while let Some(value) = left {
            sum += 3;
            if value > most {
                break;
            }
            left = quarter(value * 4 + i % 2).filter(|_| sum <= 2000);
        }
        sum += 7 * i + left.map_or(100_000, |value| value * 7) + 200_000;
        if limit.is_none() && left.is_some() {
            sum += 5_000_000;
        }
        let found: Option<u32> = found[i as usize % 3];
        sum - found.unwrap_or(sum) + found.unwrap_or_default() * 3
    };
    (0..).zip(x.iter().copied()).map(one).collect()
}

#[test]
fn options_are_taken_apart() {
    let x: Vec<u32> = (0..40).map(|i| i * 3 % 64).collect();
    for limit in [None, Some(12), Some(0)] {
        everywhere(&sums(limit, &x), |queue| {
            let (x, out) = (Buffer::from(x.clone()), Buffer::<u32>::new(40));
            queue.submit(|cg| {
                cg.parallel_for(40, variants::options(limit, cg.read(&x), cg.overwrite(&out)))
            })?;
            read(&out)
        });
    }
}

fn area(shape: Shape) -> f32 {
    match shape {
        Shape::Nothing => 0.0,
        Shape::Circle(radius) => 3.0 * radius * radius,
        Shape::Box { width, height } => width * height,
        Shape::Of(Side::Left, n) => n as f32,
        Shape::Of(Side::Right, n) => -(n as f32),
    }
}

#[test]
fn enums_hold_data() {
    let x: Vec<f32> = (0..24).map(|i| i as f32 * 0.5).collect();
    let shapes = [Shape::Nothing, Shape::Circle(2.0), variants::UNIT, Shape::Of(Side::Right, 9)];
    for (shape, first) in
        shapes.into_iter().zip([None, Some(shapes[1]), Some(shapes[3]), Some(Shape::Nothing)])
    {
        let scene = Scene { side: Side::Right, first, weights: (4.0, Vec2::new(1, 1 << 14)) };
        let pair = (shape != Shape::Nothing, [Side::Left, Side::Right]);
        let one = |i: usize| {
            let mut own = match i % 4 {
                0 => shape,
                1 => Shape::Circle(x[i]),
                2 => Shape::Of(scene.side, i as u32),
                _ => Shape::Box { width: x[i], height: 4.0 },
            };
            if let Shape::Circle(radius) = &mut own {
                *radius += 2.0;
            }
            let (larger, which) = match own {
                Shape::Circle(radius) => (Shape::Circle(radius + 1.0), 1.0),
                Shape::Box { width, .. } => (Shape::Box { width: width * 2.0, height: 2.0 }, 2.0),
                _ => (variants::UNIT, 1.0),
            };
            let mut sum = area(own) + area(larger) * 100.0 + first.map_or(-1.0, area) * 10_000.0 + which;
            if pair.0 && i % 2 == 1 {
                sum += 16385.0;
            }
            sum
        };
        let expected: Vec<f32> = (0..24).map(one).collect();
        everywhere(&expected, |queue| {
            let (x, out) = (Buffer::from(x.clone()), Buffer::<f32>::new(24));
            queue.submit(|cg| {
                cg.parallel_for(24, variants::areas(shape, scene, pair, cg.read(&x), cg.overwrite(&out)))
            })?;
            read(&out)
        });
    }
}
