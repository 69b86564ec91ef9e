//! What devices there are, what each of them can do, and how to choose one: `cargo run --release --example devices`

use windlass::prelude::*;
use windlass::{DeviceKind, Platform, Result};

/// Needs floats of 64 bits, which many GPUs do not have.
#[windlass::kernel]
fn halve(v: &mut [f64]) {
    let i = global_id(0);
    if i < v.len() {
        v[i] = v[i] * 0.5;
    }
}

/// Everything is typed: no texts to be parsed, and no numbers to be looked up.
fn show(device: &Device) {
    let info = device.info();
    let memory = info.memory_bytes.map_or("an unknown amount".into(), |bytes| format!("{} MiB", bytes >> 20));
    println!("\n{device}\n  {} by {}, driver {}", device.kind(), info.vendor, info.driver);
    println!(
        "  {} units, {memory} of memory, {} bytes at most in one piece",
        info.compute_units, info.limits.allocation
    );
    println!(
        "  groups of up to {} items, with {} bytes of local memory",
        info.limits.work_group_items, info.limits.local_memory
    );
    println!("  {:?}", info.aspects);
    for fault in device.faults() {
        println!("  known to be wrong: {fault}");
    }
}

#[tokio::main]
async fn main() -> Result<()> {
    // A backend whose driver is missing says what is missing, and the others go on.
    for (backend, found) in Runtime::global().backends().await {
        match found {
            Ok(()) => println!("{backend} can be used"),
            Err(missing) => println!("{backend}: {missing}"),
        }
    }
    let devices = Device::discover().await?;
    devices.iter().for_each(show);

    // A platform is what one driver offers.
    println!();
    for platform in Runtime::global().platforms().await {
        let gpus = platform.devices().iter().filter(|device| device.kind().is_gpu()).count();
        println!(
            "{} {}: {} devices, {gpus} of them GPUs",
            platform.name(),
            platform.version(),
            platform.devices().len()
        );
    }
    let host: Platform = Device::host().platform();
    assert_eq!(host.devices_of(DeviceKind::Host).count(), 1);

    // A selector says what a device must be and have; the best of those is taken. `explain` says what it makes of each.
    let doubles = Selector::new().aspect(Aspect::Fp64).kernel(halve::kernel());
    println!();
    for device in &devices {
        println!("{device}: {}", doubles.explain(device));
    }
    let device = Device::select(doubles).await?;
    // Where `WINDLASS_DEVICE` names a device, it goes before all selectors: this says what that one lacks.
    device.can_run(halve::kernel())?;

    // Or by a score of the program's own: here, the most units.
    let most_units = Selector::new().score(|device| i64::try_from(device.info().compute_units).ok());
    let widest = Device::select(most_units).await?;
    assert!(devices.iter().all(|other| other.info().compute_units <= widest.info().compute_units));
    // What a selector rules out has no score.
    let gpus = Selector::backend("opencl").kind(DeviceKind::DiscreteGpu);
    assert_eq!(gpus.score_of(&Device::host()), None);

    let (queue, v) = (Queue::on(device).await?, Buffer::from(vec![3.0_f64; 1000]));
    queue.submit(|cg| cg.parallel_for(1000, halve(cg.read_write(&v))))?;
    assert!(v.host_read().await?.iter().all(|v| *v == 1.5));
    println!("\n{} halves doubles; the most units has {widest}", queue.device());
    Ok(())
}
