//! Host memory that the runtime makes for buffers, from an allocator of the program's: here a pool with a bound, in whole pages.
//! `cargo run --release --example host_allocator`
//!
//! With huge pages, memory that is locked or memory near some processors it is the same: a closure that gives a value which owns bytes.

use std::alloc::Layout;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use windlass::prelude::*;
use windlass::{HostAllocator, Result};

const PAGE: usize = 4096;
const MIB: usize = 1 << 20;

/// What the program gives its buffers on the host, at most.
struct Pool {
    /// Bytes that are left.
    left: Mutex<usize>,
}

/// Some pages of the pool, which go back to it at their end.
struct Pages {
    bytes: Vec<u8>,
    size: usize,
    pool: Arc<Pool>,
}

impl Pool {
    fn give(self: &Arc<Self>, asked: Layout) -> Option<Pages> {
        let mut left = self.left.lock().ok()?;
        *left = left.checked_sub(asked.size())?;
        Some(Pages { bytes: vec![0; asked.size() + PAGE], size: asked.size(), pool: self.clone() })
    }

    fn left(&self) -> usize {
        self.left.lock().map_or(0, |left| *left)
    }
}

impl AsMut<[u8]> for Pages {
    fn as_mut(&mut self) -> &mut [u8] {
        let ahead = self.bytes.as_ptr().align_offset(PAGE);
        &mut self.bytes[ahead..][..self.size]
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        if let Ok(mut left) = self.pool.left.lock() {
            *left += self.size;
        }
    }
}

#[tokio::main]
async fn main() -> Result<()> {
    let pool = Arc::new(Pool { left: Mutex::new(8 * MIB) });
    let of = pool.clone();
    // Fresh vectors of zeros: the runtime need not clear them again.
    let allocator = HostAllocator::new("the pool", move |asked| of.give(asked)).from_bytes(MIB).zeroed();
    let runtime = Runtime::builder().host_allocator(allocator).build();
    let queue = Queue::on(runtime.host()?).await?;

    // What is large comes from the pool, and what is small does not.
    let (large, small) = (Buffer::<u32>::new(MIB), Buffer::<u32>::new(100));
    queue.submit(|cg| cg.fill(&cg.overwrite(&large), 1))?;
    queue.submit(|cg| cg.fill(&cg.overwrite(&small), 2))?;
    let seen = large.host_read().await?;
    assert!(seen.as_ptr().addr().is_multiple_of(PAGE) && seen[MIB - 1] == 1);
    assert_eq!((small.host_read().await?[0], pool.left()), (2, 4 * MIB));
    drop(seen);

    // A second one fits, and a third does not. Its group fails, and nothing else does.
    let (second, third) = (Buffer::<u32>::new(MIB), Buffer::<u32>::new(MIB));
    queue.submit(|cg| cg.copy(&cg.read(&large), &cg.overwrite(&second)))?.await?;
    let refused = queue.submit(|cg| cg.copy(&cg.read(&large), &cg.overwrite(&third)))?.await;
    match refused {
        Err(error) if error.is_out_of_memory() => println!("refused: {error}"),
        other => panic!("the pool has no room for a third: {other:?}"),
    }
    // Once a buffer is gone, there is room again: what it had serves the next.
    drop(second);
    while let Err(error) = queue.submit(|cg| cg.copy(&cg.read(&large), &cg.overwrite(&third)))?.await {
        assert!(error.is_out_of_memory(), "{error}");
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    assert_eq!(third.host_read().await?[0], 1);

    // The pool has everything back when the runtime is gone.
    drop((large, small, third, queue, runtime));
    while pool.left() < 8 * MIB {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    println!("everything is back in the pool");
    Ok(())
}
