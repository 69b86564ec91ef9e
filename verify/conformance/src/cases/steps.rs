//! Groups that many cases submit.

use windlass::{Buffer, Event, Queue, Result};

use crate::check::Verdict;
use crate::ensure;
use crate::subject::Subject;

/// Enough steps that whoever overtakes is seen, and few enough for every device (lavapipe ends a loop after 65,535).
const ROUNDS: u32 = 20_000;
/// Items of the work that takes long.
const WIDE: usize = 2048;

/// The elements `base`, `base + 1`, ...
pub(crate) fn counted(base: u32, len: usize) -> Vec<u32> {
    (0..len as u32).map(|i| base + i).collect()
}

impl Subject {
    /// `v[i] = base + i`, whatever was there.
    #[track_caller]
    pub(crate) fn count(&self, queue: &Queue, v: &Buffer<u32>, base: u32) -> Result<Event> {
        queue.submit(|cg| {
            let to = cg.overwrite(v);
            cg.parallel_for(v.len(), self.call("fill_index").buffer(to).value(base))
        })
    }

    /// `v[i] = 31 v[i] + k`.
    #[track_caller]
    pub(crate) fn churn(&self, queue: &Queue, v: &Buffer<u32>, k: u32) -> Result<Event> {
        queue.submit(|cg| {
            let to = cg.read_write(v);
            cg.parallel_for(v.len(), self.call("churn").buffer(to).value(k))
        })
    }

    /// `v[i] += 1`.
    #[track_caller]
    pub(crate) fn increment(&self, queue: &Queue, v: &Buffer<u32>) -> Result<Event> {
        queue.submit(|cg| {
            let to = cg.read_write(v);
            cg.parallel_for(v.len(), self.call("increment").buffer(to))
        })
    }

    /// `out[i] = x[i]`, whatever was in `out`.
    #[track_caller]
    pub(crate) fn copy(&self, queue: &Queue, x: &Buffer<u32>, out: &Buffer<u32>) -> Result<Event> {
        queue.submit(|cg| {
            let (from, to) = (cg.read(x), cg.overwrite(out));
            cg.parallel_for(x.len(), self.call("copy").buffer(from).buffer(to))
        })
    }

    /// Takes long, then does `out[i] = x[i]`.
    #[track_caller]
    pub(crate) fn copy_slowly(&self, queue: &Queue, x: &Buffer<u32>, out: &Buffer<u32>) -> Result<Event> {
        let scratch = Buffer::<u32>::new(WIDE);
        queue.submit(|cg| {
            let (from, to, scratch) = (cg.read(x), cg.overwrite(out), cg.read_write(&scratch));
            cg.parallel_for(WIDE, self.call("long_running").buffer(scratch).value(ROUNDS))?;
            cg.parallel_for(x.len(), self.call("copy").buffer(from).buffer(to))
        })
    }

    /// Takes long, then does `v[i] = base + i`, whatever was there.
    #[track_caller]
    pub(crate) fn count_slowly(&self, queue: &Queue, v: &Buffer<u32>, base: u32) -> Result<Event> {
        let scratch = Buffer::<u32>::new(WIDE);
        queue.submit(|cg| {
            let (to, scratch) = (cg.overwrite(v), cg.read_write(&scratch));
            cg.parallel_for(WIDE, self.call("long_running").buffer(scratch).value(ROUNDS))?;
            cg.parallel_for(v.len(), self.call("fill_index").buffer(to).value(base))
        })
    }

    /// A host task that would write `v`, and fails with this text.
    #[track_caller]
    pub(crate) fn fail(&self, v: &Buffer<u32>, text: &'static str) -> Result<Event> {
        self.home.submit(|cg| {
            let to = cg.read_write(v);
            cg.host_task(async move |_| {
                let _keeps_the_claim = to;
                Err(text.into())
            })
        })
    }
}

/// Ends the case unless the buffer holds these elements.
#[track_caller]
pub(crate) fn holds<'b>(v: &'b Buffer<u32>, elements: &'b [u32]) -> impl Future<Output = Verdict> + use<'b> {
    let at = std::panic::Location::caller();
    let read = v.host_read();
    async move {
        let is = read.await?;
        let first = is.iter().zip(elements).position(|(a, b)| a != b);
        ensure!(is.len() == elements.len(), "{} elements, not {} ({at})", is.len(), elements.len());
        match first {
            None => Ok(()),
            Some(i) => {
                ensure!(false, "element {i} is {}, not {} ({at})", is[i], elements[i]);
                Ok(())
            }
        }
    }
}

impl Subject {
    /// Makes the buffer this runtime's, without using any of it.
    pub(crate) async fn bind(&self, v: &Buffer<u32>) -> Result<()> {
        let nothing = v.range(0..0);
        let bound = self.home.submit(|cg| {
            cg.read(&nothing);
            Ok(())
        })?;
        bound.await
    }
}
