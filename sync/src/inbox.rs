//! A stack of messages that any thread may push to without a lock, and that is taken as a whole.
//!
//! `head` is the only word: null, or the newest node. A push is a compare-exchange loop that publishes the node with
//! Release; taking swaps the head out with Acquire. Nodes are never unlinked one by one, so there is no ABA: a
//! push that compares equal links to a node that is still there, or to a new one at the same address, which is then
//! the right one to link to.

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
    pub fn take(&self) -> Vec<M> {
        if self.is_empty() {
            return Vec::new();
        }
        // One swap takes all: a message that is pushed at the same time is either among them or starts the next
        // list.
        let mut node = self.head.swap(ptr::null_mut(), Ordering::Acquire);
        let mut messages = Vec::new();
        while !node.is_null() {
            // SAFETY: the swap made this thread the only one that knows these nodes; each came from `Box::into_raw`
            // in `push` and is turned back once, because the loop moves on to the next before it ends.
            let owned = unsafe { Box::from_raw(node) };
            node = owned.next;
            messages.push(owned.message);
        }
        messages.reverse();
        messages
    }
}

impl<M> Drop for Inbox<M> {
    fn drop(&mut self) {
        drop(self.take());
    }
}
