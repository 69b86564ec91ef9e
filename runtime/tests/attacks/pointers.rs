//! Pointers: numbers that anybody makes, keeps and hands on. Whatever they are, a kernel reaches what its launch names.

use windlass::prelude::*;
use windlass::{MemoryKind, Ptr};

use crate::everywhere;
use crate::rig::wait;

fn contents<T: DeviceCopy>(buffer: &Buffer<T>) -> Vec<T> {
    wait(buffer.host_read()).expect("the data is well").to_vec()
}

#[windlass::kernels]
mod by_address {
    use windlass::prelude::*;

    #[kernel]
    pub fn spoil(at: &[Ptr<u64>], seen: &mut [u64]) {
        let i = global_id(0);
        for k in 0..8 {
            seen[i] |= at[i][k];
            at[i][k] = 0xbad;
        }
    }

    #[kernel]
    pub fn add(to: Ptr<u64>, by: u64) {
        to[global_id(0)] += by;
    }

    /// Its slices are the items' own, and what the pointer leads to may be the same.
    #[kernel]
    pub fn own(p: Ptr<u32>, x: &[u32], y: &mut [u32]) {
        let i = global_id(0);
        y[i] = x[i] + 1;
        p[4095 - i] = y[i];
    }

    #[kernel]
    pub fn only_read(p: Ptr<u32>, x: &[u32], y: &mut [u32]) {
        let i = global_id(0);
        y[i] = x[4095 - i] + p[i];
    }
}

/// Memory of the process's, of other buffers and of nobody's: none of it is read or written.
#[test]
fn addresses_of_what_is_not_named_lead_nowhere() {
    everywhere(|_, queue| {
        let (stack, heap) = ([7_u64; 16], vec![7_u64; 16]);
        let other = queue.blocking_import(MemoryKind::Shared, vec![7_u64; 16]).unwrap();
        let named = queue.blocking_import(MemoryKind::Shared, vec![0_u64; 64]).unwrap();
        let last = named.pointer().unwrap().add(63);
        let code = contents as fn(&Buffer<u64>) -> Vec<u64> as usize;
        let mut all = vec![Ptr::null(), other.pointer().unwrap(), last.add(1), last.sub(63 + 8)];
        for address in [stack.as_ptr().addr(), heap.as_ptr().addr(), code, 8, usize::MAX - 63, 1 << 47] {
            all.push(Ptr::from_address(address as u64));
        }
        let (at, seen) = (Buffer::from(all.clone()), Buffer::from(vec![0_u64; all.len()]));
        let event = queue.submit(|cg| {
            let call = by_address::spoil(cg.read(&at), cg.read_write(&seen));
            cg.parallel_for(all.len(), call.reaching(cg.read_write(&named)))
        });
        wait(event.unwrap()).unwrap();
        assert_eq!(contents(&seen), vec![0; all.len()]);
        assert_eq!((stack, heap, contents(&other)), ([7; 16], vec![7; 16], vec![7; 16]));
        assert_eq!(contents(&named), [0; 64]);
    });
}

/// What is named lives until its group is over, and is reached by nobody who does not name it.
#[test]
fn a_buffer_that_is_dropped_stays_for_those_who_name_it() {
    everywhere(|_, queue| {
        for round in 0..20 {
            let x = queue.blocking_buffer_in::<u64, 1>(MemoryKind::Shared, 1 << 12).unwrap();
            let copy = Buffer::<u64>::new(1 << 12);
            let kept = x.pointer().unwrap();
            for by in 1..=10 {
                let submitted =
                    queue.submit(|cg| cg.parallel_for(1 << 12, by_address::add(cg.read_write(&x), by)));
                drop(submitted.unwrap());
            }
            queue.submit(|cg| cg.copy(&cg.read(&x), &cg.overwrite(&copy))).unwrap();
            drop(x);
            // Another buffer may have its place by now.
            let next = queue.blocking_import(MemoryKind::Shared, vec![round; 1 << 12]).unwrap();
            let stray = queue.submit(|cg| cg.parallel_for(1 << 12, by_address::add(kept, 1)));
            wait(stray.unwrap()).unwrap();
            assert_eq!(contents(&copy), vec![55; 1 << 12]);
            assert_eq!(contents(&next), vec![round; 1 << 12]);
        }
    });
}

/// A pointer into what is also an argument: nothing of that is a plain slice then, and each element is one that some item wrote.
#[test]
fn what_a_pointer_leads_to_is_no_slice() {
    everywhere(|_, queue| {
        let x = queue.blocking_import(MemoryKind::Shared, vec![1_u32; 4096]).unwrap();
        let y = queue.blocking_import(MemoryKind::Shared, vec![0_u32; 4096]).unwrap();
        for (p, from, to) in [(&x, &x, &y), (&y, &x, &y), (&x, &x, &x), (&y, &y, &y)] {
            for _ in 0..4 {
                let own = queue.submit(|cg| {
                    let call = by_address::own(cg.read_write(p), cg.read(from), cg.read_write(to));
                    cg.parallel_for(4096, call)
                });
                let read = queue.submit(|cg| {
                    let call = by_address::only_read(cg.read_write(p), cg.read(from), cg.read_write(to));
                    cg.parallel_for(4096, call)
                });
                wait(own.unwrap()).unwrap();
                wait(read.unwrap()).unwrap();
            }
        }
        assert!(contents(&x).iter().chain(&contents(&y)).all(|v| *v > 0));
    });
}

/// Groups that name memory for writing are in order with all others that name it, by whatever means.
#[test]
fn groups_that_follow_pointers_are_in_order() {
    everywhere(|_, queue| {
        let x = queue.blocking_import(MemoryKind::Shared, vec![0_u64; 1 << 14]).unwrap();
        let mut copies = Vec::new();
        for round in 1..=20_u64 {
            let to = x.pointer().unwrap();
            let event = queue.submit(|cg| {
                let call = by_address::add(to, round);
                cg.parallel_for(1 << 14, call.reaching(cg.read_write(&x)))
            });
            drop(event.unwrap());
            let copy = Buffer::<u64>::new(1 << 14);
            queue.submit(|cg| cg.copy(&cg.read(&x), &cg.overwrite(&copy))).unwrap();
            copies.push((copy, round * (round + 1) / 2));
        }
        for (copy, expected) in copies {
            assert!(contents(&copy).iter().all(|v| *v == expected));
        }
    });
}
