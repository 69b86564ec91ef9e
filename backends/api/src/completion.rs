//! A lane's completion book with the sink that it reports to: what every backend needs between its native events and
//! verdicts.

use std::fmt;
use std::sync::Arc;

use windlass_sync::completion::{self, Book};
use windlass_sync::panics::contain;

use crate::{Failed, LaneSink, Point, Timed, Verdict};

/// What is to be said of points that have been passed.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Note {
    /// Some failed.
    Failed(Failed),
    /// One was to be timed.
    Timed(Timed),
}

impl From<Failed> for Note {
    fn from(failed: Failed) -> Self {
        Note::Failed(failed)
    }
}

impl From<Timed> for Note {
    fn from(timed: Timed) -> Self {
        Note::Timed(timed)
    }
}

/// How far a lane has come, which points are to be reported, and to whom: it keeps the contract's promises about
/// [`Verdict`]s, so that a backend only has to know which points have been passed, and which of them failed.
///
/// A lane calls [`Completion::arm`] for points that are to be reported, and, on whatever thread learns of it,
/// [`Completion::settle`] for a point that has been passed. A lane of which one thread knows, in order, what has been
/// passed, is cheaper with a [`Head`].
///
/// ```
/// use std::sync::{Arc, Mutex};
/// use windlass_backend::{BackendError, Completion, Failed, LaneSink, Point, Verdict};
///
/// #[derive(Default)]
/// struct Heard(Mutex<Vec<Verdict>>);
/// impl LaneSink for Heard {
///     fn passed(&self, verdict: Verdict) {
///         self.0.lock().unwrap().push(verdict);
///     }
/// }
///
/// let heard = Arc::new(Heard::default());
/// let completion = Completion::new(heard.clone());
/// completion.arm(Point(3));
/// // The driver says that 2 has ended, and that it failed; nobody has asked about it.
/// let error = BackendError::Unsupported("division by a cucumber".into());
/// completion.settle(Point(2), |_| vec![Failed::at(Point(2), error.clone()).into()]);
/// assert!(heard.0.lock().unwrap().is_empty());
/// // Now 3 has ended as well: the verdict names the failure below it.
/// completion.settle(Point(3), |_| Vec::new());
/// let verdicts = heard.0.lock().unwrap();
/// assert_eq!((verdicts[0].upto, verdicts[0].failed[0].first), (Point(3), Point(2)));
/// ```
pub struct Completion {
    book: windlass_sync::facade::Arc<Book<Note>>,
    sink: Arc<dyn LaneSink>,
}

impl Completion {
    /// A lane at point 0 that reports to `sink`.
    pub fn new(sink: Arc<dyn LaneSink>) -> Arc<Self> {
        Self::with_head(sink).0
    }

    /// The same, with the right to advance it; [`Completion::settle`] is not for such a one.
    pub fn with_head(sink: Arc<dyn LaneSink>) -> (Arc<Self>, Head) {
        let (book, head) = Book::new();
        let head = Head { head, sink: sink.clone() };
        (Arc::new(Completion { book, sink }), head)
    }

    /// The last point that was passed; all that led to it is visible to the caller.
    pub fn passed(&self) -> Point {
        Point(self.book.passed())
    }

    /// Blocks until `point` is passed.
    pub fn blocking_wait(&self, point: Point) {
        self.book.blocking_wait(point.0);
    }

    /// Has `point` reported once it is passed: here and now if it is.
    pub fn arm(&self, point: Point) {
        self.book.arm(point.0, tell(&*self.sink));
    }

    /// Passes `point`, and with it everything below, unless that has happened, and reports what is due. `collect` says what
    /// became of the points up to the one that it is given, above the last that was passed; it is called by one thread at a
    /// time, with no lock held.
    pub fn settle(&self, point: Point, mut collect: impl FnMut(Point) -> Vec<Note>) {
        self.book.settle(point.0, |upto| collect(Point(upto)), tell(&*self.sink));
    }
}

impl fmt::Debug for Completion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Completion").field("passed", &self.passed()).finish_non_exhaustive()
    }
}

/// The right to say what a lane has passed, for the one thread that knows it.
pub struct Head {
    head: completion::Head<Note>,
    sink: Arc<dyn LaneSink>,
}

impl Head {
    /// Passes `point`, which rises from call to call, and reports it if that is due. A point that interests nobody costs one
    /// atomic operation.
    #[inline]
    pub fn advance(&mut self, point: Point) {
        self.head.advance(point.0, tell(&*self.sink));
    }

    /// As [`Head::advance`], with something to say about it.
    pub fn advance_with(&mut self, point: Point, notes: impl IntoIterator<Item = Note>) {
        self.head.advance_with(point.0, notes, tell(&*self.sink));
    }

    /// Reports what no report has covered, asked for or not.
    pub fn tell_rest(&mut self) {
        self.head.tell_rest(tell(&*self.sink));
    }
}

impl fmt::Debug for Head {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Head").field(&self.head).finish()
    }
}

/// Calls a sink. One that panics breaks its contract, but must not take the lane's later verdicts with it, nor unwind into a
/// driver.
fn tell(sink: &dyn LaneSink) -> impl FnMut(u64, Vec<Note>) {
    move |upto, notes| {
        let mut verdict = Verdict::ok(Point(upto));
        for note in notes {
            match note {
                Note::Failed(failed) => add(&mut verdict.failed, failed),
                Note::Timed(timed) => verdict.times.push(timed),
            }
        }
        contain(|| sink.passed(verdict));
    }
}

/// Adds a failure, as part of a run where neighbours failed for the same reason: a lost device fails thousands at once.
fn add(all: &mut Vec<Failed>, failed: Failed) {
    match all.last_mut() {
        Some(run) if run.last.0 + 1 == failed.first.0 && run.error == failed.error => run.last = failed.last,
        _ => all.push(failed),
    }
}
