//! A host task looks at its own group's data only.
use windlass::prelude::*;

fn main() -> windlass::Result<()> {
    let queue = Queue::blocking_new()?;
    let x = Buffer::<u32>::new(8);
    queue.submit(|outer| {
        let x = outer.read(&x);
        queue.submit(|inner| {
            inner.host_task(async move |host| {
                host.view(&x)?;
                Ok(())
            })
        })?;
        Ok(())
    })?;
    Ok(())
}
