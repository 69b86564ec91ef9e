//! Helpers, structs and work-groups.
#[windlass::kernels]
mod recursive {
    fn down(n: u32) -> u32 {
        if n == 0 { 0 } else { down(n - 1) }
    }

    #[kernel]
    fn start(out: &mut [u32]) {
        out[0] = down(5);
    }
}

#[windlass::kernels]
mod calls {
    #[kernel]
    fn inner(out: &mut [u32]) {
        out[0] = 1;
    }

    #[kernel]
    fn outer(out: &mut [u32]) {
        inner(out);
    }
}

#[windlass::kernels]
mod arguments {
    fn add(a: &mut u32, x: &[u32]) {
        *a += x[0];
    }

    #[kernel]
    fn by_value(x: &[u32], out: &mut [u32]) {
        let mut a = 1;
        add(a + 1, x);
        add(&mut a, &[1, 2]);
        add(&mut a);
        out[0] = a;
    }
}

#[windlass::kernels]
mod structs {
    struct NotCopied {
        x: f32,
    }

    #[kernel]
    fn uses(x: &[NotCopied], out: &mut [f32]) {
        out[0] = x[0].y;
    }
}

#[windlass::kernel]
fn some_wait(x: &[u32], out: &mut [u32]) {
    if local_id(0) < 3 {
        barrier();
    }
    out[0] = x[0];
}

#[windlass::kernel]
fn some_left(x: &[u32], out: &mut [u32]) {
    if x[global_id(0)] > out[0] {
        return;
    }
    barrier();
    out[0] = x[0];
}

#[windlass::kernels]
mod barriers {
    fn wait(x: u32) -> u32 {
        barrier();
        x
    }

    fn early(x: u32) {
        if x > 3 {
            return;
        }
        barrier();
    }

    #[kernel]
    fn waits(out: &mut [u32]) {
        early(3);
        out[local_id(0)] = wait(2) + 1;
    }
}

#[windlass::kernel]
fn local_by_value(#[local] x: [u32; 4], out: &mut [u32]) {
    out[local_id(0)] = 1;
}

fn main() {}
