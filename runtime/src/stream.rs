//! Bytes that go through a device as they come: a body of any length in, a body out, and no more than a few parts of it in memory.
//!
//! A [`Pipe`] cuts what comes into parts, and each part is a group. While one part is computed, the next is on its way to the device and
//! the last on its way back; whoever reads the output slowly slows the input down, and the other way round.
//!
//! ```
//! use futures::{StreamExt, stream};
//! use windlass::bytes::Bytes;
//! use windlass::prelude::*;
//! use windlass::stream::Pipe;
//!
//! #[windlass::kernel]
//! fn inverted(x: &[u32], y: &mut [u32]) {
//!     let i = global_id(0);
//!     if i < y.len() {
//!         y[i] = !x[i];
//!     }
//! }
//!
//! # async fn f() -> windlass::Result<()> {
//! let queue = Queue::new().await?;
//! let pipe = Pipe::<u32, u32>::builder(&queue).build(|cg, part| {
//!     cg.parallel_for(part.output().len(), inverted(cg.read(part.input()), cg.overwrite(part.output())))
//! });
//! // A request's body, say: pieces of any size, which need not be whole elements.
//! let body = stream::iter([vec![0_u8; 3], vec![0; 9]].map(|piece| Ok::<_, windlass::Error>(Bytes::from(piece))));
//! let answer: Vec<_> = pipe.run(body).collect().await;
//! let bytes: Vec<u8> = answer.into_iter().collect::<windlass::Result<Vec<Bytes>>>()?.concat();
//! assert_eq!(bytes, [255; 12]);
//! # Ok(())
//! # }
//! # futures::executor::block_on(f()).unwrap();
//! ```

mod carry;
mod io;
mod run;

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use futures::Stream;
use tokio::io::{AsyncRead, AsyncWrite};
use windlass_kernel::DeviceCopy;

use crate::buffer::Buffer;
use crate::error::{BoxError, Result};
use crate::group::CommandGroup;
use crate::queue::Queue;
pub use run::Running;

/// What is done with each part of a stream. Cheap to clone, and may have many streams run through it at the same time; see the
/// [module](self).
pub struct Pipe<T: DeviceCopy, U: DeviceCopy> {
    recipe: Arc<Recipe<T, U>>,
}

/// A part of a stream.
#[derive(Debug)]
pub struct Part<T: DeviceCopy, U: DeviceCopy> {
    index: u64,
    input: Buffer<T>,
    output: Buffer<U>,
}

impl<T: DeviceCopy, U: DeviceCopy> Part<T, U> {
    /// The elements that have come.
    ///
    /// ```
    /// # use windlass::{prelude::*, stream::Pipe};
    /// # async fn f() -> windlass::Result<()> {
    /// # let queue = Queue::new().await?;
    /// let pipe = Pipe::<u8, u8>::builder(&queue).part(4).build(|cg, part| {
    ///     // The last part of a stream may be shorter than the others.
    ///     assert!(part.input().len() == 4 || part.index() == 2);
    ///     cg.copy(&cg.read(part.input()), &cg.overwrite(part.output()))
    /// });
    /// let mut bytes = Vec::new();
    /// pipe.copy(&[5; 10][..], &mut bytes).await?;
    /// assert_eq!(bytes, [5; 10]);
    /// # Ok(()) }
    /// # futures::executor::block_on(f()).unwrap();
    /// ```
    pub fn input(&self) -> &Buffer<T> {
        &self.input
    }

    /// Where what is made of them goes. Nothing is in it yet: a kernel that writes all of it takes it with
    /// [`overwrite`](CommandGroup::overwrite).
    ///
    /// ```
    /// # use windlass::{prelude::*, stream::Pipe};
    /// # async fn f() -> windlass::Result<()> {
    /// # let queue = Queue::new().await?;
    /// let pipe = Pipe::<u8, u8>::builder(&queue).part(4).build(|cg, part| cg.fill(&cg.overwrite(part.output()), 9));
    /// let mut bytes = Vec::new();
    /// pipe.copy(&[5; 10][..], &mut bytes).await?;
    /// assert_eq!(bytes, [9; 10]);
    /// # Ok(()) }
    /// # futures::executor::block_on(f()).unwrap();
    /// ```
    pub fn output(&self) -> &Buffer<U> {
        &self.output
    }

    /// How many parts of its stream came before.
    ///
    /// ```
    /// # use futures::{StreamExt, stream};
    /// # use windlass::{bytes::Bytes, prelude::*, stream::Pipe};
    /// # async fn f() -> windlass::Result<()> {
    /// # let queue = Queue::new().await?;
    /// let pipe = Pipe::<u8, u8>::builder(&queue).part(4).build(|cg, part| {
    ///     // Each part is filled with its number.
    ///     cg.fill(&cg.overwrite(part.output()), part.index() as u8)
    /// });
    /// let mut bytes = Vec::new();
    /// pipe.copy(&[0; 10][..], &mut bytes).await?;
    /// assert_eq!(bytes, [0, 0, 0, 0, 1, 1, 1, 1, 2, 2]);
    /// # Ok(()) }
    /// # futures::executor::block_on(f()).unwrap();
    /// ```
    pub fn index(&self) -> u64 {
        self.index
    }
}

/// How a part is launched.
type Launch<T, U> = dyn for<'g> Fn(&CommandGroup<'g>, &Part<T, U>) -> Result<()> + Send + Sync;

struct Recipe<T: DeviceCopy, U: DeviceCopy> {
    queue: Queue,
    /// Elements of a whole part.
    part: usize,
    /// Parts that are in flight at a time.
    in_flight: usize,
    output_len: Box<dyn Fn(usize) -> usize + Send + Sync>,
    launch: Box<Launch<T, U>>,
}

/// A [`Pipe`] to be built.
pub struct PipeBuilder<T: DeviceCopy, U: DeviceCopy> {
    queue: Queue,
    part: usize,
    in_flight: usize,
    output_len: Box<dyn Fn(usize) -> usize + Send + Sync>,
    elements: std::marker::PhantomData<fn(T) -> U>,
}

/// Large enough that a launch is small beside it, on any device.
const PART_BYTES: usize = 1 << 20;

/// One on its way in, one that is computed, one on its way out.
const IN_FLIGHT: usize = 3;

impl<T: DeviceCopy, U: DeviceCopy> PipeBuilder<T, U> {
    /// How many elements a part has, but for the last one and those that are sent on since nothing more comes just then: 1 MiB of them
    /// unless said otherwise.
    ///
    /// ```
    /// # use windlass::{prelude::*, stream::Pipe};
    /// # fn main() -> windlass::Result<()> {
    /// # let queue = Queue::blocking_new()?;
    /// let rows = Pipe::<f32, f32>::builder(&queue).part(64 * 1920).in_flight(4).build(|cg, part| {
    ///     cg.copy(&cg.read(part.input()), &cg.overwrite(part.output()))
    /// });
    /// # drop(rows);
    /// # Ok(())
    /// # }
    /// ```
    pub fn part(mut self, elements: usize) -> Self {
        self.part = elements.max(1);
        self
    }

    /// How many parts are in flight at a time: three unless said otherwise. That many inputs and outputs are in memory at most, the next
    /// part and one that is being filled, and what has come out for as long as somebody keeps it.
    ///
    /// ```
    /// # use futures::{StreamExt, stream};
    /// # use windlass::{bytes::Bytes, prelude::*, stream::Pipe};
    /// # async fn f() -> windlass::Result<()> {
    /// # let queue = Queue::new().await?;
    /// // One after the other: where a part is so large that two have no room.
    /// let copied = Pipe::<u8, u8>::builder(&queue).part(1 << 20).in_flight(1).build(|cg, part| {
    ///     cg.copy(&cg.read(part.input()), &cg.overwrite(part.output()))
    /// });
    /// assert_eq!(copied.copy(&[7; 1000][..], tokio::io::sink()).await?, 1000);
    /// # Ok(()) }
    /// # futures::executor::block_on(f()).unwrap();
    /// ```
    pub fn in_flight(mut self, parts: usize) -> Self {
        self.in_flight = parts.max(1);
        self
    }

    /// How many elements are made of so many; as many unless said otherwise.
    ///
    /// ```
    /// # use windlass::{prelude::*, stream::Pipe};
    /// # fn main() -> windlass::Result<()> {
    /// # let queue = Queue::blocking_on(Device::host())?;
    /// // Four elements are summed to one.
    /// let sums = Pipe::<u32, u32>::builder(&queue).outputs_of(|inputs| inputs.div_ceil(4)).build(|cg, part| {
    ///     let views = (cg.read(part.input()), cg.overwrite(part.output()));
    ///     cg.host_for(part.output().len(), views, |item, (x, y)| {
    ///         y.set(item.id(0), (0..4).map(|i| x.get(4 * item.id(0) + i)).sum())
    ///     })
    /// });
    /// # drop(sums);
    /// # Ok(())
    /// # }
    /// ```
    pub fn outputs_of(mut self, outputs: impl Fn(usize) -> usize + Send + Sync + 'static) -> Self {
        self.output_len = Box::new(outputs);
        self
    }

    /// The pipe, with what each part is submitted as. Parts are submitted in order, so a buffer that the closure keeps and that each part
    /// reads and writes carries what one leaves to the next.
    ///
    /// ```
    /// # use futures::{StreamExt, stream};
    /// # use windlass::{bytes::Bytes, prelude::*, stream::Pipe};
    /// # async fn f() -> windlass::Result<()> {
    /// # let queue = Queue::new().await?;
    /// // The sum of all that has come so far, which one part leaves to the next.
    /// let total = Buffer::<u32>::new(1);
    /// let sums = Pipe::<u32, u32>::builder(&queue).part(2).outputs_of(|_| 1).build(move |cg, part| {
    ///     cg.parallel_for(1, add(cg.read(part.input()), cg.read_write(&total), cg.overwrite(part.output())))
    /// });
    /// let mut bytes = Vec::new();
    /// sums.copy(&[1_u32, 2, 3, 4].map(u32::to_ne_bytes).concat()[..], &mut bytes).await?;
    /// assert_eq!(bytes, [3_u32, 10].map(u32::to_ne_bytes).concat());
    ///
    /// #[windlass::kernel]
    /// fn add(x: &[u32], total: &mut [u32], sum: &mut [u32]) {
    ///     for i in 0..x.len() {
    ///         total[0] += x[i];
    ///     }
    ///     sum[0] = total[0];
    /// }
    /// # Ok(()) }
    /// # futures::executor::block_on(f()).unwrap();
    /// ```
    pub fn build<F>(self, launch: F) -> Pipe<T, U>
    where
        F: for<'g> Fn(&CommandGroup<'g>, &Part<T, U>) -> Result<()> + Send + Sync + 'static,
    {
        let PipeBuilder { queue, part, in_flight, output_len, .. } = self;
        let recipe = Recipe { queue, part, in_flight, output_len, launch: Box::new(launch) };
        Pipe { recipe: Arc::new(recipe) }
    }
}

impl<T: DeviceCopy, U: DeviceCopy> Pipe<T, U> {
    /// A pipe on a queue, to be told what it does.
    ///
    /// ```
    /// # use windlass::{prelude::*, stream::Pipe};
    /// # async fn f() -> windlass::Result<()> {
    /// let queue = Queue::new().await?;
    /// let copied = Pipe::<u8, u8>::builder(&queue).build(|cg, part| {
    ///     cg.copy(&cg.read(part.input()), &cg.overwrite(part.output()))
    /// });
    /// // One pipe may have many streams at the same time, each with parts of its own in flight.
    /// let (mut a, mut b) = (Vec::new(), Vec::new());
    /// let (first, second) = futures::join!(copied.copy(&b"one"[..], &mut a), copied.copy(&b"another"[..], &mut b));
    /// assert_eq!((first?, second?, &a[..], &b[..]), (3, 7, &b"one"[..], &b"another"[..]));
    /// # Ok(()) }
    /// # futures::executor::block_on(f()).unwrap();
    /// ```
    pub fn builder(queue: &Queue) -> PipeBuilder<T, U> {
        const { assert!(size_of::<T>() != 0, "elements of no size cannot live in a buffer") };
        PipeBuilder {
            queue: queue.clone(),
            part: (PART_BYTES / size_of::<T>()).max(1),
            in_flight: IN_FLIGHT,
            output_len: Box::new(|inputs| inputs),
            elements: std::marker::PhantomData,
        }
    }

    /// Runs a stream of bytes through the device. What comes out ends with the first error, of the input or of a part; all parts before
    /// it come out. To drop the stream is to cancel what has not begun.
    ///
    /// Bytes that are a part of their own, of which nobody else has any, become the part's buffer without a copy, and on the host what comes
    /// out is the output's own memory.
    ///
    /// ```
    /// # use futures::{StreamExt, stream};
    /// # use windlass::{bytes::Bytes, prelude::*, stream::Pipe};
    /// # async fn f() -> windlass::Result<()> {
    /// # let queue = Queue::new().await?;
    /// let copied = Pipe::<u8, u8>::builder(&queue).build(|cg, part| {
    ///     cg.copy(&cg.read(part.input()), &cg.overwrite(part.output()))
    /// });
    /// // A body that breaks off: what came before it comes out, then the error.
    /// let pieces = [Ok(Bytes::from("what has come")), Err(windlass::Error::other("the client has gone"))];
    /// let out: Vec<_> = copied.run(stream::iter(pieces)).collect().await;
    /// assert!(out[0].as_ref().is_ok_and(|bytes| bytes == "what has come"));
    /// assert!(out[1].as_ref().is_err_and(|error| error.to_string().contains("has gone")));
    /// # Ok(()) }
    /// # futures::executor::block_on(f()).unwrap();
    /// ```
    pub fn run<S, E>(&self, input: S) -> Running<S, T, U>
    where
        S: Stream<Item = std::result::Result<Bytes, E>>,
        E: Into<BoxError>,
    {
        Running::new(self.recipe.clone(), input)
    }

    /// Runs all that a reader gives through the device and into a writer, which is flushed, but not shut down. Returns how many bytes it
    /// was given.
    ///
    /// ```
    /// use windlass::prelude::*;
    /// use windlass::stream::Pipe;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> windlass::Result<()> {
    /// let queue = Queue::new().await?;
    /// let copied = Pipe::<u8, u8>::builder(&queue).build(|cg, part| {
    ///     cg.copy(&cg.read(part.input()), &cg.overwrite(part.output()))
    /// });
    /// let (file, mut written) = (&b"what is in a file"[..], Vec::new());
    /// assert_eq!(copied.copy(file, &mut written).await?, 17);
    /// assert_eq!(written, b"what is in a file");
    /// # Ok(())
    /// # }
    /// ```
    pub async fn copy(&self, reader: impl AsyncRead, writer: impl AsyncWrite) -> Result<u64> {
        io::write_all(self.run(io::Reader::new(reader)), writer).await
    }
}

impl<T: DeviceCopy, U: DeviceCopy> Clone for Pipe<T, U> {
    fn clone(&self) -> Self {
        Pipe { recipe: self.recipe.clone() }
    }
}

impl<T: DeviceCopy, U: DeviceCopy> fmt::Debug for Pipe<T, U> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Recipe { queue, part, in_flight, .. } = &*self.recipe;
        f.debug_struct("Pipe")
            .field("queue", queue)
            .field("part", part)
            .field("in_flight", in_flight)
            .finish()
    }
}

impl<T: DeviceCopy, U: DeviceCopy> fmt::Debug for PipeBuilder<T, U> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PipeBuilder").field("part", &self.part).field("in_flight", &self.in_flight).finish()
    }
}
