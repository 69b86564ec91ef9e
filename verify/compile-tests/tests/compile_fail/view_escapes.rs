//! A host task's view ends with the task.
use windlass::prelude::*;

fn main() -> windlass::Result<()> {
    let queue = Queue::blocking_new()?;
    let x = Buffer::<u32>::new(8);
    queue.submit(|cg| {
        let x = cg.read(&x);
        let (send, _receive) = std::sync::mpsc::channel();
        cg.host_task(async move |host| {
            send.send(host.view(&x)?).ok();
            Ok(())
        })
    })?;
    Ok(())
}
