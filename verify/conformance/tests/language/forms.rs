//! Kernels in other forms than their own.

use windlass::prelude::*;

use crate::everywhere::{everywhere, read};

#[windlass::kernel]
fn doubled(values: &mut [u32]) {
    values[global_id(0)] *= 2;
}

#[windlass::kernel]
fn halved(values: &mut [f32]) {
    values[global_id(0)] /= 2.0;
}

#[test]
fn a_call_goes_over_to_forms_of_its_own_kernel_alone() {
    everywhere(&[2, 4, 6], |queue| {
        let values = Buffer::from(vec![1_u32, 2, 3]);
        let other =
            queue.submit(|cg| cg.parallel_for(3, doubled(cg.read_write(&values)).of(halved::kernel())));
        let error = other.expect_err("its elements are of another type").to_string();
        assert!(error.contains("kernel `halved` is no form of `doubled`"), "{error}");
        let form = doubled::kernel().in_forms(doubled::kernel().images().to_vec());
        queue.submit(|cg| cg.parallel_for(3, doubled(cg.read_write(&values)).of(&form)))?;
        read(&values)
    });
}
