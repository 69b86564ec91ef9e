//! Every example runs to its end, with drivers and without; each checks its own results.

use std::path::PathBuf;
use std::process::{Command, Output};

/// Runs a program and returns what it printed; fails if it does.
fn run(program: PathBuf, env: &[(&str, &str)]) -> String {
    let missing = || format!("{} is not there: run the whole package's tests", program.display());
    assert!(program.exists(), "{}", missing());
    let output = Command::new(&program).env_remove("WINDLASS_DEVICE").envs(env.iter().copied()).output();
    let Output { status, stdout, stderr } = output.expect("the program starts");
    let (stdout, stderr) = (String::from_utf8_lossy(&stdout), String::from_utf8_lossy(&stderr));
    assert!(status.success(), "{}: {status}\n{stdout}\n{stderr}", program.display());
    stdout.into_owned()
}

/// Cargo builds examples beside the tests, in a folder of their own.
fn example(name: &str) -> PathBuf {
    let test = std::env::current_exe().expect("a test knows where it is");
    let profile = test.ancestors().nth(2).expect("tests are built in `deps`");
    profile.join("examples").join(name)
}

fn tour() -> PathBuf {
    PathBuf::from(env!("CARGO_BIN_EXE_tour"))
}

/// Loaders look for drivers where there are none.
const NO_DRIVERS: &[(&str, &str)] = &[
    ("OCL_ICD_VENDORS", "/nonexistent/"),
    ("OPENCL_VENDOR_PATH", "/nonexistent/"),
    ("VK_DRIVER_FILES", "/nonexistent/none.json"),
    ("VK_ICD_FILENAMES", "/nonexistent/none.json"),
];

#[test]
fn the_tour() {
    let said = run(tour(), &[]);
    for expected in
        ["Devices", "host", "[ 64/64] frames sent", "192 groups, 64 of them host tasks", "as it should be"]
    {
        assert!(said.contains(expected), "`{expected}` is not in\n{said}");
    }
}

#[test]
fn the_tour_without_drivers() {
    let said = run(tour(), NO_DRIVERS);
    for backend in ["opencl", "wgpu"] {
        let line = said.lines().find(|line| line.trim_start().starts_with(backend));
        let line = line.unwrap_or_else(|| panic!("{backend} is not reported in\n{said}"));
        assert!(line.contains("is missing: "), "{line}");
    }
    assert!(said.contains("as it should be"), "{said}");
}

#[test]
fn the_tour_on_a_device_that_is_not_there() {
    let said = run(tour(), &[("WINDLASS_DEVICE", "host:7")]);
    assert!(said.contains("WINDLASS_DEVICE asks for host:7"), "{said}");
}

#[test]
fn quickstart() {
    assert!(run(example("quickstart"), &[]).contains("y[0] = 5"));
}

/// The same binaries on each backend, which only the environment names. A missing driver is said, and in CI it is a failure.
#[test]
fn row_177_one_program_runs_unchanged_on_each_backend() {
    for (name, says) in [
        ("quickstart", "y[0] = 5"),
        ("memory", "as it should be"),
        ("cancel", "never more than"),
        ("recording", "400 steps"),
        ("warm_up", "the first request took"),
    ] {
        for backend in ["host", "opencl", "wgpu"] {
            let output = Command::new(example(name)).env("WINDLASS_DEVICE", backend).output();
            let Output { status, stdout, stderr } = output.expect("the program starts");
            let (said, complained) = (String::from_utf8_lossy(&stdout), String::from_utf8_lossy(&stderr));
            if !status.success() && std::env::var_os("CI").is_none() {
                println!("SKIPPED: {name} does not run on {backend} here: {complained}");
                continue;
            }
            assert!(status.success() && said.contains(says), "{name} on {backend}: {said}\n{complained}");
        }
    }
}

#[test]
fn many_devices() {
    assert!(run(example("many_devices"), &[]).contains("all sums are right"));
}

#[test]
fn many_devices_without_drivers() {
    let said = run(example("many_devices"), NO_DRIVERS);
    assert!(said.contains("a second context of the host takes its place"), "{said}");
    assert!(said.contains("all sums are right"), "{said}");
}

#[test]
fn cancel() {
    assert!(run(example("cancel"), &[]).contains("never more than"));
}

#[test]
fn memory() {
    assert!(run(example("memory"), &[]).contains("as it should be"));
}

#[test]
fn pictures() {
    assert!(run(example("pictures"), &[]).contains("the picture is in"));
}

#[test]
fn video() {
    assert!(run(example("video"), &[]).contains("120 frames on"));
}

#[test]
fn video_without_drivers() {
    assert!(run(example("video"), NO_DRIVERS).contains("120 frames on"));
}

#[test]
fn memory_without_drivers() {
    assert!(run(example("memory"), NO_DRIVERS).contains("is the host's own"));
}

#[test]
fn more_than_fits() {
    assert!(run(example("more_than_fits"), &[]).contains("all is as it should be"));
}

#[test]
fn more_than_fits_without_drivers() {
    let said = run(example("more_than_fits"), NO_DRIVERS);
    assert!(said.contains("whose memory is the program's own") && said.contains("as it should be"), "{said}");
}

/// For each example what it says at its end, whatever drivers there are.
macro_rules! ends_well {
    ($($example:ident says $end:literal;)*) => {$(
        mod $example {
            #[test]
            fn runs() {
                super::says(stringify!($example), &[], $end);
            }

            #[test]
            fn runs_without_drivers() {
                super::says(stringify!($example), super::NO_DRIVERS, $end);
            }
        }
    )*};
}

fn says(name: &str, env: &[(&str, &str)], end: &str) {
    let said = run(example(name), env);
    assert!(said.contains(end), "`{end}` is not in\n{said}");
}

ends_well! {
    back_pressure says "room that was not used was given back";
    batch says "too late";
    devices says "halves doubles";
    errors says "each was what it should be";
    fallback says "is there again";
    hanging says "works again";
    host_allocator says "everything is back in the pool";
    host_tasks says "7 of 8 files were added up";
    native_kernels says "one kernel,";
    ordering says "all in order on";
    own_memory says "bytes of answer";
    pointers says "the list was walked twice";
    recording says "400 steps on";
    scope says "every slice has what it should";
    shared_memory says "all is where it should be";
    streams says "samples became mono";
    testing says "all tests pass";
    trace says "open the page in a browser";
    warm_up says "the first request took";
}

/// Where there is a driver, and there are two processors.
#[test]
fn divided() {
    let said = run(example("divided"), &[]);
    let is_skipped = said.contains("nothing to show")
        && (std::env::var_os("CI").is_none()
            || std::thread::available_parallelism().is_ok_and(|n| n.get() < 2));
    assert!(said.contains("both halves have worked") || is_skipped, "{said}");
    says("divided", NO_DRIVERS, "there is nothing to show without");
}

/// Where there is a driver, native code has run; without one these say what is missing.
#[test]
fn native_code() {
    for name in ["interop_opencl", "interop_wgpu"] {
        let said = run(example(name), &[]);
        let is_skipped = said.contains("nothing to show") && std::env::var_os("CI").is_none();
        assert!(said.contains("native code and kernels on") || is_skipped, "{said}");
        says(name, NO_DRIVERS, "there is nothing to show without");
    }
}
