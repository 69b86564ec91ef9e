//! Parts of OpenCL devices, as devices of their own.

#[path = "drivers/find.rs"]
mod find;

use windlass::opencl::{OpenCl, ext::Division};
use windlass::{Buffer, Context, Device, KernelCall, Queue, Result, Runtime};
use windlass_conformance::Kernels;

/// Whole devices of OpenCL that have parts of one unit each, with these.
fn divided(runtime: &Runtime) -> Vec<(Device, Vec<Device>)> {
    let all = futures::executor::block_on(runtime.devices()).expect("devices are listed");
    let all: Vec<Device> = all.into_iter().filter(|d| d.backend().as_str() == "opencl").collect();
    let is_part = |whole: &Device, d: &Device| d.name().starts_with(&format!("{}, part ", whole.name()));
    let whole = all.iter().filter(|whole| !whole.name().contains(", part "));
    let with_parts =
        whole.map(|whole| (whole.clone(), all.iter().filter(|d| is_part(whole, d)).cloned().collect()));
    with_parts.filter(|(_, parts): &(Device, Vec<Device>)| !parts.is_empty()).collect()
}

#[test]
fn parts_of_a_device_are_devices() -> Result<()> {
    let runtime = Runtime::builder().backend(OpenCl::new().divided(Division::ByUnits(1))).build();
    let Some(_) = find::opencl(&runtime) else { return Ok(()) };
    let divided = divided(&runtime);
    if divided.is_empty() {
        find::missing("no OpenCL device that can be divided, which PoCL's are on more than one core");
    }
    for (whole, parts) in divided {
        let units = |device: &Device| device.info().compute_units;
        assert_eq!(parts.len(), units(&whole), "{whole}");
        assert!(parts.iter().all(|part| units(part) == 1), "{parts:?}");
        // A buffer goes from one to the other and back to the whole, in contexts of their own and in one of both parts.
        let kernels = Kernels::new();
        let both = Context::blocking_open(&parts[..2])?;
        let in_both = |part: &Device| Queue::blocking_in_context(&both, part);
        let queues = [
            Queue::blocking_on(parts[0].clone())?,
            Queue::blocking_on(parts[1].clone())?,
            in_both(&parts[0])?,
            in_both(&parts[1])?,
            Queue::blocking_on(whole)?,
        ];
        let v = Buffer::from(vec![1_u32; 1000]);
        for queue in &queues {
            queue.submit(|cg| {
                let churn = KernelCall::new(kernels.get("churn")).buffer(cg.read_write(&v));
                cg.parallel_for(v.len(), churn.value(1_u32))
            })?;
        }
        let expected = queues.iter().fold(1_u32, |value, _| 31 * value + 1);
        assert_eq!(v.host_read().blocking_wait()?[..], [expected; 1000]);
        // Asked again, a driver is not asked to divide them once more.
        let again = futures::executor::block_on(runtime.rediscover())?;
        assert!(parts.iter().all(|part| again.contains(part)));
    }
    Ok(())
}
