//! Causes that notice who drops the last of them: what is inside may be the user's error, whose drop may come back to the
//! engine. So the engine hands causes out, and drops none itself that is the last.

use std::cell::Cell;
use std::rc::Rc;

use windlass_engine::Outcome;

thread_local! {
    /// The engine has been let go of.
    static OUTSIDE: Cell<bool> = const { Cell::new(false) };
    /// The engine has dropped the last of a cause.
    static DROPPED_INSIDE: Cell<Option<u32>> = const { Cell::new(None) };
}

/// Why a node failed: the position of a node, or something else's number.
#[derive(Clone, Debug)]
pub(super) struct Why(Rc<Reason>);

#[derive(Debug)]
struct Reason(u32);

impl Why {
    pub(super) fn new(number: u32) -> Self {
        Why(Rc::new(Reason(number)))
    }

    fn number(&self) -> u32 {
        self.0.0
    }
}

impl PartialEq for Why {
    fn eq(&self, other: &Self) -> bool {
        Rc::ptr_eq(&self.0, &other.0)
    }
}

impl Drop for Reason {
    fn drop(&mut self) {
        if !OUTSIDE.get() {
            DROPPED_INSIDE.set(Some(self.0));
        }
    }
}

/// Runs what is not the engine's.
pub(super) fn outside<R>(code: impl FnOnce() -> R) -> R {
    let before = OUTSIDE.replace(true);
    let result = code();
    OUTSIDE.set(before);
    result
}

/// A cause of which the engine has dropped the last since this was last asked.
pub(super) fn dropped_inside() -> Option<u32> {
    DROPPED_INSIDE.take()
}

/// The outcome with the numbers of causes.
pub(super) fn numbered(outcome: Outcome<Why>) -> Outcome<u32> {
    outside(|| match outcome {
        Outcome::Done => Outcome::Done,
        Outcome::Failed(why) => Outcome::Failed(why.number()),
        Outcome::Doomed(why) => Outcome::Doomed(why.number()),
        Outcome::Cancelled(why) => Outcome::Cancelled(why.number()),
    })
}
