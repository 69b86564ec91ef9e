//! A kernel that crashes a GPU, through the runtime: what comes of its event, of what follows it, and of everything else.
//!
//! In a process of its own, since the driver takes all contexts of the process along. Processors have no place here: there the
//! process would end.

#[path = "drivers/child.rs"]
mod child;
#[path = "drivers/find.rs"]
mod find;

use std::time::{Duration, Instant};

use windlass::image::{Kernel, KernelImage, Slot, SlotAccess};
use windlass::prelude::*;
use windlass::{KernelCall, Result};

const SLOT: [Slot; 1] = [Slot::Buffer(SlotAccess::ReadWrite)];

fn kernel(name: &str, body: &str) -> Kernel {
    let text = format!("__kernel void {name}(__global uint *v, ulong at, ulong len) {{ {body} }}");
    // SAFETY: `quick` stays inside its buffer. `crash` does not, and is launched by nobody but a process of its own, on a device that
    // stops what leaves its memory: what is promised here to be so is what this test is about breaking.
    Kernel::new(name, SLOT, [unsafe { KernelImage::opencl_c(name, &text) }])
}

fn launch(queue: &Queue, kernel: &Kernel, v: &Buffer<u32>) -> Result<Event> {
    queue.submit(|cg| cg.parallel_for(1, KernelCall::new(kernel).buffer(cg.read_write(v))))
}

/// How long it took is said, and judged by who reads it: the driver itself takes 150 to 190 ms.
#[test]
fn a_crash_fails_what_it_must_and_nothing_else() {
    let runtime = Runtime::new();
    if find::nvidia(&runtime, "opencl").is_none() {
        return;
    }
    if !child::is_one() {
        let said = child::run("WINDLASS_REQUIRE_GPU", "1");
        eprintln!("{said}");
        assert!(said.contains("the crash was told after"), "{said}");
        return;
    }
    crash(&runtime).expect("everything but the crash goes well");
}

fn crash(runtime: &Runtime) -> Result<()> {
    let device = find::nvidia(runtime, "opencl").expect("it was there");
    let queue = Queue::builder().device(device.clone()).handler(|_| {}).blocking_build()?;
    let host = Queue::builder().device(runtime.host()?).handler(|_| {}).blocking_build()?;
    let (quick, crash) = (kernel("quick", "v[at] += 1;"), kernel("crash", "v[at + (1ul << 44)] = 1;"));
    let (spoilt, apart, kept) =
        (Buffer::from(vec![0_u32; 16]), Buffer::from(vec![0_u32; 16]), Buffer::from(vec![5_u32; 4]));
    for _ in 0..100 {
        launch(&queue, &quick, &spoilt)?;
    }
    launch(&queue, &quick, &apart)?.blocking_wait()?;
    queue.drained().blocking_wait()?;
    let before: Vec<Event> = (0..50).map(|_| launch(&queue, &quick, &apart)).collect::<Result<_>>()?;
    let begun = Instant::now();
    let crashed = launch(&queue, &crash, &spoilt)?;
    let behind: Vec<Event> = (0..50).map_while(|_| launch(&queue, &quick, &spoilt).ok()).collect();
    let reader = host.submit(|cg| {
        let v = cg.read(&spoilt);
        cg.host_task(async move |host| host.view(&v).map(drop).map_err(Into::into))
    });
    let error = crashed.blocking_wait().expect_err("it crashes");
    eprintln!("the crash was told after {:?}: {error}", begun.elapsed());
    assert!(error.root().is_device_lost(), "{error}");
    for event in &behind {
        assert!(event.blocking_wait().is_err(), "what is behind it cannot have ended well");
    }
    assert!(reader.and_then(|event| event.blocking_wait()).is_err(), "nor has who reads what it wrote");
    assert!(spoilt.host_read().blocking_wait().is_err());
    eprintln!("all behind it were told after {:?}", begun.elapsed());
    // Those before it may have ended well or not, but have ended.
    let well = before.iter().filter(|event| event.blocking_wait().is_ok()).count();
    eprintln!("{well} of 50 before it ended well");
    assert!(launch(&queue, &quick, &apart).is_err_and(|error| error.is_device_lost()), "the device is lost");
    // The host's devices go on.
    let event = host.submit(|cg| {
        let v = cg.read_write(&kept);
        cg.host_for(4, v, |item, v| v.set(item.id(0), v.get(item.id(0)) + 1))
    })?;
    event.blocking_wait()?;
    assert_eq!(kept.host_read().blocking_wait()?[..], [6; 4]);
    assert!(begun.elapsed() < Duration::from_secs(60), "nothing of it hangs");
    let again = Queue::builder().device(device).handler(|_| {}).blocking_build();
    eprintln!("opened anew: {:?}", again.map(|_| ()));
    Ok(())
}
