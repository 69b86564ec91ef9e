//! What helpers are not given as memory.

#[windlass::kernels]
mod kernels {
    use windlass::prelude::*;

    fn sum(x: &[u32]) -> u32 {
        x[0] + x[1]
    }

    fn cleared(x: &mut [u32]) {
        x[0] = 0;
    }

    fn counted(x: &[AtomicU32]) {
        x[0].fetch_add(1, Relaxed);
    }

    fn both(x: &mut [u32], y: &mut [u32]) {
        x[0] = 1;
        y[0] = 2;
    }

    #[kernel]
    fn run(view: &View<u32, 2>, x: &[u32], y: &[f32], out: &mut [u32]) {
        let fixed = [1_u32, 2, 3];
        let mut own = [1_u32, 2, 3];
        let number = 7_u32;
        out[0] = sum(&view[0..2]);
        out[1] = sum(&y[0..2]);
        out[2] = sum(&number);
        out[3] = sum(&[1.0_f32, 2.0]);
        out[4] = sum(&x[0..1.5]);
        cleared(&mut x[1..2]);
        cleared(&mut fixed);
        cleared(&own);
        counted(&own);
        both(&mut own[..1], &mut own[1..]);
        let part = x[1..2];
    }
}

fn main() {}
