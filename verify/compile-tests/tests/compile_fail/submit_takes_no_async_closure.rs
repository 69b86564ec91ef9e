//! A submission describes work and awaits nothing. Of an `async` closure the compiler knows no argument's type, and says no
//! more than that; told the type, it says what is wrong.
use windlass::prelude::*;

fn submit(queue: &Queue, x: &Buffer<u32>) -> windlass::Result<()> {
    queue.submit(async |cg| cg.fill(&cg.overwrite(x), 1))?;
    queue.submit(async |cg: &CommandGroup<'_>| cg.fill(&cg.overwrite(x), 1))?;
    Ok(())
}

fn main() {}
