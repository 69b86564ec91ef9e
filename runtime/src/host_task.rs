//! Host tasks: async closures that are groups.

use std::fmt;
use std::future::Future;
use std::marker::PhantomData;
use std::sync::Arc;

use windlass_kernel::{DeviceCopy, RawSpan};
use windlass_sync::facade::Mutex;

use crate::error::{BoxError, Error, Kind, Result};
use crate::group::{Accessor, Overwrite, ReadWrite, ReadWriteUninit, Write};
use crate::host_view::{HostView, HostViewMut, Loans};
use crate::shell::host_side::{HostMemoryTable, HostTaskCommand};
use crate::shell::task::TaskControl;

/// A running host task's access to its group's data.
///
/// ```
/// use windlass::prelude::*;
/// # fn main() -> windlass::Result<()> {
/// let queue = Queue::blocking_new()?;
/// let (x, y) = (Buffer::from(vec![1_u32, 2, 3]), Buffer::<u32>::new(3));
/// queue.submit(|cg| {
///     let (x, mut y) = (cg.read(&x), cg.overwrite(&y));
///     cg.host_task(async move |host| {
///         let (x, mut y) = (host.view(&x)?, host.view_mut(&mut y)?);
///         y.copy_from_slice(&x);
///         Ok(())
///     })
/// })?;
/// assert_eq!(y.host_read().blocking_wait()?[..], [1, 2, 3]);
/// # Ok(())
/// # }
/// ```
pub struct Host<'g> {
    table: HostMemoryTable,
    lent: Mutex<Loans>,
    brand: PhantomData<fn(&'g ()) -> &'g ()>,
}

impl fmt::Debug for Host<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Host").finish_non_exhaustive()
    }
}

/// An accessor that writes: all but [`Read`](crate::access::Read) and [`Atomic`](crate::access::Atomic).
///
/// ```
/// use windlass::access::{Host, WriteAccessor};
/// use windlass::prelude::*;
///
/// /// Reads values from somewhere, which takes a while.
/// async fn fetch<'g, W>(host: Host<'g>, mut to: W) -> Result<(), windlass::BoxError>
/// where
///     W: WriteAccessor<'g, Elem = u32>,
/// {
///     let fetched = async { vec![1, 2, 3] }.await;
///     Ok(host.view_mut(&mut to)?.copy_from_slice(&fetched))
/// }
///
/// # fn main() -> windlass::Result<()> {
/// let (queue, x) = (Queue::blocking_new()?, Buffer::<u32>::new(3));
/// queue.submit(|cg| {
///     let x = cg.overwrite(&x);
///     cg.host_task(move |host| fetch(host, x))
/// })?;
/// assert_eq!(x.host_read().blocking_wait()?[..], [1, 2, 3]);
/// # Ok(()) }
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not write",
    note = "require the data by `cg.read_write(&buffer)`, `cg.overwrite(&buffer)` or another accessor that writes"
)]
pub trait WriteAccessor<'g>: Accessor<'g> {}
impl<'g, T: DeviceCopy, const D: usize> WriteAccessor<'g> for Write<'g, T, D> {}
impl<'g, T: DeviceCopy, const D: usize> WriteAccessor<'g> for ReadWrite<'g, T, D> {}
impl<'g, T: DeviceCopy, const D: usize> WriteAccessor<'g> for Overwrite<'g, T, D> {}
impl<'g, T: DeviceCopy, const D: usize> WriteAccessor<'g> for ReadWriteUninit<'g, T, D> {}

impl<'g> Host<'g> {
    /// The accessor's elements, to read. An error where a mutable view of some of them is out.
    ///
    /// A part of a grid is indexed as a guard of it is, and one whose rows do not follow each other is shown as a copy: [`HostView`].
    ///
    /// ```
    /// use windlass::prelude::*;
    /// # fn main() -> windlass::Result<()> {
    /// let (queue, x) = (Queue::blocking_new()?, Buffer::from(vec![1_u32, 2, 3]));
    /// let (tell, told) = std::sync::mpsc::channel();
    /// queue.submit(|cg| {
    ///     let x = cg.read(&x);
    ///     cg.host_task(async move |host| Ok(tell.send(host.view(&x)?.iter().sum::<u32>())?))
    /// })?;
    /// assert_eq!(told.recv().unwrap(), 6);
    /// # Ok(()) }
    /// ```
    pub fn view<'a, A: Accessor<'g>>(&'a self, accessor: &'a A) -> Result<HostView<'a, A::Elem, A::Shape>> {
        let (span, shape) = self.window(accessor)?;
        HostView::lend(span, shape, &self.lent).ok_or_else(taken)
    }

    /// The accessor's elements, to write. An error where another view of some of them is out.
    ///
    /// What is changed in a part of a grid whose rows do not follow each other is in the buffer once the view is dropped:
    /// [`HostViewMut`].
    ///
    /// ```
    /// use windlass::prelude::*;
    /// # fn main() -> windlass::Result<()> {
    /// let (queue, x) = (Queue::blocking_new()?, Buffer::from(vec![1_u32, 2, 3]));
    /// queue.submit(|cg| {
    ///     let (all, mut first) = (cg.read(&x), cg.read_write(&x.range(..1)));
    ///     cg.host_task(async move |host| {
    ///         host.view_mut(&mut first)?[0] = 7;
    ///         let all = host.view(&all)?;
    ///         assert!(host.view_mut(&mut first).unwrap_err().is_aliased());
    ///         Ok(assert_eq!(all[..], [7, 2, 3]))
    ///     })
    /// })?
    /// .blocking_wait()?;
    /// # Ok(()) }
    /// ```
    pub fn view_mut<'a, A: WriteAccessor<'g>>(
        &'a self,
        accessor: &'a mut A,
    ) -> Result<HostViewMut<'a, A::Elem, A::Shape>> {
        let (span, shape) = self.window(accessor)?;
        let view = HostViewMut::lend(span, shape, &self.lent).ok_or_else(taken)?;
        self.table.control.writes();
        Ok(view)
    }

    /// Where the accessor's elements are, and their shape.
    fn window<A: Accessor<'g>>(&self, accessor: &A) -> Result<(RawSpan, A::Shape)> {
        let gone = || Error::invalid("this accessor has no memory: its requirement was refused");
        let binding = accessor.window().0.ok_or_else(gone)?;
        let span = match binding.is_empty() {
            true => crate::shell::work::empty_span(&binding),
            false => self.table.of(&binding).and_then(|m| binding.span(m)).ok_or_else(gone)?,
        };
        Ok((span, A::shape_of(&binding.extent)))
    }
}

fn taken() -> Error {
    Error::new(Kind::Aliased(
        "these elements are already borrowed by another view, and one of the two is mutable".into(),
    ))
}

/// Packs a task for its group.
pub(crate) fn command<'g, F, Fut>(task: F, control: Arc<TaskControl>) -> HostTaskCommand<'g>
where
    F: FnOnce(Host<'g>) -> Fut + Send + 'g,
    Fut: Future<Output = Result<(), BoxError>> + Send + 'g,
{
    HostTaskCommand {
        start: Box::new(move |table| {
            Box::pin(async move { task(Host { table, lent: Mutex::default(), brand: PhantomData }).await })
        }),
        runtime: tokio::runtime::Handle::try_current().ok(),
        control,
    }
}
