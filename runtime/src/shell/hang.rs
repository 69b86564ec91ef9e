//! Devices on which nothing ends any more.
//!
//! Nothing tells a long kernel from a device that hangs, so it is the program that says how long is too long. What is looked at is whether
//! verdicts come: a lane that has something in flight and brings none for that time is taken to hang, and its context is given up as if
//! the program had called [`Context::abandon`](crate::Context::abandon). A group that nobody waits for may have been fed without being asked to
//! report, so the oldest ones are asked when they have been quiet for one look, and have the rest of the time to answer. A lane may wait for another
//! context's, natively: what those bring counts for it, too.

use std::collections::HashMap;
use std::sync::{Arc, Weak};
use std::time::Duration;

use windlass_sync::facade::{Mutex, lock};

use super::Inner;
use super::context::ContextShared;
use windlass_engine::ContextId;

/// The contexts that are looked at.
#[derive(Debug)]
pub(crate) struct Hangs {
    after: Option<Duration>,
    contexts: Mutex<Watched>,
}

#[derive(Debug, Default)]
struct Watched {
    started: bool,
    list: Vec<Weak<ContextShared>>,
}

/// Looks in the time after which a device is taken to hang.
const LOOKS: u32 = 4;

/// How far each context had come, and how many looks ago it came there.
type Seen = HashMap<ContextId, (u64, u32)>;

impl Hangs {
    pub(crate) fn new(after: Option<Duration>) -> Self {
        // To look without a pause would be to look at nothing.
        let after = after.map(|after| after.max(LOOKS * Duration::from_millis(1)));
        Hangs { after, contexts: Mutex::default() }
    }

    /// Looks at a context from now on, if that was asked for.
    pub(crate) fn watch(&self, inner: &Arc<Inner>, context: &Arc<ContextShared>) {
        let Some(after) = self.after.filter(|_| !inner.manual) else { return };
        let mut watched = lock(&self.contexts);
        watched.list.push(Arc::downgrade(context));
        if std::mem::replace(&mut watched.started, true) {
            return;
        }
        drop(watched);
        let (weak, mut seen) = (Arc::downgrade(inner), Seen::new());
        let look = move || while look(&weak, after, &mut seen) {};
        if let Err(error) = std::thread::Builder::new().name("windlass-hangs".into()).spawn(look) {
            tracing::warn!(%error, "there is no thread to see whether devices hang");
        }
    }

    /// Those that are still open.
    fn open(&self) -> Vec<Arc<ContextShared>> {
        let mut watched = lock(&self.contexts);
        watched.list.retain(|context| context.strong_count() > 0);
        watched.list.iter().filter_map(Weak::upgrade).collect()
    }
}

/// One look; false when the runtime is gone.
fn look(inner: &Weak<Inner>, after: Duration, seen: &mut Seen) -> bool {
    std::thread::sleep(after / LOOKS);
    let Some(inner) = inner.upgrade() else { return false };
    for context in inner.hangs.open() {
        let id = context.id();
        let Some(progress) = inner.enter(|state, _| state.engine.progress_of(id)) else {
            seen.remove(&id);
            continue;
        };
        let (before, looks) = seen.entry(id).or_insert((progress, 0));
        match *before == progress {
            true => *looks += 1,
            false => (*before, *looks) = (progress, 0),
        }
        match *looks {
            1 => inner.enter(|state, turn| state.engine.ask_oldest(id, turn)),
            looks if looks > LOOKS => {
                seen.remove(&id);
                tracing::error!(%context, "nothing has ended for {after:?}: the device is given up");
                context.give_up(&inner, format!("nothing has ended on it for {after:?}, so it was given up"));
            }
            _ => {}
        }
    }
    true
}
