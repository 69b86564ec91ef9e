//! Contexts: memory, kernels and lanes of scripted devices.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;

use windlass_backend::{
    Allocation, Aspect, AtomicOrders, AtomicScopes, BackendError, BuiltKernel, CompletionStrategy, Context,
    ContextInfo, Lane, LaneSink, LaneSpec, MemoryObject, async_trait,
};
use windlass_kernel::{Kernel, KernelImage};

use crate::builder::Config;
use crate::kernel::FaultyKernel;
use crate::lane::FaultyLane;
use crate::machine::{ContextState, LaneState, Machine, Shared};
use crate::memory::{FaultyMemory, Owner};
use crate::script::{Call, due};

pub(crate) struct FaultyContext {
    at: usize,
    info: ContextInfo,
    shared: Arc<Shared>,
}

impl FaultyContext {
    pub(crate) fn new(config: &Config, devices: &[usize], shared: Arc<Shared>) -> Self {
        let mut machine = shared.lock();
        machine.called();
        let at = machine.contexts.len();
        machine.contexts.push(ContextState::default());
        machine.audit.contexts += 1;
        drop(machine);
        let info = ContextInfo {
            devices: devices.iter().enumerate().map(|(i, &at)| config.info(at, i)).collect(),
            completions: vec![CompletionStrategy::Callback, CompletionStrategy::Waiter],
            feeds_from_sink: config.feeds_from_sink,
            arms_freely: true,
            allocate_blocks: config.allocate_blocks,
            pageable_copies_block: config.pageable_copies_block,
            atomic_orders: AtomicOrders::SequentiallyConsistent,
            atomic_scopes: AtomicScopes::System,
        };
        FaultyContext { at, info, shared }
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
        let full = script.bytes_cap.is_some_and(|cap| audit.bytes + bytes > cap);
        let scripted = !staging && due(&mut script.allocations).is_some();
        match full || scripted || staging && script.no_staging {
            true => Err(BackendError::OutOfMemory { bytes }),
            false => Ok(()),
        }
    }
}

#[async_trait]
impl Context for FaultyContext {
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
            self.shared.breach(format!("two lanes of one context are called {number:?}"));
        }
        let at = machine.lanes.len();
        machine.lanes.push(LaneState::new(self.at, number, self.info.devices[device].lane_depth, sink));
        machine.audit.lanes += 1;
        Ok(Arc::new(FaultyLane::new(at, self.at, self.shared.clone())))
    }

    fn allocate(&self, device: usize, object: MemoryObject) -> Result<Arc<dyn Allocation>, BackendError> {
        let bytes = object.bytes();
        if bytes == 0 {
            self.shared.breach("an allocation of nothing".into());
        }
        self.room(bytes, false)?;
        let panics = self.shared.lock().script.panics_now(Call::Allocate);
        assert!(!panics, "a scripted panic in allocate");
        let visible = self.info.devices[device].has(Aspect::HostBodies);
        Ok(Arc::new(FaultyMemory::new(bytes, Owner::Context(self.at), visible, &self.shared)?))
    }

    fn allocate_staging(&self, bytes: usize) -> Result<Arc<dyn Allocation>, BackendError> {
        self.room(bytes, true)?;
        Ok(Arc::new(FaultyMemory::new(bytes, Owner::StagingOf(self.at), true, &self.shared)?))
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
                Ok(Arc::new(FaultyKernel { name, body, context: self.at, shared }))
            }
        }
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
