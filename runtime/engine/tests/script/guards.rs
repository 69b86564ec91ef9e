//! Host accessors: guards conflict by region, on every allocation.

use super::*;

#[test]
fn decision_17_a_read_guard_holds_back_writers_only() {
    let mut s = Script::new();
    let (dev1, dev2) = (s.device(1, 64), s.device(1, 64));
    let b = s.data(64);
    let guard = s.guard("guard", b, line(0..32), Mode::Read);
    assert_eq!(s.started, [guard]);
    let reader = s.group("reader").on(dev1).reads(b).submit();
    let elsewhere = s.group("elsewhere").on(dev2).uses(b, line(0..64), Mode::Overwrite).submit();
    let beside = s.group("beside").on(dev1).uses(b, line(32..48), Mode::Overwrite).submit();
    assert!(s.ordered(guard, elsewhere), "also a write that wants nothing of what the guard sees");
    assert!(!s.ordered(guard, reader) && !s.ordered(guard, beside));
    let fed = s.fed_nodes();
    assert!(fed.contains(&reader) && fed.contains(&beside) && !fed.contains(&elsewhere));
    s.finish(guard);
    assert_eq!(s.fed_nodes(), [elsewhere]);
    s.run_to_the_end();
    s.assert_empty();
}

#[test]
fn decision_17_a_write_guard_holds_back_everybody() {
    let mut s = Script::new();
    let (dev1, dev2) = (s.device(1, 64), s.device(1, 64));
    let b = s.data(64);
    let guard = s.guard("guard", b, line(0..32), Mode::ReadWrite);
    let reader = s.group("reader").on(dev1).uses(b, line(0..8), Mode::Read).submit();
    let writer = s.group("writer").on(dev2).uses(b, line(8..16), Mode::Overwrite).submit();
    let second = s.guard("second", b, line(16..24), Mode::Read);
    let beside = s.group("beside").on(dev2).uses(b, line(32..64), Mode::Overwrite).submit();
    for behind in [reader, writer, second] {
        assert!(s.ordered(guard, behind));
    }
    assert_eq!(s.fed_nodes(), [beside]);
    assert_eq!(s.started, [guard]);
    s.finish(guard);
    s.run_to_the_end();
    s.assert_empty();
}

#[test]
fn decision_17_a_guard_waits_for_those_before_it_on_every_allocation() {
    let mut s = Script::new();
    let (dev1, dev2) = (s.device(1, 64), s.device(1, 64));
    let b = s.buffer(64);
    let first = s.group("first").on(dev1).writes(b).submit();
    let second = s.group("second").on(dev2).writes(b).submit();
    let reader = s.group("reader").on(dev2).reads(b).submit();
    let guard = s.guard("guard", b, line(0..64), Mode::Read);
    assert!(s.ordered(first, guard) && s.ordered(second, guard));
    assert!(!s.ordered(reader, guard));
    let overwrites = s.guard("overwrites", b, line(0..64), Mode::Overwrite);
    assert!(s.ordered(reader, overwrites) && s.ordered(guard, overwrites));
    s.run_to_the_end();
    s.assert_empty();
}

#[test]
fn decision_17_a_read_guard_does_not_wait_for_copies_to_devices() {
    // A slow device must not keep the host from data that is current in the heap.
    let mut s = Script::new();
    let gpu = s.device(1, 64);
    let b = s.data(64);
    let reader = s.group("reader").on(gpu).reads(b).submit();
    let [(upload, _)] = s.moved()[..] else { panic!("one copy") };
    let guard = s.guard("guard", b, line(0..64), Mode::Read);
    assert!(!s.ordered(upload, guard) && !s.ordered(reader, guard));
    assert_eq!(s.started, [guard]);
    s.run_to_the_end();
    s.assert_empty();
}

#[test]
fn a_guard_on_failed_data_never_starts() {
    let mut s = Script::new();
    let gpu = s.device(1, 64);
    let b = s.buffer(64);
    let writer = s.group("writer").on(gpu).writes(b).submit();
    let early = s.guard("early", b, line(0..64), Mode::Read);
    s.feed_all();
    s.fail(writer, "broken");
    let late = s.guard("late", b, line(0..64), Mode::ReadWrite);
    s.run_to_the_end();
    assert_eq!(s.end(early), Some(&Outcome::Doomed("broken")));
    assert_eq!(s.end(late), Some(&Outcome::Doomed("broken")));
    s.assert_empty();
}

#[test]
fn a_guard_of_nothing_does_not_share_a_failure() {
    let mut s = Script::new();
    let gpu = s.device(1, 64);
    let b = s.buffer(64);
    let writer = s.group("writer").on(gpu).writes(b).submit();
    s.feed_all();
    s.fail(writer, "broken");
    let guard = s.guard("guard", b, line(8..8), Mode::Read);
    s.run_to_the_end();
    assert!(s.is_done(guard), "it reads no byte of what failed");
    s.assert_empty();
}

#[test]
fn decision_17_a_guard_that_never_had_its_memory_wrote_nothing() {
    let mut s = Script::new();
    let (dev1, dev2) = (s.device(1, 64), s.device(1, 64));
    let b = s.buffer(64);
    let bad = s.group("bad").on(dev1).uses(b, line(0..32), Mode::Overwrite).submit();
    let good = s.group("good").on(dev1).uses(b, line(32..64), Mode::Overwrite).submit();
    let guard = s.guard("guard", b, line(0..64), Mode::ReadWrite);
    let of_bad = s.group("of bad").on(dev2).uses(b, line(0..8), Mode::Read).submit();
    let of_good = s.group("of good").on(dev2).uses(b, line(32..40), Mode::Read).submit();
    s.feed_all();
    s.fail(bad, "broken");
    s.run_to_the_end();
    let late = s.group("late").on(dev1).uses(b, line(32..64), Mode::Read).submit();
    let again = s.guard("again", b, line(0..64), Mode::ReadWrite);
    let heal = s.group("heal").on(dev1).uses(b, line(0..32), Mode::Overwrite).submit();
    let whole = s.guard("whole", b, line(0..64), Mode::Read);
    s.run_to_the_end();
    for doomed in [guard, of_bad, again] {
        assert_eq!(s.end(doomed), Some(&Outcome::Doomed("broken")));
    }
    for (well, name) in
        [(good, "good"), (of_good, "of good"), (late, "late"), (heal, "heal"), (whole, "whole")]
    {
        assert_eq!(s.end(well), Some(&Outcome::Done), "{name}");
    }
    s.assert_empty();
}

#[test]
fn decision_17_a_guard_that_is_let_go_of_leaves_copies_elsewhere_current() {
    let mut s = Script::new();
    let (dev1, dev2) = (s.device(1, 64), s.device(1, 64));
    let b = s.buffer(64);
    let writer = s.group("writer").on(dev1).writes(b).submit();
    let guards = ["first", "second", "third"].map(|name| s.guard(name, b, line(0..64), Mode::ReadWrite));
    assert_eq!(s.moved().len(), 1, "one copy for all of them");
    for guard in guards {
        assert_eq!(s.cancel(guard), Cancelled::Skipped);
    }
    let reader = s.group("reader").on(dev1).reads(b).submit();
    assert_eq!(s.moved().len(), 0, "what was current there is so still");
    let other = s.group("other").on(dev2).reads(b).submit();
    s.run_to_the_end();
    for well in [writer, reader, other] {
        assert_eq!(s.end(well), Some(&Outcome::Done));
    }
    s.assert_empty();
}

#[test]
fn decision_17_guards_that_are_let_go_of_while_another_is_held_cost_the_same_each() {
    let links = |count: usize, mode: Mode| {
        let mut s = Script::new();
        let gpu = s.device(1, 64);
        let b = s.data(64);
        let held = s.guard("held", b, line(0..64), Mode::ReadWrite);
        let visited = s.engine.tally().nodes_visited;
        for _ in 0..count {
            let asks = s.guard("asks", b, line(0..64), mode);
            assert_eq!(s.cancel(asks), Cancelled::Skipped);
        }
        let cost = (s.engine.live_links(), s.engine.tally().nodes_visited - visited);
        let late = s.guard("late", b, line(0..64), Mode::Read);
        let writer = s.group("writer").on(gpu).writes(b).submit();
        assert!(s.ordered(held, late) && s.ordered(late, writer) && s.ordered(held, writer));
        assert!(s.fed_nodes().is_empty() && s.started == [held]);
        s.finish(held);
        s.run_to_the_end();
        assert!(s.is_done(late) && s.is_done(writer));
        s.assert_empty();
        cost
    };
    for mode in [Mode::Read, Mode::ReadWrite] {
        let (few, many) = (links(100, mode), links(200, mode));
        assert!(many.0 <= 2 * few.0 + 8 && many.1 <= 2 * few.1 + 8, "{mode:?}: {few:?} become {many:?}");
    }
}

/// What is current in a device's memory that the host reaches is used there, and written there, and nothing is moved; a reader has it in
/// the heap where it is there, too, and so has whoever asks for that.
#[test]
fn decision_22_a_guard_has_its_data_where_the_host_reaches_it() {
    let mut s = Script::new();
    let (cpu, gpu) = (s.device_shown(1, 64), s.device(1, 64));
    let b = s.data(64);
    let on_cpu = s.engine.device_memory(cpu);
    let memory = |s: &Script, guard: NodeId| s.engine.uses(guard)[0].memory;
    let early = s.guard("early", b, line(0..64), Mode::Read);
    assert_eq!(memory(&s, early), HEAP, "nobody has it elsewhere");
    s.finish(early);
    s.group("first").on(cpu).reads(b).submit();
    assert_eq!(s.moved().len(), 1);
    let both = s.guard("both", b, line(0..64), Mode::Read);
    assert_eq!(memory(&s, both), HEAP);
    s.finish(both);
    s.group("part").on(cpu).uses(b, line(0..32), Mode::ReadWrite).submit();
    let part = s.guard("part", b, line(0..16), Mode::Read);
    let whole = s.guard("whole", b, line(0..64), Mode::ReadWrite);
    let behind = s.group("behind").on(cpu).reads(b).submit();
    assert_eq!((memory(&s, part), memory(&s, whole)), (on_cpu, on_cpu));
    assert!(s.ordered(whole, behind));
    assert_eq!(s.moved(), []);
    s.run_to_the_end();
    let on_gpu = s.group("gpu").on(gpu).uses(b, line(0..16), Mode::Overwrite).submit();
    let mixed = s.guard("mixed", b, line(0..64), Mode::Read);
    assert_eq!(memory(&s, mixed), HEAP, "half of it is out of reach");
    assert!(s.ordered(on_gpu, mixed));
    s.run_to_the_end();
    s.group("gpu again").on(gpu).uses(b, line(0..16), Mode::Overwrite).submit();
    let away = s.guard("away", b, line(0..16), Mode::Read);
    assert_eq!(memory(&s, away), HEAP, "the host does not reach it");
    s.run_to_the_end();
    s.group("again").on(cpu).writes(b).submit();
    s.moved();
    let work = Job::Named("taken");
    let plan = GuardPlan {
        root: b,
        bounds: line(0..64),
        mode: Mode::ReadWrite,
        in_heap: true,
        behind_readers: false,
        work,
    };
    let taken = s.engine.plan_guard(plan, &mut None, &mut s.turn);
    s.absorb();
    assert_eq!((memory(&s, taken), s.moved().len()), (HEAP, 1));
    s.run_to_the_end();
    s.assert_empty();
}
