//! Foreign code that is run when nothing is held: wakers, and what users leave to be dropped.

use std::ops::Deref;
use std::task::Waker;

use windlass_backend::BackendError;
use windlass_sync::cell::Wakers;
use windlass_sync::panics::catch;

use super::Signal;
use super::report::log;

/// Wakers to be woken when nothing is held.
#[derive(Debug, Default)]
pub(crate) struct Woken {
    pub(crate) cells: Vec<Wakers>,
    pub(crate) single: Vec<Waker>,
}

impl Woken {
    pub(super) fn is_empty(&self) -> bool {
        self.cells.is_empty() && self.single.is_empty()
    }

    #[inline(never)]
    pub(crate) fn wake(&mut self) {
        for cell in self.cells.drain(..) {
            catch_foreign(|| cell.wake());
        }
        wake_all(self.single.drain(..));
    }
}

/// Wakes everybody, also after a waker that panics.
pub(crate) fn wake_all(wakers: impl IntoIterator<Item = Waker>) {
    for waker in wakers {
        catch_foreign(|| waker.wake());
    }
}

/// Completes a signal.
pub(super) fn tell(signal: &Signal) {
    signal.complete(()).into_iter().for_each(|wakers| catch_foreign(|| wakers.wake()));
}

/// Makes a native call. A backend that panics in it has failed it.
pub(super) fn catch_native<T>(call: impl FnOnce() -> Result<T, BackendError>) -> Result<T, BackendError> {
    catch(call).unwrap_or_else(|panic| Err(BackendError::Panicked(panic.message().into())))
}

/// Runs foreign code that may panic without harm to whoever comes after it.
pub(crate) fn catch_foreign(code: impl FnOnce()) {
    if let Err(panic) = catch(code) {
        log(move || {
            tracing::error!(message = panic.message(), "a waker or a destructor of the user's panicked");
        });
    }
}

/// A value of the program's whose destructor may panic where the program would not see it.
pub(crate) struct Contained<T>(Option<T>);

/// What was put in is there until the end.
const GONE: &str = "it is taken where it is dropped";

impl<T> Contained<T> {
    pub(crate) fn new(value: T) -> Self {
        Contained(Some(value))
    }
}

impl<T> Deref for Contained<T> {
    type Target = T;
    fn deref(&self) -> &T {
        self.0.as_ref().unwrap_or_else(|| unreachable!("{GONE}"))
    }
}

impl<E, T: AsMut<[E]>> AsMut<[E]> for Contained<T> {
    fn as_mut(&mut self) -> &mut [E] {
        self.0.as_mut().unwrap_or_else(|| unreachable!("{GONE}")).as_mut()
    }
}

impl<T> Drop for Contained<T> {
    fn drop(&mut self) {
        let value = self.0.take();
        catch_foreign(|| drop(value));
    }
}
