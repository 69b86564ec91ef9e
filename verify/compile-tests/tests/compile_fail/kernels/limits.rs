//! What would be too large or too deep for a device, for a worker's stack, or for a compiler's.

#[windlass::kernel]
fn one_large_array(y: &mut [u32]) {
    let mut a: [u32; 4_000_000] = [0; 4_000_000];
    a[global_id(0)] = 1;
    y[global_id(0)] = a[global_id(0)];
}

#[windlass::kernels]
mod in_sum {
    const TOO_LONG: [u32; 20_000] = [0; 20_000];

    #[derive(Clone, Copy, windlass::DeviceCopy)]
    #[repr(C)]
    pub struct Pair {
        pub first: [f32; 512],
        pub second: [f32; 512],
    }

    fn added(of: Pair) -> f32 {
        of.first[1] + of.second[2]
    }

    #[kernel]
    pub fn twice(y: &mut [f32]) {
        let a = Pair { first: [1.0; 512], second: [2.0; 512] };
        y[0] = added(a);
        y[1] = added(a);
    }

    #[kernel]
    pub fn elements(x: &[Pair], y: &mut [Pair]) {
        let i = global_id(0);
        y[i] = x[i];
        y[i + 1] = x[i + 1];
        y[i + 2] = x[i + 2];
    }
}

#[windlass::kernel]
fn a_long_sum(x: &mut [f32]) {
    x[0] = x[0]
        + x[0] + x[0] + x[0] + x[0] + x[0] + x[0] + x[0] + x[0] + x[0] + x[0]
        + x[0] + x[0] + x[0] + x[0] + x[0] + x[0] + x[0] + x[0] + x[0] + x[0]
        + x[0] + x[0] + x[0] + x[0] + x[0] + x[0] + x[0] + x[0] + x[0] + x[0]
        + x[0] + x[0] + x[0] + x[0] + x[0] + x[0] + x[0] + x[0] + x[0] + x[0]
        + x[0] + x[0] + x[0] + x[0] + x[0] + x[0] + x[0] + x[0] + x[0] + x[0]
        + x[0] + x[0] + x[0] + x[0] + x[0] + x[0] + x[0] + x[0] + x[0] + x[0]
        + x[0] + x[0] + x[0] + x[0] + x[0] + x[0] + x[0] + x[0] + x[0] + x[0]
        + x[0] + x[0] + x[0] + x[0] + x[0] + x[0] + x[0] + x[0] + x[0] + x[0]
        + x[0] + x[0] + x[0] + x[0] + x[0] + x[0] + x[0] + x[0] + x[0] + x[0]
        + x[0] + x[0] + x[0] + x[0] + x[0] + x[0] + x[0] + x[0] + x[0] + x[0];
}

#[windlass::kernel]
fn deep_blocks(x: &mut [f32]) {
    if x[0] > 1.0 { if x[0] > 1.0 { if x[0] > 1.0 { if x[0] > 1.0 { if x[0] > 1.0 {
    if x[0] > 1.0 { if x[0] > 1.0 { if x[0] > 1.0 { if x[0] > 1.0 { if x[0] > 1.0 {
    if x[0] > 1.0 { if x[0] > 1.0 { if x[0] > 1.0 { if x[0] > 1.0 { if x[0] > 1.0 {
    if x[0] > 1.0 { if x[0] > 1.0 { if x[0] > 1.0 { if x[0] > 1.0 { if x[0] > 1.0 {
    if x[0] > 1.0 { if x[0] > 1.0 { if x[0] > 1.0 { if x[0] > 1.0 { if x[0] > 1.0 {
    if x[0] > 1.0 { if x[0] > 1.0 { if x[0] > 1.0 { if x[0] > 1.0 { if x[0] > 1.0 {
    if x[0] > 1.0 { if x[0] > 1.0 { if x[0] > 1.0 { if x[0] > 1.0 { if x[0] > 1.0 {
    if x[0] > 1.0 { if x[0] > 1.0 { if x[0] > 1.0 { if x[0] > 1.0 { if x[0] > 1.0 {
    if x[0] > 1.0 { if x[0] > 1.0 { if x[0] > 1.0 { if x[0] > 1.0 { if x[0] > 1.0 {
    if x[0] > 1.0 { if x[0] > 1.0 { if x[0] > 1.0 { if x[0] > 1.0 { if x[0] > 1.0 {
    if x[0] > 1.0 { if x[0] > 1.0 { if x[0] > 1.0 { if x[0] > 1.0 { if x[0] > 1.0 {
    if x[0] > 1.0 { if x[0] > 1.0 { if x[0] > 1.0 { if x[0] > 1.0 { if x[0] > 1.0 {
    if x[0] > 1.0 { if x[0] > 1.0 { if x[0] > 1.0 { if x[0] > 1.0 { if x[0] > 1.0 {
    if x[0] > 1.0 { if x[0] > 1.0 { if x[0] > 1.0 { if x[0] > 1.0 { if x[0] > 1.0 {
    if x[0] > 1.0 { if x[0] > 1.0 { if x[0] > 1.0 { if x[0] > 1.0 { if x[0] > 1.0 {
    if x[0] > 1.0 { if x[0] > 1.0 { if x[0] > 1.0 { if x[0] > 1.0 { if x[0] > 1.0 {
    if x[0] > 1.0 { if x[0] > 1.0 { if x[0] > 1.0 { if x[0] > 1.0 { if x[0] > 1.0 {
    if x[0] > 1.0 { if x[0] > 1.0 { if x[0] > 1.0 { if x[0] > 1.0 { if x[0] > 1.0 {
    if x[0] > 1.0 { if x[0] > 1.0 { if x[0] > 1.0 { if x[0] > 1.0 { if x[0] > 1.0 {
    if x[0] > 1.0 { if x[0] > 1.0 { if x[0] > 1.0 { if x[0] > 1.0 { if x[0] > 1.0 {
    x[0] = 1.0;
    } } } } } } } } } }
    } } } } } } } } } }
    } } } } } } } } } }
    } } } } } } } } } }
    } } } } } } } } } }
    } } } } } } } } } }
    } } } } } } } } } }
    } } } } } } } } } }
    } } } } } } } } } }
    } } } } } } } } } }
}

#[windlass::kernel]
fn loops_count_twice(x: &mut [f32]) {
    for _ in 0..2 { for _ in 0..2 { for _ in 0..2 { for _ in 0..2 { for _ in 0..2 {
    for _ in 0..2 { for _ in 0..2 { for _ in 0..2 { for _ in 0..2 { for _ in 0..2 {
    for _ in 0..2 { for _ in 0..2 { for _ in 0..2 { for _ in 0..2 { for _ in 0..2 {
    for _ in 0..2 { for _ in 0..2 { for _ in 0..2 { for _ in 0..2 { for _ in 0..2 {
    for _ in 0..2 { for _ in 0..2 { for _ in 0..2 { for _ in 0..2 { for _ in 0..2 {
    for _ in 0..2 { for _ in 0..2 { for _ in 0..2 { for _ in 0..2 { for _ in 0..2 {
    for _ in 0..2 { for _ in 0..2 { for _ in 0..2 { for _ in 0..2 { for _ in 0..2 {
    for _ in 0..2 { for _ in 0..2 { for _ in 0..2 { for _ in 0..2 { for _ in 0..2 {
    for _ in 0..2 { for _ in 0..2 { for _ in 0..2 { for _ in 0..2 { for _ in 0..2 {
    for _ in 0..2 { for _ in 0..2 { for _ in 0..2 { for _ in 0..2 { for _ in 0..2 {
    x[0] = 1.0;
    } } } } } } } } } }
    } } } } } } } } } }
    } } } } } } } } } }
    } } } } } } } } } }
    } } } } } } } } } }
}

// Nothing looks further into this one: it could take the compiler down.
#[windlass::kernel]
fn brackets(x: &mut [f32]) {
    x[0] = (((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((
        (((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((1.0)))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))
        )))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))));
}

fn main() {}
