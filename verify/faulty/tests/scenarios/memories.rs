//! Memories beside a device's own: buffers that stay in one place, mapped and imported memory, addresses, images, and memory
//! that drivers pin or order.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use windlass::image::{Block, Kernel, KernelImage, Slot, ViewMut};
use windlass::prelude::*;
use windlass::texel::{R32Float, R32Uint};
use windlass::{BackendError, KernelCall, MemoryKind};
use windlass_backend::HostAccess;
use windlass_faulty::{Faulty, FaultyBuilder, Memory};

use crate::rig::{Rig, error, outcome, set, single, step, stepped};

/// One device that has shared memory, which the host has while it is mapped.
fn mapped() -> FaultyBuilder {
    Faulty::builder().reaches(MemoryKind::Shared, HostAccess::Mapped).imports(1)
}

fn sequence(len: u32, k: u32) -> Vec<u32> {
    (0..len).map(|i| i * 7 + k).collect()
}

/// Nothing of it is ever moved: groups and host accessors use the same bytes, in their order.
/// Seen to fail where the host looked for them in the heap.
#[test]
fn what_stays_in_one_memory_is_used_there_by_all() {
    let rig = Rig::new(Faulty::builder().like_cuda());
    let queue = rig.queue(0);
    for kind in [MemoryKind::Host, MemoryKind::Shared] {
        let x = queue.blocking_buffer_in::<u32, 1>(kind, 8).unwrap();
        assert_eq!(rig.values(&x), [0; 8], "what nobody has written reads as zeros");
        drop(set(&queue, &x, 1));
        let mut guard = rig.finish(x.range(2..4).host_write()).unwrap();
        guard.copy_from_slice(&[100, 200]);
        drop(guard);
        drop(step(&queue, &x, 5));
        let mut expected = sequence(8, 1);
        expected[2..4].copy_from_slice(&[100, 200]);
        expected.iter_mut().for_each(|v| *v = stepped(*v, [5]));
        assert_eq!(rig.values(&x), expected);
        let y = Buffer::<u32>::new(8);
        drop(queue.submit(|cg| cg.copy(&cg.read(&x), &cg.overwrite(&y))).unwrap());
        let transfers = rig.runtime.stats().transfers;
        assert_eq!(rig.values(&y), expected);
        assert_eq!(rig.runtime.stats().transfers, transfers + 1, "only the copy's target came to the host");
        assert_eq!(rig.finish(x.into_vec()).unwrap(), expected);
    }
    drop(queue);
    rig.end();
}

/// Who does not reach it is refused in the call, in words that say where it is.
#[test]
fn what_stays_in_one_memory_is_refused_elsewhere() {
    let rig = Rig::new(Faulty::builder().like_cuda());
    let (here, there) = (rig.queue(0), rig.queue(1));
    let x = here.blocking_buffer_in::<u32, 1>(MemoryKind::Device, 8).unwrap();
    let refused = there.submit(|cg| cg.fill(&cg.overwrite(&x), 1)).unwrap_err();
    assert!(
        refused.is_invalid_input() && refused.to_string().contains("device memory of faulty 0"),
        "{refused}"
    );
    drop(here.record(|cg| cg.fill(&cg.overwrite(&x), 1)).unwrap());
    let refused = there.record(|cg| cg.fill(&cg.overwrite(&x), 1)).unwrap_err();
    assert!(refused.is_invalid_input(), "{refused}");
    let refused = rig.finish(x.host_read()).unwrap_err();
    assert!(refused.is_unsupported() && refused.to_string().contains("the host does not reach"), "{refused}");
    let refused = here.submit(|cg| {
        cg.read(&x);
        cg.host_task(async |_| Ok(()))
    });
    assert!(refused.unwrap_err().is_unsupported());
    let plain = single();
    let refused = plain.queue(0).blocking_buffer_in::<u32, 1>(MemoryKind::Shared, 8).unwrap_err();
    assert!(refused.is_unsupported() && refused.to_string().contains("shared memory"), "{refused}");
    let refused = here.blocking_buffer_in::<u32, 1>(MemoryKind::Device, usize::MAX / 4).unwrap_err();
    assert!(refused.is_invalid_input(), "{refused}");
    rig.control.cap_memory(Some(0));
    let refused = here.blocking_buffer_in::<u32, 1>(MemoryKind::Device, 8).unwrap_err();
    assert!(refused.to_string().contains("32 bytes"), "{refused}");
    rig.control.cap_memory(None);
    drop((here, there, x));
    rig.end();
    plain.end();
}

/// The host has it while it is mapped, and devices while it is not: each time that the other side's turn comes it changes
/// hands, and not otherwise. Seen to fail where steps came behind the last writer and not behind its readers, and where what
/// nobody had written was not cleared before the host got it.
#[test]
fn mapped_memory_changes_hands() {
    let rig = Rig::new(mapped());
    let queue = rig.queue(0);
    let x = queue.blocking_buffer_in::<u32, 1>(MemoryKind::Shared, 8).unwrap();
    assert_eq!(rig.values(&x), [0; 8]);
    drop(set(&queue, &x.range(0..4), 1));
    drop(step(&queue, &x.range(0..4), 2));
    let written = rig.values(&x);
    assert_eq!(written[..4], sequence(4, 1).iter().map(|v| stepped(*v, [2])).collect::<Vec<_>>());
    assert_eq!(written[4..], [0; 4]);
    rig.finish(x.range(6..8).host_write()).unwrap().copy_from_slice(&[9, 9]);
    let fed = rig.runtime.stats().fed;
    drop(step(&queue, &x, 3));
    drop(step(&queue, &x, 4));
    rig.settle();
    assert_eq!(rig.runtime.stats().fed, fed + 3, "two groups, and one step before them");
    assert_eq!(rig.values(&x)[6..], [stepped(9, [3, 4]); 2]);
    drop((queue, x));
    rig.end();
}

/// A program's own memory is used in place: nothing is copied, and it is freed when nobody uses it.
#[test]
fn a_programs_own_memory_is_taken_over() {
    for builder in [mapped(), Faulty::builder().like_cuda()] {
        let rig = Rig::new(builder);
        let queue = rig.queue(0);
        let x = queue.blocking_import(MemoryKind::Shared, sequence(16, 0)).unwrap();
        let before = rig.control.audit().bytes_copied;
        drop(step(&queue, &x, 3));
        let expected: Vec<u32> = sequence(16, 0).iter().map(|v| stepped(*v, [3])).collect();
        assert_eq!(rig.values(&x), expected);
        assert_eq!(rig.control.audit().bytes_copied, before);
        assert_eq!(rig.finish(x.into_vec()).unwrap(), expected);
        let none = queue.blocking_import(MemoryKind::Shared, Vec::<u32>::new()).unwrap();
        assert!(rig.values(&none).is_empty());
        drop((queue, none));
        rig.end();
    }
    let rig = Rig::new(Faulty::builder().reaches(MemoryKind::Host, HostAccess::Coherent).imports(1 << 30));
    let queue = rig.queue(0);
    // What is not aligned, or is for memory that takes none, is copied once to where it stays.
    for kind in [MemoryKind::Host, MemoryKind::Device] {
        let before = rig.control.audit();
        let copied = queue.blocking_import(kind, sequence(16, 0)).unwrap();
        let stepped_once = step(&queue, &copied, 3);
        rig.settle();
        assert!(outcome(&stepped_once).is_ok());
        let there = Buffer::<u32>::new(16);
        drop(queue.submit(|cg| cg.copy(&cg.read(&copied), &cg.overwrite(&there))).unwrap());
        assert_eq!(rig.values(&there), sequence(16, 0).iter().map(|v| stepped(*v, [3])).collect::<Vec<_>>());
        assert!(rig.control.audit().bytes_copied > before.bytes_copied);
    }
    assert_eq!(queue.memory_kinds(), [MemoryKind::Device, MemoryKind::Host]);
    drop(queue);
    rig.end();
}

/// Nobody knows whose memory is that failed to change hands: whoever wants it from there on fails, also who would overwrite
/// it, and everything else goes on. Seen to fail where such a failure was one of the bytes read alone.
#[test]
fn memory_that_fails_to_change_hands_is_of_no_use() {
    let rig = Rig::new(mapped());
    let queue = rig.queue(0);
    let (x, y) = (queue.blocking_buffer_in::<u32, 1>(MemoryKind::Shared, 8).unwrap(), Buffer::<u32>::new(8));
    drop(set(&queue, &x, 1));
    rig.settle();
    rig.control.fail(0, BackendError::Unsupported("to map it".into()));
    let reader = rig.finish(x.host_read()).unwrap_err();
    assert!(reader.to_string().contains("to map it"), "{reader}");
    let overwrites = set(&queue, &x, 2);
    let beside = set(&queue, &y, 3);
    rig.settle();
    assert!(error(&overwrites).is_dependency_failed());
    assert!(outcome(&beside).is_ok());
    assert_eq!(rig.values(&y), sequence(8, 3));
    assert!(rig.finish(x.host_write()).is_err());
    drop((queue, x, y, overwrites, beside));
    rig.end();
}

/// Where it could not be cleared before the host had it, the host gets none of what was there before, and no device clears it under
/// the host's hands. Seen to fail where mapping did not depend on the clear.
#[test]
fn what_could_not_be_cleared_is_not_given_to_the_host() {
    let rig = Rig::new(mapped());
    let queue = rig.queue(0);
    let x = queue.blocking_buffer_in::<u32, 1>(MemoryKind::Shared, 8).unwrap();
    rig.control.fail(0, BackendError::Unsupported("to clear it".into()));
    for _ in 0..2 {
        let reader = rig.finish(x.host_read()).unwrap_err();
        assert!(reader.to_string().contains("to clear it"), "{reader}");
    }
    drop((queue, x));
    rig.end();
}

/// What a host accessor that overwrites leaves unwritten reads as zeros also where fresh memory does not. Seen to fail where such an
/// accessor asked for no clear.
#[test]
fn overwriting_from_the_host_shows_nothing_of_others() {
    for host in [HostAccess::Coherent, HostAccess::Mapped] {
        let rig = Rig::new(Faulty::builder().reaches(MemoryKind::Shared, host));
        let queue = rig.queue(0);
        let x = queue.blocking_buffer_in::<u32, 1>(MemoryKind::Shared, 8).unwrap();
        let mut guard = rig.finish(x.host_overwrite()).unwrap();
        assert_eq!(guard[..], [0; 8]);
        guard[3] = 9;
        drop(guard);
        assert_eq!(rig.values(&x), [0, 0, 0, 9, 0, 0, 0, 0]);
        drop((queue, x));
        rig.end();
    }
}

/// Nothing is put where no work is taken any more. Seen to fail where nobody asked.
#[test]
fn nothing_is_placed_after_shutdown() {
    let rig = Rig::new(Faulty::builder().like_cuda());
    let queue = rig.queue(0);
    rig.finish(rig.runtime.shutdown(std::time::Duration::from_secs(10)));
    assert!(queue.blocking_buffer_in::<u32, 1>(MemoryKind::Shared, 8).is_err());
    assert!(queue.blocking_import(MemoryKind::Shared, vec![1_u32]).is_err());
    drop(queue);
    rig.end();
}

/// Memory of a device that a guard holds is freed by who may call the driver, also where the device is lost meanwhile and the
/// guard is the last to have it. Seen to fail where the engine let go of lost memory that somebody on the host still had.
#[test]
fn a_guard_frees_no_memory_of_a_driver() {
    for host in [HostAccess::Coherent, HostAccess::Mapped] {
        let rig = Rig::new(Faulty::builder().reaches(MemoryKind::Shared, host));
        let queue = rig.queue(0);
        let x = queue.blocking_buffer_in::<u32, 1>(MemoryKind::Shared, 8).unwrap();
        let guard = rig.finish(x.host_read()).unwrap();
        rig.control.lose_devices("gone");
        drop(set(&queue, &Buffer::new(8), 1));
        rig.settle();
        let there = rig.control.audit().allocations;
        drop(guard);
        assert_eq!(rig.control.audit().allocations, there, "to let go of a guard is no native call");
        rig.settle();
        assert_eq!(rig.control.audit().allocations, there - 1);
        drop((queue, x));
    }
}

/// A kernel that wants a pointer gets the address of the accessor's first element, and the group has its place in the
/// order as with any accessor.
#[test]
fn a_kernel_takes_an_address() {
    let rig = Rig::new(Faulty::builder().like_cuda());
    let (seen, count) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicU32::new(0)));
    let (told, calls) = (seen.clone(), count.clone());
    let body = move |block: Block<'_>| {
        let address = windlass::image::View::<u64>::new(block.spans()[0]).get(0);
        told.store(address as u32, Ordering::Relaxed);
        calls.fetch_add(1, Ordering::Relaxed);
    };
    let kernel = Kernel::new("points", [Slot::Pointer], [KernelImage::host(Arc::new(body))]);
    let queue = rig.queue(0);
    let x = queue.blocking_buffer_in::<u32, 1>(MemoryKind::Device, 8).unwrap();
    let group =
        queue.submit(|cg| cg.parallel_for(1, KernelCall::new(&kernel).buffer(cg.read_write(&x.range(2..8)))));
    rig.settle();
    assert!(outcome(&group.unwrap()).is_ok());
    let address = x.device_address().expect("the device has addresses");
    assert_eq!(x.range(2..4).device_address(), Some(address + 8));
    assert_eq!(seen.load(Ordering::Relaxed), (address + 8) as u32);
    // A buffer that goes where it is needed has an address wherever that is, and none to tell.
    let anywhere = Buffer::<u32>::new(8);
    drop(queue.submit(|cg| cg.parallel_for(1, KernelCall::new(&kernel).buffer(cg.read(&anywhere)))).unwrap());
    rig.settle();
    assert_eq!((count.load(Ordering::Relaxed), anywhere.device_address()), (2, None));
    let plain = single();
    let other = plain.queue(0);
    let refused = other
        .submit(|cg| cg.parallel_for(1, KernelCall::new(&kernel).buffer(cg.read(&Buffer::<u32>::new(8)))));
    let refused = refused.unwrap_err();
    assert!(refused.is_unsupported() && refused.to_string().contains("a pointer as argument 0"), "{refused}");
    drop((queue, other, x, anywhere));
    rig.end();
    plain.end();
}

fn texels(of: Vec<u32>) -> Vec<R32Uint> {
    of.into_iter().map(|texel| R32Uint::new([texel])).collect()
}

/// Texels go to the device's layout and back, by whole images and by parts, between images and buffers. Seen to fail where
/// parts were named as the bytes that they would be.
#[test]
fn images_are_kept_as_the_device_likes_them() {
    for builder in [Faulty::builder().like_cuda(), Faulty::builder()] {
        let rig = Rig::new(builder);
        let queue = rig.queue(0);
        let image = Image::with_shape([4, 6], texels(sequence(24, 0))).unwrap().native().unwrap();
        let grid = Buffer::<R32Uint, 2>::new([4, 6]);
        let line = Buffer::from(texels(sequence(4, 100)));
        let group = queue.submit(|cg| {
            let part = image.range((1..3, 2..4));
            cg.copy(&cg.read(&line), &cg.write(&part))?;
            cg.fill(&cg.write(&image.range((3.., ..))), R32Uint::new([7]))?;
            cg.copy(&cg.read(&image), &cg.overwrite(&grid))
        });
        rig.settle();
        assert!(outcome(&group.unwrap()).is_ok());
        let mut expected = sequence(24, 0);
        expected[8..10].copy_from_slice(&[100, 107]);
        expected[14..16].copy_from_slice(&[114, 121]);
        expected[18..].fill(7);
        let expected = texels(expected);
        assert_eq!(rig.finish(grid.host_read()).unwrap()[..], expected);
        assert_eq!(rig.finish(image.host_read()).unwrap()[..], expected);
        let fresh = Image::<R32Float, 2>::new([3, 3]).unwrap().native().unwrap();
        let one = R32Float::new([1.0]);
        drop(queue.submit(|cg| cg.fill(&cg.write(&fresh.range((0..1, ..))), one)).unwrap());
        let found = rig.finish(fresh.host_read()).unwrap().iter().map(|texel| texel.channels[0]).sum::<f32>();
        assert_eq!((found, fresh.host_read().blocking_wait().unwrap()[[0, 2]]), (3.0, one));
        drop((queue, image, grid, line, fresh));
        rig.end();
    }
}

/// A kernel takes an image where it declares one, as a whole, on devices that have such. Seen to fail where a part without gaps from
/// the start on counted as the whole.
#[test]
fn a_kernel_takes_an_image() {
    let body = |block: Block<'_>| {
        let texels = ViewMut::<u32>::new(block.spans()[0]);
        block.items().for_each(|i| texels.set(i, texels.get(i) + 1));
    };
    let kernel = Kernel::new("lighter", [Slot::Image], [KernelImage::host(Arc::new(body))]);
    let rig = Rig::new(Faulty::builder().like_cuda());
    let queue = rig.queue(0);
    let image = Image::with_shape([4, 6], texels(sequence(24, 0))).unwrap().native().unwrap();
    let lighter = |texels: &Buffer<R32Uint, 2>| {
        queue.submit(|cg| cg.parallel_for(24, KernelCall::new(&kernel).buffer(cg.read_write(texels))))
    };
    drop(lighter(&image).unwrap());
    assert_eq!(rig.finish(image.host_read()).unwrap()[..], texels(sequence(24, 1)));
    // Parts that start where the image does and have no gaps are parts too: the kernel would see all the rest.
    for part in [(1..4, 0..6), (0..3, 0..6), (0..1, 0..3)] {
        let refused = lighter(&image.range(part)).unwrap_err().to_string();
        assert!(refused.contains("a part of an image"), "{refused}");
    }
    let refused = lighter(&Image::new([4, 6]).unwrap()).unwrap_err().to_string();
    assert!(refused.contains("a buffer that is no image"), "{refused}");
    let step = windlass_faulty::kernels::step();
    let refused = queue.submit(|cg| {
        let texels = cg.read_write(&image);
        cg.parallel_for(4, KernelCall::new(&step).buffer(texels).value(1_u32))
    });
    assert!(refused.unwrap_err().to_string().contains("an image, and the kernel takes a buffer to write"));
    let plain = single();
    let other = plain.queue(0);
    let refused = other.submit(|cg| {
        cg.parallel_for(
            24,
            KernelCall::new(&kernel)
                .buffer(cg.read_write(&Image::<R32Uint>::new([4, 6]).unwrap().native().unwrap())),
        )
    });
    assert!(refused.unwrap_err().to_string().contains("copy its texels to a buffer"));
    drop((queue, other, image));
    rig.end();
    plain.end();
}

/// What comes from a device whose copies block comes straight to memory that the driver has pinned: no staging, no copy on
/// the host, and nothing blocks when it goes back.
#[test]
fn data_that_comes_from_a_device_comes_to_pinned_memory() {
    let rig = Rig::new(Faulty::builder().like_cuda());
    let queue = rig.queue(0);
    let x = Buffer::<u32>::new(1 << 16);
    drop(set(&queue, &x.range(1..), 1));
    let values = rig.values(&x);
    assert_eq!((values[0], values[1]), (0, 1));
    rig.finish(x.range(..1).host_write()).unwrap()[0] = 5;
    drop(step(&queue, &x, 2));
    assert_eq!(rig.values(&x)[0], stepped(5, [2]));
    let (stats, audit) = (rig.runtime.stats(), rig.control.audit());
    assert_eq!((stats.staged_transfers, audit.foreign_copies), (0, 0));
    // Where there is no more of it, the process's own memory does.
    rig.control.no_staging(true);
    let y = Buffer::<u32>::new(1 << 16);
    drop(set(&queue, &y, 1));
    assert_eq!(rig.values(&y)[1], 8);
    drop((queue, x, y));
    rig.end();
}

/// What a driver has pinned for one buffer is the next one's, cleared: it is asked for no more, and nobody sees what another
/// buffer had. Seen to fail where it was not cleared, and where it was freed with its buffer.
#[test]
fn pinned_memory_is_kept_for_the_next_buffer() {
    let rig = Rig::new(Faulty::builder().like_cuda());
    let queue = rig.queue(0);
    let mut allocates = Vec::new();
    for len in [16, 1 << 16] {
        for round in 0..4 {
            let x = Buffer::<u32>::new(len);
            let whole = round % 2 == 0;
            drop(set(&queue, &x.range(usize::from(!whole)..), 1));
            assert_eq!(rig.values(&x)[0], u32::from(whole));
            drop(x);
            rig.settle();
            allocates.push(rig.control.audit().allocates);
        }
    }
    let more: Vec<u64> = allocates.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert_eq!(more, [1, 1, 1, 2, 1, 1, 1], "the device's own each time, and once in each size the host's");
    drop(queue);
    rig.end();
}

/// What a copy brings is not cleared before; the rest of what is kept for the next buffer is.
#[test]
fn pinned_memory_is_cleared_where_nothing_comes() {
    let rig = Rig::new(Faulty::builder().like_cuda());
    let queue = rig.queue(0);
    for (from, cleared) in [(0, 0), (100, 400), (0, 0)] {
        let before = rig.runtime.stats().bytes_cleared;
        let x = Buffer::<u32>::new(1 << 16);
        drop(set(&queue, &x.range(from..), 1));
        let values = rig.values(&x);
        assert!(values[..from].iter().all(|value| *value == 0));
        assert_eq!(values[from..].last(), Some(&(((1 << 16) - from as u32 - 1) * 7 + 1)));
        // Of the device's memory nothing was to be cleared: nobody reads there what nobody has written.
        assert_eq!(rig.runtime.stats().bytes_cleared - before, cleared);
        drop(x);
        rig.settle();
    }
    drop(queue);
    rig.end();
}

/// Stream-ordered memory is asked for at once, whatever the device does, and a group runs when it is there.
#[test]
fn a_group_waits_for_memory_that_is_on_its_way() {
    let rig = Rig::new(Faulty::builder().device(Memory::Own).stream_ordered_memory());
    let queue = rig.queue(0);
    let x = Buffer::<u32>::new(8);
    let event = set(&queue, &x, 1);
    rig.runtime.run_until_stalled();
    assert_eq!(rig.control.audit().feeds, 1, "the group is fed before its memory is there");
    rig.settle();
    assert!(outcome(&event).is_ok());
    assert_eq!(rig.values(&x), sequence(8, 1));
    drop((queue, x, event));
    rig.end();
}
