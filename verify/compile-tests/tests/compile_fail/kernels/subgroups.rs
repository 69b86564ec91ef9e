//! Sub-groups, and promises.
#[windlass::kernel]
fn apart(x: &[u32], out: &mut [u32]) {
    let i = global_id(0);
    if x[i] > 3 {
        out[i] = subgroup_add(x[i]);
    }
    if i > 3 {
        out[i] = subgroup_add(x[i]);
    }
}

#[windlass::kernel]
fn values(x: &[u64], out: &mut [u64]) {
    out[0] = subgroup_max(x[0]);
}

#[windlass::kernel]
fn lanes(x: &[u32], out: &mut [u32]) {
    out[0] = subgroup_shuffle(x[0]);
    out[1] = subgroup_size(0);
}

#[windlass::kernel]
fn truth(x: &[u32], out: &mut [u32]) {
    if subgroup_any(x[0]) {
        out[0] = 1;
    }
}

#[windlass::kernels]
mod helpers {
    fn sum(x: u32) -> u32 {
        subgroup_add(x)
    }

    unsafe fn careless(x: u32) -> u32 {
        x
    }

    #[kernel]
    pub fn run(out: &mut [u32]) {
        out[global_id(0)] = sum(careless(1));
    }
}

#[windlass::kernel]
unsafe fn promised(out: &mut [u32]) {
    out[global_id(0)] = 1;
}

fn main() {
    promised(&mut [1][..]).run_here(1).unwrap();
}
