// Written in the kernel language, and read by the attribute, not by the compiler: see `library.rs`. What texels and samplers are
// outside of kernels stands in `windlass-kernel`, `texel.rs`.

#[derive(Clone, Copy)]
pub struct Sampler {
    how: u32,
}

/// The texels that a sample is made of along one dimension, and how much the second one counts.
#[derive(Clone, Copy)]
struct Taps {
    first: i32,
    second: i32,
    weight: f32,
}

fn is_nearest(sampler: Sampler) -> bool {
    (sampler.how & 1) == 0
}

/// The texel that a sampler sees at an index; outside where there is none.
fn addressed(sampler: Sampler, at: i32, extent: u32) -> i32 {
    let n = extent as i32;
    let addressing = (sampler.how >> 1) & 3;
    if addressing == 0 {
        return at.clamp(0, n - 1);
    }
    if addressing == 1 {
        return at;
    }
    // Back and forth there are as many texels again.
    let round = if addressing == 2 { n } else { 2 * n };
    let within = at.rem_euclid(round);
    if within < n { within } else { round - 1 - within }
}

fn taps(sampler: Sampler, at: f32, extent: u32) -> Taps {
    let is_by_texels = (sampler.how & 8) != 0;
    let place = if is_by_texels { at } else { at * extent as f32 };
    let from = if is_nearest(sampler) { place } else { place - 0.5 };
    let base = from.floor();
    let first = base as i32;
    Taps {
        first: addressed(sampler, first, extent),
        second: addressed(sampler, first + 1, extent),
        weight: from - base,
    }
}

fn mixed(first: Vec4<f32>, second: Vec4<f32>, weight: f32) -> Vec4<f32> {
    first * (1.0 - weight) + second * weight
}

fn sample_1<T>(image: &Image<T, 1>, sampler: Sampler, at: f32) -> Vec4<f32> {
    let x = taps(sampler, at, image.len());
    let first = image[x.first].decode();
    if is_nearest(sampler) {
        return first;
    }
    mixed(first, image[x.second].decode(), x.weight)
}

fn sample_2<T>(image: &Image<T, 2>, sampler: Sampler, at: Vec2<f32>) -> Vec4<f32> {
    let x = taps(sampler, at.x, image.extent(1));
    let y = taps(sampler, at.y, image.extent(0));
    let first = image[y.first][x.first].decode();
    if is_nearest(sampler) {
        return first;
    }
    let upper = mixed(first, image[y.first][x.second].decode(), x.weight);
    let lower = mixed(image[y.second][x.first].decode(), image[y.second][x.second].decode(), x.weight);
    mixed(upper, lower, y.weight)
}

fn in_slice<T>(image: &Image<T, 3>, z: i32, y: Taps, x: Taps) -> Vec4<f32> {
    let upper = mixed(image[z][y.first][x.first].decode(), image[z][y.first][x.second].decode(), x.weight);
    let lower = mixed(image[z][y.second][x.first].decode(), image[z][y.second][x.second].decode(), x.weight);
    mixed(upper, lower, y.weight)
}

fn sample_3<T>(image: &Image<T, 3>, sampler: Sampler, at: Vec3<f32>) -> Vec4<f32> {
    let x = taps(sampler, at.x, image.extent(2));
    let y = taps(sampler, at.y, image.extent(1));
    let z = taps(sampler, at.z, image.extent(0));
    if is_nearest(sampler) {
        return image[z.first][y.first][x.first].decode();
    }
    mixed(in_slice(image, z.first, y, x), in_slice(image, z.second, y, x), z.weight)
}

// What channels stand for. Where a product would do and where a quotient would is not the same on all devices.

fn unorm8(stored: u8) -> f32 {
    stored as f32 * 0.003921569
}

fn srgb8(stored: u8) -> f32 {
    let part = unorm8(stored);
    if part <= 0.04045 { part * 0.07739938 } else { ((part + 0.055) * 0.9478673).powf(2.4) }
}

fn snorm8(stored: i8) -> f32 {
    (stored as f32 * 0.007874016).max(-1.0)
}

fn unorm16(stored: u16) -> f32 {
    stored as f32 * 0.000015259022
}

fn snorm16(stored: i16) -> f32 {
    (stored as f32 * 0.000030518509).max(-1.0)
}

// Where a float has no room behind the point, a sum rounds to even, and its last bits are the integer. The clamp stands between product
// and sum, so that no device makes one operation of them, which would round otherwise.

fn to_unorm8(seen: f32) -> u8 {
    ((seen * 255.0).clamp(0.0, 255.0) + 8388608.0).to_bits() as u8
}

fn to_srgb8(seen: f32) -> u8 {
    let part = seen.clamp(0.0, 1.0);
    to_unorm8(if part <= 0.0031308 { part * 12.92 } else { 1.055 * part.powf(0.41666666) - 0.055 })
}

fn to_snorm8(seen: f32) -> i8 {
    ((seen * 127.0).clamp(-127.0, 127.0) + 12582912.0).to_bits() as i8
}

fn to_unorm16(seen: f32) -> u16 {
    ((seen * 65535.0).clamp(0.0, 65535.0) + 8388608.0).to_bits() as u16
}

fn to_snorm16(seen: f32) -> i16 {
    ((seen * 32767.0).clamp(-32767.0, 32767.0) + 12582912.0).to_bits() as i16
}

/// Not by the devices' own halves, which few have.
fn half(stored: u16) -> f32 {
    let bits = stored as u32;
    let (sign, size) = ((bits & 0x8000) << 16, bits & 0x7fff);
    if size < 0x400 {
        // The numbers below the least exponent are steps of one size.
        let small = size as f32 * 0.000000059604645;
        return f32::from_bits(sign | small.to_bits());
    }
    let exponent = if size >= 0x7c00 { 0xff << 23 } else { ((size >> 10) + 112) << 23 };
    f32::from_bits(sign | exponent | ((size & 0x3ff) << 13))
}

fn to_half(seen: f32) -> u16 {
    let bits = seen.to_bits();
    let (sign, size) = ((bits >> 16) & 0x8000, bits & 0x7fff_ffff);
    if size > 0x7f80_0000 {
        return (sign | 0x7e00 | ((size >> 13) & 0x3ff)) as u16;
    }
    if size >= 0x4780_0000 {
        return (sign | 0x7c00) as u16;
    }
    if size < 0x3880_0000 {
        let steps = (f32::from_bits(size) * 16777216.0 + 8388608.0).to_bits() & 0x7ff;
        return (sign | steps) as u16;
    }
    // The half that is cut off is rounded to even. What overflows becomes the next exponent, and in the end infinity.
    let rounded = size + 0xfff + ((size >> 13) & 1);
    (sign | ((rounded >> 13) - 0x1c000)) as u16
}
