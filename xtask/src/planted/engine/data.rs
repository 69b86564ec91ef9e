//! Faults in which copies are current, and what moves.

use super::Fault;
use super::Found::{OnData, Seed};

pub(super) const FAULTS: &[Fault] = &[
    Fault {
        what: "a write leaves the other replicas valid",
        found: &[Seed(1)],
        changes: &[("hazard.rs", "replica.valid = written;", "replica.valid = true;")],
    },
    Fault {
        what: "a no-init write fetches what was there",
        found: &[Seed(1)],
        changes: &[
            (
                "plan.rs",
                "if !access.mode.reads() {
                continue;",
                "if false {
                continue;",
            ),
            (
                "plan.rs",
                "!access.mode.reads()
            || self.roots",
                "self.roots",
            ),
        ],
    },
    Fault {
        what: "a keeping write fetches nothing",
        found: &[Seed(1)],
        changes: &[(
            "plan.rs",
            "if !access.mode.reads() {
                continue;",
            "if !access.mode.reads() || access.mode == Mode::Write {
                continue;",
        )],
    },
    Fault {
        what: "a transfer leaves its target stale, so that the next reader fetches again",
        found: &[Seed(2)],
        changes: &[(
            "transfer.rs",
            "true => entry.enter_writer(segments, inside),",
            "true => {
                entry.enter_writer(segments, inside);
                inside.iter().for_each(|&i| segments.get_mut(i).replica_mut(memory).valid = false);
            }",
        )],
    },
    Fault {
        what: "a transfer makes its target valid when it has ended, and not when it is planned",
        found: &[Seed(2)],
        changes: &[
            (
                "transfer.rs",
                "true => entry.enter_writer(segments, inside),",
                "true => {
                entry.enter_writer(segments, inside);
                inside.iter().for_each(|&i| segments.get_mut(i).replica_mut(memory).valid = false);
            }",
            ),
            (
                "settle.rs",
                "        self.release_readers(id, ended);
        let (is_done",
                "        for Use { root, memory, .. } in self.nodes[id].uses.clone() {
            let segments = &mut self.roots[root].segments;
            for at in (0..segments.len()).filter(|_| outcome == Outcome::Done) {
                let replica = segments.get_mut(at).replica_mut(memory);
                replica.valid |= replica.writer == Some(id);
            }
        }
        self.release_readers(id, ended);
        let (is_done",
            ),
        ],
    },
    Fault {
        what: "never-written data is fetched",
        found: &[Seed(14)],
        changes: &[(
            "segments.rs",
            "matches!(self.content, Content::Written) && !self.replica(memory)",
            "!matches!(self.content, Content::Poisoned(_)) && !self.replica(memory)",
        )],
    },
    Fault {
        what: "two stale boxes that touch are fetched one by one",
        found: &[Seed(1)],
        changes: &[(
            "plan.rs",
            "cover(&pieces).into_iter()",
            "pieces.iter().flat_map(|p| cover(std::slice::from_ref(p)))",
        )],
    },
    Fault {
        what: "stale boxes are fetched across the current bytes between them",
        found: &[Seed(2)],
        changes: &[(
            "plan.rs",
            "if segment.is_stale(memory) {",
            "let poisoned = segment.content.poison().is_some();
                if segment.is_stale(memory) || segments.len() > 1 && !poisoned {",
        )],
    },
    Fault {
        what: "several transfers come from a source where fewer would do",
        found: &[Seed(2)],
        changes: &[(
            "plan.rs",
            ".sources()
            .filter(|s| s.memory != target)",
            ".sources()
            .take(1)
            .filter(|s| s.memory != target)",
        )],
    },
    Fault {
        what: "a transfer carries versions that may fail apart",
        found: &[Seed(2), OnData(1482)],
        changes: &[(
            "plan.rs",
            "let may_fail = |id: &NodeId| self.nodes.contains(*id);",
            "let may_fail = |_: &NodeId| false;",
        )],
    },
    Fault {
        what: "a partial write marks the whole segment",
        found: &[Seed(3)],
        changes: &[(
            "plan.rs",
            "let inside = segments.carve(bounds, entry.read_sets);",
            "let inside = segments.overlapping(bounds);",
        )],
    },
    Fault {
        what: "a whole write does not heal poison",
        found: &[Seed(84)],
        changes: &[(
            "segments.rs",
            "        self.content.become_other(Content::Written, causes);
        self.author",
            "        if self.content.poison().is_none() {
            self.content = Content::Written;
        }
        self.author",
        )],
    },
    Fault {
        what: "a group that is doomed when it is planned moves data all the same",
        found: &[Seed(84)],
        changes: &[("plan.rs", "if !doomed {", "if true {")],
    },
    Fault {
        what: "a guard counts as the author of what it may write: those who come later fail with it",
        found: &[Seed(35)],
        changes: &[("hazard.rs", "if kind == Kind::Author {", "if true {")],
    },
    Fault {
        what: "copies that a guard made stale stay so though it never had its memory",
        found: &[Seed(35)],
        changes: &[("guard.rs", ".end_guard(id, wrote);", ".end_guard(id, true || wrote);")],
    },
    Fault {
        what: "a guard that overwrites fetches nothing, though it may be let go of before it has its memory",
        found: &[Seed(19), OnData(19)],
        changes: &[(
            "guard.rs",
            "let mode = if at_once { mode } else { kept(mode) };",
            "let _ = (at_once, kept(mode));",
        )],
    },
    Fault {
        what: "what was only in a lost context counts as still there",
        found: &[Seed(116)],
        changes: &[("lose.rs", "self.lose_data(&gone, &cause, hangs, turn);", "")],
    },
    Fault {
        what: "a copy is given to a lost device that shares the heap",
        found: &[Seed(38026)],
        changes: &[(
            "transfer.rs",
            "let alive = |d: &DeviceId| self.lost(*d).is_none();
        let (reader",
            "let alive = |_: &DeviceId| true;
        let (reader",
        )],
    },
    Fault {
        what: "a root goes when its last handle does, used or not",
        found: &[Seed(0)],
        changes: &[("root.rs", "if root.released && root.users == 0 {", "if root.released {")],
    },
];
