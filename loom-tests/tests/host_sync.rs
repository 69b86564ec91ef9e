//! The lanes' primitives: the completion book, and the host's helpers.
//!
//! Run with `RUSTFLAGS="--cfg windlass_loom" cargo test -p windlass-loom-tests --release --target-dir target/loom`.
#![cfg(windlass_loom)]

use loom::model::Builder;
use windlass_sync::completion::Book;
use windlass_sync::facade::{Arc, AtomicUsize, Mutex, Ordering, lock, thread};
use windlass_sync::helpers::{Blocks, Helpers, Task};

fn model(run: impl Fn() + Send + Sync + 'static) {
    let mut builder = Builder::new();
    builder.preemption_bound = Some(2);
    builder.check(run);
}

/// What was told, report by report.
type Told = Arc<Mutex<Vec<(u64, Vec<u64>)>>>;

fn teller(told: &Told) -> impl FnMut(u64, Vec<u64>) + use<> {
    let told = told.clone();
    move |upto, failed| lock(&told).push((upto, failed))
}

/// Arming races with passing: the point is told, by one side or the other, whichever is last.
///
/// Broken in `Book::arm`, `self.announce() >= point` left out of the condition: "point 2 is told" does not hold.
#[test]
fn an_armed_point_is_told() {
    model(|| {
        let told = Told::default();
        let (book, mut head) = Book::new();
        let tell = teller(&told);
        let worker = thread::spawn(move || {
            let mut tell = tell;
            head.advance(1, &mut tell);
            head.advance(2, &mut tell);
        });
        book.arm(2, teller(&told));
        worker.join().expect("the worker does not panic");
        assert!(lock(&told).iter().any(|(upto, _)| *upto == 2), "point 2 is told");
    });
}

/// Two threads arm while points pass: both are told, and what a group wrote is seen by who learns of its point.
///
/// Broken in `Book::swap`, `Relaxed` for `AcqRel`: the assertion on `wrote` finds 0.
#[test]
fn two_arms_are_told_and_see_what_was_done() {
    model(|| {
        let told = Told::default();
        let wrote = Arc::new(AtomicUsize::new(0));
        let (book, mut head) = Book::new();
        let others = {
            let (book, told, wrote) = (book.clone(), told.clone(), wrote.clone());
            thread::spawn(move || {
                book.arm(1, teller(&told));
                if book.passed() == 1 {
                    assert_eq!(wrote.load(Ordering::Relaxed), 1);
                }
            })
        };
        let worker = {
            let told = told.clone();
            thread::spawn(move || {
                wrote.store(1, Ordering::Relaxed);
                head.advance(1, teller(&told));
            })
        };
        book.arm(1, teller(&told));
        others.join().expect("nothing there panics");
        worker.join().expect("the worker does not panic");
        assert!(!lock(&told).is_empty());
    });
}

/// A report that covers a failed point never comes before the one that names the failure, and it is named once.
///
/// - Broken in `Waiting::take_duty`, `duty` returned without `&& !self.naming`: the reports are `(1, [])`, `(1, [1])`.
/// - Broken in `Head::advance_with`, the lock let go between the swap and the push: the only report is `(1, [])`.
/// - Broken in `Waiting::take_duty`, the line that sets `owed` left out: "who arms is told after that" does not hold.
#[test]
fn a_failure_is_named_in_time_and_once() {
    model(|| {
        let told = Told::default();
        let (book, mut head) = Book::new();
        book.arm(1, teller(&told));
        let worker = {
            let told = told.clone();
            thread::spawn(move || {
                head.advance_with(1, [1], teller(&told));
                head.tell_rest(teller(&told));
            })
        };
        let before = lock(&told).len();
        book.arm(1, teller(&told));
        worker.join().expect("the worker does not panic");
        let told = lock(&told);
        assert!(told.len() > before, "who arms is told after that: {told:?}");
        assert_eq!(told[0], (1, vec![1]), "the first report names the failure: {told:?}");
        assert!(told[1..].iter().all(|(_, failed)| failed.is_empty()), "no other does: {told:?}");
    });
}

/// Two threads learn of two points at the same time, the first of which failed: no report covers it before one names it,
/// it is named once, and the higher point is told in the end.
///
/// - Broken in `Book::settle`, the test of `settling` left out: "the first report that covers it" does not hold.
/// - Broken in `Book::settle`, `asked` read once, before the loop: "point 2 is told" does not hold.
#[test]
fn what_two_threads_settle_is_named_in_time_and_once() {
    model(|| {
        let told = Told::default();
        let (book, _) = Book::new();
        book.arm(2, teller(&told));
        // What the native objects say: point 1 failed. It may be read once.
        let native = Arc::new(Mutex::new(vec![1]));
        let settle = |book: &Book<u64>, native: &Mutex<Vec<u64>>, told: &Told, point| {
            let collect = |upto| {
                let read = std::mem::take(&mut *lock(native));
                // Between reading and passing, the other thread may do anything.
                thread::yield_now();
                read.into_iter().filter(|failed| *failed <= upto).collect()
            };
            book.settle(point, collect, teller(told));
        };
        let other = {
            let (book, native, told) = (book.clone(), native.clone(), told.clone());
            thread::spawn(move || settle(&book, &native, &told, 1))
        };
        settle(&book, &native, &told, 2);
        other.join().expect("nothing there panics");
        let told = lock(&told);
        assert!(told.iter().any(|(upto, _)| *upto == 2), "point 2 is told: {told:?}");
        let first = told.iter().find(|(upto, _)| *upto >= 1).map(|(_, failed)| failed.clone());
        assert_eq!(first, Some(vec![1]), "the first report that covers it names it: {told:?}");
        assert_eq!(told.iter().map(|(_, failed)| failed.len()).sum::<usize>(), 1, "once: {told:?}");
    });
}

/// A sleeper of another lane wakes, and sees what was done before its point.
///
/// Broken in `Book::blocking_wait`, `self.passed()` for `self.announce()`: loom reports a deadlock.
#[test]
fn a_sleeper_wakes() {
    model(|| {
        let wrote = Arc::new(AtomicUsize::new(0));
        let (book, mut head) = Book::<()>::new();
        let worker = {
            let wrote = wrote.clone();
            thread::spawn(move || {
                head.advance(1, |_, _| ());
                wrote.store(7, Ordering::Relaxed);
                head.advance(2, |_, _| ());
            })
        };
        let other = {
            let book = book.clone();
            thread::spawn(move || book.blocking_wait(1))
        };
        book.blocking_wait(2);
        assert_eq!(wrote.load(Ordering::Relaxed), 7);
        other.join().expect("it only waits");
        worker.join().expect("the worker does not panic");
    });
}

/// Counts the runs of each block.
struct Counts(Arc<Vec<AtomicUsize>>);

impl Blocks for Counts {
    fn count(&self) -> usize {
        self.0.len()
    }

    fn run(&self, block: usize) {
        // A load and a store: loom sees it if two threads run one block.
        let runs = self.0[block].load(Ordering::Relaxed);
        self.0[block].store(runs + 1, Ordering::Relaxed);
    }
}

/// Each block runs once; its effects are visible to the owner, who has the task for itself afterwards.
fn owner(helpers: &Helpers<Counts>, blocks: usize) {
    let runs = Arc::new((0..blocks).map(|_| AtomicUsize::new(0)).collect::<Vec<_>>());
    let task = Arc::new(Task::new(Counts(runs.clone()), 2));
    assert!(helpers.run(&task).is_ok());
    assert_eq!(Arc::strong_count(&task), 1, "no helper holds the task");
    assert!(runs.iter().all(|r| r.load(Ordering::Relaxed) == 1), "{runs:?}");
}

/// Broken in `Section::take`, a load and a store for `fetch_add`: the assertion on `runs` does not hold.
#[test]
fn an_owner_and_a_helper_run_each_block_once() {
    model(|| {
        let helpers = Arc::new(Helpers::new());
        let helper = {
            let helpers = helpers.clone();
            thread::spawn(move || helpers.help(1))
        };
        owner(&helpers, 2);
        helpers.close();
        helper.join().expect("the helper does not panic");
    });
}

/// - Broken in `Helpers::take_back`, no loop around `wait`: a helper still holds the task.
/// - Broken in `Helpers::help`, the task dropped only after the lock was let go behind `leave`: the same.
#[test]
fn two_helpers_come_and_go() {
    model(|| {
        let helpers = Arc::new(Helpers::new());
        let threads = [(), ()].map(|()| {
            let helpers = helpers.clone();
            thread::spawn(move || helpers.help(1))
        });
        owner(&helpers, 3);
        helpers.close();
        for helper in threads {
            helper.join().expect("the helper does not panic");
        }
    });
}

/// Broken in `Helpers::take_back`, `swap_remove(0)` for the position: an owner takes back the other's offer, and its own
/// task is still held by the helpers.
#[test]
fn two_owners_share_a_helper() {
    model(|| {
        let helpers = Arc::new(Helpers::new());
        let helper = {
            let helpers = helpers.clone();
            thread::spawn(move || helpers.help(1))
        };
        let other = {
            let helpers = helpers.clone();
            thread::spawn(move || owner(&helpers, 2))
        };
        owner(&helpers, 2);
        other.join().expect("the other owner's checks hold");
        helpers.close();
        helper.join().expect("the helper does not panic");
    });
}
