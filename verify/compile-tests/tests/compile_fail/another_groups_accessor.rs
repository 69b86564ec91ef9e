//! An accessor can be given to its own group's commands only.
use windlass::prelude::*;

fn main() -> windlass::Result<()> {
    let queue = Queue::blocking_new()?;
    let x = Buffer::<u32>::new(8);
    queue.submit(|outer| {
        let x = outer.read_write(&x);
        queue.submit(|inner| inner.host_for(8, x, |item, x| x.set(item.id(0), 1)))?;
        Ok(())
    })?;
    Ok(())
}
