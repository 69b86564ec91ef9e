//! Kernels over grids, run over slices of the caller's.

// What the attribute promises of the text that it wrote, it promises also in crates that have no `unsafe` of their own.
#![forbid(unsafe_code)]

use windlass::prelude::*;

#[windlass::kernel]
fn transposed(from: &View<u32, 2>, to: &mut View<u32, 2>) {
    let row = global_id(0);
    let column = global_id(1);
    to[row][column] = from[column][row];
}

#[windlass::kernel]
fn layers(sums: &mut [u32], all: &View<u32, 3>) {
    let z = global_id(0);
    let mut sum = 0;
    for y in 0..all.extent(1) {
        for x in 0..all.extent(2) {
            sum = sum * 10 + all[z][y][x];
        }
    }
    sums[z] = sum;
}

#[test]
fn a_slice_with_a_shape_is_a_grid() {
    let from: Vec<u32> = (0..6).collect();
    let mut to = [0; 6];
    transposed((&from, [2, 3]), (&mut to[..], [3, 2])).run_here([3, 2]).unwrap();
    assert_eq!(to, [0, 3, 1, 4, 2, 5]);
    let mut sums = vec![0; 2];
    layers(&mut sums, (&[1, 2, 3, 4, 5, 6, 7, 8][..], [2, 2, 2])).run_here(2).unwrap();
    assert_eq!(sums, [1234, 5678]);
}

#[test]
fn a_shape_that_does_not_fit_is_refused_by_name() {
    let mut to = [0; 6];
    let error = transposed((&[1; 5][..], [2, 3]), (&mut to[..], [3, 2])).run_here([3, 2]).unwrap_err();
    let text = error.to_string();
    assert!(text.contains("transposed") && text.contains("[2, 3]") && text.contains("5 elements"), "{text}");
    for shape in [[usize::MAX, usize::MAX], [2, 1 << 63]] {
        assert!(transposed((&[1; 6][..], shape), (&mut to[..], [3, 2])).run_here([3, 2]).is_err());
    }
    let nothing = transposed((&[0; 0][..], [usize::MAX, 0]), (&mut [0; 0][..], [0, usize::MAX]));
    nothing.run_here([0, 7]).unwrap();
}

/// A view goes to a queue by an accessor, and a slice with a shape does not.
#[test]
fn a_slice_with_a_shape_is_for_run_here_alone() -> windlass::Result<()> {
    let queue = Queue::blocking_on(Runtime::new().host()?)?;
    let grid = Buffer::<u32, 2>::new([3, 2]);
    let refused =
        queue.submit(|cg| cg.parallel_for([3, 2], transposed((&[1; 6][..], [2, 3]), cg.write(&grid))));
    let error = refused.expect_err("a group takes accessors");
    assert!(error.to_string().contains("only `run_here` takes"), "{error}");
    Ok(())
}
