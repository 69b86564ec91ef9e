//! Views of host memory: the one place in the runtime that turns addresses into references.
//!
//! What makes it sound stands elsewhere and is relied on here: a [`Span`] was made by `Binding::span` from an accessor
//! whose requirement the engine has planned. Until the node that owns the requirement settles, the engine keeps every
//! conflicting user of these bytes away, in this runtime and through all memories. Windows were checked against their
//! buffer, and their element type is the accessor's.

use std::cell::RefCell;
use std::fmt;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut, Range};
use std::sync::Arc;

use windlass_backend::{Allocation, HostMemory};
use windlass_kernel::{AtomicView, DeviceCopy, Span, View, ViewMut};
use windlass_sync::facade::{Mutex, lock};

/// A view for items that share the memory.
pub(crate) fn shared<'v, T: DeviceCopy>(span: &'v Span) -> View<'v, T> {
    // SAFETY: the span is of an accessor of `T`, and is borrowed for `'v` inside the launch that owns it; in a launch
    // of this form all work-items go through atomic views, whose words are the root's.
    unsafe { View::new(*span) }
}

/// A view for items that share the memory, and write it.
pub(crate) fn shared_mut<'v, T: DeviceCopy>(span: &'v Span) -> ViewMut<'v, T> {
    // SAFETY: as for `shared`.
    unsafe { ViewMut::new(*span) }
}

/// A view for items that update the memory atomically.
pub(crate) fn atomic<'v, T: DeviceCopy>(span: &'v Span) -> AtomicView<'v, T> {
    // SAFETY: as for `shared`.
    unsafe { AtomicView::new(*span) }
}

/// All of a window as a slice.
pub(crate) fn whole<T: DeviceCopy>(span: &Span) -> &[T] {
    // SAFETY: the span is of an accessor of `T` that only reads, and `check_chunks` refused windows with gaps and
    // launches in which a window that is written overlaps this one; other groups that write are kept away.
    unsafe { span.as_slice() }
}

/// A block's part of a window as a slice.
#[allow(clippy::mut_from_ref, reason = "a span is an address: what it points to is not borrowed through it")]
pub(crate) fn part<T: DeviceCopy>(span: &Span, range: Range<usize>) -> &mut [T] {
    // SAFETY: the span is of an accessor of `T` that writes; `check_chunks` refused windows with gaps and overlaps.
    // The blocks of a launch are disjoint and inside the window, and each block's body asks for its part once.
    unsafe { span.as_mut_slice(range) }
}

/// Which windows of a host task are lent, and how: several readers or one writer.
#[derive(Debug, Default)]
pub(crate) struct Lent {
    entries: RefCell<Vec<(Span, bool)>>,
}

impl Lent {
    fn lend(&self, span: Span, mutable: bool) -> bool {
        let mut entries = self.entries.borrow_mut();
        let clash =
            entries.iter().any(|(other, other_mutable)| (mutable || *other_mutable) && other.overlaps(&span));
        if !clash {
            entries.push((span, mutable));
        }
        !clash
    }

    fn back(&self, span: &Span, mutable: bool) {
        let mut entries = self.entries.borrow_mut();
        let at = entries
            .iter()
            .position(|(s, m)| s.as_ptr() == span.as_ptr() && s.len() == span.len() && *m == mutable);
        if let Some(at) = at {
            entries.swap_remove(at);
        }
    }
}

macro_rules! task_view {
    ($(#[doc = $doc:literal])* $name:ident $mutable:literal) => {
        $(#[doc = $doc])*
        pub struct $name<'a, T> {
            span: Span,
            lent: &'a Mutex<Lent>,
            marker: PhantomData<&'a mut [T]>,
        }

        impl<'a, T: DeviceCopy> $name<'a, T> {
            /// Lends the window, unless that overlaps a view that is out.
            pub(crate) fn lend(span: Span, lent: &'a Mutex<Lent>) -> Option<Self> {
                let free = span.is_contiguous() && lock(lent).lend(span, $mutable);
                free.then(|| $name { span, lent, marker: PhantomData })
            }
        }

        impl<T: DeviceCopy> Deref for $name<'_, T> {
            type Target = [T];
            fn deref(&self) -> &[T] {
                // SAFETY: the window belongs to a running host task, so other groups that conflict are kept away; the
                // ledger holds this view's entry until it is dropped, so no other view writes the memory. It is
                // contiguous, was checked when lent, and is of the accessor's element type. The task's memory table,
                // which `lent` is a part of, keeps the allocation alive for `'a`.
                unsafe { self.span.as_slice() }
            }
        }

        impl<T> Drop for $name<'_, T> {
            fn drop(&mut self) {
                lock(self.lent).back(&self.span, $mutable);
            }
        }

        impl<T: DeviceCopy + fmt::Debug> fmt::Debug for $name<'_, T> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Debug::fmt(&**self, f)
            }
        }

        impl<T: DeviceCopy> $name<'_, T> {
            /// The elements as bytes.
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
        unsafe { self.span.as_mut_slice(0..self.span.len()) }
    }
}

/// The memory of a guard that the host holds.
#[derive(Debug)]
pub(crate) struct Held {
    span: Option<Span>,
    /// Keeps the address good.
    _memory: Option<Arc<dyn Allocation>>,
}

impl Held {
    pub(crate) fn new(span: Option<Span>, memory: Option<Arc<dyn Allocation>>) -> Self {
        Held { span, _memory: memory }
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
            Some(span) => unsafe { span.as_slice() },
            None => &[],
        }
    }

    /// The elements of a write guard, where they follow each other.
    pub(crate) fn slice_mut<T: DeviceCopy>(&mut self) -> &mut [T] {
        match &self.span {
            // SAFETY: as for `slice`; the node is a writer's, so nobody else reads the bytes either.
            Some(span) => unsafe { span.as_mut_slice(0..span.len()) },
            None => &mut [],
        }
    }

    /// Copies all elements out, whatever the window's shape.
    pub(crate) fn gather<T: DeviceCopy>(&self) -> Vec<T> {
        let Some(span) = &self.span else { return Vec::new() };
        let view = shared::<T>(span);
        (0..view.len()).map(|i| view.get(i)).collect()
    }

    /// Copies elements back in, whatever the window's shape.
    pub(crate) fn scatter<T: DeviceCopy>(&mut self, elements: &[T]) {
        let Some(span) = &self.span else { return };
        let view = shared_mut::<T>(span);
        elements.iter().enumerate().for_each(|(i, e)| view.set(i, *e));
    }
}

/// Copies host memory that nobody else reaches any more into a vector.
pub(crate) fn copy_out<T: DeviceCopy>(memory: &HostMemory) -> Vec<T> {
    let len = memory.bytes() / size_of::<T>();
    let mut out = vec![T::zero(); len];
    if let Some(from) = memory.host_ptr() {
        // SAFETY: the caller owns the memory, which holds at least `len` elements' bytes, all initialised; `out` is
        // fresh memory of that size, and bytes have no alignment.
        unsafe {
            std::ptr::copy_nonoverlapping(from.as_ptr(), out.as_mut_ptr().cast::<u8>(), len * size_of::<T>())
        };
    }
    out
}
