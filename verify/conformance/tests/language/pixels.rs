//! Integers of 8 and 16 bits as parts of what a kernel is given: of structs, of arrays, and of both in each other, beside wider
//! numbers.

use windlass::prelude::*;

use crate::everywhere::{everywhere, queues, read, where_there_is};

#[windlass::kernels]
mod pictures {
    use windlass::prelude::*;

    #[derive(Clone, Copy, Debug, PartialEq, DeviceCopy)]
    #[repr(C)]
    pub(super) struct Pixel {
        pub(super) red: u8,
        pub(super) green: u8,
        pub(super) blue: u8,
        pub(super) alpha: i8,
    }

    /// Of six bytes, so that every other one starts inside a word.
    #[derive(Clone, Copy, Debug, PartialEq, DeviceCopy)]
    #[repr(C)]
    pub(super) struct Wide {
        pub(super) at: Vec2<i16>,
        pub(super) levels: [u8; 2],
    }

    #[derive(Clone, Copy, Debug, PartialEq, DeviceCopy)]
    #[repr(C)]
    pub(super) struct Mixed {
        pub(super) weight: f32,
        pub(super) pixels: [Pixel; 2],
        pub(super) offset: i32,
        pub(super) half: u16,
        pub(super) tail: [i8; 2],
    }

    impl Pixel {
        fn sum(self) -> u32 {
            self.red as u32 + self.green as u32 + self.blue as u32
        }
    }

    fn swap(pixel: &mut Pixel) {
        let red = pixel.red;
        pixel.red = pixel.blue;
        pixel.blue = red;
    }

    fn brighter(level: &mut u8, by: u8) {
        *level = level.saturating_add(by);
    }

    #[kernel]
    pub fn pixels(by: Pixel, x: &[Pixel], y: &mut [Pixel], sums: &mut [u32]) {
        let i = global_id(0);
        y[i].green += x[i].red * by.green;
        y[i].alpha = -y[i].alpha / 3;
        swap(&mut y[i]);
        brighter(&mut y[i].blue, by.blue);
        if i % 3 == 0 {
            y[i] = x[i + 1];
        }
        sums[i] = x[i].sum() * by.red as u32 + by.alpha as u32;
    }

    #[kernel]
    pub fn rows(shift: [i8; 3], x: &[[u8; 3]], y: &mut [[u16; 3]], at: &[u32]) {
        let i = global_id(0);
        for k in 0..3 {
            y[i][k] = (x[i][2 - k] as i32 + shift[k] as i32) as u16;
        }
        y[i][at[i]] *= 3;
        let row = x[i];
        y[i][1] += row[at[i]] as u16;
    }

    #[kernel]
    pub fn mixed(by: Mixed, x: &[Wide], y: &mut [Mixed], z: &mut View<Wide, 2>) {
        let i = global_id(0);
        let k = i % 2;
        y[i].weight += by.weight * x[i].at.x as f32;
        y[i].pixels[k].green += x[i].levels[1 - k];
        y[i].pixels[1 - k] = by.pixels[k];
        y[i].offset -= by.offset + x[i].at.y as i32;
        y[i].half = y[i].half << 3_u32 ^ by.half;
        y[i].tail[k] = by.tail[1 - k] >> 1;
        z[i / 4][i % 4].levels = y[i].pixels[0].sum_of(x[i].levels);
        z[i / 4][i % 4].at -= x[i].at;
    }

    impl Pixel {
        fn sum_of(self, levels: [u8; 2]) -> [u8; 2] {
            [self.red + levels[0], self.green + levels[1]]
        }
    }
}

use self::pictures::{Mixed, Pixel, Wide};

fn pixel(i: u32) -> Pixel {
    let [red, green, blue, alpha] = i.wrapping_mul(0x9e37_79b9).to_le_bytes();
    Pixel { red, green, blue, alpha: alpha as i8 }
}

fn wide(i: u32) -> Wide {
    let p = pixel(i + 1000);
    Wide { at: Vec2::new(i16::from(p.red) * -100, i as i16), levels: [p.green, p.blue] }
}

fn mixed(i: u32) -> Mixed {
    let pixels = [pixel(2 * i), pixel(2 * i + 1)];
    Mixed { weight: i as f32, pixels, offset: -5 * i as i32, half: (i * 7001) as u16, tail: [i as i8, -3] }
}

#[test]
fn structs_of_bytes() {
    let by = Pixel { red: 3, green: 250, blue: 90, alpha: -128 };
    let n = 101;
    let (mut pixels, mut sums) = (Vec::new(), Vec::new());
    for i in 0..n {
        let (x, mut y) = (pixel(i), pixel(i + 500));
        y.green = y.green.wrapping_add(x.red.wrapping_mul(by.green));
        y.alpha = y.alpha.wrapping_neg() / 3;
        (y.red, y.blue) = (y.blue, y.red);
        y.blue = y.blue.saturating_add(by.blue);
        if i % 3 == 0 {
            let next = Pixel { red: 0, green: 0, blue: 0, alpha: 0 };
            y = if i + 1 < n { pixel(i + 1) } else { next };
        }
        pixels.push(y);
        let sum = u32::from(x.red) + u32::from(x.green) + u32::from(x.blue);
        sums.push((sum * 3).wrapping_add(-128_i32 as u32));
    }
    let expected: Vec<(Pixel, u32)> = pixels.into_iter().zip(sums).collect();
    for queue in queues() {
        let x = Buffer::from((0..n).map(pixel).collect::<Vec<_>>());
        let y = Buffer::from((0..n).map(|i| pixel(i + 500)).collect::<Vec<_>>());
        let sums = Buffer::<u32>::new(n as usize);
        let ended = queue.submit(|cg| {
            let (x, y, sums) = (cg.read(&x), cg.read_write(&y), cg.write(&sums));
            cg.parallel_for(n as usize, pictures::pixels(by, x, y, sums))
        });
        ended.unwrap();
        let found: Vec<_> = read(&y).unwrap().into_iter().zip(read(&sums).unwrap()).collect();
        assert_eq!(found, expected, "on {} ({})", queue.device(), queue.device().backend());
    }
}

#[test]
fn arrays_of_bytes() {
    let (n, shift) = (67_u32, [-100_i8, 5, 127]);
    let at: Vec<u32> = (0..n).map(|i| i * 5 % 4).collect();
    let row = |i: u32| [i as u8, (i * 77) as u8, (i * 31 + 9) as u8];
    let mut expected = Vec::new();
    for i in 0..n {
        let (x, mut y, at) = (row(i), [0_u16; 3], at[i as usize] as usize);
        for k in 0..3 {
            y[k] = (i32::from(x[2 - k]) + i32::from(shift[k])) as u16;
        }
        if let Some(y) = y.get_mut(at) {
            *y = y.wrapping_mul(3);
        }
        y[1] = y[1].wrapping_add(u16::from(x.get(at).copied().unwrap_or(0)));
        expected.push(y);
    }
    everywhere(&expected, |queue| {
        let x = Buffer::from((0..n).map(row).collect::<Vec<_>>());
        let (y, at) = (Buffer::from(vec![[9_u16; 3]; n as usize]), Buffer::from(at.clone()));
        queue.submit(|cg| {
            let y = cg.read_write(&y);
            cg.parallel_for(n as usize, pictures::rows(shift, cg.read(&x), y, cg.read(&at)))
        })?;
        read(&y)
    });
}

#[test]
fn bytes_beside_wider_numbers() {
    let by = Mixed { tail: [-100, 77], half: 0x1234, ..mixed(77) };
    let n = 32_u32;
    let (mut expected, mut wides) = (Vec::new(), Vec::new());
    for i in 0..n {
        let (x, mut y, k) = (wide(i), mixed(i), i as usize % 2);
        y.weight += by.weight * f32::from(x.at.x);
        y.pixels[k].green = y.pixels[k].green.wrapping_add(x.levels[1 - k]);
        y.pixels[1 - k] = by.pixels[k];
        y.offset -= by.offset + i32::from(x.at.y);
        y.half = y.half << 3 ^ by.half;
        y.tail[k] = by.tail[1 - k] >> 1;
        let levels = [y.pixels[0].red.wrapping_add(x.levels[0]), y.pixels[0].green.wrapping_add(x.levels[1])];
        let before = wide(i + 50);
        wides.push(Wide { at: before.at - x.at, levels });
        expected.push(y);
    }
    let expected: Vec<(Mixed, Wide)> = expected.into_iter().zip(wides).collect();
    for queue in queues() {
        let x = Buffer::from((0..n).map(wide).collect::<Vec<_>>());
        let y = Buffer::from((0..n).map(mixed).collect::<Vec<_>>());
        let z = Buffer::with_shape([8, 4], (0..n).map(|i| wide(i + 50)).collect::<Vec<_>>()).unwrap();
        let ended = queue.submit(|cg| {
            let (x, y, z) = (cg.read(&x), cg.read_write(&y), cg.read_write(&z));
            cg.parallel_for(n as usize, pictures::mixed(by, x, y, z))
        });
        ended.unwrap();
        let found: Vec<_> = read(&y).unwrap().into_iter().zip(read(&z).unwrap()).collect();
        assert_eq!(found, expected, "on {} ({})", queue.device(), queue.device().backend());
    }
}

#[windlass::kernels]
mod wide {
    use windlass::prelude::*;

    #[derive(Clone, Copy, Debug, PartialEq, DeviceCopy)]
    #[repr(C)]
    pub(super) struct Record {
        pub(super) number: u64,
        pub(super) sign: i64,
        pub(super) kinds: [u8; 8],
    }

    #[kernel]
    pub fn records(by: Record, x: &mut [Record]) {
        let i = global_id(0);
        x[i].number += by.number * by.kinds[i % 8] as u64;
        x[i].sign = -x[i].sign - by.sign;
        x[i].kinds[i % 8] += 1;
        let moved = x[i];
        x[i + 64] = moved;
    }
}

#[test]
fn bytes_beside_numbers_of_64_bits() {
    use wide::Record;
    let by = Record { number: 1 << 40 | 3, sign: i64::MIN + 5, kinds: [0, 1, 2, 3, 4, 5, 6, 250] };
    let record = |i: u64| Record { number: u64::MAX - i, sign: i as i64 - 7, kinds: [i as u8; 8] };
    let changed = |i: u64| {
        let (mut x, k) = (record(i), i as usize % 8);
        x.number = x.number.wrapping_add(by.number.wrapping_mul(u64::from(by.kinds[k])));
        x.sign = x.sign.wrapping_neg().wrapping_sub(by.sign);
        x.kinds[k] = x.kinds[k].wrapping_add(1);
        x
    };
    let expected: Vec<Record> = (0..128).map(|i| changed(i % 64)).collect();
    let can = |queue: &Queue| queue.device().can_run(wide::records::kernel()).is_ok();
    where_there_is("integers of 64 bits", can, |queue| {
        let x = Buffer::from((0..128).map(record).collect::<Vec<_>>());
        queue.submit(|cg| cg.parallel_for(64, wide::records(by, cg.read_write(&x))))?;
        assert_eq!(read(&x)?, expected, "on {} ({})", queue.device(), queue.device().backend());
        Ok(())
    });
}
