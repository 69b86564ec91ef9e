//! What an attribute asks of a kernel, and integers of less than 32 bits.

#[windlass::kernel(group = [0])]
fn no_items(out: &mut [u32]) {
    out[global_id(0)] = local_id(0);
}

#[windlass::kernel(group = [1, 2, 3, 4])]
fn four_dimensions(out: &mut [u32]) {
    out[global_id(0)] = local_id(0);
}

#[windlass::kernel(groups = [16])]
fn misspelt(out: &mut [u32]) {
    out[global_id(0)] = local_id(0);
}

#[windlass::kernel(fast)]
fn no_infinities(x: &[f32], out: &mut [f32]) {
    out[global_id(0)] = f32::INFINITY.min(x[0]);
}

#[windlass::kernels(group = [16])]
mod of_all {}

#[windlass::kernel(elementwise)]
fn moved(x: &[u32], out: &mut [u32]) {
    let i = global_id(0);
    out[i] = x[i + 1];
    out[i + 1] = 0;
}

#[windlass::kernel(elementwise)]
fn counted(x: &[u32], counts: &[AtomicU32]) {
    counts[x[global_id(0)]].fetch_add(1, Relaxed);
}

#[windlass::kernels]
mod grouped {
    #[kernel(elementwise, group = [64])]
    pub fn both(out: &mut [u32]) {
        out[global_id(0)] = local_id(0);
    }
}

#[windlass::kernels]
mod small {
    #[kernel]
    pub fn counting(out: &mut [u8]) {
        for i in 0_u8..10 {
            out[global_id(0)] += i;
        }
    }

    #[kernel]
    pub fn mixed(a: u8, b: u16, out: &mut [u16]) {
        out[global_id(0)] = b + a;
        out[global_id(0)] = 70_000;
    }

    #[kernel]
    pub fn built_with(#[spec] a: u8, out: &mut [u8]) {
        out[global_id(0)] = a;
    }
}

fn main() {}
