//! Handles are what they stand for: clones are equal, and keys of maps.

#[path = "common/rig.rs"]
mod rig;

use std::collections::{HashMap, HashSet};
use std::fmt::Debug;
use std::hash::Hash;

use rig::{Rig, wait};
use windlass::image::{Kernel, KernelImage, Slot, SlotAccess};
use windlass::prelude::*;
use windlass::texel::R8Unorm;
use windlass::{Platform, Recording};

/// The same, and found by the same key; and others are neither.
#[track_caller]
fn assert_same<H: Eq + Hash + Clone + Debug>(handle: &H, others: &[H]) {
    let again = handle.clone();
    assert!(handle == &again);
    let mut places: HashMap<H, usize> = HashMap::from([(handle.clone(), 0)]);
    for (place, other) in (1..).zip(others) {
        assert!(handle != other, "{other:?}");
        places.insert(other.clone(), place);
    }
    assert_eq!((places.len(), places.get(&again)), (1 + others.len(), Some(&0)));
    places.insert(again, 7);
    assert_eq!(places.len(), 1 + others.len());
}

fn distinct<H: Eq + Hash>(handles: impl IntoIterator<Item = H>) -> usize {
    handles.into_iter().collect::<HashSet<_>>().len()
}

#[test]
fn buffers_are_the_same_where_they_show_the_same() {
    let x = Buffer::from(vec![7_u32; 8]);
    let (twin, empty) = (Buffer::from(vec![7_u32; 8]), x.range(3..3));
    let parts = [x.range(2..5), x.range(2..6), x.range(3..6), empty.clone(), x.range(4..4), x.range(2..9)];
    assert_same(&x, &[std::slice::from_ref(&twin), &parts[..]].concat());
    assert_same(&twin, &parts);
    // By whatever way one came there.
    assert!(x.range(..) == x && x.range(1..7).range(1..4) == parts[0] && x.range(2..9) == parts[5]);
    assert_eq!(distinct([x.range(2..5), x.range(2..).range(..3), x.clone(), x.range(..8)]), 2);
    // Through another type and back. (As another type it is another type.)
    let back = x.reinterpret::<f32, 1>(8).unwrap().reinterpret::<u32, 1>(8);
    assert!(back.unwrap() == x);
    // Contents do not count, nor does what is done with them.
    let rig = Rig::new();
    wait(rig.queue.submit(|cg| cg.fill(&cg.overwrite(&x), 1)).unwrap()).unwrap();
    assert!(x == x.clone() && x != twin && x.range(2..5) == parts[0]);
}

#[test]
fn grids_are_the_same_where_they_show_the_same() {
    let grid = Buffer::<u32, 2>::new([4, 6]);
    let parts = [
        grid.range((1..3, 2..5)),
        grid.range((1..3, 2..4)),
        grid.range((2..4, 2..5)),
        grid.range((1..2, 2..5)),
    ];
    assert_same(&grid, &parts);
    assert!(grid.range((1..4, 1..6)).range((..2, 1..4)) == parts[0]);
    // One row has no distance to another: it is the same in a grid of other rows.
    let line = grid.reinterpret::<u32, 2>([2, 12]).unwrap();
    assert!(line != grid && line.range((..1, ..6)) == grid.range((..1, ..)));
    assert!(line.range((.., ..6)) != grid.range((..2, ..)));
}

#[test]
fn images_are_the_same_by_their_texels() {
    let image = Image::<R8Unorm>::new([2, 2]).unwrap();
    assert_same(&image, &[Image::new([2, 2]).unwrap()]);
}

#[test]
fn events_of_one_group_are_the_same() {
    let rig = Rig::new();
    let submit = || rig.queue.submit(|_| Ok(())).unwrap();
    let (event, other) = (submit(), submit());
    assert_same(&event, std::slice::from_ref(&other));
    wait(event.clone()).unwrap();
    assert_same(&event, &[other, submit()]);
}

#[test]
fn runtimes_and_their_platforms_are_what_they_are() {
    let runtimes = [Runtime::new(), Runtime::new()];
    assert_same(&runtimes[0], &runtimes[1..]);
    let platforms: [Platform; 2] = [0, 1].map(|at| runtimes[at].host().unwrap().platform());
    assert_same(&platforms[0], &platforms[1..]);
    assert!(platforms[0] == runtimes[0].host().unwrap().platform());
    assert_same(&runtimes[0].host().unwrap(), &[runtimes[1].host().unwrap()]);
}

#[test]
fn kernels_and_recordings_are_the_same_by_identity() {
    let kernel = || {
        let image = KernelImage::host(std::sync::Arc::new(|_: windlass::image::Block<'_>| {}));
        Kernel::new("nothing", [Slot::Buffer(SlotAccess::ReadWrite)], [image])
    };
    assert_same(&kernel(), &[kernel(), kernel()]);
    let (rig, x) = (Rig::new(), Buffer::<u32>::new(4));
    let record = || -> Recording { rig.queue.record(|cg| cg.fill(&cg.overwrite(&x), 1)).unwrap() };
    assert_same(&record(), &[record()]);
}
