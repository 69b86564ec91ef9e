//! What a context says of its memories, and where on a device something stays for good.

use std::sync::Arc;

use windlass_backend::{
    Aspect, BackendError, Contents, ContextInfo, HostAccess, MemoryIndex, MemoryInfo, MemoryKind,
};

use super::MemoryShell;
use super::context::DeviceSlot;
use crate::error::{Error, Result};
use windlass_engine::{HEAP, MemoryId, MemoryTraits};

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

impl DeviceSlot {
    /// The memory of a kind in which it keeps what is to stay in one place: its own, or the one that suits it best.
    pub(crate) fn place(&self, kind: MemoryKind) -> Result<Place> {
        let info = self.context.native.info();
        let device = &info.devices[self.position];
        let all = || std::iter::once(device.memory).chain(device.reaches.iter().copied());
        let suits = |index: &MemoryIndex| native_memory(info, *index).is_some_and(|of| of.kind == kind);
        // The heap is near everybody who works on it.
        let heap = || all().find(|index| *index == MemoryIndex::Heap);
        let Some(index) = all().find(suits).or_else(heap) else {
            return Err(Error::unsupported(format!("{kind} memory to keep a buffer in, on {}", self.device)));
        };
        let (described, id) = (native_memory(info, index), self.memory(index));
        let context = self.context.native.clone();
        let (domain, staging) = (self.context.domain, Arc::downgrade(&self.context.staging));
        let owner = (id != HEAP).then(|| MemoryShell { context, index, domain, staging });
        let host = described.map_or(HostAccess::Coherent, |of| of.host);
        Ok(Place { memory: id, owner, kind, host, imports: described.and_then(|of| of.imports) })
    }

    /// Whether its commands use a memory in place.
    pub(crate) fn reaches(&self, memory: MemoryId) -> bool {
        let device = &self.context.native.info().devices[self.position];
        let mut all = std::iter::once(&device.memory).chain(&device.reaches);
        all.any(|index| self.memory(*index) == memory)
    }

    fn memory(&self, index: MemoryIndex) -> MemoryId {
        let known = self.context.memories.get().into_iter().flatten();
        known.into_iter().find(|(of, _)| *of == index).map_or(HEAP, |(_, id)| *id)
    }

    /// Whether its memory holds images as such.
    pub(crate) fn holds_images(&self) -> bool {
        self.own_memory().is_some_and(|of| of.images)
    }

    /// The most bytes of one buffer that it can ever have: of an allocation, and of all that there is.
    pub(crate) fn most_bytes(&self) -> u64 {
        let all = self.own_memory().and_then(|of| of.bytes).unwrap_or(u64::MAX);
        self.device.info.limits.allocation.min(all)
    }

    fn own_memory(&self) -> Option<&MemoryInfo> {
        let info = self.context.native.info();
        native_memory(info, info.devices[self.position].memory)
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
                        "{name} runs host code, and its {index:?} is not always the host's"
                    ));
                }
                Some(of) if of.images && of.host != HostAccess::None => {
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
pub(super) fn traits(info: &ContextInfo, index: MemoryIndex) -> MemoryTraits {
    let of = native_memory(info, index);
    MemoryTraits {
        addressable: of.is_none_or(|of| of.host == HostAccess::Coherent),
        mapped: of.is_some_and(|of| of.host == HostAccess::Mapped),
        zeroed: of.is_none_or(|of| of.fresh == Contents::Zeroed),
        upload_limit: info.pageable_upload_limit,
        download_limit: info.pageable_download_limit,
    }
}
