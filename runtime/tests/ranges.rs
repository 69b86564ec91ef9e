//! Ranges and shapes at their limits, and ranges that are the program's own.

#[path = "common/rig.rs"]
mod rig;

use std::panic::panic_any;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use rig::{Rig, contents, wait};
use windlass::LaunchRange;
use windlass::image::{Block, IndexRange, Kernel, KernelImage, Range, Slot};
use windlass::prelude::*;

/// A range that answers otherwise each time it is asked.
#[derive(Clone, Copy)]
struct Fickle(&'static AtomicUsize);

impl LaunchRange for Fickle {
    fn range(self) -> Range {
        match self.0.fetch_add(1, Ordering::SeqCst) {
            0 => 4.range(),
            _ => panic_any("a range that was asked twice"),
        }
    }
}

impl IndexRange for Fickle {
    type Item = usize;
    fn item(self, linear: usize) -> usize {
        linear
    }
}

/// The `n`th of those of this process, which nobody else asks.
fn fickle(n: usize) -> Fickle {
    static ASKED: [AtomicUsize; 3] = [const { AtomicUsize::new(0) }; 3];
    Fickle(&ASKED[n])
}

#[windlass::kernel]
fn ones(v: &mut [u32]) {
    v[global_id(0)] = 1;
}

#[test]
fn a_range_is_asked_once() {
    let rig = Rig::new();
    let x = Buffer::<u32>::new(8);
    let event = rig.queue.submit(|cg| {
        let x = cg.read_write(&x);
        cg.host_for(fickle(0), x, |item, x| x.set(item, 1))
    });
    wait(event.unwrap()).unwrap();
    assert_eq!(contents(&x), [1, 1, 1, 1, 0, 0, 0, 0]);
    let event = rig.queue.submit(|cg| cg.parallel_for(fickle(1), ones(cg.read_write(&x.range(4..)))));
    wait(event.unwrap()).unwrap();
    assert_eq!(contents(&x), [1; 8]);
    let mut here = [0; 8];
    ones(&mut here[..]).run_here(fickle(2)).unwrap();
    assert_eq!(here, [1, 1, 1, 1, 0, 0, 0, 0]);
}

#[test]
fn shapes_that_cannot_be_counted_are_refused() {
    let rig = Rig::new();
    const MOST: usize = usize::MAX;
    for shape in [[0, MOST, MOST], [MOST, MOST, 0], [MOST, 0, MOST], [1, MOST, MOST], [2, 2, MOST]] {
        let buffer = Buffer::<u32, 3>::new(shape);
        let _ = (buffer.len(), buffer.range((.., 0..0, ..)).len());
        let submitted = rig.queue.submit(|cg| {
            cg.read(&buffer);
            Ok(())
        });
        if let Err(error) = submitted {
            assert!(error.is_invalid_input() && error.to_string().contains("does not fit"), "{error}");
        }
        assert!(Buffer::<u32, 3>::with_shape(shape, vec![1]).unwrap_err().is_invalid_input());
        // No elements fill it, or it is refused: it must not overflow.
        let _ = Buffer::<u32, 3>::with_shape(shape, vec![]);
    }
    let far = Buffer::<u8, 2>::new([0, MOST]);
    assert!(far.is_empty());
    let local = |cg: &CommandGroup<'_>| {
        let image = KernelImage::host(Arc::new(|_: Block<'_>| {}));
        let kernel = Kernel::new("local", [Slot::Local(8)], [image]);
        cg.parallel_for(1, windlass::KernelCall::new(&kernel).local::<u64>(usize::MAX))
    };
    let error = rig.queue.submit(local).unwrap_err();
    assert!(error.is_invalid_input() && error.to_string().contains("local memory"), "{error}");
}

/// How many elements there are, and what is read outside of them.
#[windlass::kernel]
fn measure(data: &[u32], out: &mut [u32]) {
    out[0] = data.len() as u32;
    out[1] = data[0] + 7;
}

#[windlass::kernel]
fn scribble(data: &mut [u32], out: &mut [u32]) {
    data[global_id(0)] = 5;
    out[0] = data[0] + data.len() as u32;
}

#[test]
fn what_is_empty_can_be_a_kernels_argument() {
    let rig = Rig::new();
    let unused = Buffer::<u32>::new(8);
    let empty = [Buffer::<u32>::new(0), unused.range(3..3), Buffer::from(vec![1_u32; 4]).range(4..)];
    for queue in [&rig.queue, &rig.elsewhere()] {
        for empty in &empty {
            let out = Buffer::from(vec![9_u32; 2]);
            let event = queue.submit(|cg| cg.parallel_for(1, measure(cg.read(empty), cg.read_write(&out))));
            wait(event.unwrap()).unwrap();
            assert_eq!(contents(&out), [0, 7]);
            let event =
                queue.submit(|cg| cg.parallel_for(4, scribble(cg.read_write(empty), cg.read_write(&out))));
            wait(event.unwrap()).unwrap();
            assert_eq!(contents(&out), [0, 7]);
        }
    }
    assert_eq!(contents(&unused), [0; 8]);
    rig.settle();
}

/// Host kernels had it right.
#[test]
fn what_is_empty_can_be_a_host_kernels_argument() {
    let rig = Rig::new();
    let (empty, seen) = (Buffer::<u32>::new(0), Arc::new(AtomicUsize::new(9)));
    let into = seen.clone();
    let event = rig.queue.submit(|cg| {
        let empty = cg.read_write(&empty);
        cg.host_for(1, empty, move |_, empty| {
            into.store(empty.len() + empty.get(0) as usize, Ordering::SeqCst)
        })
    });
    wait(event.unwrap()).unwrap();
    assert_eq!(seen.load(Ordering::SeqCst), 0);
}
