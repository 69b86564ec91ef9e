//! Calls that were not made by a kernel's own function. What its text for devices relies on is compared with what they bring; on the host
//! every access is.

use windlass::KernelCall;
use windlass::image::{Kernel, Slot, SlotAccess};
use windlass::prelude::*;

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
    pub fn corner(x: &View<u32, 2>, out: &mut [u32]) {
        out[global_id(0)] = x[9][global_id(0)];
    }
}

/// Whether anything runs is up to the device; on one that runs a text, nothing may be let through.
fn refused(what: &str, submit: impl Fn(&Queue) -> windlass::Result<Event>) {
    for queue in queues().iter().filter(|queue| !queue.device().has(Aspect::HostBodies)) {
        match submit(queue) {
            Ok(_) => panic!("it is let through on {}", queue.device()),
            Err(error) if error.is_unsupported() => {}
            Err(error) => assert!(error.is_invalid_input() && error.to_string().contains(what), "{error}"),
        }
    }
}

/// Seen to fail without the comparison: a text that counts to 64 elements of eight bytes reached 512 bytes of a buffer of 64.
#[test]
fn elements_of_other_sizes_are_refused() {
    let (x, at, out) = (Buffer::from(vec![1_u8; 64]), Buffer::from(vec![0_u32; 64]), Buffer::<u64>::new(64));
    refused(
        "argument 0 of kernel `gather` has elements of 1 bytes, and the kernel takes elements of 8",
        |queue| {
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

/// Seen to fail without the comparison: ten rows were read of a grid that has two.
#[test]
fn extents_are_those_of_the_view() {
    let (x, out) = (Buffer::<u32, 2>::new([2, 4]), Buffer::<u32>::new(4));
    refused("argument 1 of kernel `corner` is to be the extents of the view before it", |queue| {
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

/// A text among the images of a kernel that is not its own. Seen to fail where its elements alone were compared.
#[test]
fn the_code_of_another_kernel_is_refused() {
    let (x, at) = (Buffer::from(vec![1_u64; 64]), Buffer::from(vec![0_u32; 64]));
    let (bytes, out) = (Buffer::from(vec![1_u8; 64]), Buffer::<u64>::new(64));
    let (gather, ahead) = (taken::gather::kernel(), taken::ahead::kernel());
    let other_slots = [Slot::Value(8), Slot::Buffer(SlotAccess::Read), Slot::Buffer(SlotAccess::ReadWrite)];
    let other = Kernel::new("other", other_slots, gather.images().iter().cloned());
    refused("has the code of another kernel", |queue| {
        queue.submit(|cg| {
            let call = KernelCall::new(&other).value(1_u64).buffer(cg.read(&at));
            cg.parallel_for(64, call.buffer(cg.overwrite(&out)))
        })
    });
    // What the launches of one reach at the items' own positions, those of the other do not.
    assert_ne!(gather.shaping(), ahead.shaping());
    let forged = gather.in_forms(ahead.images().iter().cloned());
    refused("has the code of another kernel", |queue| {
        queue.submit(|cg| {
            let call = taken::gather(cg.read(&x), cg.read(&at), cg.overwrite(&out));
            cg.parallel_for(64, call.of(&forged))
        })
    });
    let copied = Kernel::new("copied", gather.slots().iter().cloned(), gather.images().iter().cloned());
    refused("argument 0 of kernel `copied` has elements of 1 bytes", |queue| {
        queue.submit(|cg| {
            let call = KernelCall::new(&copied).buffer(cg.read(&bytes)).buffer(cg.read(&at));
            cg.parallel_for(64, call.buffer(cg.overwrite(&out)))
        })
    });
}
