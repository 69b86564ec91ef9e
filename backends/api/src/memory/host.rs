//! The one kind of memory that every backend meets.

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::fmt;
use std::ptr::NonNull;

use windlass_kernel::DeviceCopy;

use super::Allocation;
use crate::BackendError;

/// Host memory: zeroed, taken over from a `Vec`, or that of anything else that owns some.
///
/// ```
/// use windlass_backend::{Allocation, HostMemory};
/// let memory = HostMemory::from_vec(vec![1_u32, 2, 3]);
/// assert_eq!(memory.bytes(), 12);
/// assert_eq!(memory.try_into_vec::<u32>().unwrap(), [1, 2, 3]);
/// ```
pub struct HostMemory {
    start: NonNull<u8>,
    bytes: usize,
    /// What the allocator gave, and what it was asked for. The memory starts there, or a little later.
    base: NonNull<u8>,
    layout: Layout,
    /// Whose memory it is, if the allocator did not give it; the layout is empty then.
    owner: Option<Owner>,
}

// SAFETY: the memory is plain bytes that this value owns. All access is through raw pointers, whose users say why
// theirs is exclusive or ordered. An owner may be sent, and is only dropped.
unsafe impl Send for HostMemory {}
// SAFETY: as above.
unsafe impl Sync for HostMemory {}

/// Fresh memory starts on a cache line, which suits every element type and every vector width.
const ALIGN: usize = 64;

/// From how many bytes on memory is asked to come in huge pages.
const LARGE: usize = 8 << 20;

/// Has the system back large memory with huge pages, if it likes: who touches it for the first time waits for each page, and
/// several threads that do wait for each other.
fn ask_for_huge_pages(start: NonNull<u8>, bytes: usize) {
    #[cfg(target_os = "linux")]
    if bytes >= LARGE && !cfg!(miri) {
        use rustix::mm::{Advice, madvise};
        const PAGE: usize = 2 << 20;
        let ahead = start.addr().get().wrapping_neg() % PAGE;
        let whole = (bytes - ahead) / PAGE * PAGE;
        // SAFETY: these pages lie inside the allocation that begins there and has so many bytes, `LARGE` being more than a page;
        // the advice changes nothing that is in them. A kernel without such pages refuses it.
        let _ = unsafe { madvise(start.add(ahead).as_ptr().cast(), whole, Advice::LinuxHugepage) };
    }
    #[cfg(not(target_os = "linux"))]
    let _ = (start, bytes, LARGE);
}

/// The alignment that `malloc` guarantees. Asking for more bypasses `calloc`, which gets zeroed pages for free.
///
/// Who watches memory is asked for all of it: in the room to be aligned in, an access behind the end would not be seen.
const MALLOC_ALIGN: usize = if cfg!(any(miri, windlass_watched)) { ALIGN } else { 16 };

impl HostMemory {
    /// `bytes` zeros, aligned for every element type.
    pub fn zeroed(bytes: usize) -> Result<Self, BackendError> {
        let none = || BackendError::OutOfMemory { bytes };
        if bytes == 0 {
            return Ok(HostMemory::empty());
        }
        let size = bytes.checked_add(ALIGN - MALLOC_ALIGN).ok_or_else(none)?;
        let layout = Layout::from_size_align(size, MALLOC_ALIGN).map_err(|_| none())?;
        // SAFETY: the layout's size is not zero.
        let base = NonNull::new(unsafe { alloc_zeroed(layout) }).ok_or_else(none)?;
        let ahead = base.addr().get().wrapping_neg() % ALIGN;
        // SAFETY: the base is a multiple of `MALLOC_ALIGN`, so the next multiple of `ALIGN` is at most `ALIGN - MALLOC_ALIGN` bytes on,
        // which is how many the allocation has beyond `bytes`.
        let start = unsafe { base.add(ahead) };
        ask_for_huge_pages(start, bytes);
        Ok(HostMemory { start, bytes, base, layout, owner: None })
    }

    /// No memory.
    fn empty() -> Self {
        let layout = Layout::new::<[u64; 0]>();
        HostMemory { start: dangling(ALIGN), bytes: 0, base: dangling(ALIGN), layout, owner: None }
    }

    /// Takes over a vector's memory; nothing is copied.
    pub fn from_vec<T: DeviceCopy>(vec: Vec<T>) -> Self {
        let mut vec = std::mem::ManuallyDrop::new(vec);
        let layout = match Layout::array::<T>(vec.capacity()) {
            Ok(layout) => layout,
            Err(_) => unreachable!("a vector's capacity has a valid layout"),
        };
        let start = NonNull::new(vec.as_mut_ptr().cast()).unwrap_or(dangling(layout.align()));
        HostMemory { start, bytes: vec.len() * size_of::<T>(), base: start, layout, owner: None }
    }

    /// The elements that a value owns, where they are: a mapped file, memory that processes share, what an allocator of the program's has
    /// given. The value is asked for them once, and dropped with this.
    ///
    /// ```
    /// use windlass_backend::{Allocation, HostMemory};
    /// let memory = HostMemory::from_owner::<u32>(Box::<[u32]>::from([1, 2, 3]));
    /// assert_eq!((memory.bytes(), memory.is_owned_elsewhere()), (12, true));
    /// ```
    pub fn from_owner<T: DeviceCopy>(owner: impl AsMut<[T]> + Send + 'static) -> Self {
        let owner = NonNull::from(Box::leak(Box::new(owner)));
        // Before the owner is asked, which may panic: from here on it is dropped whatever comes.
        let kept = Owner(owner);
        // SAFETY: the owner is alive until `kept` is dropped, at an address that does not change, and nobody else knows it: this
        // borrow may last as long, since nothing touches the owner again but its drop.
        let elements: &mut [T] = unsafe { (*owner.as_ptr()).as_mut() };
        let bytes = size_of_val(elements);
        let start = NonNull::from(elements).cast();
        let layout = Layout::new::<[u64; 0]>();
        HostMemory { start, bytes, base: start, layout, owner: Some(kept) }
    }

    /// Whether it is some [owner's](HostMemory::from_owner), whose destructor runs when it is dropped.
    pub fn is_owned_elsewhere(&self) -> bool {
        self.owner.is_some()
    }

    /// Whether it is [as a vector's](HostMemory::try_into_vec) of such elements.
    pub fn is_vec_of<T: DeviceCopy>(&self) -> bool {
        self.owner.is_none()
            && self.layout.align() == align_of::<T>()
            && self.start == self.base
            && size_of::<T>() != 0
            && self.layout.size().is_multiple_of(size_of::<T>())
            && self.bytes.is_multiple_of(size_of::<T>())
    }

    /// Gives the memory back as a vector without a copy, where it was one of the same layout; else returns itself.
    pub fn try_into_vec<T: DeviceCopy>(self) -> Result<Vec<T>, Self> {
        if !self.is_vec_of::<T>() {
            return Err(self);
        }
        let this = std::mem::ManuallyDrop::new(self);
        let (len, capacity) = (this.bytes / size_of::<T>(), this.layout.size() / size_of::<T>());
        // SAFETY: the memory comes from the global allocator with exactly the layout of `capacity` elements of `T`
        // (start, size and alignment were compared), its first `len` elements are initialised, `T` takes every bit pattern,
        // and ownership passes on because `self` is not dropped.
        Ok(unsafe { Vec::from_raw_parts(this.start.as_ptr().cast(), len, capacity) })
    }
}

/// A value on the heap that is never moved, and never looked at again before it is dropped. It is kept by its address, since to move a box
/// is to say that nobody else uses what is in it.
struct Owner(NonNull<dyn Send>);

impl Drop for Owner {
    fn drop(&mut self) {
        // SAFETY: the address is that of a box that was leaked, and this is its only drop. Whoever has the memory of `HostMemory` says
        // that nobody uses it any more by dropping it.
        drop(unsafe { Box::from_raw(self.0.as_ptr()) });
    }
}

fn dangling(align: usize) -> NonNull<u8> {
    NonNull::without_provenance(std::num::NonZero::new(align).unwrap_or(std::num::NonZero::<usize>::MIN))
}

impl Drop for HostMemory {
    fn drop(&mut self) {
        if self.layout.size() != 0 {
            // SAFETY: the memory was allocated by the global allocator with this layout, and is freed once.
            unsafe { dealloc(self.base.as_ptr(), self.layout) }
        }
    }
}

// SAFETY: the memory was allocated with at least `bytes` bytes from `start` on, all of them initialised (zeroed, or a vector's
// or an owner's elements), and is freed only when this value is dropped.
unsafe impl Allocation for HostMemory {
    fn bytes(&self) -> usize {
        self.bytes
    }

    fn host_ptr(&self) -> Option<NonNull<u8>> {
        Some(self.start)
    }

    /// That of the host, for devices that work on its memory.
    fn device_address(&self) -> Option<u64> {
        Some(self.start.as_ptr().expose_provenance() as u64)
    }
}

impl fmt::Debug for HostMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HostMemory").field("bytes", &self.bytes).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_vector_goes_in_and_comes_out_where_it_was() {
        let mut vec = Vec::with_capacity(10);
        vec.extend([1.5_f32, 2.5]);
        let address = vec.as_ptr();
        let memory = HostMemory::from_vec(vec);
        assert_eq!(memory.bytes(), 8);
        let memory = memory.try_into_vec::<f64>().expect_err("an f64 vector has another layout");
        let vec = memory.try_into_vec::<f32>().expect("this is its own layout");
        assert_eq!((vec.as_slice(), vec.capacity(), vec.as_ptr()), (&[1.5, 2.5][..], 10, address));
    }

    #[test]
    fn fresh_memory_starts_on_a_cache_line_and_is_zero() {
        for bytes in [1, 4, 63, 64, 65, 4096, 1 << 20] {
            let memory = HostMemory::zeroed(bytes).expect("there is that much");
            let start = memory.host_ptr().expect("host memory has an address");
            assert_eq!(start.addr().get() % ALIGN, 0);
            // SAFETY: the memory has that many bytes, is initialised, and nobody else knows it.
            let all = unsafe { std::slice::from_raw_parts_mut(start.as_ptr(), bytes) };
            assert!(all.iter().all(|b| *b == 0));
            all.fill(1);
        }
    }

    #[test]
    fn empty_memory_owns_nothing() {
        assert_eq!(HostMemory::zeroed(0).expect("no bytes are always there").bytes(), 0);
        assert_eq!(
            HostMemory::from_vec(Vec::<u64>::new()).try_into_vec::<u64>().expect("same layout").len(),
            0
        );
    }

    #[test]
    fn an_owner_lives_as_long_as_its_memory_and_is_dropped_once() {
        use std::sync::Arc;

        struct Shared(#[expect(dead_code, reason = "it is counted")] Arc<()>, Vec<u32>);
        impl AsMut<[u32]> for Shared {
            fn as_mut(&mut self) -> &mut [u32] {
                &mut self.1[1..]
            }
        }
        let alive = Arc::new(());
        let owner = Shared(alive.clone(), vec![7, 8, 9]);
        let address = owner.1[1..].as_ptr().addr();
        let memory = HostMemory::from_owner(owner);
        assert_eq!((memory.bytes(), memory.host_ptr().map(|start| start.addr().get())), (8, Some(address)));
        let memory = memory.try_into_vec::<u32>().expect_err("its owner frees it, and no vector may");
        assert_eq!(Arc::strong_count(&alive), 2);
        // SAFETY: the memory holds two numbers, and nobody else uses it.
        let all = unsafe { std::slice::from_raw_parts_mut(memory.start.cast::<u32>().as_ptr(), 2) };
        all[0] += 1;
        assert_eq!(all, [9, 9]);
        drop(memory);
        assert_eq!(Arc::strong_count(&alive), 1);
    }

    #[test]
    fn an_owner_that_panics_when_it_is_asked_is_dropped() {
        use std::panic::{AssertUnwindSafe, catch_unwind};
        use std::sync::Arc;

        struct Broken(#[expect(dead_code, reason = "it is counted")] Arc<()>);
        impl AsMut<[u8]> for Broken {
            fn as_mut(&mut self) -> &mut [u8] {
                panic!("it has none")
            }
        }
        let alive = Arc::new(());
        let owner = Broken(alive.clone());
        assert!(catch_unwind(AssertUnwindSafe(|| HostMemory::from_owner::<u8>(owner))).is_err());
        assert_eq!(Arc::strong_count(&alive), 1);
    }

    #[test]
    fn too_much_is_an_error() {
        assert!(matches!(HostMemory::zeroed(usize::MAX), Err(BackendError::OutOfMemory { .. })));
    }
}
