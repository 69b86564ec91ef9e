//! What a host task spawns may outlive it, so it cannot take the data along.
use windlass::prelude::*;

fn main() -> windlass::Result<()> {
    let queue = Queue::blocking_new()?;
    let x = Buffer::<u32>::new(8);
    queue.submit(|cg| {
        let x = cg.read(&x);
        cg.host_task(async move |host| {
            tokio::spawn(async move { host.view(&x).map(|x| x[0]) });
            Ok(())
        })
    })?;
    Ok(())
}
