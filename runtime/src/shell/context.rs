//! Contexts as the shell has them: a native context, with its devices, memories and lanes in the engine.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, OnceLock, Weak};

use windlass_backend::{
    Aspect, BackendError, ClockSample, CompletionStrategy, Context as NativeContext, DeviceInfo, Lane,
    LaneNumber, LaneRole, LaneSink, LaneSpec, MemoryIndex, Priority,
};
use windlass_kernel::Kernel;
use windlass_sync::facade::{Mutex, lock};
use windlass_sync::forked;
use windlass_sync::panics::catch;

use super::waking::catch_native;

use super::blank::Blank;
use super::build::{Builds, Built, Values};
use super::devices::DeviceData;
use super::kept::Kept;
use super::memory::Remains;
use super::place::{check_info, traits};
use super::pool::Pool;
use super::sink::{ContextLoss, Sink};
use super::{Effects, Inner, LaneShell, MemoryShell, NativeCalls, State};
use crate::error::{Cause, Error, Result};
use windlass_engine::{ContextId, Depth, DeviceId, DomainId, HEAP, LaneId, MemoryId, MemoryTraits};

/// A native context with its devices and lanes in the engine. When the last handle goes (a context, a queue, an event of
/// one of its groups), the context is closed as soon as no data needs it.
#[derive(Debug)]
pub(crate) struct ContextShared {
    pub(crate) native: Arc<dyn NativeContext>,
    builds: Builds,
    inner: Weak<Inner>,
    id: ContextId,
    pub(super) domain: DomainId,
    /// What its devices are called, by their positions.
    names: Vec<Arc<str>>,
    pub(super) devices: OnceLock<Vec<(Arc<DeviceData>, DeviceId)>>,
    /// What the engine calls the memories that its devices use.
    pub(super) memories: OnceLock<Vec<(MemoryIndex, MemoryId)>>,
    /// The devices with lanes of other kinds than the usual, by position; opened at first need.
    kinds: Mutex<HashMap<(usize, LaneKind), DeviceId>>,
    pub(super) staging: Arc<Pool>,
    /// None in a runtime that is driven by hand: no thread of its own would let go of what is kept.
    pub(super) kept: Option<Arc<Kept>>,
}

impl Drop for ContextShared {
    fn drop(&mut self) {
        // A runtime that is gone has closed its contexts, and of what a parent process has open nothing is dropped.
        let builds = std::mem::take(&mut self.builds);
        if forked::is_child() {
            return std::mem::forget((builds, self.native.clone()));
        }
        let Some(inner) = self.inner.upgrade() else { return };
        inner.reaper.defer_drop(Remains::Kernels(builds), &inner);
        let closed = Cause(Error::invalid("the context has been closed: its last handle is gone"));
        inner.enter_without_native_calls(|state, turn| state.engine.close_when_unused(self.id, closed, turn));
    }
}

/// One device of a context, as queues use it.
#[derive(Debug)]
pub(crate) struct DeviceSlot {
    pub(crate) device: Arc<DeviceData>,
    pub(crate) id: DeviceId,
    pub(super) position: usize,
    pub(crate) context: Arc<ContextShared>,
}

impl DeviceSlot {
    pub(super) fn new(
        device: Arc<DeviceData>,
        id: DeviceId,
        position: usize,
        context: Arc<ContextShared>,
    ) -> Self {
        DeviceSlot { device, id, position, context }
    }

    /// What its device is called.
    pub(super) fn called(&self) -> Arc<str> {
        self.context.names[self.position].clone()
    }

    pub(crate) fn runs_host_bodies(&self) -> bool {
        self.device.has(Aspect::HostBodies)
    }

    /// Whether it is the same device of the same context, whatever its lanes.
    pub(crate) fn is_same(&self, other: &DeviceSlot) -> bool {
        Arc::ptr_eq(&self.context, &other.context) && self.position == other.position
    }

    /// Where the device stands in its context.
    pub(crate) fn position(&self) -> usize {
        self.position
    }

    pub(crate) fn build(&self, inner: &Arc<Inner>, kernel: &Kernel, values: Values) -> Result<Arc<Built>> {
        self.context.builds.get(inner, &self.context.native, self.position, kernel, values)
    }

    /// What the device's clock and the host's say now.
    pub(crate) fn clock(&self) -> Result<ClockSample> {
        let clock = || self.context.native.clock(self.position);
        let sample = self.device.has(Aspect::Profiling).then(|| catch(clock).ok().flatten()).flatten();
        let none = || Error::unsupported(format!("{} has no clock to tell when groups run", self.device));
        sample.ok_or_else(none)
    }
}

impl fmt::Display for ContextShared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<String> = self.devices().map(ToString::to_string).collect();
        write!(f, "the context of {}", names.join(", "))
    }
}

impl ContextShared {
    /// Makes an open context's devices, memories and lanes known to the engine. Only the runtime's own context of a host
    /// device works on the heap in place; every other has memory of its own.
    pub(crate) fn new(
        inner: &Arc<Inner>,
        native: Arc<dyn NativeContext>,
        told: &ContextLoss,
        devices: &[Arc<DeviceData>],
        own: bool,
    ) -> Result<Arc<Self>> {
        let opened = native.info().devices.len();
        if opened != devices.len() || opened == 0 {
            let wrong = format!("a context of {opened} devices where {} were asked for", devices.len());
            return Err(Error::backend(BackendError::Unsupported(wrong), "opening a context"));
        }
        let domain = native.info().domain.map(|domain| (devices[0].at.0, domain));
        let (domain, id) = inner.enter_without_native_calls(|state, _| {
            let domain = state.domain(domain);
            (domain, state.engine.add_context(domain))
        });
        let shared = Arc::new(ContextShared {
            native,
            builds: Builds::default(),
            inner: Arc::downgrade(inner),
            id,
            domain,
            names: devices.iter().map(|device| device.to_string().into()).collect(),
            devices: OnceLock::new(),
            memories: OnceLock::new(),
            kinds: Mutex::default(),
            staging: Arc::new(Pool::new(inner.staging.bytes)),
            kept: (!inner.manual).then(|| Arc::new(Kept::new(Arc::downgrade(inner)))),
        });
        let ids = shared.register(inner, own)?;
        told.set_context(id);
        let _ = shared.devices.set(devices.iter().cloned().zip(ids).collect());
        inner.hangs.watch(inner, &shared);
        Ok(shared)
    }

    pub(super) fn memory_shell(&self, index: MemoryIndex) -> MemoryShell {
        let (staging, kept) = (Arc::downgrade(&self.staging), self.kept.as_ref().map(Arc::downgrade));
        MemoryShell::new(self.native.clone(), index, self.domain, staging, kept)
    }

    fn register(&self, inner: &Arc<Inner>, own: bool) -> Result<Vec<DeviceId>> {
        let info = self.native.info();
        check_info(info)?;
        let (infos, at_leisure) = (&info.devices, info.reports_at_leisure);
        if !info.waiters_look.is_zero() {
            let _ = inner.somebody_looks.set(());
        }
        let named = infos.iter().flat_map(|of| std::iter::once(of.memory).chain(of.reaches.iter().copied()));
        // The backend is asked before the lock is taken.
        let described: HashMap<MemoryIndex, (MemoryTraits, MemoryShell)> = named
            .map(|index| (index, (traits(info, index, self.kept.is_some()), self.memory_shell(index))))
            .collect();
        let mut memories: Vec<(MemoryIndex, MemoryId)> = Vec::new();
        let ids: Vec<(DeviceId, Vec<(LaneId, LaneRole)>)> = inner.enter_without_native_calls(|state, _| {
            let mut ids = Vec::new();
            for info in infos {
                let mut memory =
                    |state: &mut State, index| match memories.iter().find(|(known, _)| *known == index) {
                        Some((_, id)) => *id,
                        None => {
                            let id = self.add_memory(state, index, &described[&index], own);
                            memories.push((index, id));
                            id
                        }
                    };
                let reaches: Vec<MemoryId> = info.reaches.iter().map(|index| memory(state, *index)).collect();
                let own = memory(state, info.memory);
                let device = state.engine.add_device(self.id, own);
                if at_leisure {
                    state.engine.report_at_leisure(device);
                }
                reaches.into_iter().for_each(|memory| state.engine.add_reach(device, memory));
                ids.push((device, reserve_lanes(state, device, info)));
            }
            ids
        });
        let _ = self.memories.set(memories);
        self.link(inner);
        let mut effects = Effects::scratch(NativeCalls::Here);
        let mut each = ids.iter().enumerate();
        let opened = each.try_for_each(|(position, (_, lanes))| {
            self.open_lanes(inner, position, LaneKind::default(), lanes, &mut effects)
        });
        inner.perform(&mut effects);
        drop(effects);
        if let Err(error) = opened {
            // The engine knows the devices already: nobody may count on them.
            inner.enter_without_native_calls(|state, turn| {
                for (lane, _) in ids.iter().flat_map(|(_, lanes)| lanes) {
                    state.lose_lane(*lane, Cause(error.clone()), turn);
                }
            });
            return Err(error);
        }
        Ok(ids.into_iter().map(|(id, _)| id).collect())
    }

    /// Makes a memory known to the engine.
    fn add_memory(
        &self,
        state: &mut State,
        index: MemoryIndex,
        (traits, shell): &(MemoryTraits, MemoryShell),
        own: bool,
    ) -> MemoryId {
        if own && index == MemoryIndex::Heap {
            return HEAP;
        }
        let memory = state.engine.add_memory(self.id, *traits);
        state.memories.insert(memory, shell.clone());
        memory
    }

    /// What the turns of the lock leave to be done is the caller's to perform.
    fn open_lanes(
        &self,
        inner: &Arc<Inner>,
        position: usize,
        kind: LaneKind,
        lanes: &[(LaneId, LaneRole)],
        effects: &mut Effects,
    ) -> Result<()> {
        let blank = self.blank(position)?;
        for lane in lanes {
            let open = |spec, sink| self.native.open_lane(spec, sink);
            self.open_lane(inner, (position, kind), *lane, &blank, open, effects)?;
        }
        Ok(())
    }

    /// What stands in for empty arguments on lanes of a device.
    pub(super) fn blank(&self, position: usize) -> Result<Arc<Blank>> {
        let blank = catch_native(|| Blank::new(self.native.info().devices[position].memory, &*self.native));
        blank.map(Arc::new).map_err(|e| Error::backend(e, "allocating memory for empty arguments"))
    }

    /// A lane with its native end, which `open` makes.
    pub(super) fn open_lane(
        &self,
        inner: &Arc<Inner>,
        (position, kind): (usize, LaneKind),
        (lane, role): (LaneId, LaneRole),
        blank: &Arc<Blank>,
        open: impl FnOnce(LaneSpec, Arc<dyn LaneSink>) -> std::result::Result<Arc<dyn Lane>, BackendError>,
        effects: &mut Effects,
    ) -> Result<()> {
        let info = self.native.info();
        let needs_its_staging =
            info.pageable_upload_limit < usize::MAX || info.pageable_download_limit < usize::MAX;
        let completion = kind.completion.or(info.completions.first().copied());
        let own_thread = matches!(completion, Some(CompletionStrategy::Waiter | CompletionStrategy::Poller));
        let may_feed = info.feeds_from_sink || own_thread;
        let number = LaneNumber(lane.0);
        let mut spec = LaneSpec::new(position, number).role(role).priority(kind.priority).timed(kind.timed);
        spec.completion = kind.completion;
        let sink = Sink { inner: Arc::downgrade(inner), lane, may_feed };
        let native = catch_native(|| open(spec, Arc::new(sink)));
        let native = native.map_err(|e| Error::backend(e, "opening a lane"))?;
        let (context, staging, blank) = (self.native.clone(), self.staging.clone(), blank.clone());
        let (fed_aside, fed_anywhere, kept) = (info.fed_aside, info.fed_anywhere, self.kept.clone());
        let device = self.names[position].clone();
        let shell = LaneShell {
            id: lane,
            native,
            context,
            number,
            staging,
            kept,
            needs_its_staging,
            blank,
            fed_aside,
            fed_anywhere,
            timed: kind.timed,
            device,
        };
        inner.set_lane(shell, effects);
        Ok(())
    }

    /// Says which of the context's memories lanes copy to from where: those of the context itself, and those of all contexts
    /// in its domain that are open. Nobody is asked under the lock.
    fn link(&self, inner: &Arc<Inner>) {
        let all: Vec<(MemoryId, MemoryShell)> = inner.enter_without_native_calls(|state, _| {
            // What stays in a memory that no device has for its own is copied from and to there by commands alone.
            let of_domain = state.memories.iter();
            let of_domain = of_domain.filter(|(_, memory)| memory.domain == self.domain && memory.is_own);
            of_domain.map(|(id, memory)| (*id, memory.clone())).collect()
        });
        let own = |memory: &MemoryShell| Arc::ptr_eq(&memory.context, &self.native);
        let mut links = Vec::new();
        for (from, source) in &all {
            for (to, target) in &all {
                let asked = from != to && (own(source) || own(target));
                let copies = || target.context.copies_from(&*source.context, source.index, target.index);
                if asked && catch(copies).unwrap_or(false) {
                    links.push((*from, *to));
                }
            }
        }
        inner.enter_without_native_calls(|state, _| {
            links.iter().for_each(|(from, to)| state.engine.add_link(*from, *to))
        });
    }

    /// See [`Context::abandon`](crate::Context::abandon). The engine is told first that this is coming: whoever feeds a lane meanwhile finds it lost, and that
    /// is not to free what the device may still touch. Then the backend hears of it, and takes no more; and then all ends.
    pub(crate) fn abandon(&self, inner: &Arc<Inner>) {
        self.give_up(inner, "its context was given up".into());
    }

    /// The same, for a reason.
    pub(super) fn give_up(&self, inner: &Arc<Inner>, why: String) {
        inner.enter_without_native_calls(|state, _| state.engine.will_abandon(self.id));
        if let Err(panic) = catch(|| self.native.abandon()) {
            tracing::error!(message = panic.message(), "a backend panicked when a context was given up");
        }
        let cause = Cause(Error::backend(BackendError::Lost(why), "running a group"));
        inner.enter_without_native_calls(|state, turn| state.lose(self.id, cause, turn));
    }

    /// The engine's name of it.
    pub(super) fn id(&self) -> ContextId {
        self.id
    }

    /// Its devices.
    pub(crate) fn devices(&self) -> impl Iterator<Item = &Arc<DeviceData>> {
        self.devices.get().into_iter().flatten().map(|(data, _)| data)
    }

    /// Whether nothing is taken any more.
    pub(crate) fn is_lost(&self) -> bool {
        let device = self.devices.get().and_then(|devices| devices.first());
        let inner = device.and_then(|(_, id)| Some((self.inner.upgrade()?, *id)));
        inner.is_some_and(|(inner, id)| {
            inner.enter_without_native_calls(|state, _| state.engine.lost(id).is_some())
        })
    }

    /// A device of this context, with lanes of the kind that is wanted.
    pub(crate) fn slot(
        this: &Arc<Self>,
        inner: &Arc<Inner>,
        device: &Arc<DeviceData>,
        kind: LaneKind,
    ) -> Result<Arc<DeviceSlot>> {
        let devices = this.devices.get().map(Vec::as_slice).unwrap_or_default();
        let position = devices.iter().position(|(data, _)| data.is_same(device));
        let Some(position) = position else {
            return Err(Error::invalid(format!("{device} is not a device of this context")));
        };
        let usual = devices[position].1;
        let id = this.lanes_of_kind(inner, device, position, usual, kind)?;
        Ok(Arc::new(DeviceSlot::new(device.clone(), id, position, this.clone())))
    }

    /// The device with lanes of a kind; other than the usual ones are opened at first need.
    fn lanes_of_kind(
        &self,
        inner: &Arc<Inner>,
        device: &DeviceData,
        position: usize,
        usual: DeviceId,
        wanted: LaneKind,
    ) -> Result<DeviceId> {
        let info = self.native.info();
        let wanted = self.with_completion(device, wanted)?;
        if wanted.priority != Priority::Normal && !info.devices[position].has(Aspect::Priorities) {
            let priority = wanted.priority;
            return Err(Error::unsupported(format!("{device} has no lanes of {priority} priority")));
        }
        if wanted == LaneKind::default() {
            return Ok(usual);
        }
        let mut effects = Effects::scratch(NativeCalls::Here);
        let found = self.find_or_open(inner, position, usual, wanted, &mut effects);
        inner.perform(&mut effects);
        found
    }

    /// Refuses a way to learn of the end of work that there is not; the one that is best anyhow is none in particular.
    pub(super) fn with_completion(&self, device: &DeviceData, wanted: LaneKind) -> Result<LaneKind> {
        let offered = &self.native.info().completions;
        if let Some(completion) = wanted.completion.filter(|c| !offered.contains(c)) {
            let offered: Vec<String> = offered.iter().map(ToString::to_string).collect();
            return Err(Error::unsupported(format!(
                "{device} does not report completions by {completion}; it offers: {}",
                offered.join(", ")
            )));
        }
        let is_first = offered.first() == wanted.completion.as_ref();
        Ok(LaneKind { completion: wanted.completion.filter(|_| !is_first), ..wanted })
    }

    /// Two threads may come here at once, so lanes are opened under a lock. What else those turns of the engine's lock leave to do
    /// waits until it is free. Lanes that could not be opened belong to a device that nobody ever hears of.
    fn find_or_open(
        &self,
        inner: &Arc<Inner>,
        position: usize,
        usual: DeviceId,
        wanted: LaneKind,
        effects: &mut Effects,
    ) -> Result<DeviceId> {
        let mut kinds = lock(&self.kinds);
        if let Some(there) = kinds.get(&(position, wanted)) {
            return Ok(*there);
        }
        let info = &self.native.info().devices[position];
        let (device, lanes) = inner.with_state(effects, |state, _| {
            let device = state.engine.add_lane_group(usual);
            (device, reserve_compute_lanes(state, device, info))
        });
        self.open_lanes(inner, position, wanted, &lanes, effects)?;
        kinds.insert((position, wanted), device);
        Ok(device)
    }
}

/// Makes a device's lanes known to the engine: those that compute, and those that copy.
fn reserve_lanes(state: &mut State, device: DeviceId, info: &DeviceInfo) -> Vec<(LaneId, LaneRole)> {
    let mut lanes = reserve_compute_lanes(state, device, info);
    for _ in 0..info.copy_lanes {
        let lane = state.engine.add_copy_lane(device, depth(info));
        state.reserve_lane(lane);
        lanes.push((lane, LaneRole::Copy));
    }
    lanes
}

fn reserve_compute_lanes(state: &mut State, device: DeviceId, info: &DeviceInfo) -> Vec<(LaneId, LaneRole)> {
    let lanes = (0..info.lanes.max(1)).map(|_| {
        let lane = state.engine.add_lane(device, depth(info));
        state.reserve_lane(lane);
        (lane, LaneRole::Compute)
    });
    lanes.collect()
}

pub(super) fn depth(info: &DeviceInfo) -> Depth {
    let count = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
    Depth { commands: count(info.depth.commands), reports: count(info.depth.reports) }
}

/// What lanes of a device may differ in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct LaneKind {
    /// How they learn that work has ended, where that is not the driver's own way.
    pub(crate) completion: Option<CompletionStrategy>,
    pub(crate) priority: Priority,
    /// Whether they time their groups.
    pub(crate) timed: bool,
}
