//! The Mandelbrot set.

use windlass::prelude::*;

use crate::Report;

const WIDTH: usize = 96;
const HEIGHT: usize = 64;
const MOST: u32 = 100;

#[windlass::kernels]
mod kernels {
    #[kernels]
    use kernel_library::numbers::*;

    /// How many steps a point takes to leave the circle of radius 2.
    fn steps(c: Complex<f32>, most: u32) -> u32 {
        let mut z = Complex::new(0.0, 0.0);
        let mut n = 0;
        while n < most && z.norm() <= 4.0 {
            z = z * z + c;
            n += 1;
        }
        n
    }

    #[kernel]
    pub fn mandelbrot(most: u32, out: &mut View<u32, 2>) {
        let (row, column) = (global_id(0), global_id(1));
        let re = (column as f32 + 0.5) / out.extent(1) as f32 * 3.0 - 2.2;
        let im = (row as f32 + 0.5) / out.extent(0) as f32 * 2.4 - 1.2;
        out[row][column] = steps(Complex::new(re, im), most);
    }
}

fn plain() -> Vec<u32> {
    let steps = |at: usize| {
        let re = ((at % WIDTH) as f32 + 0.5) / WIDTH as f32 * 3.0 - 2.2;
        let im = ((at / WIDTH) as f32 + 0.5) / HEIGHT as f32 * 2.4 - 1.2;
        let (mut x, mut y, mut n) = (0.0_f32, 0.0_f32, 0);
        while n < MOST && x * x + y * y <= 4.0 {
            (x, y) = (x * x - y * y + re, x * y + y * x + im);
            n += 1;
        }
        n
    };
    (0..WIDTH * HEIGHT).map(steps).collect()
}

pub(crate) fn run(queue: &Queue) -> windlass::Result<Report> {
    let out = Buffer::<u32, 2>::new([HEIGHT, WIDTH]);
    queue.submit(|cg| cg.parallel_for([HEIGHT, WIDTH], kernels::mandelbrot(MOST, cg.overwrite(&out))))?;
    let found = out.host_read().blocking_wait()?.to_vec();
    let shades: Vec<f32> = found.iter().map(|n| (*n as f32 / MOST as f32).sqrt()).collect();
    let mut report = Report::picture(&shades, WIDTH);
    // At its edge a point's steps hang on the last bit, and a device that rounds otherwise may take some more or less.
    let expected = plain();
    let others = found.iter().zip(&expected).filter(|(a, b)| a != b).count();
    if others > found.len() / 100 {
        report.wrong.push(format!("{others} of {} points differ", found.len()));
    }
    Ok(report)
}
