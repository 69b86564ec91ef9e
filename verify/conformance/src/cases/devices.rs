//! What a device says of itself, and how it is found.

use windlass::{Aspect, DeviceInfo, Queue, Selector};

use crate::check::Verdict;
use crate::subject::Subject;
use crate::{ensure, ensure_eq};

pub(super) async fn device_is_listed(s: &Subject) -> Verdict {
    let devices = s.runtime.devices().await?;
    ensure!(devices.contains(&s.device));
    let platforms = s.runtime.platforms().await;
    let mine: Vec<_> = platforms.iter().filter(|p| p.devices().contains(&s.device)).collect();
    ensure_eq!(mine.len(), 1, "a device belongs to one platform");
    ensure_eq!(mine[0].backend(), s.device.backend());
    ensure_eq!(mine[0].name(), s.device.platform_name());
    ensure_eq!(s.device.platform(), *mine[0]);
    ensure!(mine[0].devices_of(s.device.kind()).any(|device| *device == s.device));
    ensure!(!mine[0].version().is_empty(), "a platform has a version of its own");
    ensure!(platforms.iter().any(|p| p.backend().as_str() == "host"), "the host backend is always there");
    let info = s.device.info();
    ensure!(
        info.lanes >= 1
            && info.depth.commands >= 1
            && info.depth.reports >= 1
            && info.memory_bytes != Some(0)
            && !info.name.is_empty()
    );
    ensure!(info.aspects.is_sorted(), "{:?}", info.aspects);
    ensure!(!info.formats.is_empty());
    check_details(info)
}

/// What is told of the hardware is in order, and agrees with what bounds its use.
fn check_details(info: &DeviceInfo) -> Verdict {
    let details = &info.details;
    let items = info.limits.work_group_items;
    ensure!(details.clock_mhz != Some(0) && details.tick_ns != Some(0), "{details:?}");
    ensure!(details.address_bits.is_none_or(|bits| bits == 32 || bits == 64), "{details:?}");
    ensure!(details.alignment.is_none_or(usize::is_power_of_two), "{details:?}");
    ensure!(details.argument_bytes.is_none_or(|bytes| bytes >= 256), "{details:?}");
    ensure!(details.subgroup_sizes.is_sorted(), "{details:?}");
    ensure!(details.subgroup_sizes.iter().all(|size| size.is_power_of_two()), "{details:?}");
    ensure!(
        details.work_group_extent.is_none_or(|along| along.iter().all(|most| (1..=items).contains(most)))
    );
    ensure!(details.cache.is_none_or(|cache| cache.bytes > 0 && cache.line != Some(0)), "{details:?}");
    let [half, single, double] = details.floats;
    ensure!(half.is_none() || info.has(Aspect::Fp16), "{details:?}");
    ensure!(double.is_none() || info.has(Aspect::Fp64), "{details:?}");
    ensure!(single.is_none_or(|single| single.infinities), "{details:?}");
    let widths = details.vector_widths;
    ensure!(widths.is_none_or(|of| of.f32 > 0 && of.i8 >= of.i64 && of.i64 > 0), "{details:?}");
    ensure!(widths.is_none_or(|of| info.has(Aspect::Fp64) == (of.f64 > 0)), "{details:?}");
    Ok(())
}

pub(super) async fn device_is_selected(s: &Subject) -> Verdict {
    let wanted = s.device.clone();
    let selector = Selector::new().score(move |d| (*d == wanted).then_some(1));
    let queue = Queue::builder().runtime(&s.runtime).select(selector).build().await?;
    ensure_eq!(*queue.device(), s.device);
    let none = Queue::builder().runtime(&s.runtime).select(Selector::new().score(|_| None)).build().await;
    ensure!(none.is_err_and(|e| e.is_unavailable()));
    Ok(())
}

pub(super) async fn queue_knows_where_it_is(s: &Subject) -> Verdict {
    for queue in [&s.home, &s.second, &s.away] {
        ensure_eq!(*queue.device(), s.device);
        ensure_eq!(queue.context().devices(), vec![s.device.clone()]);
        ensure_eq!(queue.device().backend(), s.device.backend());
        ensure!(queue.platform().devices().contains(&s.device));
        ensure_eq!(queue.platform(), queue.context().platform());
        ensure!(*queue == queue.clone() && (queue == &s.home) == std::ptr::eq(queue, &s.home));
        ensure!(!queue.is_in_order());
    }
    Ok(())
}

pub(super) async fn queues_share_the_default_context(s: &Subject) -> Verdict {
    // What one queue has written is not moved for the other, and is moved for a context of its own.
    let v = windlass::Buffer::<u32>::new(64);
    s.count(&s.home, &v, 1)?.await?;
    let before = s.tally();
    s.increment(&s.second, &v)?.await?;
    ensure_eq!(s.moved_since(before).transfers, 0);
    s.increment(&s.away, &v)?.await?;
    ensure_eq!(s.moved_since(before).transfers, 1);
    Ok(())
}
