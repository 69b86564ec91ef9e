//! Slices and guards that were asked for reading are not written.
use windlass::prelude::*;

fn main() -> windlass::Result<()> {
    let queue = Queue::blocking_new()?;
    let x = Buffer::<u32>::new(8);
    queue.submit(|cg| cg.host_chunks(8, cg.read(&x), |_, x| x[0] = 1))?;
    let mut guard = x.host_read().blocking_wait()?;
    guard[0] = 1;
    Ok(())
}
