//! Host data that is given a buffer's contents when the buffer is over.

use std::fmt;
use std::pin::Pin;
use std::sync::{Arc, Mutex as StdMutex, OnceLock, PoisonError};

use futures::FutureExt;
use futures::channel::oneshot;
use futures::future::Shared;
use windlass_kernel::DeviceCopy;
use windlass_sync::facade::{Mutex, lock};
use windlass_sync::forked;
use windlass_sync::panics::catch;

use super::{Buffer, Root, Shape};
use crate::error::{Error, Kind, Result, UserCode};
use windlass_engine::Mode;

type Ending = Pin<Box<dyn Future<Output = Result<()>> + Send>>;
/// Brings the data home, of a buffer of which nobody has a handle any more.
type BringHome = Box<dyn FnOnce(Arc<Root>) -> Ending + Send>;
type Ended = Shared<oneshot::Receiver<Result<()>>>;

/// What the handles of a buffer share whose contents are wanted back: the last one starts it.
pub(crate) struct Attached {
    /// Somebody has asked to write it.
    written: OnceLock<()>,
    back: Mutex<Option<Back>>,
    ended: Option<Ended>,
}

struct Back {
    root: Arc<Root>,
    bring_home: BringHome,
    tell: oneshot::Sender<Result<()>>,
}

/// What a panic leaves of it is what it was: the lock is held for a moment, and no code of the program's runs meanwhile.
impl std::panic::RefUnwindSafe for Attached {}

impl fmt::Debug for Attached {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Attached").field("written", &self.is_written()).finish_non_exhaustive()
    }
}

impl Attached {
    /// Only notes whether the buffer is written.
    pub(crate) fn watching() -> Self {
        Attached { written: OnceLock::new(), back: Mutex::new(None), ended: None }
    }

    fn bringing_home(root: Arc<Root>, bring_home: BringHome) -> Self {
        let (tell, ended) = oneshot::channel();
        let back = Some(Back { root, bring_home, tell });
        Attached { written: OnceLock::new(), back: Mutex::new(back), ended: Some(ended.shared()) }
    }

    /// Whether anybody has asked to write it.
    pub(crate) fn is_written(&self) -> bool {
        self.written.get().is_some()
    }
}

impl Drop for Attached {
    fn drop(&mut self) {
        if forked::is_child() {
            return;
        }
        let Some(Back { root, bring_home, tell }) = lock(&self.back).take() else { return };
        if !self.is_written() {
            // Nobody may be waiting.
            let _ = tell.send(Ok(()));
            return;
        }
        let inner = root.owner().cloned();
        let ending = bring_home(root);
        // An executor that has been closed drops the future, and with it `tell`: `close` is told by that.
        let told = async move {
            let result = ending.await;
            if let Err(error) = &result {
                tracing::warn!(%error, "a buffer's contents do not come back to the host data that it is attached to");
            }
            let _ = tell.send(result);
        };
        match inner {
            Some(inner) => inner.user.spawn(told),
            // No runtime has it, so nobody else uses it and nothing is waited for. Still it is the program's code that runs.
            None => blocking::unblock(|| futures_lite::future::block_on(told)).detach(),
        }
    }
}

impl<T, const D: usize> Buffer<T, D> {
    /// Somebody is about to use it in this way.
    #[inline]
    pub(crate) fn note_use(&self, mode: Mode) {
        if let Some(attached) = self.attached.as_ref().filter(|_| mode.writes()) {
            let _ = attached.written.set(());
        }
    }
}

impl<T: DeviceCopy> Buffer<T> {
    /// A buffer of a copy of this vector's elements, which are put back into it when the buffer is over: once its last handle is
    /// gone and everything that was submitted has ended, if anybody asked to write it. Nobody waits for that; [`Buffer::close`]
    /// does. Meanwhile the vector is as it was, and the program may read and change it, which the buffer does not see.
    ///
    /// For a buffer of more dimensions, with [pages](Buffer::with_pages), or of other data than a vector, there is
    /// [`Buffer::with_write_back`].
    ///
    /// If the data has failed, the vector stays as it was, and [`Buffer::close`] says why.
    ///
    /// ```
    /// use std::sync::{Arc, Mutex};
    /// use windlass::prelude::*;
    /// # async fn f() -> windlass::Result<()> {
    /// let mine = Arc::new(Mutex::new(vec![1_u32, 2, 3]));
    /// let buffer = Buffer::attached(&mine);
    /// let queue = Queue::new().await?;
    /// queue.submit(|cg| cg.fill(&cg.overwrite(&buffer.range(1..)), 7))?;
    /// buffer.close().await?;
    /// assert_eq!(*mine.lock().unwrap(), [1, 7, 7]);
    /// # Ok(()) }
    /// # futures::executor::block_on(f()).unwrap();
    /// ```
    pub fn attached(to: &Arc<StdMutex<Vec<T>>>) -> Self {
        // A panic of somebody who held the lock says nothing about numbers.
        let elements = to.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let to = to.clone();
        Buffer::from(elements).with_write_back(move |back| {
            if let Ok(back) = back {
                *to.lock().unwrap_or_else(PoisonError::into_inner) = back;
            }
        })
    }
}

impl<T: DeviceCopy, const D: usize> Buffer<T, D> {
    /// Has the buffer's contents given to a closure when the buffer is over: once its last handle is gone and everything that was
    /// submitted has ended, if anybody asked to write it. It gets an error where the data has failed, or its runtime has ended.
    /// It runs where other code of the program's does, on Windlass's executor for it.
    ///
    /// For the only handle of a buffer, all of it: one that shares its data with others, or shows a part, is refused when it is
    /// used.
    ///
    /// ```
    /// use windlass::prelude::*;
    /// # async fn f() -> windlass::Result<()> {
    /// let (send, receive) = futures::channel::oneshot::channel();
    /// let buffer = Buffer::<u32>::new(3).with_write_back(|back| drop(send.send(back)));
    /// buffer.host_write().await?.fill(7);
    /// drop(buffer);
    /// assert_eq!(receive.await.unwrap()?, [7, 7, 7]);
    /// # Ok(()) }
    /// # futures::executor::block_on(f()).unwrap();
    /// ```
    pub fn with_write_back(mut self, back: impl FnOnce(Result<Vec<T>>) + Send + 'static) -> Self {
        if Arc::strong_count(&self.root) > 1 || self.attached.is_some() || !self.is_whole() {
            let what = "a buffer's contents are wanted back by a handle that is not the only one, or not of all of it: ask for \
                        them where the buffer is made";
            self.window.problem.get_or_insert_with(|| what.into());
            return self;
        }
        let window = self.window.clone();
        let bring_home = move |root| {
            let buffer = Buffer::<T, D> { root, window, attached: None, marker: std::marker::PhantomData };
            // Here and now, so that it is ahead of the runtime's end: from then on nobody is let in.
            let access = buffer.into_vec_from_now_on();
            Box::pin(async move {
                let elements = access.await;
                let result = elements.as_ref().map(drop).map_err(Clone::clone);
                let told = catch(move || back(elements));
                result.and(told.map_err(|panic| Error::user_panicked(UserCode::WriteBack, &panic)))
            }) as Ending
        };
        self.attached = Some(Arc::new(Attached::bringing_home(self.root.clone(), Box::new(bring_home))));
        self
    }

    /// Gives this handle up, and waits until the contents have come back to what the buffer is [attached](Buffer::attached) to,
    /// which happens when all other handles are gone, too. A buffer that is attached to nothing is closed at once.
    ///
    /// ```
    /// use std::sync::{Arc, Mutex};
    /// use windlass::prelude::*;
    /// # async fn f() -> windlass::Result<()> {
    /// let mine = Arc::new(Mutex::new(vec![1_u32, 2, 3]));
    /// let (queue, buffer) = (Queue::blocking_on(Device::host())?, Buffer::attached(&mine));
    /// let bad = queue.submit(|cg| cg.host_for(3, cg.read_write(&buffer), |_, _| panic!("a mistake")))?;
    /// assert!(bad.await.is_err());
    /// // The vector stays as it was, and the buffer's end says why.
    /// assert!(buffer.close().await.unwrap_err().root().is_panic());
    /// assert_eq!(*mine.lock().unwrap(), [1, 2, 3]);
    /// # Ok(()) }
    /// # futures::executor::block_on(f()).unwrap();
    /// ```
    pub fn close(self) -> impl Future<Output = Result<()>> + Send + 'static {
        let ended = self.attached.as_ref().and_then(|attached| attached.ended.clone());
        drop(self);
        async move {
            crate::shell::Inner::check_process()?;
            match ended {
                Some(ended) => ended.await.unwrap_or_else(|_| Err(Error::new(Kind::ShutDown))),
                None => Ok(()),
            }
        }
    }

    /// A buffer of a copy of these elements that notes whether it is written.
    pub(crate) fn watched(shape: impl Shape<D>, elements: Vec<T>) -> Result<Self> {
        let mut buffer = Self::with_shape(shape, elements)?;
        buffer.attached = Some(Arc::new(Attached::watching()));
        Ok(buffer)
    }

    /// Whether anybody has asked to write it; of a watched one.
    pub(crate) fn is_written(&self) -> bool {
        self.attached.as_ref().is_some_and(|attached| attached.is_written())
    }
}
