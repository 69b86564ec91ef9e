//! The suite on OpenCL: PoCL, Intel's driver for processors, and NVIDIA's, where they are installed.

#[path = "drivers/find.rs"]
mod find;

use windlass::{Buffer, DeviceKind, Queue, Runtime};
use windlass_opencl::OpenCl;

#[test]
fn opencl_conforms() {
    let runtime = Runtime::new();
    let Some(device) = find::opencl(&runtime) else { return };
    find::conform("opencl", &device);
}

/// As devices do that have memory of their own.
#[test]
fn opencl_conforms_with_copies() {
    let runtime = Runtime::builder().backend(OpenCl::new().copying()).build();
    let Some(device) = find::opencl(&runtime) else { return };
    find::conform("opencl", &device);
}

/// On a processor host accessors find the data where its kernels have it, and kernels find there what the host has written. Seen to fail
/// where host accessors looked in the heap alone.
#[test]
fn a_processors_memory_is_the_hosts() {
    let runtime = Runtime::new();
    let Some(device) = find::opencl(&runtime).filter(|device| device.kind() == DeviceKind::Cpu) else {
        return;
    };
    let queue = Queue::blocking_on(device).expect("a listed device opens");
    let v = Buffer::<u32>::new(1 << 20);
    queue.submit(|cg| cg.fill(&cg.overwrite(&v), 7)).expect("it is taken");
    let mut expected = 7;
    for round in 0..10 {
        let mut part = v.range(1000..).host_write().blocking_wait().expect("it is filled");
        assert!(part.iter().all(|v| *v == expected));
        expected = round;
        part.fill(expected);
        drop(part);
        let out = Buffer::<u32>::new(1 << 20);
        queue.submit(|cg| cg.copy(&cg.read(&v), &cg.overwrite(&out))).expect("it is taken");
        let out = out.host_read().blocking_wait().expect("it is copied");
        assert!(out[..1000].iter().all(|v| *v == 7) && out[1000..].iter().all(|v| *v == expected));
    }
    // A host task has it there, too.
    let task = queue.submit(|cg| {
        let mut v = cg.read_write(&v);
        cg.host_task(async move |host| {
            host.view_mut(&mut v)?[1000] += 1;
            Ok(())
        })
    });
    task.and_then(|task| task.blocking_wait()).expect("nothing fails");
    expected += 1;
    assert_eq!(runtime.stats().transfers, 0);
    // What is taken leaves the device's memory.
    let taken = futures_lite::future::block_on(v.into_vec()).expect("nothing failed");
    assert_eq!((taken[0], taken[1000], runtime.stats().transfers), (7, expected, 1));
}

#[test]
fn intel_conforms() {
    let runtime = Runtime::new();
    let Some(device) = find::intel(&runtime) else { return };
    find::conform("intel", &device);
}

#[test]
fn nvidia_conforms() {
    let runtime = Runtime::new();
    let Some(device) = find::nvidia(&runtime, "opencl") else { return };
    find::conform("nvidia", &device);
}
