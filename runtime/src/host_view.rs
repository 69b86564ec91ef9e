//! Views of host memory: the one place in the runtime that turns addresses into references.
//!
//! What makes it sound stands elsewhere and is relied on here: a [`RawSpan`] was made by `Binding::span` from an accessor
//! whose requirement the engine has planned. Until the node that owns the requirement settles, the engine keeps every
//! conflicting user of these bytes away, in this runtime and through all memories. Windows were checked against their
//! buffer, and their element type is the accessor's.

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::fmt;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut, Range};
use std::ptr::NonNull;
use std::sync::{Arc, Weak};

use windlass_backend::{Allocation, HostMemory};
use windlass_kernel::{DeviceCopy, RawSpan, Span, View, ViewMut};
use windlass_sync::facade::{Mutex, lock};
use windlass_sync::forked;

use crate::shell::Inner;

/// All of a window as a slice.
pub(crate) fn whole<'v, T: DeviceCopy>(span: &Span<'v>) -> &'v [T] {
    // SAFETY: the span is of an accessor that only reads, and `check_chunks` refused launches in which a window that is
    // written overlaps this one; other groups that write are kept away.
    unsafe { span.as_slice() }
}

/// A block's part of a window as a slice.
pub(crate) fn part<'v, T: DeviceCopy>(span: &Span<'v>, range: Range<usize>) -> &'v mut [T] {
    // SAFETY: the span is of an accessor that writes; `check_chunks` refused overlaps. The blocks of a launch are
    // disjoint, and each block's body asks for its part once.
    unsafe { span.as_mut_slice(range) }
}

/// Which windows of a host task are lent, and how: several readers or one writer.
#[derive(Debug, Default)]
pub(crate) struct Loans {
    entries: RefCell<Vec<Loan>>,
    lent: Cell<u64>,
}

/// A window that is lent. It has a number, since two views that look the same in all else may be of different bytes: elements of another
/// type may start at the same address and be as many.
#[derive(Debug)]
struct Loan {
    number: u64,
    span: RawSpan,
    mutable: bool,
}

impl Loans {
    /// The loan's number, if nothing that is lent stands in its way.
    fn lend(&self, span: RawSpan, mutable: bool) -> Option<u64> {
        let mut entries = self.entries.borrow_mut();
        let clash = |other: &Loan| (mutable || other.mutable) && other.span.overlaps(&span);
        if entries.iter().any(clash) {
            return None;
        }
        let number = self.lent.get();
        self.lent.set(number + 1);
        entries.push(Loan { number, span, mutable });
        Some(number)
    }

    fn back(&self, number: u64) {
        self.entries.borrow_mut().retain(|loan| loan.number != number);
    }
}

macro_rules! task_view {
    ($(#[doc = $doc:literal])* $name:ident $mutable:literal) => {
        $(#[doc = $doc])*
        pub struct $name<'a, T> {
            span: RawSpan,
            number: u64,
            lent: &'a Mutex<Loans>,
            marker: PhantomData<&'a mut [T]>,
        }

        impl<'a, T: DeviceCopy> $name<'a, T> {
            /// Lends the window, unless that overlaps a view that is out.
            pub(crate) fn lend(span: RawSpan, lent: &'a Mutex<Loans>) -> Option<Self> {
                let number = span.is_contiguous().then(|| lock(lent).lend(span, $mutable)).flatten()?;
                Some($name { span, number, lent, marker: PhantomData })
            }
        }

        impl<T: DeviceCopy> Deref for $name<'_, T> {
            type Target = [T];
            fn deref(&self) -> &[T] {
                // SAFETY: the window belongs to a running host task, so other groups that conflict are kept away; the
                // ledger holds this view's entry until it is dropped, so no other view writes the memory. It is
                // contiguous, was checked when lent, and is of the accessor's element type. The task's memory table,
                // which `lent` is a part of, keeps the allocation alive for `'a`.
                unsafe { self.span.lend().as_slice() }
            }
        }

        impl<T> Drop for $name<'_, T> {
            fn drop(&mut self) {
                lock(self.lent).back(self.number);
            }
        }

        impl<T: DeviceCopy + fmt::Debug> fmt::Debug for $name<'_, T> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Debug::fmt(&**self, f)
            }
        }

        impl<T: DeviceCopy> $name<'_, T> {
            /// The elements as bytes.
            ///
            /// ```
            /// use windlass::prelude::*;
            /// # fn main() -> windlass::Result<()> {
            /// let (queue, x) = (Queue::blocking_new()?, Buffer::from(vec![0x0201_u16, 0x0403]));
            /// queue.submit(|cg| {
            ///     let x = cg.read(&x);
            ///     cg.host_task(async move |host| {
            ///         let mut file = Vec::new();
            ///         std::io::Write::write_all(&mut file, host.view(&x)?.as_bytes())?;
            ///         Ok(assert_eq!(file.len(), 4))
            ///     })
            /// })?
            /// .blocking_wait()?;
            /// # Ok(()) }
            /// ```
            pub fn as_bytes(&self) -> &[u8] {
                windlass_kernel::slice_bytes(self)
            }
        }
    };
}

task_view! {
    /// A host task's view of data that it reads.
    HostView false
}
task_view! {
    /// A host task's view of data that it writes.
    HostViewMut true
}

impl<T: DeviceCopy> DerefMut for HostViewMut<'_, T> {
    fn deref_mut(&mut self) -> &mut [T] {
        // SAFETY: as for `deref`; the ledger's entry is exclusive, so this view is the only one of these bytes, and
        // `&mut self` makes this borrow of it the only one.
        unsafe { self.span.lend().as_mut_slice(0..self.span.len()) }
    }
}

/// The memory of a guard that the host holds.
#[derive(Debug)]
pub(crate) struct Held {
    span: Option<RawSpan>,
    /// Keeps the address good.
    memory: Option<Arc<dyn Allocation>>,
}

impl Held {
    pub(crate) fn new(span: Option<RawSpan>, memory: Option<Arc<dyn Allocation>>) -> Self {
        Held { span, memory }
    }

    /// Its memory; it shows nothing from then on.
    pub(crate) fn take_memory(&mut self) -> Option<Arc<dyn Allocation>> {
        self.span = None;
        self.memory.take()
    }

    pub(crate) fn is_contiguous(&self) -> bool {
        self.span.is_none_or(|s| s.is_contiguous())
    }

    /// The guard's elements, where they follow each other.
    pub(crate) fn slice<T: DeviceCopy>(&self) -> &[T] {
        match &self.span {
            // SAFETY: the guard's node is not settled as long as `self` is alive, so nobody writes these bytes but
            // through `slice_mut`, which needs `&mut self`. The window is of the buffer's element type, the allocation
            // is kept by `self`, and callers check that it is contiguous.
            Some(span) => unsafe { span.lend().as_slice() },
            None => &[],
        }
    }

    /// The elements of a write guard, where they follow each other.
    pub(crate) fn slice_mut<T: DeviceCopy>(&mut self) -> &mut [T] {
        match &self.span {
            // SAFETY: as for `slice`; the node is a writer's, so nobody else reads the bytes either.
            Some(span) => unsafe { span.lend().as_mut_slice(0..span.len()) },
            None => &mut [],
        }
    }

    /// Copies all elements out, whatever the window's shape.
    pub(crate) fn gather<T: DeviceCopy>(&self) -> Vec<T> {
        let Some(span) = &self.span else { return Vec::new() };
        // SAFETY: as for `slice`, and the view goes by the root's words.
        let view = View::<T>::new(unsafe { span.lend() });
        (0..view.len()).map(|i| view.get(i)).collect()
    }

    /// Copies elements back in, whatever the window's shape.
    pub(crate) fn scatter<T: DeviceCopy>(&mut self, elements: &[T]) {
        let Some(span) = &self.span else { return };
        // SAFETY: as for `slice_mut`, and the view goes by the root's words.
        let view = ViewMut::<T>::new(unsafe { span.lend() });
        elements.iter().enumerate().for_each(|(i, e)| view.set(i, *e));
    }
}

/// What a buffer has left: its memory, or a copy of what was in it.
#[derive(Debug)]
pub(crate) enum Elements<T: DeviceCopy> {
    Own(OwnMemory<T>),
    Copied(Vec<T>),
}

/// Memory that was a buffer's, and that nobody else has. It goes back to where buffers have theirs from.
#[derive(Debug)]
pub(crate) struct OwnMemory<T: DeviceCopy> {
    /// Until it is dropped.
    memory: Option<Arc<dyn Allocation>>,
    first: NonNull<T>,
    len: usize,
    inner: Weak<Inner>,
}

// SAFETY: it is memory that is owned and only read, and elements have neither threads nor interior mutability.
unsafe impl<T: DeviceCopy> Send for OwnMemory<T> {}
// SAFETY: as above.
unsafe impl<T: DeviceCopy> Sync for OwnMemory<T> {}

impl<T: DeviceCopy> OwnMemory<T> {
    /// So many elements from its start on. Gives back what others keep as well, what is not the heap's, and what does not begin where an element may.
    pub(crate) fn new(
        memory: Arc<dyn Allocation>,
        len: usize,
        inner: Weak<Inner>,
    ) -> Result<Self, Arc<dyn Allocation>> {
        let is_heap = (&*memory as &dyn Any).is::<HostMemory>();
        let first = memory.host_ptr().map(NonNull::cast::<T>).filter(|first| first.is_aligned());
        match first {
            Some(first)
                if is_heap && len <= memory.bytes() / size_of::<T>() && Arc::strong_count(&memory) == 1 =>
            {
                Ok(OwnMemory { memory: Some(memory), first, len, inner })
            }
            _ => Err(memory),
        }
    }
}

impl<T: DeviceCopy> Deref for Elements<T> {
    type Target = [T];
    fn deref(&self) -> &[T] {
        match self {
            Elements::Copied(elements) => elements,
            // SAFETY: the memory is the heap's, initialised, as long as `own` is, and holds `len` elements from `first`, which is aligned.
            // The engine has given it up and this was its only reference, so nobody writes it.
            Elements::Own(own) => unsafe { std::slice::from_raw_parts(own.first.as_ptr(), own.len) },
        }
    }
}

impl<T: DeviceCopy> Drop for OwnMemory<T> {
    fn drop(&mut self) {
        if forked::is_child() {
            return std::mem::forget(self.memory.take());
        }
        if let Some(inner) = self.inner.upgrade() {
            inner.free_all(self.memory.take());
        }
    }
}

/// Copies the first elements of host memory that nobody uses any more into a vector, which there are at least so many of.
pub(crate) fn copy_out<T: DeviceCopy>(memory: &HostMemory, len: usize) -> Vec<T> {
    assert!(len <= memory.bytes() / size_of::<T>());
    let mut out = vec![T::zero(); len];
    if let Some(from) = memory.host_ptr() {
        // SAFETY: the caller borrows the memory, which holds at least `len` elements' bytes, as was just looked at, all initialised, and which nobody
        // writes: its buffer is gone, and whoever still keeps it does nothing with it. `out` is fresh memory of that size, and bytes have no alignment.
        unsafe {
            std::ptr::copy_nonoverlapping(from.as_ptr(), out.as_mut_ptr().cast::<u8>(), len * size_of::<T>())
        };
    }
    out
}
