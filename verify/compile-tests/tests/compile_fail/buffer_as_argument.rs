//! A kernel takes accessors: they say how the data is used.
use windlass::prelude::*;

fn main() -> windlass::Result<()> {
    let queue = Queue::blocking_new()?;
    let x = Buffer::<u32>::new(8);
    queue.submit(|cg| cg.host_for(8, &x, |_, _| {}))?;
    queue.submit(|cg| cg.host_chunks(8, &x, |_, _| {}))?;
    Ok(())
}
