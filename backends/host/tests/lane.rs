//! The host backend through the contract alone: what a lane does, in which order, and what it tells.

#[path = "lane/commands.rs"]
mod commands;
#[path = "lane/support.rs"]
mod support;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Barrier, Mutex};
use std::thread;
use std::time::Duration;

use futures::executor::block_on;
use smallvec::SmallVec;
use windlass_backend::{
    Backend, BackendError, Lane, LaneNumber, LaneSink, LaneSpec, MemoryIndex, Point, Verdict, Wait,
};
use windlass_host::Host;
use windlass_kernel::{Block, LaunchRange, NdRange};

use support::{Told, feed, finish, once, one_lane, open, over, spec, try_feed};

#[test]
fn the_devices_describe_themselves() {
    let platforms =
        block_on(Host::with_devices(3).with_lanes(5).discover()).expect("the host is always there");
    let devices = &platforms[0].devices;
    let memories: Vec<_> = devices.iter().map(|d| d.memory).collect();
    assert_eq!(memories, [MemoryIndex::Heap, MemoryIndex::Own(0), MemoryIndex::Own(0)]);
    assert!(devices.iter().all(|d| d.lanes == 5 && d.aspects.is_sorted()));
    let context = block_on(Host::with_devices(3).open(spec(&[2, 0, 1]))).expect("both are there");
    let memories: Vec<_> = context.info().devices.iter().map(|d| d.memory).collect();
    let expected = [MemoryIndex::Own(0), MemoryIndex::Heap, MemoryIndex::Own(1)];
    assert_eq!(memories, expected, "in the order that was asked for");
    assert_eq!(context.info().memories.len(), 2);
    assert!(matches!(block_on(Host::new().open(spec(&[1]))), Err(BackendError::Lost(_))));
}

#[test]
#[cfg_attr(miri, ignore = "takes too long there: a hundred thousand groups")]
fn a_hundred_thousand_tiny_groups_run_in_order() {
    let (_context, lane, told) = one_lane();
    let ran = Arc::new(AtomicUsize::new(0));
    for point in 1..=100_000 {
        let ran = ran.clone();
        let body = move || {
            assert_eq!(ran.fetch_add(1, Ordering::Relaxed) + 1, point as usize);
        };
        feed(&lane, point, once(body));
    }
    finish(&lane, &told, 100_000);
    assert_eq!(ran.load(Ordering::Relaxed), 100_000);
    assert_eq!(told.failures(), []);
}

#[test]
fn points_are_told_armed_before_and_after_they_pass() {
    let (_context, lane, told) = one_lane();
    let gate = Arc::new(Barrier::new(2));
    let held = gate.clone();
    feed(&lane, 3, once(move || held.wait()));
    feed(&lane, 7, SmallVec::new());
    lane.arm(Point(3));
    lane.arm(Point(7));
    assert_eq!(told.upto(), 0, "nothing has passed");
    gate.wait();
    told.wait(7);
    let before = told.verdicts.lock().expect("no test panics here").len();
    lane.arm(Point(3));
    let after = told.verdicts.lock().expect("no test panics here").len();
    assert!(after > before, "a passed point is told inside `arm`");
}

#[test]
fn a_lane_that_runs_dry_says_so_unasked() {
    let (_context, lane, told) = one_lane();
    for point in 1..=10 {
        feed(&lane, point, once(|| ()));
    }
    told.wait(10);
}

#[test]
fn groups_wait_for_points_of_other_lanes() {
    let bench = open(Host::new(), &[0], 3);
    let order = Arc::new(Mutex::new(Vec::new()));
    let note = |what: &'static str, pause: u64| {
        let order = order.clone();
        once(move || {
            thread::sleep(Duration::from_millis(pause));
            order.lock().expect("no test panics here").push(what);
        })
    };
    let [(a, _), (b, _), (c, told)] = &bench.lanes[..] else { unreachable!("three were opened") };
    let wait = |lane, point| Wait::new(LaneNumber(lane), Point(point));
    feed(a, 5, note("a", 20));
    let (of_b, of_c) = ([wait(0, 5)], [wait(1, 1), wait(0, 5), wait(7, 100)]);
    try_feed(b, 1, &of_b, note("b", 5)).expect("the group is fine");
    try_feed(c, 9, &of_c, note("c", 0)).expect("lane 7 has ended long ago");
    finish(c, told, 9);
    assert_eq!(*order.lock().expect("no test panics here"), ["a", "b", "c"]);
}

#[test]
fn as_many_groups_as_lanes_can_wait_for_each_other() {
    let bench = open(Host::new().with_lanes(6), &[0], 6);
    let meeting = Arc::new(Barrier::new(6));
    for range in [1.range(), (1 << 16).range()] {
        let point = range.items() as u64;
        for (lane, _) in &bench.lanes {
            let meeting = meeting.clone();
            feed(
                lane,
                point,
                over(range, move |block| {
                    // One item of each launch meets those of the others.
                    if block.items().start == 0 {
                        meeting.wait();
                    }
                }),
            );
        }
        bench.lanes.iter().for_each(|(lane, told)| finish(lane, told, point));
    }
}

#[test]
fn a_panic_fails_its_point_and_the_lane_goes_on() {
    let (_context, lane, told) = one_lane();
    let later = Arc::new(AtomicUsize::new(0));
    feed(&lane, 1, once(|| ()));
    let mut commands = once(|| panic!("no {}", "luck"));
    commands.extend(once({
        let later = later.clone();
        move || later.fetch_add(100, Ordering::Relaxed)
    }));
    feed(&lane, 2, commands);
    feed(
        &lane,
        3,
        once({
            let later = later.clone();
            move || later.fetch_add(1, Ordering::Relaxed)
        }),
    );
    // What is thrown is leaked, by design, and of no size: those who look for leaks are not told of it.
    feed(&lane, 4, over((1 << 16).range(), |_| std::panic::panic_any(())));
    feed(&lane, 5, SmallVec::new());
    finish(&lane, &told, 5);
    let expected = [
        (2, 2, BackendError::Panicked("no luck".into())),
        (4, 4, BackendError::Panicked("a panic without a message".into())),
    ];
    assert_eq!(told.failures(), expected);
    assert_eq!(later.load(Ordering::Relaxed), 1, "the rest of the group did not run, the next group did");
}

/// Panics when it is dropped.
struct Bomb;

impl Drop for Bomb {
    fn drop(&mut self) {
        panic!("a bomb in a closure");
    }
}

#[test]
fn a_panic_in_a_drop_fails_its_point() {
    let (_context, lane, told) = one_lane();
    let bomb = Bomb;
    let mut commands = once(move || std::ptr::from_ref(&bomb));
    commands.extend(once(|| ()));
    feed(&lane, 1, commands);
    feed(&lane, 2, once(|| ()));
    finish(&lane, &told, 2);
    assert_eq!(told.failures(), [(1, 1, BackendError::Panicked("a bomb in a closure".into()))]);
}

#[test]
#[cfg_attr(miri, ignore = "takes too long there: a quarter of a million items")]
fn large_ranges_cover_every_item_once() {
    let (_context, lane, told) = one_lane();
    let ranges = [
        1.range(),
        97.range(),
        16_384.range(),
        (1 << 18).range(),
        [3, 77, 1001].range(),
        NdRange { global: [64], local: [1] }.range(),
        NdRange { global: [10, 40], local: [2, 4] }.range(),
    ];
    for (point, range) in (1..).zip(ranges) {
        let runs: Arc<Vec<AtomicUsize>> = Arc::new((0..range.items()).map(|_| AtomicUsize::new(0)).collect());
        let counted = runs.clone();
        feed(
            &lane,
            point,
            over(range, move |block| {
                assert_eq!(block.range(), range);
                for i in block.items() {
                    counted[i].fetch_add(1, Ordering::Relaxed);
                }
            }),
        );
        finish(&lane, &told, point);
        assert!(runs.iter().all(|r| r.load(Ordering::Relaxed) == 1));
        assert_eq!(Arc::strong_count(&runs), 1, "when a point is passed, nothing of its group is left");
    }
    assert_eq!(told.failures(), []);
}

/// Few items that take long are worth help, whatever their number. Seen to fail with a trial that never ends.
#[test]
#[cfg_attr(miri, ignore = "takes too long there: it sleeps")]
fn a_few_long_items_are_shared() {
    let (_context, lane, told) = one_lane();
    let threads = Arc::new(Mutex::new(Vec::new()));
    let seen = threads.clone();
    let body = move |block: Block<'_>| {
        for item in block.items() {
            thread::sleep(Duration::from_millis(1));
            seen.lock().expect("no test panics here").push((item, thread::current().id()));
        }
    };
    feed(&lane, 1, over(64.range(), body));
    finish(&lane, &told, 1);
    let mut seen = threads.lock().expect("no test panics here").clone();
    seen.sort_by_key(|(item, _)| *item);
    assert!(seen.iter().map(|(item, _)| *item).eq(0..64), "each item runs once");
    let is_shared = seen.iter().any(|(_, thread)| *thread != seen[0].1);
    assert_eq!(is_shared, thread::available_parallelism().is_ok_and(|cores| cores.get() > 1));
    assert_eq!(Arc::strong_count(&threads), 1, "when a point is passed, nothing of its group is left");
}

/// A panic in what is left of a launch that was tried.
#[test]
fn a_panic_behind_a_trial_fails_the_point() {
    let (_context, lane, told) = one_lane();
    let body = |block: Block<'_>| {
        for item in block.items() {
            thread::sleep(Duration::from_micros(100));
            assert!(item != 60, "item 60 is bad");
        }
    };
    feed(&lane, 1, over(64.range(), body));
    feed(&lane, 2, over(64.range(), |_| {}));
    finish(&lane, &told, 2);
    assert_eq!(told.failures(), [(1, 1, BackendError::Panicked("item 60 is bad".into()))]);
}

#[test]
fn blocks_hold_whole_work_groups() {
    let (_context, lane, told) = one_lane();
    let blocks = Arc::new(Mutex::new(Vec::new()));
    let seen = blocks.clone();
    feed(
        &lane,
        1,
        over(NdRange { global: [12], local: [4] }.range(), move |block| {
            seen.lock().expect("no test panics here").push((block.items().start, block.items().end));
        }),
    );
    finish(&lane, &told, 1);
    let mut blocks = blocks.lock().expect("no test panics here").clone();
    blocks.sort();
    let mut expected = 0;
    for (start, end) in blocks {
        assert!(start == expected && end > start && end % 4 == 0, "{start}..{end} after {expected}");
        expected = end;
    }
    assert_eq!(expected, 12);
}

#[test]
fn a_dropped_lane_finishes_its_queue() {
    let mut bench = open(Host::new(), &[0], 2);
    let (lane, told) = bench.lanes.remove(0);
    let gate = Arc::new(Barrier::new(2));
    let held = gate.clone();
    feed(&lane, 1, once(move || held.wait()));
    feed(&lane, 2, once(|| ()));
    drop(lane);
    let (other, others) = &bench.lanes[0];
    let wait = Wait::new(LaneNumber(0), Point(2));
    try_feed(other, 1, &[wait], SmallVec::new()).expect("the group is fine");
    assert_eq!((told.upto(), others.upto()), (0, 0));
    gate.wait();
    told.wait(2);
    finish(other, others, 1);
    // The worker's last act is to let go of its sink.
    while Arc::strong_count(&told) > 1 {
        thread::sleep(Duration::from_millis(1));
    }
}

/// Feeds the next group whenever one has ended.
struct Relay {
    lane: Mutex<Option<Arc<dyn Lane>>>,
    told: Told,
}

impl LaneSink for Relay {
    fn passed(&self, verdict: Verdict) {
        let next = verdict.upto.0 + 1;
        let lane = self.lane.lock().expect("no test panics here").clone();
        if let Some(lane) = lane.filter(|_| next <= 1000 && self.told.upto() + 1 < next) {
            self.told.passed(verdict);
            feed(&lane, next, once(|| ()));
            lane.arm(Point(next));
        } else {
            self.told.passed(verdict);
        }
    }
}

#[test]
fn a_sink_may_feed_and_arm() {
    let context = block_on(Host::new().open(spec(&[0]))).expect("the host is always there");
    let relay = Arc::new(Relay { lane: Mutex::default(), told: Told::default() });
    let lane = context.open_lane(LaneSpec::new(0, LaneNumber(0)), relay.clone()).expect("a lane opens");
    *relay.lane.lock().expect("no test panics here") = Some(lane.clone());
    feed(&lane, 1, SmallVec::new());
    lane.arm(Point(1));
    relay.told.wait(1000);
    relay.lane.lock().expect("no test panics here").take();
}
