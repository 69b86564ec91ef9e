//! What `debug!` does not say.

#[windlass::kernel]
fn wide(x: &[f64]) {
    debug!("{}", x[0]);
}

#[windlass::kernel]
fn whole(x: &[u32]) {
    debug!("{:?}", [x[0]; 4]);
}

#[windlass::kernel]
fn unknown(x: &[u32]) {
    debug!("{} {missing}", x[0]);
}

#[windlass::kernel]
fn plain(x: &[u32]) {
    debug!(x[0]);
}

#[windlass::kernel]
fn too_few(x: &[u32]) {
    debug!("{} {}", x[0]);
}

#[windlass::kernels]
mod combining {
    fn larger(a: u32, b: u32) -> u32 {
        debug!("{a} and {b}");
        if a > b { a } else { b }
    }

    #[kernel]
    pub fn largest(x: &[u32], #[reduce(larger, identity = 0)] all: &mut u32) {
        *all = larger(*all, x[global_id(0)]);
    }
}

fn main() {}
