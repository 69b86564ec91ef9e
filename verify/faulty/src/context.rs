//! Contexts: memory, kernels and lanes of scripted devices.

use std::any::Any;
use std::fmt;
use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;
use std::time::Instant;

use windlass_backend::{
    Allocation, Aspect, BackendError, BuiltKernel, ClockSample, Contents, Context, ContextInfo, ContextSink,
    HostAccess, ImageShape, Keeps, Lane, LaneRole, LaneSink, LaneSpec, MemoryIndex, MemoryObject,
    NativeQueue, Node, Priority, Sequence, Usage, async_trait, native_object, native_object_of,
};
use windlass_kernel::{Kernel, KernelImage};

use crate::builder::Config;
use crate::kernel::{FaultyKernel, Refused};
use crate::lane::FaultyLane;
use crate::machine::{ContextState, LaneState, Machine, Shared};
use crate::memory::{FaultyMemory, Kind, Owner};
use crate::native::OwnQueue;
use crate::script::{Call, due};
use crate::sequence::FaultySequence;

/// A context of scripted devices; see [`native`](crate::native).
pub struct FaultyContext {
    pub(crate) at: usize,
    info: ContextInfo,
    is_stream_ordered: bool,
    shared: Arc<Shared>,
}

impl fmt::Debug for FaultyContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FaultyContext").field("number", &self.at).finish_non_exhaustive()
    }
}

impl FaultyContext {
    pub(crate) fn new(
        config: &Config,
        devices: &[usize],
        sink: Arc<dyn ContextSink>,
        shared: Arc<Shared>,
    ) -> Self {
        let info = config.context(devices);
        let mut machine = shared.lock();
        machine.called();
        let at = machine.contexts.len();
        let domain = info.domain;
        machine.may_block();
        let pageable = (info.pageable_upload_limit, info.pageable_download_limit);
        let waiters_look = !info.waiters_look.is_zero();
        let (lost, closed, abandoned) = (None, false, false);
        let state = ContextState { lost, closed, abandoned, domain, pageable, waiters_look, sink };
        machine.contexts.push(state);
        machine.audit.contexts += 1;
        drop(machine);
        FaultyContext { at, info, is_stream_ordered: config.stream_ordered, shared }
    }

    /// What an allocation in one of its memories is like.
    fn kind(&self, memory: usize, is_own: bool, object: &MemoryObject) -> Kind {
        let info = self.info.memories[memory];
        let image = if let MemoryObject::Image(shape) = object { Some(*shape) } else { None };
        let wrong = |shape: &ImageShape| {
            let left_out = 3 - shape.dims.min(3);
            !info.holds(shape) || shape.dims == 0 || shape.size[..left_out] != [1; 3][..left_out]
        };
        if image.as_ref().is_some_and(wrong) {
            self.shared.breach(format!("{object:?} in {info:?}"));
        }
        Kind {
            owner: Owner::Context(self.at),
            host: info.host,
            spoilt: is_own && info.fresh == Contents::Any,
            image,
            has_address: self.info.devices.iter().any(|device| device.has(Aspect::Pointers)),
            is_ordered: self.is_stream_ordered && is_own && info.host == HostAccess::None,
        }
    }

    /// Whether the script lets this allocation be.
    fn room(&self, bytes: usize, staging: bool) -> Result<(), BackendError> {
        let mut machine = self.shared.lock();
        machine.called();
        machine.audit.allocates += 1;
        let Machine { script, audit, contexts, .. } = &mut *machine;
        if let Some(why) = &contexts[self.at].lost {
            return Err(BackendError::Lost(why.clone()));
        }
        let in_buffers = audit.bytes - audit.staging_bytes;
        let full = script.bytes_cap.is_some_and(|cap| audit.bytes + bytes > cap)
            || !staging && script.buffers_cap.is_some_and(|cap| in_buffers + bytes > cap);
        let scripted = !staging && due(&mut script.allocations).is_some();
        match full || scripted || staging && script.no_staging {
            true => Err(BackendError::OutOfMemory { bytes }),
            false => Ok(()),
        }
    }
}

// SAFETY: allocations are `FaultyMemory` over memory of their own. Lanes use it as commands say: see `FaultyLane`. Memory that is
// said to be zeroed comes so from the allocator.
#[async_trait]
unsafe impl Context for FaultyContext {
    fn info(&self) -> &ContextInfo {
        &self.info
    }

    fn open_lane(&self, spec: LaneSpec, sink: Arc<dyn LaneSink>) -> Result<Arc<dyn Lane>, BackendError> {
        let (device, number) = (spec.device, spec.number);
        let mut machine = self.shared.lock();
        machine.called();
        let panics = machine.script.panics_now(Call::OpenLane);
        if let Some(error) = machine.script.open_lane.take() {
            return Err(error);
        }
        if panics {
            drop(machine);
            panic!("a scripted panic in open_lane");
        }
        if machine.find(self.at, number).is_some() {
            drop(machine);
            self.shared.breach(format!("two lanes of one domain are called {number:?}"));
        }
        let info = &self.info.devices[device];
        let extra = spec.role == LaneRole::Copy && info.copy_lanes == 0
            || spec.priority != Priority::Normal && !info.has(Aspect::Priorities)
            || spec.timed && !info.has(Aspect::Profiling);
        if extra {
            drop(machine);
            self.shared.breach(format!("{spec:?}, which the device does not offer"));
        }
        let at = machine.lanes.len();
        machine.lanes.push(LaneState::new(self.at, spec, info.depth, sink));
        machine.audit.lanes += 1;
        Ok(Arc::new(FaultyLane::new(at, self.at, self.shared.clone())))
    }

    fn native_queue(&self, queue: &dyn Any) -> Result<NativeQueue, BackendError> {
        let OwnQueue { context, device, times, in_order } = native_object_of(queue)?;
        self.shared.lock().called();
        let refused = |why: &str| Err(BackendError::Unsupported(format!("a scripted queue {why}")));
        match self.info.devices.get(*device) {
            _ if *context != self.at => refused("of another context"),
            _ if !in_order => refused("that runs its groups in any order"),
            None => refused("of a device that its context does not have"),
            Some(info) => Ok(NativeQueue::new(*device).times(*times && info.has(Aspect::Profiling))),
        }
    }

    fn adopt_lane(
        &self,
        queue: Box<dyn Any + Send>,
        spec: LaneSpec,
        sink: Arc<dyn LaneSink>,
    ) -> Result<Arc<dyn Lane>, BackendError> {
        let queue: OwnQueue = native_object(queue)?;
        let of = self.native_queue(&queue)?;
        if spec.device != of.device || spec.role != LaneRole::Compute || spec.priority != Priority::Normal {
            self.shared.breach(format!("{spec:?} of {of:?}"));
        }
        if spec.timed && !of.times {
            self.shared.breach(format!("{spec:?} of a queue that does not time"));
        }
        self.open_lane(spec, sink)
    }

    fn allocate(
        &self,
        memory: MemoryIndex,
        object: MemoryObject,
    ) -> Result<Arc<dyn Allocation>, BackendError> {
        let bytes = object.bytes();
        if bytes == 0 {
            self.shared.breach("an allocation of nothing".into());
        }
        self.room(bytes, false)?;
        let panics = self.shared.lock().script.panics_now(Call::Allocate);
        assert!(!panics, "a scripted panic in allocate");
        // A context of the user's over a device that works on the heap has memory of its own.
        let last = self.info.memories.len() - 1;
        let of = match memory {
            MemoryIndex::Own(of) => of as usize,
            MemoryIndex::Heap => last,
        };
        let kind = self.kind(of, memory != MemoryIndex::Heap, &object);
        Ok(Arc::new(FaultyMemory::new(bytes, kind, &self.shared)?))
    }

    fn import(
        &self,
        memory: MemoryIndex,
        host: Arc<dyn Allocation>,
    ) -> Result<Arc<dyn Allocation>, BackendError> {
        self.room(0, false)?;
        let MemoryIndex::Own(of) = memory else { self.shared.breach("an import to the heap".into()) };
        let (of, start) = (of as usize, host.host_ptr().map_or(0, |start| start.addr().get()));
        if !self.info.memories[of].imports.is_some_and(|alignment| start.is_multiple_of(alignment)) {
            self.shared.breach(format!("memory at {start:#x} was to be imported to {memory:?}"));
        }
        let object = MemoryObject::Buffer { bytes: host.bytes() };
        let kind = Kind { spoilt: false, is_ordered: false, ..self.kind(of, true, &object) };
        Ok(Arc::new(FaultyMemory::import(host, kind, &self.shared)?))
    }

    fn piece(
        &self,
        whole: &Arc<dyn Allocation>,
        at: usize,
        bytes: usize,
    ) -> Result<Arc<dyn Allocation>, BackendError> {
        if let Some(why) = self.shared.lock().contexts[self.at].lost.clone() {
            return Err(BackendError::Lost(why));
        }
        match FaultyMemory::piece(whole, at, bytes) {
            Ok(piece) => Ok(Arc::new(piece)),
            Err(wrong) => self.shared.breach(wrong),
        }
    }

    fn allocate_staging(&self, bytes: usize) -> Result<Arc<dyn Allocation>, BackendError> {
        self.room(bytes, true)?;
        let panics = self.shared.lock().script.panics_now(Call::AllocateStaging);
        assert!(!panics, "a scripted panic in allocate_staging");
        Ok(Arc::new(FaultyMemory::new(bytes, Kind::staging(self.at), &self.shared)?))
    }

    fn usage(&self, _memory: MemoryIndex) -> Option<Usage> {
        let machine = self.shared.lock();
        let total = machine.script.bytes_cap.unwrap_or(1 << 30);
        Some(Usage::new(machine.audit.bytes as u64, total as u64))
    }

    fn trim(&self, _memory: MemoryIndex) {
        let mut machine = self.shared.lock();
        machine.called();
        machine.audit.trims += 1;
    }

    fn copies_from(&self, other: &dyn Context, _from: MemoryIndex, _to: MemoryIndex) -> bool {
        let machine = self.shared.lock();
        let other = (other as &dyn Any).downcast_ref::<FaultyContext>();
        other.is_some_and(|other| other.at == self.at || !machine.script.no_peer_copies)
    }

    fn clock(&self, _device: usize) -> Option<ClockSample> {
        Some(ClockSample::new(self.shared.lock().now, Instant::now()))
    }

    async fn build(
        &self,
        _device: usize,
        kernel: &Kernel,
        image: &KernelImage,
    ) -> Result<Arc<dyn BuiltKernel>, BackendError> {
        self.shared.build_called();
        poll_fn(|cx| {
            let script = &mut self.shared.lock().script;
            if !script.slow_builds {
                return Poll::Ready(());
            }
            script.waiting_builds.push(cx.waker().clone());
            Poll::Pending
        })
        .await;
        let mut machine = self.shared.lock();
        let body = image.body().cloned().ok_or_else(|| format!("no {:?} here", image.format()));
        let scripted = machine.script.build.take().map_or(Ok(()), Err);
        match scripted.and(body) {
            Err(log) => Err(BackendError::Build { kernel: kernel.name().into(), log }),
            Ok(body) => {
                machine.audit.kernels += 1;
                let (name, shared) = (kernel.name().to_owned(), self.shared.clone());
                let limits = machine.script.kernel_limits;
                Ok(Arc::new(FaultyKernel { name, body, limits, context: self.at, shared }))
            }
        }
    }

    unsafe fn record(
        &self,
        _device: usize,
        nodes: &[Node<'_>],
        keeps: Keeps,
    ) -> Result<Arc<dyn Sequence>, BackendError> {
        if let Some(error) = self.shared.lock().script.record.take() {
            return Err(error);
        }
        match FaultySequence::new(nodes, keeps, self.at, &self.shared) {
            Ok(sequence) => Ok(Arc::new(sequence)),
            Err(Refused::Error(error)) => Err(error),
            Err(Refused::Breach(what)) => self.shared.breach(what),
        }
    }

    fn abandon(&self) {
        self.shared.lock().contexts[self.at].abandoned = true;
        let over = self.shared.lock().lose(self.at, "it was abandoned");
        // What hangs is leaked, as the contract has it.
        std::mem::forget(over);
        let hook = self.shared.lock().script.on_abandon.take();
        hook.into_iter().for_each(|hook| hook());
    }

    async fn close(&self) {
        let mut machine = self.shared.lock();
        let again = std::mem::replace(&mut machine.contexts[self.at].closed, true);
        let lost = machine.contexts[self.at].lost.is_some();
        let of_this = |l: &&LaneState| l.context == self.at && l.sink.is_some();
        let unreported: usize = machine.lanes.iter().filter(of_this).map(|l| l.unreported.len()).sum();
        drop(machine);
        if again {
            self.shared.note_breach("a context was closed twice");
        }
        if unreported > 0 && !lost {
            self.shared
                .note_breach(&format!("a context was closed before the verdicts of {unreported} groups"));
        }
    }
}

impl Drop for FaultyContext {
    fn drop(&mut self) {
        self.shared.lock().audit.contexts -= 1;
    }
}
