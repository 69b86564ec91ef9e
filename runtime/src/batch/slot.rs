//! Where one item's answer comes, and what a batch's callers have in common.

use std::mem;
use std::sync::Arc;
use std::task::{Poll, Waker};

use windlass_kernel::DeviceCopy;
use windlass_sync::facade::{Mutex, lock};

use super::answer::Answer;
use super::payload::Payload;
use crate::error::Result;
use crate::event::Event;
use crate::shell::waking::catch_foreign;

/// One item's place, from when it is handed in until its caller has the answer or goes.
pub(super) struct Slot<T, U: DeviceCopy>(Mutex<Place<T, U>>);

enum Place<T, U: DeviceCopy> {
    Waiting {
        item: Payload<T>,
        waker: Option<Waker>,
    },
    Flying {
        wants: Arc<Wants>,
        waker: Option<Waker>,
    },
    /// The item goes back to who brought it, and is dropped there: in many threads, and near to where its memory came from.
    Done(Result<Answer<U>>, Payload<T>),
    /// Its caller has the answer, or has gone.
    Over,
}

/// The callers of a batch that still want their answers.
#[derive(Default)]
pub(super) struct Wants(Mutex<Wanting>);

#[derive(Default)]
struct Wanting {
    /// Less than none, as long as some have gone and nobody has said how many there were.
    callers: isize,
    event: Option<Event>,
}

impl Wants {
    /// So many have come, of whom some may have gone by now.
    pub(super) fn come(&self, callers: usize) {
        lock(&self.0).callers += callers.cast_signed();
    }

    /// The last to go cancels what nobody wants any more.
    fn one_less(&self) {
        let mut wanting = lock(&self.0);
        wanting.callers -= 1;
        let unwanted = if wanting.callers == 0 { wanting.event.clone() } else { None };
        drop(wanting);
        if let Some(event) = unwanted {
            event.cancel();
        }
    }

    /// The batch's group has been submitted. If all its callers have gone meanwhile, it is cancelled.
    pub(super) fn flies(&self, event: &Event) {
        let mut wanting = lock(&self.0);
        wanting.event = Some(event.clone());
        let unwanted = wanting.callers == 0;
        drop(wanting);
        if unwanted {
            event.cancel();
        }
    }
}

impl<T, U: DeviceCopy> Slot<T, U> {
    pub(super) fn new(item: Payload<T>) -> Self {
        Slot(Mutex::new(Place::Waiting { item, waker: None }))
    }

    /// Its batch has closed. `None`: its caller has gone. Whoever takes off a batch tells its [`Wants`] how many did.
    pub(super) fn take_off(&self, wants: &Arc<Wants>) -> Option<Payload<T>> {
        let mut place = lock(&self.0);
        let Place::Waiting { waker, .. } = &mut *place else { return None };
        let flying = Place::Flying { wants: wants.clone(), waker: waker.take() };
        match mem::replace(&mut *place, flying) {
            Place::Waiting { item, .. } => Some(item),
            _ => unreachable!("seen above"),
        }
    }

    /// It is in another batch now. `false`: its caller has gone.
    pub(super) fn change_to(&self, other: &Arc<Wants>) -> bool {
        let mut place = lock(&self.0);
        let Place::Flying { wants, .. } = &mut *place else { return false };
        let before = mem::replace(wants, other.clone());
        // The last of them has the batch's event.
        drop(place);
        drop(before);
        true
    }

    /// Gives the item back with its answer, and says who is to be woken. The first answer is the one that counts.
    pub(super) fn answer(&self, answer: Result<Answer<U>>, item: Payload<T>) -> Option<Waker> {
        let mut place = lock(&self.0);
        let (item, waker, wants) = match mem::replace(&mut *place, Place::Over) {
            Place::Waiting { item, waker } => (item, waker, None),
            Place::Flying { waker, wants } => (item, waker, Some(wants)),
            before @ (Place::Done(..) | Place::Over) => {
                *place = before;
                drop(place);
                // It may be of bytes whose owner is of the user's making.
                catch_foreign(|| drop(item));
                return None;
            }
        };
        *place = Place::Done(answer, item);
        drop(place);
        // The last of them has the batch's event.
        drop(wants);
        waker
    }

    pub(super) fn poll(&self, by: &Waker) -> Poll<Result<Answer<U>>> {
        let mut new = None;
        loop {
            let mut place = lock(&self.0);
            let waker = match &mut *place {
                Place::Waiting { waker, .. } | Place::Flying { waker, .. } => waker,
                Place::Done(..) | Place::Over => {
                    let Place::Done(answer, item) = mem::replace(&mut *place, Place::Over) else {
                        unreachable!("who has had the answer polls no more")
                    };
                    drop(place);
                    // It may be of bytes whose owner is of the user's making, and panics.
                    catch_foreign(|| drop(item));
                    return Poll::Ready(answer);
                }
            };
            if waker.as_ref().is_some_and(|old| old.will_wake(by)) {
                return Poll::Pending;
            }
            if let Some(new) = new.take() {
                let old = waker.replace(new);
                drop(place);
                drop(old);
                return Poll::Pending;
            }
            // A waker is foreign code, and so is its clone: made without the lock.
            drop(place);
            new = Some(by.clone());
        }
    }

    /// Its caller goes. `false`: the answer was there.
    pub(super) fn abandon(&self) -> bool {
        let before = mem::replace(&mut *lock(&self.0), Place::Over);
        if let Place::Flying { wants, .. } = &before {
            wants.one_less();
        }
        let was_wanted = matches!(before, Place::Waiting { .. } | Place::Flying { .. });
        catch_foreign(|| drop(before));
        was_wanted
    }
}
