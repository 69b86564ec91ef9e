//! The first of the two safe forms of host kernels: closures over checked atomic views. The other is in `chunks`.

use smallvec::SmallVec;
use windlass_kernel::{AtomicView, Block, DeviceCopy, HostBody, IndexRange, Range, Span, View, ViewMut};

use super::CommandGroup;
use super::accessor::{
    Accessor, Atomic, Concurrent, Overwrite, Read, ReadWrite, ReadWriteUninit, Window as _, Write,
    check_casts,
};
use crate::error::{Error, Result};
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
pub(super) fn refused() -> Error {
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

/// Has a macro write something for all tuples of accessors that a launch can take.
macro_rules! for_tuples {
    ($write:ident) => {
        $write! {
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
    };
}
pub(super) use for_tuples;

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
    )*};
}
for_tuples!(host_args);

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

    pub(super) fn host_device(&self, what: &str) -> Result<()> {
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
