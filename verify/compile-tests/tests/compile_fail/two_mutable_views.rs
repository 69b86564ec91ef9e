//! One accessor lends one mutable view at a time.
use windlass::prelude::*;

fn main() -> windlass::Result<()> {
    let queue = Queue::blocking_new()?;
    let x = Buffer::<u32>::new(8);
    queue.submit(|cg| {
        let mut x = cg.read_write(&x);
        cg.host_task(async move |host| {
            let mut one = host.view_mut(&mut x)?;
            let mut two = host.view_mut(&mut x)?;
            std::mem::swap(&mut one[0], &mut two[0]);
            Ok(())
        })
    })?;
    Ok(())
}
