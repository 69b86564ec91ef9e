//! The cases, and which rows of the checklist each is about.
#![allow(unused_must_use, reason = "most groups here run unwatched; what they did is read from the data")]

mod completion;
mod copies;
mod devices;
mod failure;
mod flow;
mod guards;
mod kernels;
mod life;
mod memory;
mod order;
mod service;
mod stale;
mod steps;
mod verdicts;

use std::fmt;
use std::pin::Pin;

use crate::check::Verdict;
use crate::subject::Subject;

/// A case as a future; it may hold what belongs to one thread.
pub(crate) type Run<'s> = Pin<Box<dyn Future<Output = Verdict> + 's>>;

/// One thing that a valid backend does.
pub struct Case {
    /// Its name.
    pub name: &'static str,
    /// The rows of the checklist that it is about.
    pub rows: &'static [u8],
    /// Puts a subject through it.
    pub(crate) run: for<'s> fn(&'s Subject) -> Run<'s>,
}

impl fmt::Debug for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Case").field("name", &self.name).field("rows", &self.rows).finish_non_exhaustive()
    }
}

/// All cases.
pub fn cases() -> &'static [Case] {
    CASES
}

macro_rules! table {
    ($($module:ident { $($name:ident: $rows:expr;)* })*) => {
        static CASES: &[Case] = &[$($(
            Case { name: stringify!($name), rows: &$rows, run: |subject| Box::pin($module::$name(subject)) },
        )*)*];
    };
}

table! {
    devices {
        device_is_listed: [1, 3, 4, 17, 25, 30];
        device_is_selected: [27];
        queue_knows_where_it_is: [31];
        queues_share_the_default_context: [28];
    }
    kernels {
        reference_kernels_of_integers: [13, 157];
        reference_kernels_of_floats: [13];
        reference_kernel_histogram: [13, 51];
        reference_kernel_long_running: [13];
        reference_kernel_transpose: [13, 117];
        kernel_arguments_start_anywhere: [80];
        kernel_on_two_parts_of_one_buffer: [72];
        kernel_over_a_grid: [116, 117, 135];
        kernel_over_many_items: [13];
        kernel_on_a_part_of_a_grid: [80, 122];
        kernel_without_items: [116, 138];
        kernel_on_nothing: [116];
        bundle_is_built_when_it_is_told_to: [149];
    }
    copies {
        copy_and_fill_are_commands: [45];
        copy_of_a_box: [45, 116];
        copy_between_parts_of_two_ranks: [45, 116];
        fill_of_every_element_size: [45, 116];
        odd_bytes_by_commands: [45, 116];
        zero_elements: [116, 117];
        never_written_reads_as_zeros: [110];
        allocation_is_lazy_and_kept: [101, 102, 156];
        buffer_from_host_data: [108];
        last_bytes_inside_a_granule: [116];
        buffer_stays_where_it_is_put: [45];
        image_texels_move_as_elements: [45];
    }
    stale {
        no_init_moves_nothing: [51, 109];
        reading_before_writing_is_no_error: [64];
        never_written_moves_nothing: [110];
        current_data_moves_nothing: [111];
        readers_share_one_transfer: [111, 112];
        stale_ranges_only: [69, 70, 112];
        adjacent_ranges_in_one_transfer: [112];
        stale_box_of_a_grid_only: [67, 112];
        odd_bytes_move_by_granules: [67];
        keeping_write_fetches_its_range: [51];
        reading_moves_nothing_back: [113];
        writing_moves_nothing_back: [113];
        ping_pong: [78, 114];
        ping_pong_with_the_host: [114, 115];
        three_ways: [74, 100, 114, 115];
        union_of_modes_fetches: [50, 52, 57];
        unused_accessor_is_a_requirement: [49];
        only_what_is_written_is_stale: [56, 69];
    }
    memory {
        elements_of_another_type: [81];
        memory_of_the_programs_own: [107, 121];
        data_comes_home: [118, 119, 120];
        what_stays_is_refused_elsewhere: [128];
        pages_count_as_one: [66];
        evicted_and_brought_again: [102];
        data_is_brought_ahead: [45];
        poison_is_taken_for_good: [162];
        a_second_queue_takes_what_the_first_refuses: [60];
    }
    order {
        read_after_write: [73, 75];
        write_after_read: [73];
        write_after_write: [73];
        read_after_write_in_another_context: [75, 83];
        write_after_read_in_another_context: [73, 83];
        submission_order_decides: [39, 77];
        one_queue_or_three: [65];
        overlapping_ranges: [79, 80, 122];
        a_range_is_the_same_data: [72, 122];
        in_order_queue: [32];
        out_of_order_queue: [32, 73];
        lifted_edge_of_a_no_init_write: [76];
        many_threads_submit: [38, 39];
        group_runs_once_on_this_thread: [34];
        group_is_a_value: [37];
        several_commands_in_one_group: [57];
        depends_on_orders: [62, 89];
        after_end_orders: [62];
        after_a_future: [62, 84];
        barrier_without_commands: [46, 49];
        rendezvous_of_two_queues: [73];
        rendezvous_of_two_readers: [74];
        rendezvous_of_two_ranges: [79];
    }
    completion {
        await_early_late_and_twice: [88, 91];
        await_clones: [91];
        event_of_all: [35];
        dropped_events_run: [33, 41];
        blocking_wait_waits: [90];
        many_waiters: [91];
        status_tells: [35];
        waits_in_a_chain: [82];
        host_task_between_groups: [98];
        host_task_holds_nobody_up: [99];
        host_task_waits_for_readers: [98];
        host_task_changes_a_part: [80, 98];
    }
    guards {
        host_read_waits_for_writers: [92, 93];
        host_read_ignores_readers: [93];
        guard_holds_back_writers: [94, 95, 96];
        write_guard_holds_back_readers: [94];
        dropped_guard_future_leaves_no_trace: [92];
        guard_of_a_part: [92];
        host_write_is_seen: [92, 97];
        into_vec_gives_all_back: [118];
    }
    failure {
        build_error_tells_kernel_and_log: [161];
        kernel_fails_while_it_runs: [159];
        wrong_arguments_are_refused: [153, 158];
        wrong_windows_are_refused: [158];
        kernel_without_a_fitting_image: [158];
        host_task_errors_come_through: [159, 161];
        host_task_views_may_not_alias: [158];
        failing_future_fails_its_group: [62, 162];
    }
    verdicts {
        failure_follows_data: [162];
        ordered_only_runs: [162];
        explicit_dependency_carries_failure: [62, 162];
        full_write_heals: [162];
        versions_fail_and_regions_do_not: [162];
        cancelled_group_is_skipped: [46];
        cancel_keeps_previous: [46];
        cancel_comes_too_late: [46];
        unobserved_error_is_told_once: [159, 160];
        observed_error_is_not_told: [160];
    }
    life {
        buffer_dies_before_its_groups: [36, 118, 163];
        queue_dies_before_its_groups: [41, 163];
        buffers_are_forgotten: [163, 165];
        context_of_its_own_dies: [41, 163];
    }
    flow {
        saturation: [33];
        slot_reserves: [33];
        drained_waits_for_all: [40];
        later_accessor_counts_for_the_whole_group: [58];
        submit_is_never_refused: [33];
    }
    service {
        items_of_a_batch_have_their_own_answers: [];
        a_bad_item_of_a_batch_fails_alone: [];
        batches_are_ordered_by_their_data: [];
        bytes_stream_through_in_order: [];
        a_stream_ends_with_its_first_failed_part: [];
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_rows_exist() {
        let mut names: Vec<_> = cases().iter().map(|c| c.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), cases().len());
        assert!(cases().iter().flat_map(|c| c.rows).all(|r| (1..=179).contains(r)));
    }
}
