//! Images: places that are no numbers, texels outside, and sizes that cannot be.

use windlass::prelude::*;
use windlass::texel::{Addressing, Filter, R8Unorm, R32Float, Rgba8Unorm};

use crate::everywhere;
use crate::rig::wait;

#[windlass::kernels]
mod looking {
    use windlass::prelude::*;
    use windlass::texel::{R8Unorm, R32Float, Rgba8Unorm};

    #[kernel]
    pub fn load(at: &[u32], from: &Image<R32Float>, out: &mut [f32]) {
        let x = at[2 * global_id(0)];
        let y = at[2 * global_id(0) + 1];
        out[global_id(0)] = from.load(Vec2::new(x, y)).x;
    }

    #[kernel]
    pub fn store(at: &[u32], to: &mut Image<R8Unorm>) {
        let x = at[2 * global_id(0)];
        let y = at[2 * global_id(0) + 1];
        to.store(Vec2::new(x, y), Vec4::new(1.0, 1.0, 1.0, 1.0));
        to.store(Vec2::new(y + 3, x - 1), Vec4::new(1.0, 1.0, 1.0, 1.0));
    }

    #[kernel]
    pub fn sample(at: &[f32], how: &[Sampler], from: &Image<Rgba8Unorm>, out: &mut [f32]) {
        let x = at[global_id(1)];
        let y = at[global_id(2)];
        let seen = from.sample(how[global_id(0)], Vec2::new(x, y));
        out[(global_id(0) * global_size(1) + global_id(1)) * global_size(2) + global_id(2)] = seen.x + seen.w;
    }

    #[kernel]
    pub fn sample_line(at: &[f32], how: &[Sampler], from: &Image<R32Float, 1>, out: &mut [f32]) {
        out[global_id(0)] = from.sample(how[global_id(0) % how.len()], at[global_id(0) / how.len()]).x;
    }

    #[kernel]
    pub fn cube(at: &[u32], from: &mut Image<R32Float, 3>) {
        let i = at[global_id(0)];
        from.store(Vec3::new(i, 0, 0), Vec4::splat(1.0));
        from.store(Vec3::new(0, i, 0), from.load(Vec3::new(i, i, i)));
        from.store(Vec3::new(0 - i, 1, i), from.load(Vec3::new(1, 1 - i, i)));
    }
}

const WILD: [u32; 12] =
    [0, 1, 3, 4, 5, 12, 0x3fff_ffff, 0x4000_0000, 0x7fff_ffff, 0x8000_0000, 0xffff_fffc, 0xffff_ffff];

/// All pairs.
fn places() -> Vec<u32> {
    WILD.iter().flat_map(|x| WILD.iter().flat_map(|y| [*x, *y])).collect()
}

/// Numbers of which no texel's position can be made.
fn no_places() -> Vec<f32> {
    let huge = [f32::MAX, f32::MIN, 1e30, -1e30, 4_294_967_300.0, 2_147_483_600.0, -2_147_483_600.0, 1e-40];
    let none = [f32::NAN, -f32::NAN, f32::INFINITY, f32::NEG_INFINITY, f32::MIN_POSITIVE, -0.0];
    let usual = [0.0, 0.5, 1.0, -1.0, 2.999, 3.0, 16_777_216.0];
    [&huge[..], &none[..], &usual[..]].concat()
}

fn samplers() -> Vec<Sampler> {
    let mut all = Vec::new();
    for filter in [Filter::Nearest, Filter::Linear] {
        for addressing in
            [Addressing::ClampToEdge, Addressing::Border, Addressing::Repeat, Addressing::MirrorRepeat]
        {
            let sampler = Sampler::new().filter(filter).addressing(addressing);
            all.extend([sampler, sampler.by_texels()]);
        }
    }
    // A sampler is a plain value, and so any bits are one.
    let bits = Buffer::from(vec![u32::MAX, 0xffff_fff0, 0x8000_0007]).reinterpret::<Sampler, 1>(3).unwrap();
    all.extend_from_slice(&wait(bits.host_read()).unwrap());
    all
}

#[test]
fn texels_outside_of_an_image_are_none_to_load() {
    everywhere(|_, queue| {
        let texels: Vec<R32Float> = (0..12).map(|i| R32Float::new([100.0 + i as f32])).collect();
        let image = Image::with_shape([3, 4], texels).unwrap();
        let at = places();
        let count = at.len() / 2;
        let (from, out) = (Buffer::from(at.clone()), Buffer::<f32>::new(count));
        let launch = |cg: &CommandGroup<'_>| {
            cg.parallel_for(count, looking::load(cg.read(&from), cg.read(&image), cg.overwrite(&out)))
        };
        wait(queue.submit(launch).unwrap()).unwrap();
        for (at, seen) in at.chunks(2).zip(wait(out.host_read()).unwrap().iter()) {
            let is_inside = at[0] < 4 && at[1] < 3;
            let should = if is_inside { 100.0 + (at[1] * 4 + at[0]) as f32 } else { 0.0 };
            assert_eq!(*seen, should, "{at:?}");
        }
    });
}

/// A part of an image, whose rows lie apart: texels of one byte, so that a word has its neighbours.
/// Seen to fail where a coordinate might be as large as its extent.
#[test]
fn texels_outside_of_a_part_of_an_image_are_not_stored() {
    everywhere(|_, queue| {
        let image = Image::<R8Unorm>::new([9, 12]).unwrap();
        let part = image.range((3..6, 5..10));
        let at = Buffer::from(places());
        let launch = |cg: &CommandGroup<'_>| {
            cg.parallel_for(at.len() / 2, looking::store(cg.read(&at), cg.read_write(&part)))
        };
        wait(queue.submit(launch).unwrap()).unwrap();
        let seen = wait(image.host_read()).unwrap();
        let mut should = [[0_u8; 12]; 9];
        for at in places().chunks(2) {
            for (x, y) in [(at[0], at[1]), (at[1].wrapping_add(3), at[0].wrapping_sub(1))] {
                if x < 5 && y < 3 {
                    should[3 + y as usize][5 + x as usize] = 255;
                }
            }
        }
        assert!(seen.iter().zip(should.as_flattened()).all(|(seen, should)| seen.channels == [*should]));
    });
}

/// What is no number becomes a position all the same, by every filter and beyond every kind of end.
#[test]
fn samples_at_what_is_no_place_stay_inside_of_the_image() {
    everywhere(|_, queue| {
        for shape in [[1, 1], [3, 5], [1, 7]] {
            let texels = vec![Rgba8Unorm::new([51, 0, 0, 255]); shape[0] * shape[1]];
            let image = Image::with_shape(shape, texels).unwrap();
            let (at, how) = (Buffer::from(no_places()), Buffer::from(samplers()));
            let range = [how.len(), at.len(), at.len()];
            let out = Buffer::<f32>::new(range.iter().product::<usize>());
            let launch = |cg: &CommandGroup<'_>| {
                let call = looking::sample(cg.read(&at), cg.read(&how), cg.read(&image), cg.overwrite(&out));
                cg.parallel_for(range, call)
            };
            wait(queue.submit(launch).unwrap()).unwrap();
            // Every texel is the same, so that whatever is seen is that one, nothing, a mixture of both, or no number.
            let seen = wait(out.host_read()).unwrap();
            assert!(seen.iter().all(|v| v.is_nan() || (0.0..1.201).contains(v)), "{shape:?}");
        }
    });
}

#[test]
fn samples_of_a_line_of_one_texel_stay_inside_of_it() {
    everywhere(|_, queue| {
        for len in [1, 2, 33] {
            let image = Image::<R32Float, 1>::with_shape([len], vec![R32Float::new([7.0]); len]).unwrap();
            let (at, how) = (Buffer::from(no_places()), Buffer::from(samplers()));
            let out = Buffer::<f32>::new(at.len() * how.len());
            let launch = |cg: &CommandGroup<'_>| {
                let call =
                    looking::sample_line(cg.read(&at), cg.read(&how), cg.read(&image), cg.overwrite(&out));
                cg.parallel_for(out.len(), call)
            };
            wait(queue.submit(launch).unwrap()).unwrap();
            let seen = wait(out.host_read()).unwrap();
            assert!(seen.iter().all(|v| v.is_nan() || (0.0..7.01).contains(v)), "{len}");
        }
    });
}

#[test]
fn texels_whose_coordinates_wrap_in_three_dimensions_are_outside() {
    everywhere(|_, queue| {
        let image = Image::<R32Float, 3>::new([2, 3, 4]).unwrap();
        let at = Buffer::from(WILD.to_vec());
        let launch = |cg: &CommandGroup<'_>| {
            cg.parallel_for(WILD.len(), looking::cube(cg.read(&at), cg.read_write(&image)))
        };
        wait(queue.submit(launch).unwrap()).unwrap();
        let seen = wait(image.host_read()).unwrap();
        assert!(seen.iter().all(|texel| [0.0, 1.0].contains(&texel.channels[0])));
        assert_eq!((seen[[0, 0, 3]].channels, seen[[1, 2, 3]].channels), ([1.0], [0.0]));
    });
}

/// Texels that cannot be counted, or that do not fill their image.
#[test]
fn images_of_sizes_that_cannot_be_are_refused() {
    const MOST: usize = usize::MAX;
    for shape in [[MOST, 2], [2, MOST], [1 << 32, 1 << 32], [1 << 61, 1], [0, MOST], [MOST, 0]] {
        assert!(Image::<Rgba8Unorm>::new(shape).is_err_and(|error| error.is_invalid_input()), "{shape:?}");
        let texels = vec![Rgba8Unorm::new([0; 4]); 4];
        assert!(Image::with_shape(shape, texels).unwrap_err().is_invalid_input());
    }
    assert!(Image::<R8Unorm, 3>::new([1 << 40, 1 << 40, 1 << 40]).is_err());
    let small = Image::<R8Unorm>::new([3, 3]).unwrap();
    for bad in [small.range((..4, ..)), small.range((.., 2..MOST)), small.range((MOST.., ..))] {
        assert!(wait(bad.host_write()).unwrap_err().is_invalid_input());
    }
    assert!(small.reinterpret::<u32, 1>(3).is_err(), "nine bytes are no three words");
}

/// A picture whose memory is longer than its pixels, and one that is not as large as its texels.
#[cfg(feature = "image")]
#[test]
fn a_picture_with_memory_to_spare_becomes_an_image_of_its_pixels() {
    use image::{ImageBuffer, Luma};
    for spare in [0, 1, 7] {
        let picture = ImageBuffer::<Luma<u8>, Vec<u8>>::from_raw(3, 2, vec![9; 6 + spare]).unwrap();
        let image = Image::<R8Unorm>::from_picture(picture).unwrap();
        assert_eq!((image.shape(), image.len()), ([2, 3], 6));
        let mut back = wait(image.to_picture()).unwrap().into_raw();
        back.push(1);
        assert_eq!(back, [9, 9, 9, 9, 9, 9, 1]);
    }
    let nothing = ImageBuffer::<Luma<u8>, Vec<u8>>::from_raw(0, 5, vec![9; 4]).unwrap();
    assert!(Image::<R8Unorm>::from_picture(nothing).unwrap_err().is_invalid_input());
}
