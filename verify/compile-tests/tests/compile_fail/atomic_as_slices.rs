//! Elements that all work-items update cannot be cut into slices.
use windlass::prelude::*;

fn main() -> windlass::Result<()> {
    let queue = Queue::blocking_new()?;
    let x = Buffer::<u32>::new(8);
    queue.submit(|cg| cg.host_chunks(8, cg.atomic(&x), |_, _| {}))?;
    Ok(())
}
