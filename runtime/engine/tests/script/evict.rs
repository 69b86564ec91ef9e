//! Memory that is given up on request, and data that is taken for good after a failure.

use super::*;

#[test]
fn what_is_evicted_is_freed_and_brought_again() {
    let mut s = Script::new();
    let gpu = s.device(1, 64);
    let b = s.data(64);
    assert!(!s.evict(b, gpu), "it is not there");
    s.group("reader").on(gpu).reads(b).submit();
    assert!(!s.evict(b, gpu), "a reader is to use it");
    s.run_to_the_end();
    assert!(s.evict(b, gpu));
    assert_eq!((s.freed, s.engine.memories_with(b).count()), (1, 1));
    assert!(!s.evict(b, gpu), "it has gone");
    s.group("again").on(gpu).reads(b).submit();
    s.run_to_the_end();
    assert_eq!(s.moved_boxes(), [(0, 64), (0, 64)]);
    s.assert_empty();
}

#[test]
fn the_only_copy_is_never_evicted() {
    let mut s = Script::new();
    let gpu = s.device(1, 64);
    let b = s.buffer(64);
    s.group("writer").on(gpu).uses(b, line(16..32), Mode::Overwrite).submit();
    s.run_to_the_end();
    assert!(!s.evict(b, gpu));
    let guard = s.guard("guard", b, line(0..64), Mode::Read);
    assert!(!s.evict(b, gpu), "it is being copied");
    s.feed_all();
    let [(download, _)] = s.moved()[..] else { panic!("one copy") };
    s.pass(download);
    assert!(s.started.contains(&guard));
    assert!(s.evict(b, gpu), "the host has it now");
    s.finish(guard);
    s.run_to_the_end();
    s.assert_empty();
}

#[test]
fn a_guard_behind_readers_waits_for_all_that_use_the_memory() {
    let mut s = Script::new();
    let gpu = s.device(1, 64);
    let b = s.data(64);
    let reader = s.group("reader").on(gpu).reads(b).submit();
    let root = b;
    let work = Job::Named("evicts");
    let plan =
        GuardPlan { root, bounds: line(0..64), mode: Mode::Read, in_heap: true, behind_readers: true, work };
    let guard = s.engine.plan_guard(plan, &mut None, &mut s.turn);
    s.absorb();
    let late = s.group("late").on(gpu).reads(b).submit();
    assert!(s.ordered(reader, guard));
    assert!(!s.ordered(guard, late), "later readers have nothing to wait for");
    s.run_to_the_end();
    s.assert_empty();
}

#[test]
fn poison_that_is_cleared_leaves_what_the_group_left() {
    let mut s = Script::new();
    let (gpu, other) = (s.device(1, 64), s.device(1, 64));
    let b = s.buffer(64);
    let bad = s.group("bad").on(gpu).uses(b, line(0..32), Mode::Overwrite).submit();
    s.feed_all();
    s.fail(bad, "broken");
    s.run_to_the_end();
    let doomed = s.group("doomed").on(gpu).reads(b).submit();
    s.run_to_the_end();
    assert_eq!(s.end(doomed), Some(&Outcome::Doomed("broken")));
    s.engine.clear_poison(b, &line(0..16), &mut s.turn);
    assert!(s.engine.poison(b, &line(0..16)).is_none());
    assert_eq!(s.engine.poison(b, &line(0..32)), Some(&"broken"), "the rest is as it was");
    let well = s.group("well").on(other).uses(b, line(0..16), Mode::Read).submit();
    s.run_to_the_end();
    assert!(s.is_done(well));
    assert_eq!(s.moved_boxes(), [(0, 16)]);
    s.assert_empty();
}

#[test]
fn poison_that_is_cleared_shows_nothing_of_others() {
    // The group never ran, and its memory holds what was another buffer's: that is no data to take for good.
    let mut s = Script::new();
    let domain = s.engine.add_domain();
    let context = s.engine.add_context(domain);
    let traits = MemoryTraits { addressable: false, zeroed: false, ..MemoryTraits::heap() };
    let gpu = s.device_with_memory(context, traits, 1, 64);
    let b = s.buffer(64);
    let bad = s.group("bad").on(gpu).writes(b).gates(1).submit();
    assert_eq!(s.cancel(bad), Cancelled::Skipped);
    s.open(bad);
    s.run_to_the_end();
    assert!(s.engine.poison(b, &line(0..64)).is_some());
    s.engine.clear_poison(b, &line(0..64), &mut s.turn);
    let reader = s.group("reader").on(gpu).reads(b).submit();
    s.run_to_the_end();
    assert!(s.is_done(reader));
    assert_eq!(s.engine.tally().clears, 1);
    s.assert_empty();
}

/// Whoever hears of a group's certain end may clear at once. Seen to fail where only what had settled counted.
#[test]
fn poison_of_a_group_that_has_not_settled_yet_is_cleared_for_good() {
    let mut s = Script::new();
    let (gpu, other) = (s.device(1, 64), s.device(1, 64));
    let (a, b) = (s.buffer(64), s.data(64));
    let first = s.group("first").on(gpu).writes(a).submit();
    let bad = s.group("bad").on(gpu).uses(b, line(0..64), Mode::Write).gates(1).submit();
    let second = s.group("second").on(gpu).reads(a).uses(b, line(0..64), Mode::Write).submit();
    s.feed_all();
    assert_eq!(s.cancel(bad), Cancelled::Skipped);
    assert!(s.engine.poison(b, &line(0..64)).is_some());
    s.engine.clear_poison(b, &line(0..64), &mut s.turn);
    assert!(s.engine.poison(b, &line(0..64)).is_none());
    let reader = s.group("reader").on(other).reads(b).submit();
    assert!(s.ordered(bad, reader) && s.ordered(second, reader), "they may still be running");
    s.open(bad);
    s.run_to_the_end();
    assert!(s.is_done(first) && s.is_done(reader));
    assert!(s.engine.poison(b, &line(0..64)).is_none(), "nor when it settles");
    s.assert_empty();
}

#[test]
fn poison_that_is_cleared_after_a_loss_falls_back_to_what_the_host_has() {
    let mut s = Script::new();
    let gpu = s.device(1, 64);
    let b = s.data(64);
    s.group("writer").on(gpu).uses(b, line(0..64), Mode::ReadWrite).submit();
    s.run_to_the_end();
    s.lose(gpu);
    assert!(s.engine.poison(b, &line(0..64)).is_some());
    s.engine.clear_poison(b, &line(0..64), &mut s.turn);
    let guard = s.guard("guard", b, line(0..64), Mode::Read);
    assert!(s.started.contains(&guard), "nothing has to be moved");
    s.run_to_the_end();
    s.assert_empty();
}

#[test]
fn who_lacks_memory_waits_for_those_who_run() {
    let mut s = Script::new();
    let (gpu, other) = (s.device(1, 64), s.device(1, 64));
    let memory = s.engine.device_memory(gpu);
    assert!(!s.engine.is_busy(memory), "nobody is there");
    let (a, b, c) = (s.data(64), s.data(64), s.data(64));
    let runs = s.group("runs").on(gpu).reads(a).submit();
    assert!(s.engine.is_busy(memory), "it is on its way");
    s.run_to_the_end();
    assert!(s.is_done(runs) && !s.engine.is_busy(memory));
    // It has memory there, and waits for a future of the program's.
    let gated = s.group("gated").on(gpu).reads(a).gates(1).submit();
    assert!(!s.engine.is_busy(memory));
    // It waits for memory that nobody has, and has some itself.
    s.holds_memory = true;
    let lacks = s.group("lacks").on(gpu).reads(a).reads(b).submit();
    s.feed_all();
    let behind = s.group("behind").on(gpu).updates(a).depends_on(lacks).submit();
    assert!(!s.engine.is_busy(memory), "each of them would wait for the others");
    // What waits for a group that runs elsewhere will run.
    let far = s.group("far").on(other).writes(c).submit();
    assert!(!s.engine.is_busy(memory), "it uses another memory");
    s.open(gated);
    assert!(s.engine.is_busy(memory));
    let root = b;
    s.holds_memory = false;
    s.engine.allocated(root, memory, Ok(7), &mut s.turn);
    s.absorb();
    s.run_to_the_end();
    for done in [gated, lacks, behind, far] {
        assert!(s.is_done(done));
    }
    s.assert_empty();
}

#[test]
fn idle_memory_is_listed_as_it_is_to_go() {
    let mut s = Script::new();
    let gpu = s.device(1, 64);
    let memory = s.engine.device_memory(gpu);
    let roots: Vec<RootId> = (0..5).map(|at| if at < 2 { s.data(64) } else { s.buffer(64) }).collect();
    // The first two are in the heap, too; of the others the device has the only copy.
    for at in [0, 1] {
        s.group("reads").on(gpu).reads(roots[at]).submit();
    }
    for at in [2, 3, 4, 2] {
        s.group("writes").on(gpu).updates(roots[at]).submit();
    }
    s.group("reads again").on(gpu).reads(roots[0]).submit();
    s.run_to_the_end();
    let busy = s.group("busy").on(gpu).reads(roots[3]).submit();
    let idle: Vec<(RootId, bool)> =
        s.engine.idle_in(memory).iter().map(|idle| (idle.root, idle.is_clean)).collect();
    assert_eq!(idle, [(roots[1], true), (roots[0], true), (roots[4], false), (roots[2], false)]);
    assert_eq!(s.engine.idle_in(memory)[0].bytes, 64);
    s.run_to_the_end();
    assert!(s.is_done(busy));
    s.assert_empty();
}
