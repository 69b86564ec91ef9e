//! A buffer in memory that a value of the program's owns, here at the start of a page, with no copy on the host; and what an answer is made
//! of: data that is brought to the host ahead, and bytes of their own. `cargo run --release --example own_memory`
//!
//! With a mapped file or memory that is shared with another process it is the same: a value that lends its elements.

use windlass::Result;
use windlass::prelude::*;

const LEN: usize = 10_000;
const PAGE: usize = 4096;

/// Elements that begin at a page.
struct Pages {
    all: Vec<f32>,
    first: usize,
}

impl Pages {
    fn new() -> Self {
        let all = vec![0.0; LEN + PAGE / 4];
        let first = all.as_ptr().align_offset(PAGE);
        Pages { all, first }
    }
}

impl AsMut<[f32]> for Pages {
    fn as_mut(&mut self) -> &mut [f32] {
        &mut self.all[self.first..][..LEN]
    }
}

#[windlass::kernels]
mod kernels {
    /// How far each sample is from the one before it.
    #[kernel]
    pub(super) fn steps(samples: &[f32], steps: &mut [f32]) {
        let i = global_id(0);
        steps[i] = if i == 0 { 0.0 } else { samples[i] - samples[i - 1] };
    }

    #[kernel]
    pub(super) fn squares(steps: &mut [f32], samples: &mut [f32]) {
        let i = global_id(0);
        steps[i] = steps[i] * steps[i];
        samples[i] = steps[i];
    }
}

#[tokio::main]
async fn main() -> Result<()> {
    let queue = Queue::new().await?;
    let mut pages = Pages::new();
    for (sample, i) in pages.as_mut().iter_mut().zip(0..LEN as u16) {
        *sample = 3.0 * f32::from(i);
    }
    let address = pages.as_mut().as_ptr();
    let samples = Buffer::from_owner(pages);

    // Between two kernels of one group, nobody wants what was in `steps` before, nor what is left there.
    let steps = Buffer::<f32>::new(LEN);
    queue.submit(|cg| {
        let steps = cg.read_write_uninit(&steps);
        cg.parallel_for(LEN, kernels::steps(cg.read(&samples), &steps))?;
        cg.parallel_for(LEN, kernels::squares(&steps, cg.read_write(&samples)))
    })?;

    // It comes to the host while the program does something else, and a reader finds it there.
    queue.submit(|cg| cg.update_host(&cg.read(&samples)))?.await?;
    let moved = queue.runtime().stats().transfers;
    let seen = samples.host_read().await?;
    assert_eq!(queue.runtime().stats().transfers, moved, "it was there");
    assert!(seen.as_ptr() == address, "the host's copy is the program's own memory");
    assert!(seen[0] == 0.0 && seen[1..].iter().all(|square| *square == 9.0));

    // The answer's bytes are its own, so the buffer can be written while they are sent.
    let answer = seen.copy_to_bytes();
    drop(seen);
    queue.submit(|cg| cg.fill(&cg.overwrite(&samples), 0.0))?.await?;
    assert_eq!(answer[4..8], 9.0_f32.to_ne_bytes());
    println!("{} bytes of answer, on {}", answer.len(), queue.device());
    Ok(())
}
