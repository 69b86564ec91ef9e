//! Verdicts: when they come, and what they cover.

use std::sync::Arc;
use std::time::Instant;

use smallvec::SmallVec;
use windlass_backend::{
    Allocation, Arg, BufferArg, BuiltKernel, CompletionStrategy, DeviceKind, Group, HostMemory, LaneNumber,
    Point, Region, Wait,
};
use windlass_kernel::{LaunchRange, Slot, SlotAccess, Word};

use crate::rig::{Line, PATIENCE, Rig, bytes_of, copy, fill, kernel, launch, rigs, skipped, words};

/// A kernel that takes a while: each round needs the one before.
const CHURN: &str = "
__kernel void churn(__global uint *v, ulong v_at, ulong v_len, uint rounds) {
    uint x = v[v_at];
    for (uint i = 0; i < rounds; i++) x = x * 1664525u + 1013904223u;
    v[v_at] = x;
}";

const ROUNDS: u32 = 20_000_000;

fn churned() -> u32 {
    (0..ROUNDS).fold(0_u32, |x, _| x.wrapping_mul(1_664_525).wrapping_add(1_013_904_223))
}

struct Churn {
    built: Arc<dyn BuiltKernel>,
    memory: Arc<dyn Allocation>,
}

impl Churn {
    fn new(rig: &Rig) -> Self {
        let slots = [Slot::Buffer(SlotAccess::ReadWrite), Slot::Value(4)];
        Churn { built: rig.build(&kernel("churn", &slots, CHURN)).expect("it builds"), memory: rig.memory(4) }
    }

    fn feed(&self, line: &Line, point: u64) {
        self.feed_as(line, point, ROUNDS, |group| group);
    }

    fn feed_as(&self, line: &Line, point: u64, rounds: u32, how: impl FnOnce(Group<'_>) -> Group<'_>) {
        let region = Region::line(0, 4);
        let access = SlotAccess::ReadWrite;
        let rounds = rounds.to_ne_bytes();
        let args =
            [Arg::Buffer(BufferArg::new(&*self.memory, region, 4, access, Word::B4)), Arg::Value(&rounds)];
        let commands = SmallVec::from_iter([launch(&*self.built, 1.range(), &args)]);
        line.hand_over(how(Group::new(Point(point), &[], commands))).expect("it is fed");
    }
}

fn wait(lane: u32, point: u64) -> Wait {
    Wait::new(LaneNumber(lane), Point(point))
}

fn barrier(line: &Line, point: u64, waits: &[Wait]) {
    line.hand_over(Group::new(Point(point), waits, SmallVec::new())).expect("a barrier is fed");
}

#[test]
fn a_point_is_reported_once_it_is_passed_and_armed() {
    for rig in rigs() {
        let line = rig.line(0);
        let churn = Churn::new(&rig);
        churn.feed(&line, 3);
        churn.feed(&line, 5);
        line.lane.flush();
        line.lane.arm(Point(3));
        line.sink.wait(Point(3));
        let verdicts = line.sink.verdicts();
        assert_eq!((verdicts.len(), verdicts[0].upto), (1, Point(3)), "only what was armed is reported");
        line.lane.arm(Point(5));
        line.sink.wait(Point(5));
        assert_eq!(line.sink.verdicts().len(), 2);
        // Armed again after it was reported: reported again.
        line.lane.arm(Point(5));
        line.sink.wait_for(3);
        assert_eq!(line.sink.verdicts()[2].upto, Point(5));
        assert!(line.sink.failed().is_empty());
    }
}

#[test]
fn arming_after_completion_reports_too() {
    for rig in rigs() {
        let line = rig.line(0);
        let memory = rig.memory(4);
        for point in 1..=3 {
            line.feed(point, &[], fill(&*memory, Region::line(0, 4), &[1])).expect("it is fed");
        }
        line.lane.flush();
        std::thread::sleep(std::time::Duration::from_millis(50));
        assert!(line.sink.verdicts().is_empty(), "nothing was armed");
        for point in 1..=3 {
            line.lane.arm(Point(point));
            line.sink.wait(Point(point));
        }
        let reported: Vec<_> = line.sink.verdicts().iter().map(|v| v.upto).collect();
        assert_eq!(reported, [Point(1), Point(2), Point(3)]);
    }
}

/// Whatever else would report it, and nothing was asked to.
#[test]
fn a_look_reports_what_has_been_passed() {
    for rig in rigs() {
        let (line, memory, region) = (rig.line(0), rig.memory(64), Region::line(0, 64));
        for point in 1..=3 {
            line.feed(point, &[], fill(&*memory, region, &[1])).expect("it is fed");
        }
        line.lane.flush();
        let begun = Instant::now();
        while line.sink.verdicts().is_empty() {
            assert!(begun.elapsed() < PATIENCE, "on {}: it has ended, and no look finds out", rig.name);
            line.lane.look(Point(2));
        }
        assert!(line.sink.verdicts()[0].upto >= Point(2) && line.sink.failed().is_empty(), "on {}", rig.name);
        let told = line.sink.verdicts().len();
        line.lane.look(Point(2));
        assert_eq!(line.sink.verdicts().len(), told, "on {}: once is enough", rig.name);
        line.finish(3);
    }
}

/// Seen to fail with a poller that looks at points only that somebody waits for.
#[test]
fn what_nobody_waits_for_is_reported_all_the_same() {
    for rig in rigs() {
        let (line, churn) = (rig.line(0), Churn::new(&rig));
        for point in 1..=300 {
            churn.feed_as(&line, point, 1, |group| group.report(point % 50 == 0).at_leisure(true));
        }
        line.lane.flush();
        line.sink.wait(Point(300));
        for point in 301..=340 {
            churn.feed_as(&line, point, 1, |group| group);
        }
        line.lane.flush();
        line.lane.arm_at_leisure(Point(335));
        line.sink.wait(Point(335));
        line.finish(340);
        assert!(line.sink.failed().is_empty(), "on {}", rig.name);
    }
}

/// The lane is refilled behind it. Seen to fail with a poller that looks, while somebody waits for a later point, at nothing else.
#[test]
fn it_is_reported_while_somebody_waits_for_what_comes_later() {
    for rig in rigs() {
        let (line, churn) = (rig.line(0), Churn::new(&rig));
        churn.feed_as(&line, 1, 1, |group| group.report(true).at_leisure(true));
        for point in 2..=4 {
            churn.feed(&line, point);
        }
        line.finish(4);
        let verdicts = line.sink.verdicts();
        assert!(verdicts[0].upto < Point(4), "on {}: {:?}", rig.name, verdicts[0]);
    }
}

/// By the device's own clock. The machine may have other things to do, so there are some attempts.
#[test]
fn a_copy_runs_beside_a_kernel() {
    let runs_both = |rig: &Rig| {
        let kind = rig.context.info().devices[0].kind;
        rig.name.contains("pthread") || kind == DeviceKind::DiscreteGpu
    };
    let (meant, others): (Vec<_>, Vec<_>) = rigs().into_iter().partition(runs_both);
    others.iter().for_each(|rig| skipped(&format!("{} may run one command at a time", rig.name)));
    for rig in meant {
        let (kernels, copies, churn) = (rig.timed_line(0), rig.timed_line(1), Churn::new(&rig));
        let (bytes, whole) = (1 << 20, Region::line(0, 1 << 20));
        let (memory, host) =
            (rig.memory(bytes), rig.context.allocate_staging(bytes).expect("there is that much"));
        let copy = |point| {
            let commands = SmallVec::from_iter([copy(&*memory, whole, &*host, whole)]);
            let group = Group::new(Point(point), &[], commands).report(true).timed(true);
            copies.hand_over(group).expect("it is fed");
            copies.lane.flush();
        };
        copy(1);
        copies.sink.wait(Point(1));
        let meets = (1..=5).any(|attempt| {
            churn.feed_as(&kernels, attempt, ROUNDS, |group| group.report(true).timed(true));
            kernels.lane.flush();
            copy(attempt + 1);
            kernels.sink.wait(Point(attempt));
            copies.sink.wait(Point(attempt + 1));
            let (kernel, copied) = (kernels.time(attempt), copies.time(attempt + 1));
            kernel.started < copied.ended && copied.ended < kernel.ended
        });
        assert!(meets, "on {}: the copy waited for the kernel, five times", rig.name);
    }
}

#[test]
fn a_lane_waits_for_another() {
    for rig in rigs() {
        let (a, b) = (rig.line(0), rig.line(1));
        let churn = Churn::new(&rig);
        churn.feed(&a, 10);
        let host = HostMemory::zeroed(4).expect("there is room");
        let whole = Region::line(0, 4);
        // Points may be skipped: 12 is passed when 10 is.
        b.feed(1, &[wait(0, 12)], copy(&*churn.memory, whole, &host, whole)).expect("it is fed");
        // Lane a is flushed by the wait, or b could wait for ever on some drivers.
        b.finish(1);
        assert_eq!(words(&bytes_of(&host)), [churned()], "{}", rig.name);
        // Waits for what has ended, for what nobody fed, and for a lane that is gone are over.
        a.finish(10);
        drop(a);
        let over = [wait(0, 10), wait(1, 0), wait(7, 1)];
        b.feed(2, &over, fill(&*churn.memory, whole, &[1])).expect("it is fed");
        b.finish(2);
        assert!(b.sink.failed().is_empty());
    }
}

#[test]
fn barriers_pass_behind_what_they_follow() {
    for rig in rigs() {
        let (a, b) = (rig.line(0), rig.line(1));
        // Nothing to wait for: passed at once.
        barrier(&a, 1, &[]);
        a.lane.arm(Point(1));
        a.sink.wait_for(1);
        assert_eq!(a.sink.verdicts()[0].upto, Point(1));
        let churn = Churn::new(&rig);
        churn.feed(&a, 2);
        barrier(&a, 3, &[]);
        barrier(&b, 1, &[wait(0, 3)]);
        let (host, whole) = (HostMemory::zeroed(4).expect("there is room"), Region::line(0, 4));
        b.feed(2, &[], copy(&*churn.memory, whole, &host, whole)).expect("it is fed");
        b.finish(2);
        assert_eq!(words(&bytes_of(&host)), [churned()], "{}", rig.name);
        a.finish(3);
        assert_eq!(a.sink.verdicts().last().expect("it was reported").upto, Point(3));
    }
}

/// Verdicts that name no failure may overtake each other on their way to the sink, so their order says nothing.
#[test]
fn all_points_are_reported_under_arming_from_many_threads() {
    const POINTS: u64 = 2_000;
    for rig in rigs() {
        let line = rig.line(0);
        let memory = rig.memory(4);
        std::thread::scope(|scope| {
            let (sender, receiver) = std::sync::mpsc::channel();
            scope.spawn(|| {
                let sender = sender;
                for point in 1..=POINTS {
                    line.feed(point, &[], fill(&*memory, Region::line(0, 4), &[1])).expect("it is fed");
                    sender.send(point).expect("the other thread arms");
                    if point % 64 == 0 {
                        line.finish(point);
                    }
                }
            });
            scope.spawn(|| {
                let receiver = receiver;
                receiver.iter().for_each(|point| line.lane.arm(Point(point)));
            });
        });
        line.finish(POINTS);
        let reported = line.sink.verdicts().into_iter().map(|verdict| verdict.upto).max();
        assert_eq!(reported, Some(Point(POINTS)));
        assert!(line.sink.failed().is_empty());
    }
}

#[test]
fn a_lane_may_go_with_work_that_nobody_asked_about() {
    for rig in rigs() {
        let line = rig.line(0);
        let churn = Churn::new(&rig);
        churn.feed(&line, 1);
        // A pattern that is written from memory which the lane holds.
        let memory = rig.memory(12);
        line.feed(2, &[], fill(&*memory, Region::line(0, 12), &[1, 2, 3])).expect("it is fed");
        let sink = line.sink.clone();
        drop(line);
        assert!(sink.verdicts().is_empty());
        let other = rig.line(0);
        assert_eq!(other.download(1, &*memory), [1, 2, 3].repeat(4));
    }
}

/// Set in the processes that `a_crashed_kernel_is_a_lost_device` starts: how their lanes are to learn of it.
const CHILD: &str = "WINDLASS_TEST_CRASH";

/// Writes far outside its buffer: on a GPU a fault of the kernel's, on a CPU one of this process.
const CRASH: &str = "
__kernel void crash(__global uint *v, ulong v_at, ulong v_len) { v[v_at + (1ul << 44)] = 1; }";

const QUICK: &str = "
__kernel void quick(__global uint *v, ulong v_at, ulong v_len) { v[v_at] += 1; }";

/// In processes of their own, since a crash takes other contexts of the process with it. It needs a GPU: a processor's driver
/// runs kernels in this process, which would end with them. Without one the test says loudly that nothing was tested, and
/// where `WINDLASS_REQUIRE_GPU` is set, it fails.
#[test]
fn a_crashed_kernel_is_a_lost_device() {
    let gpus = rigs().iter().filter(|rig| is_gpu(rig)).count();
    if gpus == 0 {
        assert!(std::env::var_os("WINDLASS_REQUIRE_GPU").is_none(), "this machine must have a GPU");
        return skipped(&"no discrete GPU, and elsewhere a kernel that crashes ends the process");
    }
    let mut crashed = 0;
    for completion in [CompletionStrategy::Callback, CompletionStrategy::Waiter, CompletionStrategy::Poller] {
        let child = std::process::Command::new(std::env::current_exe().expect("the test has a path"))
            .args(["--exact", "completion::alone_with_a_crash", "--nocapture"])
            .env(CHILD, completion.to_string())
            .output()
            .expect("the test starts again");
        let said = String::from_utf8_lossy(&child.stdout) + String::from_utf8_lossy(&child.stderr);
        assert!(child.status.success() && said.contains("1 passed"), "{completion}: {said}");
        crashed += said.matches(CRASHED).count();
    }
    assert_eq!(crashed, gpus, "each GPU, each in every way in which it can learn of ends");
}

/// What a child says for each device whose kernel has crashed.
const CRASHED: &str = "a kernel has crashed on";

fn is_gpu(rig: &Rig) -> bool {
    rig.context.info().devices[0].kind == DeviceKind::DiscreteGpu
}

#[test]
fn alone_with_a_crash() {
    let Ok(completion) = std::env::var(CHILD) else { return };
    let gpus = rigs().into_iter().filter(is_gpu);
    for rig in gpus.filter(|r| r.completion.to_string() == completion) {
        let (a, b) = (rig.line(0), rig.line(1));
        let slots = [Slot::Buffer(SlotAccess::ReadWrite)];
        let built = rig.build(&kernel("crash", &slots, CRASH)).expect("it builds");
        let (memory, region) = (rig.memory(64), Region::line(0, 64));
        let access = SlotAccess::ReadWrite;
        let args = [Arg::Buffer(BufferArg::new(&*memory, region, 4, access, Word::B4))];
        // Quick ones around it, of which most go without an event where that saves time.
        let quick = rig.build(&kernel("quick", &slots, QUICK)).expect("it builds");
        let feed = |point| a.feed(point, &[], launch(&*quick, 1.range(), &args));
        (1..=200).try_for_each(feed).expect("they are fed");
        a.finish(200);
        (201..=300).try_for_each(feed).expect("they are fed");
        a.feed(301, &[], launch(&*built, 1.range(), &args)).expect("it is fed");
        // Behind it the driver may refuse some already.
        let last = (302..320).take_while(|point| feed(*point).is_ok()).last().unwrap_or(301);
        b.feed(1, &[wait(0, last)], fill(&*memory, region, &[1])).expect("it is fed");
        b.finish(1);
        a.finish(last);
        let (failed, others) = (a.sink.failed(), b.sink.failed());
        assert!(failed[0].first > Point(200), "what had been reported was well: {failed:?}");
        let all = |point| failed.iter().any(|f| f.first <= Point(point) && Point(point) <= f.last);
        assert!((301..=last).all(all), "none of those up to {last} may have ended well: {failed:?}");
        assert!(failed.iter().chain(&others).all(|f| f.error.is_lost()), "{failed:?}, {others:?}");
        let fed = a.feed(400, &[], fill(&*memory, region, &[1]));
        assert!(fed.as_ref().is_err_and(|e| e.is_lost()), "{fed:?}");
        println!("{CRASHED} {}", rig.name);
    }
}
