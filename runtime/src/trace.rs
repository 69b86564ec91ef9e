//! What a runtime has done, and when: recorded while a program runs, and shown as a picture, a graph or a file for Perfetto.
//!
//! A [`Trace`] records for as long as it is kept. It has every group, host accessor and copy with what it waited for, where it ran
//! and how it ended:
//!
//! ```
//! use windlass::prelude::*;
//! # fn main() -> windlass::Result<()> {
//! let runtime = Runtime::builder().profiling().build();
//! let queue = Queue::blocking_on(runtime.host()?)?;
//! let trace = runtime.trace(10_000);
//! let data = Buffer::from(vec![1_u32; 1000]);
//! for _ in 0..3 {
//!     queue.submit(|cg| {
//!         cg.name("double");
//!         let data = cg.read_write(&data);
//!         cg.host_for(1000, data, |item, data| data.set(item.id(0), 2 * data.get(item.id(0))))
//!     })?;
//! }
//! queue.drained().blocking_wait()?;
//! let timeline = trace.timeline();
//! assert_eq!(timeline.entries().len(), 3);
//! assert_eq!(timeline.entries()[0].name.as_deref(), Some("double"));
//! # let file = std::env::temp_dir().join(format!("windlass-trace-{}.html", std::process::id()));
//! std::fs::write(&file, timeline.html()).unwrap();
//! # std::fs::remove_file(&file).unwrap();
//! # Ok(())
//! # }
//! ```
//!
//! A program that was not written for it is traced as well: with `WINDLASS_TRACE=FILE` in its environment each runtime writes what it
//! does to that file as it happens, for [Perfetto](https://ui.perfetto.dev), `chrome://tracing`, or `windlass trace FILE`. The
//! file is whole up to the moment at which the program ends, however it ends. A `%p` in the name becomes the process's number: a program that
//! starts others wants it. Each entry is written by the thread that has heard of its end, so a slow disk slows the program down.
//!
//! Groups are also spans of [`tracing`](https://docs.rs/tracing), with the target `windlass::group` and the level `DEBUG`, below the span
//! in which they were submitted.

mod dot;
mod entry;
mod file;
mod html;
mod json;
mod perfetto;

use std::sync::Arc;
use std::time::Instant;

use windlass_sync::forked;

use crate::runtime::Runtime;
use crate::shell::Inner;
pub use crate::shell::tracer::{EntryKind, Outcome};
pub use entry::Entry;
pub(crate) use file::FileSink;

/// A recording of what a runtime does, from [`Runtime::trace`] on until it is dropped.
#[derive(Debug)]
pub struct Trace {
    inner: Arc<Inner>,
    most: usize,
    first: u64,
    began: Instant,
}

impl Trace {
    /// What has ended so far and was submitted since the trace began; the latest, if that is more than the trace keeps.
    ///
    /// ```
    /// use windlass::{prelude::*, trace::EntryKind};
    /// # fn main() -> windlass::Result<()> {
    /// let runtime = Runtime::new();
    /// let (queue, trace) = (Queue::blocking_on(runtime.host()?)?, runtime.trace(100));
    /// let data = Buffer::<u32>::new(8);
    /// queue.submit(|cg| cg.fill(&cg.overwrite(&data), 1))?.blocking_wait()?;
    /// drop(data.host_read().blocking_wait()?);
    /// let timeline = trace.timeline();
    /// let kinds = timeline.entries().iter().map(|entry| &entry.kind);
    /// assert!(kinds.eq([&EntryKind::Group, &EntryKind::HostAccessor]));
    /// # Ok(()) }
    /// ```
    pub fn timeline(&self) -> Timeline {
        if forked::is_child() {
            return Timeline { entries: Vec::new() };
        }
        let ended = self.inner.enter_without_native_calls(|state, _| {
            state.tracer.as_ref().map_or(Vec::new(), |tracer| tracer.ended_since(self.first))
        });
        let surplus = ended.len().saturating_sub(self.most);
        Timeline { entries: ended[surplus..].iter().map(|traced| Entry::new(traced, self.began)).collect() }
    }
}

impl Drop for Trace {
    fn drop(&mut self) {
        if forked::is_child() {
            return;
        }
        self.inner.enter_without_native_calls(|state, _| state.end_trace(self.most));
    }
}

impl Runtime {
    /// Records what the runtime does for as long as the trace is kept: the latest `most` groups, accessors and copies that have
    /// ended, with some hundred bytes each. Times are the device's own on queues that
    /// [profile](crate::QueueBuilder::profiling), and what the host saw on others. See [the module](crate::trace) for an example.
    ///
    /// ```
    /// use windlass::prelude::*;
    /// # fn main() -> windlass::Result<()> {
    /// let runtime = Runtime::new();
    /// let trace = runtime.trace(2);
    /// let queue = Queue::blocking_on(runtime.host()?)?;
    /// for name in ["first", "second", "third"] {
    ///     queue.submit(|cg| Ok(cg.name(name)))?.blocking_wait()?;
    /// }
    /// let names = trace.timeline().entries().iter().map(|entry| entry.label()).collect::<Vec<_>>();
    /// assert_eq!(names, ["second", "third"]);
    /// # Ok(()) }
    /// ```
    pub fn trace(&self, most: usize) -> Trace {
        let (inner, most) = (self.inner().clone(), most.max(1));
        let began = Instant::now();
        let begin = || inner.enter_without_native_calls(|state, _| state.begin_trace(most));
        let first = if forked::is_child() { Default::default() } else { begin() };
        Trace { inner, most, first, began }
    }
}

/// A page around entries in the form that the page reads: for the command `windlass`, which has them from a file.
#[doc(hidden)]
pub fn page_of(entries: &str) -> String {
    // It occurs in strings only.
    html::around(&entries.replace('<', "\\u003c"))
}

/// What was recorded.
#[derive(Clone, Debug)]
pub struct Timeline {
    entries: Vec<Entry>,
}

impl Timeline {
    /// All of it, in the order in which it ended.
    ///
    /// ```
    /// use windlass::prelude::*;
    /// # fn main() -> windlass::Result<()> {
    /// let runtime = Runtime::new();
    /// let (queue, trace) = (Queue::builder().runtime(&runtime).blocking_build()?, runtime.trace(100));
    /// queue.submit(|cg| Ok(cg.name("nothing")))?.blocking_wait()?;
    /// for entry in trace.timeline().entries() {
    ///     println!("{} took {:?} and waited for {:?}", entry.label(), entry.ended - entry.started, entry.after);
    /// }
    /// assert_eq!(trace.timeline().entries().len(), 1);
    /// # Ok(()) }
    /// ```
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// In the format of Chrome's traces, which [Perfetto](https://ui.perfetto.dev) opens.
    ///
    /// ```
    /// # let trace = windlass::Runtime::new().trace(10);
    /// assert!(trace.timeline().perfetto().starts_with('['));
    /// ```
    pub fn perfetto(&self) -> String {
        let mut text = String::from("[");
        let mut rows = perfetto::Rows::default();
        self.entries.iter().for_each(|entry| rows.write(entry, &mut text));
        text.push_str("\n]\n");
        text
    }

    /// A page that shows it, with everything that it needs inside.
    ///
    /// ```
    /// # let trace = windlass::Runtime::new().trace(10);
    /// assert!(trace.timeline().html().contains("</html>"));
    /// ```
    pub fn html(&self) -> String {
        html::page(&self.entries)
    }

    /// Who came after whom, as a graph in the language of Graphviz.
    ///
    /// ```
    /// # let trace = windlass::Runtime::new().trace(10);
    /// assert!(trace.timeline().dot().starts_with("digraph"));
    /// ```
    pub fn dot(&self) -> String {
        dot::graph(&self.entries)
    }
}

#[cfg(test)]
mod tests {
    use tracing::{Event, Metadata, Subscriber, span};

    use crate::prelude::*;

    /// Hears groups' spans, and does nothing with them.
    struct Listener;

    impl Subscriber for Listener {
        fn enabled(&self, metadata: &Metadata<'_>) -> bool {
            metadata.is_span()
        }
        fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
            span::Id::from_u64(1)
        }
        fn record(&self, _: &span::Id, _: &span::Record<'_>) {}
        fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}
        fn event(&self, _: &Event<'_>) {}
        fn enter(&self, _: &span::Id) {}
        fn exit(&self, _: &span::Id) {}
    }

    /// Nobody pays for what nobody looks at any more. Seen to fail where a span once opened had everything followed for good.
    #[test]
    #[cfg(feature = "host")]
    fn nothing_is_followed_once_nobody_looks() {
        let runtime = Runtime::new();
        let queue = Queue::blocking_on(runtime.host().unwrap()).unwrap();
        let is_followed = || runtime.inner().enter(|state, _| state.tracer.is_some());
        let data = Buffer::from(vec![1_u32; 4]);
        let fill = || queue.submit(|cg| cg.fill(&cg.overwrite(&data), 2)).unwrap();
        tracing::subscriber::with_default(Listener, || {
            let held = data.host_read().blocking_wait().unwrap();
            let behind = fill();
            assert!(is_followed());
            drop(held);
            behind.blocking_wait().unwrap();
        });
        assert!(!is_followed());
        let (one, other) = (runtime.trace(10), runtime.trace(20));
        drop(one);
        assert!(is_followed());
        drop(other);
        assert!(!is_followed());
    }
}
