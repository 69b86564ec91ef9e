//! Decision 15: who is said to wait for whom.

use super::*;
use windlass_engine::Held;

fn held(by: Option<NodeId>, first: NodeId, count: usize) -> Held {
    Held { by, first, count }
}

#[test]
fn decision_15_a_transfer_stands_for_those_behind_it() {
    let mut s = Script::new();
    let gpu = s.device(1, 64);
    let b = s.data(64);
    let guard = s.guard("guard", b, line(0..64), Mode::ReadWrite);
    let first = s.group("first").on(gpu).reads(b).submit();
    s.group("second").on(gpu).reads(b).submit();
    assert_eq!(s.moved().len(), 1);
    assert_eq!(s.engine.held_for(0), [held(Some(guard), first, 2)]);
    assert_eq!(s.engine.deadlocked().len(), 2, "and neither of them is a transfer");
    s.finish(guard);
    s.run_to_the_end();
    s.assert_empty();
}

#[test]
fn decision_15_so_do_both_halves_of_a_way_through_staging() {
    let mut s = Script::new();
    let (dev1, dev2) = (s.device(1, 64), s.device(1, 64));
    let b = s.buffer(64);
    let writer = s.group("writer").on(dev1).writes(b).gates(1).submit();
    let reader = s.group("reader").on(dev2).reads(b).submit();
    assert_eq!(s.engine.held_for(0), [held(None, writer, 1)], "everybody else is behind that one");
    s.engine.open(writer, &mut s.turn);
    s.absorb();
    let [(download, _), _] = s.moved()[..] else { panic!("down and up") };
    assert_eq!(s.engine.held_for(0), [held(Some(writer), reader, 1)]);
    s.feed_all();
    assert_eq!(s.engine.held_for(0), [held(Some(download), reader, 1)]);
    s.run_to_the_end();
    s.assert_empty();
}

#[test]
fn decision_15_who_waits_behind_readers_waits_for_one_of_them() {
    let mut s = Script::new();
    let gpu = s.device(1, 64);
    let b = s.buffer(64);
    let c = s.buffer(64);
    s.group("fills").on(gpu).writes(b).submit();
    s.run_to_the_end();
    let first = s.group("first").on(gpu).reads(b).submit();
    let second = s.group("second").on(gpu).reads(b).writes(c).gates(1).submit();
    let guard = s.guard("guard", b, line(0..64), Mode::ReadWrite);
    s.feed_all();
    let moved = s.moved();
    assert_eq!(moved.len(), 1);
    let all = s.engine.held_for(0);
    assert!(all.contains(&held(Some(first), guard, 1)), "{all:?}");
    assert!(all.contains(&held(None, second, 1)), "{all:?}");
    let of_guard = all.iter().filter(|held| held.first == guard && held.by.is_none());
    assert_eq!(of_guard.count(), 0, "{all:?}");
    let writer = s.group("writer").on(gpu).writes(b).submit();
    assert!(s.engine.held_for(0).iter().all(|held| held.first != writer), "it is behind what waits itself");
    s.engine.open(second, &mut s.turn);
    s.absorb();
    s.run_to_the_end();
    s.finish(guard);
    s.run_to_the_end();
    s.assert_empty();
}
