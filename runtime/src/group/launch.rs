//! The two safe forms of host kernels: closures over checked atomic views, and closures over disjoint slices.

use std::ops;

use smallvec::SmallVec;
use windlass_kernel::{
    AtomicView, Block, DeviceCopy, HostBody, IndexRange, LaunchRange, Range, Span, View, ViewMut,
};

use super::CommandGroup;
use super::accessor::{
    Accessor, Atomic, Concurrent, Overwrite, Read, ReadWrite, ReadWriteUninit, Window as _, Write,
    check_casts,
};
use crate::error::{Error, Kind, Result};
use crate::host_view;
use crate::shell::work::{Binding, Planned, PlannedBody};

/// An accessor as an argument of [`CommandGroup::host_for`].
///
/// ```
/// use windlass::access::HostArg;
/// use windlass::image::View;
/// use windlass::prelude::*;
///
/// /// How many elements are zero: of any accessor that only reads.
/// fn zeros<'g, A>(cg: &CommandGroup<'g>, of: A, len: usize, count: &Buffer<u32>) -> windlass::Result<()>
/// where
///     A: for<'v> HostArg<'g, Elem = u32, View<'v> = View<'v, u32>> + 'g,
/// {
///     cg.host_for(len, (of, cg.atomic(count)), |item, (x, count)| {
///         if x.get(item.id(0)) == 0 {
///             count.fetch_add(0, 1);
///         }
///     })
/// }
///
/// # fn main() -> windlass::Result<()> {
/// let (queue, x, count) = (Queue::blocking_on(Device::host())?, Buffer::from(vec![1, 0, 0_u32]), Buffer::new(1));
/// queue.submit(|cg| zeros(cg, cg.read(&x), 3, &count))?;
/// assert_eq!(count.host_read().blocking_wait()?[0], 2);
/// # Ok(()) }
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not an accessor of this group",
    note = "pass `cg.read(&buffer)` or another accessor, or a tuple of them; a buffer itself cannot be passed"
)]
pub trait HostArg<'g>: Accessor<'g> {
    /// What the closure gets for it.
    type View<'v>: Copy;
    #[doc(hidden)]
    fn view<'v>(window: &HostWindow<'v>) -> Self::View<'v>;
}

/// A window of memory for the length of one call; for the crate's own use.
#[derive(Debug)]
#[doc(hidden)]
#[allow(unnameable_types, reason = "only the crate itself looks inside")]
pub struct HostWindow<'v>(pub(crate) Span<'v>);

macro_rules! host_arg {
    ($($accessor:ident $view:ident)*) => {$(
        impl<'g, T: DeviceCopy, const D: usize> HostArg<'g> for $accessor<'g, T, D> {
            type View<'v> = $view<'v, T>;
            fn view<'v>(window: &HostWindow<'v>) -> $view<'v, T> {
                $view::new(window.0)
            }
        }
    )*};
}
host_arg! {
    Read View
    Write ViewMut
    ReadWrite ViewMut
    Overwrite ViewMut
    ReadWriteUninit ViewMut
    Atomic AtomicView
    Concurrent AtomicView
}

/// One accessor, or a tuple of up to twelve.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be the arguments of a host kernel",
    note = "pass `cg.read(&buffer)` or another accessor, or a tuple of them; a buffer itself cannot be passed"
)]
pub trait HostArgs<'g>: 'g {
    /// What the closure gets.
    type Views<'v>: Copy;
    #[doc(hidden)]
    fn windows(&self) -> Result<Windows>;
    #[doc(hidden)]
    fn views<'v>(windows: &[HostWindow<'v>]) -> Self::Views<'v>;
}

/// The windows of all arguments, and a bit for each that may be written.
#[doc(hidden)]
#[allow(unnameable_types, reason = "only the crate itself looks inside")]
#[derive(Debug)]
pub struct Windows(pub(crate) SmallVec<[Binding; 2]>, pub(crate) u32);

/// An accessor that was refused has no window, and its group fails for that reason; this one is never shown.
fn refused() -> Error {
    Error::invalid("an accessor of this group was refused")
}

impl<'g, A: HostArg<'g> + 'g> HostArgs<'g> for A {
    type Views<'v> = A::View<'v>;
    fn windows(&self) -> Result<Windows> {
        let mut windows = SmallVec::new();
        windows.push(self.binding().ok_or_else(refused)?);
        Ok(Windows(windows, u32::from(A::MODE.0.writes())))
    }
    fn views<'v>(windows: &[HostWindow<'v>]) -> A::View<'v> {
        A::view(&windows[0])
    }
}

/// No arguments: the closure works on what it captured.
impl<'g> HostArgs<'g> for () {
    type Views<'v> = ();
    fn windows(&self) -> Result<Windows> {
        Ok(Windows(SmallVec::new(), 0))
    }
    fn views(_: &[HostWindow<'_>]) {}
}

macro_rules! host_args {
    ($(($($a:ident $i:tt)*))*) => {$(
        impl<'g, $($a: HostArg<'g> + 'g),*> HostArgs<'g> for ($($a,)*) {
            type Views<'v> = ($($a::View<'v>,)*);
            fn windows(&self) -> Result<Windows> {
                let mut windows = SmallVec::new();
                $(windows.push(self.$i.binding().ok_or_else(refused)?);)*
                Ok(Windows(windows, $(u32::from($a::MODE.0.writes()) << $i)|*))
            }
            fn views<'v>(windows: &[HostWindow<'v>]) -> Self::Views<'v> {
                ($($a::view(&windows[$i]),)*)
            }
        }
        impl<'g, $($a: ChunkArg<'g> + 'g),*> ChunkArgs<'g> for ($($a,)*) {
            type Parts<'v> = ($($a::Part<'v>,)*);
            fn chunk_windows(&self) -> Result<ChunkWindows> {
                Ok(ChunkWindows(SmallVec::from_iter([$((self.$i.binding().ok_or_else(refused)?, $a::WRITES)),*])))
            }
            fn parts<'v>(windows: &[HostWindow<'v>], chunk: &Chunk) -> Self::Parts<'v> {
                ($($a::part(&windows[$i], chunk),)*)
            }
        }
    )*};
}
host_args! {
    (A 0)
    (A 0 B 1)
    (A 0 B 1 C 2)
    (A 0 B 1 C 2 E 3)
    (A 0 B 1 C 2 E 3 F 4)
    (A 0 B 1 C 2 E 3 F 4 G 5)
    (A 0 B 1 C 2 E 3 F 4 G 5 H 6)
    (A 0 B 1 C 2 E 3 F 4 G 5 H 6 I 7)
    (A 0 B 1 C 2 E 3 F 4 G 5 H 6 I 7 J 8)
    (A 0 B 1 C 2 E 3 F 4 G 5 H 6 I 7 J 8 K 9)
    (A 0 B 1 C 2 E 3 F 4 G 5 H 6 I 7 J 8 K 9 L 10)
    (A 0 B 1 C 2 E 3 F 4 G 5 H 6 I 7 J 8 K 9 L 10 M 11)
}

impl<'g> CommandGroup<'g> {
    /// Runs a closure for every item of a range, on a host device. `args` is an accessor or a tuple of them; the
    /// closure gets a view for each, through which it reads and writes elements by index: outside the accessor's range
    /// a read gives zero and a write does nothing. Items run at the same time on several threads; two that touch one
    /// element race, harmlessly.
    ///
    /// ```
    /// use windlass::prelude::*;
    /// # fn main() -> windlass::Result<()> {
    /// let queue = Queue::blocking_on(Device::host())?;
    /// let (x, y) = (Buffer::from(vec![1.0_f32; 100]), Buffer::<f32>::new(100));
    /// queue.submit(|cg| {
    ///     let args = (cg.read(&x), cg.overwrite(&y));
    ///     cg.host_for(100, args, |item, (x, y)| y.set(item.id(0), x.get(item.id(0)) + item.id(0) as f32))
    /// })?;
    /// assert_eq!(y.host_read().blocking_wait()?[99], 100.0);
    /// # Ok(())
    /// # }
    /// ```
    pub fn host_for<R, A, F>(&self, range: R, args: A, body: F) -> Result<()>
    where
        R: IndexRange,
        A: HostArgs<'g>,
        F: for<'v> Fn(R::Item, A::Views<'v>) + Send + Sync + 'g,
    {
        // It is the program's code: asked again, it may answer otherwise, or panic where nobody expects it.
        let asked = range.range();
        asked.check().map_err(|error| Error::invalid(error.to_string()))?;
        self.host_device("host_for")?;
        let Windows(windows, written) = args.windows()?;
        check_casts(windows.iter().zip(0..).map(|(window, at)| (window, written >> at & 1 == 1)))?;
        match asked.items() {
            0 => Ok(()),
            _ => self.push(Planned::Host(Some(for_body::<R, A, F>((range, asked), windows, body)))),
        }
    }

    /// Runs a closure over blocks of elements, on a host device: plain slices, which the compiler vectorises. `args` is
    /// an accessor or a tuple of them. Accessors that write are cut into blocks, and the closure gets each block's own
    /// part of them as `&mut [T]`; those that only read it gets whole, as `&[T]`. Blocks are multiples of `granule`
    /// elements, and how large they are is up to the runtime.
    ///
    /// ```
    /// use windlass::prelude::*;
    /// # fn main() -> windlass::Result<()> {
    /// let queue = Queue::blocking_on(Device::host())?;
    /// let (x, y) = (Buffer::from(vec![1.0_f32; 1000]), Buffer::from(vec![2.0_f32; 1000]));
    /// queue.submit(|cg| {
    ///     let args = (cg.read(&x), cg.read_write(&y));
    ///     cg.host_chunks(1, args, |chunk, (x, y)| {
    ///         for (y, x) in y.iter_mut().zip(&x[chunk.range()]) {
    ///             *y += 3.0 * x;
    ///         }
    ///     })
    /// })?;
    /// assert!(y.host_read().blocking_wait()?.iter().all(|&v| v == 5.0));
    /// # Ok(())
    /// # }
    /// ```
    pub fn host_chunks<A, F>(&self, granule: usize, args: A, body: F) -> Result<()>
    where
        A: ChunkArgs<'g>,
        F: for<'v> Fn(Chunk, A::Parts<'v>) + Send + Sync + 'g,
    {
        self.host_device("host_chunks")?;
        let windows = args.chunk_windows()?.0;
        let items = check_chunks(granule, &windows)?;
        match items {
            0 => Ok(()),
            _ => {
                let windows = windows.into_iter().map(|(w, _)| w).collect();
                self.push(Planned::Host(Some(chunk_body::<A, F>(granule, items, windows, body))))
            }
        }
    }

    fn host_device(&self, what: &str) -> Result<()> {
        match self.queue.slot.runs_host_bodies() {
            true => Ok(()),
            false => Err(Error::unsupported(format!(
                "`{what}` runs closures of this program, which {} does not: use a queue on a host device",
                self.queue.slot.device
            ))),
        }
    }
}

struct ForBody<R, A, F> {
    /// The program's own, which makes items of positions.
    of: R,
    /// What it said when it was asked, once.
    range: Range,
    windows: SmallVec<[Binding; 2]>,
    body: F,
    args: std::marker::PhantomData<fn() -> A>,
}

impl<'g, R, A, F> HostBody for ForBody<R, A, F>
where
    R: IndexRange,
    A: HostArgs<'g>,
    F: for<'v> Fn(R::Item, A::Views<'v>) + Send + Sync,
{
    fn run(&self, block: Block<'_>) {
        let windows: SmallVec<[HostWindow<'_>; 4]> = block.spans().iter().map(|s| HostWindow(*s)).collect();
        let views = A::views(&windows);
        for linear in block.items() {
            (self.body)(self.of.item(linear), views);
        }
    }
}

impl<'g, R, A, F> PlannedBody for ForBody<R, A, F>
where
    R: IndexRange,
    A: HostArgs<'g>,
    F: for<'v> Fn(R::Item, A::Views<'v>) + Send + Sync,
{
    fn range(&self) -> Range {
        self.range
    }

    fn windows(&self) -> &[Binding] {
        &self.windows
    }
}

pub(super) fn for_body<'g, R, A, F>(
    (of, range): (R, Range),
    windows: SmallVec<[Binding; 2]>,
    body: F,
) -> Box<dyn PlannedBody + 'g>
where
    R: IndexRange,
    A: HostArgs<'g>,
    F: for<'v> Fn(R::Item, A::Views<'v>) + Send + Sync + 'g,
{
    Box::new(ForBody::<R, A, F> { of, range, windows, body, args: std::marker::PhantomData })
}

/// One block of a [`CommandGroup::host_chunks`] launch.
///
/// ```
/// use windlass::prelude::*;
/// # fn main() -> windlass::Result<()> {
/// let (queue, squares) = (Queue::blocking_on(Device::host())?, Buffer::<u32>::new(100));
/// queue.submit(|cg| {
///     cg.host_chunks(1, cg.overwrite(&squares), |chunk, part| {
///         for (i, square) in chunk.range().zip(part) {
///             *square = (i * i) as u32;
///         }
///     })
/// })?;
/// assert_eq!(squares.host_read().blocking_wait()?[99], 99 * 99);
/// # Ok(()) }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chunk {
    range: ops::Range<usize>,
    total: usize,
}

impl Chunk {
    /// The elements of this block.
    ///
    /// ```
    /// use windlass::prelude::*;
    /// # fn main() -> windlass::Result<()> {
    /// let (queue, x) = (Queue::blocking_on(Device::host())?, Buffer::from((0..100).collect::<Vec<u32>>()));
    /// let reversed = Buffer::<u32>::new(100);
    /// queue.submit(|cg| {
    ///     // What is read is there as a whole, and of what is written a block has its own part.
    ///     cg.host_chunks(1, (cg.read(&x), cg.overwrite(&reversed)), |chunk, (x, part)| {
    ///         for (i, reversed) in chunk.range().zip(part) {
    ///             *reversed = x[chunk.total() - 1 - i];
    ///         }
    ///     })
    /// })?;
    /// assert_eq!(reversed.host_read().blocking_wait()?[..3], [99, 98, 97]);
    /// # Ok(()) }
    /// ```
    pub fn range(&self) -> ops::Range<usize> {
        self.range.clone()
    }

    /// Elements in the whole launch.
    ///
    /// ```
    /// use windlass::prelude::*;
    /// # fn main() -> windlass::Result<()> {
    /// let (queue, ramp) = (Queue::blocking_on(Device::host())?, Buffer::<f32>::new(101));
    /// queue.submit(|cg| {
    ///     cg.host_chunks(1, cg.overwrite(&ramp), |chunk, part| {
    ///         for (i, value) in chunk.range().zip(part) {
    ///             *value = i as f32 / (chunk.total() - 1) as f32;
    ///         }
    ///     })
    /// })?;
    /// assert_eq!(ramp.host_read().blocking_wait()?[50..], (50..=100).map(|i| i as f32 / 100.0).collect::<Vec<_>>());
    /// # Ok(()) }
    /// ```
    pub fn total(&self) -> usize {
        self.total
    }
}

/// An accessor as an argument of [`CommandGroup::host_chunks`].
///
/// ```
/// use windlass::access::ChunkArg;
/// use windlass::prelude::*;
///
/// /// Sets all elements, through any accessor that writes them.
/// fn set<'g, A>(cg: &CommandGroup<'g>, to: A, value: u32) -> windlass::Result<()>
/// where
///     A: for<'v> ChunkArg<'g, Part<'v> = &'v mut [u32]> + 'g,
/// {
///     cg.host_chunks(1, to, move |_, part| part.fill(value))
/// }
///
/// # fn main() -> windlass::Result<()> {
/// let (queue, x) = (Queue::blocking_on(Device::host())?, Buffer::<u32>::new(100));
/// queue.submit(|cg| set(cg, cg.overwrite(&x), 1))?;
/// queue.submit(|cg| set(cg, cg.write(&x.range(..1)), 2))?;
/// assert_eq!(x.host_read().blocking_wait()?[..3], [2, 1, 1]);
/// # Ok(()) }
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not an accessor that can be cut into slices",
    note = "pass `cg.read(&buffer)`, `cg.overwrite(&buffer)` or `cg.read_write(&buffer)`, or a tuple of them"
)]
pub trait ChunkArg<'g>: Accessor<'g> {
    /// What the closure gets for it: the whole, or its block's part.
    type Part<'v>;
    #[doc(hidden)]
    const WRITES: bool;
    #[doc(hidden)]
    fn part<'v>(window: &HostWindow<'v>, chunk: &Chunk) -> Self::Part<'v>;
}

impl<'g, T: DeviceCopy> ChunkArg<'g> for Read<'g, T> {
    type Part<'v> = &'v [T];
    const WRITES: bool = false;
    fn part<'v>(window: &HostWindow<'v>, _: &Chunk) -> &'v [T] {
        host_view::whole(&window.0)
    }
}

macro_rules! chunk_arg {
    ($($accessor:ident)*) => {$(
        impl<'g, T: DeviceCopy> ChunkArg<'g> for $accessor<'g, T> {
            type Part<'v> = &'v mut [T];
            const WRITES: bool = true;
            fn part<'v>(window: &HostWindow<'v>, chunk: &Chunk) -> &'v mut [T] {
                host_view::part(&window.0, chunk.range())
            }
        }
    )*};
}
chunk_arg!(Write ReadWrite Overwrite ReadWriteUninit);

/// One accessor, or a tuple of up to twelve.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be the arguments of `host_chunks`",
    note = "pass `cg.read(&buffer)`, `cg.overwrite(&buffer)` or `cg.read_write(&buffer)`, or a tuple of them"
)]
pub trait ChunkArgs<'g>: 'g {
    /// What the closure gets.
    type Parts<'v>;
    #[doc(hidden)]
    fn chunk_windows(&self) -> Result<ChunkWindows>;
    #[doc(hidden)]
    fn parts<'v>(windows: &[HostWindow<'v>], chunk: &Chunk) -> Self::Parts<'v>;
}

/// The windows of all arguments, with whether each is cut.
#[doc(hidden)]
#[allow(unnameable_types, reason = "only the crate itself looks inside")]
#[derive(Debug)]
pub struct ChunkWindows(pub(crate) SmallVec<[(Binding, bool); 2]>);

impl<'g, A: ChunkArg<'g> + 'g> ChunkArgs<'g> for A {
    type Parts<'v> = A::Part<'v>;
    fn chunk_windows(&self) -> Result<ChunkWindows> {
        Ok(ChunkWindows(SmallVec::from_iter([(self.binding().ok_or_else(refused)?, A::WRITES)])))
    }
    fn parts<'v>(windows: &[HostWindow<'v>], chunk: &Chunk) -> A::Part<'v> {
        A::part(&windows[0], chunk)
    }
}

/// Checks what makes handing out slices sound: those that are cut are of one length and overlap nothing. Returns the
/// number of granules.
pub(super) fn check_chunks(granule: usize, windows: &[(Binding, bool)]) -> Result<usize> {
    let mut cut = windows.iter().filter(|(_, writes)| *writes).map(|(w, _)| w.len());
    let len = match cut.next() {
        Some(len) => len,
        None => windows.iter().map(|(w, _)| w.len()).max().unwrap_or(0),
    };
    if let Some(other) = cut.find(|l| *l != len) {
        return Err(Error::invalid(format!(
            "accessors that are cut into blocks have {len} and {other} elements"
        )));
    }
    if granule == 0 || !len.is_multiple_of(granule) {
        return Err(Error::invalid(format!("{len} elements cannot be cut into blocks of {granule}")));
    }
    if windows.iter().any(|(w, _)| !w.region().is_contiguous()) {
        return Err(Error::invalid(
            "a part of a grid whose rows do not follow each other cannot be shown as a slice",
        ));
    }
    for (i, (a, a_writes)) in windows.iter().enumerate() {
        for (b, b_writes) in &windows[i + 1..] {
            if (*a_writes || *b_writes) && a.overlaps(b) {
                let what =
                    "two accessors of `host_chunks` share elements, and one of them writes; use `host_for`";
                return Err(Error::new(Kind::Aliased(what.into())));
            }
        }
    }
    Ok(len / granule)
}

struct ChunkBody<A, F> {
    granule: usize,
    items: usize,
    windows: SmallVec<[Binding; 2]>,
    body: F,
    args: std::marker::PhantomData<fn() -> A>,
}

impl<'g, A, F> HostBody for ChunkBody<A, F>
where
    A: ChunkArgs<'g>,
    F: for<'v> Fn(Chunk, A::Parts<'v>) + Send + Sync,
{
    fn run(&self, block: Block<'_>) {
        let windows: SmallVec<[HostWindow<'_>; 4]> = block.spans().iter().map(|s| HostWindow(*s)).collect();
        let range = block.items().start * self.granule..block.items().end * self.granule;
        let chunk = Chunk { range, total: self.items * self.granule };
        let parts = A::parts(&windows, &chunk);
        (self.body)(chunk, parts);
    }
}

impl<'g, A, F> PlannedBody for ChunkBody<A, F>
where
    A: ChunkArgs<'g>,
    F: for<'v> Fn(Chunk, A::Parts<'v>) + Send + Sync,
{
    fn range(&self) -> Range {
        self.items.range()
    }

    fn windows(&self) -> &[Binding] {
        &self.windows
    }
}

pub(super) fn chunk_body<'g, A, F>(
    granule: usize,
    items: usize,
    windows: SmallVec<[Binding; 2]>,
    body: F,
) -> Box<dyn PlannedBody + 'g>
where
    A: ChunkArgs<'g>,
    F: for<'v> Fn(Chunk, A::Parts<'v>) + Send + Sync + 'g,
{
    Box::new(ChunkBody::<A, F> { granule, items, windows, body, args: std::marker::PhantomData })
}
