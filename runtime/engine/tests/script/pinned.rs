//! Host memory that a driver has pinned: what is cleared in it, and that nobody sees what another root had there.

use super::*;

/// A device whose copies to other memory block, and its memory.
fn pinning_device(s: &mut Script) -> (DeviceId, MemoryId) {
    s.engine.set_staging_chunk(1 << 20);
    s.engine.set_pinned_most(1 << 20);
    let domain = s.engine.add_domain();
    let context = s.engine.add_context(domain);
    let traits = MemoryTraits { addressable: false, download_limit: 0, ..MemoryTraits::heap() };
    let memory = s.engine.add_memory(context, traits);
    let gpu = s.engine.add_device(context, memory);
    let lane = s.engine.add_lane(gpu, Depth { commands: 64, reports: 64 });
    s.devices.insert(gpu, (context, vec![lane]));
    (gpu, memory)
}

#[test]
fn pinned_memory_is_cleared_where_nothing_comes() {
    let mut s = Script::new();
    let (gpu, by) = pinning_device(&mut s);
    let (a, b, c) = (s.buffer(16), s.buffer(16), s.buffer(16));
    s.group("writes all").on(gpu).uses(a, line(0..16), Mode::Overwrite).submit();
    s.guard("reads all", a, line(0..16), Mode::Read);
    s.group("writes some").on(gpu).uses(b, line(4..12), Mode::Overwrite).submit();
    s.guard("reads all", b, line(0..16), Mode::Read);
    // Two groups that may fail apart, so two copies.
    s.group("one").on(gpu).uses(c, line(0..4), Mode::Overwrite).submit();
    s.group("two").on(gpu).uses(c, line(4..8), Mode::Overwrite).submit();
    s.guard("reads some", c, line(0..8), Mode::Read);
    let pinning = |clear: &[Box3]| Pinning { by, clear: clear.to_vec() };
    assert_eq!(s.pinnings, [pinning(&[]), pinning(&[line(0..4), line(12..16)]), pinning(&[line(8..16)])]);
    assert_eq!(s.engine.tally().bytes_cleared, 16);
    s.run_to_the_end();
    s.assert_empty();
}

/// A root whose copy to pinned memory has failed, and that nobody uses.
fn with_a_failed_copy(s: &mut Script) -> RootId {
    let (gpu, _) = pinning_device(s);
    let a = s.buffer(16);
    s.group("writes").on(gpu).uses(a, line(0..16), Mode::Overwrite).submit();
    let guard = s.guard("reads", a, line(0..16), Mode::Read);
    let copy = s.moved()[0].0;
    s.feed_all();
    s.fail(copy, "broken");
    s.run_to_the_end();
    assert!(!s.started.contains(&guard));
    s.started.clear();
    a
}

#[test]
fn an_accessor_that_overwrites_never_shows_what_another_root_had() {
    let mut s = Script::new();
    let a = with_a_failed_copy(&mut s);
    let (freed, mut spare) = (s.freed, Some(7));
    let whole = s.guard_with("overwrites", a, line(0..16), Mode::Overwrite, &mut spare);
    assert_eq!((s.started.as_slice(), spare, s.freed), (&[whole][..], None, freed + 1));
    assert_eq!(s.engine.allocation(a, HEAP), Some(&7));
    s.finish(whole);
    let again = s.guard_with("overwrites again", a, line(0..8), Mode::Overwrite, &mut Some(8));
    assert_eq!(s.started.last(), Some(&again), "the memory is its own now");
    s.run_to_the_end();
    s.assert_empty();
}

#[test]
fn an_accessor_of_a_part_has_the_rest_copied_first() {
    let mut s = Script::new();
    let a = with_a_failed_copy(&mut s);
    let mut spare = Some(7);
    let part = s.guard_with("overwrites", a, line(0..8), Mode::Overwrite, &mut spare);
    assert_eq!((s.started.as_slice(), spare), (&[][..], Some(7)));
    assert_eq!(s.moved_boxes(), [(0, 8)]);
    s.run_to_the_end();
    assert!(s.is_done(part));
    s.assert_empty();
}
