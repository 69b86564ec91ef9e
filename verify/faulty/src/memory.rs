//! The devices' memory.

use std::any::Any;
use std::fmt;
use std::ops::Range;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

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
    /// It has been divided, and which pieces of it are used, each as often as by a group.
    is_divided: AtomicBool,
    pieces_used: Mutex<Vec<(usize, Range<usize>)>>,
}

enum Bytes {
    Own(HostMemory),
    Imported(Arc<dyn Allocation>),
    /// So many bytes of other memory of a context, from a place on.
    Piece {
        whole: Arc<dyn Allocation>,
        at: usize,
        bytes: usize,
    },
}

impl Bytes {
    fn start(&self) -> Option<NonNull<u8>> {
        match self {
            Bytes::Own(memory) => memory.host_ptr(),
            Bytes::Imported(memory) => memory.host_ptr(),
            Bytes::Piece { whole, at, .. } => {
                let start = of_context(&**whole)?.block.start()?;
                // SAFETY: `FaultyMemory::piece` has looked that it lies inside.
                Some(unsafe { start.add(*at) })
            }
        }
    }

    fn len(&self) -> usize {
        match self {
            Bytes::Own(memory) => memory.bytes(),
            Bytes::Imported(memory) => memory.bytes(),
            Bytes::Piece { bytes, .. } => *bytes,
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

    /// By which it is told from others that are there.
    fn address(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }

    /// Where it is in what has been divided, if it has.
    fn in_whole(&self) -> Option<(&Block, Range<usize>)> {
        let (whole, range) = match &self.memory {
            Bytes::Piece { whole, at, bytes } => (&*of_context(&**whole)?.block, *at..at + bytes),
            Bytes::Own(_) | Bytes::Imported(_) => (self, 0..self.memory.len()),
        };
        whole.is_divided.load(Ordering::Relaxed).then_some((whole, range))
    }

    /// A group is about to use it. What of its bytes is in use elsewhere is said: of a piece another, or the whole.
    pub(crate) fn hold(&self) -> Result<(), String> {
        self.used.fetch_add(1, Ordering::Relaxed);
        let Some((whole, range)) = self.in_whole() else { return Ok(()) };
        let mut used = lock(&whole.pieces_used);
        let (me, overlaps) =
            (self.address(), |of: &Range<usize>| of.start < range.end && range.start < of.end);
        let other = used.iter().find(|(who, of)| *who != me && overlaps(of));
        let wrong =
            other.map(|(_, other)| format!("bytes {range:?} of memory are used while {other:?} of it are"));
        used.push((me, range));
        wrong.map_or(Ok(()), Err)
    }

    pub(crate) fn release(&self) {
        self.used.fetch_sub(1, Ordering::Relaxed);
        let Some((whole, _)) = self.in_whole() else { return };
        let mut used = lock(&whole.pieces_used);
        if let Some(at) = used.iter().position(|(who, _)| *who == self.address()) {
            used.swap_remove(at);
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
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

    /// So many bytes of an allocation, from `at` on. What is wrong with that is said.
    pub(crate) fn piece(whole: &Arc<dyn Allocation>, at: usize, bytes: usize) -> Result<Self, String> {
        let Some(of) = of_context(&**whole).filter(|of| matches!(of.kind.owner, Owner::Context(_))) else {
            return Err("a piece of memory that is no context's".into());
        };
        let is_inside = at.checked_add(bytes).is_some_and(|end| end <= of.bytes());
        if !is_inside || of.is_piece() || of.block.view.is_some() || of.kind.image.is_some() {
            return Err(format!("{bytes} bytes from {at} on of {whole:?} are no piece"));
        }
        if of.block.used.load(Ordering::Relaxed) > 0 {
            return Err("a piece of memory that a group uses".into());
        }
        of.block.is_divided.store(true, Ordering::Relaxed);
        let kind = Kind { spoilt: false, is_ordered: false, ..of.kind };
        Ok(Self::with(Bytes::Piece { whole: whole.clone(), at, bytes }, None, kind, &of.shared))
    }

    /// Whether it is a piece of other memory.
    fn is_piece(&self) -> bool {
        matches!(self.block.memory, Bytes::Piece { .. })
    }

    fn with(memory: Bytes, view: Option<Bytes>, kind: Kind, shared: &Arc<Shared>) -> Self {
        let (bytes, Kind { owner, spoilt, is_ordered, .. }) = (memory.len(), kind);
        let is_piece = matches!(memory, Bytes::Piece { .. });
        let block = Arc::new(Block {
            memory,
            view,
            side: AtomicU8::new(WITH_DEVICES),
            is_there: AtomicBool::new(false),
            spoilt,
            used: AtomicUsize::new(0),
            is_divided: AtomicBool::new(false),
            pieces_used: Mutex::default(),
        });
        if !is_ordered {
            block.arrive();
        }
        let mut machine = shared.lock();
        let audit = &mut machine.audit;
        audit.bytes += if is_piece { 0 } else { bytes };
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

/// What of this backend an allocation is.
fn of_context(memory: &dyn Allocation) -> Option<&FaultyMemory> {
    (memory as &dyn Any).downcast_ref()
}

/// Whether memory is neither a context's own nor its staging, nor another context's.
pub(crate) fn is_foreign(memory: &dyn Allocation, context: usize) -> bool {
    of_context(memory).is_none_or(|own| matches!(own.kind.owner, Owner::StagingOf(of) if of != context))
}

/// Whether memory is that of another context.
pub(crate) fn is_of_peer(memory: &dyn Allocation, context: usize) -> bool {
    of_context(memory).is_some_and(|own| matches!(own.kind.owner, Owner::Context(of) if of != context))
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
        audit.bytes -= if self.is_piece() { 0 } else { bytes };
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
