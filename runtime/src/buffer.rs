//! Buffers: data that belongs to no device, and is wherever it is needed.

mod attached;
#[cfg(feature = "bytes")]
mod bytes;
mod explicit;
mod grid;
mod identity;
mod image;
mod owned;
#[cfg(feature = "image")]
mod picture;
mod placed;
mod region;
mod reinterpret;
mod root;
mod unbound;

use std::fmt;
use std::marker::PhantomData;
use std::panic::Location;
use std::sync::Arc;

use smallvec::SmallVec;
use windlass_backend::{Allocation, HostMemory};
use windlass_kernel::{DeviceCopy, Extent, RawSpan, Word};

pub(crate) use attached::Attached;
pub use image::Image;
#[cfg(feature = "image")]
pub use picture::Pictured;
pub use region::{Region, Shape};
pub(crate) use root::Root;
pub(crate) use unbound::Early;

use crate::error::{Error, Result};
use crate::host_access::{HostReadFuture, HostWrite, HostWriteFuture};
use crate::host_view::Elements;
use crate::shell::Inner;
use crate::shell::pinned::Filling;
use crate::shell::work::{Binding, ImagePart, window_region, window_span};
use windlass_engine::{Box3, Mode};

/// Elements in one to three dimensions, row-major, of a fixed size.
///
/// A buffer belongs to no context: groups on any device of a runtime use it, and the runtime moves what is stale. It
/// belongs to the runtime of the first queue that uses it; until then it has none, and host accessors work all the same. Clones and ranges are handles to the same data; the memory is freed
/// when the last of them is gone and the last group that uses it has ended. Memory that was never written reads as
/// zeros.
///
/// ```
/// use windlass::prelude::*;
/// # fn main() -> windlass::Result<()> {
/// let queue = Queue::blocking_new()?;
/// let numbers = Buffer::from(vec![1_u32, 2, 3, 4]);
/// queue.submit(|cg| {
///     let numbers = cg.read_write(&numbers);
///     cg.host_for(4, numbers, |item, numbers| numbers.set(item.id(0), numbers.get(item.id(0)) * 10))
/// })?;
/// assert_eq!(numbers.range(1..3).host_read().blocking_wait()?.to_vec(), [20, 30]);
/// # Ok(())
/// # }
/// ```
pub struct Buffer<T, const D: usize = 1> {
    root: Arc<Root>,
    window: Window,
    /// What all handles share, where the data is wanted back when they are gone.
    attached: Option<Arc<Attached>>,
    marker: PhantomData<fn() -> T>,
}

/// Which of a root's bytes a buffer shows, and as what elements.
#[derive(Clone, Debug)]
pub(crate) struct Window {
    /// In the root's elements, outermost first, where it shows those in the root's own shape.
    bounds: Option<Box3>,
    /// Of the first element, in bytes.
    offset: usize,
    extent: Extent,
    /// By which its elements are shared on the host.
    word: Word,
    /// Its elements are of another type than the root's.
    is_cast: bool,
    /// Why this is no window: told when it is used, so that views chain without `?`.
    problem: Option<Arc<str>>,
}

impl<T: DeviceCopy, const D: usize> Buffer<T, D> {
    /// A buffer that reads as zeros. No memory is taken before it is used.
    ///
    /// ```
    /// use windlass::Buffer;
    /// let line = Buffer::<f32>::new(1024);
    /// let grid = Buffer::<f32, 2>::new([480, 640]);
    /// assert_eq!((line.len(), grid.len()), (1024, 480 * 640));
    /// ```
    pub fn new(shape: impl Shape<D>) -> Self {
        Self::with_root(shape.extent(), None)
    }

    /// A buffer of this shape with these elements, whose memory is taken over.
    ///
    /// ```
    /// use windlass::Buffer;
    /// assert!(Buffer::<u8, 2>::with_shape([2, 3], vec![0; 6]).is_ok());
    /// assert!(Buffer::<u8, 2>::with_shape([2, 3], vec![0; 7]).unwrap_err().is_invalid_input());
    /// ```
    pub fn with_shape(shape: impl Shape<D>, elements: Vec<T>) -> Result<Self> {
        let extent: [usize; D] = shape.extent();
        let expected = extent.iter().try_fold(1_usize, |n, e| n.checked_mul(*e));
        if expected != Some(elements.len()) {
            let len = elements.len();
            return Err(Error::invalid(format!("{len} elements do not fill a buffer of shape {extent:?}")));
        }
        let buffer = Self::with_root(extent, Some(HostMemory::from_vec(elements)));
        match buffer.window.problem {
            Some(problem) => Err(Error::invalid(&*problem)),
            None => Ok(buffer),
        }
    }

    fn with_root(extent: [usize; D], data: Option<HostMemory>) -> Self {
        Self::with_root_like(extent, data, |root| root)
    }

    fn with_root_like(extent: [usize; D], data: Option<HostMemory>, like: impl FnOnce(Root) -> Root) -> Self {
        const { assert!(size_of::<T>() != 0, "elements of no size cannot live in a buffer") };
        const { assert!(D >= 1 && D <= 3, "buffers have one to three dimensions") };
        let mut shape = [1; 3];
        shape[3 - D..].copy_from_slice(&extent);
        // An extent of zero makes the whole small, but the pitches have to be counted all the same.
        let bytes = shape.iter().try_fold(size_of::<T>(), |n, e| n.checked_mul((*e).max(1)));
        let fits = bytes.is_some_and(|bytes| bytes <= isize::MAX as usize);
        let problem = (!fits).then(|| too_large(extent.as_slice()).into());
        if problem.is_some() {
            shape = [1, 1, 0];
        }
        Buffer {
            root: Arc::new(like(Root::new::<T>(shape, data))),
            window: Window {
                bounds: Some(Box3 { lo: [0; 3], hi: shape }),
                offset: 0,
                extent: Extent { size: shape, pitch: [shape[1] * shape[2], shape[2]] },
                word: Word::of::<T>(),
                is_cast: false,
                problem,
            },
            attached: None,
            marker: PhantomData,
        }
    }

    /// A part of the buffer, which is a buffer itself: a range, or a tuple of ranges, one for each dimension. One that
    /// lies outside is refused when it is used.
    ///
    /// ```
    /// use windlass::Buffer;
    /// let grid = Buffer::<u32, 2>::new([4, 6]);
    /// assert_eq!(grid.range((1..3, 2..)).shape(), [2, 4]);
    /// assert_eq!(Buffer::<u32>::new(10).range(..5).range(3..).len(), 2);
    /// ```
    pub fn range(&self, region: impl Region<D>) -> Buffer<T, D> {
        let mut window = self.window.clone();
        for (i, (from, to)) in region.bounds(self.shape()).into_iter().enumerate() {
            let d = 3 - D + i;
            let size = window.extent.size[d];
            if from > to || to > size {
                let shape = self.shape();
                window.problem.get_or_insert_with(|| {
                    let what = format!(
                        "range {from}..{to} is outside 0..{size}, dimension {i} of a buffer {shape:?}"
                    );
                    what.into()
                });
                continue;
            }
            if let Some(bounds) = &mut window.bounds {
                bounds.lo[d] += from;
                bounds.hi[d] = bounds.lo[d] + (to - from);
            }
            let [slice, row] = window.extent.pitch;
            window.offset += from * [slice, row, 1][d] * size_of::<T>();
            window.extent.size[d] = to - from;
        }
        Buffer { root: self.root.clone(), window, attached: self.attached.clone(), marker: PhantomData }
    }

    /// How many elements it has.
    ///
    /// ```
    /// use windlass::Buffer;
    /// assert_eq!((Buffer::from(vec![1, 2, 3]).len(), Buffer::<u8, 2>::new([4, 6]).range((.., 2..)).len()), (3, 16));
    /// ```
    pub fn len(&self) -> usize {
        self.window.extent.size.iter().product()
    }

    /// Whether it has none.
    ///
    /// ```
    /// use windlass::Buffer;
    /// assert!(Buffer::<u8>::new(0).is_empty() && Buffer::<u8>::new(8).range(8..).is_empty());
    /// ```
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Its extents, outermost first.
    ///
    /// ```
    /// use windlass::Buffer;
    /// let rows = Buffer::<u32, 2>::new([4, 6]).range((1..3, ..));
    /// let [height, width] = rows.shape();
    /// assert_eq!((height, width), (2, 6));
    /// ```
    pub fn shape(&self) -> [usize; D] {
        std::array::from_fn(|i| self.window.extent.size[3 - D + i])
    }

    /// Waits until the data is on the host, and lends it for reading. Groups that write it wait until the guard is
    /// dropped. It takes its place in the order at the first poll.
    ///
    /// ```
    /// # async fn f() -> windlass::Result<()> {
    /// let buffer = windlass::Buffer::from(vec![1, 2, 3]);
    /// let values = buffer.host_read().await?;
    /// assert_eq!(values[..], [1, 2, 3]);
    /// # Ok(()) }
    /// # futures::executor::block_on(f()).unwrap();
    /// ```
    #[track_caller]
    pub fn host_read(&self) -> HostReadFuture<T, D> {
        HostReadFuture::new(self.clone(), Mode::Read)
    }

    /// Waits until the data is on the host and nobody uses it, and lends it for reading and writing. Groups that touch
    /// it wait until the guard is dropped.
    ///
    /// ```
    /// # async fn f() -> windlass::Result<()> {
    /// let buffer = windlass::Buffer::<f32>::new(4);
    /// buffer.host_write().await?.fill(1.5);
    /// assert_eq!(buffer.into_vec().await?, [1.5; 4]);
    /// # Ok(()) }
    /// # futures::executor::block_on(f()).unwrap();
    /// ```
    #[track_caller]
    pub fn host_write(&self) -> HostWriteFuture<T, D> {
        HostWriteFuture::new(self.clone(), Mode::ReadWrite)
    }

    /// Like [`host_write`](Buffer::host_write), for a caller that writes every element. The old contents are not fetched if nothing
    /// else is using the buffer at the first poll; in that case it also does not matter that the group which should have written
    /// them has failed.
    ///
    /// An element that is not written holds what the buffer held there at some time, or zero.
    ///
    /// ```
    /// # use windlass::prelude::*;
    /// # async fn f() -> windlass::Result<()> {
    /// let queue = Queue::builder().build().await?;
    /// let data = Buffer::<u32>::new(4);
    /// queue.submit(|cg| cg.fill(&cg.overwrite(&data), 7))?.await?;
    /// data.host_overwrite().await?.copy_from_slice(&[1, 2, 3, 4]);
    /// assert_eq!(data.into_vec().await?, [1, 2, 3, 4]);
    /// # Ok(()) }
    /// # futures::executor::block_on(f()).unwrap();
    /// ```
    #[track_caller]
    pub fn host_overwrite(&self) -> HostWriteFuture<T, D> {
        HostWriteFuture::new(self.clone(), Mode::Overwrite)
    }

    /// Why some of this data does not exist, if that is so: the group that should have written it has failed. Reading it
    /// fails with the same cause; writing all of it heals it. A buffer that [stays in one memory](crate::Queue::buffer_in) which is
    /// lost, or could not be given to the host, cannot be healed.
    ///
    /// ```
    /// use windlass::prelude::*;
    /// # fn main() -> windlass::Result<()> {
    /// let queue = Queue::blocking_on(Device::host())?;
    /// let data = Buffer::<u32>::new(4);
    /// let bad = queue.submit(|cg| {
    ///     let data = cg.overwrite(&data);
    ///     cg.host_for(4, data, |_, _| panic!("a mistake"))
    /// })?;
    /// assert!(bad.blocking_wait().unwrap_err().is_panic());
    /// assert!(data.poison().unwrap().is_panic());
    /// queue.submit(|cg| cg.fill(&cg.overwrite(&data), 7))?.blocking_wait()?;
    /// assert!(data.poison().is_none());
    /// # Ok(())
    /// # }
    /// ```
    #[track_caller]
    pub fn poison(&self) -> Option<Error> {
        if let Err(error) = Inner::check_process() {
            return Some(error);
        }
        let inner = self.root.owner()?;
        let binding = self.binding(inner, Location::caller()).ok()?;
        let mut cause = None;
        self.pieces(&binding, Mode::Read, |bounds, _| {
            cause = cause.take().or_else(|| {
                inner.enter_without_native_calls(|state, _| {
                    state.engine.poison(binding.root, &bounds).map(|cause| cause.0.clone())
                })
            });
        });
        cause
    }

    /// The data as a vector, once everything that was submitted before has ended. Without a copy, where this is the
    /// last handle and the data came from a vector.
    ///
    /// ```
    /// # use windlass::prelude::*;
    /// # async fn f() -> windlass::Result<()> {
    /// let queue = Queue::builder().build().await?;
    /// let data = Buffer::from(vec![1_u32; 8]);
    /// queue.submit(|cg| cg.fill(&cg.overwrite(&data.range(..4)), 7))?;
    /// assert_eq!(data.into_vec().await?, [7, 7, 7, 7, 1, 1, 1, 1]);
    /// # Ok(()) }
    /// # futures::executor::block_on(f()).unwrap();
    /// ```
    #[track_caller]
    pub fn into_vec(self) -> impl Future<Output = Result<Vec<T>>> + Send {
        let access = self.access_to_take();
        self.taken_by(access)
    }

    /// The same, with its place in the order taken at once, and not at the first poll.
    #[track_caller]
    fn into_vec_from_now_on(self) -> impl Future<Output = Result<Vec<T>>> + Send {
        let access = self.access_to_take().taking_its_place();
        self.taken_by(access)
    }

    /// The same for who only reads them.
    #[track_caller]
    pub(crate) fn into_elements(self) -> impl Future<Output = Result<Elements<T>>> + Send {
        let access = self.access_to_take();
        self.taken_as(access, HostWrite::take_elements, |guard| Elements::Copied(guard.to_vec()))
    }

    /// The accessor of who takes all that there is.
    #[track_caller]
    fn access_to_take(&self) -> HostWriteFuture<T, D> {
        self.host_write().in_heap().takes_all(self.attached.is_none() && self.is_whole())
    }

    fn taken_by(self, access: HostWriteFuture<T, D>) -> impl Future<Output = Result<Vec<T>>> + Send {
        self.taken_as(access, HostWrite::take_vec, |guard| guard.to_vec())
    }

    fn taken_as<E>(
        self,
        access: HostWriteFuture<T, D>,
        take: fn(HostWrite<T, D>) -> E,
        copy: fn(HostWrite<T, D>) -> E,
    ) -> impl Future<Output = Result<E>> + Send {
        let Buffer { root, window, attached, .. } = self;
        async move {
            let whole = root.is_whole(&window, size_of::<T>());
            let guard = access.await?;
            // Whoever wants the data back gets it from here on; a buffer that is attached keeps its memory until then.
            let is_last = attached.is_none() && Arc::strong_count(&root) == 1 + guard.root_handles();
            Ok(if whole && is_last { take(guard) } else { copy(guard) })
        }
    }

    /// Whether its elements are of another type than the buffer's own, of which this is a view.
    pub(crate) fn is_cast(&self) -> bool {
        self.window.is_cast
    }

    /// Whether its elements are shared by words that are smaller than their alignment.
    pub(crate) fn is_atomic_in_parts(&self) -> bool {
        self.window.word != Word::of::<T>()
    }

    pub(crate) fn wanted_back(&self) -> Option<&Arc<Attached>> {
        self.attached.as_ref()
    }

    pub(crate) fn root(&self) -> &Arc<Root> {
        &self.root
    }

    /// The window as bytes of its root, which is bound by this if it was not; `at` is who uses it.
    pub(crate) fn binding(&self, inner: &Arc<Inner>, at: &'static Location<'static>) -> Result<Binding> {
        self.check()?;
        let root = self.root.bind(inner, at)?;
        let Window { offset, extent, word, is_cast, .. } = self.window;
        let of_image = || if self.is_whole() { ImagePart::Whole } else { ImagePart::Portion };
        let image = self.root.is_image().then(of_image);
        Ok(Binding { root, offset, extent, element: size_of::<T>() as u32, word, is_cast, image })
    }

    /// Its bytes.
    fn bytes(&self) -> windlass_backend::Region {
        window_region(self.window.offset, &self.window.extent, size_of::<T>())
    }

    /// Whether it shows all of its root.
    fn is_whole(&self) -> bool {
        self.root.is_whole(&self.window, size_of::<T>())
    }

    /// A handle to all of the root that this one shows a part of, whatever its elements are.
    fn whole(&self) -> Buffer<u8> {
        let bytes = self.root.bytes();
        let window = Window {
            bounds: None,
            offset: 0,
            extent: Extent::line(bytes),
            word: Word::B1,
            is_cast: true,
            problem: self.window.problem.clone(),
        };
        Buffer { root: self.root.clone(), window, attached: None, marker: PhantomData }
    }

    /// Has order and validity kept for pages of so many elements in each dimension, and not for single ones: a use of a part of a
    /// page counts as one of all of it. Groups that use parts of one page come one after the other, and what is moved is whole pages;
    /// in return less is kept of a buffer of which many parts are used.
    ///
    /// For the only handle of a buffer that no queue has used; else it is refused when it is used.
    ///
    /// ```
    /// use windlass::prelude::*;
    /// # async fn f() -> windlass::Result<()> {
    /// let queue = Queue::new().await?;
    /// let image = Buffer::<f32, 2>::new([1024, 1024]).with_pages([64, 64]);
    /// queue.submit(|cg| cg.fill(&cg.write(&image.range((3..5, 60..70))), 1.0))?.await?;
    /// assert_eq!(image.host_read().await?[[4, 65]], 1.0);
    /// # Ok(()) }
    /// # futures::executor::block_on(f()).unwrap();
    /// ```
    pub fn with_pages(mut self, page: impl Shape<D>) -> Self {
        let mut size = [1; 3];
        size[3 - D..].copy_from_slice(&page.extent());
        let taken = match Arc::get_mut(&mut self.root) {
            _ if size.contains(&0) => Err(format!("pages of {:?} elements", &size[3 - D..])),
            Some(root) => root.take_pages(size),
            None => Err("pages for a buffer that has other handles".into()),
        };
        if let Err(problem) = taken {
            let why = format!(
                "{problem}: they are given where a buffer is made, and have an element in each dimension"
            );
            self.window.problem.get_or_insert_with(|| why.into());
        }
        self
    }

    /// Says why this is no part of its buffer, if it is none.
    fn check(&self) -> Result<()> {
        match &self.window.problem {
            Some(problem) => Err(Error::invalid(&**problem)),
            None => Ok(()),
        }
    }

    /// A place among the host accessors of a buffer that has no runtime. `None` if it has one.
    pub(crate) fn enter_early(&self, mode: Mode, at: &'static Location<'static>) -> Result<Option<Early>> {
        self.check()?;
        let bounds = self.root.units(&self.window, size_of::<T>());
        // All there is, is on the host: nothing would be fetched.
        let mode = if mode == Mode::Overwrite { Mode::ReadWrite } else { mode };
        Ok(Early::enter(&self.root, bounds, mode, at))
    }

    /// The elements in host memory that is the buffer's.
    pub(crate) fn span(&self, memory: &dyn Allocation) -> Option<RawSpan> {
        let Window { offset, extent, word, .. } = self.window;
        window_span(memory, offset, extent, size_of::<T>(), word)
    }

    /// The window in the engine's units, with the mode that each piece is used in.
    pub(crate) fn pieces(&self, binding: &Binding, mode: Mode, each: impl FnMut(Box3, Mode)) {
        self.root.pieces(&self.window, binding, mode, each);
    }

    /// The window as one box, for a host accessor: one that shares a granule with its neighbours keeps what is there.
    pub(crate) fn guarded(&self, binding: &Binding, mode: Mode) -> (Box3, Mode) {
        let one = |mode| {
            let mut pieces = SmallVec::<[(Box3, Mode); 3]>::new();
            self.pieces(binding, mode, |piece, mode| pieces.push((piece, mode)));
            match pieces[..] {
                [] => Some((Box3::line(0, 0), mode)),
                [piece] => Some(piece),
                _ => None,
            }
        };
        one(mode)
            .or_else(|| one(Mode::ReadWrite))
            .unwrap_or_else(|| unreachable!("what is kept is one piece"))
    }
}

fn too_large(extent: &[usize]) -> String {
    format!("a buffer of shape {extent:?} does not fit any memory")
}

impl<T: DeviceCopy> Buffer<T, 1> {
    /// A buffer with a copy of these elements.
    ///
    /// ```
    /// let buffer = windlass::Buffer::from_slice(&[1_u16, 2, 3]);
    /// assert_eq!(buffer.len(), 3);
    /// ```
    pub fn from_slice(elements: &[T]) -> Self {
        Self::from(elements.to_vec())
    }

    /// A buffer of what has been gathered in memory that a driver has pinned.
    #[track_caller]
    pub(crate) fn gathered(elements: Filling) -> Self {
        let (len, at) = (elements.filled() / size_of::<T>(), Location::caller());
        Self::with_root_like([len], None, |mut root| {
            root.put_gathered(elements, at);
            root
        })
    }
}

impl<T: DeviceCopy> From<Vec<T>> for Buffer<T, 1> {
    /// Takes over the vector's memory; nothing is copied.
    fn from(elements: Vec<T>) -> Self {
        Self::with_root([elements.len()], Some(HostMemory::from_vec(elements)))
    }
}

impl<T, const D: usize> Clone for Buffer<T, D> {
    fn clone(&self) -> Self {
        Buffer {
            root: self.root.clone(),
            window: self.window.clone(),
            attached: self.attached.clone(),
            marker: PhantomData,
        }
    }
}

impl<T, const D: usize> fmt::Debug for Buffer<T, D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shape = &self.window.extent.size[3 - D..];
        f.debug_struct("Buffer").field("element", &std::any::type_name::<T>()).field("shape", &shape).finish()
    }
}
