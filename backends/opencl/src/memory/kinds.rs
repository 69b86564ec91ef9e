//! Which memories a context has.
//!
//! Each device has its own. Behind those comes memory that all of them share with the host at one address, where their driver has such
//! (OpenCL's shared virtual memory), and behind that memory near the host.

use std::sync::{Arc, OnceLock};

use windlass_backend::{
    Aspect, BackendError, Contents, DeviceInfo, DeviceKind, HostAccess, MemoryIndex, MemoryInfo, MemoryKind,
};

use super::{ALIGN, Memory, is_seen, piece};
use crate::driver::Driver;
use crate::sys::{Context, Queue};

/// The alignment of address and size of the program's memory that devices work on in place: that of the longest elements that kernels in
/// Rust read at once. Kernels by hand are handed elements from any position on, so that they cannot rely on more.
const IMPORTED: usize = 16;

/// What a memory of a context is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Of the device at this position.
    Own(usize),
    /// At one address for the host and all devices.
    Shared,
    /// Near the host.
    Host,
}

/// The memories of a context.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Memories {
    devices: usize,
    /// The devices work on host memory where it is, and the host at any time.
    pub(crate) in_place: bool,
    /// They do so, too, if that is aligned by no more than `IMPORTED`.
    pub(crate) imports: bool,
    /// There is shared memory, of which, if it is `true`, the host may use some while kernels use others.
    pub(crate) shared: Option<bool>,
    has_host: bool,
    /// Where pieces of the devices' own memory may start, if it has such.
    pieces: Option<usize>,
}

impl Memories {
    /// Tries what the driver has, but for what it is known to get wrong. Processors work on host memory where it is, if they do and nobody wants `copies`.
    pub(crate) fn find(
        native: &Arc<Context>,
        service: &[Arc<Queue>],
        devices: &[DeviceInfo],
        (driver, copies): (Driver, bool),
    ) -> Self {
        let nobody = Arc::<OnceLock<()>>::default();
        let all = |make: &dyn Fn(usize) -> Result<Memory, BackendError>| {
            service.iter().all(|queue| is_seen(queue, make))
        };
        let has = |aspect| devices.iter().all(|device| device.has(aspect));
        let in_place = !copies
            && devices.iter().all(|device| device.kind == DeviceKind::Cpu)
            && all(&|bytes| Memory::in_place(native, bytes));
        let imports = in_place && all(&|bytes| Memory::at_worst(native, bytes, IMPORTED));
        // Where memory is to be copied, what could be used at any time changes hands.
        let fine = !copies && has(Aspect::FineMemory);
        let shares = has(Aspect::Pointers) && all(&|bytes| Memory::shared(native, fine, &nobody, bytes));
        let has_host = in_place || all(&|bytes| Memory::lent(native, &service[0], bytes));
        let alignment = devices.iter().filter_map(|device| device.details.alignment).max();
        let alignment = alignment.unwrap_or(ALIGN).max(ALIGN);
        let are_seen = |queue: &Arc<Queue>| piece::are_seen(native, queue, alignment, in_place);
        let seen = driver.divides && service.iter().all(are_seen);
        let pieces = seen.then_some(alignment);
        Memories {
            devices: devices.len(),
            in_place,
            imports,
            shared: shares.then_some(fine),
            has_host,
            pieces,
        }
    }

    fn kinds(self) -> impl Iterator<Item = Kind> {
        let own = (0..self.devices).map(Kind::Own);
        own.chain(self.shared.map(|_| Kind::Shared)).chain(self.has_host.then_some(Kind::Host))
    }

    /// What a memory of the context is.
    pub(crate) fn kind(self, memory: MemoryIndex) -> Option<Kind> {
        match memory {
            MemoryIndex::Heap => None,
            MemoryIndex::Own(at) => self.kinds().nth(at as usize),
        }
    }

    /// Those that every device reaches beside its own.
    pub(crate) fn reached(self) -> impl Iterator<Item = MemoryIndex> {
        let all = self.kinds().zip(0..).skip(self.devices);
        all.map(|(_, at)| MemoryIndex::Own(at))
    }

    /// All of them, as the runtime knows them.
    pub(crate) fn infos(self) -> Vec<MemoryInfo> {
        let in_place = MemoryInfo::new().host(HostAccess::Coherent).fresh(Contents::Zeroed).kept();
        let in_place = if self.imports { in_place.imports(IMPORTED) } else { in_place };
        let divided = |info: MemoryInfo| self.pieces.map_or(info, |alignment| info.pieces(alignment));
        let info = |kind| match kind {
            Kind::Own(_) if self.in_place => divided(in_place),
            Kind::Own(_) => divided(MemoryInfo::new().kept()),
            Kind::Shared => {
                let fine = self.shared == Some(true);
                let host = if fine { HostAccess::Coherent } else { HostAccess::Mapped };
                MemoryInfo::new().host(host).kind(MemoryKind::Shared).addressed()
            }
            Kind::Host if self.in_place => in_place.kind(MemoryKind::Host),
            Kind::Host => MemoryInfo::new().host(HostAccess::Mapped).kind(MemoryKind::Host),
        };
        self.kinds().map(info).collect()
    }
}
