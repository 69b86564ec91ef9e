//! Images in kernels: every format read and written, and random samplers on random images, on every device beside what the host's
//! own code and a plain calculation in doubles make of them.

use windlass::prelude::*;
use windlass::texel::{
    Addressing, Bgra8UnormSrgb, Filter, R32Float, Rg16Float, Rgba8Unorm, Rgba8UnormSrgb, Texel,
};

use crate::everywhere::{everywhere, queues, read};

/// Numbers that look random, the same each time.
fn random(seed: u32) -> impl FnMut() -> u32 {
    let mut state = seed.wrapping_mul(0x9e37_79b9) | 1;
    move || {
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        state
    }
}

fn texels<T: Texel>(seed: u32, count: usize, mut bits: impl FnMut(u32) -> u32) -> Vec<T> {
    let mut next = random(seed);
    let bytes = (0..count * size_of::<T>()).step_by(4).flat_map(|_| bits(next()).to_le_bytes());
    let mut texels = vec![T::ZERO; count];
    let of = bytemuck::cast_slice_mut::<T, u8>(&mut texels);
    of.iter_mut().zip(bytes).for_each(|(to, byte)| *to = byte);
    texels
}

/// Each kind of channel: what is read is what the host reads, what is written is what the host writes, and what was read and is written
/// again stays what it was. Seen to fail with channels of red and blue that had changed places, and with products that were cut off
/// instead of rounded.
macro_rules! kinds {
    ($($name:ident: $one:ident $two:ident $four:ident, $seen:ty, $bits:expr, $value:expr;)*) => {$(
        mod $name {
            use super::*;
            use windlass::texel::{$one, $two, $four};

            #[windlass::kernels]
            mod kernels {
                use super::*;

                #[kernel]
                pub(super) fn read(one: &Image<$one>, two: &Image<$two>, four: &Image<$four>, seen: &mut View<Vec4<$seen>, 2>) {
                    let (at, n) = (Vec2::new(global_id(1), global_id(0)), one.width());
                    seen[at.y][at.x] = one.load(at);
                    seen[at.y][n + at.x] = two.load(at);
                    seen[at.y][2 * n + at.x] = four.load(at);
                }

                #[kernel]
                pub(super) fn write(from: &View<Vec4<$seen>, 2>, one: &mut Image<$one>, two: &mut Image<$two>, four: &mut Image<$four>) {
                    let at = Vec2::new(global_id(1), global_id(0));
                    let value = from[at.y][at.x];
                    one.store(at, value);
                    two.store(at, value);
                    four.store(at, value);
                }
            }

            #[test]
            fn is_read_and_written() {
                const SHAPE: [usize; 2] = [7, 9];
                let bits: fn(u32) -> u32 = $bits;
                let (one, two, four) = (texels::<$one>(1, 63, bits), texels::<$two>(2, 63, bits), texels::<$four>(3, 63, bits));
                let mut seen = Vec::new();
                for row in 0..7 {
                    let row = 9 * row..9 * row + 9;
                    seen.extend(one[row.clone()].iter().map(|texel| texel.decode()));
                    seen.extend(two[row.clone()].iter().map(|texel| texel.decode()));
                    seen.extend(four[row].iter().map(|texel| texel.decode()));
                }
                everywhere(&seen, |queue| {
                    let (one, two) = (Image::with_shape(SHAPE, one.clone())?, Image::with_shape(SHAPE, two.clone())?);
                    let four = Image::with_shape(SHAPE, four.clone())?;
                    let seen = Buffer::new([7, 27]);
                    queue.submit(|cg| {
                        let call = kernels::read(cg.read(&one), cg.read(&two), cg.read(&four), cg.overwrite(&seen));
                        cg.parallel_for(SHAPE, call)
                    })?;
                    read(&seen)
                });
                let value: fn(u32) -> $seen = $value;
                let mut next = random(4);
                let values: Vec<Vec4<$seen>> = (0..63).map(|_| Vec4::from([0; 4].map(|_| value(next())))).collect();
                let mut written: Vec<u8> = Vec::new();
                written.extend(values.iter().flat_map(|value| bytemuck::bytes_of(&$one::encode(*value)).to_vec()));
                written.extend(values.iter().flat_map(|value| bytemuck::bytes_of(&$two::encode(*value)).to_vec()));
                written.extend(values.iter().flat_map(|value| bytemuck::bytes_of(&$four::encode(*value)).to_vec()));
                everywhere(&written, |queue| {
                    let values = Buffer::with_shape(SHAPE, values.clone())?;
                    let (one, two) = (Image::<$one>::new(SHAPE)?, Image::<$two>::new(SHAPE)?);
                    let four = Image::<$four>::new(SHAPE)?;
                    queue.submit(|cg| {
                        let call = kernels::write(cg.read(&values), cg.overwrite(&one), cg.overwrite(&two), cg.overwrite(&four));
                        cg.parallel_for(SHAPE, call)
                    })?;
                    let mut bytes = bytemuck::cast_slice::<_, u8>(&read(&one)?).to_vec();
                    bytes.extend(bytemuck::cast_slice::<_, u8>(&read(&two)?));
                    bytes.extend(bytemuck::cast_slice::<_, u8>(&read(&four)?));
                    Ok(bytes)
                });
            }
        }
    )*};
}

/// Any bits, but for floats that are no numbers.
fn halves(bits: u32) -> u32 {
    let is_number = |half: u32| half & 0x7c00 != 0x7c00;
    if is_number(bits) && is_number(bits >> 16) { bits } else { bits & 0x8fff_8fff }
}

/// Numbers from -2 to 2.
fn around_one(bits: u32) -> f32 {
    (bits >> 8) as f32 / (1 << 22) as f32 - 2.0
}

/// Numbers of all sizes that halves have, and some that they have not.
fn all_sizes(bits: u32) -> f32 {
    around_one(bits) * 2_f32.powi((bits & 63) as i32 - 40)
}

kinds! {
    unorm8: R8Unorm Rg8Unorm Bgra8Unorm, f32, |bits| bits, around_one;
    snorm8: R8Snorm Rg8Snorm Rgba8Snorm, f32, |bits| bits, around_one;
    uint8: R8Uint Rg8Uint Rgba8Uint, u32, |bits| bits, |bits| bits >> (bits & 31);
    sint8: R8Sint Rg8Sint Rgba8Sint, i32, |bits| bits, |bits| bits as i32 >> (bits & 31);
    unorm16: R16Unorm Rg16Unorm Rgba16Unorm, f32, |bits| bits, around_one;
    snorm16: R16Snorm Rg16Snorm Rgba16Snorm, f32, |bits| bits, around_one;
    uint16: R16Uint Rg16Uint Rgba16Uint, u32, |bits| bits, |bits| bits >> (bits & 31);
    sint16: R16Sint Rg16Sint Rgba16Sint, i32, |bits| bits, |bits| bits as i32 >> (bits & 31);
    float16: R16Float Rg16Float Rgba16Float, f32, super::halves, all_sizes;
    uint32: R32Uint Rg32Uint Rgba32Uint, u32, |bits| bits, |bits| bits;
    sint32: R32Sint Rg32Sint Rgba32Sint, i32, |bits| bits, |bits| bits as i32;
    float32: R32Float Rg32Float Rgba32Float, f32, |bits| around_one(bits).to_bits(), all_sizes;
}

#[windlass::kernels]
mod light {
    use windlass::prelude::*;
    use windlass::texel::{Bgra8UnormSrgb, Rgba8UnormSrgb};

    #[kernel]
    pub fn read(rgba: &Image<Rgba8UnormSrgb>, bgra: &Image<Bgra8UnormSrgb>, seen: &mut View<Vec4<f32>, 2>) {
        let at = Vec2::new(global_id(1), global_id(0));
        seen[at.y][2 * at.x] = rgba.load(at);
        seen[at.y][2 * at.x + 1] = bgra.load(at);
    }

    #[kernel]
    pub fn write(
        from: &View<Vec4<f32>, 2>,
        rgba: &mut Image<Rgba8UnormSrgb>,
        bgra: &mut Image<Bgra8UnormSrgb>,
    ) {
        let at = Vec2::new(global_id(1), global_id(0));
        rgba.store(at, from[at.y][2 * at.x]);
        bgra.store(at, from[at.y][2 * at.x + 1]);
    }
}

/// Uneven steps go by powers, which devices round in their own ways: what is read is the host's but for some millionths, what was read is
/// written back the same, and anything else is written as the host's step or the next one.
#[test]
fn light_is_the_same_everywhere() {
    const SHAPE: [usize; 2] = [8, 16];
    let counted = (0..128_u32).map(|i| [2 * i, 2 * i + 1, 255 - i, 128 + i].map(|channel| channel as u8));
    let rgba: Vec<_> = counted.map(Rgba8UnormSrgb::new).collect();
    let bgra: Vec<_> = rgba.iter().map(|texel| Bgra8UnormSrgb::new(texel.channels)).collect();
    let mut next = random(4);
    let any: Vec<Vec4<f32>> =
        (0..256).map(|_| Vec4::from([0; 4].map(|_| around_one(next()).abs()))).collect();
    for queue in queues() {
        let on = format!("on {}", queue.device());
        let light = || -> windlass::Result<_> {
            let (first, second) =
                (Image::with_shape(SHAPE, rgba.clone())?, Image::with_shape(SHAPE, bgra.clone())?);
            let seen = Buffer::new([8, 32]);
            queue.submit(|cg| {
                cg.parallel_for(SHAPE, light::read(cg.read(&first), cg.read(&second), cg.overwrite(&seen)))
            })?;
            let seen = read(&seen)?;
            let stored = |values: Vec<Vec4<f32>>| {
                let values = Buffer::with_shape([8, 32], values)?;
                let (first, second) =
                    (Image::<Rgba8UnormSrgb>::new(SHAPE)?, Image::<Bgra8UnormSrgb>::new(SHAPE)?);
                queue.submit(|cg| {
                    let call = light::write(cg.read(&values), cg.overwrite(&first), cg.overwrite(&second));
                    cg.parallel_for(SHAPE, call)
                })?;
                Ok::<_, windlass::Error>((read(&first)?, read(&second)?))
            };
            Ok((seen.clone(), stored(seen)?, stored(any.clone())?))
        };
        let (seen, same, other) = light().unwrap_or_else(|error| panic!("{on}: {error}"));
        for (at, pair) in seen.chunks(2).enumerate() {
            for (found, expected) in pair.iter().zip([rgba[at].decode(), bgra[at].decode()]) {
                let [found, expected]: [[f32; 4]; 2] = [(*found).into(), expected.into()];
                let is_near = found.iter().zip(expected).all(|(a, b)| (a - b).abs() < 4e-6);
                assert!(is_near, "{on}: texel {at} is {found:?}, not {expected:?}");
            }
        }
        assert_eq!(same, (rgba.clone(), bgra.clone()), "{on}");
        let near = |found: [u8; 4], expected: [u8; 4]| {
            let light = found.iter().zip(expected).take(3).all(|(a, b)| a.abs_diff(b) <= 1);
            assert!(light && found[3] == expected[3], "{on}: {found:?}, not {expected:?}");
        };
        for (at, pair) in any.chunks(2).enumerate() {
            near(other.0[at].channels, Rgba8UnormSrgb::encode(pair[0]).channels);
            near(other.1[at].channels, Bgra8UnormSrgb::encode(pair[1]).channels);
        }
    }
}

#[windlass::kernels]
mod sampled {
    use windlass::prelude::*;

    #[kernel]
    pub fn line(image: &Image<R32Float, 1>, samplers: &[Sampler], at: &[f32], out: &mut View<Vec4<f32>, 2>) {
        let (i, k) = (global_id(0), global_id(1));
        out[i][k] = image.sample(samplers[k], at[i]);
    }

    #[kernel]
    pub fn picture(image: &Image<Rgba8Unorm>, sampler: Sampler, at: &[Vec2<f32>], out: &mut [Vec4<f32>]) {
        out[global_id(0)] = image.sample(sampler, at[global_id(0)]);
    }

    /// A helper that takes an image of any format.
    fn sampled<T>(image: &Image<T, 3>, sampler: Sampler, at: Vec3<f32>) -> Vec4<f32> {
        if image.depth() * image.height() * image.width() == 0 {
            return Vec4::splat(0.0);
        }
        image.sample(sampler, at)
    }

    #[kernel]
    pub fn volume(image: &Image<Rg16Float, 3>, sampler: Sampler, at: &[Vec3<f32>], out: &mut [Vec4<f32>]) {
        out[global_id(0)] = sampled(image, sampler, at[global_id(0)]);
    }

    #[kernel]
    pub fn sizes(
        line: &Image<R32Float, 1>,
        picture: &Image<R32Float>,
        volume: &mut Image<R32Float, 3>,
        out: &mut [u32],
    ) {
        let (picture, all) = (picture.size(), volume.size());
        let sizes = [line.size(), line.width(), picture.x, picture.y, all.x, all.y, all.z, volume.depth()];
        for k in 0..8 {
            out[k] = sizes[k];
        }
        volume.store(Vec3::new(1, 0, 2), Vec4::new(line.load(1).x + line.load(5).w, 0.0, 0.0, 0.0));
        volume.store(Vec3::new(9, 0, 0), Vec4::splat(1.0));
    }
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
    all
}

/// One number of a sample by its definition, with `at` the innermost coordinate first, as the extents are.
fn reference(
    sampler: Sampler,
    texel: &dyn Fn(&[Option<usize>]) -> f64,
    extents: &[usize],
    at: &[f32],
) -> f64 {
    let shown = format!("{sampler:?}");
    let index = |at: i64, n: i64| -> Option<usize> {
        let at = match () {
            () if shown.contains("ClampToEdge") => at.clamp(0, n - 1),
            () if shown.contains("Border") => Some(at).filter(|at| (0..n).contains(at))?,
            () if shown.contains("MirrorRepeat") => {
                let at = at.rem_euclid(2 * n);
                at.min(2 * n - 1 - at)
            }
            () => at.rem_euclid(n),
        };
        Some(at as usize)
    };
    let mut total = 0.0;
    for corner in 0..1_u32 << extents.len() {
        let (mut weight, mut places) = (1.0, Vec::new());
        for (dim, (&extent, &at)) in extents.iter().zip(at).enumerate() {
            // As single-precision floats have it: which texel is nearest hangs on the last bit.
            let place = if shown.contains("by_texels: true") { at } else { at * extent as f32 };
            let second = i64::from(corner >> dim & 1);
            if shown.contains("Nearest") {
                weight *= if second == 0 { 1.0 } else { 0.0 };
                places.push(index(place.floor() as i64, extent as i64));
            } else {
                let from = f64::from(place - 0.5);
                let part = from - from.floor();
                weight *= if second == 0 { 1.0 - part } else { part };
                places.push(index(from.floor() as i64 + second, extent as i64));
            }
        }
        total += if weight == 0.0 { 0.0 } else { weight * texel(&places) };
    }
    total
}

/// Whether samples are those of the definition: to the last bit of the nearest texels, and to 1/65536 of the largest texel where they are mixed.
fn compare(found: &[Vec4<f32>], expected: &[[f64; 4]], is_nearest: bool, what: &str) {
    assert_eq!(found.len(), expected.len());
    for (i, (found, expected)) in found.iter().zip(expected).enumerate() {
        for (found, expected) in <[f32; 4]>::from(*found).into_iter().zip(*expected) {
            let off = (f64::from(found) - expected).abs();
            let allowed = if is_nearest { 0.0 } else { 2.0 / 65536.0 };
            assert!(off <= allowed, "sample {i} of {what}: {found} and not {expected}");
        }
    }
}

/// Coordinates from two images before to two behind, and such as are just at an edge.
fn place(next: &mut impl FnMut() -> u32, sampler: Sampler, extent: usize) -> f32 {
    let scale = if format!("{sampler:?}").contains("by_texels: true") { extent as f32 } else { 1.0 };
    match next() % 8 {
        0 => (next() % 5) as f32 / 4.0 * scale,
        1 => -scale,
        _ => ((next() % 4096) as f32 / 1024.0 - 2.0) * scale,
    }
}

fn names(queue: &Queue) -> String {
    format!("{} ({})", queue.device(), queue.device().backend())
}

/// What a texel reads as; outside, as zeros do.
fn channels<T: Texel<Component = f32>>(texels: &[T], at: Option<usize>, channel: usize) -> f64 {
    let texel = at.map_or(T::ZERO, |at| texels[at]);
    <[f32; 4]>::from(texel.decode())[channel].into()
}

/// Seen to fail with a linear filter whose second texel was the one before, and with a border that was the edge.
#[test]
fn pictures_are_sampled_by_their_definition() {
    let mut next = random(11);
    for (round, shape) in [[5, 7], [1, 3], [8, 1], [16, 16]].into_iter().enumerate() {
        let texels: Vec<Rgba8Unorm> = texels(round as u32, shape[0] * shape[1], |bits| bits);
        for sampler in samplers() {
            let at: Vec<Vec2<f32>> = (0..64)
                .map(|_| Vec2::new(place(&mut next, sampler, shape[1]), place(&mut next, sampler, shape[0])))
                .collect();
            let expected: Vec<[f64; 4]> = at
                .iter()
                .map(|at| {
                    [0, 1, 2, 3].map(|channel| {
                        let texel = |at: &[Option<usize>]| {
                            let at = at[0].zip(at[1]).map(|(x, y)| y * shape[1] + x);
                            channels(&texels, at, channel)
                        };
                        reference(sampler, &texel, &[shape[1], shape[0]], &[at.x, at.y])
                    })
                })
                .collect();
            for queue in queues() {
                let image = Image::with_shape(shape, texels.clone()).unwrap();
                let (at, out) = (Buffer::from(at.clone()), Buffer::new(64));
                let group = queue.submit(|cg| {
                    cg.parallel_for(
                        64,
                        sampled::picture(cg.read(&image), sampler, cg.read(&at), cg.overwrite(&out)),
                    )
                });
                group.unwrap().blocking_wait().unwrap();
                let is_nearest = format!("{sampler:?}").contains("Nearest");
                compare(
                    &read(&out).unwrap(),
                    &expected,
                    is_nearest,
                    &format!("{sampler:?} on {}", names(queue)),
                );
            }
        }
    }
}

#[test]
fn lines_are_sampled_by_all_samplers_of_a_buffer() {
    let (mut next, samplers) = (random(12), samplers());
    let texels: Vec<R32Float> = (0..11).map(|_| R32Float::new([around_one(next()) / 2.0])).collect();
    let at: Vec<f32> = (0..50).map(|i| (i as f32 - 25.0) / 7.0).collect();
    for queue in queues() {
        let (image, all) = (Image::with_shape([11], texels.clone()).unwrap(), Buffer::from(samplers.clone()));
        let (places, out) = (Buffer::from(at.clone()), Buffer::new([50, 16]));
        let group = queue.submit(|cg| {
            let call = sampled::line(cg.read(&image), cg.read(&all), cg.read(&places), cg.overwrite(&out));
            cg.parallel_for([50, 16], call)
        });
        group.unwrap().blocking_wait().unwrap();
        let found = read(&out).unwrap();
        for (k, sampler) in samplers.iter().enumerate() {
            let of_one: Vec<Vec4<f32>> = found.iter().skip(k).step_by(16).copied().collect();
            let texel = |at: &[Option<usize>]| channels(&texels, at[0], 0);
            let one = |at: &f32| [reference(*sampler, &texel, &[11], &[*at]), 0.0, 0.0, 1.0];
            let expected: Vec<[f64; 4]> = at.iter().map(one).collect();
            compare(&of_one, &expected, k < 8, &format!("{sampler:?} on {}", names(queue)));
        }
    }
}

#[test]
fn volumes_are_sampled_by_their_definition() {
    let mut next = random(13);
    let shape = [3, 4, 5];
    let half = |bits: u32| f16::from_f32(around_one(bits) / 2.0);
    let texels: Vec<Rg16Float> =
        (0..60).map(|_| Rg16Float::from_halves([half(next()), half(next())])).collect();
    for sampler in samplers() {
        let at: Vec<Vec3<f32>> =
            (0..40).map(|_| Vec3::from([5, 4, 3].map(|n| place(&mut next, sampler, n)))).collect();
        let expected: Vec<[f64; 4]> = at
            .iter()
            .map(|at| {
                [0, 1, 2, 3].map(|channel| {
                    let texel = |at: &[Option<usize>]| {
                        let at = at[0].zip(at[1]).zip(at[2]).map(|((x, y), z)| (z * 4 + y) * 5 + x);
                        channels(&texels, at, channel)
                    };
                    reference(sampler, &texel, &[5, 4, 3], &[at.x, at.y, at.z])
                })
            })
            .collect();
        for queue in queues() {
            let image = Image::with_shape(shape, texels.clone()).unwrap();
            let (at, out) = (Buffer::from(at.clone()), Buffer::new(40));
            let group = queue.submit(|cg| {
                cg.parallel_for(
                    40,
                    sampled::volume(cg.read(&image), sampler, cg.read(&at), cg.overwrite(&out)),
                )
            });
            group.unwrap().blocking_wait().unwrap();
            let is_nearest = format!("{sampler:?}").contains("Nearest");
            compare(&read(&out).unwrap(), &expected, is_nearest, &format!("{sampler:?} on {}", names(queue)));
        }
    }
}

/// Outside there is what zeros are, and nothing is written there.
#[test]
fn sizes_and_what_is_outside() {
    let mut expected =
        vec![4.0, 4.0, 7.0, 5.0, 4.0, 3.0, 3.0, 3.0].into_iter().map(|v: f32| v as u32).collect::<Vec<_>>();
    expected.extend((0..36).map(|at| if at == 25 { 3.5_f32.to_bits() } else { 0 }));
    everywhere(&expected, |queue| {
        let line = Image::with_shape([4], [1.5, 2.5, 3.5, 4.5].map(|v| R32Float::new([v])).to_vec())?;
        let picture = Image::<R32Float>::new([5, 7])?;
        let (volume, out) = (Image::<R32Float, 3>::new([3, 3, 4])?, Buffer::new(8));
        queue.submit(|cg| {
            let (line, picture) = (cg.read(&line), cg.read(&picture));
            cg.parallel_for(1, sampled::sizes(line, picture, cg.read_write(&volume), cg.overwrite(&out)))
        })?;
        let mut all = read(&out)?;
        all.extend(read(&volume)?.iter().map(|texel| texel.channels[0].to_bits()));
        Ok(all)
    });
}

#[windlass::kernels]
mod steps {
    use windlass::prelude::*;

    /// Each texel takes a number more from the one to its right, around the end.
    #[kernel]
    pub fn step(image: &mut Image<Rgba32Uint>, by: u32, from: &Image<Rgba32Uint>) {
        let at = Vec2::new(global_id(1), global_id(0));
        let right = from.load(Vec2::new((at.x + 1) % from.width(), at.y));
        image.store(at, image.load(at) + right * 2_u32 + Vec4::splat(by));
    }
}

/// Images are ordered, moved to where they are used, and kept until then as buffers are: one goes from device to device, nobody awaits the
/// groups, and the program's own handles are gone before they have ended.
#[test]
fn row_127_images_are_ordered_and_moved_as_buffers_are() {
    use windlass::texel::Rgba32Uint;
    let texels: Vec<Rgba32Uint> = (0..12).map(|i| Rgba32Uint::new([i, 2 * i, 7, i * i])).collect();
    let mut expected: Vec<[u32; 4]> = texels.iter().map(|texel| texel.channels).collect();
    let (mut image, line) =
        (Image::with_shape([3, 4], texels).unwrap(), Buffer::<Rgba32Uint, 2>::new([1, 4]));
    let rounds = 2 * queues().len() as u32;
    for (by, queue) in (1..=rounds).zip(queues().iter().cycle()) {
        // A queue of another runtime would refuse it, and these are all of one.
        let next = Image::<Rgba32Uint>::new([3, 4]).unwrap();
        drop(queue.submit(|cg| cg.copy(&cg.read(&image), &cg.overwrite(&next))).unwrap());
        let step = queue
            .submit(|cg| cg.parallel_for([3, 4], steps::step(cg.read_write(&next), by, cg.read(&image))));
        drop(step.unwrap());
        let before = expected.clone();
        for (at, texel) in expected.iter_mut().enumerate() {
            let right = before[at / 4 * 4 + (at + 1) % 4];
            for (channel, value) in texel.iter_mut().enumerate() {
                *value = value.wrapping_add(right[channel].wrapping_mul(2)).wrapping_add(by);
            }
        }
        image = next;
    }
    let first = &queues()[0];
    drop(first.submit(|cg| cg.copy(&cg.read(&image.range((1..2, ..))), &cg.overwrite(&line))).unwrap());
    drop(image);
    let row: Vec<[u32; 4]> = read(&line).unwrap().into_iter().map(|texel| texel.channels).collect();
    assert_eq!(row, expected[4..8]);
}

#[test]
fn row_124_an_image_has_a_texel_at_least() {
    for refused in [Image::<R32Float, 3>::new([4, 0, 2]), Image::with_shape([0, 0, 0], Vec::new())] {
        let refused = refused.unwrap_err();
        assert!(
            refused.is_invalid_input() && refused.to_string().contains("at least one texel"),
            "{refused}"
        );
    }
    let refused = Image::with_shape([2, 2], vec![R32Float::new([0.0]); 3]).unwrap_err();
    assert!(refused.to_string().contains("3 texels do not fill"), "{refused}");
}
