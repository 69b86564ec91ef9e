//! What is put through the suite: a device, as the suite uses it.

use windlass::{Buffer, Context, Device, Error, KernelCall, Queue, Result, Runtime};
use windlass_backend::MemoryIndex;

use crate::kernels::Kernels;

/// A device with what cases need of it. Cheap to clone.
///
/// Each subject has a runtime of its own or shares one with others; cases count what the runtime does, so only one
/// subject of a runtime may be run at a time.
#[derive(Clone, Debug)]
pub struct Subject {
    /// What reports call it.
    pub name: String,
    /// The runtime that everything is in.
    pub runtime: Runtime,
    /// The device.
    pub device: Device,
    /// A queue on the device in the runtime's own context of it.
    pub home: Queue,
    /// A second queue in the same context.
    pub second: Queue,
    /// A queue on the same device in a context of its own, whose memory is not the home context's.
    pub away: Queue,
    /// The reference kernels.
    pub kernels: Kernels,
    /// Whether host accessors find what the device has written where it is, so that nothing is moved for them: tried.
    pub shows_memory: bool,
}

/// What planning has caused, as counted by the runtime.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moved {
    /// Transfers between memories.
    pub transfers: u64,
    /// Their bytes.
    pub bytes: u64,
}

impl Subject {
    /// Opens the device's contexts, which blocks.
    pub fn open(name: &str, device: &Device, kernels: Kernels) -> Result<Subject> {
        let context = Context::blocking_open(std::slice::from_ref(device))?;
        let away = Queue::blocking_in_context(&context, device)?;
        Ok(Subject {
            name: name.into(),
            runtime: device.runtime().clone(),
            home: Queue::blocking_on(device.clone())?,
            second: Queue::blocking_on(device.clone())?,
            shows_memory: shows_memory(&away)?,
            away,
            device: device.clone(),
            kernels,
        })
    }

    /// The first device of a runtime that is wanted. Discovers, which blocks.
    pub fn find(runtime: &Runtime, wanted: impl Fn(&Device) -> bool) -> Result<Device> {
        let devices = futures_lite::future::block_on(runtime.devices())?;
        let names = format!("{devices:?}");
        let found = devices.into_iter().find(wanted);
        found.ok_or_else(|| Error::other(format!("none of these devices is the one wanted: {names}")))
    }

    /// A call of a reference kernel.
    pub fn call<'g>(&self, kernel: &str) -> KernelCall<'g> {
        KernelCall::new(self.kernels.get(kernel))
    }

    /// Whether the home context works on the program's own memory, so that nothing is moved between the two.
    pub fn works_in_place(&self) -> bool {
        self.device.info().memory == MemoryIndex::Heap
    }

    /// How many groups can run at the same time in the home context.
    pub fn lanes(&self) -> usize {
        self.device.info().lanes
    }

    /// What has been moved so far.
    pub fn tally(&self) -> Moved {
        let stats = self.runtime.stats();
        Moved { transfers: stats.transfers, bytes: stats.bytes_moved }
    }

    /// What has been moved since.
    pub fn moved_since(&self, before: Moved) -> Moved {
        let now = self.tally();
        Moved { transfers: now.transfers - before.transfers, bytes: now.bytes - before.bytes }
    }
}

/// Whether what is written on a queue's device can be read without being moved.
fn shows_memory(queue: &Queue) -> Result<bool> {
    let v = Buffer::<u32>::new(16);
    queue.submit(|cg| cg.fill(&cg.overwrite(&v), 1))?;
    let before = queue.runtime().stats().transfers;
    drop(v.host_read().blocking_wait()?);
    Ok(queue.runtime().stats().transfers == before)
}
