//! Balls that mirror each other over a floor, in the light of one lamp.

use windlass::prelude::*;

use crate::Report;
use kernel_library::rays::Sphere;

const WIDTH: usize = 96;
const HEIGHT: usize = 64;

#[windlass::kernels]
mod kernels {
    #[kernels]
    use kernel_library::rays::*;
    use windlass::prelude::*;

    const MIRRORS: u32 = 3;

    /// How much of a lamp's light comes to a point.
    fn light(at: Vec3<f32>, normal: Vec3<f32>, lamp: Vec3<f32>, spheres: &[Sphere]) -> f32 {
        let to = lamp - at;
        let ray = Ray { from: at, to: to.normalize() };
        let is_dark = first(ray, spheres).distance < to.length();
        let direct = if is_dark { 0.0 } else { normal.dot(ray.to).max(0.0) };
        0.15 + 0.85 * direct
    }

    #[kernel]
    pub fn trace(lamp: Vec3<f32>, spheres: &[Sphere], out: &mut View<f32, 2>) {
        let (row, column) = (global_id(0), global_id(1));
        let x = (column as f32 + 0.5) / out.extent(1) as f32 * 2.0 - 1.0;
        let y = 1.0 - (row as f32 + 0.5) / out.extent(0) as f32 * 2.0;
        let mut ray =
            Ray { from: Vec3::new(0.0, 1.0, -4.0), to: Vec3::new(x * 1.2, y * 0.8 - 0.15, 2.0).normalize() };
        let (mut bright, mut part) = (0.0, 1.0);
        for _ in 0..MIRRORS {
            let hit = first(ray, spheres);
            if hit.distance >= FAR {
                bright += part * (0.5 + 0.5 * ray.to.y);
                break;
            }
            let sphere = spheres[hit.what];
            let lit = light(ray.at(hit.distance), hit.normal, lamp, spheres);
            let color = sphere.color.dot(Vec3::new(0.3, 0.6, 0.1));
            bright += part * (1.0 - sphere.mirror) * color * lit;
            part *= sphere.mirror;
            ray = ray.mirrored(hit);
        }
        out[row][column] = bright;
    }
}

fn scene() -> Vec<Sphere> {
    let ball = |middle: [f32; 3], radius, color: [f32; 3], mirror| Sphere {
        middle: Vec3::new(middle[0], middle[1], middle[2]),
        radius,
        color: Vec3::new(color[0], color[1], color[2]),
        mirror,
    };
    vec![
        // The floor is a very large one.
        ball([0.0, -1000.0, 0.0], 1000.0, [0.5, 0.5, 0.5], 0.1),
        ball([-1.1, 0.8, 0.5], 0.8, [0.9, 0.3, 0.2], 0.3),
        ball([0.7, 0.6, -0.4], 0.6, [0.3, 0.9, 0.4], 0.5),
        ball([1.6, 1.1, 1.8], 1.1, [0.9, 0.9, 0.9], 0.8),
    ]
}

pub(crate) fn run(queue: &Queue) -> windlass::Result<Report> {
    let (spheres, lamp) = (scene(), Vec3::new(-3.0, 5.0, -3.0));
    let out = Buffer::<f32, 2>::new([HEIGHT, WIDTH]);
    let buffer = Buffer::from(spheres.clone());
    queue.submit(|cg| {
        let call = kernels::trace(lamp, cg.read(&buffer), cg.overwrite(&out));
        cg.parallel_for([HEIGHT, WIDTH], call)
    })?;
    let found = out.host_read().blocking_wait()?.to_vec();
    // The same kernel over slices on this thread.
    let mut expected = vec![0.0; WIDTH * HEIGHT];
    let shape = [HEIGHT, WIDTH];
    kernels::trace(lamp, &spheres[..], (&mut expected[..], shape)).run_here(shape)?;
    let mut report = Report::picture(&found, WIDTH);
    // At the edges of balls and shadows a ray meets one thing or another by its last bit.
    let others = found.iter().zip(&expected).filter(|(a, b)| (*a - *b).abs() > 1e-3).count();
    if others > found.len() / 50 {
        report.wrong.push(format!("{others} of {} points differ", found.len()));
    }
    Ok(report)
}
