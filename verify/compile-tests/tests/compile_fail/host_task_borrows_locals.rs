//! A host task outlives the closure's frame and the caller's.
use windlass::prelude::*;

fn main() -> windlass::Result<()> {
    let queue = Queue::blocking_new()?;
    let outside = vec![1_u32, 2, 3];
    queue.submit(|cg| {
        let inside = vec![1_u32, 2, 3];
        cg.host_task(async |_| {
            println!("{inside:?}");
            Ok(())
        })
    })?;
    queue.submit(|cg| {
        cg.host_task(async |_| {
            println!("{outside:?}");
            Ok(())
        })
    })?;
    Ok(())
}
