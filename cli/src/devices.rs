//! What there is.

use serde_json::{Value, json};
use windlass::{Details, Device, Runtime};

use crate::{Verdict, Which, block_on};

pub(crate) fn list(which: &Which) -> Verdict {
    let runtime = Runtime::new();
    let devices = which.filter.of(&runtime)?;
    if which.json {
        let devices: Vec<Value> = devices.iter().map(describe).collect();
        println!("{}", json!({ "devices": devices, "missing": missing(&runtime) }));
        return Ok(true);
    }
    for device in &devices {
        let info = device.info();
        println!("{device}");
        println!("    driver   {} {}", device.platform_name(), info.driver);
        let memory =
            info.memory_bytes.map_or("memory unknown".into(), |bytes| format!("{} MiB", bytes >> 20));
        println!(
            "    has      {} compute units, {memory}, {} copy lanes",
            info.compute_units, info.copy_lanes
        );
        println!("    can      {:?}", info.aspects);
        if let Some(told) = told(&info.details) {
            println!("    tells    {told}");
        }
    }
    tell_missing(&runtime);
    Ok(true)
}

/// What a driver tells of the hardware, in words; nothing of what it does not tell.
fn told(details: &Details) -> Option<String> {
    let sizes: Vec<String> = details.subgroup_sizes.iter().map(u32::to_string).collect();
    let parts = [
        details.clock_mhz.map(|mhz| format!("{mhz} MHz")),
        details.cache.map(|cache| format!("{} KiB of cache", cache.bytes >> 10)),
        (!sizes.is_empty()).then(|| format!("sub-groups of {}", sizes.join(", "))),
        details.address_bits.map(|bits| format!("addresses of {bits} bits")),
        details.corrects_errors.and_then(|corrects| corrects.then(|| "memory that mends errors".to_owned())),
    ];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    (!parts.is_empty()).then(|| parts.join(", "))
}

/// Says what keeps backends from having devices, and what to do about it.
pub(crate) fn tell_missing(runtime: &Runtime) {
    for (backend, status) in block_on(runtime.backends()) {
        if let Err(why) = status {
            println!("no devices of {backend}: {}\n    to have some: {}", why.reason, why.remedy);
        }
    }
}

pub(crate) fn missing(runtime: &Runtime) -> Vec<Value> {
    let statuses = block_on(runtime.backends()).into_iter();
    let failed = statuses.filter_map(|(backend, status)| Some((backend, status.err()?)));
    let told = failed.map(|(backend, why)| {
        json!({ "backend": backend.to_string(), "reason": why.reason, "remedy": why.remedy })
    });
    told.collect()
}

fn describe(device: &Device) -> Value {
    let info = device.info();
    json!({
        "name": device.name(),
        "backend": device.backend().to_string(),
        "kind": info.kind.to_string(),
        "platform": device.platform_name(),
        "vendor": info.vendor,
        "driver": info.driver,
        "memory_bytes": info.memory_bytes,
        "compute_units": info.compute_units,
        "copy_lanes": info.copy_lanes,
        "vendor_id": info.details.vendor_id,
        "clock_mhz": info.details.clock_mhz,
        "cache_bytes": info.details.cache.map(|cache| cache.bytes),
        "cache_line": info.details.cache.and_then(|cache| cache.line),
        "subgroup_sizes": info.details.subgroup_sizes,
        "address_bits": info.details.address_bits,
        "aspects": info.aspects.iter().map(|aspect| format!("{aspect:?}")).collect::<Vec<_>>(),
    })
}
