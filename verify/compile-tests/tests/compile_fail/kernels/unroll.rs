//! Loops that are not written out.

#[windlass::kernel]
fn unknown(n: u32, out: &mut [u32]) {
    #[unroll]
    for k in 0..n {
        out[k] = k;
    }
}

#[windlass::kernel]
fn long(out: &mut [u32]) {
    #[unroll]
    for k in 0..1000_u32 {
        out[k] = k;
    }
}

#[windlass::kernel]
fn left(out: &mut [u32]) {
    #[unroll]
    for k in 0..4_u32 {
        if out[k] > 3 {
            break;
        }
    }
}

#[windlass::kernel]
fn reversed(out: &mut [u32]) {
    #[unroll]
    while out[0] > 3 {
        out[0] = 0;
    }
}

fn main() {}
