//! An accessor stays in its group.
use windlass::prelude::*;

fn main() -> windlass::Result<()> {
    let queue = Queue::blocking_new()?;
    let x = Buffer::<u32>::new(8);
    let mut leaked = None;
    queue.submit(|cg| {
        leaked = Some(cg.read(&x));
        Ok(())
    })?;
    Ok(())
}
