//! A map becomes a globe, which is written to a file as a picture: images, samplers, and the crate `image`.

use windlass::prelude::*;
use windlass::texel::{Addressing, Filter, R8Unorm, Rgba8Unorm};

const SIZE: usize = 320;

#[windlass::kernels]
mod kernels {
    use windlass::prelude::*;

    const PI: f32 = std::f32::consts::PI;

    /// A ball in the middle of the picture, lit from the upper left, with a map around it.
    #[kernel]
    pub fn globe(map: &Image<Rgba8Unorm>, around: Sampler, turned: f32, picture: &mut Image<Rgba8Unorm>) {
        let at = Vec2::new(global_id(1), global_id(0));
        let half = picture.width() as f32 / 2.0;
        let x = (at.x as f32 + 0.5) / half - 1.0;
        let y = (at.y as f32 + 0.5) / half - 1.0;
        let depth = 1.0 - (x * x + y * y) / 0.81;
        if depth < 0.0 {
            picture.store(at, Vec4::new(0.02, 0.02, 0.06, 1.0));
            return;
        }
        let out = Vec3::new(x / 0.9, y / 0.9, depth.sqrt());
        // West goes on in the east, so the map repeats itself.
        let place = Vec2::new(out.x.atan2(out.z) / (2.0 * PI) + turned, 0.5 + out.y.asin() / PI);
        let light = out.dot(Vec3::new(-0.5, -0.5, 0.7)).max(0.08);
        let color = map.sample(around, place) * light;
        picture.store(at, Vec4::new(color.x, color.y, color.z, 1.0));
    }

    /// How bright a picture is, at a quarter of its size.
    #[kernel]
    pub fn brightness(picture: &Image<Rgba8Unorm>, smooth: Sampler, small: &mut Image<R8Unorm>) {
        let at = Vec2::new(global_id(1), global_id(0));
        // Between four texels a sample is their mean.
        let middle = Vec2::new(4.0 * at.x as f32 + 2.0, 4.0 * at.y as f32 + 2.0);
        let color = picture.sample(smooth, middle);
        small.store(at, Vec4::splat(0.3 * color.x + 0.6 * color.y + 0.1 * color.z));
    }
}

/// Seas, and land with a grid of twelve by eight fields.
fn map() -> image::RgbaImage {
    image::RgbaImage::from_fn(360, 180, |x, y| {
        let wave = (x as f32 / 29.0).sin() * (y as f32 / 17.0).cos() + (x as f32 / 57.3).cos() * 0.6;
        let is_line = x % 30 < 2 || y % 22 < 2;
        image::Rgba(match () {
            () if is_line => [235, 235, 220, 255],
            () if wave > 0.25 => [60, 150, 70, 255],
            () => [40, 90, 200, 255],
        })
    })
}

#[tokio::main]
async fn main() -> windlass::Result<()> {
    let queue = Queue::new().await?;
    println!("on {}", queue.device());
    let map = Image::<Rgba8Unorm>::from_picture(map())?;
    let globe = Image::<Rgba8Unorm>::new([SIZE, SIZE])?;
    let small = Image::<R8Unorm>::new([SIZE / 4, SIZE / 4])?;
    let around = Sampler::new().filter(Filter::Linear).addressing(Addressing::Repeat);
    let smooth = Sampler::new().filter(Filter::Linear).by_texels();
    queue.submit(|cg| {
        let call = kernels::globe(cg.read(&map), around, 0.2, cg.overwrite(&globe));
        cg.parallel_for([SIZE, SIZE], call)
    })?;
    queue.submit(|cg| {
        let call = kernels::brightness(cg.read(&globe), smooth, cg.overwrite(&small));
        cg.parallel_for([SIZE / 4, SIZE / 4], call)
    })?;

    let shades = small.to_picture().await?;
    for row in shades.rows().step_by(4) {
        let shade = |pixel: &image::Luma<u8>| char::from(b" .:-=+*#%@"[usize::from(pixel.0[0]) * 10 / 256]);
        let line: String = row.step_by(2).map(shade).collect();
        println!("{}", line.trim_end());
    }
    let picture = globe.to_picture().await?;
    assert_eq!(picture.get_pixel(0, 0).0, [5, 5, 15, 255], "around the globe it is dark");
    let [left, right] =
        [80, 240].map(|x| picture.get_pixel(x, 120).0.into_iter().take(3).map(u32::from).sum::<u32>());
    assert!(left > right, "the light comes from the left: {left} and {right}");
    let file = std::env::args().nth(1).map_or_else(|| std::env::temp_dir().join("globe.png"), Into::into);
    match picture.save(&file) {
        Ok(()) => println!("the picture is in {}", file.display()),
        Err(error) => println!("no picture in {}: {error}", file.display()),
    }
    Ok(())
}
