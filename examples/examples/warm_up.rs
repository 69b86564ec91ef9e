//! Kernels that are built before the first request wants them, with values that they are built with: `cargo run --release --example warm_up`
//!
//! `WINDLASS_CACHE=FOLDER` in the environment keeps what was built for the next start of the program.

use std::time::Instant;

use windlass::prelude::*;
use windlass::{Bundle, NdRange, Result};

#[windlass::kernels]
mod filters {
    /// The sum of the `size` elements around each; the compiler knows the number, and writes the loop out.
    #[kernel]
    pub fn summed(#[spec] size: u32, x: &[f32], y: &mut [f32]) {
        let i = global_id(0);
        if i < y.len() {
            let mut sum = 0.0;
            for k in 0..size {
                sum += x[i + k as usize];
            }
            y[i] = sum;
        }
    }

    /// The largest of each work-group.
    #[kernel]
    pub fn largest(y: &[f32], out: &mut [f32], #[local] room: &mut [f32]) {
        let (l, mut half) = (local_id(0), local_size(0) / 2);
        room[l] = y[global_id(0)];
        barrier();
        while half > 0 {
            if l < half {
                room[l] = room[l].max(room[l + half]);
            }
            barrier();
            half /= 2;
        }
        if l == 0 {
            out[group_id(0)] = room[0];
        }
    }
}

const LEN: usize = 1 << 12;
const GROUPS: NdRange<1> = NdRange { global: [LEN], local: [64] };

#[tokio::main]
async fn main() -> Result<()> {
    let runtime = Runtime::new();
    let queue = Queue::builder().runtime(&runtime).build().await?;

    // All kernels of a module, as they will be launched. Each form is built once for a context; they are built off this thread.
    let bundle: Bundle = filters::bundle().with("size", 5.0)?.with("room", 64.0)?.over(GROUPS);
    let began = Instant::now();
    bundle.warm_up(&queue).await?;
    let builds = runtime.stats().builds;
    println!("{builds} kernels built for {} in {:?}", queue.device(), began.elapsed());
    // Names that no kernel has are mistakes.
    assert!(bundle.with("sise", 5.0).expect_err("nothing is called so").is_invalid_input());

    let (x, y) = (Buffer::from(vec![2.0_f32; LEN + 4]), Buffer::<f32>::new(LEN));
    let out = Buffer::<f32>::new(LEN / 64);
    let began = Instant::now();
    queue.submit(|cg| cg.parallel_for(LEN, filters::summed(5, cg.read(&x), cg.overwrite(&y))))?;
    queue.submit(|cg| cg.parallel_for(GROUPS, filters::largest(cg.read(&y), cg.overwrite(&out), 64)))?;
    assert!(out.host_read().await?.iter().all(|v| *v == 10.0));
    assert_eq!(runtime.stats().builds, builds, "the first request found them ready");
    println!("and the first request took {:?}", began.elapsed());
    Ok(())
}
