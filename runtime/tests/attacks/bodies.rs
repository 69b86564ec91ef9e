//! Kernels that are put together by hand, of safe parts that do not fit each other.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use windlass::image::{AtomicView, Block, Kernel, KernelImage, Slot, SlotAccess, View, ViewMut};
use windlass::prelude::*;
use windlass::{KernelCall, NdRange};

use crate::everywhere;
use crate::rig::{Rig, bump, contents, wait};

const READ: Slot = Slot::Buffer(SlotAccess::Read);
const WRITE: Slot = Slot::Buffer(SlotAccess::ReadWrite);

/// A kernel of one body for the host.
fn made(slots: &[Slot], body: impl Fn(Block<'_>) + Send + Sync + 'static) -> Kernel {
    Kernel::new("made", slots.iter().cloned(), [KernelImage::host(Arc::new(body))])
}

#[windlass::kernels]
mod taken {
    #[kernel]
    pub fn own(x: &[u32], y: &mut [u32]) {
        let i = global_id(0);
        y[i] = x[i] + 1;
    }

    #[kernel]
    pub fn wide(by: u64, y: &mut [u64]) {
        y[global_id(0)] += by;
    }

    #[kernel]
    pub fn grouped(y: &mut [u32], #[local] tile: &mut [u32]) {
        let l = local_id(0);
        tile[l] = 1;
        barrier();
        y[global_id(0)] += tile[local_size(0) - 1 - l];
    }
}

/// A write to memory that others read as plain slices at that time: it was declared to be read.
/// Seen to fail where a view to write did not ask whether the memory is only read.
#[test]
fn a_body_that_writes_what_it_declared_to_read_is_stopped() {
    everywhere(|_, queue| {
        let x = Buffer::from(vec![1_u32; 64]);
        let bodies: [fn(Block<'_>); 3] = [
            |block| ViewMut::<u32>::new(block.spans()[0]).set(0, 7),
            |block| _ = AtomicView::<u32>::new(block.spans()[0]).fetch_add(0, 7),
            |block| ViewMut::<[u8; 4]>::new(block.spans()[0]).set_at([0], [7; 4]),
        ];
        for body in bodies {
            let kernel = made(&[READ], body);
            let event =
                queue.submit(|cg| cg.parallel_for(1, KernelCall::new(&kernel).buffer(cg.read(&x)))).unwrap();
            assert!(wait(event).unwrap_err().is_panic());
            assert_eq!(contents(&x), [1; 64]);
        }
    });
}

/// Elements of another size: the first would be read beyond its end, and the last beyond the memory's.
/// Seen to fail, with an access outside of the memory, where sizes of elements were not compared.
#[test]
fn a_body_that_takes_elements_for_larger_ones_is_stopped() {
    everywhere(|_, queue| {
        let x = Buffer::from(vec![1_u32; 3]);
        let bodies: [fn(Block<'_>); 4] = [
            |block| assert_eq!(View::<u64>::new(block.spans()[0]).get(0), 0),
            |block| ViewMut::<u128>::new(block.spans()[0]).set(0, 7),
            |block| ViewMut::<u8>::new(block.spans()[0]).set(0, 7),
            |block| _ = AtomicView::<u64>::new(block.spans()[0]).fetch_add(0, 7),
        ];
        for body in bodies {
            let kernel = made(&[WRITE], body);
            let launch = |cg: &CommandGroup<'_>| {
                cg.parallel_for(3, KernelCall::new(&kernel).buffer(cg.read_write(&x)))
            };
            assert!(wait(queue.submit(launch).unwrap()).unwrap_err().is_panic());
            x.clear_poison();
            assert_eq!(contents(&x), [1; 3]);
        }
    });
}

/// Spans that a launch does not have, and items beyond it.
/// Seen to fail, with an access outside of the memory, where positions were not compared.
#[test]
fn a_body_that_asks_for_what_its_launch_has_not_finds_nothing() {
    let rig = Rig::new();
    let x = Buffer::from(vec![1_u32; 8]);
    let bodies: [fn(Block<'_>); 3] = [
        |block| ViewMut::<u32>::new(block.spans()[1]).set(0, 7),
        |block| {
            let view = ViewMut::<u32>::new(block.spans()[0]);
            (8..1000).chain([usize::MAX, usize::MAX / 4 + 1]).for_each(|at| view.set(at, 7));
            panic!("and that is that")
        },
        |block| {
            let view = ViewMut::<u32>::new(block.spans()[0]);
            view.set_at([usize::MAX, 0, 0], 7);
            view.set_at([1, 0, 0], 7);
            view.set_at([0, 8], 7);
            view.set_at([8], 7);
            panic!("and that is that")
        },
    ];
    for body in bodies {
        let kernel = made(&[WRITE], body);
        let launch =
            |cg: &CommandGroup<'_>| cg.parallel_for(1, KernelCall::new(&kernel).buffer(cg.read_write(&x)));
        assert!(wait(rig.queue.submit(launch).unwrap()).unwrap_err().is_panic());
        x.clear_poison();
        assert_eq!(contents(&x), [1; 8]);
    }
}

/// The attribute's code, which takes slices where its own declarations allow it, in a kernel with other declarations.
/// Seen to fail where nobody asked whether the slots that the code writes are declared so.
#[test]
fn the_attributes_code_in_a_kernel_of_other_slots_is_stopped() {
    everywhere(|rig, queue| {
        let (x, y) = (Buffer::from(vec![1_u32; 64]), Buffer::from(vec![1_u32; 64]));
        let code = || taken::own::kernel().images().iter().cloned();
        let with = |slots: &[Slot]| Kernel::new("own", slots.iter().cloned(), code());
        // It writes what is declared to be read.
        let reads = with(&[READ, READ]);
        let launch = |cg: &CommandGroup<'_>| {
            cg.parallel_for(64, KernelCall::new(&reads).buffer(cg.read(&x)).buffer(cg.read(&y)))
        };
        assert!(queue.submit(launch).and_then(wait).is_err());
        // It takes values for memory, the other way round, or has more or fewer of either.
        let value = with(&[Slot::Value(4), WRITE]);
        let launch = |cg: &CommandGroup<'_>| {
            cg.parallel_for(64, KernelCall::new(&value).value(1_u32).buffer(cg.read_write(&y)))
        };
        let _ = queue.submit(launch).and_then(wait);
        let fewer = with(&[WRITE]);
        let launch =
            |cg: &CommandGroup<'_>| cg.parallel_for(64, KernelCall::new(&fewer).buffer(cg.read_write(&y)));
        assert!(queue.submit(launch).and_then(wait).is_err());
        let more = with(&[READ, WRITE, WRITE]);
        let launch = |cg: &CommandGroup<'_>| {
            let call = KernelCall::new(&more).buffer(cg.read(&x)).buffer(cg.read_write(&y));
            cg.parallel_for(64, call.buffer(cg.read_write(&y)))
        };
        assert!(queue.submit(launch).and_then(wait).is_err());
        rig.settle();
        y.clear_poison();
        let seen = contents(&y);
        assert!(seen.iter().all(|v| matches!(v, 1 | 2)), "{seen:?}");
        assert_eq!(contents(&x), [1; 64]);
    });
}

/// The same code by calls that nobody has typed: elements of other sizes and alignments.
#[test]
fn untyped_calls_of_the_attributes_code_are_compared() {
    everywhere(|_, queue| {
        let (bytes, wide) = (Buffer::from(vec![1_u8; 64]), Buffer::from(vec![1_u64; 64]));
        let odd = Buffer::from(vec![[1_u8; 8]; 64]);
        let own = taken::own::kernel();
        let call = |cg: &CommandGroup<'_>| {
            cg.parallel_for(64, KernelCall::new(own).buffer(cg.read(&bytes)).buffer(cg.read_write(&wide)))
        };
        assert!(queue.submit(call).and_then(wait).is_err());
        let call = |cg: &CommandGroup<'_>| {
            cg.parallel_for(
                64,
                KernelCall::new(taken::wide::kernel()).value(3_u64).buffer(cg.read_write(&odd)),
            )
        };
        wait(queue.submit(call).unwrap()).unwrap();
        assert_eq!(wait(odd.host_read()).unwrap()[..], [[4, 1, 1, 1, 1, 1, 1, 1]; 64].map(native));
        let launch = queue.submit(|cg| {
            let short = KernelCall::new(taken::wide::kernel()).value(3_u32);
            cg.parallel_for(64, short.buffer(cg.read_write(&wide)))
        });
        assert!(launch.unwrap_err().is_invalid_input());
        let launch = queue.submit(|cg| {
            let none = KernelCall::new(taken::wide::kernel()).value([0_u64; 0]);
            cg.parallel_for(64, none.buffer(cg.read_write(&wide)))
        });
        assert!(launch.unwrap_err().is_invalid_input());
        let launch = queue.submit(|cg| {
            let swapped = KernelCall::new(taken::wide::kernel()).buffer(cg.read_write(&wide));
            cg.parallel_for(64, swapped.value(3_u64))
        });
        assert!(launch.unwrap_err().is_invalid_input());
        wide.clear_poison();
        assert_eq!(wait(wide.host_read()).unwrap()[..], [1; 64]);
    });
}

/// Eight bytes of a number, written the least first.
fn native(little: [u8; 8]) -> [u8; 8] {
    u64::from_le_bytes(little).to_ne_bytes()
}

/// Local memory of wild sizes, or of elements of no size, and work-groups that do not divide.
#[test]
fn local_memory_and_groups_of_wild_sizes_are_refused_or_empty() {
    everywhere(|_, queue| {
        let y = Buffer::from(vec![1_u32; 64]);
        let of = |local: fn(KernelCall<'_>) -> KernelCall<'_>, range| {
            queue.submit(|cg| {
                let call = local(KernelCall::new(taken::grouped::kernel()).buffer(cg.read_write(&y)));
                cg.parallel_for(range, call)
            })
        };
        let range = NdRange { global: [64], local: [8] };
        for wild in [
            (|call| call.local::<u64>(usize::MAX)) as fn(KernelCall<'_>) -> KernelCall<'_>,
            |call| call.local::<u64>(usize::MAX / 8 + 1),
            |call| call.local::<u8>(1 << 40),
            |call| call.local::<[u64; 4096]>(u32::MAX as usize),
        ] {
            assert!(of(wild, range).and_then(wait).is_err());
        }
        for groups in [[0], [7], [65], [usize::MAX], [1 << 32], [1 << 33]] {
            let bad = NdRange { global: [64], local: groups };
            assert!(of(|call| call.local::<u32>(8), bad).and_then(wait).is_err(), "{groups:?}");
        }
        y.clear_poison();
        assert_eq!(contents(&y), [1; 64]);
        // Elements of no size, odd ones, and none: what is outside is outside.
        for few in [
            (|call| call.local::<[u32; 0]>(1000)) as fn(KernelCall<'_>) -> KernelCall<'_>,
            |call| call.local::<u8>(7),
            |call| call.local::<u32>(0),
        ] {
            let _ = of(few, range).and_then(wait);
        }
        y.clear_poison();
        assert!(contents(&y).iter().all(|v| (1..=4).contains(v)));
    });
}

/// A kernel in the forms of another one would take its arguments for something else.
#[test]
fn a_call_does_not_become_one_of_another_kernel() {
    let rig = Rig::new();
    let (x, y) = (Buffer::from(vec![1_u32; 8]), Buffer::from(vec![1_u32; 8]));
    let other = Kernel::new("own", taken::own::kernel().slots().iter().cloned(), []);
    let forged = taken::wide::kernel().in_forms(taken::own::kernel().images().iter().cloned());
    for to in [&other, &forged, taken::wide::kernel(), taken::grouped::kernel()] {
        let launch =
            rig.queue.submit(|cg| cg.parallel_for(8, taken::own(cg.read(&x), cg.read_write(&y)).of(to)));
        assert!(launch.unwrap_err().is_invalid_input());
    }
    // Its own name and slots with another kernel's code: what that does is compared when it runs.
    let wide = Buffer::from(vec![1_u64; 8]);
    let launch = rig.queue.submit(|cg| cg.parallel_for(8, taken::wide(3, cg.read_write(&wide)).of(&forged)));
    assert!(launch.and_then(wait).is_err());
    wide.clear_poison();
    assert_eq!(wait(wide.host_read()).unwrap()[..], [1; 8]);
    wait(bump(&rig.queue, &y)).unwrap();
    assert_eq!(contents(&y), [2; 8]);
}

/// A body that is the same for several launches at once, and counts on its values being its own: they live as long as it runs.
/// Seen to fail, with an access after the free, where values were freed when their launch had been made.
#[test]
fn values_of_a_launch_live_until_its_last_block_has_run() {
    static RAN: AtomicUsize = AtomicUsize::new(0);
    let body = |block: Block<'_>| {
        let (value, to) = (View::<[u64; 4]>::new(block.spans()[0]), ViewMut::<u64>::new(block.spans()[1]));
        for item in block.items() {
            let [a, b, c, d] = value.get(0);
            assert!(a == b && b == c && c == d);
            to.set(item, a);
            assert_eq!(value.get(1), [0; 4], "there is one");
        }
        RAN.fetch_add(1, Ordering::SeqCst);
    };
    let kernel = made(&[Slot::Value(32), WRITE], body);
    let rig = Rig::new();
    let all: Vec<_> = (0..50).map(|_| Buffer::<u64>::new(3000)).collect();
    for (to, value) in all.iter().zip(0_u64..) {
        let launch = |cg: &CommandGroup<'_>| {
            cg.parallel_for(3000, KernelCall::new(&kernel).value([value; 4]).buffer(cg.overwrite(to)))
        };
        drop(rig.queue.submit(launch).unwrap());
    }
    for (to, value) in all.into_iter().zip(0..) {
        assert!(wait(to.into_vec()).unwrap().iter().all(|v| *v == value));
    }
    assert!(RAN.load(Ordering::SeqCst) >= 50);
}
