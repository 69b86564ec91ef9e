//! What a program waits for on the host's side: accessors, and futures outside the runtime.

use std::cell::Cell;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Poll, Waker};

use windlass::{Buffer, Result};

use crate::kernels;

/// What came of an accessor: what it saw.
pub(super) type Seen = Result<Vec<u32>>;

/// An accessor on its way, or held until it is told to end.
pub(super) struct Accessor {
    pub(super) future: Option<Pin<Box<dyn Future<Output = Seen>>>>,
    pub(super) end: Rc<Cell<bool>>,
    pub(super) seen: Option<Seen>,
}

/// A future that somebody waits for, to be resolved later.
#[derive(Default)]
pub(super) struct Gate {
    open: AtomicBool,
    waker: Mutex<Option<Waker>>,
}

impl Gate {
    pub(super) async fn wait(self: Arc<Self>, fails: bool) -> Result<(), String> {
        std::future::poll_fn(|cx| {
            *self.waker.lock().unwrap_or_else(|p| p.into_inner()) = Some(cx.waker().clone());
            if self.open.load(Ordering::Relaxed) { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
        if fails { Err("a future that fails".into()) } else { Ok(()) }
    }

    pub(super) fn is_open(&self) -> bool {
        self.open.load(Ordering::Relaxed)
    }

    pub(super) fn resolve(&self) {
        self.open.store(true, Ordering::Relaxed);
        let waker = self.waker.lock().unwrap_or_else(|p| p.into_inner()).take();
        waker.into_iter().for_each(Waker::wake);
    }
}

fn accessor(future: impl FnOnce(Rc<Cell<bool>>) -> Pin<Box<dyn Future<Output = Seen>>>) -> Accessor {
    let end = Rc::new(Cell::new(false));
    Accessor { future: Some(future(end.clone())), end, seen: None }
}

/// The driver polls accessors again and again, so nobody has to be woken.
async fn until(end: &Cell<bool>) {
    std::future::poll_fn(|_| if end.get() { Poll::Ready(()) } else { Poll::Pending }).await;
}

pub(super) fn read(part: Buffer<u32>) -> Accessor {
    accessor(|end| {
        Box::pin(async move {
            let guard = part.host_read().await?;
            until(&end).await;
            Ok(guard.to_vec())
        })
    })
}

pub(super) fn write(part: Buffer<u32>, k: u32) -> Accessor {
    accessor(|end| {
        Box::pin(async move {
            let mut guard = part.host_write().await?;
            until(&end).await;
            guard.iter_mut().for_each(|v| *v = kernels::stepped(*v, k));
            Ok(Vec::new())
        })
    })
}
