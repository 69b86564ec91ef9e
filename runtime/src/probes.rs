//! Faults of devices that are known, and looked for when a device is first opened.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock, OnceLock};

use windlass_backend::{Aspect, Backend, BackendId, DeviceKey, DeviceKind};
use windlass_kernel::ImageFormat;
use windlass_sync::facade::{Mutex, lock};

use crate::buffer::Buffer;
use crate::error::Result;
use crate::queue::Queue;
use crate::runtime::Runtime;
use crate::shell::devices::{DeviceData, Fault};

/// More turns than drivers with [`Fault::LoopsEnd`] let a work-item have.
const TURNS: u32 = 70_000;
/// Sums that are compared: of some every fourth was wrong.
const SUMS: u16 = 256;

/// One kernel for what all devices have, since compilers take their time for each.
#[crate::kernel]
fn known(turns: u32, x: &[f32], sums: &mut [f32], counted: &mut [u32]) {
    let i = global_id(0);
    let (a, b, c) = (x[i], x[i + 1], x[i + 2]);
    sums[i] = a * a - b * b + c;
    if i < counted.len() {
        let mut seen = 1;
        for turn in 0..turns {
            seen = (seen ^ (seen >> 15)) * 1_664_525 + turn;
        }
        counted[i] = seen;
    }
}

#[crate::kernel]
fn wide(x: &[i32], less: &mut [u32]) {
    let i = global_id(0);
    let known: i64 = -63;
    less[i] = (known < x[i] as i64) as u32;
}

/// What was found on a device, once in a process.
type Found = Arc<OnceLock<Vec<Fault>>>;
static FOUND: LazyLock<Mutex<HashMap<(BackendId, DeviceKey), Found>>> = LazyLock::new(Mutex::default);

/// Looks for faults of a device, and says what it finds. Only processors are asked: no GPU is known to have such faults, and
/// another context there would take its time. Blocks for as long as kernels are built.
pub(crate) fn probe(device: &DeviceData, backend: &Arc<dyn Backend>) {
    let is_asked = device.info.kind == DeviceKind::Cpu && device.info.formats.contains(&ImageFormat::Wgsl);
    if !is_asked || device.faults.get().is_some() {
        return;
    }
    let key = (device.backend.clone(), device.info.key.clone());
    let found = lock(&FOUND).entry(key).or_default().clone();
    let found = found.get_or_init(|| {
        let faults = faults(device, backend).unwrap_or_else(|error| {
            // What is wrong here, the program's own work meets as well, and is told of.
            tracing::debug!(%error, %device, "could not look for known faults");
            Vec::new()
        });
        for fault in &faults {
            tracing::warn!(%device, "a known fault of this device's driver: it {fault}");
        }
        faults
    });
    let _ = device.faults.set(found.clone());
}

/// Runs the probes, in a runtime of their own: nobody's numbers, and nobody's lanes, have to do with them.
fn faults(device: &DeviceData, backend: &Arc<dyn Backend>) -> Result<Vec<Fault>> {
    let runtime = Runtime::builder()
        .only_given_backends()
        .shared_backend(backend.clone())
        .unprobed()
        .untraced()
        .build();
    let (_, devices) = runtime.devices_of_backend(device.backend.as_str())?;
    let Some(device) = devices.into_iter().find(|other| other.info().key == device.info.key) else {
        return Ok(Vec::new());
    };
    let queue = Queue::blocking_on(device)?;
    let mut faults = known_faults(&queue)?;
    if queue.device().has(Aspect::Int64) && compares_wrongly(&queue)? {
        faults.push(Fault::WideComparisons);
    }
    Ok(faults)
}

fn known_faults(queue: &Queue) -> Result<Vec<Fault>> {
    // Close to one another, so that most of a sum's digits come from rounding.
    let x: Vec<f32> = (0..SUMS + 2).map(|at| 1.0 + f32::from(at * 29 % 97) / 155.0).collect();
    let sums: Vec<f32> = x.windows(3).map(|x| x[0] * x[0] - x[1] * x[1] + x[2]).collect();
    let turn = |seen: u32, turn: u32| (seen ^ (seen >> 15)).wrapping_mul(1_664_525).wrapping_add(turn);
    let counted = (0..TURNS).fold(1, turn);
    let (x, out, count) = (Buffer::from(x), Buffer::<f32>::new(sums.len()), Buffer::<u32>::new(1));
    queue.submit(|cg| {
        let (x, out, count) = (cg.read(&x), cg.overwrite(&out), cg.overwrite(&count));
        cg.parallel_for(sums.len(), known(TURNS, x, out, count))
    })?;
    let found = [
        (Fault::LoopsEnd, count.host_read().blocking_wait()?[0] != counted),
        (Fault::FloatsReordered, out.host_read().blocking_wait()?[..] != sums[..]),
    ];
    Ok(found.into_iter().filter(|(_, is_found)| *is_found).map(|(fault, _)| fault).collect())
}

fn compares_wrongly(queue: &Queue) -> Result<bool> {
    let x: Vec<i32> = (-92..-28).collect();
    let expected: Vec<u32> = x.iter().map(|x| u32::from(-63 < *x)).collect();
    let (x, less) = (Buffer::from(x), Buffer::<u32>::new(expected.len()));
    queue.submit(|cg| cg.parallel_for(expected.len(), wide(cg.read(&x), cg.overwrite(&less))))?;
    Ok(less.host_read().blocking_wait()?[..] != expected[..])
}
