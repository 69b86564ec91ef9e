//! Versions, hazards per replica, exact boxes, transfers.

use super::*;

#[test]
fn decision_3_versions_fail_and_regions_do_not() {
    // A writes v1 slowly; D writes v2 elsewhere and succeeds; A then fails and must not poison v2.
    let mut s = Script::new();
    let (dev1, dev2) = (s.device(1, 64), s.device(1, 64));
    let b = s.buffer(64);
    let a = s.group("A").on(dev1).writes(b).submit();
    let d = s.group("D").on(dev2).writes(b).submit();
    assert_eq!(s.fed_nodes(), [a, d], "no edge between them: they write different allocations");
    s.pass(d);
    assert!(s.is_done(d));
    s.fail(a, "broken");
    let reader = s.group("reader").on(dev2).reads(b).submit();
    assert!(s.moved().is_empty());
    s.run_to_the_end();
    assert!(s.is_done(reader));
    s.assert_empty();
}

#[test]
fn decision_3_failure_follows_what_is_read_and_a_whole_write_heals() {
    let mut s = Script::new();
    let gpu = s.device(1, 64);
    let (a, b) = (s.buffer(64), s.buffer(64));
    let bad = s.group("bad").on(gpu).writes(a).submit();
    let reader = s.group("reader").on(gpu).reads(a).writes(b).submit();
    let second = s.group("second").on(gpu).reads(b).submit();
    let keeps = s.group("keeps").on(gpu).uses(a, line(0..4), Mode::Write).submit();
    let heals = s.group("heals").on(gpu).uses(a, line(0..32), Mode::Overwrite).submit();
    let behind = s.group("behind").on(gpu).after_end(bad).submit();
    let asks = s.group("asks").on(gpu).depends_on(bad).submit();
    s.feed_all();
    s.fail(bad, "broken");
    s.run_to_the_end();
    assert_eq!(s.took_down[&bad], 4);
    for doomed in [reader, second, keeps, asks] {
        assert_eq!(s.end(doomed), Some(&Outcome::Doomed("broken")));
    }
    assert!(s.is_done(heals) && s.is_done(behind));
    let well = s.group("well").on(gpu).uses(a, line(0..32), Mode::Read).submit();
    let ill = s.group("ill").on(gpu).uses(a, line(31..33), Mode::Read).submit();
    s.run_to_the_end();
    assert!(s.is_done(well));
    assert_eq!(s.end(ill), Some(&Outcome::Doomed("broken")));
    s.assert_empty();
}

#[test]
fn decision_3_a_failed_transfer_voids_that_replica_only() {
    let mut s = Script::new();
    let (dev1, dev2) = (s.device(1, 64), s.device(1, 64));
    let b = s.data(64);
    let first = s.group("first").on(dev1).reads(b).submit();
    let [(transfer, _)] = s.moved()[..] else { panic!("one transfer") };
    s.feed_all();
    s.fail(transfer, "broken");
    s.pass(first);
    assert_eq!(s.end(first), Some(&Outcome::Doomed("broken")));
    let again = s.group("again").on(dev1).reads(b).submit();
    let elsewhere = s.group("elsewhere").on(dev2).reads(b).submit();
    assert_eq!(s.moved_boxes(), [(0, 64), (0, 64)]);
    s.run_to_the_end();
    assert!(s.is_done(again) && s.is_done(elsewhere));
    s.assert_empty();
}

#[test]
fn decision_4_hazards_are_per_replica() {
    // A writes v1 on dev1; R on dev3 reads it by a transfer that is still pending; D writes v2 on dev2 without wanting
    // v1; E on dev1 reads v2: the transfer for it must not overwrite v1 before the one for R has read it.
    let mut s = Script::new();
    let (dev1, dev2, dev3) = (s.device(2, 64), s.device(1, 64), s.device(1, 64));
    let b = s.buffer(64);
    let a = s.group("A").on(dev1).writes(b).submit();
    let r = s.group("R").on(dev3).reads(b).submit();
    let to_dev3 = s.moved();
    let d = s.group("D").on(dev2).writes(b).submit();
    let e = s.group("E").on(dev1).reads(b).submit();
    let to_dev1 = s.moved();
    assert_eq!((to_dev3.len(), to_dev1.len()), (2, 2), "a download and an upload each");
    let (download, upload) = (to_dev3[0].0, to_dev1[1].0);
    assert!(s.ordered(a, download) && s.ordered(download, r));
    assert!(s.ordered(download, upload), "v1 is overwritten on dev1 behind its reader");
    assert!(!s.ordered(a, d) && !s.ordered(r, d) && !s.ordered(r, e), "and no more order than that");
    assert!(s.ordered(d, e) && s.ordered(a, e));
    s.run_to_the_end();
    assert!([a, r, d, e].iter().all(|n| s.is_done(*n)));
    s.assert_empty();
}

#[test]
fn decision_4_a_no_init_write_elsewhere_lifts_the_edge_and_on_the_same_allocation_keeps_it() {
    let mut s = Script::new();
    let (dev1, dev2) = (s.device(2, 64), s.device(2, 64));
    let b = s.buffer(64);
    let first = s.group("first").on(dev1).writes(b).submit();
    let reader = s.group("reader").on(dev1).reads(b).submit();
    let same = s.group("same").on(dev1).writes(b).submit();
    let other = s.group("other").on(dev2).writes(b).submit();
    assert!(s.ordered(first, same) && s.ordered(reader, same));
    assert!(!s.ordered(first, other) && !s.ordered(reader, other) && !s.ordered(same, other));
    s.run_to_the_end();
    s.assert_empty();
}

#[test]
fn decision_4_a_keeping_write_elsewhere_is_behind_the_version_and_not_behind_its_readers() {
    let mut s = Script::new();
    let (dev1, dev2) = (s.device(1, 64), s.device(1, 64));
    let b = s.buffer(64);
    let first = s.group("first").on(dev1).writes(b).submit();
    let reader = s.group("reader").on(dev1).reads(b).submit();
    let keeps = s.group("keeps").on(dev2).whole(b, Mode::Write).submit();
    assert_eq!(s.moved_boxes(), [(0, 64)]);
    assert!(s.ordered(first, keeps));
    assert!(!s.ordered(reader, keeps));
    s.run_to_the_end();
    s.assert_empty();
}

#[test]
fn decision_4_two_devices_of_a_context_copy_inside_it() {
    let mut s = Script::new();
    let dev1 = s.device(1, 64);
    let context = s.context_of(dev1);
    let dev2 = s.device_in(context, 1, 64);
    let b = s.buffer(64);
    let writer = s.group("writer").on(dev1).writes(b).submit();
    let reader = s.group("reader").on(dev2).reads(b).submit();
    let [(copy, transfer)] = s.moved()[..] else { panic!("one step") };
    assert_eq!(transfer.step, Step::Direct);
    // All natively: the copy waits for the writer's point, and nobody on the host is woken.
    let fed = s.feed_all();
    assert_eq!(fed.iter().map(|g| g.node).collect::<Vec<_>>(), [writer, copy, reader]);
    assert_eq!(fed[1].waits, [s.point(writer)]);
    assert_eq!(s.engine.tally().proxies, 0);
    s.run_to_the_end();
    s.assert_empty();
}

#[test]
fn decision_5_boxes_are_exact() {
    // [0,10) and [10,20) run at once; [5,15) waits for both.
    let mut s = Script::new();
    let gpu = s.device(3, 64);
    let b = s.buffer(64);
    let low = s.group("low").on(gpu).uses(b, line(0..10), Mode::ReadWrite).submit();
    let high = s.group("high").on(gpu).uses(b, line(10..20), Mode::ReadWrite).submit();
    let both = s.group("both").on(gpu).uses(b, line(5..15), Mode::ReadWrite).submit();
    let apart = s.group("apart").on(gpu).uses(b, line(20..30), Mode::ReadWrite).submit();
    assert!(!s.ordered(low, high) && s.ordered(low, both) && s.ordered(high, both));
    assert!([low, high, both].iter().all(|n| !s.ordered(*n, apart)));
    let fed = s.feed_all();
    let waits: usize = fed.iter().map(|g| g.waits.len()).sum();
    assert_eq!(waits, 1, "{fed:?}");
    s.run_to_the_end();
    s.assert_empty();
}

#[test]
fn decision_5_a_no_init_write_moves_nothing_and_makes_only_its_own_bytes_stale() {
    let mut s = Script::new();
    let gpu = s.device(1, 64);
    let b = s.data(1024);
    s.group("write").on(gpu).uses(b, line(0..10), Mode::Overwrite).submit();
    assert!(s.moved().is_empty());
    s.group("host").reads(b).submit();
    assert_eq!(s.moved_boxes(), [(0, 10)], "the other 1,014 are current in the heap");
    s.group("device").on(gpu).reads(b).submit();
    assert_eq!(s.moved_boxes(), [(10, 1024)]);
    s.group("again").on(gpu).reads(b).submit();
    assert!(s.moved().is_empty(), "shared by all readers");
    s.run_to_the_end();
    s.assert_empty();
}

#[test]
fn decision_5_never_written_data_never_moves() {
    let mut s = Script::new();
    let (dev1, dev2) = (s.device(1, 64), s.device(1, 64));
    let b = s.buffer(64);
    s.group("reader").on(dev1).reads(b).submit();
    s.group("update").on(dev2).uses(b, line(8..16), Mode::ReadWrite).submit();
    s.group("back").on(dev1).reads(b).submit();
    assert_eq!(s.moved_boxes(), [(8, 16)]);
    s.run_to_the_end();
    s.assert_empty();
}

#[test]
fn fewest_transfers_never_cross_a_current_byte() {
    let mut s = Script::new();
    let gpu = s.device(1, 64);
    let b = s.data(100);
    s.group("hole").on(gpu).uses(b, line(40..50), Mode::Overwrite).submit();
    s.group("two").uses(b, line(90..95), Mode::ReadWrite).submit();
    s.run_to_the_end();
    s.group("reader").on(gpu).reads(b).submit();
    assert_eq!(s.moved_boxes(), [(0, 40), (50, 100)], "one transfer over versions of one source");
    s.run_to_the_end();
    s.assert_empty();
}

#[test]
fn invariant_10_a_transfer_carries_one_groups_failure() {
    // "both" reads what two groups wrote side by side; "low only" reads one of them, by the transfers made for "both".
    let mut s = Script::new();
    let (dev1, dev2) = (s.device(1, 64), s.device(1, 64));
    let b = s.data(96);
    let low = s.group("low").on(dev1).uses(b, line(0..32), Mode::Overwrite).submit();
    let high = s.group("high").on(dev1).uses(b, line(32..64), Mode::Overwrite).submit();
    let both = s.group("both").on(dev2).reads(b).submit();
    assert_eq!(
        s.moved_boxes(),
        [(0, 32), (32, 64), (64, 96)],
        "nor does what has settled go with what may fail"
    );
    let low_only = s.group("low only").on(dev2).uses(b, line(0..32), Mode::Read).submit();
    let rest = s.group("rest").on(dev2).uses(b, line(64..96), Mode::Read).submit();
    assert!(s.moved().is_empty());
    s.feed_all();
    s.pass(low);
    s.fail(high, "broken");
    s.run_to_the_end();
    assert_eq!(s.end(both), Some(&Outcome::Doomed("broken")));
    assert!(s.is_done(low_only) && s.is_done(rest), "they read nothing of what failed");
    s.assert_empty();
}

#[test]
fn invariant_10_a_copy_of_a_copy_carries_one_transfers_failure() {
    // The low half is on its way to dev1 when both halves are wanted next door: should it not arrive, the high half
    // is there all the same.
    let mut s = Script::new();
    let dev1 = s.device(1, 64);
    let context = s.context_of(dev1);
    let dev2 = s.device_in(context, 1, 64);
    let b = s.buffer(64);
    s.group("low").on(dev2).uses(b, line(0..32), Mode::Overwrite).submit();
    s.group("high").on(dev1).uses(b, line(32..64), Mode::Overwrite).submit();
    s.run_to_the_end();
    s.group("brings low").on(dev1).uses(b, line(0..32), Mode::Read).submit();
    let [(transfer, _)] = s.moved()[..] else { panic!("one step") };
    let both = s.group("both").reads(b).submit();
    assert_eq!(s.moved_boxes(), [(0, 32), (32, 64)]);
    let high_only = s.group("high only").uses(b, line(32..64), Mode::Read).submit();
    s.feed_all();
    s.fail(transfer, "broken");
    s.run_to_the_end();
    assert_eq!(s.end(both), Some(&Outcome::Doomed("broken")));
    assert!(s.is_done(high_only));
    s.assert_empty();
}

#[test]
fn invariant_11_what_cannot_fail_apart_goes_together() {
    let mut s = Script::new();
    let (dev1, dev2) = (s.device(1, 64), s.device(1, 64));
    let b = s.buffer(96);
    s.group("one").on(dev1).uses(b, line(0..64), Mode::Overwrite).submit();
    s.group("reader").on(dev1).uses(b, line(16..32), Mode::Read).submit();
    s.group("other").on(dev1).uses(b, line(64..96), Mode::Overwrite).submit();
    assert_eq!(s.engine.segments_of(b), 4);
    s.group("elsewhere").on(dev2).reads(b).submit();
    assert_eq!(
        s.moved_boxes(),
        [(0, 64), (64, 96)],
        "all that one group wrote, whoever has read parts of it"
    );
    s.run_to_the_end();
    s.group("host").reads(b).submit();
    assert_eq!(s.moved_boxes(), [(0, 96)], "and all that has settled");
    s.run_to_the_end();
    s.assert_empty();
}

#[test]
fn a_group_doomed_when_it_is_planned_moves_nothing() {
    let mut s = Script::new();
    let gpu = s.device(1, 64);
    let (a, b) = (s.buffer(64), s.data(64));
    let bad = s.group("bad").on(gpu).writes(a).submit();
    s.feed_all();
    s.fail(bad, "broken");
    let doomed = s.group("doomed").on(gpu).reads(a).reads(b).submit();
    assert!(s.moved().is_empty());
    let fed = s.feed_all();
    assert!(fed.iter().all(|g| !g.live));
    s.run_to_the_end();
    assert_eq!(s.end(doomed), Some(&Outcome::Doomed("broken")));
    s.assert_empty();
}

#[test]
fn a_group_is_not_its_own_predecessor() {
    // It writes part of what others read and reads the rest: it must not join the readers it waits for.
    let mut s = Script::new();
    let gpu = s.device(1, 64);
    let b = s.data(64);
    s.group("reader").on(gpu).reads(b).submit();
    let both = s
        .group("both")
        .on(gpu)
        .uses(b, line(0..32), Mode::Overwrite)
        .uses(b, line(32..64), Mode::Read)
        .submit();
    s.run_to_the_end();
    assert!(s.is_done(both));
    s.assert_empty();
}
