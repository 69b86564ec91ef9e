//! Functions that are no kernels.
#[windlass::kernel]
async fn waits(out: &mut [u32]) {
    out[0] = 1;
}

#[windlass::kernel]
unsafe fn promises(out: &mut [u32]) {
    out[0] = 1;
}

#[windlass::kernel]
fn generic<T>(out: &mut [T]) {
    out[0] = out[1];
}

#[windlass::kernel]
fn returns(x: &[u32]) -> u32 {
    x[0]
}

#[windlass::kernel]
fn method(&self, out: &mut [u32]) {
    out[0] = 1;
}

#[windlass::kernel]
fn lifetime(x: &'static [u32], out: &mut [u32]) {
    out[0] = x[0];
}

#[windlass::kernel]
fn destructured([a, b]: [u32; 2], out: &mut [u32]) {
    out[0] = 1;
}

#[windlass::kernel]
struct NoFunction;

#[windlass::kernel(fast)]
fn argument(out: &mut [u32]) {
    out[0] = 1;
}

fn main() {}
