//! The devices that these tests are about; without its driver a test says loudly that it was skipped, and where `CI` or
//! `WINDLASS_REQUIRE_DRIVERS` is set, it fails.

#![allow(dead_code, reason = "each test program uses the drivers that it is about")]

use windlass::{Device, Runtime};
use windlass_conformance::{Kernels, Report, Subject, expected, run};

/// The host.
pub(crate) fn host(runtime: &Runtime) -> Option<Device> {
    or_skip(Subject::find(runtime, |d| is(d, "host")))
}

/// PoCL, or else whatever OpenCL device there is.
pub(crate) fn opencl(runtime: &Runtime) -> Option<Device> {
    let pocl = |d: &Device| is(d, "opencl") && d.platform_name() == "Portable Computing Language";
    or_skip(Subject::find(runtime, pocl).or_else(|_| Subject::find(runtime, |d| is(d, "opencl"))))
}

/// Intel's driver for processors, which has a step of its own in CI.
pub(crate) fn intel(runtime: &Runtime) -> Option<Device> {
    let intel = |d: &Device| is(d, "opencl") && d.platform_name().contains("Intel");
    required_by("WINDLASS_REQUIRE_INTEL", Subject::find(runtime, intel))
}

/// A GPU of NVIDIA's, by this backend, which few machines have.
pub(crate) fn nvidia(runtime: &Runtime, backend: &str) -> Option<Device> {
    let nvidia = |d: &Device| is(d, backend) && d.kind().is_gpu() && d.name().contains("NVIDIA");
    required_by("WINDLASS_REQUIRE_GPU", Subject::find(runtime, nvidia))
}

/// Only this variable makes it a failure if there is no such device.
fn required_by(variable: &str, found: windlass::Result<Device>) -> Option<Device> {
    found.inspect_err(|why| skip(&why.to_string(), std::env::var_os(variable).is_some())).ok()
}

/// lavapipe, or else whatever Vulkan device there is.
pub(crate) fn wgpu(runtime: &Runtime) -> Option<Device> {
    let lavapipe = |d: &Device| is(d, "wgpu") && d.name().contains("llvmpipe");
    or_skip(Subject::find(runtime, lavapipe).or_else(|_| Subject::find(runtime, |d| is(d, "wgpu"))))
}

fn is(device: &Device, backend: &str) -> bool {
    device.backend().as_str() == backend
}

fn or_skip(found: windlass::Result<Device>) -> Option<Device> {
    match found {
        Ok(device) => Some(device),
        Err(why) => {
            missing(&why.to_string());
            None
        }
    }
}

/// Says that there is nothing to test with; a failure where that is required.
pub(crate) fn missing(what: &str) {
    skip(what, ["CI", "WINDLASS_REQUIRE_DRIVERS"].iter().any(|v| std::env::var_os(v).is_some()));
}

fn skip(what: &str, required: bool) {
    assert!(!required, "a driver is required here: {what}");
    eprintln!("\n*** SKIPPED, nothing was tested: {what} ***\n");
}

/// Runs the suite, and compares with what is pinned for this backend.
pub(crate) fn conform(name: &str, device: &Device) {
    eprintln!("`{name}` is {} of {}", device.name(), device.platform_name());
    let subject = Subject::open(name, device, Kernels::new()).expect("a device that was just listed opens");
    let report: Report = run(&subject);
    report.compare(expected::of(name)).unwrap_or_else(|text| panic!("{text}"));
}
