//! What a context says of its memories, and where on a device something stays for good.

use std::any::Any;
use std::sync::Arc;

use super::waking::catch_native;
use windlass_backend::{
    Allocation, Aspect, BackendError, Contents, ContextInfo, HostAccess, HostMemory, ImageShape, MemoryIndex,
    MemoryInfo, MemoryKind, MemoryObject, Region,
};

use super::context::DeviceSlot;
use super::kept::is_kept;
use super::memory::{Made, make_with_room};
use super::work::zero;
use super::{Inner, MemoryShell};
use crate::error::too_large::Limit;
use crate::error::{Error, Result};
use windlass_engine::{HEAP, Initial, MemoryId, MemoryTraits};

/// A memory in which something is to stay.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    pub(crate) memory: MemoryId,
    /// None for the heap.
    pub(crate) owner: Option<MemoryShell>,
    pub(crate) kind: MemoryKind,
    pub(crate) host: HostAccess,
    /// See [`MemoryInfo::imports`].
    pub(crate) imports: Option<usize>,
}

impl Place {
    /// Makes an allocation that stays here. Of no bytes it is the heap's: no command uses it.
    pub(crate) fn allocate(
        &self,
        inner: &Arc<Inner>,
        slot: &DeviceSlot,
        bytes: usize,
    ) -> Result<Initial<Arc<dyn Allocation>>> {
        let Some(owner) = self.owner.as_ref().filter(|_| bytes > 0) else {
            let made = inner.count((self.memory, bytes, None), None, inner.host_memory(bytes, false));
            return made.map(Initial::Fresh).map_err(|cause| cause.0);
        };
        let of = slot.capacity_in(owner.info.as_ref(), inner.device_memory.filter(|_| owner.is_own));
        slot.check_piece(bytes, &of)?;
        slot.check_sum(1, bytes as u64, &of)?;
        let made = make_with_room(owner, inner, (self.memory, MemoryObject::Buffer { bytes }), None);
        let made = inner.count((self.memory, bytes, None), Some(owner), made).map_err(|cause| cause.0)?;
        match owner.info.map(|of| of.fresh) {
            // Which the engine does not count on where freed memory is kept, and this is none.
            Some(Contents::Zeroed) => Ok(Initial::Zeroed(made)),
            // The host sees what it overwrites, and what a group that failed did not write: never what somebody else left there.
            _ if self.host == HostAccess::Coherent => {
                zero(&*made, &Region::line(0, bytes));
                Ok(Initial::Zeroed(made))
            }
            _ => Ok(Initial::Fresh(made)),
        }
    }

    /// Whether the host, once it is given such memory, would see what it held before: what is not cleared when it is made. A
    /// command has to clear it, since the host does not reach it yet, and has to do so at once: where a group fails that should have
    /// written it, nobody knows any more that nobody has.
    pub(crate) fn host_sees_rubbish(&self) -> bool {
        let fresh = self.owner.as_ref().and_then(|owner| owner.info).map(|of| of.fresh);
        self.host == HostAccess::Mapped && fresh == Some(Contents::Any)
    }

    /// Whether host memory of the program's can stay here in place.
    pub(crate) fn takes(&self, elements: &HostMemory) -> bool {
        let address = elements.host_ptr().map_or(0, |start| start.addr().get());
        let of = [address, elements.bytes()];
        let is_aligned = |alignment: usize| of.iter().all(|of| of.is_multiple_of(alignment.max(1)));
        // A device that works on the heap works on any of it.
        self.works_on_heap() || elements.bytes() == 0 || self.imports.is_some_and(is_aligned)
    }

    /// Takes host memory over.
    pub(crate) fn import(
        &self,
        inner: &Arc<Inner>,
        slot: &DeviceSlot,
        elements: Arc<HostMemory>,
    ) -> Result<Initial<Arc<dyn Allocation>>> {
        let bytes = elements.bytes();
        if bytes == 0 {
            return self.allocate(inner, slot, 0);
        }
        let owner = self.owner.as_ref().filter(|_| !self.works_on_heap());
        let made: Made = match owner {
            None => Ok(elements),
            Some(owner) => catch_native(|| owner.context.import(owner.index, elements)),
        };
        inner.count((self.memory, bytes, None), owner, made).map(Initial::Written).map_err(|cause| cause.0)
    }

    /// Takes native memory over, with what it holds.
    pub(crate) fn adopt(
        &self,
        inner: &Arc<Inner>,
        object: Box<dyn Any + Send>,
        bytes: usize,
    ) -> Result<Initial<Arc<dyn Allocation>>> {
        let made: Made = match &self.owner {
            None => Err(BackendError::Unsupported("native memory on a device that works on the heap".into())),
            Some(owner) => catch_native(|| owner.context.adopt_memory(owner.index, object, bytes)),
        };
        let owner = self.owner.as_ref();
        inner.count((self.memory, bytes, None), owner, made).map(Initial::Written).map_err(|cause| cause.0)
    }

    fn works_on_heap(&self) -> bool {
        self.owner.as_ref().is_none_or(|owner| owner.index == MemoryIndex::Heap)
    }
}

/// How much a device takes of buffers.
#[derive(Debug)]
pub(crate) struct Capacity {
    in_one_piece: u64,
    /// At one time; without bounds where they are not known.
    all: u64,
    /// What says so.
    limit: Limit,
}

impl Capacity {
    /// Whether so many bytes are more than it can have at a time.
    pub(crate) fn is_exceeded_by(&self, bytes: u64) -> bool {
        bytes > self.all
    }
}

impl DeviceSlot {
    /// How much it takes of buffers.
    pub(crate) fn capacity(&self, inner: &Inner) -> Capacity {
        self.capacity_in(self.own_memory(), inner.device_memory)
    }

    /// The same of another of its memories, of which the program gave its buffers so much. The heap is everybody's, and has no bounds
    /// that are known.
    fn capacity_in(&self, memory: Option<&MemoryInfo>, told: Option<usize>) -> Capacity {
        let there = memory.and_then(|of| of.bytes).unwrap_or(u64::MAX);
        let told = memory.and(told).map_or(u64::MAX, |bytes| bytes as u64);
        let limit = if told < there { Limit::Told } else { Limit::Memory };
        Capacity { in_one_piece: self.device.info.limits.allocation, all: there.min(told), limit }
    }

    /// Refuses a buffer that it does not take in one piece.
    pub(crate) fn check_piece(&self, bytes: usize, of: &Capacity) -> Result<()> {
        let needs = bytes as u64;
        let (has, limit) = match of.in_one_piece <= of.all {
            true => (of.in_one_piece, Limit::OnePiece),
            false => (of.all, of.limit),
        };
        match needs > of.in_one_piece {
            false => Ok(()),
            true => Err(Error::exceeds((needs, has, limit), 1, &self.device)),
        }
    }

    /// Refuses buffers that it never has at one time.
    pub(crate) fn check_sum(&self, buffers: usize, bytes: u64, of: &Capacity) -> Result<()> {
        match bytes > of.all {
            false => Ok(()),
            true => Err(Error::exceeds((bytes, of.all, of.limit), buffers, &self.device)),
        }
    }

    /// The memory of a kind in which it keeps what is to stay in one place: its own, or the one that suits it best.
    pub(crate) fn place(&self, kind: MemoryKind) -> Result<Place> {
        let info = self.context.native.info();
        let device = &info.devices[self.position];
        let all = || std::iter::once(device.memory).chain(device.reaches.iter().copied());
        let suits = |index: &MemoryIndex| native_memory(info, *index).is_some_and(|of| of.kind == kind);
        // The heap is near everybody who works on it.
        let heap = || all().find(|index| *index == MemoryIndex::Heap);
        let Some(index) = all().find(suits).or_else(heap) else {
            let kinds = all().filter_map(|index| Some(native_memory(info, index)?.kind.to_string()));
            let kinds: Vec<String> = kinds.collect();
            return Err(Error::unsupported(format!(
                "{kind} memory to keep a buffer in, on {}, which has {} memory for that",
                self.device,
                kinds.join(" and ")
            )));
        };
        let (described, id) = (native_memory(info, index), self.memory(index));
        let owner = (id != HEAP).then(|| self.context.memory_shell(index));
        let host = described.map_or(HostAccess::Coherent, |of| of.host);
        Ok(Place { memory: id, owner, kind, host, imports: described.and_then(|of| of.imports) })
    }

    /// Whether its commands use a memory in place.
    pub(crate) fn reaches(&self, memory: MemoryId) -> bool {
        let device = &self.context.native.info().devices[self.position];
        let mut all = std::iter::once(&device.memory).chain(&device.reaches);
        all.any(|index| self.memory(*index) == memory)
    }

    /// Whether groups on all devices of its context may change shared memory at the same time.
    pub(crate) fn shares_finely(&self) -> bool {
        let devices = &self.context.native.info().devices;
        let all = |aspect| devices.iter().all(|device| device.has(aspect));
        all(Aspect::FineMemory) && (devices.len() == 1 || all(Aspect::SharedAtomics))
    }

    /// Whether its kernels have addresses for what stays in a memory of its context, or, without one, is in its own.
    pub(crate) fn has_addresses(&self, home: Option<MemoryId>) -> bool {
        let info = self.context.native.info();
        let index = match home {
            None => Some(info.devices[self.position].memory),
            Some(HEAP) => Some(MemoryIndex::Heap),
            Some(home) => {
                let mut known = self.context.memories.get().into_iter().flatten();
                known.find(|(_, id)| *id == home).map(|(index, _)| *index)
            }
        };
        index.is_some_and(|index| native_memory(info, index).is_none_or(|of| of.addressed))
    }

    fn memory(&self, index: MemoryIndex) -> MemoryId {
        let known = self.context.memories.get().into_iter().flatten();
        known.into_iter().find(|(of, _)| *of == index).map_or(HEAP, |(_, id)| *id)
    }

    /// Whether its memory holds an image as such.
    pub(crate) fn holds(&self, shape: &ImageShape) -> bool {
        self.own_memory().is_some_and(|of| of.holds(shape))
    }

    /// The kinds of memory in which it keeps what is to stay in one place.
    pub(crate) fn memory_kinds(&self) -> Vec<MemoryKind> {
        let all = [MemoryKind::Device, MemoryKind::Host, MemoryKind::Shared];
        all.into_iter().filter(|kind| self.place(*kind).is_ok()).collect()
    }

    /// Whether a memory is the one that its groups' buffers come to, but for those that stay elsewhere.
    pub(crate) fn is_own(&self, memory: MemoryId) -> bool {
        self.memory(self.own_index()) == memory
    }

    /// That memory, with whom to ask for some of it; none where that is the heap.
    pub(super) fn own(&self) -> Option<(MemoryId, MemoryShell)> {
        let id = Some(self.memory(self.own_index())).filter(|id| *id != HEAP)?;
        Some((id, self.context.memory_shell(self.own_index())))
    }

    fn own_memory(&self) -> Option<&MemoryInfo> {
        native_memory(self.context.native.info(), self.own_index())
    }

    fn own_index(&self) -> MemoryIndex {
        self.context.native.info().devices[self.position].memory
    }
}

/// What is known of a memory; nothing of the heap.
pub(super) fn native_memory(info: &ContextInfo, index: MemoryIndex) -> Option<&MemoryInfo> {
    match index {
        MemoryIndex::Heap => None,
        MemoryIndex::Own(at) => info.memories.get(at as usize),
    }
}

/// Refuses a context that names memories which it does not describe.
pub(super) fn check_info(info: &ContextInfo) -> Result<()> {
    let refuse = |wrong: String| Err(Error::backend(BackendError::Unsupported(wrong), "opening a context"));
    for device in &info.devices {
        for &index in std::iter::once(&device.memory).chain(&device.reaches) {
            let name = &device.name;
            match native_memory(info, index) {
                None if index == MemoryIndex::Heap => {}
                None => return refuse(format!("{name}'s {index:?}, which its context does not describe")),
                Some(of) if device.has(Aspect::HostBodies) && of.host != HostAccess::Coherent => {
                    return refuse(format!(
                        "{name} runs host code, and its {index:?}, which the host cannot access at all times"
                    ));
                }
                Some(of) if of.images.is_some() && of.host != HostAccess::None => {
                    return refuse(format!(
                        "{name}'s {index:?}, which holds images, and the host reaches it"
                    ));
                }
                Some(_) => {}
            }
        }
    }
    match info.completions.is_empty() {
        true => refuse("a context that cannot learn of its work's end".into()),
        false => Ok(()),
    }
}

/// What the engine has to know of a memory. The heap as a memory of a context's own is host memory like any other.
pub(super) fn traits(info: &ContextInfo, index: MemoryIndex, keeps: bool) -> MemoryTraits {
    let of = native_memory(info, index);
    MemoryTraits {
        addressable: of.is_none_or(|of| of.host == HostAccess::Coherent),
        mapped: of.is_some_and(|of| of.host == HostAccess::Mapped),
        // What is kept holds what was there before.
        zeroed: of.is_none_or(|of| of.fresh == Contents::Zeroed && !(keeps && is_kept(of))),
        upload_limit: info.pageable_upload_limit,
        download_limit: info.pageable_download_limit,
    }
}
