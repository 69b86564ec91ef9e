//! Attributes that a `let` does not have.

#[windlass::kernel]
fn sums(x: &[f32], out: &mut [f32]) {
    #[local]
    let mut tile = [0.0; 64];
    #[allow(unused_mut, reason = "lints are the program's own")]
    let mut at = local_id(0);
    #[reduce(+)]
    let sum = x[at];
    tile[at] = sum;
    barrier();
    out[group_id(0)] = tile[0];
}

fn main() {}
