//! Decisions 3, 4 and 5: what fails, what waits, and what moves is decided by versions, replicas and exact boxes.

#[path = "common/rig.rs"]
mod rig;

use rig::{Hold, Meeting, Rig, bump, contents, look, put, wait};
use windlass::prelude::*;

/// A group that writes `value` when it is let go, then fails if it is to.
fn slowly(queue: &Queue, x: &Buffer<u32>, hold: &Hold, value: u32, fails: bool) -> Event {
    let inside = hold.clone();
    let len = x.len();
    let event = queue.submit(|cg| {
        let x = cg.overwrite(x);
        cg.host_for(1, x, move |_, x| {
            inside.here();
            (0..len).for_each(|i| x.set(i, value));
            assert!(!fails, "the slow writer fails");
        })
    });
    event.unwrap()
}

#[test]
fn d03_a_writes_v1_slowly_d_writes_v2_elsewhere_and_a_then_fails() {
    let rig = Rig::new();
    let elsewhere = rig.elsewhere();
    let x = Buffer::from(vec![0_u32; 64]);
    let hold = Hold::new();
    let a = slowly(&rig.queue, &x, &hold, 1, true);
    let (r, _) = look(&rig.queue, &x);
    hold.wait_until_entered();
    wait(put(&elsewhere, &x, 2)).unwrap();
    assert!(!a.has_ended(), "D ran while A did");
    hold.let_go();
    assert!(wait(a).unwrap_err().is_panic());
    let error = wait(r).unwrap_err();
    assert!(error.is_dependency_failed() && error.root().is_panic(), "who read v1 fails: {error}");
    assert_eq!(contents(&x), [2; 64], "v2 is healthy");
    wait(bump(&rig.queue, &x)).unwrap();
    assert_eq!(contents(&x), [3; 64]);
}

#[test]
fn d03_the_same_in_one_memory() {
    let rig = Rig::new();
    let x = Buffer::from(vec![0_u32; 64]);
    let hold = Hold::new();
    let a = slowly(&rig.queue, &x, &hold, 1, true);
    let d = put(&rig.queue, &x, 2);
    let (r, seen) = look(&rig.queue, &x);
    hold.let_go();
    assert!(wait(a).unwrap_err().is_panic());
    wait(d).unwrap();
    wait(r).unwrap();
    assert_eq!(*seen.lock().unwrap(), [2; 64]);
}

#[test]
fn d03_a_write_that_keeps_counts_as_a_read() {
    let rig = Rig::new();
    let x = Buffer::from(vec![0_u32; 8]);
    let hold = Hold::new();
    let a = slowly(&rig.queue, &x, &hold, 1, true);
    let keep = rig.queue.submit(|cg| {
        let x = cg.write(&x);
        cg.host_for(1, x, |_, x| x.set(0, 5))
    });
    hold.let_go();
    assert!(wait(a).unwrap_err().is_panic());
    assert!(wait(keep.unwrap()).unwrap_err().is_dependency_failed());
}

#[test]
fn d03_only_the_boxes_that_failed_are_poisoned() {
    let rig = Rig::new();
    let x = Buffer::from(vec![1_u32; 30]);
    let hold = Hold::new();
    hold.let_go();
    let a = slowly(&rig.queue, &x.range(10..20), &hold, 9, true);
    assert!(wait(a).is_err());
    assert_eq!(contents(&x.range(..10)), [1; 10]);
    assert_eq!(contents(&x.range(20..)), [1; 10]);
    assert!(wait(x.range(19..21).host_read()).unwrap_err().is_dependency_failed());
    wait(put(&rig.queue, &x.range(10..15), 3)).unwrap();
    assert_eq!(contents(&x.range(..15))[8..12], [1, 1, 3, 3]);
    assert!(wait(x.host_read()).is_err(), "the rest of it still is");
}

/// Seen to fail when a failed write poisoned what later writes had put in its place, and when the state of the whole buffer
/// was told for each part of it.
#[test]
fn d03_a_region_is_poisoned_only_while_its_latest_version_is() {
    let rig = Rig::new();
    let elsewhere = rig.elsewhere();
    let x = Buffer::from(vec![0_u32; 30]);
    assert!(x.poison().is_none(), "nobody has used it");
    let hold = Hold::new();
    let a = slowly(&rig.queue, &x, &hold, 1, true);
    hold.wait_until_entered();
    wait(put(&elsewhere, &x.range(..10), 2)).unwrap();
    assert!(x.poison().is_none(), "A has not failed yet");
    hold.let_go();
    assert!(wait(a).is_err());
    assert!(x.range(..10).poison().is_none(), "v2 stands there");
    assert!(x.range(10..).poison().is_some_and(|error| error.is_panic()));
    assert!(x.range(9..11).poison().is_some());
    wait(put(&elsewhere, &x.range(10..20), 3)).unwrap();
    assert!(x.range(..20).poison().is_none() && x.poison().is_some());
    wait(put(&rig.queue, &x.range(20..), 4)).unwrap();
    assert!(x.poison().is_none());
    assert_eq!(contents(&x)[8..22], [2, 2, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 4, 4]);
}

#[test]
fn d04_the_transfer_for_e_must_not_overwrite_v1_before_r_has_it() {
    let rig = Rig::with_lanes(2);
    let [dev1, dev2, dev3] = [rig.elsewhere(), rig.elsewhere(), rig.elsewhere()];
    for round in 0..100 {
        let x = Buffer::<u32>::new(1 << (round % 12));
        let len = x.len();
        let hold = Hold::new();
        // A writes v1 on dev1; R on dev3 reads v1 by a transfer that is pending as long as A runs.
        let a = slowly(&dev1, &x, &hold, 1, false);
        let (r, r_saw) = look(&dev3, &x);
        // D writes v2 on dev2, and wants nothing of what was there: it waits for nobody.
        wait(put(&dev2, &x, 2)).unwrap();
        assert!(!a.has_ended() && !r.has_ended());
        // E on dev1 reads v2: its transfer comes behind A and behind the one that fetches v1 for R.
        let (e, e_saw) = look(&dev1, &x);
        assert!(!e.has_ended());
        hold.let_go();
        wait(Event::all([a, r, e])).unwrap();
        assert_eq!(*r_saw.lock().unwrap(), vec![1; len], "R reads v1, round {round}");
        assert_eq!(*e_saw.lock().unwrap(), vec![2; len], "E reads v2, round {round}");
        assert_eq!(contents(&x), vec![2; len]);
    }
    rig.settle();
}

#[test]
fn d04_a_context_of_its_own_is_a_memory_domain_of_its_own() {
    let rig = Rig::new();
    let elsewhere = rig.elsewhere();
    let x = Buffer::from(vec![1_u32; 1000]);
    wait(bump(&rig.queue, &x)).unwrap();
    assert_eq!(rig.stats().transfers, 0, "the runtime's own context works on the heap in place");
    wait(bump(&elsewhere, &x)).unwrap();
    let there = rig.stats();
    assert_eq!((there.transfers, there.bytes_moved), (1, 4000));
    assert_eq!(contents(&x), [3; 1000]);
    assert_eq!(rig.stats().transfers, 1, "the host has it where it is");
    wait(look(&rig.queue, &x).0).unwrap();
    let back = rig.stats();
    assert_eq!((back.transfers, back.bytes_moved), (2, 8000));
    // Both copies are good now: nothing moves for readers on either side.
    for queue in [&rig.queue, &elsewhere] {
        wait(look(queue, &x).0).unwrap();
    }
    assert_eq!(rig.stats().bytes_moved, back.bytes_moved);
}

#[test]
fn d04_a_write_elsewhere_that_wants_nothing_carries_no_edge_to_earlier_users() {
    let rig = Rig::new();
    let elsewhere = rig.elsewhere();
    let x = Buffer::from(vec![1_u32; 64]);
    let (before, inside) = (Hold::new(), Hold::new());
    let hold = before.clone();
    let reader = rig.queue.submit(|cg| {
        let x = cg.read(&x);
        cg.host_for(1, x, move |_, _| hold.here())
    });
    before.wait_until_entered();
    let writer = slowly(&elsewhere, &x, &inside, 5, false);
    inside.wait_until_entered();
    inside.let_go();
    wait(writer).unwrap();
    // On the same allocation it does carry one.
    let same = put(&rig.queue, &x, 6);
    wait(bump(&rig.queue, &Buffer::new(4))).unwrap();
    assert!(!same.has_ended());
    before.let_go();
    wait(reader.unwrap()).unwrap();
    wait(same).unwrap();
    assert_eq!(contents(&x), [6; 64]);
}

#[test]
fn d04_a_keeping_write_elsewhere_does_not_wait_for_readers_of_the_version_it_reads() {
    let rig = Rig::new();
    let elsewhere = rig.elsewhere();
    let x = Buffer::from(vec![1_u32; 64]);
    let hold = Hold::new();
    let inside = hold.clone();
    let reader = rig.queue.submit(|cg| {
        let x = cg.read(&x);
        cg.host_for(1, x, move |_, _| inside.here())
    });
    hold.wait_until_entered();
    wait(bump(&elsewhere, &x)).unwrap();
    hold.let_go();
    wait(reader.unwrap()).unwrap();
    assert_eq!(contents(&x), [2; 64]);
}

#[test]
fn d05_ten_elements_each_run_at_once() {
    let rig = Rig::new();
    let x = Buffer::from(vec![0_u32; 1024]);
    let meeting = Meeting::of(2);
    let events = [0..10, 10..20].map(|range| {
        let (x, meeting) = (x.range(range), meeting.clone());
        let event = rig.queue.submit(|cg| {
            let x = cg.read_write(&x);
            cg.host_for(1, x, move |_, x| {
                meeting.join();
                x.set(9, 1);
            })
        });
        event.unwrap()
    });
    wait(Event::all(events)).unwrap();
    let x = contents(&x);
    assert_eq!((x[9], x[19], x.iter().sum::<u32>()), (1, 1, 2));
}

#[test]
fn d05_a_write_of_ten_elements_leaves_the_other_1014_current_elsewhere() {
    let rig = Rig::new();
    let elsewhere = rig.elsewhere();
    let x = Buffer::from((0..1024).collect::<Vec<u32>>());
    wait(look(&elsewhere, &x).0).unwrap();
    let before = rig.stats();
    wait(put(&rig.queue, &x.range(..10), 7)).unwrap();
    let (event, seen) = look(&elsewhere, &x);
    wait(event).unwrap();
    let after = rig.stats();
    assert_eq!(after.bytes_moved - before.bytes_moved, 40);
    assert_eq!(after.transfers - before.transfers, 1);
    let seen = seen.lock().unwrap();
    assert!(seen[..10].iter().all(|&v| v == 7) && seen[10..].iter().zip(10..).all(|(&v, i)| v == i));
}

#[test]
fn d05_the_fewest_transfers_and_never_across_a_current_byte() {
    let rig = Rig::new();
    let elsewhere = rig.elsewhere();
    let x = Buffer::from(vec![1_u32; 1024]);
    wait(look(&elsewhere, &x).0).unwrap();
    let moved = |ranges: &[std::ops::Range<usize>]| {
        let before = rig.stats();
        for range in ranges {
            wait(put(&rig.queue, &x.range(range.clone()), 7)).unwrap();
        }
        wait(look(&elsewhere, &x).0).unwrap();
        let after = rig.stats();
        (after.transfers - before.transfers, after.bytes_moved - before.bytes_moved)
    };
    assert_eq!(moved(&[0..10, 10..20, 20..30]), (1, 120), "neighbours go together");
    assert_eq!(moved(&[0..10, 20..30]), (2, 80), "what lies between is current, and stays");
    assert_eq!(moved(&[5..10, 0..7]), (1, 40));
}

#[test]
fn d05_bytes_are_exact_to_four() {
    let rig = Rig::new();
    let elsewhere = rig.elsewhere();
    let x = Buffer::from((0..64).collect::<Vec<u8>>());
    // Seven bytes from the third on: whole granules would be 0..12, so the first two and the last three are kept.
    let event = elsewhere.submit(|cg| {
        let x = cg.overwrite(&x.range(2..9));
        cg.host_for(7, x, |item, x| x.set(item.id(0), 200))
    });
    wait(event.unwrap()).unwrap();
    let x = wait(x.host_read()).unwrap();
    let expected: Vec<u8> = (0..64).map(|i| if (2..9).contains(&i) { 200 } else { i }).collect();
    assert_eq!(x[..], expected);
}

#[test]
fn d05_never_written_and_not_wanted_data_is_never_moved() {
    let rig = Rig::new();
    let elsewhere = rig.elsewhere();
    let fresh = Buffer::<u32>::new(1024);
    let (event, seen) = look(&elsewhere, &fresh);
    wait(event).unwrap();
    assert_eq!(*seen.lock().unwrap(), [0; 1024]);
    let given = Buffer::from(vec![1_u32; 1024]);
    wait(put(&elsewhere, &given, 2)).unwrap();
    assert_eq!((rig.stats().transfers, rig.stats().bytes_moved), (0, 0));
}
