//! Buffers over borrowed data.

use std::cell::{Cell, RefCell};
use std::fmt;
use std::marker::PhantomData;

use windlass_kernel::DeviceCopy;

use crate::access::Shape;
use crate::buffer::Buffer;
use crate::error::Result;

/// Gives what was lent back.
type GiveBack<'env> = Box<dyn FnOnce() -> Result<()> + 'env>;

/// What borrows the data of a [`scope`].
pub struct Scope<'env> {
    lent: RefCell<Vec<GiveBack<'env>>>,
    /// Invariant: what is lent is lent for just this long.
    marker: PhantomData<Cell<&'env ()>>,
}

impl fmt::Debug for Scope<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Scope").field("lent", &self.lent.borrow().len()).finish()
    }
}

/// Runs a closure that makes buffers of borrowed data, waits until everything that was submitted for them has ended, and puts what
/// was written back. Data that nobody asked to write is not touched.
///
/// The buffers have a copy of the data: devices, and host accessors that the program keeps, may hold their memory for longer than any
/// borrow lasts. A buffer that leaves the scope goes on as one of its own.
///
/// A host accessor's guard that is still there when the closure has ended is waited for like a group: one that this thread has, as the
/// closure's result for instance, is waited for for ever.
///
/// It blocks this thread, where [`Event::blocking_wait`](crate::Event::blocking_wait) would, and is refused where that would. If the
/// closure fails, what was written comes back all the same; if it panics, nothing does. Data that has failed is left as it was, with
/// its error as the result.
///
/// ```
/// use windlass::prelude::*;
/// # fn main() -> windlass::Result<()> {
/// let queue = Queue::blocking_new()?;
/// let mut pixels = [1_u32, 2, 3, 4];
/// windlass::scope(|s| {
///     let pixels = s.buffer(&mut pixels);
///     queue.submit(|cg| cg.fill(&cg.overwrite(&pixels.range(2..)), 9))
/// })?;
/// assert_eq!(pixels, [1, 2, 9, 9]);
/// # Ok(())
/// # }
/// ```
///
/// What is lent cannot be used meanwhile:
///
/// ```compile_fail,E0506
/// let mut numbers = [1_u32, 2];
/// windlass::scope(|s| {
///     let buffer = s.buffer(&mut numbers);
///     numbers[0] = 3;
///     Ok(drop(buffer))
/// });
/// ```
pub fn scope<'env, R>(work: impl FnOnce(&Scope<'env>) -> Result<R>) -> Result<R> {
    // Before anything is done that could then not be waited for. A future that is ready at once would say nothing.
    crate::event::block_on(async {
        futures_lite::future::yield_now().await;
        Ok(())
    })?;
    let scope = Scope { lent: RefCell::default(), marker: PhantomData };
    let done = work(&scope);
    // All of it comes back, whatever becomes of one.
    let mut given_back = Ok(());
    for give_back in scope.lent.into_inner() {
        let one = give_back();
        given_back = given_back.and(one);
    }
    done.and_then(|value| given_back.map(|()| value))
}

impl<'env> Scope<'env> {
    /// A buffer of these elements.
    ///
    /// ```
    /// use windlass::prelude::*;
    /// # fn main() -> windlass::Result<()> {
    /// let queue = Queue::blocking_new()?;
    /// let (mut from, mut to) = ([1_u32, 2, 3], [0; 3]);
    /// windlass::scope(|s| {
    ///     let (from, to) = (s.buffer(&mut from), s.buffer(&mut to));
    ///     queue.submit(|cg| cg.copy(&cg.read(&from), &cg.overwrite(&to)))
    /// })?;
    /// assert_eq!(to, [1, 2, 3]);
    /// # Ok(()) }
    /// ```
    pub fn buffer<T: DeviceCopy>(&self, data: &'env mut [T]) -> Buffer<T> {
        let len = data.len();
        self.grid(len, data).unwrap_or_else(|_| unreachable!("a line is as long as its elements are many"))
    }

    /// A buffer of these elements, in this shape.
    ///
    /// ```
    /// use windlass::prelude::*;
    /// # fn main() -> windlass::Result<()> {
    /// let queue = Queue::blocking_new()?;
    /// let mut image = vec![0.0_f32; 4 * 6];
    /// windlass::scope(|s| {
    ///     let image = s.grid([4, 6], &mut image)?;
    ///     queue.submit(|cg| cg.fill(&cg.write(&image.range((1..3, 5..))), 1.0))
    /// })?;
    /// assert_eq!(image.iter().sum::<f32>(), 2.0);
    /// assert!(windlass::scope(|s| s.grid([2, 2], &mut image)).unwrap_err().is_invalid_input());
    /// # Ok(())
    /// # }
    /// ```
    pub fn grid<T: DeviceCopy, const D: usize>(
        &self,
        shape: impl Shape<D>,
        data: &'env mut [T],
    ) -> Result<Buffer<T, D>> {
        let buffer = Buffer::watched(shape, data.to_vec())?;
        let watched = buffer.clone();
        self.lent.borrow_mut().push(Box::new(move || {
            // Waited for in any case: what was submitted has ended when the scope has.
            let values = watched.host_read().blocking_wait()?;
            if watched.is_written() {
                data.copy_from_slice(&values);
            }
            Ok(())
        }));
        Ok(buffer)
    }
}
