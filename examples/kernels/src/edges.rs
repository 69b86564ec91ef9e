//! The edges of a picture: smoothed by a Gaussian along rows and along columns, and then Sobel's gradients.

use windlass::prelude::*;

use crate::Report;

const WIDTH: usize = 96;
const HEIGHT: usize = 64;
/// How wide the Gaussian is.
const SIGMA: f32 = 1.2;

#[windlass::kernels]
mod kernels {
    use windlass::prelude::*;

    /// How far the Gaussian reaches to each side.
    const REACH: usize = 3;
    /// Its weights: of the place itself, and of those to either side.
    pub const WEIGHTS: usize = REACH + 1;

    /// A place of a picture.
    #[derive(Clone, Copy)]
    struct Place {
        row: i32,
        column: i32,
    }

    impl Place {
        fn here() -> Self {
            Place { row: global_id(0) as i32, column: global_id(1) as i32 }
        }

        /// What the picture has there. Beyond its border it goes on as it is at the border, so that the border is no edge.
        fn of(self, picture: &View<f32, 2>) -> f32 {
            let row = self.row.clamp(0, picture.extent(0) as i32 - 1);
            let column = self.column.clamp(0, picture.extent(1) as i32 - 1);
            picture[row][column]
        }
    }

    impl Add for Place {
        type Output = Place;
        fn add(self, other: Place) -> Place {
            Place { row: self.row + other.row, column: self.column + other.column }
        }
    }

    impl Mul<i32> for Place {
        type Output = Place;
        fn mul(self, times: i32) -> Place {
            Place { row: self.row * times, column: self.column * times }
        }
    }

    /// Smooth in one direction, by the weights of a place itself and of those to both sides.
    fn smooth(picture: &View<f32, 2>, step: Place, weights: [f32; WEIGHTS]) -> f32 {
        let here = Place::here();
        let mut sum = weights[0] * here.of(picture);
        for k in 1..=REACH {
            let by = step * k as i32;
            sum += weights[k] * ((here + by).of(picture) + (here + by * -1).of(picture));
        }
        sum
    }

    #[kernel]
    pub fn smooth_rows(weights: [f32; WEIGHTS], from: &View<f32, 2>, to: &mut View<f32, 2>) {
        to[global_id(0)][global_id(1)] = smooth(from, Place { row: 0, column: 1 }, weights);
    }

    #[kernel]
    pub fn smooth_columns(weights: [f32; WEIGHTS], from: &View<f32, 2>, to: &mut View<f32, 2>) {
        to[global_id(0)][global_id(1)] = smooth(from, Place { row: 1, column: 0 }, weights);
    }

    /// Sobel's weights across an edge from left to right; turned, they are those across one from top to bottom.
    const ACROSS: [[f32; 3]; 3] = [[-1.0, 0.0, 1.0], [-2.0, 0.0, 2.0], [-1.0, 0.0, 1.0]];

    #[kernel]
    pub fn edges(picture: &View<f32, 2>, out: &mut View<f32, 2>) {
        let here = Place::here();
        let mut gradient = Vec2::splat(0.0);
        for row in 0..3 {
            for column in 0..3 {
                let there = here + Place { row: row as i32 - 1, column: column as i32 - 1 };
                gradient += Vec2::new(ACROSS[row][column], ACROSS[column][row]) * there.of(picture);
            }
        }
        out[global_id(0)][global_id(1)] = gradient.length();
    }
}

/// A ring, a disc and bars.
fn draw() -> Vec<f32> {
    let from =
        |at: usize, row: f32, column: f32| ((at / WIDTH) as f32 - row).hypot((at % WIDTH) as f32 - column);
    let shade = |at: usize| {
        let (row, column) = (at / WIDTH, at % WIDTH);
        let is_bar = (62..90).contains(&column) && (8..56).contains(&row) && column / 7 % 2 == 0;
        match () {
            () if from(at, 24.0, 24.0) < 9.0 => 0.5,
            () if from(at, 24.0, 24.0) < 18.0 => 1.0,
            () if from(at, 52.0, 46.0) < 9.0 => 0.8,
            () if is_bar => 0.9,
            () => 0.1,
        }
    };
    (0..WIDTH * HEIGHT).map(shade).collect()
}

/// The upper half of a Gaussian, which makes 1 together with the other one.
fn weights() -> [f32; kernels::WEIGHTS] {
    let bell: [f32; kernels::WEIGHTS] =
        std::array::from_fn(|k| (-((k * k) as f32) / (2.0 * SIGMA * SIGMA)).exp());
    let all = 2.0 * bell.iter().sum::<f32>() - bell[0];
    bell.map(|weight| weight / all)
}

fn plain(picture: &[f32], weights: &[f32]) -> Vec<f32> {
    let at = |picture: &[f32], row: isize, column: isize| {
        let (row, column) = (row.clamp(0, HEIGHT as isize - 1), column.clamp(0, WIDTH as isize - 1));
        picture[row as usize * WIDTH + column as usize]
    };
    let all = |picture: &[f32], value: &dyn Fn(&[f32], isize, isize) -> f32| -> Vec<f32> {
        (0..picture.len()).map(|i| value(picture, (i / WIDTH) as isize, (i % WIDTH) as isize)).collect()
    };
    let reach = 1 - (kernels::WEIGHTS as isize)..kernels::WEIGHTS as isize;
    let rows = all(picture, &|x, row, column| {
        reach.clone().map(|k| weights[k.unsigned_abs()] * at(x, row, column + k)).sum()
    });
    let smooth = all(&rows, &|x, row, column| {
        reach.clone().map(|k| weights[k.unsigned_abs()] * at(x, row + k, column)).sum()
    });
    all(&smooth, &|x, row, column| {
        let [across, along] = [(0, 1), (1, 0)].map(|(down, right)| {
            let side = |k: isize| {
                at(x, row + k * down + right, column + k * right + down)
                    - at(x, row + k * down - right, column + k * right - down)
            };
            side(-1) + 2.0 * side(0) + side(1)
        });
        across.hypot(along)
    })
}

pub(crate) fn run(queue: &Queue) -> windlass::Result<Report> {
    let shape = [HEIGHT, WIDTH];
    let (drawn, weights) = (draw(), weights());
    let picture = Buffer::with_shape(shape, drawn.clone())?;
    let (rows, smooth, out) = (Buffer::new(shape), Buffer::new(shape), Buffer::new(shape));
    queue.submit(|cg| {
        cg.parallel_for(shape, kernels::smooth_rows(weights, cg.read(&picture), cg.overwrite(&rows)))
    })?;
    queue.submit(|cg| {
        cg.parallel_for(shape, kernels::smooth_columns(weights, cg.read(&rows), cg.overwrite(&smooth)))
    })?;
    queue.submit(|cg| cg.parallel_for(shape, kernels::edges(cg.read(&smooth), cg.overwrite(&out))))?;
    let found = out.host_read().blocking_wait()?.to_vec();
    let shades: Vec<f32> = found.iter().map(|edge| edge / 2.5).collect();
    Ok(Report::picture(&shades, WIDTH).near("edges", &found, &plain(&drawn, &weights), 1e-4))
}
