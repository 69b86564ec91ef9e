//! The smallest complete program: one kernel, two buffers, one `.await`. Runs on this machine's own threads.

use windlass::prelude::*;

#[tokio::main]
async fn main() -> windlass::Result<()> {
    let queue = Queue::on(Device::host())?;
    println!("running on {}", queue.device());

    let x = Buffer::from(vec![1.0_f32; 1 << 20]);
    let y = Buffer::from(vec![2.0_f32; 1 << 20]);

    queue
        .submit(|cg| {
            let args = (cg.read(&x), cg.read_write(&y));
            cg.host_for(1 << 20, args, |item, (x, y)| {
                let i = item.id(0);
                y.set(i, 3.0 * x.get(i) + y.get(i));
            })
        })?
        .await?;

    let y = y.host_read().await?;
    assert!(y.iter().all(|&v| v == 5.0));
    println!("{} elements, y[0] = {}", y.len(), y[0]);
    Ok(())
}
