//! The devices on their own: they do what they are told, and notice what a runtime may not do.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex};

use futures_lite::future::block_on;
use smallvec::{SmallVec, smallvec};
use windlass_backend::{
    Allocation, Backend, BackendError, Command, Context, ContextSpec, CopyBox, DeviceKey, Fill, Group,
    HostMemory, Lane, LaneNumber, LaneSink, LaneSpec, MemoryIndex, MemoryObject, Point, Region, Verdict,
    Wait,
};
use windlass_faulty::{Faulty, FaultyControl, Memory};

/// Keeps what it is told.
#[derive(Clone, Default)]
struct Heard(Arc<Mutex<Vec<Verdict>>>);

impl LaneSink for Heard {
    fn passed(&self, verdict: Verdict) {
        self.0.lock().unwrap().push(verdict);
    }
}

impl Heard {
    /// How far each verdict went, and how many failures it named.
    fn verdicts(&self) -> Vec<(u64, usize)> {
        self.0.lock().unwrap().iter().map(|v| (v.upto.0, v.failed.len())).collect()
    }
}

struct Lab {
    faulty: Faulty,
    control: FaultyControl,
    context: Arc<dyn Context>,
    lanes: Vec<Arc<dyn Lane>>,
    heard: Vec<Heard>,
}

fn spec() -> ContextSpec {
    ContextSpec::new(vec![DeviceKey::new("faulty-0")], Arc::new(()))
}

fn lab() -> Lab {
    let faulty = Faulty::builder().device(Memory::Own).depth(3).build();
    let control = faulty.control();
    let context = block_on(faulty.open(spec())).unwrap();
    let heard = vec![Heard::default(), Heard::default()];
    let open = |i: usize| {
        context.open_lane(LaneSpec::new(0, LaneNumber(i as u32)), Arc::new(heard[i].clone())).unwrap()
    };
    let lanes = vec![open(0), open(1)];
    Lab { faulty, control, context, lanes, heard }
}

impl Lab {
    fn feed(&self, lane: usize, point: u64, waits: &[Wait]) -> Result<(), BackendError> {
        self.hand_over(lane, Group::new(Point(point), waits, SmallVec::new()))
    }

    fn hand_over(&self, lane: usize, group: Group<'_>) -> Result<(), BackendError> {
        // SAFETY: the tests keep the memory of their commands until the lane has run them, or see what it says of it.
        unsafe { self.lanes[lane].feed(group) }
    }

    fn memory(&self) -> Arc<dyn Allocation> {
        self.context.allocate(MemoryIndex::Own(0), MemoryObject::Buffer { bytes: 16 }).unwrap()
    }

    fn fill(&self, lane: usize, point: u64, memory: &dyn Allocation, value: u32) {
        let value = value.to_ne_bytes();
        let fill = Fill::new(memory, Region::line(0, 16), &value);
        self.hand_over(lane, Group::new(Point(point), &[], smallvec![Command::Fill(fill)])).unwrap();
    }

    /// What the one breach says.
    fn breach(&self, what: impl FnOnce(&Lab)) -> String {
        let _ = catch_unwind(AssertUnwindSafe(|| what(self)));
        let breaches = self.control.breaches();
        assert_eq!(breaches.len(), 1, "{breaches:?}");
        breaches[0].clone()
    }
}

fn wait(lane: u32, point: u64) -> Wait {
    Wait::new(LaneNumber(lane), Point(point))
}

#[test]
fn nothing_happens_before_it_is_told_to() {
    let lab = lab();
    lab.feed(0, 1, &[]).unwrap();
    lab.feed(1, 4, &[wait(0, 1)]).unwrap();
    lab.lanes[1].arm(Point(4));
    assert_eq!(lab.control.run_all(), 0, "nothing was flushed");
    lab.lanes.iter().for_each(|l| l.flush());
    assert_eq!((lab.control.waiting(), lab.heard[1].verdicts()), (2, vec![]));
    assert!(lab.control.step(), "only the first lane's group may run");
    assert_eq!(lab.control.waiting(), 1);
    lab.control.run_all();
    assert_eq!((lab.heard[0].verdicts(), lab.heard[1].verdicts()), (vec![], vec![(4, 0)]));
    lab.lanes[0].arm(Point(1));
    lab.control.run_all();
    assert_eq!(lab.heard[0].verdicts(), [(1, 0)], "armed late, told all the same");
    assert_eq!(lab.control.breaches(), Vec::<String>::new());
}

#[test]
fn copies_fills_and_scripted_failures() {
    let lab = lab();
    let (memory, host) = (lab.memory(), HostMemory::zeroed(16).unwrap());
    assert!(memory.host_ptr().is_none());
    let out = |point: u64| {
        let region = Region::line(0, 16);
        let copy = CopyBox::new((&*memory, region), (&host, region));
        lab.hand_over(0, Group::new(Point(point), &[], smallvec![Command::Copy(copy)])).unwrap();
    };
    lab.control.fail_point(0, 3, BackendError::Unsupported("three".into()));
    lab.fill(0, 1, &*memory, 7);
    out(2);
    lab.fill(0, 3, &*memory, 9);
    lab.lanes[0].flush();
    lab.lanes[0].arm(Point(3));
    lab.control.run_all();
    assert_eq!(lab.heard[0].verdicts(), [(3, 1)]);
    assert_eq!((lab.control.audit().bytes_copied, lab.control.audit().deepest), (16, 3));
    assert_eq!(
        host.try_into_vec::<u64>().map_err(|m| m.bytes()),
        Err(16),
        "fresh memory is aligned for more"
    );
    assert_eq!(lab.control.breaches(), Vec::<String>::new());
}

#[test]
fn a_lost_context_reports_what_was_fed_and_takes_no_more() {
    let lab = lab();
    lab.feed(0, 1, &[]).unwrap();
    lab.feed(0, 2, &[]).unwrap();
    lab.lanes[0].flush();
    lab.lanes[0].arm(Point(2));
    lab.control.run_one();
    lab.control.lose_devices("gone");
    lab.control.run_all();
    assert_eq!(lab.heard[0].verdicts(), [(2, 1)]);
    assert!(lab.feed(0, 3, &[]).unwrap_err().is_lost());
}

#[test]
fn breaches_are_noticed() {
    assert!(lab().breach(|l| drop((l.feed(0, 2, &[]), l.feed(0, 2, &[])))).contains("fed after"));
    assert!(lab().breach(|l| drop(l.feed(0, 1, &[wait(1, 1)]))).contains("not fed"));
    assert!(lab().breach(|l| drop(l.feed(0, 1, &[wait(7, 1)]))).contains("not fed"));
    assert!(lab().breach(|l| (1..5).for_each(|p| drop(l.feed(0, p, &[])))).contains("and the depth is 3"));
    assert!(lab().breach(|l| l.lanes[0].arm(Point(1))).contains("never fed"));
    let foreign = |l: &Lab| {
        let other = block_on(l.faulty.open(spec())).unwrap();
        l.fill(0, 1, &*other.allocate(MemoryIndex::Own(0), MemoryObject::Buffer { bytes: 16 }).unwrap(), 0);
    };
    assert!(lab().breach(foreign).contains("another context"));
    let short = |l: &Lab| {
        let memory = l.memory();
        let fill = Fill::new(&*memory, Region::line(8, 16), &[0; 4]);
        drop(l.hand_over(0, Group::new(Point(1), &[], smallvec![Command::Fill(fill)])));
    };
    assert!(lab().breach(short).contains("of an allocation of 16 bytes"));
    assert!(lab().breach(|l| l.fill(0, 1, &*l.memory(), 0)).contains("dropped before the verdicts"));
    let twice =
        |l: &Lab| drop(l.context.open_lane(LaneSpec::new(0, LaneNumber(1)), Arc::new(Heard::default())));
    assert!(lab().breach(twice).contains("two lanes"));
    let mut early = lab();
    early.feed(0, 1, &[]).unwrap();
    early.lanes.clear();
    assert!(early.breach(|_| ()).contains("lane was dropped"));
    let early = lab();
    early.feed(0, 1, &[]).unwrap();
    block_on(early.context.close());
    assert!(early.breach(|_| ()).contains("closed before"));
}
