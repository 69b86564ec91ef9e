//! What a pointer leads to may be read, and is claimed by an accessor.

use windlass::prelude::*;

#[windlass::kernel]
fn first(p: Ptr<f32>, out: &mut [f32]) {
    out[0] = p.read();
}

fn main() -> windlass::Result<()> {
    let queue = Queue::blocking_new()?;
    let (x, out) = (Buffer::<f32>::new(1), Buffer::<f32>::new(1));
    queue.submit(|cg| cg.parallel_for(1, first(cg.overwrite(&x), cg.overwrite(&out))))?;
    queue.submit(|cg| cg.parallel_for(1, first(&x, cg.overwrite(&out))))?;
    Ok(())
}
