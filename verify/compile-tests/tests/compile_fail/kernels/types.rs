//! Types that kernels do not have.
#[windlass::kernel]
fn size(n: usize, out: &mut [u32]) {
    out[0] = 1;
}

#[windlass::kernel]
fn bytes(x: &[u128], out: &mut [u32]) {
    out[0] = 1;
}

#[windlass::kernel]
fn flags(x: &[bool], out: &mut [u32]) {
    out[0] = 1;
}

#[windlass::kernel]
fn text(name: &str, out: &mut [u32]) {
    out[0] = 1;
}

#[windlass::kernel]
fn option(x: &[Option<u32>], out: &mut [u32]) {
    out[0] = 1;
}

#[windlass::kernel]
fn result(x: Result<u32, u32>, out: &mut [u32]) {
    out[0] = 1;
}

#[windlass::kernel]
fn unknown(x: &[Particle], out: &mut [u32]) {
    out[0] = 1;
}

#[windlass::kernel]
fn pointer(x: *const u32, out: &mut [u32]) {
    out[0] = 1;
}

#[windlass::kernel]
fn vector_of_nothing(x: Vec3, out: &mut [u32]) {
    out[0] = 1;
}

#[windlass::kernel]
fn view_without_dimensions(x: &View<f32>, out: &mut [u32]) {
    out[0] = 1;
}

fn main() {}
