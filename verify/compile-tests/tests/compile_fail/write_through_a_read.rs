//! What was required for reading is not written.
use windlass::prelude::*;

fn main() -> windlass::Result<()> {
    let queue = Queue::blocking_new()?;
    let x = Buffer::<u32>::new(8);
    queue.submit(|cg| cg.host_for(8, cg.read(&x), |item, x| x.set(item.id(0), 1)))?;
    queue.submit(|cg| {
        let mut x = cg.read(&x);
        cg.host_task(async move |host| {
            host.view_mut(&mut x)?[0] = 1;
            Ok(())
        })
    })?;
    Ok(())
}
