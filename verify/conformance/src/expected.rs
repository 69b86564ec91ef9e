//! Which cases each backend is expected to call unsupported, and why.

/// Kernels that run on devices of their own cannot meet other kernels.
const NO_MEETING: &str = "kernels of this device cannot wait for each other";
const MEETINGS: [&str; 3] =
    ["rendezvous_of_two_queues", "rendezvous_of_two_readers", "rendezvous_of_two_ranges"];

const NO_PITCHES: &str = "its convention has an offset and a length, and no pitches";

/// The names of the subjects for which expectations are pinned.
pub const COLUMNS: [&str; 3] = ["host", "opencl", "wgpu"];

/// The cases that a backend is expected to call unsupported, each with its reason. For a name that is not known, none.
pub fn of(name: &str) -> &'static [(&'static str, &'static str)] {
    match name {
        "host" => {
            &[("build_error_tells_kernel_and_log", "a host body is built by rustc, and cannot fail to build")]
        }
        "opencl" => &[
            ("kernel_on_a_part_of_a_grid", NO_PITCHES),
            ("kernel_fails_while_it_runs", "OpenCL C has no way to fail"),
            (MEETINGS[0], NO_MEETING),
            (MEETINGS[1], NO_MEETING),
            (MEETINGS[2], NO_MEETING),
        ],
        "wgpu" => &[
            ("kernel_on_a_part_of_a_grid", NO_PITCHES),
            ("kernel_fails_while_it_runs", "WGSL has no way to fail"),
            (MEETINGS[0], NO_MEETING),
            (MEETINGS[1], NO_MEETING),
            (MEETINGS[2], NO_MEETING),
        ],
        "streams" => &[
            ("kernel_on_a_part_of_a_grid", NO_PITCHES),
            ("build_error_tells_kernel_and_log", "its kernels are built by rustc, and cannot fail to build"),
            (MEETINGS[0], NO_MEETING),
            (MEETINGS[1], NO_MEETING),
            (MEETINGS[2], NO_MEETING),
        ],
        _ => &[],
    }
}

#[cfg(test)]
mod tests {
    use crate::cases::cases;

    #[test]
    fn pinned_cases_exist() {
        for column in super::COLUMNS.into_iter().chain(["streams"]) {
            for (case, _) in super::of(column) {
                assert!(cases().iter().any(|c| c.name == *case), "{case}");
            }
        }
    }
}
