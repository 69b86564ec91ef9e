//! Faults in how memory is handed on from one root to the next.

use super::Fault;
use super::Found::{InSuccession, Script};

pub(super) const FAULTS: &[Fault] = &[
    Fault {
        what: "who need not wait for the users of what is going has its memory",
        found: &[Script("heirs::who_would_have_to_wait_has_memory_of_its_own"), InSuccession(9)],
        changes: &[("heirs.rs", "if self.comes_behind(&places, &users, context)", "if true")],
    },
    Fault {
        what: "who has the memory of another does not wait for its users",
        found: &[InSuccession(9)],
        changes: &[
            ("heirs.rs", "if self.comes_behind(&places, &users, context)", "if true"),
            ("heirs.rs", "ahead.nodes.extend(users.nodes);", ""),
            ("heirs.rs", "ahead.read_sets.extend(users.read_sets);", ""),
        ],
    },
    Fault {
        what: "readers that do not follow each other count as one row",
        found: &[InSuccession(11_925)],
        changes: &[(
            "heirs.rs",
            "LastReader::One(_, last, _) if !chain.is_behind(last) && self.unsettled > 1 => {",
            "LastReader::One(_, last, _) if false && !chain.is_behind(last) => {",
        )],
    },
    Fault {
        what: "two follow one",
        found: &[InSuccession(540)],
        changes: &[("heirs.rs", "node.is_followed = true;", "")],
    },
    Fault {
        what: "each of those that hold an allocation frees it",
        found: &[Script("heirs::whoever_goes_last_frees_it"), InSuccession(12)],
        changes: &[(
            "heirs.rs",
            "Some(share) => self.shares.leave(share, leaks),",
            "Some(_) => Some(leaks),",
        )],
    },
    Fault {
        what: "a root that is not written as a whole has the memory of another",
        found: &[Script("heirs::what_is_not_fit_is_not_handed_on"), InSuccession(295)],
        changes: &[("heirs.rs", "if !is_first || !replaces(root) {", "if !is_first {")],
    },
    Fault {
        what: "zeroed memory is handed on",
        found: &[Script("heirs::zeroed_memory_is_not_handed_on"), InSuccession(599)],
        changes: &[("heirs.rs", "if traits.zeroed || self.lines", "if self.lines")],
    },
    Fault {
        what: "what the program has seen is handed on",
        found: &[Script("heirs::what_is_not_fit_is_not_handed_on")],
        changes: &[("heirs.rs", "&& !self.is_kept;", ";")],
    },
    Fault {
        what: "what a hung device may touch stays with those who have it from others",
        found: &[Script("heirs::what_a_hung_device_may_touch_is_lost_to_all_who_hold_it")],
        changes: &[("lose.rs", "self.with_all_holders(&mut gone.given_up);", "")],
    },
    Fault {
        what: "memory is handed on that other contexts use",
        found: &[Script("heirs::what_other_contexts_use_is_not_handed_on")],
        changes: &[
            (
                "heirs.rs",
                "nodes.all(|node| self.context_at(node.place) == context && is_passed(node.chain))",
                "nodes.all(|node| is_passed(node.chain))",
            ),
            (
                "heirs.rs",
                "LastReader::One(_, chain, of) => of == context && is_passed(chain),",
                "LastReader::One(_, chain, _) => is_passed(chain),",
            ),
            (
                "heirs.rs",
                "before.chain.is_some() && self.context_at(before.place) == context",
                "before.chain.is_some() && self.context_at(before.place).is_some()",
            ),
        ],
    },
];
