//! Accessors: a group's typed claims on buffers.

use std::fmt;
use std::marker::PhantomData;

use windlass_kernel::{DeviceCopy, Extent};

use crate::error::{Error, Result};
use crate::shell::work::Binding;
use windlass_engine::Mode;

/// How an accessor uses its data; for the crate's own use.
#[derive(Clone, Copy, Debug)]
#[doc(hidden)]
#[allow(unnameable_types, reason = "only the crate itself looks inside")]
pub struct AccessMode(pub(crate) Mode);

/// A window of an accessor; for the crate's own use.
#[derive(Clone, Copy, Debug)]
#[doc(hidden)]
#[allow(unnameable_types, reason = "only the crate itself looks inside")]
pub struct AccessWindow(pub(crate) Option<Binding>);

/// What all accessors have in common.
///
/// ```
/// use windlass::{access::Accessor, prelude::*};
///
/// /// Takes whatever says that it writes.
/// fn clear<'g>(cg: &CommandGroup<'g>, to: &impl Accessor<'g, Elem = u32>) -> windlass::Result<()> {
///     cg.fill(to, 0)
/// }
///
/// # fn main() -> windlass::Result<()> {
/// let (queue, x) = (Queue::blocking_new()?, Buffer::from(vec![1_u32; 4]));
/// queue.submit(|cg| clear(cg, &cg.overwrite(&x)))?;
/// assert_eq!(x.host_read().blocking_wait()?[..], [0; 4]);
/// assert!(queue.submit(|cg| clear(cg, &cg.read(&x))).is_err());
/// # Ok(()) }
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not an accessor of this group",
    note = "pass `cg.read(&buffer)` or another accessor; a buffer itself cannot be passed"
)]
pub trait Accessor<'g>: sealed::Sealed {
    /// The element type.
    type Elem: DeviceCopy;
    /// The extents of what it shows, outermost first: an array of one to three.
    type Shape: Copy + fmt::Debug + PartialEq + AsRef<[usize]> + Send + Sync + Unpin + 'static;
    #[doc(hidden)]
    const MODE: AccessMode;
    #[doc(hidden)]
    fn window(&self) -> AccessWindow;
    #[doc(hidden)]
    fn shape_of(extent: &Extent) -> Self::Shape;
}

/// The accessor's window, where its requirement was accepted.
pub(crate) trait Window<'g>: Accessor<'g> {
    fn binding(&self) -> Option<Binding> {
        self.window().0
    }
}
impl<'g, A: Accessor<'g>> Window<'g> for A {}

pub(crate) mod sealed {
    #[allow(unnameable_types, reason = "sealing is what this trait is for")]
    pub trait Sealed {}
}

macro_rules! accessors {
    ($($(#[doc = $doc:literal])* $name:ident $mode:ident)*) => {$(
        $(#[doc = $doc])*
        ///
        /// It belongs to its group: it can be given to that group's commands, and to nothing else.
        pub struct $name<'g, T, const D: usize = 1> {
            binding: Option<Binding>,
            brand: PhantomData<(fn(&'g ()) -> &'g (), fn() -> T)>,
        }

        impl<T: DeviceCopy, const D: usize> $name<'_, T, D> {
            pub(super) fn new(binding: Option<Binding>) -> Self {
                $name { binding, brand: PhantomData }
            }

            /// How many elements it shows.
            ///
            /// ```
            /// use windlass::prelude::*;
            /// # fn main() -> windlass::Result<()> {
            /// let (queue, x) = (Queue::blocking_new()?, Buffer::<u32>::new(10));
            /// queue.submit(|cg| {
            ///     assert_eq!((cg.read(&x).len(), cg.read(&x.range(2..5)).len()), (10, 3));
            ///     Ok(())
            /// })?;
            /// # Ok(()) }
            /// ```
            pub fn len(&self) -> usize {
                self.binding.map_or(0, |b| b.len())
            }

            /// Whether it shows none.
            pub fn is_empty(&self) -> bool {
                self.len() == 0
            }
        }

        impl<T, const D: usize> sealed::Sealed for $name<'_, T, D> {}
        impl<T, const D: usize> sealed::Sealed for &$name<'_, T, D> {}

        impl<'g, T: DeviceCopy, const D: usize> Accessor<'g> for $name<'g, T, D> {
            type Elem = T;
            type Shape = [usize; D];
            const MODE: AccessMode = AccessMode(Mode::$mode);
            fn window(&self) -> AccessWindow {
                AccessWindow(self.binding)
            }
            fn shape_of(extent: &Extent) -> [usize; D] {
                extent.inner()
            }
        }

        impl<'g, T: DeviceCopy, const D: usize> Accessor<'g> for &$name<'g, T, D> {
            type Elem = T;
            type Shape = [usize; D];
            const MODE: AccessMode = AccessMode(Mode::$mode);
            fn window(&self) -> AccessWindow {
                AccessWindow(self.binding)
            }
            fn shape_of(extent: &Extent) -> [usize; D] {
                extent.inner()
            }
        }

        impl<T, const D: usize> fmt::Debug for $name<'_, T, D> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.debug_struct(stringify!($name)).field("len", &self.binding.map_or(0, |b| b.len())).finish()
            }
        }
    )*};
}
accessors! {
    /// Data that a group reads.
    ///
    /// ```
    /// use windlass::prelude::*;
    /// # fn main() -> windlass::Result<()> {
    /// let queue = Queue::blocking_on(Device::host())?;
    /// let (x, sum) = (Buffer::from(vec![1_u32, 2, 3]), Buffer::<u32>::new(1));
    /// queue.submit(|cg| {
    ///     let x = cg.read(&x);
    ///     assert_eq!(x.len(), 3);
    ///     cg.host_for(1, (x, cg.overwrite(&sum)), |_, (x, sum)| sum.set(0, x.get(0) + x.get(2)))
    /// })?;
    /// assert_eq!(sum.host_read().blocking_wait()?[0], 4);
    /// # Ok(()) }
    /// ```
    Read Read
    /// Data that a group writes in part.
    Write Write
    /// Data that a group reads and writes.
    ///
    /// ```
    /// use windlass::{access::ReadWrite, prelude::*};
    ///
    /// fn twice<'g>(cg: &CommandGroup<'g>, v: ReadWrite<'g, u32>) -> windlass::Result<()> {
    ///     cg.host_for(v.len(), v, |item, v| v.set(item.id(0), 2 * v.get(item.id(0))))
    /// }
    ///
    /// # fn main() -> windlass::Result<()> {
    /// let (queue, data) = (Queue::blocking_on(Device::host())?, Buffer::from(vec![1_u32, 2, 3]));
    /// queue.submit(|cg| twice(cg, cg.read_write(&data)))?;
    /// assert_eq!(data.host_read().blocking_wait()?[..], [2, 4, 6]);
    /// # Ok(()) }
    /// ```
    ReadWrite ReadWrite
    /// Data that a group overwrites.
    ///
    /// ```
    /// use windlass::{access::Overwrite, prelude::*};
    /// # fn main() -> windlass::Result<()> {
    /// let (queue, x) = (Queue::blocking_on(Device::host())?, Buffer::<u32>::new(4));
    /// queue.submit(|cg| {
    ///     let x: Overwrite<'_, u32> = cg.overwrite(&x);
    ///     cg.fill(&x, 3)?;
    ///     // Several commands of a group may share an accessor.
    ///     cg.host_for(1, x, |_, x| x.set(0, 9))
    /// })?;
    /// assert_eq!(x.host_read().blocking_wait()?[..], [9, 3, 3, 3]);
    /// # Ok(()) }
    /// ```
    Overwrite Overwrite
    /// Data that a group overwrites, then reads.
    ReadWriteUninit ReadWriteUninit
    /// Data that a group's work-items update atomically.
    Atomic Atomic
    /// Data that several groups change at the same time.
    Concurrent Concurrent
}

impl<T, const D: usize> Clone for Read<'_, T, D> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<T, const D: usize> Copy for Read<'_, T, D> {}

/// A source must be readable, a destination writable.
pub(super) fn check_modes(from: Mode, to: Mode) -> Result<()> {
    if from == Mode::Concurrent || to == Mode::Concurrent {
        return Err(Error::invalid(
            "a copy or a fill of what others change at the same time: use `cg.read` or `cg.write` for it",
        ));
    }
    if !from.reads() && from != Mode::ReadWriteUninit {
        return Err(Error::invalid("a copy's source was required for writing only: use `cg.read` for it"));
    }
    match to.writes() {
        true => Ok(()),
        false => Err(Error::invalid("a destination was required for reading only: use `cg.write` for it")),
    }
}

/// Refuses windows of one launch that show the same bytes as elements of different types, where one is written: compilers of devices
/// take such memory to be apart, and on the host it is shared by words of one size.
pub(super) fn check_casts<'w>(windows: impl Iterator<Item = (&'w Binding, bool)> + Clone) -> Result<()> {
    // Nearly all launches have none.
    if windows.clone().all(|(window, _)| !window.is_cast) {
        return Ok(());
    }
    let mut rest = windows;
    while let Some((window, writes)) = rest.next() {
        let clashes = |(other, other_writes): (&Binding, bool)| {
            (window.is_cast || other.is_cast) && (writes || other_writes) && window.overlaps(other)
        };
        if rest.clone().any(clashes) {
            return Err(Error::invalid(
                "two arguments of a launch share bytes, one of them through `reinterpret`, and one of them is written: \
                 pass one of the two",
            ));
        }
    }
    Ok(())
}

/// How a copy is made.
pub(super) enum Fit {
    /// Between two windows of one shape.
    At(Binding, Binding),
    /// By a line of elements that follow each other, which can be seen in the shapes of both.
    ByLine,
}

/// What a copy moves, in windows of one shape. Windows of different rank that have as many elements are taken as one line, so where one of
/// them is without gaps, it is seen in the shape of the other.
pub(super) fn of_one_shape(from: Binding, to: Binding) -> Result<Fit> {
    if from.extent.size == to.extent.size {
        return Ok(Fit::At(from, to));
    }
    let (a, b) = (shape(&from), shape(&to));
    if a.len() == b.len() || from.len() != to.len() {
        return Err(Error::invalid(format!("a copy of {a:?} elements does not fit a destination of {b:?}")));
    }
    let may_change = |window: &Binding| window.is_empty() || window.region().is_contiguous();
    match (may_change(&from) && from.image.is_none(), may_change(&to) && to.image.is_none()) {
        (true, _) => Ok(Fit::At(without_gaps(from, to.extent.size), to)),
        (_, true) => Ok(Fit::At(from, without_gaps(to, from.extent.size))),
        (false, false) => Ok(Fit::ByLine),
    }
}

/// A window of these extents whose elements follow each other.
pub(super) fn without_gaps(window: Binding, size: [usize; 3]) -> Binding {
    let [_, rows, row] = size;
    Binding { extent: Extent { size, pitch: [rows * row, row] }, ..window }
}

/// The extents, without leading ones.
fn shape(window: &Binding) -> &[usize] {
    let size = &window.extent.size;
    &size[size[..2].iter().take_while(|extent| **extent == 1).count()..]
}
