//! How a launch is cut into blocks, and who runs them.

use std::time::{Duration, Instant};

use windlass_backend::{BackendError, HostLaunch};
use windlass_kernel::{Block, Range};
use windlass_sync::helpers::Blocks;

use crate::memory::unsupported;

/// Ranges below this are tried before they are shared: how long their items take is not known, and a helper's wake-up may cost
/// more than it would take over.
const TRIED_BELOW: usize = 256 * 1024;
/// No block of a range that is shared untried is smaller.
const BLOCK_ITEMS: usize = 4 * 1024;
/// Blocks for each core: enough that a core that comes late leaves the others little to wait for. With 4 of them a stencil on 16
/// cores took a tenth longer.
const BLOCKS_PER_CORE: usize = 16;

/// What is left after a trial is shared if it would take one thread as long as this: some ten times a helper's wake-up.
const WORTH_HELP: Duration = Duration::from_micros(50);
/// A shorter trial says too little: its first items find neither code nor data in the caches.
const TRIAL: Duration = Duration::from_micros(5);
/// How many times what has been run the next piece of a trial is, as long as the items seem light.
const GROWTH: usize = 8;

/// Pieces of so many items need no look between them: few ranges are so small and so uneven.
const UNSEEN: usize = 4 * 1024;

/// How a range is run.
#[derive(Debug, PartialEq)]
pub(crate) enum Way {
    /// As one block.
    Whole,
    /// By one thread, until it is seen that the rest is worth sharing.
    Tried,
    /// In blocks of so many items.
    Shared(usize),
}

/// How a range is run by this number of cores. See `Host::shares_ranges` for the rule.
pub(crate) fn way(range: &Range, cores: usize) -> Result<Way, BackendError> {
    let Some(items) = range.checked_items() else {
        return Err(unsupported("a range whose item count overflows"));
    };
    let step = match range.local() {
        Some(local) => match local.iter().product::<usize>() {
            0 => return Err(unsupported("empty work-groups")),
            group => group * (items / group).div_ceil(BLOCKS_PER_CORE * cores),
        },
        None if cores > 1 && (2..TRIED_BELOW).contains(&items) => return Ok(Way::Tried),
        None => items.div_ceil(BLOCKS_PER_CORE * cores).max(BLOCK_ITEMS),
    };
    Ok(if cores > 1 && step < items { Way::Shared(step) } else { Way::Whole })
}

/// A launch that falls into several blocks.
pub(crate) struct Cut {
    launch: HostLaunch,
    /// Where the blocks begin: what comes before has been run.
    first: usize,
    items: usize,
    /// Items in a block; not zero.
    step: usize,
}

impl Cut {
    /// Blocks of `step` items, which is not zero.
    pub(crate) fn new(launch: HostLaunch, step: usize) -> Self {
        Cut { first: 0, items: launch.range.items(), launch, step }
    }

    /// What is left of a launch of which the items before `first` have been run.
    pub(crate) fn rest(launch: HostLaunch, first: usize, cores: usize) -> Self {
        let items = launch.range.items();
        let step = (items - first).div_ceil(BLOCKS_PER_CORE * cores).max(1);
        Cut { first, items, launch, step }
    }
}

impl Blocks for Cut {
    fn count(&self) -> usize {
        (self.items - self.first).div_ceil(self.step)
    }

    fn run(&self, block: usize) {
        run_block(&self.launch, self.first + block * self.step, self.step, self.items);
    }
}

/// Runs a launch on this thread, as one block.
pub(crate) fn run_whole(launch: &HostLaunch) {
    let items = launch.range.items();
    if items > 0 {
        run_block(launch, 0, items, items);
    }
}

/// Runs a launch without work-groups on this thread, piece by piece. `Some`: where the rest begins that is worth sharing.
pub(crate) fn run_tried(launch: &HostLaunch, cores: usize) -> Option<usize> {
    let items = launch.range.items();
    let (begin, mut done, mut piece) = (Instant::now(), 0, items.div_ceil(BLOCKS_PER_CORE * cores));
    let mut before = Duration::ZERO;
    loop {
        run_block(launch, done, piece, items);
        done += piece;
        if done >= items {
            return None;
        }
        let taken = begin.elapsed();
        // The others are like the last ones, if they are like any.
        let rest = (taken - before).mul_f64((items - done) as f64 / piece as f64);
        before = taken;
        let is_heavy = rest >= WORTH_HELP;
        if is_heavy && taken >= TRIAL {
            return Some(done);
        }
        // What seems heavy is not let run for long before that is believed, nor so much that what comes late would be seen too late.
        piece = if is_heavy { done } else { (done * GROWTH).min(items.div_ceil(8).max(UNSEEN)) };
    }
}

fn run_block(launch: &HostLaunch, first: usize, step: usize, items: usize) {
    let items = first..items.min(first.saturating_add(step));
    // SAFETY: the runtime keeps the launch's memory until its point is passed, and conflicting groups away from it until
    // then; it was initialised when it was made, the windows were seen to be inside it, and all its users have one word.
    // A launch's blocks lie one behind the other: those of a trial begin where the last one ended, those of a cut at multiples of its
    // step behind where it begins, and each is run once. All have the launch's spans and range.
    let block = unsafe { Block::new(items, launch.range, &launch.spans) };
    // SAFETY: all of the launch's blocks come here, and are run by the launch's code.
    unsafe { launch.code.run(block) };
}

#[cfg(test)]
mod tests {
    use windlass_kernel::{LaunchRange, NdRange};

    use super::*;

    #[test]
    fn ranges_are_cut_by_size_and_by_work_groups() {
        let way = |range: Range, cores| super::way(&range, cores).expect("the range is fine");
        assert_eq!(way(1.range(), 8), Way::Whole);
        assert_eq!(way(2.range(), 8), Way::Tried);
        assert_eq!(way(((1 << 18) - 1).range(), 8), Way::Tried);
        assert_eq!(way((1 << 18).range(), 8), Way::Shared(4_096));
        assert_eq!(way((1 << 20).range(), 8), Way::Shared(1 << 13));
        assert_eq!(way((1 << 20).range(), 1), Way::Whole);
        assert_eq!(way(100.range(), 1), Way::Whole);
        assert_eq!(way(NdRange { global: [8], local: [1] }.range(), 8), Way::Shared(1));
        assert_eq!(way(NdRange { global: [8], local: [8] }.range(), 8), Way::Whole);
        assert_eq!(way(NdRange { global: [1 << 20], local: [256] }.range(), 8), Way::Shared(32 * 256));
        assert_eq!(way(NdRange { global: [300], local: [1] }.range(), 8), Way::Shared(3));
        assert_eq!(way(NdRange { global: [4, 8], local: [1, 4] }.range(), 8), Way::Shared(4));
        assert_eq!(way(NdRange { global: [4, 8], local: [2, 4] }.range(), 8), Way::Shared(8));
        assert_eq!(way(NdRange { global: [4, 4, 8], local: [2, 1, 4] }.range(), 8), Way::Shared(8));
        assert!(super::way(&[usize::MAX, 2].range(), 8).is_err());
        assert!(super::way(&NdRange { global: [8], local: [0] }.range(), 8).is_err());
    }
}
