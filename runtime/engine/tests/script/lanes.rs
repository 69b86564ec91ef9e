//! Order and feeding: lanes, points, gates, queues.

use super::*;

#[test]
fn decision_1_a_wait_on_a_point_not_yet_fed_is_held_back() {
    // X and Y are planned; Y, on another lane, reads X, and is offered to the driver only when X's point is known.
    let mut s = Script::new();
    let gpu = s.device(2, 64);
    let (a, b) = (s.buffer(64), s.buffer(64));
    let x = s.group("x").on(gpu).writes(a).submit();
    // Keeps x's lane from being the idle one when y becomes ready.
    let lane = s.lanes_of(gpu);
    let given = s.pop(lane[0]);
    assert_eq!(given[0].node, x);
    let other = s.group("other").on(gpu).writes(b).submit();
    let y = s.group("y").on(gpu).reads(a).reads(b).submit();
    let given_b = s.pop(lane[1]);
    assert_eq!(
        given_b.iter().map(|g| g.node).collect::<Vec<_>>(),
        [other],
        "y has to wait: x is not recorded"
    );
    s.confirm(lane[1], &given_b);
    assert!(s.pop(lane[1]).is_empty());
    s.confirm(lane[0], &given);
    let fed = s.feed_all();
    assert_eq!(fed.len(), 1);
    assert_eq!(fed[0].node, y);
    let (own, _) = s.point(y);
    let expected = if own == lane[0] { (lane[1], 1) } else { (lane[0], 1) };
    assert_eq!(fed[0].waits, [expected], "one wait, on the lane it is not on");
    s.run_to_the_end();
    s.assert_empty();
}

#[test]
fn decision_1_ties_are_broken_by_submission() {
    let mut s = Script::new();
    let gpu = s.device(1, 64);
    let roots: Vec<_> = (0..10).map(|_| s.buffer(4)).collect();
    let nodes: Vec<_> = roots.iter().map(|r| s.group("g").on(gpu).writes(*r).submit()).collect();
    assert_eq!(s.fed_nodes(), nodes);
}

#[test]
fn decision_1_a_gated_group_holds_back_only_those_that_depend_on_it() {
    let mut s = Script::new();
    let gpu = s.device(1, 64);
    let (a, b) = (s.buffer(4), s.buffer(4));
    let gated = s.group("gated").on(gpu).writes(a).gates(2).submit();
    let behind = s.group("behind").on(gpu).reads(a).submit();
    let free = s.group("free").on(gpu).writes(b).submit();
    assert_eq!(s.fed_nodes(), [free]);
    s.open(gated);
    assert!(s.fed_nodes().is_empty());
    s.open(gated);
    assert_eq!(s.fed_nodes(), [gated, behind]);
    s.run_to_the_end();
    s.assert_empty();
}

#[test]
fn decision_1_what_follows_joins_its_predecessors_list_at_once() {
    // A chain on one lane needs no confirmation in between: the list is fed in order.
    let mut s = Script::new();
    let gpu = s.device(3, 64);
    let a = s.buffer(4);
    let chain: Vec<_> = (0..5).map(|_| s.group("g").on(gpu).updates(a).submit()).collect();
    let lane = s.lanes_of(gpu)[0];
    let given = s.pop(lane);
    assert_eq!(given.iter().map(|g| g.node).collect::<Vec<_>>(), chain);
    assert!(given.iter().all(|g| g.waits.is_empty()));
}

#[test]
fn decision_1_independent_groups_spread_over_idle_lanes() {
    let mut s = Script::new();
    let gpu = s.device(3, 64);
    let roots: Vec<_> = (0..3).map(|_| s.buffer(4)).collect();
    let nodes: Vec<_> = roots.iter().map(|r| s.group("g").on(gpu).writes(*r).submit()).collect();
    s.feed_all();
    let mut lanes: Vec<_> = nodes.iter().map(|n| s.point(*n).0).collect();
    lanes.sort_unstable();
    assert_eq!(lanes, s.lanes_of(gpu));
    // What reads the second one goes behind it, where that costs no wait.
    let reader = s.group("reader").on(gpu).reads(roots[1]).submit();
    let fed = s.feed_all();
    assert!(fed[0].waits.is_empty());
    assert_eq!(s.point(reader).0, s.point(nodes[1]).0);
}

/// The contract lets verdicts without failures overtake each other.
#[test]
fn a_verdict_that_was_overtaken_changes_nothing() {
    let mut s = Script::new();
    let gpu = s.device(2, 8);
    let [lane, other] = s.lanes_of(gpu)[..] else { panic!("there are two lanes") };
    let root = s.buffer(4);
    let nodes: Vec<_> = (0..4).map(|_| s.group("g").on(gpu).updates(root).submit()).collect();
    s.feed_all();
    let behind = s.group("behind").on(gpu).after_end(nodes[2]).gates(1).submit();
    s.pass(nodes[2]);
    s.engine.passed(lane, 1, |_| Some("late"), &mut s.turn);
    s.absorb();
    s.open(behind);
    assert_eq!(
        s.feed(other),
        [Given { node: behind, waits: Vec::new(), live: true }],
        "that point has passed"
    );
    assert!(nodes[..3].iter().all(|n| s.ended[n] == Outcome::Done) && !s.ended.contains_key(&nodes[3]));
    s.run_to_the_end();
    s.assert_empty();
}

#[test]
fn decision_2_native_depth_is_bounded() {
    let mut s = Script::new();
    let gpu = s.device(1, 4);
    let lane = s.lanes_of(gpu)[0];
    let roots: Vec<_> = (0..10).map(|_| s.buffer(4)).collect();
    let nodes: Vec<_> = roots.iter().map(|r| s.group("g").on(gpu).writes(*r).submit()).collect();
    assert_eq!(s.fed_nodes(), nodes[..4]);
    // Twice in a native depth something reports, so that the lane is refilled before it runs dry.
    assert_eq!((s.engine.listed(lane), s.sentinels.as_slice()), (6, &[(lane, 2), (lane, 4)][..]));
    // What is not fed can still be cancelled.
    assert_eq!(s.cancel(nodes[9]), Cancelled::Skipped);
    assert_eq!(s.cancel(nodes[0]), Cancelled::TooLate);
    s.pass(nodes[1]);
    assert_eq!(s.fed_nodes(), nodes[4..6]);
    assert_eq!(s.cancel(nodes[0]), Cancelled::Done);
    s.run_to_the_end();
    s.assert_empty();
}

#[test]
fn decision_2_a_group_weighs_its_commands_and_a_heavy_one_goes_alone() {
    let mut s = Script::new();
    let gpu = s.device(1, 4);
    let weights = [3, 1, 1, 9, 2, 2, 1];
    let nodes: Vec<_> = weights.iter().map(|w| s.group("g").on(gpu).weighs(*w).submit()).collect();
    assert_eq!(s.fed_nodes(), nodes[..2], "four commands fit");
    s.pass(nodes[0]);
    assert_eq!(s.fed_nodes(), nodes[2..3], "the next is too heavy beside anything");
    s.pass(nodes[2]);
    assert_eq!(s.fed_nodes(), nodes[3..4], "alone");
    s.pass(nodes[3]);
    assert_eq!(s.fed_nodes(), nodes[4..6]);
    s.run_to_the_end();
    s.assert_empty();
}

#[test]
fn decision_2_no_more_groups_report_than_may() {
    let mut s = Script::new();
    let gpu = s.device_with(Depth { commands: 100, reports: 2 });
    let nodes: Vec<_> = (0..8).map(|_| s.group("g").on(gpu).submit()).collect();
    s.feed_all();
    let last = s.point(nodes[7]);
    assert_eq!(s.sentinels, [last]);
    for node in &nodes[..4] {
        s.engine.want(*node, &mut s.turn);
    }
    s.absorb();
    assert_eq!(std::mem::take(&mut s.armed), [s.point(nodes[0])], "with the last that is as many as may");
    s.pass(nodes[0]);
    assert_eq!(std::mem::take(&mut s.armed), [s.point(nodes[1])], "the earliest of those that are owed");
    s.pass(nodes[2]);
    assert_eq!(std::mem::take(&mut s.armed), [s.point(nodes[3])], "2 was covered");
    s.run_to_the_end();
    s.assert_empty();
}

#[test]
fn what_copies_goes_to_lanes_that_do_nothing_else() {
    let mut s = Script::new();
    let gpu = s.device(1, 64);
    let copies = s.engine.add_copy_lane(gpu, Depth { commands: 64, reports: 64 });
    s.devices.get_mut(&gpu).expect("it was added").1.push(copies);
    let (small, c) = (s.data(4), s.buffer(4));
    let both = s.group("small").on(gpu).reads(small).writes(c).submit();
    let transfer = s.moved()[0].0;
    assert_eq!(s.feed_all().len(), 2, "in one go");
    assert_eq!((s.point(transfer).0, s.point(both).0), (s.lanes_of(gpu)[0], s.lanes_of(gpu)[0]));
    s.run_to_the_end();
    s.engine.set_small_copy(0);
    let (a, b) = (s.data(4), s.buffer(4));
    let both = s.group("both").on(gpu).reads(a).writes(b).submit();
    let transfer = s.moved()[0].0;
    s.feed_all();
    assert_eq!((s.point(transfer).0, s.point(both).0), (copies, s.lanes_of(gpu)[0]));
    s.run_to_the_end();
    s.assert_empty();
}

#[test]
fn decision_39_lanes_of_one_domain_wait_and_copy_without_the_host() {
    let mut s = Script::new();
    let domain = s.engine.add_domain();
    let contexts = [(); 2].map(|()| s.engine.add_context(domain));
    let [one, two] = contexts.map(|context| s.device_in(context, 1, 64));
    let [from, to] = [one, two].map(|device| s.engine.device_memory(device));
    s.engine.add_link(from, to);
    let a = s.buffer(4);
    let wrote = s.group("writes").on(one).writes(a).submit();
    let read = s.group("reads").on(two).reads(a).submit();
    let moved = s.moved();
    assert_eq!(moved.len(), 1);
    assert_eq!((moved[0].1.step, moved[0].1.from, moved[0].1.to), (Step::Direct, from, to));
    let fed = s.feed_all();
    assert_eq!(fed.len(), 3, "nothing waits for the host");
    assert_eq!(
        fed.iter().find(|g| g.node == moved[0].0).map(|g| g.waits.clone()),
        Some(vec![s.point(wrote)])
    );
    assert_eq!(s.engine.tally().proxies, 0);
    // One is lost: the other goes on, with what it had.
    s.pass(wrote);
    s.pass(read);
    s.engine.lose(contexts[0], "gone", &mut s.turn);
    s.absorb();
    let on = s.group("goes on").on(two).updates(a).submit();
    s.run_to_the_end();
    assert!(s.is_done(on));
}

#[test]
fn decision_44_a_clear_is_planned_where_never_written_bytes_are_read() {
    let mut s = Script::new();
    let domain = s.engine.add_domain();
    let context = s.engine.add_context(domain);
    let fresh = MemoryTraits { addressable: false, zeroed: false, ..MemoryTraits::heap() };
    let memory = s.engine.add_memory(context, fresh);
    let gpu = s.engine.add_device(context, memory);
    let lane = s.engine.add_lane(gpu, Depth { commands: 64, reports: 64 });
    s.devices.insert(gpu, (context, vec![lane]));
    let a = s.buffer(16);
    s.group("overwrites").on(gpu).uses(a, line(0..8), Mode::Overwrite).submit();
    assert_eq!((s.moved().len(), s.engine.tally().bytes_cleared), (0, 0));
    s.group("reads what was written").on(gpu).uses(a, line(0..8), Mode::Read).submit();
    assert_eq!(s.moved().len(), 0);
    s.group("keeps").on(gpu).uses(a, line(4..12), Mode::Write).submit();
    let clear = s.moved();
    assert_eq!((clear.len(), clear[0].1.step, clear[0].1.bounds), (1, Step::Clear, line(8..12)));
    s.group("reads all").on(gpu).reads(a).submit();
    s.group("again").on(gpu).reads(a).submit();
    assert_eq!(s.moved_boxes(), [(12, 16)], "each byte once");
    assert_eq!((s.engine.tally().clears, s.engine.tally().bytes_cleared), (2, 8));
    s.run_to_the_end();
    s.assert_empty();
}

#[test]
fn a_lane_that_gains_room_says_so() {
    let mut s = Script::new();
    let gpu = s.device(1, 1);
    let (a, b) = (s.buffer(4), s.buffer(4));
    let first = s.group("first").on(gpu).writes(a).submit();
    s.group("second").on(gpu).writes(b).submit();
    assert_eq!(s.fed_nodes(), [first]);
    let (lane, point) = s.point(first);
    let mut turn = Turn::new();
    s.engine.passed(lane, point, |_| None, &mut turn);
    assert_eq!(turn.ready_lanes[..], [lane]);
}

#[test]
fn groups_of_an_in_order_queue_run_in_order_and_share_no_failure() {
    let mut s = Script::new();
    let (gpu, other) = (s.device(2, 64), s.device(1, 64));
    let (a, b, c) = (s.buffer(4), s.buffer(4), s.buffer(4));
    let first = s.group("first").on(gpu).writes(a).submit();
    let second = s.group("second").on(gpu).writes(b).in_order(first).submit();
    let third = s.group("third").on(other).writes(c).in_order(second).submit();
    assert!(s.ordered(first, second) && s.ordered(second, third));
    assert_eq!(s.fed_nodes(), [first, second]);
    assert_eq!(s.point(first).0, s.point(second).0);
    s.fail(first, "broken");
    assert!(s.fed_nodes().is_empty(), "the third waits for the second, in another context");
    s.pass(second);
    assert_eq!(s.fed_nodes(), [third]);
    s.pass(third);
    assert_eq!(s.end(first), Some(&Outcome::Failed("broken")));
    assert!(s.is_done(second) && s.is_done(third));
    s.assert_empty();
}

#[test]
fn decision_9_a_refusal_fails_the_group_even_if_the_verdict_was_faster() {
    // A callback reports the barrier that was fed in its place before the shell has said that the call was refused.
    let mut s = Script::new();
    let gpu = s.device(1, 64);
    let a = s.buffer(4);
    let refused = s.group("refused").on(gpu).writes(a).submit();
    let reader = s.group("reader").on(gpu).reads(a).submit();
    let lane = s.lanes_of(gpu)[0];
    let given = s.pop(lane);
    assert_eq!(given.len(), 2);
    s.pass(refused);
    assert_eq!(s.end(refused), None);
    let fed = [Fed { node: refused, refused: Some("no") }, Fed { node: reader, refused: None }];
    s.engine.confirm(fed, &mut s.turn);
    s.engine.release_lane(lane, &mut s.turn);
    s.absorb();
    assert_eq!(s.end(refused), Some(&Outcome::Failed("no")));
    s.pass(reader);
    assert_eq!(s.end(reader), Some(&Outcome::Doomed("no")));
    s.assert_empty();
}

#[test]
fn a_lane_is_asked_to_report_only_what_it_was_fed() {
    // A verdict arrives while another thread is still making the native call of the next group.
    let mut s = Script::new();
    let gpu = s.device(1, 64);
    let lane = s.lanes_of(gpu)[0];
    let (a, b) = (s.buffer(4), s.buffer(4));
    let first = s.group("first").on(gpu).writes(a).submit();
    s.feed(lane);
    assert_eq!(std::mem::take(&mut s.sentinels), [(lane, 1)]);
    let second = s.group("second").on(gpu).writes(b).submit();
    let given = s.pop(lane);
    assert_eq!(given[0].node, second);
    s.pass(first);
    assert_eq!(s.sentinels, [], "the call of the second is still being made");
    s.confirm(lane, &given);
    assert_eq!(s.sentinels, [(lane, 2)]);
    s.run_to_the_end();
    s.assert_empty();
}

/// Seen to fail when a sentinel at leisure counted as a report that comes anyway.
#[test]
fn what_comes_to_be_waited_for_is_armed_though_it_reports_at_leisure() {
    let mut s = Script::new();
    let gpu = s.device(1, 64);
    s.engine.report_at_leisure(gpu);
    let lane = s.lanes_of(gpu)[0];
    let a = s.buffer(4);
    let first = s.group("first").on(gpu).writes(a).submit();
    s.feed(lane);
    assert_eq!((&s.sentinels[..], &s.armed[..]), (&[(lane, 1)][..], &[][..]));
    s.engine.want(first, &mut s.turn);
    s.absorb();
    assert_eq!(std::mem::take(&mut s.armed), [(lane, 1)]);
    s.engine.want(first, &mut s.turn);
    s.absorb();
    assert_eq!(s.armed, [], "once is enough");
    s.run_to_the_end();
    s.assert_empty();
}

/// A lane's list may stay where it is while a report is to come that looks at it again, and nobody waits. Seen to fail where it was
/// not asked whether one is out, and where it was not asked who waits.
#[test]
fn a_list_may_be_left_as_long_as_a_report_comes_back_to_it() {
    let mut s = Script::new();
    let gpu = s.device(1, 64);
    let lane = s.lanes_of(gpu)[0];
    let a = s.buffer(4);
    let first = s.group("first").on(gpu).writes(a).submit();
    s.feed(lane);
    for name in ["second", "third", "fourth"] {
        s.group(name).on(gpu).writes(a).submit();
    }
    s.feed(lane);
    for name in ["fifth", "sixth"] {
        s.group(name).on(gpu).writes(a).submit();
    }
    assert_eq!(s.engine.may_be_left(lane, 3), Some(2));
    assert_eq!(s.engine.may_be_left(lane, 5), None, "too few are under way");
    s.pass(first);
    assert_eq!(s.engine.may_be_left(lane, 3), None, "the only report is in");
    s.feed(lane);
    let last = s.group("last").on(gpu).writes(a).submit();
    assert_eq!(s.engine.may_be_left(lane, 3), Some(1));
    s.engine.want(last, &mut s.turn);
    assert_eq!(s.engine.may_be_left(lane, 3), None, "somebody waits for it");
    s.absorb();
    s.run_to_the_end();
    s.assert_empty();
}

/// Seen to fail with a hurry that arms what is being fed, with one that forgets it, and with one that ends at once.
#[test]
fn who_waits_for_a_whole_device_hurries_it() {
    let mut s = Script::new();
    let gpu = s.device(1, 64);
    s.engine.report_at_leisure(gpu);
    let lane = s.lanes_of(gpu)[0];
    let (a, b) = (s.buffer(4), s.buffer(4));
    let first = s.group("first").on(gpu).writes(a).submit();
    let given = s.pop(lane);
    s.engine.hurry(gpu, &mut s.turn);
    s.absorb();
    assert_eq!(s.armed, [], "its native call is still being made");
    s.confirm(lane, &given);
    assert_eq!(std::mem::take(&mut s.armed), [(lane, 1)]);
    s.pass(first);
    // As long as somebody waits, nothing reports at leisure.
    let second = s.group("second").on(gpu).writes(b).submit();
    s.engine.hold_lane(lane);
    let popped = s.engine.pop(lane).expect("there is one");
    assert!(popped.report && !popped.at_leisure);
    s.points.insert(second, (lane, popped.point));
    s.confirm(lane, &[Given { node: second, waits: Vec::new(), live: true }]);
    s.pass(second);
    s.engine.hurry_no_more(gpu);
    s.group("third").on(gpu).writes(b).submit();
    s.engine.hold_lane(lane);
    let popped = s.engine.pop(lane).expect("there is one");
    assert!(popped.report && popped.at_leisure);
    s.points.insert(popped.node, (lane, popped.point));
    s.confirm(lane, &[Given { node: popped.node, waits: Vec::new(), live: true }]);
    s.run_to_the_end();
    s.assert_empty();
}

#[test]
fn ten_thousand_groups_behind_one_host_task_cost_one_proxy() {
    let mut s = Script::new();
    let gpu = s.device(1, 100_000);
    let a = s.buffer(4);
    let task = s.group("task").writes(a).submit();
    for _ in 0..10_000 {
        s.group("g").on(gpu).reads(a).submit();
    }
    // One for the transfer into the device's memory; the readers wait for that natively.
    assert_eq!(s.engine.tally().proxies, 1);
    assert_eq!(s.started, [task]);
    s.finish(task);
    assert_eq!(s.feed_all().len(), 10_001);
    s.run_to_the_end();
    s.assert_empty();
}

/// Seen to fail with lanes that have work counted as idle.
#[test]
fn a_context_that_is_to_go_waits_for_its_lanes() {
    let mut s = Script::new();
    let (gpu, other) = (s.device(2, 64), s.device(1, 64));
    let x = s.group("x").on(gpu).submit();
    s.engine.close_when_unused(s.context_of(gpu), "closed", &mut s.turn);
    s.absorb();
    assert!(s.closed.is_empty());
    s.feed_all();
    assert!(s.closed.is_empty(), "it is native");
    s.pass(x);
    assert_eq!(s.closed, s.lanes_of(gpu));
    assert_eq!(s.engine.lost(gpu), Some(&"closed"));
    assert_eq!(s.engine.lost(other), None);
    s.assert_empty();
}

/// A queue of its own lane has nothing there but its groups: transfers go to the device's lanes, and it waits for them. Its lane goes
/// when it does.
#[test]
fn a_lane_of_a_queues_own_takes_its_groups_alone_and_goes_with_it() {
    let mut s = Script::new();
    let gpu = s.device(1, 64);
    let own = s.engine.add_lane_group(gpu);
    let lane = s.engine.add_lane(own, Depth { commands: 64, reports: 64 });
    let (a, task) = (s.buffer(64), "task");
    let task = s.group(task).writes(a).submit();
    let x = s.group("x").on(own).reads(a).submit();
    s.finish(task);
    let brought = s.feed_all();
    assert_eq!(brought.len(), 1, "the transfer");
    s.engine.close_lanes_when_unused(own, &mut s.turn);
    s.absorb();
    assert!(s.lanes_closed.is_empty(), "it has something on its list");
    let given = s.feed(lane);
    assert_eq!(given.len(), 1);
    assert_eq!((given[0].node, &given[0].waits[..]), (x, &[s.point(brought[0].node)][..]));
    assert!(s.lanes_closed.is_empty(), "it is native");
    s.pass(x);
    assert_eq!((&s.lanes_closed[..], &s.closed[..]), (&[lane][..], &[][..]));
    assert_eq!(s.engine.lost(gpu), None);
    s.run_to_the_end();
    s.engine.close_when_unused(s.context_of(gpu), "closed", &mut s.turn);
    s.absorb();
    assert_eq!(s.lanes_closed, [lane]);
    assert!(!s.closed.contains(&lane), "once is enough");
}
