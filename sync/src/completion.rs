//! The completion book of a lane: how far it has come, which threads wait for that, and which one reports its
//! points.
//!
//! What is native stays outside: which thread learns that a point has been passed, and how. It comes in one of
//! two forms.
//!
//! - One thread knows, in order: it holds the [`Head`], and [advances](Head::advance) it. A point that nothing waits for
//!   costs one atomic operation.
//! - Any thread may learn of any point, by a driver's callback, say: it calls [`Book::settle`].
//!
//! Any thread may sleep until a point is passed ([`Book::blocking_wait`]) or ask to have it told ([`Book::arm`]). A *note* is what
//! has to be said of a point, such as that it failed, and is told with the first report that covers it.
//!
//! # Why no request is forgotten
//!
//! There is one atomic word, `word`, and every change of it is a read-modify-write, so all changes have one order.
//!
//! - A thread that wants a point takes the lock, sets `NEWS`, and looks at the passed point in the value that this very
//!   operation replaced. If the point is passed there, nothing has to be remembered. Otherwise the request goes on a
//!   list before the lock is released.
//! - The head swaps in the new point, which also clears `NEWS`. If the replaced value had `NEWS`, it takes the lock
//!   (and so sees the request on its list) and learns the lowest point that is wanted, `next`. Until `NEWS` is set again
//!   it needs no lock to know that no thread wants a point below `next`.
//!
//! One of the two operations on the word is first. If it is the swap, the other side sees the point as passed.
//! If it is the setting of `NEWS`, the head sees the bit, then the request. There is no third case.
//!
//! # Why a note is told in time
//!
//! A note is put on the list under the lock that also covers the swap of its point, and a thread that reports
//! takes the passed point and the list under that lock: a report never names a note above its point, nor misses
//! one below.
//!
//! Reports are told with no lock held, by several threads at once: one without notes may arrive in any order. But
//! while a report that names some is being told (`naming`), a later one must not overtake it: the thread that would tell
//! one leaves that to the thread that is at it (`owed`). A re-entrant `tell` sets `again` and returns; the outer call
//! loops, which bounds the stack. In both cases the thread that is left with the duty looks for it, under the lock, before
//! it stops.
//!
//! # Settling
//!
//! Where any thread may learn of any point, two of them may hold points 1 and 2 at the same time, and the notes of both
//! have to be read from native objects before the points may pass. The feared race: the thread with point 2, whose work went
//! well, passes it, and so everything below, while the other is still reading that point 1 failed. So one thread settles at
//! a time (`settling`). It collects the notes of everything up to the highest point that was brought (`asked`), and then
//! passes that point, until no higher one has been brought; the other threads leave their point under the lock and
//! return. As the settling thread looks at `asked` under the same lock before it stops, no point is left behind.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fmt;
use std::mem;

use crate::facade::thread::{self, ThreadId};
use crate::facade::{Arc, AtomicU64, Condvar, Mutex, MutexGuard, Ordering, lock};

/// Bit 0: a request was put on a list since the head last looked.
const NEWS: u64 = 1;
/// The other bits: the last point that was passed.
const POINT_SHIFT: u32 = 1;

/// The progress of one lane. Points are below 2^63 and start above 0. `F` is a note on a point.
pub struct Book<F> {
    word: AtomicU64,
    waiting: Mutex<Waiting<F>>,
    woken: Condvar,
}

struct Waiting<F> {
    /// Points to be told, lowest first.
    armed: BinaryHeap<Reverse<u64>>,
    /// Points that threads sleep for, lowest first.
    sleepers: BinaryHeap<Reverse<u64>>,
    /// Notes that no report has named.
    notes: Vec<F>,
    /// The point of the last report.
    told: u64,
    /// The threads that are telling.
    tellers: Vec<Teller>,
    /// One of them is naming notes.
    naming: bool,
    /// That one has to tell again.
    owed: bool,
    /// The highest point that was brought to be settled.
    asked: u64,
    /// A thread is settling, and looks at `asked` before it stops.
    settling: bool,
}

struct Teller {
    thread: ThreadId,
    /// It has to tell, or to tell again.
    again: bool,
}

impl<F> Waiting<F> {
    /// Whether the teller at `at` has to tell now. Not while another one names notes: then that one owes the
    /// report.
    fn take_duty(&mut self, at: usize) -> bool {
        let duty = mem::take(&mut self.tellers[at].again);
        self.owed |= duty && self.naming;
        duty && !self.naming
    }

    fn teller(&self, thread: ThreadId) -> Option<usize> {
        self.tellers.iter().position(|t| t.thread == thread)
    }

    /// Takes over what the others left to the thread that named notes.
    fn stop_naming(&mut self, thread: ThreadId) {
        self.naming = false;
        if mem::take(&mut self.owed)
            && let Some(at) = self.teller(thread)
        {
            self.tellers[at].again = true;
        }
    }

    /// What a report says now.
    fn take_report(&mut self, upto: u64) -> Vec<F> {
        pop_due(&mut self.armed, upto);
        self.told = upto;
        mem::take(&mut self.notes)
    }
}

/// The right to advance a book: there is one for each.
pub struct Head<F> {
    book: Arc<Book<F>>,
    /// No request that the head has seen is below this point.
    next: u64,
}

impl<F> Book<F> {
    /// A book at point 0, and its head. The head is not needed if points are settled by [`Book::settle`].
    pub fn new() -> (Arc<Self>, Head<F>) {
        let waiting = Waiting {
            armed: BinaryHeap::new(),
            sleepers: BinaryHeap::new(),
            notes: Vec::new(),
            told: 0,
            tellers: Vec::new(),
            naming: false,
            owed: false,
            asked: 0,
            settling: false,
        };
        let book = Book { word: AtomicU64::new(0), waiting: Mutex::new(waiting), woken: Condvar::new() };
        let book = Arc::new(book);
        (book.clone(), Head { book, next: u64::MAX })
    }

    /// The last point that was passed; all that led to it is visible to the caller.
    pub fn passed(&self) -> u64 {
        // Acquire: pairs with the head's swap.
        self.word.load(Ordering::Acquire) >> POINT_SHIFT
    }

    /// Blocks until `point` is passed.
    pub fn blocking_wait(&self, point: u64) {
        if self.passed() >= point || soon(|| self.passed() >= point) {
            return;
        }
        let mut waiting = lock(&self.waiting);
        if self.announce() >= point {
            return;
        }
        // The head may swap the point in between here and the sleep, but it has seen `NEWS` then and needs the
        // lock to go through the list. It gets that when this thread sleeps, so its notification cannot come too
        // early.
        waiting.sleepers.push(Reverse(point));
        while self.passed() < point {
            waiting = match self.woken.wait(waiting) {
                Ok(guard) => guard,
                Err(poisoned) => poisoned.into_inner(),
            };
        }
    }

    /// Asks for a call of `tell` once `point` is passed: by this thread if it is, else by the head's. `tell` must not
    /// panic. It is called with no lock held and may come back to this book.
    pub fn arm(&self, point: u64, tell: impl FnMut(u64, Vec<F>)) {
        let mut waiting = lock(&self.waiting);
        // The load saves the head a useless look at the lists; the decision is `announce`'s.
        if self.passed() >= point || self.announce() >= point {
            self.report(waiting, tell);
        } else {
            waiting.armed.push(Reverse(point));
        }
    }

    /// Passes `point`, and with it everything below, unless that has happened. `collect` says what is to be noted of the
    /// points above the last passed one, up to the one that it is given; it is called by one thread at a time, with no lock
    /// held. `tell` is called as in [`Book::arm`]. Not to be mixed with [`Head::advance`].
    ///
    /// If another thread is settling, it is left to do this as well.
    pub fn settle(
        &self,
        point: u64,
        mut collect: impl FnMut(u64) -> Vec<F>,
        mut tell: impl FnMut(u64, Vec<F>),
    ) {
        // The point is left before the look at `settling`, under one lock: either this thread settles it, or the
        // thread that does sees it when it comes back to the loop.
        let mut waiting = lock(&self.waiting);
        waiting.asked = waiting.asked.max(point);
        if mem::replace(&mut waiting.settling, true) {
            return;
        }
        loop {
            let upto = waiting.asked;
            // Only the settling thread moves the word on, so this comparison holds until it does so itself.
            if upto <= self.passed() {
                waiting.settling = false;
                return;
            }
            drop(waiting);
            let notes = collect(upto);
            // Notes and swap in one critical section: a report in between would name notes above its point.
            waiting = lock(&self.waiting);
            waiting.notes.extend(notes);
            self.swap(upto);
            self.grant(waiting, upto, &mut tell);
            waiting = lock(&self.waiting);
        }
    }

    /// Says that a list is about to change, and returns the point that was passed at that moment. Only under the lock.
    fn announce(&self) -> u64 {
        // Release: keeps the head's earlier swap visible to a thread that acquires this value. Acquire: the
        // caller may see the point as passed.
        self.word.fetch_or(NEWS, Ordering::AcqRel) >> POINT_SHIFT
    }

    /// Moves the word on, and says whether there was news. Only the head does this.
    #[inline]
    fn swap(&self, point: u64) -> bool {
        debug_assert!(point < 1 << 63, "points have 63 bits");
        // Release: what the group wrote is visible to a thread that reads the point. Acquire: not needed for the
        // lists, which the lock orders, but it lets the head rely on all that was done before an announcement.
        let old = self.word.swap(point << POINT_SHIFT, Ordering::AcqRel);
        debug_assert!(old >> POINT_SHIFT < point, "points rise");
        old & NEWS != 0
    }

    /// Wakes the sleepers that are due, tells if an armed point is due, and returns the lowest point wanted next.
    fn grant<'a>(
        &'a self,
        mut waiting: MutexGuard<'a, Waiting<F>>,
        point: u64,
        tell: impl FnMut(u64, Vec<F>),
    ) -> u64 {
        // All of them: one condition variable serves sleepers of different points, and those that are not due
        // sleep again.
        if pop_due(&mut waiting.sleepers, point) {
            self.woken.notify_all();
        }
        let due = pop_due(&mut waiting.armed, point);
        let lowest = |wishes: &BinaryHeap<Reverse<u64>>| wishes.peek().map_or(u64::MAX, |p| p.0);
        // Read under the lock that the lists change under. What is added afterwards sets `NEWS`, so the head
        // looks again.
        let next = lowest(&waiting.armed).min(lowest(&waiting.sleepers));
        if due {
            self.report(waiting, tell);
        }
        next
    }

    /// Tells the present state, and again as long as that is this thread's duty.
    fn report<'a>(&'a self, mut waiting: MutexGuard<'a, Waiting<F>>, mut tell: impl FnMut(u64, Vec<F>)) {
        let me = thread::current().id();
        // This thread is inside `tell` further up its stack. The outer call tells again when it returns.
        if let Some(outer) = waiting.teller(me) {
            waiting.tellers[outer].again = true;
            return;
        }
        waiting.tellers.push(Teller { thread: me, again: true });
        // The lock is released for each `tell`, and the list of tellers changes meanwhile, so this thread's
        // place is looked up each time. It leaves the list under the same lock in which it finds no duty: a duty
        // that is given to it is given before that, and is seen, or after that, to another.
        while let Some(at) = waiting.teller(me) {
            if !waiting.take_duty(at) {
                waiting.tellers.swap_remove(at);
                return;
            }
            let upto = self.passed();
            let notes = waiting.take_report(upto);
            let names = !notes.is_empty();
            waiting.naming = names;
            drop(waiting);
            tell(upto, notes);
            waiting = lock(&self.waiting);
            if names {
                waiting.stop_naming(me);
            }
        }
    }
}

impl<F> Head<F> {
    /// Passes `point`, which rises from call to call, and calls `tell` if that makes an armed point due.
    ///
    /// `tell` is called as in [`Book::arm`].
    #[inline]
    pub fn advance(&mut self, point: u64, tell: impl FnMut(u64, Vec<F>)) {
        // Without news `next` is up to date, and below it nothing is wanted: the lists need not be looked at.
        if self.book.swap(point) || point >= self.next {
            let waiting = lock(&self.book.waiting);
            self.next = self.book.grant(waiting, point, tell);
        }
    }

    /// As [`Head::advance`], for a point of which something is to be said.
    pub fn advance_with(
        &mut self,
        point: u64,
        notes: impl IntoIterator<Item = F>,
        tell: impl FnMut(u64, Vec<F>),
    ) {
        // The lock before the swap, unlike in `advance`: a thread that sees the point as passed and reports it
        // must find the notes. Whether there was news does not matter, since the lists are looked at in any
        // case.
        let mut waiting = lock(&self.book.waiting);
        waiting.notes.extend(notes);
        self.book.swap(point);
        self.next = self.book.grant(waiting, point, tell);
    }

    /// Tells what no report has covered, asked for or not.
    pub fn tell_rest(&mut self, tell: impl FnMut(u64, Vec<F>)) {
        let waiting = lock(&self.book.waiting);
        if waiting.told < self.book.passed() {
            self.book.report(waiting, tell);
        }
    }
}

/// Takes off all requests up to `point`, and says whether there were any.
fn pop_due(wishes: &mut BinaryHeap<Reverse<u64>>, point: u64) -> bool {
    let before = wishes.len();
    while wishes.peek().is_some_and(|p| p.0 <= point) {
        wishes.pop();
    }
    wishes.len() < before
}

/// How often a thread looks again before it goes to sleep: about as long, in all, as going to sleep and being woken
/// would cost it. Measured on two cores: one look halves the cost of a stream of tiny groups, and more than a few
/// change nothing but the processor time that a lone group takes.
const LOOKS: usize = 8;

/// Gives `ready` a short while to come true before the caller goes to sleep, and says whether it did.
///
/// It yields to any other runnable thread between two looks, so it takes time from none.
pub fn soon(mut ready: impl FnMut() -> bool) -> bool {
    if cfg!(windlass_loom) {
        return false;
    }
    (0..LOOKS).any(|_| {
        thread::yield_now();
        ready()
    })
}

impl<F> fmt::Debug for Book<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Book").field("passed", &self.passed()).finish()
    }
}

impl<F> fmt::Debug for Head<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Head").field("book", &self.book).finish()
    }
}

#[cfg(all(test, not(windlass_loom)))]
mod tests {
    use std::cell::RefCell;

    use super::*;

    #[test]
    fn only_armed_points_are_told() {
        let told = RefCell::new(Vec::new());
        let tell = |upto, failed: Vec<&'static str>| told.borrow_mut().push((upto, failed));
        let (book, mut head) = Book::new();
        head.advance(1, tell);
        book.arm(3, tell);
        head.advance(2, tell);
        assert_eq!(*told.borrow(), []);
        head.advance(4, tell);
        head.advance(5, tell);
        assert_eq!(*told.borrow(), [(4, vec![])], "the first point at or above the armed one, once");
        book.arm(2, tell);
        assert_eq!(*told.borrow(), [(4, vec![]), (5, vec![])], "a passed point is told at once");
    }

    #[test]
    fn a_failure_is_named_by_the_next_report() {
        let told = RefCell::new(Vec::new());
        let tell = |upto, failed: Vec<&'static str>| told.borrow_mut().push((upto, failed));
        let (book, mut head) = Book::new();
        head.advance_with(1, ["one"], tell);
        head.advance(2, tell);
        book.arm(1, tell);
        head.advance_with(3, ["three"], tell);
        head.tell_rest(tell);
        head.tell_rest(tell);
        assert_eq!(*told.borrow(), [(2, vec!["one"]), (3, vec!["three"])]);
    }

    #[test]
    fn who_arms_while_being_told_is_told_after_it() {
        let (book, mut head) = Book::<()>::new();
        book.arm(1, |_, _| unreachable!("not passed"));
        let mut told = 0;
        let depth = RefCell::new(0);
        head.advance(1, |_, _| {
            assert_eq!(depth.replace(1), 0, "reports do not nest");
            told += 1;
            if told < 3 {
                book.arm(1, |_, _| unreachable!("another thread, or frame, is telling"));
            }
            depth.replace(0);
        });
        assert_eq!(told, 3);
    }

    #[test]
    fn what_is_settled_inside_a_report_is_settled_by_the_outer_call() {
        let (book, _) = Book::new();
        let told = RefCell::new(Vec::new());
        book.arm(1, |_, _| unreachable!("not passed"));
        book.arm(2, |_, _| unreachable!("not passed"));
        let note = |upto| vec![upto * 10];
        book.settle(1, note, |upto, notes| {
            told.borrow_mut().push((upto, notes));
            book.settle(2, |_| unreachable!("the outer call collects"), |_, _| unreachable!("and tells"));
        });
        assert_eq!(*told.borrow(), [(1, vec![10]), (2, vec![20])]);
        book.settle(1, |_| unreachable!("it has been passed"), |_, _| unreachable!("and told"));
    }

    #[test]
    fn sleepers_wake() {
        let (book, mut head) = Book::<()>::new();
        thread::scope(|s| {
            for point in [1, 500, 1000] {
                let book = &book;
                s.spawn(move || book.blocking_wait(point));
            }
            for point in 1..=1000 {
                if point % 300 == 0 {
                    thread::sleep(std::time::Duration::from_millis(1));
                }
                head.advance(point, |_, _| ());
            }
        });
        assert_eq!(book.passed(), 1000);
    }
}
