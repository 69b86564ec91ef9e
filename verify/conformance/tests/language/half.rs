//! 16-bit floats.

use windlass::NdRange;
use windlass::prelude::*;

use crate::everywhere::{queues, read, where_there_is};

#[windlass::kernels]
mod halves {
    const WEIGHTS: [f16; 2] = [0.5, -2.0];

    #[derive(Clone, Copy, DeviceCopy)]
    #[repr(C)]
    pub(super) struct Sample {
        pub at: Vec3<f16>,
        pub weight: f16,
    }

    fn mixed(a: f16, b: f16) -> f16 {
        a * WEIGHTS[0] + b
    }

    #[kernel]
    pub fn arithmetic(by: f16, x: &[f16], out: &mut [f16]) {
        let i = global_id(0);
        let v = x[i];
        out[i] = match i % 8 {
            0 => v + by,
            1 => mixed(v, by) - f16::MAX,
            2 => (v / by).floor(),
            3 => v * WEIGHTS[1],
            4 => -v.abs() + v.ceil(),
            5 => (v as f32 * 3.0) as f16,
            6 => (v as i32 * 3 + by as i32) as f16,
            _ => v.clamp(-1.0, by).max(0.25_f16),
        };
    }

    #[kernel]
    pub fn samples(by: Vec3<f16>, samples: &mut [Sample], out: &mut [f32]) {
        let i = global_id(0);
        let s = samples[i];
        samples[i].at = s.at * 2.0 + by;
        samples[i].weight = s.at.dot(by);
        out[i] = s.weight as f32;
    }

    #[kernel]
    pub fn reversed(x: &[f16], out: &mut [f16], #[local] tile: &mut [f16]) {
        let l = local_id(0);
        tile[l] = x[global_id(0)];
        barrier();
        out[global_id(0)] = tile[local_size(0) - 1 - l];
    }
}

fn has_halves(queue: &Queue) -> bool {
    queue.device().info().has(Aspect::Fp16)
}

#[test]
fn halves_are_rounded_after_each_operation() {
    let x: Vec<f16> = (0..48).map(|i| f16::from_f32(i as f32 * 0.37 - 8.0)).collect();
    let by = f16::from_f32(2.5);
    let one = |(i, v): (usize, &f16)| -> f16 {
        let v = *v;
        match i % 8 {
            0 => v + by,
            1 => v * f16::from_f32(0.5) + by - f16::MAX,
            2 => f16::from_f32((v / by).to_f32().floor()),
            3 => v * f16::from_f32(-2.0),
            4 => f16::from_f32(v.to_f32().ceil() - v.to_f32().abs()),
            5 => f16::from_f32(v.to_f32() * 3.0),
            6 => f16::from_f32((v.to_f32() as i32 * 3 + 2) as f32),
            _ => f16::from_f32(v.to_f32().clamp(-1.0, 2.5).max(0.25)),
        }
    };
    let expected: Vec<f16> = x.iter().enumerate().map(one).collect();
    where_there_is("halves", has_halves, |queue| {
        let (x, out) = (Buffer::from(x.clone()), Buffer::<f16>::new(48));
        queue.submit(|cg| cg.parallel_for(48, halves::arithmetic(by, cg.read(&x), cg.overwrite(&out))))?;
        assert_eq!(read(&out)?, expected, "on {}", queue.device());
        Ok(())
    });
}

#[test]
fn a_device_without_halves_says_so() {
    let queues = queues();
    let without: Vec<_> = queues.iter().filter(|queue| !has_halves(queue)).collect();
    if without.is_empty() {
        crate::find::missing("a device without halves");
    }
    for queue in without {
        let error = queue.device().can_run(halves::arithmetic::kernel()).expect_err("it has none");
        assert!(error.to_string().contains("16"), "{}: {error}", queue.device());
    }
}

#[test]
fn vectors_and_structs_of_halves() {
    let half = |v: f32| f16::from_f32(v);
    let before = halves::Sample { at: Vec3::new(half(1.0), half(2.0), half(3.0)), weight: half(0.5) };
    let by = Vec3::new(half(0.5), half(0.0), half(-1.0));
    where_there_is("halves", has_halves, |queue| {
        let (samples, out) = (Buffer::from(vec![before; 3]), Buffer::<f32>::new(3));
        queue.submit(|cg| {
            cg.parallel_for(3, halves::samples(by, cg.read_write(&samples), cg.overwrite(&out)))
        })?;
        let s = read(&samples)?[2];
        let weight = read(&out)?[2];
        let found = [s.at.x.to_f32(), s.at.y.to_f32(), s.at.z.to_f32(), s.weight.to_f32(), weight];
        assert_eq!(found, [2.5, 4.0, 5.0, -2.5, 0.5], "on {}", queue.device());
        Ok(())
    });
}

/// An odd number of halves, at an odd place: neighbours share their words.
#[test]
fn halves_in_parts_of_buffers_and_in_local_memory() {
    let x: Vec<f16> = (0..19).map(|i| f16::from_f32(i as f32)).collect();
    let mut expected = x.clone();
    expected[3..11].reverse();
    expected[11..19].reverse();
    where_there_is("halves", has_halves, |queue| {
        let (from, to) = (Buffer::from(x.clone()), Buffer::from(x.clone()));
        let (part, into) = (from.range(3..19), to.range(3..19));
        let range = NdRange { global: [16], local: [8] };
        queue
            .submit(|cg| cg.parallel_for(range, halves::reversed(cg.read(&part), cg.overwrite(&into), 8)))?;
        assert_eq!(read(&to)?, expected, "on {}", queue.device());
        Ok(())
    });
}
