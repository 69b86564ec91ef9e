//! Contexts: devices that were opened together.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, OnceLock, Weak};

use windlass_backend::{
    Aspect, BackendError, CompletionStrategy, Context as NativeContext, ContextInfo, ContextSpec, DeviceInfo,
    HostAccess, LaneNumber, LaneSpec, MemoryIndex, MemoryInfo,
};
use windlass_kernel::Kernel;
use windlass_sync::facade::{Mutex, lock};
use windlass_sync::panics::catch;

use crate::build::{Builds, Built, Values};
use crate::device::{Device, DeviceData};
use crate::error::{Cause, Error, Result};
use crate::runtime::Runtime;
use crate::shell::blank::Blank;
use crate::shell::memory::Dead;
use crate::shell::pool::Pool;
use crate::shell::sink::{ContextLoss, Sink};
use crate::shell::{Chores, Inner, LaneShell, State, Windlass};
use windlass_engine::{ContextId, DeviceId, Engine, HEAP, LaneId, MemoryId};

/// Devices of one platform that were opened together: they share kernels, and what one has written another can read
/// without the host.
///
/// Queues that are built without a context share the runtime's own context of their device. A context of your own has
/// memory of its own.
///
/// ```
/// use windlass::prelude::*;
/// # fn main() -> windlass::Result<()> {
/// let host = Device::host();
/// let context = Context::blocking_open(&[host.clone()])?;
/// let queue = Queue::blocking_in_context(&context, &host)?;
/// # drop(queue);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Context {
    runtime: Runtime,
    shared: Arc<ContextShared>,
}

/// A native context with its devices and lanes in the engine. When the last handle goes (a context, a queue, an event of
/// one of its groups), the context is closed as soon as no data needs it.
#[derive(Debug)]
pub(crate) struct ContextShared {
    native: Arc<dyn NativeContext>,
    builds: Builds,
    inner: Weak<Inner>,
    id: ContextId,
    devices: OnceLock<Vec<(Arc<DeviceData>, DeviceId)>>,
    /// Devices once more, by position, with lanes that learn of their work's end in another way than is the driver's own.
    twins: Mutex<HashMap<(usize, CompletionStrategy), DeviceId>>,
    staging: Arc<Pool>,
}

impl Drop for ContextShared {
    fn drop(&mut self) {
        // A runtime that is gone has closed its contexts.
        let Some(inner) = self.inner.upgrade() else { return };
        inner.reaper.bury(Dead::Kernels(std::mem::take(&mut self.builds)), &inner);
        let closed = Cause(Error::invalid("the context has been closed: its last handle is gone"));
        inner.enter(|state, turn| state.engine.retire(self.id, closed, turn));
    }
}

/// One device of a context, as queues use it.
#[derive(Debug)]
pub(crate) struct DeviceSlot {
    pub(crate) device: Device,
    pub(crate) id: DeviceId,
    position: usize,
    context: Arc<ContextShared>,
}

impl DeviceSlot {
    pub(crate) fn runs_host_bodies(&self) -> bool {
        self.device.has(Aspect::HostBodies)
    }

    pub(crate) fn build(&self, inner: &Arc<Inner>, kernel: &Kernel, values: Values) -> Result<Arc<Built>> {
        self.context.builds.get(inner, &self.context.native, self.position, kernel, values)
    }

    pub(crate) fn context(&self) -> Context {
        Context { runtime: self.device.runtime().clone(), shared: self.context.clone() }
    }
}

impl Context {
    /// [`Context::open`] on this thread, which blocks as long as the driver takes.
    pub fn blocking_open(devices: &[Device]) -> Result<Context> {
        let Some(first) = devices.first() else { return Err(Error::invalid("a context needs a device")) };
        if let Some(other) = devices.iter().find(|d| !d.runtime().is_same(first.runtime())) {
            return Err(Error::invalid(format!(
                "{first} and {other} were found by different runtimes, and a context has devices of one runtime"
            )));
        }
        let of_platform = |d: &Device| d.data.at;
        if let Some(other) = devices.iter().find(|d| of_platform(d) != of_platform(first)) {
            return Err(Error::invalid(format!(
                "{first} and {other} are of different platforms, and a context has devices of one"
            )));
        }
        let runtime = first.runtime().clone();
        let data: Vec<_> = devices.iter().map(|d| d.data.clone()).collect();
        let shared = ContextShared::open(&runtime, &data, false)?;
        Ok(Context { runtime, shared })
    }

    /// Opens a context over devices of one platform.
    pub async fn open(devices: &[Device]) -> Result<Context> {
        let Some(first) = devices.first() else { return Err(Error::invalid("a context needs a device")) };
        let (inner, devices) = (first.runtime().inner().clone(), devices.to_vec());
        inner.off_thread(move || Context::blocking_open(&devices)).await
    }

    /// Its devices.
    pub fn devices(&self) -> Vec<Device> {
        let devices = self.shared.devices.get().map(Vec::as_slice).unwrap_or_default();
        devices.iter().map(|(data, _)| Device::new(self.runtime.clone(), data.clone())).collect()
    }

    /// The runtime it belongs to.
    pub fn runtime(&self) -> &Runtime {
        &self.runtime
    }

    pub(crate) fn slot(
        &self,
        device: &Device,
        completion: Option<CompletionStrategy>,
    ) -> Result<Arc<DeviceSlot>> {
        ContextShared::slot(&self.shared, device, completion)
    }
}

impl fmt::Display for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<String> = self.devices().iter().map(ToString::to_string).collect();
        write!(f, "the context of {}", names.join(", "))
    }
}

impl fmt::Debug for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Context").field("devices", &self.devices()).finish()
    }
}

impl ContextShared {
    /// Opens a native context, and makes its devices, memories and lanes known to the engine. Only the runtime's own
    /// context of a host device works on the heap in place; every other has memory of its own.
    pub(crate) fn open(runtime: &Runtime, devices: &[Arc<DeviceData>], own: bool) -> Result<Arc<Self>> {
        let inner = runtime.inner();
        let told = Arc::new(ContextLoss::new(inner));
        let keys = devices.iter().map(|d| d.info.key.clone()).collect();
        let native = runtime.open_native(devices[0].at.0, ContextSpec::new(keys, told.clone()))?;
        let opened = native.info().devices.len();
        if opened != devices.len() {
            let wrong = format!("a context of {opened} devices where {} were asked for", devices.len());
            return Err(Error::backend(BackendError::Unsupported(wrong), "opening a context"));
        }
        let id = inner.enter(|state, _| state.engine.add_context());
        let shared = Arc::new(ContextShared {
            native,
            builds: Builds::default(),
            inner: Arc::downgrade(inner),
            id,
            devices: OnceLock::new(),
            twins: Mutex::default(),
            staging: Arc::new(Pool::new(inner.staging.bytes)),
        });
        let ids = shared.register(inner, own)?;
        told.is(id);
        let _ = shared.devices.set(devices.iter().cloned().zip(ids).collect());
        Ok(shared)
    }

    fn register(&self, inner: &Arc<Inner>, own: bool) -> Result<Vec<DeviceId>> {
        let info = self.native.info();
        check_info(info)?;
        let infos = &info.devices;
        let staged = info.pageable_upload_limit < usize::MAX || info.pageable_download_limit < usize::MAX;
        let mut memories: Vec<(MemoryIndex, MemoryId)> = Vec::new();
        let ids: Vec<(DeviceId, Vec<LaneId>)> = inner.enter(|state, _| {
            let mut ids = Vec::new();
            for info in infos {
                let known = memories.iter().find(|(index, _)| *index == info.memory).map(|(_, id)| *id);
                let memory = known.unwrap_or_else(|| match (own, info.memory) {
                    (true, MemoryIndex::Heap) => HEAP,
                    (_, index) => {
                        let of = native_memory(self.native.info(), index);
                        let reached = of.is_none_or(|of| of.host == HostAccess::Coherent);
                        let memory = add_memory(&mut state.engine, reached, staged);
                        state.add_memory(memory, &self.native, index);
                        memory
                    }
                });
                memories.push((info.memory, memory));
                let device = state.engine.add_device(self.id, memory);
                ids.push((device, reserve_lanes(state, device, info)));
            }
            ids
        });
        let mut chores = Chores::lend(false);
        let mut each = ids.iter().enumerate();
        let opened = each.try_for_each(|(position, (_, lanes))| {
            self.open_lanes(inner, position, None, lanes, &mut chores)
        });
        inner.perform(&mut chores);
        drop(chores);
        if let Err(error) = opened {
            // The engine knows the devices already: nobody may count on them.
            inner.enter(|state, turn| {
                for lane in ids.iter().flat_map(|(_, lanes)| lanes) {
                    state.lose_lane(*lane, Cause(error.clone()), turn);
                }
            });
            return Err(error);
        }
        Ok(ids.into_iter().map(|(id, _)| id).collect())
    }

    /// What the turns at the desk leave to be done is the caller's to perform.
    fn open_lanes(
        &self,
        inner: &Arc<Inner>,
        position: usize,
        completion: Option<CompletionStrategy>,
        lanes: &[LaneId],
        chores: &mut Chores,
    ) -> Result<()> {
        let blank = catch(|| Blank::new(self.native.info().devices[position].memory, &*self.native))
            .unwrap_or_else(|panic| Err(BackendError::Panicked(panic.message().into())))
            .map_err(|e| Error::backend(e, "allocating memory for empty arguments"))?;
        let blank = Arc::new(blank);
        let may_feed = self.native.info().feeds_from_sink || completion == Some(CompletionStrategy::Waiter);
        for &lane in lanes {
            // Unique in the runtime, and so in the context.
            let number = LaneNumber(lane.0);
            let mut spec = LaneSpec::new(position, number);
            spec.completion = completion;
            let sink = Sink { inner: Arc::downgrade(inner), lane, may_feed };
            let native = catch(|| self.native.open_lane(spec, Arc::new(sink)))
                .unwrap_or_else(|panic| Err(BackendError::Panicked(panic.message().into())))
                .map_err(|e| Error::backend(e, "opening a lane"))?;
            let (context, staging, blank) = (self.native.clone(), self.staging.clone(), blank.clone());
            inner.set_lane(LaneShell { id: lane, native, context, number, staging, blank }, chores);
        }
        Ok(())
    }

    /// A device of this context, whose lanes learn of their work's end in the given way, or else in the driver's own.
    pub(crate) fn slot(
        this: &Arc<Self>,
        device: &Device,
        completion: Option<CompletionStrategy>,
    ) -> Result<Arc<DeviceSlot>> {
        let devices = this.devices.get().map(Vec::as_slice).unwrap_or_default();
        let position = devices.iter().position(|(data, _)| data.is_same(&device.data));
        let Some(position) = position else {
            return Err(Error::invalid(format!("{device} is not a device of this context")));
        };
        let own = devices[position].1;
        let id = completion.map_or(Ok(own), |wanted| this.twin(device, position, own, wanted))?;
        Ok(Arc::new(DeviceSlot { device: device.clone(), id, position, context: this.clone() }))
    }

    /// The device with lanes that learn of their work's end in the way that is wanted; they are opened at first need.
    fn twin(
        &self,
        device: &Device,
        position: usize,
        own: DeviceId,
        wanted: CompletionStrategy,
    ) -> Result<DeviceId> {
        let info = self.native.info();
        if info.completions.first() == Some(&wanted) {
            return Ok(own);
        }
        if !info.completions.contains(&wanted) {
            let offered: Vec<String> = info.completions.iter().map(ToString::to_string).collect();
            return Err(Error::unsupported(format!(
                "{device} does not report completions by {wanted}; it offers: {}",
                offered.join(", ")
            )));
        }
        let inner = device.runtime().inner();
        let mut chores = Chores::lend(false);
        let twin = self.find_or_open(inner, position, own, wanted, &mut chores);
        inner.perform(&mut chores);
        twin
    }

    /// Two threads may come here at once, so lanes are opened under a lock. What else those turns at the desk leave to do
    /// waits until it is free. Lanes that could not be opened belong to a device that nobody ever hears of.
    fn find_or_open(
        &self,
        inner: &Arc<Inner>,
        position: usize,
        own: DeviceId,
        wanted: CompletionStrategy,
        chores: &mut Chores,
    ) -> Result<DeviceId> {
        let mut twins = lock(&self.twins);
        if let Some(there) = twins.get(&(position, wanted)) {
            return Ok(*there);
        }
        let info = &self.native.info().devices[position];
        let (twin, lanes) = inner.sit(chores, |state, _| {
            let twin = state.engine.add_twin(own);
            (twin, reserve_lanes(state, twin, info))
        });
        self.open_lanes(inner, position, Some(wanted), &lanes, chores)?;
        twins.insert((position, wanted), twin);
        Ok(twin)
    }
}

/// What is known of a memory; nothing of the heap.
fn native_memory(info: &ContextInfo, index: MemoryIndex) -> Option<&MemoryInfo> {
    match index {
        MemoryIndex::Heap => None,
        MemoryIndex::Own(at) => info.memories.get(at as usize),
    }
}

/// Refuses a context that names memories which it does not describe.
fn check_info(info: &ContextInfo) -> Result<()> {
    let missing =
        |of: &&DeviceInfo| of.memory != MemoryIndex::Heap && native_memory(info, of.memory).is_none();
    let wrong = match info.devices.iter().find(missing) {
        Some(device) => format!("{}'s {:?}, which its context does not describe", device.name, device.memory),
        None if info.completions.is_empty() => "a context that cannot learn of its work's end".into(),
        None => return Ok(()),
    };
    Err(Error::backend(BackendError::Unsupported(wrong), "opening a context"))
}

/// Makes a device's lanes known to the engine.
fn reserve_lanes(state: &mut State, device: DeviceId, info: &DeviceInfo) -> Vec<LaneId> {
    let lanes = (0..info.lanes.max(1)).map(|_| {
        let lane = state.engine.add_lane(device, info.depth.commands);
        state.reserve_lane(lane);
        lane
    });
    lanes.collect()
}

/// A memory of a context's own. What the host reaches is copied on the host's side, without staging.
fn add_memory(engine: &mut Engine<Windlass>, addressable: bool, staged: bool) -> MemoryId {
    let memory = engine.add_memory(addressable);
    if staged && !addressable {
        engine.stage_host_copies(memory);
    }
    memory
}
