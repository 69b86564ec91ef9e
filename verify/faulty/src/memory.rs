//! The devices' memory.

use std::any::Any;
use std::fmt;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicUsize, Ordering};

use windlass_backend::{Allocation, BackendError, HostAccess, HostMemory, ImageShape};

use crate::audit::Audit;
use crate::machine::Shared;
use crate::window::{Window, layout};

/// What an allocation owns; groups that use it keep it from being freed under them, and note that it was let go of.
pub(crate) struct Block {
    /// What devices see.
    memory: Bytes,
    /// What the host sees of memory that is mapped for it: only then the same.
    view: Option<Bytes>,
    side: AtomicU8,
    /// Memory is there when the devices' memory stream has come to it. Until then nobody is to use it.
    is_there: AtomicBool,
    spoilt: bool,
    /// Groups that use it, fed and not reported.
    used: AtomicUsize,
}

enum Bytes {
    Own(HostMemory),
    Imported(Arc<dyn Allocation>),
}

impl Bytes {
    fn start(&self) -> Option<NonNull<u8>> {
        match self {
            Bytes::Own(memory) => memory.host_ptr(),
            Bytes::Imported(memory) => memory.host_ptr(),
        }
    }

    fn len(&self) -> usize {
        match self {
            Bytes::Own(memory) => memory.bytes(),
            Bytes::Imported(memory) => memory.bytes(),
        }
    }

    /// As a window, whose allocation is kept by whoever asks.
    fn window(&self) -> Option<Window> {
        Some(Window::whole(self.start()?, self.len()))
    }
}

/// Who has memory that is mapped for the host.
const WITH_DEVICES: u8 = 0;
const WITH_HOST: u8 = 1;
/// It failed to change hands.
const WITH_NOBODY: u8 = 2;

impl Block {
    /// Where devices have it.
    pub(crate) fn start(&self) -> Option<NonNull<u8>> {
        self.memory.start()
    }

    /// Gives memory to the host or takes it back, and what is in it with it. An error says what the runtime did wrong.
    pub(crate) fn change_hands(&self, to_host: bool) -> Result<(), String> {
        let (before, after) = if to_host { (WITH_DEVICES, WITH_HOST) } else { (WITH_HOST, WITH_DEVICES) };
        let side = self.side.swap(after, Ordering::Relaxed);
        let (Some(view), Some(memory)) = (self.view.as_ref().and_then(Bytes::window), self.memory.window())
        else {
            return Err("memory that is not mapped for the host changed hands".into());
        };
        match to_host {
            true => view.copy_from(&memory),
            false => {
                memory.copy_from(&view);
                view.fill(&[RUBBISH]);
            }
        }
        match side == before || side == WITH_NOBODY {
            true => Ok(()),
            false => Err("memory changed hands to who had it".into()),
        }
    }

    /// It was to change hands, and did not.
    pub(crate) fn stay_with_nobody(&self) {
        self.side.store(WITH_NOBODY, Ordering::Relaxed);
    }

    pub(crate) fn is_with_host(&self) -> bool {
        self.side.load(Ordering::Relaxed) == WITH_HOST
    }

    /// The memory stream has come to it.
    pub(crate) fn arrive(&self) {
        if self.spoilt {
            self.memory.window().into_iter().for_each(|window| window.fill(&[RUBBISH]));
        }
        self.is_there.store(true, Ordering::Release);
    }

    pub(crate) fn is_there(&self) -> bool {
        self.is_there.load(Ordering::Acquire)
    }

    pub(crate) fn hold(&self) {
        self.used.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn release(&self) {
        self.used.fetch_sub(1, Ordering::Relaxed);
    }
}

/// What fresh memory holds, staging and such as is not said to be zeroed: nobody may rely on zeros there.
const RUBBISH: u8 = 0x5a;

/// What memory was allocated for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Owner {
    /// This context, whose lanes alone may use it.
    Context(usize),
    /// Copies to and from this context, by the lanes of any.
    StagingOf(usize),
}

/// What memory is to be like.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Kind {
    pub(crate) owner: Owner,
    pub(crate) host: HostAccess,
    /// It holds rubbish at first.
    pub(crate) spoilt: bool,
    pub(crate) image: Option<ImageShape>,
    /// Kernels are told its address.
    pub(crate) has_address: bool,
    /// It is there when the memory stream has come to it.
    pub(crate) is_ordered: bool,
}

impl Kind {
    /// Of staging.
    pub(crate) fn staging(context: usize) -> Self {
        let owner = Owner::StagingOf(context);
        let host = HostAccess::Coherent;
        Kind { owner, host, spoilt: true, image: None, has_address: false, is_ordered: false }
    }
}

/// Memory of a context, or staging; see [`native`](crate::native).
pub struct FaultyMemory {
    pub(crate) block: Arc<Block>,
    pub(crate) kind: Kind,
    shared: Arc<Shared>,
}

impl FaultyMemory {
    pub(crate) fn new(bytes: usize, kind: Kind, shared: &Arc<Shared>) -> Result<Self, BackendError> {
        let bytes = kind.image.map_or(bytes, |shape| layout(&shape).0);
        let memory = Bytes::Own(HostMemory::zeroed(bytes)?);
        let view = match kind.host {
            HostAccess::Mapped => Some(Bytes::Own(HostMemory::zeroed(bytes)?)),
            _ => None,
        };
        view.as_ref().and_then(Bytes::window).into_iter().for_each(|window| window.fill(&[RUBBISH]));
        Ok(Self::with(memory, view, kind, shared))
    }

    /// An allocation of the host's memory.
    pub(crate) fn import(
        host: Arc<dyn Allocation>,
        kind: Kind,
        shared: &Arc<Shared>,
    ) -> Result<Self, BackendError> {
        let host = Bytes::Imported(host);
        let (memory, view) = match kind.host {
            HostAccess::Mapped => {
                let memory = Bytes::Own(HostMemory::zeroed(host.len())?);
                memory.window().zip(host.window()).into_iter().for_each(|(to, from)| to.copy_from(&from));
                (memory, Some(host))
            }
            _ => (host, None),
        };
        Ok(Self::with(memory, view, kind, shared))
    }

    fn with(memory: Bytes, view: Option<Bytes>, kind: Kind, shared: &Arc<Shared>) -> Self {
        let (bytes, Kind { owner, spoilt, is_ordered, .. }) = (memory.len(), kind);
        let block = Arc::new(Block {
            memory,
            view,
            side: AtomicU8::new(WITH_DEVICES),
            is_there: AtomicBool::new(false),
            spoilt,
            used: AtomicUsize::new(0),
        });
        if !is_ordered {
            block.arrive();
        }
        let mut machine = shared.lock();
        let audit = &mut machine.audit;
        audit.bytes += bytes;
        audit.staging_bytes += if owner.is_of_staging() { bytes } else { 0 };
        *owner.count(audit) += 1;
        if is_ordered {
            machine.coming.push_back(Arc::downgrade(&block));
        }
        drop(machine);
        FaultyMemory { block, kind, shared: shared.clone() }
    }
}

impl Owner {
    fn is_of_staging(self) -> bool {
        matches!(self, Owner::StagingOf(_))
    }

    fn count(self, audit: &mut Audit) -> &mut usize {
        match self {
            Owner::Context(_) => &mut audit.allocations,
            Owner::StagingOf(_) => &mut audit.staging,
        }
    }
}

/// Whether memory is neither a context's own nor its staging, nor another context's.
pub(crate) fn is_foreign(memory: &dyn Allocation, context: usize) -> bool {
    let own = (memory as &dyn Any).downcast_ref::<FaultyMemory>();
    own.is_none_or(|own| matches!(own.kind.owner, Owner::StagingOf(of) if of != context))
}

/// Whether memory is that of another context.
pub(crate) fn is_of_peer(memory: &dyn Allocation, context: usize) -> bool {
    let own = (memory as &dyn Any).downcast_ref::<FaultyMemory>();
    own.is_some_and(|own| matches!(own.kind.owner, Owner::Context(of) if of != context))
}

// SAFETY: the block's memory, and the host's view of it, have so many initialised bytes at their addresses as long as this lives.
unsafe impl Allocation for FaultyMemory {
    fn bytes(&self) -> usize {
        self.block.memory.len()
    }

    fn host_ptr(&self) -> Option<NonNull<u8>> {
        match self.kind.host {
            HostAccess::Coherent => self.block.memory.start(),
            HostAccess::Mapped => self.block.view.as_ref()?.start(),
            _ => None,
        }
    }

    fn device_address(&self) -> Option<u64> {
        self.block.memory.start().filter(|_| self.kind.has_address).map(|start| start.addr().get() as u64)
    }

    fn image(&self) -> Option<ImageShape> {
        self.kind.image
    }
}

impl fmt::Debug for FaultyMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FaultyMemory").field("kind", &self.kind).finish_non_exhaustive()
    }
}

impl Drop for FaultyMemory {
    fn drop(&mut self) {
        let mut machine = self.shared.lock();
        machine.called();
        if !self.kind.is_ordered {
            machine.may_block();
        }
        let (bytes, audit) = (self.block.memory.len(), &mut machine.audit);
        audit.bytes -= bytes;
        audit.staging_bytes -= if self.kind.owner.is_of_staging() { bytes } else { 0 };
        *self.kind.owner.count(audit) -= 1;
        drop(machine);
        let users = self.block.used.load(Ordering::Relaxed);
        if users > 0 {
            self.shared
                .note_breach(&format!("an allocation was dropped before the verdicts of {users} groups"));
        }
    }
}

impl fmt::Debug for Block {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Block").field("bytes", &self.memory.len()).finish_non_exhaustive()
    }
}
