//! Which cases each backend is expected to call unsupported, and why.

/// Kernels that run on devices of their own cannot meet other kernels, and those of one lane do not run at once.
const NO_MEETING: &str = "kernels of this device cannot wait for each other, nor run at once";
const ONE_AT_A_TIME: &str =
    "on two cores the driver runs small kernels of two queues at once or not, as it happens";
const MEETINGS: [&str; 3] =
    ["rendezvous_of_two_queues", "rendezvous_of_two_readers", "rendezvous_of_two_ranges"];

/// The names of the subjects for which expectations are pinned.
pub const COLUMNS: [&str; 6] = ["host", "opencl", "intel", "nvidia", "wgpu", "nvidia-vulkan"];

/// The cases that a backend is expected to call unsupported, each with its reason. For a name that is not known, none.
pub fn of(name: &str) -> &'static [(&'static str, &'static str)] {
    match name {
        "host" => {
            &[("build_error_tells_kernel_and_log", "a host body is built by rustc, and cannot fail to build")]
        }
        "opencl" | "nvidia" => &[("kernel_fails_while_it_runs", "OpenCL C has no way to fail")],
        "intel" => &[
            ("kernel_fails_while_it_runs", "OpenCL C has no way to fail"),
            (MEETINGS[0], ONE_AT_A_TIME),
            (MEETINGS[1], ONE_AT_A_TIME),
            (MEETINGS[2], ONE_AT_A_TIME),
        ],
        "wgpu" | "nvidia-vulkan" => &[
            ("kernel_fails_while_it_runs", "WGSL has no way to fail"),
            (MEETINGS[0], NO_MEETING),
            (MEETINGS[1], NO_MEETING),
            (MEETINGS[2], NO_MEETING),
        ],
        "streams" => &[
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
