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
use std::ops::{Deref, DerefMut, Index, IndexMut, Range};
use std::ptr::NonNull;
use std::sync::{Arc, Weak};

use windlass_backend::{Allocation, HostMemory};
use windlass_kernel::{DeviceCopy, RawSpan, Span};
use windlass_sync::facade::{Mutex, lock};
use windlass_sync::forked;

use crate::host_index::GuardIndex;
use crate::shell::Inner;
use crate::shell::work::{self, window_region};

/// All of a window as a slice. It has no gaps.
pub(crate) fn whole<'v, T: DeviceCopy>(span: &Span<'v>) -> &'v [T] {
    // SAFETY: the span is of an accessor that only reads, and `Cut::of` refused launches in which a window that is
    // written overlaps this one; other groups that write are kept away.
    unsafe { span.as_slice() }
}

/// A chunk's part of a window as a slice. It lies inside one run of the window's.
pub(crate) fn part<'v, T: DeviceCopy>(span: &Span<'v>, range: Range<usize>) -> &'v mut [T] {
    let (span, range) = match span.is_contiguous() {
        true => (*span, range),
        false => (span.line(range.clone()), 0..range.len()),
    };
    // SAFETY: the span is of an accessor that writes; `Cut::of` refused overlaps. The chunks of a launch are
    // disjoint, and each asks for its part once.
    unsafe { span.as_mut_slice(range) }
}

/// The runs of a window: the elements that follow each other, as spans without gaps.
fn lines<'v>(span: Span<'v>) -> impl Iterator<Item = Span<'v>> {
    let run = span.extent().run();
    let runs = if span.is_empty() { 0 } else { span.len() / run };
    (0..runs).map(move |at| span.line(at * run..(at + 1) * run))
}

/// Copies all elements out, whatever the window's shape.
pub(crate) fn gather<T: DeviceCopy>(span: Span<'_>) -> Vec<T> {
    let mut elements = Vec::with_capacity(span.len());
    for line in lines(span) {
        // SAFETY: the slice lives for the copy only, and meanwhile nobody writes these bytes: the span is a guard's or a
        // task's view, for whose sake writers are kept away, or a launch's as for `whole`.
        elements.extend_from_slice(unsafe { line.as_slice() });
    }
    elements
}

/// Copies elements back in, whatever the window's shape.
fn scatter<T: DeviceCopy>(span: Span<'_>, mut elements: &[T]) {
    for line in lines(span) {
        let (row, rest) = elements.split_at(line.len());
        // SAFETY: the slice lives for the copy only, and the span is that of a guard or of a task's view that writes: nobody
        // else has a reference to these bytes meanwhile.
        unsafe { line.as_mut_slice(0..row.len()) }.copy_from_slice(row);
        elements = rest;
    }
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
        let clash = |other: &Loan| (mutable || other.mutable) && share_a_byte(&other.span, &span);
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

/// Whether two windows do, wherever they are. What lies between the rows of a window is not its own.
fn share_a_byte(a: &RawSpan, b: &RawSpan) -> bool {
    let bytes = |span: &RawSpan| window_region(span.as_ptr().addr(), span.extent(), span.element_bytes());
    !a.is_empty() && !b.is_empty() && work::share_a_byte(&bytes(a), &bytes(b))
}

macro_rules! task_view {
    ($(#[doc = $doc:literal])* $name:ident $mutable:literal) => {
        $(#[doc = $doc])*
        ///
        /// `S` is `[usize; D]` for a buffer of `D` dimensions. The view is a slice of all elements, row by row, and can be indexed as
        /// the [guards](crate::HostRead) of such a buffer are. A part of a grid whose rows do not follow each other is shown as a copy.
        pub struct $name<'a, T: DeviceCopy, S = [usize; 1]> {
            span: RawSpan,
            /// Of a part of a grid whose rows do not follow each other.
            copy: Option<Vec<T>>,
            shape: S,
            number: u64,
            lent: &'a Mutex<Loans>,
            marker: PhantomData<&'a mut [T]>,
        }

        impl<'a, T: DeviceCopy, S> $name<'a, T, S> {
            /// Lends the window, unless that overlaps a view that is out.
            pub(crate) fn lend(span: RawSpan, shape: S, lent: &'a Mutex<Loans>) -> Option<Self> {
                let number = lock(lent).lend(span, $mutable)?;
                let span = if $mutable { span } else { span.read_only() };
                let mut view = $name { span, copy: None, shape, number, lent, marker: PhantomData };
                if !span.is_contiguous() {
                    view.copy = Some(gather(view.memory()));
                }
                Some(view)
            }

            /// The window as memory, for as long as the view is out.
            fn memory(&self) -> Span<'_> {
                // SAFETY: the window belongs to a running host task, so other groups that conflict are kept away, and the
                // task's memory table, which `lent` is a part of, keeps the allocation alive for `'a`. By the ledger, other
                // views of these bytes are out only if all of them read, and then this span is not writable.
                unsafe { self.span.lend() }
            }
        }

        impl<T: DeviceCopy, S: Copy> $name<'_, T, S> {
            /// The extents of what it shows, outermost first.
            ///
            /// ```
            /// use windlass::prelude::*;
            /// # fn main() -> windlass::Result<()> {
            /// let (queue, grid) = (Queue::blocking_new()?, Buffer::<u32, 2>::new([4, 6]));
            /// queue.submit(|cg| {
            ///     let part = cg.read(&grid.range((1..3, 2..5)));
            ///     cg.host_task(async move |host| Ok(assert_eq!(host.view(&part)?.shape(), [2, 3])))
            /// })?
            /// .blocking_wait()?;
            /// # Ok(()) }
            /// ```
            pub fn shape(&self) -> S {
                self.shape
            }
        }

        impl<T: DeviceCopy, S> Deref for $name<'_, T, S> {
            type Target = [T];
            fn deref(&self) -> &[T] {
                match &self.copy {
                    Some(copy) => copy,
                    // SAFETY: the ledger holds this view's entry until it is dropped, so no other view writes the memory.
                    // It is contiguous, since there is no copy, and is of the accessor's element type.
                    None => unsafe { self.memory().as_slice() },
                }
            }
        }

        impl<T: DeviceCopy, S> Drop for $name<'_, T, S> {
            fn drop(&mut self) {
                self.bring_back();
                lock(self.lent).back(self.number);
            }
        }

        impl<T: DeviceCopy, I: GuardIndex<T, D>, const D: usize> Index<I> for $name<'_, T, [usize; D]> {
            type Output = I::Output;
            #[track_caller]
            fn index(&self, at: I) -> &I::Output {
                at.of(self, self.shape)
            }
        }

        impl<T: DeviceCopy + fmt::Debug, S> fmt::Debug for $name<'_, T, S> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Debug::fmt(&**self, f)
            }
        }

        impl<T: DeviceCopy, S> $name<'_, T, S> {
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
    ///
    /// ```
    /// use windlass::prelude::*;
    /// # fn main() -> windlass::Result<()> {
    /// let queue = Queue::blocking_new()?;
    /// let grid = Buffer::with_shape([2, 3], vec![1_u32, 2, 3, 4, 5, 6])?;
    /// queue.submit(|cg| {
    ///     let columns = cg.read(&grid.range((.., 1..3)));
    ///     cg.host_task(async move |host| {
    ///         let columns = host.view(&columns)?;
    ///         assert_eq!(columns[[1, 0]], 5);
    ///         assert_eq!(columns[1], [5, 6]);
    ///         Ok(assert_eq!(columns[..], [2, 3, 5, 6]))
    ///     })
    /// })?
    /// .blocking_wait()?;
    /// # Ok(()) }
    /// ```
    HostView false
}
task_view! {
    /// A host task's view of data that it writes.
    ///
    /// ```
    /// use windlass::prelude::*;
    /// # fn main() -> windlass::Result<()> {
    /// let (queue, grid) = (Queue::blocking_new()?, Buffer::<u32, 2>::new([2, 3]));
    /// queue.submit(|cg| {
    ///     let mut columns = cg.write(&grid.range((.., 1..3)));
    ///     cg.host_task(async move |host| {
    ///         let mut columns = host.view_mut(&mut columns)?;
    ///         columns[0].fill(7);
    ///         Ok(columns[[1, 1]] = 8)
    ///     })
    /// })?;
    /// assert_eq!(grid.host_read().blocking_wait()?[..], [0, 7, 7, 0, 0, 8]);
    /// # Ok(()) }
    /// ```
    ///
    /// A copy is written back when the view is dropped; one that is forgotten ([`std::mem::forget`]) writes nothing.
    HostViewMut true
}

impl<T: DeviceCopy, S> HostView<'_, T, S> {
    /// It has changed nothing.
    fn bring_back(&mut self) {}
}

impl<T: DeviceCopy, S> HostViewMut<'_, T, S> {
    /// Writes the copy's elements where they are from, if there is one.
    fn bring_back(&mut self) {
        // A child may share the memory with its parent, which has gone on.
        if let Some(copy) = self.copy.take().filter(|_| !forked::is_child()) {
            scatter(self.memory(), &copy);
        }
    }
}

impl<T: DeviceCopy, S> DerefMut for HostViewMut<'_, T, S> {
    fn deref_mut(&mut self) -> &mut [T] {
        match &mut self.copy {
            Some(copy) => copy,
            // SAFETY: as for `deref`; the ledger's entry is exclusive, so this view is the only one of these bytes, and
            // `&mut self` makes this borrow of it the only one.
            None => unsafe { self.span.lend().as_mut_slice(0..self.span.len()) },
        }
    }
}

impl<T: DeviceCopy, I: GuardIndex<T, D>, const D: usize> IndexMut<I> for HostViewMut<'_, T, [usize; D]> {
    #[track_caller]
    fn index_mut(&mut self, at: I) -> &mut I::Output {
        let shape = self.shape;
        at.of_mut(self, shape)
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
        // SAFETY: as for `slice`.
        gather(unsafe { span.lend() })
    }

    /// Copies elements back in, whatever the window's shape.
    pub(crate) fn scatter<T: DeviceCopy>(&mut self, elements: &[T]) {
        let Some(span) = &self.span else { return };
        // SAFETY: as for `slice_mut`.
        scatter(unsafe { span.lend() }, elements);
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
