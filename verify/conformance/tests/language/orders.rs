//! Fences, and atomics with an order, on the devices that have them. The others say so.

use windlass::AtomicOrders;
use windlass::NdRange;
use windlass::prelude::*;

use crate::everywhere::{queues, read, where_there_is};

const ITEMS: usize = 1 << 15;

/// The item that comes last, and only it, may rely on what all others have written.
#[windlass::kernel]
fn last_one_sums(parts: &mut [u32], done: &[AtomicU32], sum: &mut [u32]) {
    let i = global_id(0);
    parts[i] = i * 3 + 1;
    if done[0].fetch_add(1, AcqRel) + 1 == global_size(0) {
        let mut all = 0;
        for k in 0..parts.len() {
            all += parts[k];
        }
        sum[0] = all;
    }
}

/// The same with fences of its own, and relaxed atomics.
#[windlass::kernel]
fn last_one_sums_by_fences(parts: &mut [u32], done: &[AtomicU32], sum: &mut [u32]) {
    let i = global_id(0);
    parts[i] = i * 3 + 1;
    fence(Release);
    let before = done[0].fetch_add(1, Relaxed);
    if before + 1 == global_size(0) {
        fence(Acquire);
        let mut all = 0;
        for k in 0..parts.len() {
            all += parts[k];
        }
        sum[0] = all;
    }
}

/// Every operation with its strongest order, in local memory and in a buffer.
#[windlass::kernel]
fn strongest(x: &[u32], total: &[AtomicU32], out: &mut [u32], #[local] seen: &[AtomicU32; 4]) {
    let i = local_id(0);
    seen[i % 4].fetch_add(x[global_id(0)], SeqCst);
    group_fence(SeqCst);
    barrier();
    if i == 0 {
        let mut sum = 0;
        for k in 0..4 {
            sum += seen[k].load(SeqCst) + seen[k].swap(k, AcqRel) * 0;
        }
        seen[0].store(sum + 1, Release);
        let mut looked = 0;
        while looked < 5 && seen[1].load(Acquire) == 1 {
            looked += 1;
        }
        out[group_id(0)] = seen[0].load(Acquire) + looked - 5;
        total[0].fetch_add(sum, SeqCst);
        total[1].fetch_max(sum, Acquire);
        total[2].store(7, SeqCst);
    }
}

/// Each group's last item relies on what the group's others have written. What is said to the whole system is said to the
/// device, and what is said to nobody else is a relaxed operation.
#[windlass::kernel]
fn last_of_group_sums(parts: &mut [u32], done: &[AtomicU32], sums: &mut [u32]) {
    let (i, group) = (global_id(0), group_id(0));
    parts[i] = i * 5 + 2;
    fence(Release.group());
    if done[group].fetch_add(1, Acquire.sub_group()) + 1 == local_size(0) {
        let mut all = 0;
        for k in 0..local_size(0) {
            all += parts[group * local_size(0) + k];
        }
        sums[group] = all + done[group].load(Acquire.system()) * 0;
        done[group].store(done[group].load(Relaxed.item()) + 1, Release.item());
        done[group].compare_exchange(0, 9, Relaxed.group(), Acquire).is_ok();
    }
}

fn has(queue: &Queue, orders: AtomicOrders) -> bool {
    queue.device().info().atomic_orders >= orders
}

#[test]
fn what_was_released_is_seen_by_who_acquires_it() {
    let expected = (0..ITEMS as u32).map(|i| i * 3 + 1).fold(0_u32, u32::wrapping_add);
    let acquires = |queue: &Queue| has(queue, AtomicOrders::AcquireRelease);
    where_there_is("atomics that acquire and release", acquires, |queue| {
        for _ in 0..8 {
            let parts = Buffer::<u32>::new(ITEMS);
            let (done, sum) = (Buffer::<u32>::new(2), Buffer::<u32>::new(1));
            queue.submit(|cg| {
                let args = (cg.read_write(&parts), cg.atomic(&done), cg.read_write(&sum));
                cg.parallel_for(ITEMS, last_one_sums(args.0, args.1, args.2))
            })?;
            assert_eq!(read(&sum)?, [expected], "on {}", queue.device());
            let done = Buffer::<u32>::new(2);
            queue.submit(|cg| {
                let args = (cg.read_write(&parts), cg.atomic(&done), cg.read_write(&sum));
                cg.parallel_for(ITEMS, last_one_sums_by_fences(args.0, args.1, args.2))
            })?;
            assert_eq!(read(&sum)?, [expected], "by fences on {}", queue.device());
        }
        Ok(())
    });
}

#[test]
fn a_group_keeps_its_promises_to_itself() {
    let acquires = |queue: &Queue| has(queue, AtomicOrders::AcquireRelease);
    where_there_is("atomics that acquire and release in a group", acquires, |queue| {
        let (items, local) = (1 << 12, 64);
        let parts = Buffer::<u32>::new(items);
        let (done, sums) = (Buffer::<u32>::new(items / local), Buffer::<u32>::new(items / local));
        queue.submit(|cg| {
            let args = (cg.read_write(&parts), cg.atomic(&done), cg.overwrite(&sums));
            let range = NdRange { global: [items], local: [local] };
            cg.parallel_for(range, last_of_group_sums(args.0, args.1, args.2))
        })?;
        let all: Vec<u32> = (0..items as u32).map(|i| i * 5 + 2).collect();
        let expected: Vec<u32> = all.chunks(local).map(|group| group.iter().sum()).collect();
        assert_eq!(read(&sums)?, expected, "on {}", queue.device());
        assert!(read(&done)?.iter().all(|done| *done == local as u32 + 1), "on {}", queue.device());
        Ok(())
    });
}

#[test]
fn all_orders_work_where_they_are() {
    let x: Vec<u32> = (0..64).map(|i| i * i % 23).collect();
    let sums: Vec<u32> = x.chunks(16).map(|group| group.iter().sum()).collect();
    let consistent = |queue: &Queue| has(queue, AtomicOrders::SequentiallyConsistent);
    where_there_is("sequentially consistent atomics", consistent, |queue| {
        let (x, total, out) = (Buffer::from(x.clone()), Buffer::<u32>::new(3), Buffer::<u32>::new(4));
        queue.submit(|cg| {
            let call = strongest(cg.read(&x), cg.atomic(&total), cg.overwrite(&out));
            cg.parallel_for(NdRange { global: [64], local: [16] }, call)
        })?;
        let on = format!("on {}", queue.device());
        assert_eq!(read(&out)?, sums.iter().map(|sum| sum + 1).collect::<Vec<_>>(), "{on}");
        assert_eq!(read(&total)?, [sums.iter().sum(), *sums.iter().max().expect("some"), 7], "{on}");
        Ok(())
    });
}

#[test]
fn a_device_without_the_order_says_so() {
    let (acquires, consistent) = (last_one_sums::kernel(), strongest::kernel());
    let needs =
        [(acquires, AtomicOrders::AcquireRelease), (consistent, AtomicOrders::SequentiallyConsistent)];
    for queue in queues() {
        for (kernel, orders) in needs {
            match queue.device().can_run(kernel) {
                Ok(()) => assert!(has(queue, orders), "{}", queue.device()),
                Err(error) => {
                    assert!(!has(queue, orders), "{}: {error}", queue.device());
                    assert!(error.to_string().contains("fences"), "{error}");
                }
            }
        }
    }
    let wgpu = queues().iter().filter(|queue| queue.device().backend().to_string() == "wgpu");
    for queue in wgpu {
        assert!(queue.device().can_run(acquires).is_err(), "WGSL has relaxed atomics alone");
    }
}

/// On a processor whose own order is strong nothing would go wrong without them, so the text is looked at.
#[test]
fn fences_stand_around_what_they_order() {
    use windlass::image::ImageFormat;
    use windlass_kernel::shape::Shape;
    use windlass_kernel_translate::c::{Bounds, Dialect, Machine, translate};
    use windlass_kernel_translate::wgsl::Checked;
    let written = |kernel: &windlass::image::Kernel, dialect| {
        let image = kernel.image_for(&[ImageFormat::Wgsl], "").expect("it has a text");
        let shape: Vec<_> =
            Shape::along(1, [64, 1, 1]).overrides().map(|(name, value)| (name.into(), value)).into();
        let checked =
            Checked::parse(image.source()).and_then(|checked| checked.specialise(image.entry(), &shape));
        let checked = checked.expect("the text is right");
        translate(&checked, image.entry(), dialect, Bounds::Guarded, Machine::Gpu)
            .expect("C has fences")
            .source
    };
    let c = written(last_one_sums::kernel(), Dialect::OpenClC);
    let order = [
        "memory_order_release, memory_scope_device",
        "= fetch_add_done(",
        "memory_order_acquire, memory_scope_device",
    ];
    let at = order.map(|what| c.rfind(what).unwrap_or_else(|| panic!("no {what} in {c}")));
    assert!(at.is_sorted(), "{c}");
    let cuda = written(last_one_sums::kernel(), Dialect::CudaC);
    assert_eq!(cuda.matches("__threadfence();").count(), 2, "{cuda}");
    // Two for the group by name, and one each for the load of the system and for the exchange.
    let c = written(last_of_group_sums::kernel(), Dialect::OpenClC);
    let named = |scope: &str| c.matches(&format!("{scope})")).count();
    assert_eq!([named("memory_scope_work_group"), named("memory_scope_device")], [2, 2], "{c}");
}
