//! A kernel's closure owns what it uses, or borrows what lives for ever.
use windlass::prelude::*;

fn main() -> windlass::Result<()> {
    let queue = Queue::blocking_new()?;
    let x = Buffer::<u32>::new(8);
    let factor = 3;
    queue.submit(|cg| {
        let x = cg.read_write(&x);
        cg.host_for(8, x, |item, x| x.set(item.id(0), factor))
    })?;
    Ok(())
}
