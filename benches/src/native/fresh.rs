//! Groups whose output is a buffer of their own, beside the same with one that stays; and images beside views.

use std::time::Instant;

use windlass::prelude::*;
use windlass::texel::{Filter, R32Float};

use super::Ours;
use crate::table::{Table, alternate};

#[windlass::kernels]
mod kernels {
    use windlass::prelude::*;

    #[kernel]
    pub(super) fn doubled(x: &[u32], y: &mut [u32]) {
        let i = global_id(0);
        y[i] = 2 * x[i];
    }

    #[kernel]
    pub(super) fn sampled(from: &Image<R32Float>, smooth: Sampler, to: &mut Image<R32Float>) {
        let at = Vec2::new(global_id(1), global_id(0));
        let place = Vec2::new(at.x as f32 + 0.5, at.y as f32 + 0.5);
        to.store(at, from.sample(smooth, place * 1.37));
    }

    #[kernel]
    pub(super) fn by_hand(from: &View<f32, 2>, to: &mut View<f32, 2>) {
        let (row, column) = (global_id(0), global_id(1));
        let x = (column as f32 + 0.5) * 1.37 - 0.5;
        let y = (row as f32 + 0.5) * 1.37 - 0.5;
        let (left, upper) = (x.floor(), y.floor());
        let (wx, wy) = (x - left, y - upper);
        let (width, height) = (from.extent(1) as i32, from.extent(0) as i32);
        let x0 = (left as i32).clamp(0, width - 1);
        let x1 = (left as i32 + 1).clamp(0, width - 1);
        let y0 = (upper as i32).clamp(0, height - 1);
        let y1 = (upper as i32 + 1).clamp(0, height - 1);
        let above = from[y0][x0] * (1.0 - wx) + from[y0][x1] * wx;
        let below = from[y1][x0] * (1.0 - wx) + from[y1][x1] * wx;
        to[row][column] = above * (1.0 - wy) + below * wy;
    }
}

const ROUNDS: u32 = 100;

pub(super) fn rows(ours: &Ours, table: &mut Table, scale: usize) {
    let queue = &ours.queue;
    for (what, bytes) in
        [("4 KiB", 4 << 10), ("256 KiB", 256 << 10), ("4 MiB", 4 << 20), ("16 MiB", 16 << 20)]
    {
        let len = bytes / 4;
        let (x, stays) = (Buffer::from(vec![1_u32; len]), Buffer::<u32>::new(len));
        let round = |fresh: bool| {
            let start = Instant::now();
            for _ in 0..ROUNDS {
                let y = if fresh { Buffer::new(len) } else { stays.clone() };
                let call = |cg: &CommandGroup<'_>| {
                    cg.parallel_for(len, kernels::doubled(cg.read(&x), cg.overwrite(&y)))
                };
                queue.submit(call).and_then(|event| event.blocking_wait()).expect("nothing fails");
            }
            start.elapsed().as_nanos() as f64 / f64::from(ROUNDS)
        };
        round(true);
        round(false);
        let (fresh, base) = alternate(scale.max(3), || round(true), || round(false));
        let what = format!("a group with an output of its own, {what}, awaited, beside one that stays");
        table.cost(&what, fresh, Some(base), "≤ 1.2x");
    }
    sampled(queue, table, scale);
}

/// A picture is sampled between its texels.
fn sampled(queue: &Queue, table: &mut Table, scale: usize) {
    const FROM: usize = 2048;
    const TO: usize = 1490;
    let texels: Vec<R32Float> = (0..FROM * FROM).map(|i| R32Float::new([(i % 251) as f32])).collect();
    let (from, to) = (Image::with_shape([FROM, FROM], texels), Image::<R32Float>::new([TO, TO]));
    let (from, to) = from.and_then(|from| Ok((from, to?))).expect("they have texels");
    let view =
        from.reinterpret::<f32, 2>([FROM, FROM]).and_then(|view| Ok((view, to.reinterpret([TO, TO])?)));
    let (from_view, to_view) = view.expect("a texel is a number");
    let smooth = Sampler::new().filter(Filter::Linear).by_texels();
    let timed = |group: &dyn Fn() -> windlass::Result<Event>| {
        let start = Instant::now();
        group().and_then(|event| event.blocking_wait()).expect("nothing fails");
        start.elapsed().as_nanos() as f64
    };
    let image = || {
        let call = |cg: &CommandGroup<'_>| {
            cg.parallel_for([TO, TO], kernels::sampled(cg.read(&from), smooth, cg.overwrite(&to)))
        };
        timed(&|| queue.submit(call))
    };
    let by_hand = || {
        let call = |cg: &CommandGroup<'_>| {
            cg.parallel_for([TO, TO], kernels::by_hand(cg.read(&from_view), cg.overwrite(&to_view)))
        };
        timed(&|| queue.submit(call))
    };
    image();
    by_hand();
    let (image, by_hand) = alternate(5 * scale.max(3), image, by_hand);
    table.cost("1490 x 1490 samples of an image, linear, beside a view by hand", image, Some(by_hand), "");
}
