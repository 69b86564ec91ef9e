//! Faults in who waits for whom.

use super::Fault;
use super::Found::{OnData, Seed};

pub(super) const FAULTS: &[Fault] = &[
    Fault {
        what: "a write does not wait for the readers of its replica",
        found: &[Seed(1)],
        changes: &[(
            "hazard.rs",
            "replica.read_sets.iter().for_each(|e| self.preds.after_read_set(*e, self.read_sets));",
            "",
        )],
    },
    Fault {
        what: "a write does not wait for the write before it",
        found: &[Seed(2), OnData(18)],
        changes: &[(
            "hazard.rs",
            "if replica.read_sets.is_empty() {
            self.preds.node(replica.writer, NOTHING);",
            "if replica.read_sets.is_empty() {",
        )],
    },
    Fault {
        what: "a read does not wait for the write it reads",
        found: &[Seed(0), OnData(0)],
        changes: &[("hazard.rs", "if mode.reads() {", "if false {")],
    },
    Fault {
        what: "every write orders behind users of every replica",
        found: &[Seed(5)],
        changes: &[(
            "hazard.rs",
            "if replica.memory == self.user.memory {",
            "if replica.memory == self.user.memory || mode.writes() {",
        )],
    },
    Fault {
        what: "two disjoint ranges of one buffer are ordered",
        found: &[Seed(3)],
        changes: &[(
            "plan.rs",
            "let met = segments.overlapping(bounds);",
            "let met = segments.overlapping(&Box3 { lo: [0; 3], hi: [usize::MAX; 3] });",
        )],
    },
    Fault {
        what: "a transfer does not wait for users of the memory it overwrites",
        found: &[Seed(15)],
        changes: &[(
            "transfer.rs",
            "inside.iter().for_each(|&i| entry.hazards(segments.get(i), mode));",
            "let read = inside.iter().filter(|_| !mode.writes());
        read.for_each(|&i| entry.hazards(segments.get(i), mode));",
        )],
    },
    Fault {
        what: "an upload does not wait for users of the memory it overwrites; copies in one step do",
        found: &[Seed(32), OnData(498)],
        changes: &[(
            "transfer.rs",
            "let mut entry = self.entry(user, preds, turn);
        inside.iter().for_each(|&i| entry.hazards(segments.get(i), mode));",
            "let is_upload = self.nodes[node].half == Half::Second;
        let mut entry = self.entry(user, preds, turn);
        inside.iter().filter(|_| !is_upload).for_each(|&i| entry.hazards(segments.get(i), mode));",
        )],
    },
    Fault {
        what: "a transfer does not count as a reader of its source",
        found: &[Seed(2)],
        changes: &[("transfer.rs", "false => entry.enter_reader(segments, inside),", "false => {}")],
    },
    Fault {
        what: "the first reader of an read_set is all that a writer waits for",
        found: &[Seed(180), OnData(180)],
        changes: &[(
            "hazard.rs",
            "        self.read_sets[id.0 as usize].join(self.user.realm);",
            "        if !self.read_sets[id.0 as usize].is_over() {
            return;
        }
        self.read_sets[id.0 as usize].join(self.user.realm);",
        )],
    },
    Fault {
        what: "readers join an read_set that covers more than they read",
        found: &[Seed(53)],
        changes: &[("read_set.rs", "!self.closed && self.segments as usize == segments", "!self.closed")],
    },
    Fault {
        what: "readers join an read_set that a writer waits for already",
        found: &[Seed(369)],
        changes: &[("preds.rs", "read_set.closed = true;", "")],
    },
    Fault {
        what: "a writer waits for the last reader that was fed, and not for those on other lanes",
        found: &[Seed(4842), OnData(4842)],
        changes: &[(
            "lanes.rs",
            "see(&mut group.last, lane, point);",
            "group.last.clear();
                see(&mut group.last, lane, point);",
        )],
    },
    Fault {
        what: "a read guard does not hold back writers on other replicas",
        found: &[Seed(2)],
        changes: &[("hazard.rs", "if (exclusive || writes) && held", "if exclusive && held")],
    },
    Fault {
        what: "a write guard holds back nobody",
        found: &[Seed(23)],
        changes: &[("hazard.rs", "if (exclusive || writes) && held", "if writes && !exclusive && held")],
    },
    Fault {
        what: "a guard does not wait for earlier users",
        found: &[Seed(2)],
        changes: &[(
            "guard.rs",
            "self.users_everywhere(root, &bounds, mode.writes() || behind_readers, &mut preds);",
            "",
        )],
    },
    Fault {
        what: "a guard waits for transfers, which change no data",
        found: &[Seed(2)],
        changes: &[(
            "guard.rs",
            "preds.node(replica.last_group, NOTHING);",
            "preds.node(replica.writer, NOTHING);",
        )],
    },
    Fault {
        what: "an explicit dependency is dropped",
        found: &[Seed(3)],
        changes: &[("plan.rs", "for after in plan.after {", "for after in &plan.after[..0] {")],
    },
    Fault {
        what: "groups of an in-order queue are not ordered",
        found: &[Seed(2)],
        changes: &[("plan.rs", "preds.node(plan.in_order, links::NOTHING);", "")],
    },
    Fault {
        what: "waits on other lanes are dropped",
        found: &[Seed(12), OnData(12)],
        changes: &[("edges.rs", "if point <= self.lanes[lane.0 as usize].passed {", "if true {")],
    },
    Fault {
        what: "a native wait is made for a point whose native call is still being made",
        found: &[Seed(26), OnData(26)],
        changes: &[
            (
                "edges.rs",
                "State::Queued(_) | State::Feeding(..) | State::Gated => found.scattered = true,",
                "State::Feeding(lane, point) => self.wait_natively(to, lane, point),
            State::Queued(_) | State::Gated => found.scattered = true,",
            ),
            (
                "edges.rs",
                "State::Gated | State::Queued(_) | State::Feeding(..));",
                "State::Gated | State::Queued(_));",
            ),
        ],
    },
    Fault {
        what: "the feed list is fed from its end",
        found: &[Seed(26), OnData(26)],
        changes: &[("lanes.rs", "lane.list.pop_front()?", "lane.list.pop_back()?")],
    },
    Fault {
        what: "a lane is fed beyond its depth",
        found: &[Seed(2)],
        changes: &[(
            "lanes.rs",
            "self.in_flight.is_empty() || self.weight + weight <= self.depth.commands;",
            "weight > 0;",
        )],
    },
    Fault {
        what: "a lane is asked to report a point while the native call there is still being made",
        found: &[Seed(2), OnData(2)],
        changes: &[(
            "lanes.rs",
            "if lane.held || lane.sentinel > lane.passed {",
            "if lane.sentinel > lane.passed {",
        )],
    },
    Fault {
        what: "groups run before their memory is there",
        found: &[Seed(0)],
        changes: &[(
            "plan.rs",
            "links::push(&mut self.edges, waiting, id, links::GATE);
        self.waits_in_line(id, root, memory);
        1",
            "let _ = waiting;
        0",
        )],
    },
    Fault {
        what: "an id that outlives its slot names whoever came next",
        found: &[Seed(1)],
        changes: &[(
            "ids.rs",
            "self.generation == Some(id.generation)",
            "self.generation.is_some() && id.generation > NonZeroU32::MIN",
        )],
    },
];
