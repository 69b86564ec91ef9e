//! The fewest boxes that move a set of elements, each box from one source, by trying everything.

use super::account::Set;
use super::program::Root;

/// `sources` holds a set of sources for each element that is to be moved, and nothing for the others.
pub(super) fn fewest(root: &Root, sources: &[Set]) -> usize {
    if root.dims[0] == 1 && root.dims[1] == 1 {
        return on_a_line(sources);
    }
    let open = sources.iter().enumerate().filter(|(_, s)| **s != 0).fold(0u32, |set, (e, _)| set | 1 << e);
    let mut best = open.count_ones() as usize;
    descend(root, sources, open, 0, &mut best);
    best
}

/// The fewest for each prefix of the line, one element after the other.
fn on_a_line(sources: &[Set]) -> usize {
    let mut fewest = vec![0; sources.len() + 1];
    for end in 1..=sources.len() {
        if sources[end - 1] == 0 {
            fewest[end] = fewest[end - 1];
            continue;
        }
        let (mut common, mut best) = (Set::MAX, usize::MAX);
        for from in (0..end).rev() {
            common &= sources[from];
            if common == 0 {
                break;
            }
            best = best.min(fewest[from] + 1);
        }
        fewest[end] = best;
    }
    fewest[sources.len()]
}

fn descend(root: &Root, sources: &[Set], open: u32, taken: usize, best: &mut usize) {
    if open == 0 {
        *best = (*best).min(taken);
        return;
    }
    if taken + 1 >= *best {
        return;
    }
    let first = open.trailing_zeros() as usize;
    let lo =
        [first / (root.dims[1] * root.dims[2]), first / root.dims[2] % root.dims[1], first % root.dims[2]];
    for z in (lo[0] + 1..=root.dims[0]).rev() {
        for y in (lo[1] + 1..=root.dims[1]).rev() {
            for x in (lo[2] + 1..=root.dims[2]).rev() {
                let bounds = windlass_engine::Box3 { lo, hi: [z, y, x] };
                let (mut set, mut common, mut whole) = (0u32, Set::MAX, true);
                for e in root.elements(&bounds) {
                    whole &= open & 1 << e != 0;
                    set |= 1 << e;
                    common &= sources[e];
                }
                if whole && common != 0 {
                    descend(root, sources, open & !set, taken + 1, best);
                }
            }
        }
    }
}
