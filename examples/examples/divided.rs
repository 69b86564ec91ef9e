//! Processors in two halves: what has to be quick has some of them for itself. `cargo run --release --example divided`

use windlass::Result;
use windlass::opencl::{OpenCl, ext::Division};
use windlass::prelude::*;

#[windlass::kernel]
fn squared(v: &mut [u32]) {
    v[global_id(0)] = v[global_id(0)] * v[global_id(0)];
}

#[tokio::main]
async fn main() -> Result<()> {
    let half = std::thread::available_parallelism().map_or(1, usize::from) / 2;
    let units = u32::try_from(half.max(1)).expect("processors are counted in 32 bits");
    let backend = OpenCl::new().divided(Division::ByUnits(units));
    let runtime = Runtime::builder().backend(backend).build();
    let parts: Vec<Device> =
        runtime.devices().await?.into_iter().filter(|device| device.name().contains(", part ")).collect();
    let [quick, rest, ..] = &parts[..] else {
        println!("there is nothing to show without an OpenCL driver for processors, or with one processor");
        return Ok(());
    };
    println!("{quick} and {rest}");

    // Each is a device like any other; data goes from one to the other as it does between any two.
    let (quick, rest) = (Queue::on(quick.clone()).await?, Queue::on(rest.clone()).await?);
    let (slow, v) = (Buffer::from(vec![3_u32; 1 << 20]), Buffer::from(vec![3_u32; 64]));
    let long = rest.submit(|cg| {
        let slow = cg.read_write(&slow);
        (0..20).try_for_each(|_| cg.parallel_for(1 << 20, squared(&slow)))
    })?;
    quick.submit(|cg| cg.parallel_for(64, squared(cg.read_write(&v))))?.await?;
    rest.submit(|cg| cg.parallel_for(64, squared(cg.read_write(&v))))?;
    assert_eq!(v.host_read().await?[..], [81; 64]);
    long.await?;
    println!("both halves have worked");
    Ok(())
}
