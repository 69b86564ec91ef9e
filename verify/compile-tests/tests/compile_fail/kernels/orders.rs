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

#[windlass::kernel]
fn exchanges(x: &[AtomicU32], f: &[AtomicF32], plain: &mut [u32], out: &mut [u32]) {
    let was = x[0].compare_exchange(1, 2, Relaxed, Relaxed);
    if x[0].compare_exchange(1, 2, Relaxed, Release).is_ok() {
        out[0] = 1;
    }
    if f[0].compare_exchange(1.0, 2.0, Relaxed, Relaxed).is_ok() {
        out[0] = 1;
    }
    match x[0].compare_exchange(1, 2, Relaxed, Relaxed) {
        Ok(1) => out[1] = 1,
        Err(_) => {}
    }
    match x[0].compare_exchange(1, 2, Relaxed, Relaxed) {
        Ok(_) => out[1] = 1,
    }
    if let Some(was) = x[0].compare_exchange(1, 2, Relaxed, Relaxed) {
        out[2] = was;
    }
    if plain[0].compare_exchange(1, 2, Relaxed, Relaxed).is_err() {
        out[3] = 1;
    }
    f[0].fetch_or(1.0, Relaxed);
}

#[windlass::kernel]
fn for_whom(a: &[AtomicU32]) {
    a[0].fetch_add(1, Relaxed.friends());
    fence(AcqRel.item());
}

fn main() {}
