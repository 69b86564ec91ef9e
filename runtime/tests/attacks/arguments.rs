//! Arguments of kernels that overlap, that are fewer than the launch's items, and that have other shapes than they say.

use windlass::NdRange;
use windlass::prelude::*;

use crate::everywhere;
use crate::rig::{Rig, contents, wait};

#[windlass::kernels]
mod taken {
    #[kernel]
    pub fn mixed(x: &[u32], y: &mut [u32], z: &mut [u32], #[reduce(sum)] sum: &mut u32) {
        let i = global_id(0);
        y[i] = x[i + 1] + 1;
        z[i] = y[i];
        *sum += 1;
    }

    #[kernel]
    pub fn own(y: &mut [u32]) {
        let i = global_id(0);
        y[i] += 1;
    }
}

/// One buffer in every place: what is a plain slice where arguments are apart must not be one here.
#[test]
fn one_buffer_as_every_argument_is_shared_and_not_sliced() {
    everywhere(|_, queue| {
        let x = Buffer::from(vec![1_u32; 4098]);
        for (a, b) in [(0, 0), (0, 1), (1, 0), (4096, 0), (2000, 2000)] {
            let event = queue.submit(|cg| {
                let (from, to) = (cg.read(&x.range(a..)), cg.read_write(&x.range(b..4097)));
                let (own, sum) = (cg.read_write(&x), cg.read_write(&x.range(4097..)));
                cg.parallel_for(4096, taken::mixed(from, to, own, sum))
            });
            wait(event.unwrap()).unwrap();
        }
        let seen = contents(&x);
        assert_eq!(seen[4097], 1 + 5 * 4096);
        assert!(seen.iter().all(|v| *v <= 1 + 10 * 4097));
    });
}

/// Items' own elements: a launch of more items, of more dimensions, or over several windows than there are elements.
/// Seen to fail where a block's own elements were not cut to the window.
#[test]
fn items_that_outnumber_their_elements_share_them() {
    everywhere(|_, queue| {
        let x = Buffer::from(vec![0_u32; 300]);
        let y = x.range(100..200);
        for range in [1, 99, 100, 101, 5000] {
            wait(queue.submit(|cg| cg.parallel_for(range, taken::own(cg.read_write(&y)))).unwrap()).unwrap();
        }
        wait(queue.submit(|cg| cg.parallel_for([101, 1], taken::own(cg.read_write(&y)))).unwrap()).unwrap();
        let seen = contents(&x);
        assert!(seen[..100].iter().chain(&seen[200..]).all(|v| *v == 0));
        assert_eq!((seen[100], seen[199]), (6, 4));
        // Each element is some item's, a hundred times: they race, and none of them tears.
        wait(queue.submit(|cg| cg.parallel_for([100, 100], taken::own(cg.read_write(&y)))).unwrap()).unwrap();
        let seen = contents(&x);
        assert!(seen[100..200].iter().all(|v| (5..=106).contains(v)));
    });
}

/// Slices of the program's own, in shapes that they have not.
#[test]
fn a_kernel_that_is_run_here_in_a_wrong_shape_is_refused() {
    let (at, mut cube, mut out) = ([0_u32; 4], [0_u32; 8], [0_u32; 4]);
    for shape in [[2, 2, 3], [usize::MAX, 2, 2], [1 << 63, 2, 8], [8, 0, 1], [1 << 32, 1 << 32, 8], [0, 0, 0]]
    {
        let call = super::kernels::wild::grid(&at[..], (&mut cube[..], shape), &mut out[..]);
        assert!(call.run_here(4).is_err(), "{shape:?}");
    }
    assert!(taken::own(&mut out[..]).run_here([usize::MAX, 2]).is_err());
    assert!(taken::own(&mut out[..]).run_here(NdRange { global: [4], local: [0] }).is_err());
    taken::own(&mut out[..]).run_here(1000).unwrap();
    assert_eq!((out, cube), ([1; 4], [0; 8]));
}

/// A race between groups: they share a buffer in which each has its own part, by words that are wider than a part.
#[test]
fn groups_on_neighbouring_bytes_do_not_undo_each_other() {
    let rig = Rig::new();
    let x = Buffer::from(vec![0_u8; 256]);
    for round in 1..=50_u8 {
        for part in [0..127, 127..129, 129..256] {
            let part = x.range(part);
            let event = rig.queue.submit(|cg| {
                let part_ = cg.read_write(&part);
                cg.host_for(part.len(), part_, |item, p| p.set(item.id(0), p.get(item.id(0)) + 1))
            });
            drop(event.unwrap());
        }
        if round % 10 == 0 {
            assert_eq!(wait(x.host_read()).unwrap()[..], [round; 256]);
        }
    }
}
