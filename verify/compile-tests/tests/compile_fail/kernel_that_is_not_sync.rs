//! A kernel runs on several threads.
use std::cell::Cell;
use std::rc::Rc;

use windlass::prelude::*;

fn main() -> windlass::Result<()> {
    let queue = Queue::blocking_new()?;
    let count = Rc::new(Cell::new(0));
    queue.submit(|cg| cg.host_for(8, (), move |_, ()| count.set(1)))?;
    Ok(())
}
