//! Names that stand for nothing, or for something else.
const OUTSIDE: u32 = 7;

fn outside(x: u32) -> u32 {
    x
}

#[windlass::kernel]
fn constant(out: &mut [u32]) {
    out[0] = OUTSIDE;
}

#[windlass::kernel]
fn function(out: &mut [u32]) {
    out[0] = outside(1);
}

#[windlass::kernel]
fn memory(x: &[u32], out: &mut [u32]) {
    out[0] = x;
}

#[windlass::kernel]
fn read_only(x: &[u32]) {
    x[0] = 1;
}

#[windlass::kernel]
fn immutable(out: &mut [u32]) {
    let k = 1;
    k = 2;
    out[0] = k;
}

#[windlass::kernel]
fn field(v: Vec2<f32>, out: &mut [f32]) {
    out[0] = v.z;
}

#[windlass::kernel]
fn method(x: &[f32], out: &mut [f32]) {
    out[0] = x[0].powi(3);
}

#[windlass::kernel]
fn dimension(out: &mut [u32]) {
    let d = 0;
    out[0] = global_id(d);
}

#[windlass::kernel]
fn infinite(out: &mut [f32]) {
    out[0] = f32::NAN;
}

#[windlass::kernel]
fn view(x: &View<f32, 2>, out: &mut [f32]) {
    out[0] = x[1];
}

#[windlass::kernel]
fn atomic(count: &[AtomicU32]) {
    count[0] += 1;
}

#[windlass::kernel]
fn outside_an_array(out: &mut [u32]) {
    let a = [1, 2, 3];
    out[0] = a[3];
}

fn main() {}
