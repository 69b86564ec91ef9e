//! Orders that an operation cannot have, and fences without one.

#[windlass::kernel]
fn loads(a: &[AtomicU32], out: &mut [u32]) {
    out[0] = a[0].load(Release);
}

#[windlass::kernel]
fn stores(a: &[AtomicU32]) {
    a[0].store(1, AcqRel);
}

#[windlass::kernel]
fn adds(a: &[AtomicU32]) {
    a[0].fetch_add(1, Strong);
}

#[windlass::kernel]
fn forgets(a: &[AtomicU32]) {
    a[0].fetch_add(1);
}

#[windlass::kernel]
fn nothing_to_order() {
    fence(Relaxed);
}

#[windlass::kernel]
fn no_order() {
    group_fence();
}

fn main() {}
