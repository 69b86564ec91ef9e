//! What a submission costs, and that nothing is left over.

use super::*;

#[test]
fn decision_6_a_writer_behind_a_hundred_thousand_readers_is_one_entry() {
    let mut s = Script::new();
    let gpu = s.device(4, usize::MAX);
    let b = s.data(64);
    let cost = |s: &mut Script| {
        let before = s.engine.tally().nodes_visited;
        let writer = s.group("writer").on(gpu).updates(b).submit();
        (writer, s.engine.tally().nodes_visited - before)
    };
    s.group("reader").on(gpu).reads(b).submit();
    let (_, behind_one) = cost(&mut s);
    for _ in 0..100_000 {
        s.group("reader").on(gpu).reads(b).submit();
    }
    let (writer, behind_many) = cost(&mut s);
    assert_eq!(behind_one, behind_many);
    assert!(behind_many <= 3, "{behind_many}");
    // It waits natively for the last point of each lane.
    let fed = s.feed_all();
    let given = fed.iter().find(|g| g.node == writer).map(|g| g.waits.len());
    assert!(given.is_some_and(|waits| waits <= 4), "{given:?}");
    s.run_to_the_end();
    s.assert_empty();
}

#[test]
fn a_submission_costs_the_same_with_any_number_outstanding() {
    let mut s = Script::new();
    let gpu = s.device(2, 64);
    let roots: Vec<_> = (0..8).map(|_| s.buffer(64)).collect();
    let mut costs = Vec::new();
    for i in 0..20_000 {
        let before = s.engine.tally().nodes_visited;
        s.group("g").on(gpu).updates(roots[i % 8]).reads(roots[(i + 1) % 8]).submit();
        costs.push(s.engine.tally().nodes_visited - before);
    }
    let early = costs[100..200].iter().max();
    assert_eq!(early, costs[19_900..].iter().max());
    assert!(early < Some(&8), "{early:?}");
    s.run_to_the_end();
    s.assert_empty();
}

#[test]
fn long_chains_end_without_recursion() {
    let mut s = Script::new();
    s.engine = Engine::new();
    let gpu = s.device(1, usize::MAX);
    let b = s.buffer(4);
    let first = s.group("first").on(gpu).writes(b).gates(1).submit();
    let task = s.group("task").reads(b).submit();
    let mut tasks = vec![task];
    for _ in 0..200_000 {
        s.group("g").on(gpu).updates(b).submit();
    }
    (0..1_000).for_each(|_| tasks.push(s.group("task").updates(b).submit()));
    s.cancel(first);
    s.open(first);
    s.run_to_the_end();
    assert!(tasks.iter().all(|t| s.end(*t) == Some(&Outcome::Doomed("cancelled"))));
    s.assert_empty();
}

#[test]
fn ids_carry_generations() {
    let mut s = Script::new();
    let gpu = s.device(1, 64);
    let b = s.buffer(64);
    let first = s.group("first").on(gpu).writes(b).submit();
    s.run_to_the_end();
    let second = s.group("second").on(gpu).writes(b).gates(1).submit();
    assert_eq!(first.sort_key().0, second.sort_key().0, "the slot is used again");
    assert_ne!(first, second);
    assert_eq!(s.cancel(first), Cancelled::Done);
    assert!(s.engine.work_mut(first).is_none() && s.engine.uses(first).is_empty());
    // An old id as a predecessor is no predecessor.
    let third = s.group("third").on(gpu).depends_on(first).in_order(first).submit();
    assert_eq!(s.fed_nodes(), [third]);
    s.open(second);
    s.run_to_the_end();
    assert!(s.is_done(second));
    s.assert_empty();
}

#[test]
fn a_root_goes_with_its_last_user_and_gives_its_memory_back() {
    let mut s = Script::new();
    let gpu = s.device(1, 64);
    let b = s.data(64);
    let reader = s.group("reader").on(gpu).reads(b).submit();
    s.feed_all();
    s.engine.release_root(b, &mut s.turn);
    s.absorb();
    assert_eq!((s.engine.live_roots(), s.freed), (1, 0), "the reader still uses it");
    s.run_to_the_end();
    assert!(s.is_done(reader));
    assert_eq!((s.engine.live_roots(), s.freed), (0, 2), "the heap's and the device's");
    s.assert_empty();
}

#[test]
fn segments_join_again_when_their_history_is_the_same() {
    let mut s = Script::new();
    let gpu = s.device(1, 64);
    let b = s.buffer(1_000);
    for i in 0..100 {
        s.group("part").on(gpu).uses(b, line(10 * i..10 * i + 5), Mode::Overwrite).submit();
    }
    assert_eq!(s.engine.segments_of(b), 200);
    s.run_to_the_end();
    s.group("whole").on(gpu).writes(b).submit();
    assert_eq!(s.engine.segments_of(b), 1);
    // A whirl of five boxes, no two of which form a box.
    let g = s.grid(3, 3);
    for (y, x) in [(0..1, 0..2), (0..2, 2..3), (2..3, 1..3), (1..3, 0..1), (1..2, 1..2)] {
        s.group("part").on(gpu).uses(g, flat(y, x), Mode::Overwrite).submit();
    }
    assert_eq!(s.engine.segments_of(g), 5);
    s.group("whole").on(gpu).uses(g, flat(0..3, 0..3), Mode::Overwrite).submit();
    assert_eq!(s.engine.segments_of(g), 1);
    s.run_to_the_end();
    s.assert_empty();
}

#[test]
fn readers_of_crossing_boxes_share_their_read_sets() {
    let mut s = Script::new();
    let gpu = s.device(1, usize::MAX);
    let g = s.grid(2, 2);
    for _ in 0..1_000 {
        s.group("row").on(gpu).uses(g, flat(0..1, 0..2), Mode::Read).submit();
        s.group("column").on(gpu).uses(g, flat(0..2, 0..1), Mode::Read).submit();
    }
    let before = s.engine.tally().nodes_visited;
    s.group("writer").on(gpu).uses(g, flat(0..2, 0..2), Mode::Overwrite).submit();
    let visited = s.engine.tally().nodes_visited - before;
    assert!(visited <= 8, "{visited}");
    s.run_to_the_end();
    s.assert_empty();
}

#[test]
fn empty_requirements_and_empty_buffers_cost_nothing() {
    let mut s = Script::new();
    let gpu = s.device(1, 64);
    let (empty, b) = (s.buffer(0), s.data(8));
    let first = s.group("first").on(gpu).uses(b, line(3..3), Mode::ReadWrite).updates(empty).submit();
    let second = s.group("second").on(gpu).uses(b, line(0..8), Mode::Overwrite).updates(empty).submit();
    assert!(s.moved().is_empty());
    assert!(!s.ordered(first, second));
    s.run_to_the_end();
    s.assert_empty();
}
