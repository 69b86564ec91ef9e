//! The second of the two safe forms of host kernels: closures over slices that are disjoint.

use std::any::Any;
use std::ops;
use std::sync::OnceLock;

use smallvec::SmallVec;
use windlass_kernel::{Block, DeviceCopy, HostBody, LaunchRange, Range, Span};

use super::CommandGroup;
use super::accessor::{Accessor, Overwrite, Read, ReadWrite, ReadWriteUninit, Window as _, Write};
use super::launch::{for_tuples, refused};
use crate::error::{Error, Kind, Result};
use crate::host_view;
use crate::shell::work::{Binding, Planned, PlannedBody};

impl<'g> CommandGroup<'g> {
    /// Runs a closure over blocks of elements, on a host device: plain slices, which the compiler vectorises. `args` is
    /// an accessor or a tuple of them. Accessors that write are cut into blocks, and the closure gets each block's own
    /// part of them as `&mut [T]`; those that only read it gets whole, as `&[T]`. Blocks are multiples of `granule`
    /// elements, and how large they are is up to the runtime.
    ///
    /// Elements of grids are counted row by row. A part of a grid whose rows do not follow each other is read as a copy, which is
    /// made once for the launch. What is written of such a part is the memory itself: a block ends where its row does, and `granule`
    /// has to divide the row's length (or, where a slice's rows follow each other, the slice's).
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
    ///
    /// // The last two columns of a grid: each block is in one row.
    /// let grid = Buffer::<usize, 2>::new([3, 4]);
    /// let columns = grid.range((.., 2..));
    /// queue.submit(|cg| cg.host_chunks(2, cg.overwrite(&columns), |chunk, part| part.fill(1 + chunk.range().start / 2)))?;
    /// assert_eq!(grid.host_read().blocking_wait()?[..], [0, 0, 1, 1, 0, 0, 2, 2, 0, 0, 3, 3]);
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
        let cut = Cut::of(granule, &windows)?;
        if cut.granules == 0 {
            return Ok(());
        }
        let reads_parts = windows.iter().any(|(window, writes)| !writes && window.has_gaps());
        let copies = reads_parts.then(OnceLock::new);
        let windows = windows.into_iter().map(|(window, _)| window).collect();
        let args = std::marker::PhantomData;
        self.push(Planned::Host(Some(Box::new(ChunkBody::<A, F> { cut, windows, copies, body, args }))))
    }
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
    fn copied(span: &Span<'_>) -> Option<Copied>;
    #[doc(hidden)]
    fn part<'v>(window: &ChunkWindow<'v>, chunk: &Chunk) -> Self::Part<'v>;
}

/// A window of memory for the length of one call, with its copy if it has one; for the crate's own use.
#[derive(Debug)]
#[doc(hidden)]
#[allow(unnameable_types, reason = "only the crate itself looks inside")]
pub struct ChunkWindow<'v> {
    span: Span<'v>,
    copy: Option<&'v Copied>,
}

/// The elements of a window with gaps, in a vector; for the crate's own use.
#[derive(Debug)]
#[doc(hidden)]
#[allow(unnameable_types, reason = "only the crate itself looks inside")]
pub struct Copied(Box<dyn Any + Send + Sync>);

impl<'g, T: DeviceCopy, const D: usize> ChunkArg<'g> for Read<'g, T, D> {
    type Part<'v> = &'v [T];
    const WRITES: bool = false;
    fn copied(span: &Span<'_>) -> Option<Copied> {
        let has_gaps = !span.is_empty() && !span.is_contiguous();
        has_gaps.then(|| Copied(Box::new(host_view::gather::<T>(*span))))
    }
    fn part<'v>(window: &ChunkWindow<'v>, _: &Chunk) -> &'v [T] {
        match window.copy.and_then(|Copied(copy)| copy.downcast_ref::<Vec<T>>()) {
            Some(copy) => copy,
            None if window.span.is_empty() => &[],
            None => host_view::whole(&window.span),
        }
    }
}

macro_rules! chunk_arg {
    ($($accessor:ident)*) => {$(
        impl<'g, T: DeviceCopy, const D: usize> ChunkArg<'g> for $accessor<'g, T, D> {
            type Part<'v> = &'v mut [T];
            const WRITES: bool = true;
            fn copied(_: &Span<'_>) -> Option<Copied> {
                None
            }
            fn part<'v>(window: &ChunkWindow<'v>, chunk: &Chunk) -> &'v mut [T] {
                host_view::part(&window.span, chunk.range())
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
    fn copies(spans: &[Span<'_>]) -> Copies;
    #[doc(hidden)]
    fn parts<'v>(windows: &[ChunkWindow<'v>], chunk: &Chunk) -> Self::Parts<'v>;
}

/// The windows of all arguments, with whether each is cut.
#[doc(hidden)]
#[allow(unnameable_types, reason = "only the crate itself looks inside")]
#[derive(Debug)]
pub struct ChunkWindows(pub(crate) SmallVec<[(Binding, bool); 2]>);

/// A place for each argument's copy.
type Copies = SmallVec<[Option<Copied>; 4]>;

impl<'g, A: ChunkArg<'g> + 'g> ChunkArgs<'g> for A {
    type Parts<'v> = A::Part<'v>;
    fn chunk_windows(&self) -> Result<ChunkWindows> {
        Ok(ChunkWindows(SmallVec::from_iter([(self.binding().ok_or_else(refused)?, A::WRITES)])))
    }
    fn copies(spans: &[Span<'_>]) -> Copies {
        Copies::from_iter([A::copied(&spans[0])])
    }
    fn parts<'v>(windows: &[ChunkWindow<'v>], chunk: &Chunk) -> A::Part<'v> {
        A::part(&windows[0], chunk)
    }
}

macro_rules! chunk_args {
    ($(($($a:ident $i:tt)*))*) => {$(
        impl<'g, $($a: ChunkArg<'g> + 'g),*> ChunkArgs<'g> for ($($a,)*) {
            type Parts<'v> = ($($a::Part<'v>,)*);
            fn chunk_windows(&self) -> Result<ChunkWindows> {
                Ok(ChunkWindows(SmallVec::from_iter([$((self.$i.binding().ok_or_else(refused)?, $a::WRITES)),*])))
            }
            fn copies(spans: &[Span<'_>]) -> Copies {
                Copies::from_iter([$($a::copied(&spans[$i])),*])
            }
            fn parts<'v>(windows: &[ChunkWindow<'v>], chunk: &Chunk) -> Self::Parts<'v> {
                ($($a::part(&windows[$i], chunk),)*)
            }
        }
    )*};
}
for_tuples!(chunk_args);

/// How a launch is cut.
struct Cut {
    granule: usize,
    /// How many there are.
    granules: usize,
    /// Of each part with gaps that is written, how many elements follow each other: multiples of granules, in which no chunk goes
    /// from one to the next.
    runs: SmallVec<[usize; 2]>,
}

impl Cut {
    /// Checks what makes handing out slices sound: windows that are cut are of one length, overlap nothing, and can be cut
    /// between gaps.
    fn of(granule: usize, windows: &[(Binding, bool)]) -> Result<Cut> {
        let len = chunked_len(windows)?;
        if granule == 0 || !len.is_multiple_of(granule) {
            return Err(Error::invalid(format!("{len} elements cannot be cut into blocks of {granule}")));
        }
        let mut runs = SmallVec::new();
        for (at, (window, _)) in windows.iter().enumerate().filter(|(_, (w, writes))| *writes && w.has_gaps())
        {
            let run = window.extent.run();
            if !run.is_multiple_of(granule) {
                return Err(Error::invalid(format!(
                    "argument {at} of `host_chunks` is a part of a grid of which {run} elements follow each other, which cannot be \
                     cut into blocks of {granule}: choose a granule that divides {run}, or use `host_for`"
                )));
            }
            runs.push(run);
        }
        check_overlaps(windows)?;
        Ok(Cut { granule, granules: len / granule, runs })
    }

    /// All elements.
    fn total(&self) -> usize {
        self.granules * self.granule
    }

    /// The chunks of a block, so many granules.
    fn chunks(&self, granules: ops::Range<usize>) -> impl Iterator<Item = Chunk> {
        let end = granules.end * self.granule;
        let mut at = granules.start * self.granule;
        std::iter::from_fn(move || {
            let start = at;
            at = self.runs.iter().map(|run| (start / run + 1) * run).fold(end, usize::min);
            (start < end).then(|| Chunk { range: start..at, total: self.total() })
        })
    }
}

/// How many elements are cut: as many of each window that is written.
fn chunked_len(windows: &[(Binding, bool)]) -> Result<usize> {
    let mut cut = windows.iter().filter(|(_, writes)| *writes).map(|(w, _)| w.len());
    let Some(len) = cut.next() else {
        return Ok(windows.iter().map(|(w, _)| w.len()).max().unwrap_or(0));
    };
    match cut.find(|other| *other != len) {
        None => Ok(len),
        Some(other) => {
            Err(Error::invalid(format!("accessors that are cut into blocks have {len} and {other} elements")))
        }
    }
}

fn check_overlaps(windows: &[(Binding, bool)]) -> Result<()> {
    for (i, (a, a_writes)) in windows.iter().enumerate() {
        for (b, b_writes) in &windows[i + 1..] {
            if (*a_writes || *b_writes) && a.overlaps(b) {
                let what =
                    "two accessors of `host_chunks` share elements, and one of them writes; use `host_for`";
                return Err(Error::new(Kind::Aliased(what.into())));
            }
        }
    }
    Ok(())
}

struct ChunkBody<A, F> {
    cut: Cut,
    windows: SmallVec<[Binding; 2]>,
    /// Of what is read and has gaps; made by the first block, if there is such an argument.
    copies: Option<OnceLock<Copies>>,
    body: F,
    args: std::marker::PhantomData<fn() -> A>,
}

impl<'g, A, F> HostBody for ChunkBody<A, F>
where
    A: ChunkArgs<'g>,
    F: for<'v> Fn(Chunk, A::Parts<'v>) + Send + Sync,
{
    fn run(&self, block: Block<'_>) {
        let spans = block.spans();
        let copies = self.copies.as_ref().map(|copies| copies.get_or_init(|| A::copies(spans)));
        let copy = |at: usize| copies.and_then(|copies: &Copies| copies.get(at)?.as_ref());
        let windows = spans.iter().enumerate().map(|(at, span)| ChunkWindow { span: *span, copy: copy(at) });
        let windows: SmallVec<[ChunkWindow<'_>; 4]> = windows.collect();
        for chunk in self.cut.chunks(block.items()) {
            let parts = A::parts(&windows, &chunk);
            (self.body)(chunk, parts);
        }
    }
}

impl<'g, A, F> PlannedBody for ChunkBody<A, F>
where
    A: ChunkArgs<'g>,
    F: for<'v> Fn(Chunk, A::Parts<'v>) + Send + Sync,
{
    fn range(&self) -> Range {
        self.cut.granules.range()
    }

    fn windows(&self) -> &[Binding] {
        &self.windows
    }
}
