//! A program that ends while its kernels are still being built ends well: compilers are libraries with exit handlers of their own, and
//! crash if they are used after those.
//!
//! This has no harness: what ends is the main thread, which has asked for the kernels.

#[path = "drivers/find.rs"]
mod find;

use std::process::Command;
use std::time::Duration;

use windlass::image::{Kernel, KernelImage, Slot, SlotAccess};
use windlass::prelude::*;
use windlass::{Device, KernelCall, Result};

const WHEN: &str = "WINDLASS_LEAVES_AFTER";
const NAME: &str = "a_program_may_end_while_its_kernels_are_built";

/// The devices whose kernels are compiled from OpenCL C.
fn devices(runtime: &Runtime) -> Vec<Device> {
    let all = futures_lite::future::block_on(runtime.devices()).unwrap_or_default();
    all.into_iter().filter(|device| device.backend().as_str() == "opencl").collect()
}

/// No driver has a kernel like it, and it takes a while to compile.
fn fresh(number: u64) -> Kernel {
    let line = |i: u32| format!("x = x * {number}u + {i}u; if (x & {i}u) x ^= v[at + x % len]; ");
    let lines: String = (0..8).map(line).collect();
    let text = format!(
        "__kernel void fresh(__global uint *v, ulong at, ulong len) {{ uint x = 1; {lines} v[at] = x; }}"
    );
    // SAFETY: it stays inside its buffer, which has elements.
    let image = unsafe { KernelImage::opencl_c("fresh", &text) };
    Kernel::new("fresh", [Slot::Buffer(SlotAccess::ReadWrite)], [image])
}

/// Returns to where the program ends, so many microseconds after it has asked for a kernel on a device.
fn leave(runtime: &Runtime, when: &str) {
    let numbers: Vec<u64> = when.split(':').map(|number| number.parse().expect("a number")).collect();
    let [device, warm, wait, number] = numbers[..] else { panic!("four numbers: {when}") };
    let device = devices(runtime).swap_remove(device as usize);
    let queue = Queue::builder().device(device).blocking_build().expect("it is there");
    let x = Buffer::from(vec![1_u32; 16]);
    // It never runs: PoCL goes on to compile when a kernel is launched, on threads of its own that nobody can keep out.
    let ask = |number| {
        queue.submit(|cg| {
            cg.after(std::future::pending::<Result<()>>());
            cg.parallel_for(1, KernelCall::new(&fresh(number)).buffer(cg.read_write(&x)))
        })
    };
    if warm > 0 {
        let _built = ask(number);
        std::thread::sleep(Duration::from_millis(500));
    }
    let _building = ask(number + 1);
    std::thread::sleep(Duration::from_micros(wait));
}

fn main() {
    let runtime = Runtime::new();
    if let Ok(when) = std::env::var(WHEN) {
        return leave(&runtime, &when);
    }
    let devices = devices(&runtime);
    if devices.is_empty() {
        return find::missing("an OpenCL device");
    }
    let seed = u64::from(std::process::id());
    for (device, warm) in (0..devices.len()).flat_map(|device| [(device, 0), (device, 1)]) {
        for turn in 0..8 {
            let when = format!("{device}:{warm}:{}:{}", turn * 15_000, seed * 1000 + 2 * turn);
            let this = std::env::current_exe().expect("a running program");
            let output = Command::new(this).env(WHEN, &when).output().expect("it starts");
            assert!(output.status.success(), "{NAME}: {} after {when}: {output:?}", devices[device]);
        }
    }
    println!("test {NAME} ... ok");
}
