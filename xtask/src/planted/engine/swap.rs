//! Faults in swapping memory out and in.

use super::Fault;
use super::Found::{Script, Seed, Swapped};

pub(super) const FAULTS: &[Fault] = &[
    Fault {
        what: "what only the device has is not saved before it goes",
        found: &[Script("swap::what_cannot_come_back_is_in_the_heap")],
        changes: &[("swap.rs", "if is_written && !in_heap {", "if is_written && !in_heap && false {")],
    },
    Fault {
        what: "an older version goes by way of the heap, and is nowhere else",
        found: &[Swapped(84)],
        changes: &[(
            "swap/aside.rs",
            "segment.is_current_in(HEAP) && !segment.has_come_to(memory, is_live)",
            "segment.is_current_in(HEAP) && !segment.has_come_to(memory, is_live) && false",
        )],
    },
    Fault {
        what: "the heap takes data in while somebody counts on what it has",
        found: &[Swapped(0)],
        changes: &[(
            "swap/aside.rs",
            "self.is_used_in(id, HEAP) || self.is_older(id, memory)",
            "self.is_older(id, memory)",
        )],
    },
    Fault {
        what: "what could go nowhere but aside leaves as if the heap could take it in",
        found: &[Swapped(13), Script("swap::what_is_used_before_stays")],
        changes: &[(
            "swap/room.rs",
            "!self.is_used_in(id, HEAP) && (users",
            "!(self.is_used_in(id, HEAP) && false) && (users",
        )],
    },
    Fault {
        what: "what is aside and cannot come back counts as being in the heap",
        found: &[Swapped(7349)],
        changes: &[(
            "swap.rs",
            "(Some(cause), _) if is_aside =>",
            "(Some(cause), _) if is_aside && false =>",
        )],
    },
    Fault {
        what: "what was aside stays",
        found: &[Script("aside::what_a_host_accessor_waits_for_goes_aside")],
        changes: &[(
            "swap.rs",
            "if is_aside {\n            self.let_aside_go",
            "if is_aside && false {\n            self.let_aside_go",
        )],
    },
    Fault {
        what: "what a root has in two memories goes to one place aside",
        found: &[Swapped(1)],
        changes: &[(
            "swap/aside.rs",
            "Slot::Swapped(swap) if swap.is_aside))",
            "Slot::Swapped(swap) if swap.is_aside && false))",
        )],
    },
    Fault {
        what: "what could not be copied aside comes back all the same",
        found: &[Swapped(64)],
        changes: &[(
            "swap.rs",
            "if is_aside {\n            return self.stays",
            "if is_aside && false {\n            return self.stays",
        )],
    },
    Fault {
        what: "steps back wait for memory though what they bring has not left",
        found: &[Script("aside::what_is_aside_is_not_waited_for_in_vain")],
        changes: &[("swap/aside.rs", "        self.fail_steps(back, &cause, turn);\n", "")],
    },
    Fault {
        what: "what has not left a device that hangs counts as being in the heap",
        found: &[Script("aside::what_hangs_on_its_way_out_is_not_in_the_heap")],
        changes: &[(
            "swap.rs",
            "(_, Phase::Leaving | Phase::Away | Phase::Arriving) if !is_aside",
            "_ if !is_aside",
        )],
    },
    Fault {
        what: "what is aside, and nobody needs on the device any more, is lost if there is no room",
        found: &[Script("aside::what_is_aside_comes_back_for_nobody")],
        changes: &[(
            "swap/room.rs",
            "return is_aside.then_some(Wish",
            "return (is_aside && false).then_some(Wish",
        )],
    },
    Fault {
        what: "a copy by way of staging counts as what lacks only memory, whatever it waits for",
        found: &[Script("aside::a_copy_behind_who_waits_for_the_program_is_not_urgent")],
        changes: &[(
            "swap/room.rs",
            "Half::First => 1 + self.unstaged",
            "Half::First => 2 + 0 * self.unstaged",
        )],
    },
    Fault {
        what: "who waits for the program takes room from who could run",
        found: &[Script("aside::who_waits_for_the_program_takes_nothing_from_who_could_run")],
        changes: &[(
            "swap/room.rs",
            "!is_held || !self.has_who_could_run(*root, memory)",
            "true || !self.has_who_could_run(*root, memory)",
        )],
    },
    Fault {
        what: "what is just being copied to the host is not waited for",
        found: &[Script("aside::what_is_being_copied_to_the_host_is_waited_for")],
        changes: &[(
            "evict.rs",
            "is_under_way(node) && node.uses.iter().any(is_saved)",
            "false && is_under_way(node) && node.uses.iter().any(is_saved)",
        )],
    },
    Fault {
        what: "what was there before a failed version is not saved",
        found: &[Swapped(13)],
        changes: &[(
            "swap.rs",
            "Content::Written | Content::Poisoned(_) => {",
            "Content::Poisoned(_) => {}\n                Content::Written => {",
        )],
    },
    Fault {
        what: "a copy that came by way of staging counts as the heap's though that has changed since",
        found: &[Swapped(2172)],
        changes: &[(
            "swap/copies.rs",
            "does == Does::CopiesHeap(self.writers_in_heap)",
            "matches!(does, Does::CopiesHeap(_))",
        )],
    },
    Fault {
        what: "the heap is current though a guard may write a newer version",
        found: &[Swapped(1946)],
        changes: &[(
            "swap.rs",
            "segment.has_come_to(memory, is_live) && !may_change",
            "segment.has_come_to(memory, is_live) && !(may_change && false)",
        )],
    },
    Fault {
        what: "the heap is current with what has not come yet",
        found: &[Swapped(93)],
        changes: &[(
            "swap.rs",
            "segment.has_come_to(memory, is_live) && !may_change",
            "segment.is_current_in(memory) && !may_change",
        )],
    },
    Fault {
        what: "zeros do not come back",
        found: &[Swapped(30)],
        changes: &[(
            "swap.rs",
            "Content::Never if is_cleared => cleared.push(",
            "Content::Never if is_cleared && false => cleared.push(",
        )],
    },
    Fault {
        what: "memory goes while something runs with it",
        found: &[Swapped(3), Script("swap::what_only_the_device_has_is_saved_when_its_users_have_ended")],
        changes: &[("swap.rs", "if users.in_flight {", "if users.in_flight && false {")],
    },
    Fault {
        what: "who writes a part counts as who writes all",
        found: &[Swapped(27)],
        changes: &[(
            "node.rs",
            "(false, true) if bounds == extent => Does::Replaces",
            "(false, true) if bounds.hi <= extent.hi => Does::Replaces",
        )],
    },
    Fault {
        what: "a copy counts as the heap's after that was written",
        found: &[Swapped(2627)],
        changes: &[(
            "swap/copies.rs",
            "self.written.extend::<SmallVec<[MemoryId; 2]>>(other);",
            "self.like_heap.extend::<SmallVec<[MemoryId; 2]>>(other);",
        )],
    },
    Fault {
        what: "what is wanted first goes first",
        found: &[Script("swap::what_is_wanted_last_goes_first")],
        changes: &[("swap/lines.rs", ".rev()", "")],
    },
    Fault {
        what: "of what is wanted at once any goes first",
        found: &[Script("swap::of_what_is_wanted_at_once_the_cheapest_goes_first")],
        changes: &[(
            "swap/room.rs",
            "min_by(|(a, _), (b, _)| a.total_cmp(b))",
            "min_by(|_, _| std::cmp::Ordering::Equal)",
        )],
    },
    Fault {
        what: "a group takes room from itself",
        found: &[Script("swap::nobody_takes_room_from_itself")],
        changes: &[("swap/room.rs", "!is_own(root)", "!is_own(root) || true")],
    },
    Fault {
        what: "the way back is not urgent though the host waits for it",
        found: &[Script("swap::the_way_back_is_urgent_if_the_host_waits_for_it")],
        changes: &[("swap/room.rs", "is_held: is_held && !is_waited_for", "is_held: is_held")],
    },
    Fault {
        what: "who waits for others has room ahead as often as it likes",
        found: &[Script("ahead::who_waits_for_others_has_room_ahead_so_many_times")],
        changes: &[("swap/room.rs", "node.early += 1;", "node.early += 0;")],
    },
    Fault {
        what: "no more than two roots leave at once, however many have room",
        found: &[Script("ahead::three_are_swapped_out_at_once_where_there_is_room_for_many_four_times")],
        changes: &[("swap/room.rs", "SEVERAL.. => 2,", "SEVERAL.. => 1,")],
    },
    Fault {
        what: "a third root leaves for whom a second one leaves",
        found: &[Script("ahead::three_are_swapped_out_at_once_where_there_is_room_for_many_four_times")],
        changes: &[("swap/room.rs", "others.get(emptied - 1).copied()", "others.first().copied()")],
    },
    Fault {
        what: "who waits for a guard has room ahead, too",
        found: &[Script("ahead::who_waits_for_others_has_room_ahead_where_there_is_room_for_many")],
        changes: &[("node.rs", "self.waits_outside || ", "!self.is_guard && ")],
    },
    Fault {
        what: "what could not be saved is tried again",
        found: &[Script("swap::what_cannot_be_saved_stays")],
        changes: &[("swap/room.rs", "&& !root.copies.stay.contains(&memory)", "")],
    },
    Fault {
        what: "what is about to be replaced is not left to those that lack room",
        found: &[Script("swap::what_is_about_to_be_replaced_goes_to_who_came_before")],
        changes: &[("edges.rs", "&& self.gives_up_room(id, turn)", "&& false")],
    },
    Fault {
        what: "a group gives up what it is given, again and again",
        found: &[Script("swap::what_is_about_to_be_replaced_goes_to_who_came_before")],
        changes: &[("node.rs", "&& !self.gave_up && ", "&& ")],
    },
    Fault {
        what: "who gives up room has only its place on a list to be behind what it reads",
        found: &[Script("swap::who_gives_up_room_waits_for_what_it_reads")],
        changes: &[("edges.rs", "joins && !self.may_give_up_room(id)", "joins")],
    },
    Fault {
        what: "who might give up room is let onto a list without being asked",
        found: &[Script("swap::who_gives_up_room_waits_for_what_it_reads")],
        changes: &[("edges.rs", "only && !self.may_give_up_room(to)", "only")],
    },
    Fault {
        what: "memory is given up for a group that waits for something else",
        found: &[Script("swap::what_is_about_to_be_replaced_goes_to_who_came_before")],
        changes: &[("swap/replaced.rs", "&& self.lacks_only_memory(of.first)\n", "&& first.gates > 0\n")],
    },
    Fault {
        what: "memory is given up though what is replaced later is enough",
        found: &[Script("swap::nobody_gives_up_what_another_replaces_later")],
        changes: &[("swap/replaced.rs", "lacking > emptied + later", "lacking > emptied || later > lacking")],
    },
    Fault {
        what: "memory is given up for a group that came later",
        found: &[Script("swap::what_is_about_to_be_replaced_goes_to_who_came_before")],
        changes: &[("swap/replaced.rs", "first.submitted < submitted && ", "")],
    },
    Fault {
        what: "a late answer of a lost context is the heap's",
        found: &[Script("lost::what_a_lost_context_has_pinned_is_not_taken_for_the_heaps_own")],
        changes: &[("pinned.rs", "!= Some(by) {", "!= Some(by) && false {")],
    },
    Fault {
        what: "the end of a group on the list of a lost lane is not told",
        found: &[Script("lost::the_end_of_a_group_on_the_list_of_a_lost_lane_is_told_at_once")],
        changes: &[("lose.rs", "runs_there(node) || node.uses", "false && runs_there(node) || node.uses")],
    },
    Fault {
        what: "a copy out of lost memory is counted on until it has settled",
        found: &[Seed(2541), Script("lost::nobody_counts_on_a_copy_out_of_lost_memory")],
        changes: &[("lose.rs", "self.forget_doomed_copies(turn);", "")],
    },
    Fault {
        what: "the lines of users are not told that a node is held back by less",
        found: &[Swapped(32)],
        changes: &[(
            "edges.rs",
            "            self.stage(id, turn);\n        }\n        self.is_held_in_lines(id);",
            "            self.stage(id, turn);\n        }",
        )],
    },
    Fault {
        what: "the lines of users are not told that a node fails with one ahead",
        found: &[Swapped(80)],
        changes: &[("edges.rs", "self.ends_in_lines(to);", "")],
    },
    Fault {
        what: "the lines of users are not told of who waits for memory",
        found: &[Swapped(32)],
        changes: &[("plan.rs", "self.waits_in_line(id, root, memory);", "")],
    },
];
