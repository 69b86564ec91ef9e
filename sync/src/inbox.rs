//! A stack of messages that any thread may push to without a lock, and that is taken as a whole.
//!
//! `head` is the only word: null, or the newest node. A push is a compare-exchange loop that publishes the node with
//! Release; taking swaps the head out with Acquire. Nodes are never unlinked one by one, so there is no ABA: a
//! push that compares equal links to a node that is still there, or to a new one at the same address, which is then
//! the right one to link to.

use std::marker::PhantomData;
use std::ptr;

use crate::facade::{AtomicPtr, Ordering};

/// See the module documentation.
#[derive(Debug)]
pub struct Inbox<M> {
    head: AtomicPtr<Node<M>>,
}

#[derive(Debug)]
struct Node<M> {
    message: M,
    next: *mut Node<M>,
}

// SAFETY: the inbox owns its nodes and hands each message to exactly one thread, so `M: Send` is all it takes.
unsafe impl<M: Send> Send for Inbox<M> {}
// SAFETY: sharing the inbox only lets threads push messages in and take them out, each by one thread.
unsafe impl<M: Send> Sync for Inbox<M> {}

impl<M> Default for Inbox<M> {
    fn default() -> Self {
        Inbox { head: AtomicPtr::new(ptr::null_mut()) }
    }
}

impl<M> Inbox<M> {
    /// Adds a message. Never blocks.
    pub fn push(&self, message: M) {
        let node = Box::into_raw(Box::new(Node { message, next: ptr::null_mut() }));
        let mut head = self.head.load(Ordering::Relaxed);
        loop {
            // SAFETY: the node was just allocated and no other thread knows it until the exchange below succeeds.
            unsafe { (*node).next = head };
            // Release: the taker sees the message and `next`. It reads the nodes below this one as well, which
            // others pushed; each push is a read-modify-write, so they are all in the release sequence that it
            // acquires. Relaxed on failure: the head seen is only linked to, not followed.
            match self.head.compare_exchange_weak(head, node, Ordering::Release, Ordering::Relaxed) {
                Ok(_) => return,
                Err(now) => head = now,
            }
        }
    }

    /// Whether there is nothing to take.
    pub fn is_empty(&self) -> bool {
        self.head.load(Ordering::Acquire).is_null()
    }

    /// Takes everything, oldest first.
    pub fn take(&self) -> Messages<M> {
        if self.is_empty() {
            return Messages { first: ptr::null_mut(), marker: PhantomData };
        }
        // One swap takes all: a message that is pushed at the same time is either among them or starts the next
        // list.
        let mut newest = self.head.swap(ptr::null_mut(), Ordering::Acquire);
        let mut first = ptr::null_mut();
        while !newest.is_null() {
            // SAFETY: the swap made this thread the only one that knows these nodes, which are alive until `Messages` has
            // them; each is turned round once, because the loop moves on to the one below.
            let below = unsafe { std::mem::replace(&mut (*newest).next, first) };
            first = std::mem::replace(&mut newest, below);
        }
        Messages { first, marker: PhantomData }
    }
}

/// What was in an inbox, oldest first.
#[derive(Debug)]
pub struct Messages<M> {
    /// Null, or the oldest of a chain of nodes that nothing else leads to.
    first: *mut Node<M>,
    marker: PhantomData<M>,
}

impl<M> Iterator for Messages<M> {
    type Item = M;

    fn next(&mut self) -> Option<M> {
        if self.first.is_null() {
            return None;
        }
        // SAFETY: the chain is this value's alone; the node came from `Box::into_raw` in `push` and is turned back once,
        // because the chain begins with the next one from here on.
        let owned = unsafe { Box::from_raw(self.first) };
        self.first = owned.next;
        Some(owned.message)
    }
}

impl<M> Drop for Messages<M> {
    fn drop(&mut self) {
        self.for_each(drop);
    }
}

impl<M> Drop for Inbox<M> {
    fn drop(&mut self) {
        drop(self.take());
    }
}
