//! Calls that were not made by a kernel's own function. What its text for devices relies on is compared with what they bring; on the host
//! every access is.

use windlass::image::{Kernel, Slot, SlotAccess};
use windlass::prelude::*;
use windlass::{KernelCall, MemoryKind, NdRange};

use crate::everywhere::queues;

#[windlass::kernels]
mod taken {
    #[kernel]
    pub fn gather(x: &[u64], at: &[u32], out: &mut [u64]) {
        out[global_id(0)] = x[at[global_id(0)]];
    }

    /// It takes what `gather` takes, and is at another place in it.
    #[kernel]
    pub fn ahead(x: &[u64], at: &[u32], out: &mut [u64]) {
        out[global_id(0)] = x[global_id(0)] + at[global_id(0) + 1] as u64;
    }

    #[kernel]
    pub fn in_groups(x: &[u64], at: &[u32], out: &mut [u64]) {
        out[global_id(0)] = x[at[global_id(0)]] + local_id(0) as u64;
    }

    #[kernel]
    pub fn double(v: &mut [u32]) {
        v[global_id(0)] *= 2;
    }

    #[kernel]
    pub fn count(v: &[AtomicU32]) {
        v[global_id(0)].fetch_add(1, Relaxed);
    }

    #[kernel]
    pub fn corner(x: &View<u32, 2>, out: &mut [u32]) {
        out[global_id(0)] = x[9][global_id(0)];
    }
}

/// Whether anything runs is up to the device; on one that runs a text, nothing may be let through.
fn refused(what: &str, submit: &dyn Fn(&Queue) -> windlass::Result<Event>) {
    for queue in queues().iter().filter(|queue| !queue.device().has(Aspect::HostBodies)) {
        match submit(queue) {
            Ok(_) => panic!("it is let through on {}", queue.device()),
            Err(error) if error.is_unsupported() => {}
            Err(error) => assert!(error.is_invalid_input() && error.to_string().contains(what), "{error}"),
        }
    }
}

/// A text that counts to 64 elements of eight bytes would reach 512 bytes of a buffer of 64.
#[test]
fn elements_of_other_sizes_are_refused() {
    let (x, at, out) = (Buffer::from(vec![1_u8; 64]), Buffer::from(vec![0_u32; 64]), Buffer::<u64>::new(64));
    refused(
        "argument 0 of kernel `gather` has elements of 1 bytes, and the kernel takes elements of 8",
        &|queue| {
            queue.submit(|cg| {
                let call = KernelCall::new(taken::gather::kernel()).buffer(cg.read(&x)).buffer(cg.read(&at));
                cg.parallel_for(64, call.buffer(cg.overwrite(&out)))
            })
        },
    );
}

/// Elements as large as the kernel's are what it takes, whatever they are called.
#[test]
fn elements_of_the_same_size_are_taken() {
    for queue in queues().iter().filter(|queue| queue.device().has(Aspect::Int64)) {
        let (x, at) = (Buffer::from(vec![[1_u32, 0], [2, 0]]), Buffer::from(vec![1_u32, 0]));
        let out = Buffer::<i64>::new(2);
        let done = queue.submit(|cg| {
            let call = KernelCall::new(taken::gather::kernel()).buffer(cg.read(&x)).buffer(cg.read(&at));
            cg.parallel_for(2, call.buffer(cg.overwrite(&out)))
        });
        done.and_then(|done| done.blocking_wait())
            .unwrap_or_else(|error| panic!("{}: {error}", queue.device()));
        let found = out.host_read().blocking_wait().expect("it was written");
        let expected = if cfg!(target_endian = "little") { [2, 1] } else { [2 << 32, 1 << 32] };
        assert_eq!(found[..], expected, "on {}", queue.device());
    }
}

/// Ten rows would be read of a grid that has two.
#[test]
fn extents_are_those_of_the_view() {
    let (x, out) = (Buffer::<u32, 2>::new([2, 4]), Buffer::<u32>::new(4));
    refused("argument 1 of kernel `corner` is to be the extents of the view before it", &|queue| {
        queue.submit(|cg| {
            let call = KernelCall::new(taken::corner::kernel()).buffer(cg.read(&x)).value([10_u32, 4]);
            cg.parallel_for(4, call.buffer(cg.overwrite(&out)))
        })
    });
    for queue in queues() {
        let done = queue.submit(|cg| {
            let call = KernelCall::new(taken::corner::kernel()).buffer(cg.read(&x)).value([2_u32, 4]);
            cg.parallel_for(4, call.buffer(cg.overwrite(&out)))
        });
        done.and_then(|done| done.blocking_wait())
            .unwrap_or_else(|error| panic!("{}: {error}", queue.device()));
    }
}

/// A text among the images of a kernel that is not its own: it may count on the other's work-groups, on what its launches cover, or on the
/// values that it is built with.
#[test]
fn the_text_of_another_kernel_is_refused() {
    let (x, at) = (Buffer::from(vec![1_u64; 64]), Buffer::from(vec![0_u32; 64]));
    let out = Buffer::<u64>::new(64);
    let refused =
        |what: &dyn Fn(&Queue) -> windlass::Result<Event>| refused("has the text of another kernel", what);
    let own = taken::gather::kernel();
    let slots = || own.slots().iter().cloned();
    let forged = [("covered".into(), 1.0), ("group_x".into(), 64.0)];
    let promising = own.images().iter().map(|image| image.with_overrides(forged.clone().into()));
    let others = [
        own.in_forms(taken::ahead::kernel().images().iter().cloned()),
        own.in_forms(taken::in_groups::kernel().images().iter().cloned()),
    ];
    for other in others {
        refused(&|queue: &Queue| {
            queue.submit(|cg| {
                let call = taken::gather(cg.read(&x), cg.read(&at), cg.overwrite(&out));
                cg.parallel_for(64, call.of(&other))
            })
        });
    }
    for other in [
        Kernel::new("copied", slots(), own.images().iter().cloned()),
        Kernel::new("promising", slots(), promising),
        Kernel::grouped("grouped", slots(), own.images().iter().cloned()),
    ] {
        refused(&|queue: &Queue| {
            queue.submit(|cg| {
                let call = KernelCall::new(&other).buffer(cg.read(&x)).buffer(cg.read(&at));
                cg.parallel_for(NdRange { global: [64], local: [64] }, call.buffer(cg.overwrite(&out)))
            })
        });
    }
    let slots = [Slot::Value(8), Slot::Buffer(SlotAccess::Read), Slot::Buffer(SlotAccess::ReadWrite)];
    let other = Kernel::new("other", slots, own.images().iter().cloned());
    refused(&|queue: &Queue| {
        queue.submit(|cg| {
            let call = KernelCall::new(&other).value(1_u64).buffer(cg.read(&at));
            cg.parallel_for(64, call.buffer(cg.overwrite(&out)))
        })
    });
}

/// Only what changes data by atomic operations takes what others change at the same time, whoever makes the call.
#[test]
fn what_others_change_is_for_atomic_operations_alone() {
    for queue in queues() {
        let kind = MemoryKind::Shared;
        if !queue.device().has(Aspect::FineMemory) || !queue.memory_kinds().contains(&kind) {
            continue;
        }
        let v = queue.blocking_import(kind, vec![1_u32; 64]).expect("it has such memory");
        let changed = queue.submit(|cg| {
            let call = KernelCall::new(taken::double::kernel()).buffer(cg.concurrent(&v));
            cg.parallel_for(64, call)
        });
        assert!(changed.is_err_and(|error| error.is_invalid_input()), "on {}", queue.device());
        let counted = queue.submit(|cg| {
            let call = KernelCall::new(taken::count::kernel()).buffer(cg.concurrent(&v));
            cg.parallel_for(64, call)
        });
        counted.and_then(|done| done.blocking_wait()).unwrap_or_else(|e| panic!("{}: {e}", queue.device()));
        assert_eq!(v.host_read().blocking_wait().expect("it was written")[..], [2; 64]);
    }
}

/// Parts of grids whose rows do not follow each other, passed by hand for a line and for a view.
#[test]
fn parts_of_grids_are_what_the_kernel_takes_them_for() {
    for queue in queues() {
        let grid = Buffer::<u32, 2>::with_shape([2, 8], vec![1; 16]).expect("16 elements");
        let part = grid.range((.., 2..6));
        let doubled = queue.submit(|cg| {
            cg.parallel_for(8, KernelCall::new(taken::double::kernel()).buffer(cg.read_write(&part)))
        });
        doubled.and_then(|done| done.blocking_wait()).unwrap_or_else(|e| panic!("{}: {e}", queue.device()));
        let out = Buffer::<u32>::new(4);
        let seen = queue.submit(|cg| {
            let call = KernelCall::new(taken::corner::kernel()).buffer(cg.read(&part)).value([2_u32, 4]);
            cg.parallel_for(4, call.buffer(cg.overwrite(&out)))
        });
        seen.and_then(|done| done.blocking_wait()).unwrap_or_else(|e| panic!("{}: {e}", queue.device()));
        let row = [1, 1, 2, 2, 2, 2, 1, 1];
        assert_eq!(grid.host_read().blocking_wait().expect("it was written")[..], [row, row].concat());
    }
}
