//! Faults of roots that stay in one memory, and of the heap's memory that a context pins.

use super::Fault;
use super::Found::{InChunks, OnData, Script, Seed};

pub(super) static FAULTS: &[Fault] = &[
    Fault {
        what: "memory changes hands without waiting for those who read it",
        found: &[Seed(24), OnData(52)],
        changes: &[(
            "mapping.rs",
            "entry.hazards(segments.get(i), Mode::Overwrite)",
            "entry.hazards(segments.get(i), Mode::Read)",
        )],
    },
    Fault {
        what: "a later reader does not wait until memory has changed hands",
        found: &[Seed(16), OnData(16)],
        changes: &[
            ("mapping.rs", "        entry.enter_step(&mut segments, &inside);\n", ""),
            (
                "plan.rs",
                "preds.node(entry.handed_over.filter(|_| !bounds.is_empty()), links::DATA);",
                "preds.node(entry.handed_over.filter(|_| false && !bounds.is_empty()), links::DATA);",
            ),
        ],
    },
    Fault {
        what: "memory that fails to change hands is used all the same",
        found: &[Seed(60), OnData(60)],
        changes: &[(
            "plan.rs",
            "preds.node(entry.handed_over.filter(|_| !bounds.is_empty()), links::DATA);",
            "preds.node(entry.handed_over.filter(|_| !bounds.is_empty()), links::NOTHING);",
        )],
    },
    Fault {
        what: "memory that has failed to change hands is used by those who come later",
        found: &[Seed(20829), OnData(20829)],
        changes: &[("settle.rs", "true => self.get_stuck(id, &cause, turn),", "true => {}")],
    },
    Fault {
        what: "a step that changes hands carries the failure of who wrote before it no further",
        found: &[Seed(60), OnData(60)],
        changes: &[(
            "hazard.rs",
            "replica.writer = Some(self.user.node);
            replica.leave_read_sets(self.read_sets);
        }
    }

    #[inline(always)]
    fn write",
            "replica.writer = Some(self.user.node);
            replica.fails_with = Some(self.user.node);
            replica.leave_read_sets(self.read_sets);
        }
    }

    #[inline(always)]
    fn write",
        )],
    },
    Fault {
        what: "a host accessor uses memory that devices have",
        found: &[Seed(16), OnData(16)],
        changes: &[("guard.rs", "let usable = self.hand_over(id, &access, turn);", "let usable = true;")],
    },
    Fault {
        what: "the host gets memory with what nobody has written",
        found: &[Seed(60), OnData(60)],
        changes: &[(
            "mapping.rs",
            "if to_host && !traits.zeroed {",
            "if false && to_host && !traits.zeroed {",
        )],
    },
    Fault {
        what: "the host gets memory though clearing it has failed",
        found: &[Seed(60), OnData(60)],
        changes: &[(
            "mapping.rs",
            "preds.node(segment.replica(home).and_then(|replica| replica.fails_with), DATA);",
            "",
        )],
    },
    Fault {
        what: "data is moved for who fails because memory is of no use",
        found: &[Seed(20829), OnData(20829)],
        changes: &[("plan.rs", "if usable && !at_hand {", "if !at_hand {")],
    },
    Fault {
        what: "a guard that overwrites is shown what nobody has cleared",
        found: &[Seed(17022), OnData(17022)],
        changes: &[("guard.rs", "if !zeroed && segments", "if false && !zeroed && segments")],
    },
    Fault {
        what: "memory that a group does not use any of changes hands for it",
        found: &[Seed(22), OnData(22)],
        changes: &[("mapping.rs", " && !access.bounds.is_empty()", "")],
    },
    Fault {
        what: "a root whose only memory is lost is used",
        found: &[Seed(1137), OnData(1137)],
        changes: &[(
            "mapping.rs",
            "entry.stuck.as_ref().or_else(|| self.lost_with(home))",
            "entry.stuck.as_ref().or_else(|| self.lost_with(home).filter(|_| false))",
        )],
    },
    Fault {
        what: "a copy from and to what another context has pinned goes at once",
        found: &[Seed(3935), OnData(3935)],
        changes: &[(
            "transfer.rs",
            "pinned_by.is_some() && pinned_by == device.context",
            "pinned_by.is_some()",
        )],
    },
    Fault {
        what: "heap memory that is there already counts as pinned",
        found: &[Seed(34), OnData(34)],
        changes: &[("pinned.rs", "if !there && is_small", "if is_small")],
    },
    Fault {
        what: "what a root has in pinned memory from the start goes through staging",
        found: &[InChunks(7)],
        changes: &[(
            "root.rs",
            "Initial::Pinned(_, by) => Some",
            "Initial::Pinned(_, by) if by == HEAP => Some",
        )],
    },
    Fault {
        what: "nobody counts what a root has in pinned memory from the start",
        found: &[InChunks(167)],
        changes: &[("root.rs", "self.count_slots(by, 1)", "self.count_slots(by, 0)")],
    },
    Fault {
        what: "pinned memory is not cleared where nothing comes",
        found: &[Seed(28), OnData(28), Script("pinned::pinned_memory_is_cleared_where_nothing_comes")],
        changes: &[(
            "pinned.rs",
            "Some(Pinning { by: pinned.by, clear })",
            "Some(Pinning { by: pinned.by, clear: clear.drain(..0).collect() })",
        )],
    },
    Fault {
        what: "pinned memory is cleared where the second copy comes",
        found: &[Seed(90), OnData(90), Script("pinned::pinned_memory_is_cleared_where_nothing_comes")],
        changes: &[("pinned.rs", "let arriving = moves.iter()", "let arriving = moves.iter().take(1)")],
    },
    Fault {
        what: "after a copy that failed, an accessor that overwrites shows what another root had",
        found: &[
            Script("pinned::an_accessor_that_overwrites_never_shows_what_another_root_had"),
            Script("pinned::an_accessor_of_a_part_has_the_rest_copied_first"),
        ],
        changes: &[("settle.rs", "                self.roots[root].expose(memory);\n", "")],
    },
    Fault {
        what: "memory to spare takes the place of what is kept outside an accessor's box",
        found: &[Script("pinned::an_accessor_of_a_part_has_the_rest_copied_first")],
        changes: &[("pinned.rs", "spare.take_if(|_| *bounds == entry.extent)", "spare.take()")],
    },
    Fault {
        what: "a host accessor has its data where a part of it is stale",
        found: &[Seed(21), OnData(21)],
        changes: &[(
            "guard.rs",
            "inside.iter().all(|at| entry.segments.get(*at).is_current_in(*memory))",
            "inside.iter().any(|at| entry.segments.get(*at).is_current_in(*memory))",
        )],
    },
    Fault {
        what: "a host accessor has its data in memory that the host does not reach",
        found: &[Seed(0), Script("guards::decision_22_a_guard_has_its_data_where_the_host_reaches_it")],
        changes: &[("guard.rs", "self.memories[memory.0 as usize].traits.addressable;", "memory.0 > 0;")],
    },
    Fault {
        what: "groups that write beside each other wait for each other",
        found: &[Seed(129), OnData(129)],
        changes: &[("hazard.rs", "if mode != Mode::Concurrent {", "if true {")],
    },
    Fault {
        what: "nobody waits for groups that write beside each other",
        found: &[Seed(83), OnData(83)],
        changes: &[("hazard.rs", "if mode != Mode::Concurrent {", "if false {")],
    },
    Fault {
        what: "who reads what groups wrote beside each other does not share their failure",
        found: &[Seed(85), OnData(85)],
        changes: &[("hazard.rs", "true => DATA,", "true => NOTHING,")],
    },
    Fault {
        what: "what one of several wrote beside each other and failed is taken for good",
        found: &[Seed(4176), OnData(4176)],
        changes: &[("settle.rs", "if wrote || beside || last {", "if wrote || last {")],
    },
    Fault {
        what: "memory is evicted that somebody counts on",
        found: &[Seed(19), OnData(19)],
        changes: &[(
            "evict.rs",
            "&& !self.is_used_in(root, memory)",
            "&& !(self.is_used_in(root, memory) && false)",
        )],
    },
    Fault {
        what: "the only copy is evicted",
        found: &[Seed(21), OnData(21)],
        changes: &[("evict.rs", "copy.memory != memory && has_come(copy)", "has_come(copy)")],
    },
    Fault {
        what: "what is known of a copy outlives its memory",
        found: &[Seed(3565), OnData(3565)],
        changes: &[("evict.rs", "segment.forget_copy(memory, read_sets)", "_ = (&segment, &read_sets)")],
    },
    Fault {
        what: "who evicts does not wait for readers",
        found: &[Script("evict::a_guard_behind_readers_waits_for_all_that_use_the_memory")],
        changes: &[(
            "guard.rs",
            "mode.writes() || behind_readers",
            "mode.writes() || behind_readers && false",
        )],
    },
    Fault {
        what: "poison that is cleared shows what other buffers had there",
        found: &[Script("evict::poison_that_is_cleared_shows_nothing_of_others")],
        changes: &[("evict.rs", "zeroed && !(memory == HEAP", "!(memory == HEAP")],
    },
    Fault {
        what: "who lacks memory waits for groups that lack some, too",
        found: &[Script("evict::who_lacks_memory_waits_for_those_who_run")],
        changes: &[
            ("evict.rs", "if !lines.is_any_under_way() {", "if !lines.is_any_under_way() && false {"),
            (
                "evict.rs",
                "waiting.any(|(id, _)| !stuck.contains(&id))",
                "waiting.any(|(id, _)| !stuck.contains(&id) || true)",
            ),
        ],
    },
    Fault {
        what: "what was used last is given up first",
        found: &[Script("evict::idle_memory_is_listed_as_it_is_to_go")],
        changes: &[("plan.rs", "entry.used_at = tally.nodes_visited;", "")],
    },
];
