//! A pointer's memory has the type that the kernel follows it to, and may be read.

use windlass::prelude::*;

#[windlass::kernel]
fn first(p: Ptr<f32>, out: &mut [f32]) {
    out[0] = p.read();
}

fn main() -> windlass::Result<()> {
    let queue = Queue::blocking_new()?;
    let (x, y, out) = (Buffer::<u32>::new(1), Buffer::<f32>::new(1), Buffer::<f32>::new(1));
    queue.submit(|cg| cg.parallel_for(1, first(cg.read(&x), cg.overwrite(&out))))?;
    queue.submit(|cg| cg.parallel_for(1, first(cg.overwrite(&y), cg.overwrite(&out))))?;
    queue.submit(|cg| cg.parallel_for(1, first(Ptr::<u32>::null(), cg.overwrite(&out))))?;
    queue.submit(|cg| cg.parallel_for(1, first(&y, cg.overwrite(&out))))?;
    Ok(())
}
