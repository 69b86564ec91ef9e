//! How groups end: cancellation, verdicts, memory that is not to be had, lost contexts.

use super::*;

#[test]
fn decision_8_a_cancelled_group_wrote_nothing_and_takes_its_readers_down() {
    let mut s = Script::new();
    let gpu = s.device(1, 64);
    let b = s.buffer(64);
    let writer = s.group("writer").on(gpu).writes(b).gates(1).submit();
    let reader = s.group("reader").on(gpu).reads(b).submit();
    let task = s.group("task").reads(b).submit();
    assert_eq!(s.cancel(writer), Cancelled::Skipped);
    assert_eq!(s.cancel(writer), Cancelled::Done);
    s.open(writer);
    let fed = s.feed_all();
    assert!(fed.iter().all(|g| !g.live), "it keeps its place, and runs nothing there");
    s.run_to_the_end();
    assert_eq!(s.end(writer), Some(&Outcome::Cancelled("cancelled")));
    assert_eq!(s.end(reader), Some(&Outcome::Doomed("cancelled")));
    assert_eq!(s.end(task), Some(&Outcome::Doomed("cancelled")));
    assert!(s.started.is_empty(), "the host task never runs");
    s.assert_empty();
}

#[test]
fn decision_8_keep_previous_leaves_what_was_there_before() {
    // One client that hangs up must not brick a shared buffer.
    let mut s = Script::new();
    let (dev1, dev2) = (s.device(1, 64), s.device(1, 64));
    let b = s.buffer(64);
    let first = s.group("first").on(dev1).writes(b).submit();
    let client = s.group("client").on(dev2).writes(b).keep_previous().submit();
    assert_eq!(s.moved_boxes(), [(0, 64)], "what was there before is at hand where it would have written");
    let reader = s.group("reader").on(dev2).reads(b).submit();
    let asks = s.group("asks").on(dev2).depends_on(client).submit();
    assert_eq!(s.cancel(client), Cancelled::Skipped);
    s.run_to_the_end();
    assert!(s.is_done(first) && s.is_done(reader));
    assert_eq!(s.end(client), Some(&Outcome::Cancelled("cancelled")));
    assert_eq!(s.end(asks), Some(&Outcome::Doomed("cancelled")), "its event was an error all the same");
    s.assert_empty();
}

#[test]
fn decision_8_keep_previous_keeps_a_failure_too() {
    let mut s = Script::new();
    let gpu = s.device(1, 1);
    let b = s.buffer(64);
    let first = s.group("first").on(gpu).writes(b).submit();
    let client = s.group("client").on(gpu).writes(b).keep_previous().submit();
    let reader = s.group("reader").on(gpu).reads(b).submit();
    s.feed_all();
    assert_eq!(s.cancel(client), Cancelled::Skipped);
    s.fail(first, "broken");
    s.run_to_the_end();
    assert_eq!(s.end(client), Some(&Outcome::Cancelled("cancelled")));
    assert_eq!(s.end(reader), Some(&Outcome::Doomed("broken")));
    let late = s.group("late").on(gpu).reads(b).submit();
    s.run_to_the_end();
    assert_eq!(s.end(late), Some(&Outcome::Doomed("broken")));
    s.assert_empty();
}

#[test]
fn decision_8_a_transfer_outlives_the_group_that_asked_for_it() {
    let mut s = Script::new();
    let gpu = s.device(1, 1);
    let (a, b) = (s.buffer(64), s.data(64));
    let busy = s.group("busy").on(gpu).writes(a).submit();
    s.feed_all();
    let asker = s.group("asker").on(gpu).reads(b).submit();
    let other = s.group("other").on(gpu).reads(b).submit();
    assert_eq!(s.moved_boxes(), [(0, 64)]);
    assert_eq!(s.cancel(asker), Cancelled::Skipped);
    s.pass(busy);
    s.run_to_the_end();
    assert!(s.is_done(other));
    s.assert_empty();
}

#[test]
fn decision_8_order_goes_through_a_cancelled_group() {
    // The second writer is ordered behind the first only through the cancelled one, and still waits for it.
    let mut s = Script::new();
    let (dev1, dev2) = (s.device(1, 64), s.device(1, 64));
    let b = s.buffer(64);
    let first = s.group("first").on(dev1).submit();
    let middle = s.group("middle").on(dev2).writes(b).after_end(first).submit();
    let last = s.group("last").on(dev2).writes(b).submit();
    assert_eq!(s.fed_nodes(), [first]);
    s.cancel(middle);
    assert!(s.fed_nodes().is_empty());
    s.pass(first);
    assert_eq!(s.fed_nodes(), [middle, last]);
    s.run_to_the_end();
    assert!(s.is_done(last));
    s.assert_empty();
}

#[test]
fn decision_10_a_group_without_commands_is_a_barrier_over_its_requirements() {
    let mut s = Script::new();
    let gpu = s.device(2, 64);
    let (a, b) = (s.buffer(4), s.buffer(4));
    let (wa, wb) = (s.group("wa").on(gpu).writes(a).submit(), s.group("wb").on(gpu).writes(b).submit());
    let barrier = s.group("barrier").on(gpu).reads(a).reads(b).submit();
    let (ra, rb) = (s.group("ra").on(gpu).updates(a).submit(), s.group("rb").on(gpu).updates(b).submit());
    for ahead in [wa, wb] {
        assert!(s.ordered(ahead, barrier));
    }
    assert!(s.ordered(barrier, ra) && s.ordered(barrier, rb));
    s.run_to_the_end();
    s.assert_empty();
}

#[test]
fn decision_12_one_failed_command_of_a_thousand() {
    // Command 500 of 1,000 fails: it is told once, its readers fail, and the last is well, as it read none of that.
    let mut s = Script::new();
    let gpu = s.device(1, 1_000);
    let buffers: Vec<_> = (0..10).map(|_| s.buffer(64)).collect();
    let nodes: Vec<_> = (0..1_000).map(|i| s.group("n").on(gpu).updates(buffers[i % 10]).submit()).collect();
    assert_eq!(s.feed_all().len(), 1_000);
    let (lane, point) = s.point(nodes[999]);
    let bad = s.point(nodes[500]).1;
    s.engine.passed(lane, point, |p| (p == bad).then_some("broken"), &mut s.turn);
    s.absorb();
    for (i, node) in nodes.iter().enumerate() {
        let expected = match i {
            500 => Outcome::Failed("broken"),
            _ if i > 500 && i % 10 == 0 => Outcome::Doomed("broken"),
            _ => Outcome::Done,
        };
        assert_eq!(s.end(*node), Some(&expected), "{i}");
    }
    assert_eq!(s.took_down[&nodes[500]], 49);
    s.assert_empty();
}

#[test]
fn decision_12_nothing_ends_before_the_verdict_of_what_it_read() {
    let mut s = Script::new();
    let gpu = s.device(2, 64);
    let (a, b) = (s.buffer(64), s.buffer(64));
    let wa = s.group("wa").on(gpu).writes(a).submit();
    let wb = s.group("wb").on(gpu).writes(b).submit();
    let both = s.group("both").on(gpu).reads(a).reads(b).submit();
    s.feed_all();
    let other = if s.point(both).0 == s.point(wa).0 { wb } else { wa };
    s.pass(both);
    assert_eq!(s.end(both), None, "it has passed, and may have read what failed");
    s.fail(other, "broken");
    assert_eq!(s.end(both), Some(&Outcome::Doomed("broken")));
    s.assert_empty();
}

#[test]
fn memory_that_is_not_to_be_had_fails_those_who_wait_for_it() {
    let mut s = Script::new();
    s.holds_memory = true;
    let gpu = s.device(1, 64);
    let b = s.data(64);
    let writer = s.group("writer").on(gpu).updates(b).submit();
    let reader = s.group("reader").on(gpu).reads(b).submit();
    assert!(s.fed_nodes().is_empty());
    let [(root, memory)] = std::mem::take(&mut s.asked)[..] else { panic!("asked for once") };
    assert_eq!((root, memory), (b, s.engine.device_memory(gpu)));
    s.engine.allocated(root, memory, Err("full"), &mut s.turn);
    s.absorb();
    s.run_to_the_end();
    assert_eq!(s.end(writer), Some(&Outcome::Failed("full")));
    assert!(matches!(s.end(reader), Some(Outcome::Failed("full") | Outcome::Doomed("full"))));
    // The next one asks again.
    let heals = s.group("heals").on(gpu).writes(b).submit();
    assert_eq!(s.asked, [(root, memory)]);
    s.holds_memory = false;
    s.absorb();
    s.run_to_the_end();
    assert!(s.is_done(heals));
    s.assert_empty();
}

#[test]
fn decision_34_a_lost_context_ends_what_is_in_flight_and_loses_what_is_nowhere_else() {
    let mut s = Script::new();
    let (dev1, dev2) = (s.device(2, 64), s.device(1, 64));
    let (a, b, c) = (s.buffer(64), s.buffer(64), s.buffer(64));
    let only = s.group("only").on(dev1).writes(a).submit();
    let shared = s.group("shared").on(dev1).writes(b).submit();
    let copy = s.group("copy").on(dev2).reads(b).submit();
    s.run_to_the_end();
    let (listed, gated) = (
        s.group("listed").on(dev1).writes(c).submit(),
        s.group("gated").on(dev1).uses(c, line(0..4), Mode::ReadWrite).gates(1).submit(),
    );
    let reader = s.group("reader").on(dev2).reads(c).submit();
    s.lose(dev1);
    assert_eq!(s.engine.lost(dev1), Some(&"lost"));
    assert_eq!(s.engine.lost(dev2), None);
    assert_eq!(s.end(listed), Some(&Outcome::Failed("lost")));
    s.open(gated);
    assert_eq!(s.end(gated), Some(&Outcome::Failed("lost")));
    let reads_a = s.group("reads a").on(dev2).reads(a).submit();
    let reads_b = s.group("reads b").reads(b).submit();
    s.run_to_the_end();
    assert!([only, shared, copy, reads_b].iter().all(|n| s.is_done(*n)), "the rest survives");
    for lost in [reader, reads_a] {
        assert_eq!(s.end(lost), Some(&Outcome::Doomed("lost")));
    }
    s.assert_empty();
}

#[test]
fn decision_34_a_download_that_is_done_saves_the_data() {
    let mut s = Script::new();
    let (dev1, dev2) = (s.device(1, 64), s.device(1, 64));
    let b = s.buffer(64);
    let writer = s.group("writer").on(dev1).writes(b).submit();
    s.feed_all();
    s.pass(writer);
    let reader = s.group("reader").on(dev2).reads(b).submit();
    let [(download, _), (upload, _)] = s.moved()[..] else { panic!("two steps") };
    let lane = s.lanes_of(dev1)[0];
    s.feed(lane);
    s.pass(download);
    assert!(s.is_done(download));
    s.lose(dev1);
    s.run_to_the_end();
    assert!(s.is_done(upload) && s.is_done(reader));
    s.assert_empty();
}

#[test]
fn a_host_task_that_fails_dooms_its_readers() {
    let mut s = Script::new();
    let gpu = s.device(1, 64);
    let b = s.buffer(64);
    let task = s.group("task").writes(b).submit();
    let reader = s.group("reader").on(gpu).reads(b).submit();
    assert_eq!(s.started, [task]);
    assert_eq!(s.cancel(task), Cancelled::TooLate);
    s.engine.finish_host(task, Err("panicked"), &mut s.turn);
    s.absorb();
    s.run_to_the_end();
    assert_eq!(s.end(task), Some(&Outcome::Failed("panicked")));
    assert_eq!(s.end(reader), Some(&Outcome::Doomed("panicked")));
    s.assert_empty();
}

#[test]
fn decision_13_an_awaited_group_asks_for_the_verdicts_of_what_it_read() {
    // It reads over two lanes of its context; that of the first writer will not be heard of for long unless asked.
    let mut s = Script::new();
    let dev1 = s.device(1, 64);
    let context = s.context_of(dev1);
    let dev2 = s.device_in(context, 1, 64);
    let dev3 = s.device_in(context, 1, 64);
    [dev1, dev2, dev3].into_iter().for_each(|device| s.fill(device));
    let (a, b) = (s.buffer(4), s.buffer(4));
    let first = s.group("first").on(dev1).writes(a).submit();
    let second = s.group("second").on(dev2).depends_on(first).writes(b).submit();
    let third = s.group("third").on(dev3).depends_on(second).submit();
    s.feed_all();
    assert!(s.armed.is_empty(), "nobody waits for anything");
    s.engine.want(third, &mut s.turn);
    s.absorb();
    assert_eq!(std::mem::take(&mut s.armed), [s.point(third)]);
    s.pass(third);
    assert_eq!(std::mem::take(&mut s.armed), [s.point(second)]);
    s.pass(second);
    assert_eq!(std::mem::take(&mut s.armed), [s.point(first)]);
    s.pass(first);
    assert!([first, second, third].iter().all(|n| s.is_done(*n)));
    s.assert_empty();
}

#[test]
fn decision_13_one_of_many_asks_only_for_itself() {
    let mut s = Script::new();
    let gpu = s.device(1, 100_000);
    let b = s.buffer(4);
    let chain: Vec<_> = (0..10_000).map(|_| s.group("g").on(gpu).updates(b).submit()).collect();
    s.feed_all();
    s.engine.want(chain[0], &mut s.turn);
    s.engine.want(chain[9_999], &mut s.turn);
    s.absorb();
    assert_eq!(s.armed, [s.point(chain[0])]);
    assert_eq!(s.sentinels.last(), Some(&s.point(chain[9_999])), "the last reports by itself");
    s.pass(chain[0]);
    assert!(s.is_done(chain[0]));
    s.run_to_the_end();
    assert_eq!(s.armed.len(), 1);
    s.assert_empty();
}
