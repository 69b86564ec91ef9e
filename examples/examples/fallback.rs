//! A second queue for what the first one refuses, and a device that is lost and comes back: `cargo run --release --example fallback`

use windlass::Result;
use windlass::prelude::*;

#[windlass::kernel]
fn add(n: u32, v: &mut [u32]) {
    let i = global_id(0);
    if i < v.len() {
        v[i] += n;
    }
}

#[tokio::main]
async fn main() -> Result<()> {
    // On a machine without drivers both are the host, and only what is lost below is refused.
    let (first, host) = (Queue::new().await?, Queue::on(Device::host()).await?);
    println!("first {}, then {}", first.device(), host.device());
    let v = Buffer::from(vec![1_u32; 1000]);

    // The closure runs once for each queue that is asked, and the data goes where the group does.
    let added = first.submit_or(&host, |cg| cg.parallel_for(1000, add(1, cg.read_write(&v))))?;
    // Only the host runs closures: any other device refuses this one.
    let doubled = first.submit_or(&host, |cg| {
        let v = cg.read_write(&v);
        cg.host_for(1000, v, |item, v| v.set(item.id(0), 2 * v.get(item.id(0))))
    })?;
    Event::all([added, doubled]).await?;
    assert!(v.host_read().await?.iter().all(|v| *v == 4));

    // A group that makes no sense is refused everywhere, so the second queue is not asked.
    let nonsense = first.submit_or(&host, |cg| cg.fill(&cg.overwrite(&v.range(..2000)), 0));
    assert!(nonsense.expect_err("it has 1000 elements").is_invalid_input());

    // A device is lost: here because the program gives it up, elsewhere because its driver has crashed. What the host has is as
    // good as before, which is why `v` was read above.
    let lost = Queue::builder().context(&Context::open(&[first.device().clone()]).await?).build().await?;
    lost.context().abandon();
    let refused = lost.submit(|cg| cg.parallel_for(1000, add(1, cg.read_write(&v)))).expect_err("it is lost");
    assert!(refused.is_device_lost());
    println!("lost: {refused}");
    lost.submit_or(&host, |cg| cg.parallel_for(1000, add(1, cg.read_write(&v))))?.await?;
    // Where both refuse, the error has what each of them said.
    let error = lost.submit_or(&lost, |_| Ok(())).expect_err("it is lost");
    let [one, other] = error.refusals().expect("two were asked");
    assert!(one.is_device_lost() && other.is_device_lost());

    // Queues of a lost device stay lost. New ones are made of what the driver lists now, where it lets the device be opened again.
    let again = Queue::on(lost.device().reopen().await?).await?;
    again.submit(|cg| cg.parallel_for(1000, add(1, cg.read_write(&v))))?;
    assert!(v.host_read().await?.iter().all(|v| *v == 6));
    println!("and {} is there again", again.device());
    Ok(())
}
