//! What is there, and what is missing and why.

use windlass::prelude::*;

/// Prints all devices, and a line for each backend that cannot be used here.
pub(crate) async fn show() {
    println!("Devices");
    match Device::discover().await {
        Ok(devices) if devices.is_empty() => println!("  none"),
        Ok(devices) => devices.iter().for_each(show_device),
        // `WINDLASS_DEVICE` may ask for one that is not there.
        Err(error) => println!("  {error}"),
    }
    println!("\nBackends");
    for (backend, found) in Runtime::global().backends().await {
        match found {
            Ok(()) => println!("  {:<8} can be used", backend.as_str()),
            Err(missing) => println!("  {:<8} is missing: {missing}", backend.as_str()),
        }
    }
}

fn show_device(device: &Device) {
    let info = device.info();
    let memory = info.memory_bytes.map_or("unknown".into(), |bytes| (bytes >> 20).to_string());
    println!("  {device}");
    println!("           {}, {} units, {memory} MiB", device.platform_name(), info.compute_units);
}
