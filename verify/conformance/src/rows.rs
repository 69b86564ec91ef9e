//! Rows of the checklist that no case of the suite is about: the tests that are, and the rows for which
//! `docs/deviations.md` has a line, because they are not there, not in full, or otherwise.

/// Rows and tests elsewhere, each with its file.
pub(crate) const ELSEWHERE: &[(&[u8], &str, &str)] = &[
    (&[2], "row_02_a_platform_without_devices_is_listed", CHOICE),
    (&[3, 5, 6], "rows_3_5_6_platforms_are_found_by_backend_and_selector", VIEWS),
    (&[7], "an_unavailable_backend_says_why", "verify/faulty/tests/scenarios/failures.rs"),
    (&[7, 8, 9], "the_tour_without_drivers", "examples/tests/run.rs"),
    (&[8, 23], "invariant_15_no_driver_is_linked_and_work_on_the_host_loads_none", INVARIANTS),
    (&[10, 44, 89, 114], "every_pair_of_devices", MIXED),
    (&[10, 44, 114], "random_programs_on_all", MIXED),
    (&[20], "contexts_are_of_one_platform", MIXED),
    (&[11], "row_11_a_build_says_which_backends_it_has", VIEWS),
    (&[12], "d32_what_is_awaited_blocks_another_thread", "runtime/tests/life.rs"),
    (&[14], "the_example_conforms", "verify/conformance/tests/example_backend.rs"),
    (&[15, 30], "rows_15_30_devices_say_which_hardware_and_extensions_they_are", CHOICE),
    (&[16], "row_16_a_device_of_built_in_kernels_alone_refuses_others", REFUSALS),
    (&[18], "row_18_device_variable", "runtime/src/device/filter.rs"),
    (&[18], "the_variable_loads_no_other_driver", CHOICE),
    (&[18], "the_tour_on_a_device_that_is_not_there", "examples/tests/run.rs"),
    (&[19], "every_rule_can_be_broken", "xtask/tests/tidy.rs"),
    (&[21], "one_context_copies_inside_or_not_at_all", "verify/faulty/tests/scenarios/transfers.rs"),
    (&[22], "row_22_devices_that_no_context_has_together_are_named", CHOICE),
    (&[26], "row_26_the_default_choice_is_told_and_always_the_same", CHOICE),
    (&[23, 24], "d32_making_a_runtime_touches_no_driver", "runtime/tests/life.rs"),
    (&[29], "the_strongest_atomics_count", "backends/opencl/src/device.rs"),
    (&[29], "a_device_without_the_order_says_so", ORDERS),
    (&[33], "invariant_03_a_submission_costs_the_same_with_any_number_outstanding", INVARIANTS),
    (&[43], "invariant_07_poll_drives_nothing", INVARIANTS),
    (&[47, 68, 71, 87], "random_programs_agree", "runtime/engine/tests/oracle/main.rs"),
    (&[48, 76], "hazards_are_per_replica", "verify/faulty/tests/scenarios/order.rs"),
    (&[50], "row_50_order_of_definition_does_not_matter", ACCESS),
    (&[52], "row_52_union_table", ACCESS),
    (&[53, 54], "rows_53_54_union_is_a_semilattice_and_atomic_is_read_write", ACCESS),
    (&[48, 102], "what_is_evicted_is_freed_and_brought_again", "runtime/engine/tests/script/evict.rs"),
    (&[66], "row_66_groups_that_use_parts_of_one_page_are_ordered", VIEWS),
    (&[80], "row_80_a_host_task_reads_a_part_as_a_guard_shows_it", "runtime/tests/grids.rs"),
    (&[81], "row_81_views_of_all_types_are_one_buffer", VIEWS),
    (&[66, 67, 71], "decision_5_boxes_are_exact", "runtime/engine/tests/script/data.rs"),
    (&[85], "row_85_an_address_alone_orders_nothing", CONCURRENT),
    (&[86, 131, 133], "row_86_concurrent_requirements_do_not_order", CONCURRENT),
    (&[86, 131], "groups_add_to_shared_memory_at_the_same_time", ADDRESSES),
    (&[103, 106], "an_address_stays_what_it_is", ADDRESSES),
    (&[124], "row_124_an_image_has_a_texel_at_least", IMAGES),
    (&[124], "sizes_and_what_is_outside", IMAGES),
    (&[124, 125], "is_read_and_written", IMAGES),
    (&[124, 126], "pictures_are_sampled_by_their_definition", IMAGES),
    (&[124, 126], "volumes_are_sampled_by_their_definition", IMAGES),
    (&[127], "row_127_images_are_ordered_and_moved_as_buffers_are", IMAGES),
    (&[128], "what_stays_in_one_memory_is_refused_elsewhere", "verify/faulty/tests/scenarios/memories.rs"),
    (&[129], "levels_of_shared_memory_are_told", ADDRESSES),
    (&[130, 132], "a_kernel_follows_addresses", ADDRESSES),
    (&[132], "a_kernel_is_given_an_address", ADDRESSES),
    (&[87], "decision_1_ties_are_broken_by_submission", "runtime/engine/tests/script/lanes.rs"),
    (&[104], "outside_the_range_nothing_is_read_and_nothing_written", MEMORY),
    (&[117], "row_117_subscripts_nest", VIEWS),
    (&[118, 120], "row_120_the_last_handle_brings_the_data_home", ATTACHED),
    (&[119], "row_119_what_nobody_has_written_is_not_given_back", ATTACHED),
    (&[119], "row_119_a_scope_gives_back_what_was_written_and_nothing_else", ATTACHED),
    (
        &[121],
        "row_121_host_memory_comes_from_an_allocator_of_the_programs",
        "runtime/tests/host_allocator.rs",
    ),
    (&[117], "views_have_rows_and_columns", MEMORY),
    (
        &[123, 126, 153, 154, 167],
        "what_must_not_compile_does_not_and_says_why",
        "verify/compile-tests/tests/compile_fail.rs",
    ),
    (&[135], "launches_have_the_dimensions_that_they_were_given", MEMORY),
    (&[135, 136], "launches_that_do_not_fit_are_refused", GROUPS),
    (&[137], "groups_know_where_they_are", GROUPS),
    (&[140, 141], "a_tree_of_sums", GROUPS),
    (&[140], "tiles_sized_at_launch", GROUPS),
    (&[141], "corners_of_groups", GROUPS),
    (&[142], "sub_groups_work_together", "verify/conformance/tests/language/subgroups.rs"),
    (&[143], "sums_and_extremes_of_a_range", REDUCE),
    (&[143], "groups_of_any_size_are_summed", REDUCE),
    (&[143], "an_operator_of_the_users", REDUCE),
    (&[144], "all_orders_work_where_they_are", ORDERS),
    (&[144, 145], "what_was_released_is_seen_by_who_acquires_it", ORDERS),
    (&[145], "fences_stand_around_what_they_order", ORDERS),
    (&[148], "built_in_kernels_are_listed", NATIVE),
    (&[148], "a_built_in_kernel_that_no_device_has_is_refused_by_name", NATIVE),
    (
        &[149],
        "row_149_kernels_say_what_they_are_and_a_bundle_builds_them_when_it_is_told_to",
        "runtime/tests/bundles.rs",
    ),
    (&[150], "d09_a_kernel_is_built_once_for_all_who_ask", "runtime/tests/overlap.rs"),
    (&[150], "compiled_kernels_are_kept_and_used_only_if_whole", "verify/conformance/tests/cache.rs"),
    (&[151], "a_kernel_that_was_compiled_before_runs_on_its_device", NATIVE),
    (&[151], "a_kernel_in_spirv_runs_where_it_is_taken", NATIVE),
    (&[151], "a_shader_runs_on_vulkan", "verify/conformance/tests/spirv.rs"),
    (&[155], "views_have_rows_and_columns", MEMORY),
    (&[155], "a_slice_with_a_shape_is_a_grid", "runtime/tests/run_here.rs"),
    (&[164], "dropping_everything_at_every_moment", "verify/faulty/tests/scenarios/drops.rs"),
    (&[166], "no_poll_makes_a_native_call", "verify/faulty/tests/scenarios/costs.rs"),
    (&[166], "invariant_07_a_poll_does_not_take_the_engines_lock", "runtime/src/event.rs"),
    (
        &[166],
        "decision_23_freeing_an_unrelated_buffer_while_a_kernel_runs_is_left_to_the_reaper",
        "verify/faulty/tests/scenarios/off_path.rs",
    ),
    (
        &[164, 168, 169, 170, 172, 176],
        "a_context_of_the_programs_own_is_one_of_the_runtimes",
        "verify/conformance/tests/interop_opencl.rs",
    ),
    (
        &[164, 172, 173],
        "memory_of_the_programs_own_is_a_buffer",
        "verify/conformance/tests/interop_opencl.rs",
    ),
    (
        &[169, 170],
        "groups_are_commands_of_the_programs_own_queue",
        "verify/conformance/tests/interop_opencl/queues.rs",
    ),
    (
        &[164, 169, 172],
        "references_to_the_programs_queue_are_given_back",
        "verify/conformance/tests/interop_opencl/queues.rs",
    ),
    (
        &[169],
        "what_is_no_queue_of_the_context_is_refused",
        "verify/conformance/tests/interop_opencl/queues.rs",
    ),
    (&[169], "a_native_queue_is_a_lane_of_one_queues_own", "verify/faulty/tests/scenarios/interop.rs"),
    (&[164, 172], "no_object_of_wgpus_is_left", "verify/conformance/tests/interop_wgpu.rs"),
    (
        &[168, 169, 170, 176],
        "a_device_of_the_programs_own_is_one_of_the_runtimes",
        "verify/conformance/tests/interop_wgpu.rs",
    ),
    (
        &[170, 171, 174],
        "commands_of_the_programs_own_have_their_place",
        "verify/conformance/tests/interop_opencl.rs",
    ),
    (
        &[170, 171, 174],
        "commands_of_the_programs_own_have_their_place",
        "verify/conformance/tests/interop_wgpu.rs",
    ),
    (&[178], "parts_of_a_device_are_devices", "verify/conformance/tests/parts.rs"),
    (&[175], "host_conforms", "verify/conformance/tests/host.rs"),
    (&[175], "opencl_conforms", "verify/conformance/tests/opencl.rs"),
    (&[175], "wgpu_conforms", "verify/conformance/tests/wgpu.rs"),
    (&[177], "row_177_one_program_runs_unchanged_on_each_backend", "examples/tests/run.rs"),
    (&[177], "many_devices", "examples/tests/run.rs"),
];

const ATTACHED: &str = "runtime/tests/attached.rs";
const CHOICE: &str = "runtime/tests/choice.rs";
const VIEWS: &str = "runtime/tests/views.rs";
const ADDRESSES: &str = "verify/conformance/tests/addresses.rs";
const CONCURRENT: &str = "runtime/tests/concurrent.rs";
const ACCESS: &str = "runtime/engine/src/access.rs";
const GROUPS: &str = "verify/conformance/tests/language/groups.rs";
const IMAGES: &str = "verify/conformance/tests/language/images.rs";
const INVARIANTS: &str = "runtime/tests/invariants.rs";
const MEMORY: &str = "verify/conformance/tests/language/memory.rs";
const MIXED: &str = "verify/conformance/tests/mixed.rs";
const NATIVE: &str = "verify/conformance/tests/native.rs";
const ORDERS: &str = "verify/conformance/tests/language/orders.rs";
const REDUCE: &str = "verify/conformance/tests/language/reduce.rs";
const REFUSALS: &str = "verify/faulty/tests/scenarios/refusals.rs";

/// Rows that `docs/deviations.md` has a line about.
pub(crate) const DEVIATING: &[u8] = &[
    1, 9, 24, 28, 42, 55, 56, 59, 61, 63, 72, 73, 76, 78, 103, 104, 105, 106, 117, 118, 134, 135, 139, 145,
    146, 147, 152, 154, 162, 179,
];

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::path::Path;

    use super::*;
    use crate::cases::cases;

    /// How many rows there are.
    const ROWS: u8 = 179;

    fn text(path: &str) -> String {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        std::fs::read_to_string(root.join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
    }

    /// The numbers in a cell such as `10 in part, 124-127`.
    fn numbers(cell: &str) -> Vec<u8> {
        let words = cell.split(|c: char| !c.is_ascii_digit() && c != '-');
        let ends = words.filter_map(|word| match word.split_once('-') {
            Some((first, last)) => Some((first.parse().ok()?, last.parse().ok()?)),
            None => word.parse().ok().map(|row| (row, row)),
        });
        ends.flat_map(|(first, last): (u8, u8)| first..=last).collect()
    }

    /// The rows in the columns of that name of a document's tables.
    fn rows_of(document: &str) -> BTreeSet<u8> {
        let (mut rows, mut column) = (BTreeSet::new(), None);
        for line in document.lines() {
            let cells: Vec<&str> = line.trim().trim_matches('|').split('|').map(str::trim).collect();
            if !line.starts_with('|') {
                column = None;
            } else if let Some(at) = cells.iter().position(|cell| *cell == "row" || *cell == "rows") {
                column = Some(at);
            } else if let Some(cell) = column.and_then(|at: usize| cells.get(at)) {
                rows.extend(numbers(cell));
            }
        }
        rows
    }

    #[test]
    fn every_row_has_a_test_or_a_line_that_says_what_is_missing() {
        let cases = cases().iter().flat_map(|case| case.rows);
        let elsewhere = ELSEWHERE.iter().flat_map(|(rows, ..)| rows.iter());
        let there: BTreeSet<u8> = cases.chain(elsewhere).chain(DEVIATING).copied().collect();
        let missing: Vec<u8> = (1..=ROWS).filter(|row| !there.contains(row)).collect();
        assert!(missing.is_empty(), "no test and no line of docs/deviations.md is about rows {missing:?}");
        assert!(there.iter().all(|row| (1..=ROWS).contains(row)));
    }

    #[test]
    fn the_lines_about_rows_are_there() {
        let said = rows_of(&text("docs/deviations.md"));
        let deviating: BTreeSet<u8> = DEVIATING.iter().copied().collect();
        assert_eq!(said, deviating, "docs/deviations.md, and the list here");
        assert!(DEVIATING.is_sorted());
    }

    #[test]
    fn tests_elsewhere_are_there() {
        for (_, test, path) in ELSEWHERE {
            let text = text(path);
            let lines: Vec<&str> = text.lines().map(str::trim).collect();
            let at = lines.iter().position(|line| line.contains(&format!("fn {test}("))).unwrap_or(0);
            let above =
                lines[..at].iter().rev().take_while(|line| line.starts_with('#') || line.starts_with("//"));
            assert!(above.into_iter().any(|line| line.starts_with("#[test]")), "{path} has no test `{test}`");
        }
    }

    #[test]
    fn cells_are_read() {
        assert_eq!(numbers("10 in part, 124-126"), [10, 124, 125, 126]);
        assert_eq!(numbers("beside the rows"), []);
        let page = "| what | rows | to |\n|---|---|---|\n| 5 of it | 7, 9 in part | 11 |\n\n| 13 | 14 |\n";
        assert_eq!(rows_of(page).into_iter().collect::<Vec<_>>(), [7, 9]);
    }
}
