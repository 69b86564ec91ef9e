//! Faults in how nodes end, and who is told.

use super::Fault;
use super::Found::{OnData, Script, Seed};

pub(super) const FAULTS: &[Fault] = &[
    Fault {
        what: "nobody waits for what was lost before it was fed and had to wait itself",
        found: &[Script("lost::what_a_lost_copy_waited_for_is_waited_for_behind_it")],
        changes: &[("settle.rs", "self.hand_on_waits(id, turn);", "")],
    },
    Fault {
        what: "nobody waits for what those on a lost lane had to wait for",
        found: &[Script("lost::what_a_lost_copy_waited_for_is_waited_for_behind_it")],
        changes: &[("lose.rs", "self.hand_on_lanes_waits(context, turn);", "")],
    },
    Fault {
        what: "the host does not wait for what was lost had to wait for",
        found: &[Script("lost::the_host_waits_for_what_a_lost_copy_had_to_wait_for")],
        changes: &[(
            "behind.rs",
            "} else if state == State::Gated",
            "} else if false && state == State::Gated",
        )],
    },
    Fault {
        what: "who waits for another context's copy waits for nothing that this waits for",
        found: &[Script("lost::what_a_lost_copy_waited_for_is_waited_for_behind_it")],
        changes: &[("lanes.rs", "self.wait_through_others(node, id);", "let _ = node;")],
    },
    Fault {
        what: "the cause of a failure is dropped where data is written anew",
        found: &[Seed(2)],
        changes: &[("segments.rs", "causes.push(cause);", "drop(cause);")],
    },
    Fault {
        what: "why a group was refused is dropped if its context has been lost meanwhile",
        found: &[Seed(808), OnData(808)],
        changes: &[("lanes.rs", "turn.causes.extend(refused);", "drop(refused);")],
    },
    Fault {
        what: "those who read what has failed are told when they end, and not at once",
        found: &[Seed(7)],
        changes: &[("settle.rs", "self.note_certain(behind, turn);", "let _ = behind;")],
    },
    Fault {
        what: "whoever is planned behind what will fail is told when that ends, and not at once",
        found: &[Seed(1)],
        changes: &[("edges.rs", "self.share_failure(from, to, carries);", "")],
    },
    Fault {
        what: "the readers of what has failed on a lane are told when it has the verdicts of its own inputs",
        found: &[Seed(23), OnData(23)],
        changes: &[(
            "lanes.rs",
            "None => self.fail(id, cause, turn),",
            "None => self.nodes[id].end = Some(super::End::Failed(cause)),",
        )],
    },
    Fault {
        what: "guards that are let go of count as conflicts until their turn comes",
        found: &[Script(
            "guards::decision_17_guards_that_are_let_go_of_while_another_is_held_cost_the_same_each",
        )],
        changes: &[(
            "guard.rs",
            "self.roots[root].guards.retain(|(guard, ..)| *guard != id);",
            "let _ = root;",
        )],
    },
    Fault {
        what: "a failed write does not poison what it wrote",
        found: &[Seed(90)],
        changes: &[("settle.rs", "if wrote || beside || last {", "if false {")],
    },
    Fault {
        what: "a failed write poisons later versions as well",
        found: &[Seed(32)],
        changes: &[(
            "settle.rs",
            "let wrote = !transfer && segment.author == Some(id);",
            "let wrote = !transfer;",
        )],
    },
    Fault {
        what: "a failed node does not take down those that read what it wrote",
        found: &[Seed(2), OnData(2)],
        changes: &[(
            "settle.rs",
            "SmallVec::from_iter([(self.nodes[id].out, kinds)])",
            "SmallVec::from_iter([(NONE, kinds)])",
        )],
    },
    Fault {
        what: "order alone carries failure",
        found: &[Seed(103), OnData(103)],
        changes: &[(
            "settle.rs",
            "let mut took_down = 0;",
            "todo.push((self.nodes[id].out_fed, super::links::FED));
        let mut took_down = 0;",
        )],
    },
    Fault {
        what: "a failed transfer poisons the version it carried",
        found: &[Seed(501)],
        changes: &[("settle.rs", "if wrote || beside || last {", "if wrote || carried {")],
    },
    Fault {
        what: "a failed transfer leaves its target valid",
        found: &[Seed(3982)],
        changes: &[("settle.rs", "if carried {", "if false {")],
    },
    Fault {
        what: "a cancelled group lets those behind it go before those ahead of it have ended",
        found: &[Seed(2)],
        changes: &[(
            "settle.rs",
            "        self.finish_pending(turn);
        Cancelled::Skipped",
            "        if self.nodes[id].state == State::Gated {
            self.count_fed(id, None, turn);
            self.release_readers(id, &mut SmallVec::new());
        }
        self.finish_pending(turn);
        Cancelled::Skipped",
        )],
    },
    Fault {
        what: "a cancelled group's output counts as written",
        found: &[Seed(161), OnData(161)],
        changes: &[(
            "settle.rs",
            "let (outcome, cause) = outcome_of(end);",
            "let (outcome, cause) = outcome_of(end);
        let cause = cause.filter(|_| !matches!(outcome, Outcome::Cancelled(_)));",
        )],
    },
    Fault {
        what: "a cancelled group that leaves what was there before leaves it well though it had failed",
        found: &[Seed(1363)],
        changes: &[(
            "settle.rs",
            "Some(End::Cancelled { leaves: leaves @ None, .. }) => *leaves = Some(cause.clone()),
                    Some(_) => continue,",
            "Some(_) => continue,",
        )],
    },
    Fault {
        what: "whoever explicitly depends on a cancelled group that leaves what was there before runs",
        found: &[Seed(1154)],
        changes: &[
            ("settle.rs", "self.doom_behind(id, cause, EVENT, turn);", "let _ = cause;"),
            (
                "settle.rs",
                "self.doom_behind(id, &cause, if keep { EVENT } else { DATA | EVENT }, turn);",
                "self.doom_behind(id, &cause, if keep { 0 } else { DATA | EVENT }, turn);",
            ),
        ],
    },
    Fault {
        what: "an order-only dependency carries failure",
        found: &[Seed(6)],
        changes: &[(
            "plan.rs",
            "if after.carries_failure { links::EVENT } else { links::NOTHING }",
            "links::EVENT",
        )],
    },
    Fault {
        what: "verdicts of what a node read are not awaited",
        found: &[Seed(7)],
        changes: &[("settle.rs", "if unsettled > 0 {", "if false {")],
    },
    Fault {
        what: "a verdict ends a group while its native call is still being made",
        found: &[Seed(40)],
        changes: &[("lanes.rs", "if !matches!(node.state, State::Feeding(..)) {", "if true {")],
    },
    Fault {
        what: "a proxy fires when its source has passed, and not when it has settled",
        found: &[Seed(580), OnData(580)],
        changes: &[(
            "settle.rs",
            "return self.await_verdicts(id, turn);",
            "self.await_verdicts(id, turn);
            turn.fired.extend(self.nodes[id].proxies.drain(..).map(|(_, proxy)| proxy));
            return;",
        )],
    },
    Fault {
        what: "nobody asks for the verdicts of what an awaited group has read",
        found: &[Seed(33), OnData(33)],
        changes: &[(
            "edges.rs",
            "while let Some(id) = todo.pop() {",
            "while let Some(id) = todo.pop().filter(|_| false) {",
        )],
    },
    Fault {
        what: "nobody asks for the verdict of an awaited group",
        found: &[Seed(22), OnData(22)],
        changes: &[("lanes.rs", "if !over && (wanted || self.is_late(lane, point)) {", "if false {")],
    },
    Fault {
        what: "what reports at leisure is not asked for when somebody comes to wait for it",
        found: &[
            Seed(59),
            Script("lanes::what_comes_to_be_waited_for_is_armed_though_it_reports_at_leisure"),
        ],
        changes: &[(
            "lanes.rs",
            "            Report::Yes => return false,",
            "            Report::Yes | Report::AtLeisure => return false,",
        )],
    },
    Fault {
        what: "who waits for a whole device does not hurry what is being fed",
        found: &[Script("lanes::who_waits_for_a_whole_device_hurries_it")],
        changes: &[(
            "lanes.rs",
            "if !over && (wanted || self.is_late(lane, point)) {",
            "if !over && wanted {",
        )],
    },
    Fault {
        what: "a verdict that was overtaken takes back the one that overtook it",
        found: &[Script("lanes::a_verdict_that_was_overtaken_changes_nothing")],
        changes: &[(
            "lanes.rs",
            "self.lane(lane).passed = self.lane(lane).passed.max(upto);",
            "self.lane(lane).passed = upto;",
        )],
    },
    Fault {
        what: "the memory of a lost context is freed while others copy from it",
        found: &[Script("lost::kept_memory_is_leaked_with_the_lane_that_it_was_kept_for")],
        changes: &[(
            "unused.rs",
            "filter(|(.., used)| used.iter().any(uses))",
            "filter(|(.., used)| used.is_empty() && used.iter().any(uses))",
        )],
    },
    Fault {
        what: "a lane of a queue's own goes while it has work",
        found: &[Script("lanes::a_lane_of_a_queues_own_takes_its_groups_alone_and_goes_with_it")],
        changes: &[(
            "unused.rs",
            "Closing::Lanes(device) if self.has_work(",
            "Closing::Lanes(device) if false && self.has_work(",
        )],
    },
    Fault {
        what: "a failed transfer whose source is lost leaves a version that is nowhere",
        found: &[Script("lost::a_copy_out_of_a_lost_memory_leaves_nothing")],
        changes: &[("settle.rs", "if wrote || beside || last {", "if wrote {")],
    },
    Fault {
        what: "what a hung device may touch is freed",
        found: &[Script("lost::what_a_hung_device_may_touch_is_leaked")],
        changes: &[("lose.rs", "        if hangs {", "        if false && hangs {")],
    },
    Fault {
        what: "who uses memory that was given up goes on with it",
        found: &[Seed(508)],
        changes: &[(
            "lose.rs",
            "|| self.given_up.contains(&(root, memory))",
            "|| false && self.given_up.contains(&(root, memory))",
        )],
    },
    Fault {
        what: "lost memory that was kept for a lane is freed when that lane hangs",
        found: &[Script("lost::kept_memory_is_leaked_with_the_lane_that_it_was_kept_for")],
        changes: &[("lose.rs", "kept.users().any(still_out)", "false && kept.users().any(still_out)")],
    },
];
