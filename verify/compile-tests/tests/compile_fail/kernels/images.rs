//! What images do not do: texels are reached by their methods alone, and as their format has them.

#[windlass::kernels]
mod kernels {
    use windlass::prelude::*;

    fn first(x: &View<Rgba8Unorm, 2>) -> Vec4<f32> {
        x[0][0].decode()
    }

    fn middle(x: &Image<Rgba8Unorm>) -> Vec4<f32> {
        x.load(x.size() / 2_u32)
    }

    #[kernel]
    fn run(
        image: &Image<Rgba8Unorm>,
        whole: &Image<R32Uint, 1>,
        sampler: Sampler,
        view: &View<Rgba8Unorm, 2>,
        out: &mut Image<R32Float, 3>,
    ) {
        let here = Vec2::new(global_id(1), global_id(0));
        let inside = image[0][0];
        image.store(here, Vec4::splat(1.0));
        let deep = image.load(Vec3::new(0_u32, 0, 0));
        let fraction = image.load(Vec2::new(0.5, 0.5));
        let between = whole.sample(sampler, 0.5);
        let unsampled = image.sample(Vec2::new(0.5, 0.5));
        out.store(Vec3::splat(0_u32), Vec4::splat(1_u32));
        out.store(Vec3::splat(0_u32), 1.0);
        let depth = image.depth();
        let length = image.len();
        let lent = first(image);
        let seen = middle(view);
        let texel = view.load(here);
    }
}

#[windlass::kernel]
fn unknown(x: &Image<f32>, y: &Image<Rgb8Unorm>, z: &Image<R32Float, 4>, plain: Image<R32Float>) {}

fn main() {}
