//! Types that do not fit.
#[windlass::kernel]
fn mixed(x: &[f32], out: &mut [f32]) {
    let i = global_id(0);
    out[i] = x[i] + i;
}

#[windlass::kernel]
fn index(x: &[f32], k: i64, out: &mut [f32]) {
    out[0] = x[k];
}

#[windlass::kernel]
fn whole(out: &mut [f32]) {
    out[0] = 1;
}

#[windlass::kernel]
fn condition(x: &[u32], out: &mut [u32]) {
    if x[0] {
        out[0] = 1;
    }
}

#[windlass::kernel]
fn truth(x: &[u32], out: &mut [u32]) {
    out[0] = x[0] > 1;
}

#[windlass::kernel]
fn sign(x: &[u32], out: &mut [u32]) {
    out[0] = -x[0];
}

#[windlass::kernel]
fn domain(x: &[u32], out: &mut [u32]) {
    out[0] = x[0].sqrt();
}

#[windlass::kernel]
fn shift(x: &[u32], k: i32, out: &mut [u32]) {
    out[0] = x[0] << k;
}

#[windlass::kernel]
fn to_bool(x: &[u32], out: &mut [u32]) {
    let set = x[0] as bool;
    if set {
        out[0] = 1;
    }
}

#[windlass::kernel]
fn branches(x: &[u32], out: &mut [u32]) {
    out[0] = if x[0] > 1 { 1 } else { 2.5 };
}

#[windlass::kernel]
fn too_large(out: &mut [i32]) {
    out[0] = 3_000_000_000;
}

#[windlass::kernel]
fn compared(x: &[Vec2<f32>], out: &mut [u32]) {
    if x[0] == x[1] {
        out[0] = 1;
    }
}

fn main() {}
