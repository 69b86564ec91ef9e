//! A block's part of the data is lent for one call.
use std::sync::Mutex;

use windlass::prelude::*;

static KEPT: Mutex<Option<&'static mut [u32]>> = Mutex::new(None);

fn main() -> windlass::Result<()> {
    let queue = Queue::blocking_new()?;
    let x = Buffer::<u32>::new(8);
    queue.submit(|cg| cg.host_chunks(8, cg.read_write(&x), |_, x| *KEPT.lock().unwrap() = Some(x)))?;
    Ok(())
}
