//! Whether a reference is the last one.

use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};

/// Whether nobody else has a reference to a value. Of several that let go at once none need be told that it is the last.
///
/// What the others did with the value before they let go of it has been done for who is told `true`: letting go of a reference releases,
/// and the count is read before the fence, which acquires. Without that, memory that is handed on could still be read, as far as the
/// language knows, by a thread that has dropped its reference long ago.
pub fn is_last<T: ?Sized>(of: &Arc<T>) -> bool {
    let is_last = Arc::strong_count(of) == 1;
    if is_last {
        fence(Ordering::Acquire);
    }
    is_last
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn others_count_and_weak_ones_do_not() {
        let one = Arc::new(5);
        let (other, weak) = (one.clone(), Arc::downgrade(&one));
        assert!(!is_last(&one));
        drop(other);
        assert!(is_last(&one));
        drop(weak);
    }
}
