//! Reductions, and values that a kernel is built with.
#[windlass::kernel]
fn no_reference(#[reduce(sum)] total: u32) {
    let _x = total;
}

#[windlass::kernel]
fn narrow(#[reduce(sum)] total: &mut u16) {
    *total += 1;
}

#[windlass::kernel]
fn no_operator(#[reduce] total: &mut u32) {
    *total += 1;
}

#[windlass::kernel]
fn unknown(#[reduce(product, identity = 1)] total: &mut u32) {
    *total += 1;
}

#[windlass::kernel]
fn needless(#[reduce(sum, identity = 1)] total: &mut u32) {
    *total += 1;
}

#[windlass::kernels]
mod operators {
    fn far(a: u32, b: u32) -> u32 {
        a + b + global_id(0)
    }

    fn other(a: u32, b: f32) -> u32 {
        a + b as u32
    }

    #[kernel]
    pub fn positions(#[reduce(far, identity = 0)] total: &mut u32) {
        *total += 1;
    }

    #[kernel]
    pub fn types(#[reduce(other, identity = 0)] total: &mut u32) {
        *total += 1;
    }

    fn longer(a: Vec2<f32>, b: Vec2<f32>) -> Vec2<f32> {
        if a.x > b.x { a } else { b }
    }

    #[kernel]
    pub fn vectors(#[reduce(longer, identity = Vec2::splat(0.0))] longest: &mut Vec2<f32>) {
        *longest = Vec2::splat(1.0);
    }

    fn helper(#[spec] n: u32) -> u32 {
        n
    }

    #[kernel]
    pub fn calls(x: &mut [u32]) {
        x[0] = helper(1);
    }
}

#[windlass::kernel]
fn long(#[spec] n: u64, x: &mut [u64]) {
    x[0] = n;
}

#[windlass::kernel]
fn borrowed(#[spec] n: &[u32], x: &mut [u32]) {
    x[0] = n[0];
}

fn passed<'g>(cg: &mut windlass::CommandGroup<'g>, x: &windlass::Buffer<u32>) {
    let total = cg.overwrite(x);
    let _ = counted(total);
}

#[windlass::kernel]
fn counted(#[reduce(sum)] total: &mut u32) {
    *total += 1;
}

fn main() {}
