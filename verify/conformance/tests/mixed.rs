//! One program over devices of three backends: nothing says where data is, or what comes after what.

#[path = "drivers/find.rs"]
mod find;

use windlass::{Buffer, Context, Device, KernelCall, Queue, Residency, Runtime, RuntimeBuilder, Stats};
use windlass_conformance::Kernels;
use windlass_conformance::programs::{Tally, World, run};
use windlass_opencl::OpenCl;

fn open(device: Device) -> Queue {
    let builder = Queue::builder().device(device).handler(|_| {});
    builder.blocking_build().expect("a device that was just listed opens")
}

/// A queue on each backend's device, where the drivers are there.
fn queues(runtime: &Runtime) -> Option<[Queue; 3]> {
    let (opencl, wgpu) = (find::opencl(runtime)?, find::wgpu(runtime)?);
    Some([open(runtime.host().expect("the host is built in")), open(opencl), open(wgpu)])
}

#[test]
fn many_devices() {
    let runtime = Runtime::new();
    let Some([host, opencl, wgpu]) = queues(&runtime) else { return };
    let kernels = Kernels::new();
    let kernel = |name| kernels.get(name);
    let n = 1 << 16;
    let data = Buffer::from((0..n).map(|i| i as f32).collect::<Vec<_>>());
    let (left, right) = (data.range(0..n / 2), data.range(n / 2..n));
    let sums = Buffer::<f32>::new(n / 2);
    let scale = |queue: &Queue, half: &Buffer<f32>, k: f32| {
        queue.submit(|cg| {
            let v = cg.read_write(half);
            cg.parallel_for(n / 2, KernelCall::new(kernel("scale")).value(k).buffer(v))
        })
    };
    let program = async {
        // The halves do not overlap: these two may run at the same time, on two devices.
        let scaled = [scale(&opencl, &left, 2.0)?, scale(&wgpu, &right, 3.0)?];
        // Needs both halves, on a third device in a third context.
        let summed = host.submit(|cg| {
            let (v, out) = (cg.read(&data), cg.overwrite(&sums));
            cg.parallel_for(n / 2, KernelCall::new(kernel("sum_pairs")).buffer(v).buffer(out))
        })?;
        // A host task is a command group too, and it goes out of the process while the devices go on.
        let (mut reader, mut writer) = std::io::pipe()?;
        let sent = host.submit(|cg| {
            let sums = cg.read(&sums);
            cg.host_task(async move |h| {
                let sums = h.view(&sums)?;
                std::io::Write::write_all(
                    &mut writer,
                    sums[..16].iter().map(|s| *s as u8).collect::<Vec<_>>().as_slice(),
                )?;
                Ok(())
            })
        })?;
        sent.await?;
        let mut bytes = Vec::new();
        std::io::Read::read_to_end(&mut reader, &mut bytes)?;
        summed.await?;
        windlass::Event::all(scaled).await?;
        Ok::<_, windlass::Error>((bytes, sums.host_read().await?.to_vec()))
    };
    let (bytes, sums) = futures::executor::block_on(program).expect("the program runs");
    assert_eq!(bytes, (0..16).map(|i| (4 * i + 1) as u32 * 2).map(|s| s as u8).collect::<Vec<_>>());
    for (i, sum) in sums.iter().enumerate() {
        let k = if i < n / 4 { 2.0 } else { 3.0 };
        assert_eq!(*sum, k * (4 * i + 1) as f32, "pair {i}");
    }
    // Each half goes to its device and comes back, once.
    let stats = runtime.stats();
    assert_eq!((stats.transfers, stats.bytes_moved), (4, 2 * 4 * n as u64));
}

#[test]
fn every_pair_of_devices() {
    let runtime = Runtime::new();
    let Some(queues) = queues(&runtime) else { return };
    let kernels = Kernels::new();
    for from in &queues {
        for to in &queues {
            let v = Buffer::<u32>::new(1000);
            let submit = |queue: &Queue, k: u32| {
                queue.submit(|cg| {
                    let v = cg.read_write(&v);
                    cg.parallel_for(1000, KernelCall::new(kernels.get("churn")).buffer(v).value(k))
                })
            };
            for k in 0..20 {
                let queue = if k % 2 == 0 { from } else { to };
                drop(submit(queue, k).expect("it is taken"));
            }
            let expected = (0..20).fold(0_u32, |v, k| v.wrapping_mul(31).wrapping_add(k));
            let v = v.host_read().blocking_wait().expect("all groups are well");
            assert!(v.iter().all(|v| *v == expected), "{} and {}", from.device(), to.device());
        }
    }
}

#[test]
fn contexts_are_of_one_platform() {
    let runtime = Runtime::new();
    let Some([host, opencl, wgpu]) = queues(&runtime) else { return };
    for (a, b) in [(&host, &opencl), (&opencl, &wgpu), (&wgpu, &host)] {
        let refused = Context::blocking_open(&[a.device().clone(), b.device().clone()]);
        assert!(refused.is_err_and(|e| e.is_invalid_input()));
    }
}

/// How many random programs there are on all devices: a fiftieth of what the other oracles are told to run, since these are on real ones.
fn programs() -> u64 {
    let told = std::env::var("WINDLASS_ORACLE").ok().map(|n| n.parse::<u64>().expect("a number"));
    (told.unwrap_or(0) / 50).max(400)
}

/// With processors on memory of their own, as GPUs are.
#[test]
fn random_programs_on_all_with_copies() {
    let runtime = Runtime::builder().backend(OpenCl::new().copying()).build();
    let Some((tally, stats)) = random_programs_on_all_of(&runtime, 600) else { return };
    ask_for_memory_as_they_should(&tally);
    assert!(stats.staged_transfers > 500, "{stats:?}");
}

#[test]
fn random_programs_on_all() {
    let Some((tally, _)) = random_programs_on_all_of(&Runtime::new(), 600) else { return };
    ask_for_memory_as_they_should(&tally);
}

/// On devices that have room for what one group uses, three buffers of 2400 bytes at most, and for what stays there: two lines of 24 elements or
/// grids of 45 for each of three threads, some of them twice where a group uses what another took the place of.
#[test]
fn random_programs_on_all_with_little_room() {
    random_programs_on_all_with_room_for_few(with_little_room().build());
}

/// The same, where that counts as room for many: more is swapped out than must be.
#[test]
fn random_programs_on_all_with_little_room_that_counts_as_much() {
    random_programs_on_all_with_room_for_few(with_little_room().room_for_many(1).build());
}

fn with_little_room() -> RuntimeBuilder {
    let runtime = Runtime::builder().backend(OpenCl::new().copying());
    runtime.residency(Residency::Evictable).device_memory(7_424 + 2_048)
}

fn random_programs_on_all_with_room_for_few(runtime: Runtime) {
    let Some((tally, stats)) = random_programs_on_all_of(&runtime, 24) else { return };
    ask_for_memory_as_they_should(&tally);
    assert!(stats.evictions > 20, "{stats:?}");
}

/// On wgpu there is no memory with addresses, and on OpenCL some.
fn ask_for_memory_as_they_should(tally: &Tally) {
    assert!(tally.placed > 100 && tally.unplaced > 50 && tally.by_address > 100, "{tally:?}");
    assert!(tally.at_once > 20, "{tally:?}");
}

/// Runs them, and says what they and the runtime counted; `None` where a driver is missing.
fn random_programs_on_all_of(runtime: &Runtime, most_that_stays: usize) -> Option<(Tally, Stats)> {
    let [host, opencl, wgpu] = queues(runtime)?;
    // Of OpenCL there may be more: Intel's runtime, or a GPU beside PoCL.
    let all = futures::executor::block_on(runtime.devices()).expect("they were just listed");
    let is_another = |d: &Device| d.backend().as_str() == "opencl" && d != opencl.device();
    let more: Vec<Queue> = all.into_iter().filter(is_another).map(open).collect();
    let own = Context::blocking_open(&[runtime.host().expect("the host is built in")])
        .expect("a host context opens");
    let second = Queue::builder().context(&own).handler(|_| {}).blocking_build().expect("it opens");
    let in_order = Queue::builder().device(wgpu.device().clone()).in_order().handler(|_| {});
    let in_order = in_order.blocking_build().expect("it opens");
    let places: Vec<Queue> = [host, second, opencl, wgpu, in_order].into_iter().chain(more).collect();
    let on: Vec<String> = places.iter().map(|queue| queue.device().to_string()).collect();
    let world = World { places, kernels: Kernels::new(), stays: Some(most_that_stays) };
    let tally = run(&world, 0..programs()).unwrap_or_else(|failure| panic!("{failure}"));
    let stats = runtime.stats();
    println!("on {}: {tally:?}, {stats:?}", on.join(", "));
    assert_eq!(tally.programs, programs());
    assert!(tally.steps > 4_000 && tally.failed > 400, "{tally:?}");
    assert!(tally.by_texel > 20 && tally.in_space > 50, "{tally:?}");
    assert!(stats.proxies > 100, "{stats:?}");
    Some((tally, stats))
}
