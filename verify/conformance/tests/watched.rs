//! The suite on Oclgrind, which runs kernels item by item and watches memory: each case as on every device, and none of its kernels may
//! leave its arguments or race.
//!
//! That it is seen if a case fails, or if its kernels are wrong, is a test as well.

#[path = "language/again.rs"]
mod again;
#[path = "drivers/find.rs"]
mod find;
#[path = "drivers/watch.rs"]
mod watch;

use std::sync::Mutex;
use std::time::Duration;
use std::{env, thread};

use windlass::Runtime;
use windlass::image::KernelImage;
use windlass_conformance::kernels::Spec;
use windlass_conformance::{Kernels, Subject, cases, expected, run_some};

use watch::{Oclgrind, Watched};

/// The cases that are not run there, and why.
const LEFT_OUT: &[(&str, &str)] = &[
    ("kernel_over_many_items", "four million items take longer than a case may"),
    ("rendezvous_of_two_queues", NOT_AT_ONCE),
    ("rendezvous_of_two_readers", NOT_AT_ONCE),
    ("rendezvous_of_two_ranges", NOT_AT_ONCE),
];

const NOT_AT_ONCE: &str = "Oclgrind runs one kernel at a time";

/// The longest case takes eight seconds there where the machine has other work as well.
const PATIENCE: Duration = Duration::from_secs(15);

/// Says which case a child is to run.
const CASE: &str = "WINDLASS_TEST_CASE";

#[test]
fn oclgrind_conforms_and_reports_nothing() {
    let Some(oclgrind) = Oclgrind::find(PATIENCE) else { return };
    let (left_out, wanted): (Vec<_>, Vec<_>) =
        cases().iter().map(|case| case.name).partition(|name| LEFT_OUT.iter().any(|(case, _)| case == name));
    assert_eq!(left_out.len(), LEFT_OUT.len(), "what is left out is a case: {left_out:?}");
    let done = watch_cases(&oclgrind, &wanted);
    let ended_badly = |watched: &Result<Watched, String>| watched.as_ref().map_or(0, |w| w.ended_badly);
    let ended_badly: Vec<_> = done.iter().map(|(case, watched)| (*case, ended_badly(watched))).collect();
    let ended_badly: Vec<_> = ended_badly.into_iter().filter(|(_, times)| *times > 0).collect();
    eprintln!("{} cases were watched; run again, how often: {ended_badly:?}", done.len());
    let problems = problems(&done);
    assert!(problems.is_empty(), "{problems}");
}

/// A case and what came of it.
type Done<'c> = (&'c str, Result<Watched, String>);

/// Watches cases, as many at a time as there are cores.
fn watch_cases<'c>(oclgrind: &Oclgrind, cases: &[&'c str]) -> Vec<Done<'c>> {
    let (waiting, done) = (Mutex::new(cases.iter()), Mutex::new(Vec::new()));
    let work = || {
        // The lock is not held while a case runs.
        let next = || waiting.lock().expect("no case panics with it").next().copied();
        while let Some(case) = next() {
            let watched = watch_case(oclgrind, "one_case", case);
            done.lock().expect("no case panics with it").push((case, watched));
        }
    };
    let cores = thread::available_parallelism().map_or(1, usize::from);
    thread::scope(|scope| (0..cores).for_each(|_| drop(scope.spawn(work))));
    done.into_inner().expect("no case panics with it")
}

/// What came of a case, by one of the two tests that run one.
fn watch_case(oclgrind: &Oclgrind, test: &str, case: &str) -> Result<Watched, String> {
    let folder = again::folder(&format!("watched-{test}-{case}"));
    oclgrind.watch(test, &folder, (CASE, case.into()))
}

/// All that is wrong.
fn problems(done: &[Done<'_>]) -> String {
    let mut problems = String::new();
    for (case, watched) in done {
        match watched {
            Ok(watched) => {
                for (kernel, what) in &watched.reports {
                    problems += &format!("{case}: Oclgrind reports of kernel `{kernel}`: {what}\n");
                }
            }
            Err(why) => problems += &format!("{case}: {why}\n"),
        }
    }
    problems
}

/// Runs the case that a variable names, on Oclgrind and on nothing else.
fn run_named_case(images: fn(&Spec) -> Vec<KernelImage>) {
    let Some(wanted) = env::var_os(CASE) else { return };
    let runtime = Runtime::new();
    let device = Subject::find(&runtime, |device| device.platform_name() == "Oclgrind");
    let subject = Subject::open("oclgrind", &device.expect("it is there"), Kernels::with(images));
    let report = run_some(&subject.expect("a listed device opens"), |case| wanted == case.name);
    assert_eq!(report.outcomes.len(), 1, "{wanted:?} is a case");
    // It lacks what PoCL does.
    report.compare(expected::of("opencl")).unwrap_or_else(|text| panic!("{text}"));
}

#[test]
fn one_case() {
    run_named_case(sooner);
}

#[test]
fn one_case_with_wrong_kernels() {
    run_named_case(wrong);
}

/// `long_running` in fewer steps, with the same result: Oclgrind would take a minute for what others do in a moment. `n` steps
/// `x = a x + c` are one such step, which is made of those for the bits of `n`. Interpreted it still takes longer than the
/// kernels behind it.
fn sooner(spec: &Spec) -> Vec<KernelImage> {
    const TEXT: &str = "__kernel void long_running(__global uint *v, ulong v_at, ulong v_len, uint rounds) {
    size_t i = get_global_id(0);
    if (i >= v_len) return;
    uint x = v[v_at + i], a = 1664525u, c = 1013904223u;
    for (; rounds > 0; rounds >>= 1) {
        if (rounds & 1) x = x * a + c;
        c += c * a;
        a *= a;
    }
    v[v_at + i] = x;
}
";
    if spec.name != "long_running" {
        return Vec::new();
    }
    // SAFETY: its parameters are those of the reference kernel; it uses one element, whose index it compares first, and writes only that.
    vec![unsafe { KernelImage::opencl_c(spec.name, TEXT) }]
}

/// `fill_index` with a read that races, of what is not used, and `copy` with a write behind its buffer.
fn wrong(spec: &Spec) -> Vec<KernelImage> {
    const RACES: &str = "__kernel void fill_index(__global uint *v, ulong v_at, ulong v_len, uint base) {
    size_t i = get_global_id(0);
    if (i >= v_len) return;
    uint next = v[v_at + (i + 1) % v_len];
    v[v_at + i] = base + i;
}
";
    const LEAVES: &str = "__kernel void copy(__global const uint *x, ulong x_at, ulong x_len,
        __global uint *out, ulong out_at, ulong out_len) {
    size_t i = get_global_id(0);
    if (i >= x_len || i >= out_len) return;
    out[out_at + i] = x[x_at + i];
    out[out_at + out_len + 4096 + i] = 1;
}
";
    let text = match spec.name {
        "fill_index" => RACES,
        "copy" => LEAVES,
        _ => return Vec::new(),
    };
    // SAFETY: it is not so, for this is what is to be found. Oclgrind, which interprets the kernels, reports what they do and leaves out
    // the writes behind the buffer; no other device is here.
    vec![unsafe { KernelImage::opencl_c(spec.name, text) }]
}

#[test]
fn a_case_whose_kernels_are_wrong_is_reported() {
    let Some(oclgrind) = Oclgrind::find(PATIENCE) else { return };
    let case = "reference_kernels_of_integers";
    let problems = problems(&[(case, watch_case(&oclgrind, "one_case_with_wrong_kernels", case))]);
    let seen = |what: &str| problems.contains(what);
    assert!(seen("`fill_index`: Read-write data race") && seen("`copy`: Invalid write"), "{problems}");
}

#[test]
fn a_case_that_fails_is_reported() {
    let Some(oclgrind) = Oclgrind::find(PATIENCE) else { return };
    let case = "no_such_case";
    let problems = problems(&[(case, watch_case(&oclgrind, "one_case", case))]);
    assert!(problems.contains("fails on Oclgrind") && problems.contains("is a case"), "{problems}");
}
