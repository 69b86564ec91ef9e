//! Kernels for images of single numbers, which do what some of the reference kernels do with buffers.

/// `v = 31 v + k`, texel by texel.
#[windlass::kernel]
pub(crate) fn churn_texels(v: &mut Image<R32Uint>, k: u32) {
    let at = Vec2::new(global_id(1), global_id(0));
    v.store(at, Vec4::splat(v.load(at).x * 31 + k));
}

/// Texels become elements.
#[windlass::kernel]
pub(crate) fn load_texels(from: &Image<R32Uint>, to: &mut View<u32, 2>) {
    let at = Vec2::new(global_id(1), global_id(0));
    to[at.y][at.x] = from.load(at).x;
}

/// Elements become texels.
#[windlass::kernel]
pub(crate) fn store_texels(from: &View<u32, 2>, to: &mut Image<R32Uint>) {
    let at = Vec2::new(global_id(1), global_id(0));
    to.store(at, Vec4::splat(from[at.y][at.x]));
}
