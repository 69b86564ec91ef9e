//! Host memory that the runtime makes comes from an allocator of the program's, if the program gave it one.
//!
//! The allocator is foreign code: it may panic, block, give too little, or say that there is none. It is called on threads that may block, with
//! nothing held, and what it gives is looked at before any buffer has it. What owns the memory is dropped on such threads, too.

use std::alloc::Layout;
use std::fmt;
use std::sync::Arc;

use windlass_backend::{Allocation, BackendError, HostMemory, MemoryIndex, Region};
use windlass_sync::forked;
use windlass_sync::panics::catch;

use super::kept::Kept;
use super::memory::{Made, heap};
use super::waking::{Contained, catch_foreign};
use super::work::zero;
use super::{Inner, MemoryShell, SMALL_HEAP};

/// As the process's own memory is aligned: for every element type and every vector width.
const ALIGN: usize = 64;

/// From how many bytes on an allocator is asked unless it says otherwise. From there on memory is kept for the next buffers, too.
const FROM_BYTES: usize = 64 << 10;

/// Where a runtime has host memory from that it makes itself: huge pages, memory that is locked or near some processors, a pool, or a budget of
/// bytes. It is given to [`RuntimeBuilder::host_allocator`](crate::RuntimeBuilder::host_allocator).
///
/// It is asked for the host's copies of buffers, also for those that make room on a full device, and for buffers that
/// [stay](crate::Queue::buffer_in) in host memory: one block for each, of [64 KiB](HostAllocator::from_bytes) or more. It is not asked
/// for what others have: vectors and [values](crate::Buffer::from_owner) of the program's stay where they are, and memory that a driver pins is the
/// driver's. A buffer that no queue has used belongs to no runtime, and has ordinary memory until then.
///
/// Nothing waits for it but what needs the memory: it is called on a thread that may block, several times at once, too. It must not wait for
/// groups of the runtime that need such memory themselves.
#[must_use = "it is for a runtime's builder"]
pub struct HostAllocator {
    name: Box<str>,
    from: usize,
    is_zeroed: bool,
    give: Contained<Box<Give>>,
}

type Give = dyn Fn(Layout) -> Option<HostMemory> + Send + Sync;

impl HostAllocator {
    /// An allocator, called by this name in errors. It is asked for as many bytes as the layout has or more, at an address that is as aligned (a multiple of 64),
    /// and gives a value that owns them. The value is asked for its bytes once and dropped when they are not needed any more: when it has
    /// served buffer after buffer of nearly the same size for as long as there were some, or with the runtime.
    /// Whoever has memory of it then, a guard for one, keeps it until it is done.
    ///
    /// `None` says that there is none. Then what the runtime keeps is given back and the allocator is asked once more, before the group that
    /// needs it fails with an error that [says so](crate::Error::is_out_of_memory).
    ///
    /// ```
    /// use std::alloc::Layout;
    /// use windlass::{HostAllocator, prelude::*};
    ///
    /// /// Some bytes at the start of a page. That of a crate for mapped memory does as well, if it is `AsMut<[u8]>`.
    /// struct Pages(Vec<u8>, Layout);
    ///
    /// impl AsMut<[u8]> for Pages {
    ///     fn as_mut(&mut self) -> &mut [u8] {
    ///         let ahead = self.0.as_ptr().align_offset(4096);
    ///         &mut self.0[ahead..][..self.1.size()]
    ///     }
    /// }
    ///
    /// # fn main() -> windlass::Result<()> {
    /// let pages = HostAllocator::new("pages", |asked: Layout| Some(Pages(vec![0; asked.size() + 4095], asked)));
    /// let runtime = Runtime::builder().host_allocator(pages.zeroed()).build();
    /// let queue = Queue::blocking_on(runtime.host()?)?;
    /// let data = Buffer::<f32>::new(1 << 16);
    /// queue.submit(|cg| cg.fill(&cg.overwrite(&data), 1.5))?;
    /// let shown = data.host_read().blocking_wait()?;
    /// assert!(shown.as_ptr().addr() % 4096 == 0 && shown[9] == 1.5);
    /// # Ok(()) }
    /// ```
    pub fn new<M: AsMut<[u8]> + Send + 'static>(
        name: impl Into<String>,
        allocate: impl Fn(Layout) -> Option<M> + Send + Sync + 'static,
    ) -> Self {
        let give = move |asked| allocate(asked).map(|owner| HostMemory::from_owner(Contained::new(owner)));
        let give: Box<Give> = Box::new(give);
        HostAllocator {
            name: name.into().into(),
            from: FROM_BYTES,
            is_zeroed: false,
            give: Contained::new(give),
        }
    }

    /// It is asked for memory of so many bytes or more: 64 KiB, unless this says otherwise. What has less is the process's own, as is
    /// everything up to 4 KiB, whatever this says: that is made where no foreign code may run.
    ///
    /// ```
    /// # struct Aligned(Vec<u8>, usize);
    /// # impl AsMut<[u8]> for Aligned {
    /// #     fn as_mut(&mut self) -> &mut [u8] {
    /// #         let ahead = self.0.as_ptr().align_offset(64);
    /// #         &mut self.0[ahead..][..self.1]
    /// #     }
    /// # }
    /// # fn aligned(bytes: usize) -> Aligned {
    /// #     Aligned(vec![0; bytes + 63], bytes)
    /// # }
    /// use windlass::{HostAllocator, prelude::*};
    /// # fn main() -> windlass::Result<()> {
    /// let large = HostAllocator::new("large blocks", |asked| Some(aligned(asked.size()))).from_bytes(2 << 20);
    /// let runtime = Runtime::builder().host_allocator(large).build();
    /// let queue = Queue::blocking_on(runtime.host()?)?;
    /// let data = Buffer::<u32>::new(1 << 19);
    /// queue.submit(|cg| cg.fill(&cg.overwrite(&data), 1))?.blocking_wait()
    /// # }
    /// ```
    pub fn from_bytes(self, bytes: usize) -> Self {
        HostAllocator { from: bytes.max(SMALL_HEAP + 1), ..self }
    }

    /// What it gives reads as zeros: fresh pages of the system's do. Else the runtime clears it where that could be seen, and touches all
    /// of it on a thread of its own by that. If it does not hold, buffers that nobody has written show what is there.
    ///
    /// ```
    /// # struct Aligned(Vec<u8>, usize);
    /// # impl AsMut<[u8]> for Aligned {
    /// #     fn as_mut(&mut self) -> &mut [u8] {
    /// #         let ahead = self.0.as_ptr().align_offset(64);
    /// #         &mut self.0[ahead..][..self.1]
    /// #     }
    /// # }
    /// # fn aligned(bytes: usize) -> Aligned {
    /// #     Aligned(vec![0; bytes + 63], bytes)
    /// # }
    /// use windlass::{HostAllocator, prelude::*};
    /// # fn main() -> windlass::Result<()> {
    /// let fresh = HostAllocator::new("fresh", |asked| Some(aligned(asked.size()))).zeroed();
    /// let runtime = Runtime::builder().host_allocator(fresh).build();
    /// let queue = Queue::blocking_on(runtime.host()?)?;
    /// let data = Buffer::<u32>::new(1 << 16);
    /// queue.submit(|cg| cg.fill(&cg.overwrite(&data.range(..9)), 1))?.blocking_wait()?;
    /// assert_eq!(data.host_read().blocking_wait()?[8..10], [1, 0]);
    /// # Ok(()) }
    /// ```
    pub fn zeroed(self) -> Self {
        HostAllocator { is_zeroed: true, ..self }
    }

    /// Its name, for errors.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// So many bytes, which read as zeros unless they may hold anything.
    pub(super) fn make(&self, bytes: usize, may_hold_anything: bool) -> Made {
        let none = BackendError::OutOfMemory { bytes };
        let Ok(layout) = Layout::from_size_align(bytes, ALIGN) else { return Err(none) };
        let memory = match catch(|| (self.give)(layout)) {
            Ok(Some(memory)) => memory,
            Ok(None) => return Err(none),
            Err(panic) => return Err(self.failed(format!("panicked: {}", panic.message()))),
        };
        let (has, at) = (memory.bytes(), memory.host_ptr().map_or(0, |start| start.addr().get()));
        if has < bytes {
            return Err(self.failed(format!("gave {has} bytes where {bytes} were asked for")));
        }
        if !at.is_multiple_of(ALIGN) {
            return Err(self.failed(format!("gave memory at {at:#x}, which is no multiple of {ALIGN}")));
        }
        if !self.is_zeroed && !may_hold_anything {
            zero(&memory, &Region::line(0, has));
        }
        Ok(Arc::new(memory))
    }

    fn failed(&self, how: String) -> BackendError {
        let message = format!("`{}` {how}", self.name);
        BackendError::Native { call: "the program's host allocator", code: 0, message }
    }
}

// A panic of it is caught where it is called, and leaves nothing of the runtime's half done.
impl std::panic::UnwindSafe for HostAllocator {}
impl std::panic::RefUnwindSafe for HostAllocator {}

impl fmt::Debug for HostAllocator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HostAllocator").field("name", &self.name).finish_non_exhaustive()
    }
}

impl Inner {
    /// Who is asked for so many bytes of host memory; none if they are the process's own, and made without foreign code.
    pub(crate) fn allocator_for(&self, bytes: usize) -> Option<&HostAllocator> {
        self.host_allocator.as_ref().filter(|allocator| bytes >= allocator.from)
    }

    /// The same for a memory of some context: where that is the heap, it is host memory like any other.
    pub(super) fn allocator_in(&self, owner: Option<&MemoryShell>, bytes: usize) -> Option<&HostAllocator> {
        let is_host = owner.is_none_or(|owner| owner.index == MemoryIndex::Heap);
        self.allocator_for(bytes).filter(|_| is_host)
    }

    /// Host memory that reads as zeros, unless it may hold anything. To be called where foreign code may block, if there is an allocator
    /// [for it](Inner::allocator_for).
    pub(super) fn host_memory(&self, bytes: usize, may_hold_anything: bool) -> Made {
        let Some(allocator) = self.allocator_for(bytes) else { return heap(bytes) };
        match allocator.make(bytes, may_hold_anything) {
            Err(BackendError::OutOfMemory { .. }) if self.give_back_kept_heap() => {
                allocator.make(bytes, may_hold_anything)
            }
            made => made,
        }
    }

    /// Frees here what is kept of host memory; says whether that was any.
    pub(super) fn give_back_kept_heap(&self) -> bool {
        let kept = self.heap_kept.as_ref().map(|kept| kept.clear());
        kept.is_some_and(|kept| !kept.is_empty())
    }

    /// The runtime's end: what is kept of the allocator's memory is given back where that may block, and by nobody in a forked child, whose
    /// parent has it.
    pub(super) fn end_kept_heap(&mut self) {
        let Some(kept) = self.heap_kept.take() else { return };
        let give_back =
            |kept: Arc<Kept>| kept.close().into_iter().for_each(|dead| catch_foreign(|| drop(dead)));
        match (forked::is_child(), &self.host_allocator) {
            (true, _) => std::mem::forget(kept),
            (false, None) => give_back(kept),
            (false, Some(_)) => blocking::unblock(move || give_back(kept)).detach(),
        }
    }
}
