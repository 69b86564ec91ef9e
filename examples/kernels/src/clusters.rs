//! A picture in few colours: k-means, in which each work-group first sums up its own points in local memory.

use windlass::NdRange;
use windlass::prelude::*;

use crate::Report;
use kernels::COLORS;

const WIDTH: usize = 96;
const HEIGHT: usize = 64;
const GROUP: usize = 64;
const ROUNDS: usize = 12;

#[windlass::kernels]
mod kernels {
    use windlass::prelude::*;

    /// How many colours there are to be.
    pub const COLORS: usize = 5;
    /// Of each colour red, green and blue are summed up, and how many points there are.
    const PARTS: usize = 4;
    pub const SUMS: usize = COLORS * PARTS;

    /// Which of some colours is nearest to this one.
    fn nearest<T>(color: T, colors: &[T]) -> u32 {
        let (mut best, mut least) = (0, f32::MAX);
        for k in 0..colors.len() {
            let distance = color.distance(colors[k]);
            if distance < least {
                least = distance;
                best = k;
            }
        }
        best
    }

    #[kernel]
    pub fn assign(
        picture: &[Vec3<f32>],
        colors: &[Vec3<f32>],
        chosen: &mut [u32],
        sums: &[AtomicF32],
        #[local] own: &[AtomicF32; SUMS],
    ) {
        let (i, l) = (global_id(0), local_id(0));
        let color = picture[i];
        let best = nearest(color, colors);
        chosen[i] = best;
        let parts = [color.x, color.y, color.z, 1.0];
        for k in 0..PARTS {
            own[best as usize * PARTS + k].fetch_add(parts[k], Relaxed);
        }
        barrier();
        // One step into global memory for the whole group.
        if l < SUMS as u32 {
            sums[l].fetch_add(own[l].load(Relaxed), Relaxed);
        }
    }

    /// Each colour goes to the middle of its points. One that has none stays where it is.
    #[kernel]
    pub fn settle(sums: &[f32], colors: &mut [Vec3<f32>]) {
        let k = global_id(0);
        let first = k * PARTS as u32;
        let count = sums[first + 3];
        if count > 0.0 {
            colors[k] = Vec3::new(sums[first], sums[first + 1], sums[first + 2]) / count;
        }
    }
}

/// The sun over the sea, with some noise.
fn draw() -> Vec<Vec3<f32>> {
    let color = |at: usize| {
        let (row, column) = ((at / WIDTH) as f32, (at % WIDTH) as f32);
        let noise = ((at as u32).wrapping_mul(2_654_435_761) >> 16) as f32 / 65_536.0 * 0.08;
        let [red, green, blue] = if (row - 20.0).hypot(column - 66.0) < 11.0 {
            [0.95, 0.8, 0.3]
        } else if row > 40.0 + 6.0 * (column * 0.08).sin() {
            [0.1, 0.45 - 0.004 * row, 0.15]
        } else if row > 34.0 {
            [0.1, 0.25, 0.6]
        } else {
            [0.4 + 0.006 * row, 0.6 + 0.004 * row, 0.85]
        };
        Vec3::new(red + noise, green + noise, blue - noise)
    };
    (0..WIDTH * HEIGHT).map(color).collect()
}

/// Colours from here and there.
fn first_colors(picture: &[Vec3<f32>]) -> Vec<Vec3<f32>> {
    (0..COLORS).map(|k| picture[(2 * k + 1) * picture.len() / (2 * COLORS) + 17 * k]).collect()
}

fn plain(picture: &[Vec3<f32>]) -> Vec<Vec3<f32>> {
    let mut colors = first_colors(picture);
    for _ in 0..ROUNDS {
        let mut sums = vec![(Vec3::splat(0.0), 0.0); COLORS];
        for color in picture {
            let distance = |k: &usize| (*color - colors[*k]).length();
            let nearest = (0..COLORS).min_by(|a, b| distance(a).total_cmp(&distance(b))).unwrap_or_default();
            let (sum, count) = sums[nearest];
            sums[nearest] = (sum + *color, count + 1.0);
        }
        for (color, (sum, count)) in colors.iter_mut().zip(sums) {
            if count > 0.0 {
                *color = sum / count;
            }
        }
    }
    colors
}

fn parts(colors: &[Vec3<f32>]) -> Vec<f32> {
    colors.iter().flat_map(|color| [color.x, color.y, color.z]).collect()
}

pub(crate) fn run(queue: &Queue) -> windlass::Result<Report> {
    let drawn = draw();
    let (picture, colors) = (Buffer::from(drawn.clone()), Buffer::from(first_colors(&drawn)));
    let chosen = Buffer::<u32>::new(drawn.len());
    let sums = Buffer::<f32>::new(kernels::SUMS);
    let range = NdRange { global: [drawn.len()], local: [GROUP] };
    for _ in 0..ROUNDS {
        queue.submit(|cg| cg.fill(&cg.overwrite(&sums), 0.0))?;
        queue.submit(|cg| {
            let (picture, colors) = (cg.read(&picture), cg.read(&colors));
            cg.parallel_for(range, kernels::assign(picture, colors, cg.overwrite(&chosen), cg.atomic(&sums)))
        })?;
        queue
            .submit(|cg| cg.parallel_for(COLORS, kernels::settle(cg.read(&sums), cg.read_write(&colors))))?;
    }
    let (chosen, colors) = (chosen.host_read().blocking_wait()?, colors.host_read().blocking_wait()?);
    // Shades tell them apart better than how bright they are: the darkest is the first.
    let bright = colors.iter().map(|color| Vec3::new(0.3_f32, 0.6, 0.1).dot(*color)).collect::<Vec<f32>>();
    let shades = bright.iter().map(|one| bright.iter().filter(|other| *other < one).count());
    let shades: Vec<f32> = shades.map(|darker| darker as f32 / (COLORS - 1) as f32).collect();
    let shades: Vec<f32> = chosen.iter().map(|k| shades[*k as usize]).collect();
    Ok(Report::picture(&shades, WIDTH).near("colours", &parts(&colors), &parts(&plain(&drawn)), 5e-3))
}
