//! A stream of frames through several kernels: edges, and the trails that they leave from frame to frame. No more than three frames
//! are in memory at a time, however long the film is.

use std::time::Instant;

use futures::{StreamExt, stream};
use windlass::bytes::Bytes;
use windlass::prelude::*;
use windlass::stream::Pipe;

const WIDTH: usize = 320;
const HEIGHT: usize = 180;
const FRAMES: usize = 120;

#[windlass::kernels]
mod kernels {
    use windlass::prelude::*;

    /// How much the brightness changes around each point, to the right and downwards.
    #[kernel]
    pub fn edges(frame: &View<f32, 2>, out: &mut View<f32, 2>) {
        let (y, x) = (global_id(0), global_id(1));
        let here = frame[y][x];
        let right = if x + 1 < frame.extent(1) { frame[y][x + 1] } else { here };
        let below = if y + 1 < frame.extent(0) { frame[y + 1][x] } else { here };
        out[y][x] = ((right - here).abs() + (below - here).abs()).min(1.0);
    }

    /// What was bright stays so for a while.
    #[kernel]
    pub fn trails(out: &mut View<f32, 2>, trail: &mut View<f32, 2>) {
        let (y, x) = (global_id(0), global_id(1));
        let bright = out[y][x].max(trail[y][x] * 0.875);
        trail[y][x] = bright;
        out[y][x] = bright;
    }
}

/// The film: a disc on its way around the middle.
fn frame(number: usize) -> Vec<f32> {
    let turn = number as f32 / FRAMES as f32 * std::f32::consts::TAU;
    let (x, y) = (WIDTH as f32 * (0.5 + 0.3 * turn.cos()), HEIGHT as f32 * (0.5 + 0.3 * turn.sin()));
    let inside = |i: usize| {
        let (dx, dy) = ((i % WIDTH) as f32 - x, (i / WIDTH) as f32 - y);
        dx * dx + dy * dy < 400.0
    };
    (0..WIDTH * HEIGHT).map(|i| if inside(i) { 0.75 } else { 0.25 }).collect()
}

/// The same in plain Rust.
fn expected(number: usize, trail: &mut [f32]) {
    let frame = frame(number);
    for (i, trail) in trail.iter_mut().enumerate() {
        let here = frame[i];
        let right = if i % WIDTH + 1 < WIDTH { frame[i + 1] } else { here };
        let below = frame.get(i + WIDTH).copied().unwrap_or(here);
        *trail = ((right - here).abs() + (below - here).abs()).min(1.0).max(*trail * 0.875);
    }
}

#[tokio::main]
async fn main() -> windlass::Result<()> {
    let queue = Queue::new().await?;
    // What one frame leaves to the next: parts are submitted in order, and the data keeps them so.
    let trail = Buffer::with_shape([HEIGHT, WIDTH], vec![0.0_f32; WIDTH * HEIGHT])?;
    let film = Pipe::<f32, f32>::builder(&queue).part(WIDTH * HEIGHT).build(move |cg, part| {
        let (input, output) = (part.input(), part.output());
        let (input, output) = (input.reinterpret([HEIGHT, WIDTH])?, output.reinterpret([HEIGHT, WIDTH])?);
        cg.name("frame");
        cg.parallel_for([HEIGHT, WIDTH], kernels::edges(cg.read(&input), cg.overwrite(&output)))?;
        cg.parallel_for([HEIGHT, WIDTH], kernels::trails(cg.read_write(&output), cg.read_write(&trail)))
    });

    let frames = stream::iter(0..FRAMES).map(|number| {
        let bytes: Vec<u8> = frame(number).into_iter().flat_map(f32::to_ne_bytes).collect();
        Ok::<_, windlass::Error>(Bytes::from(bytes))
    });
    let (began, mut frames) = (Instant::now(), std::pin::pin!(film.run(frames)));
    let (mut shown, mut count, mut trail) = (Vec::new(), 0, vec![0.0; WIDTH * HEIGHT]);
    while let Some(bytes) = frames.next().await {
        let bytes = bytes?;
        let frame: Vec<f32> =
            bytes.chunks(4).map(|b| f32::from_ne_bytes(b.try_into().expect("four"))).collect();
        expected(count, &mut trail);
        assert!(frame.iter().zip(&trail).all(|(a, b)| (a - b).abs() < 1e-5), "frame {count} is wrong");
        if count % 30 == 29 {
            shown.extend(frame.iter().map(|light| (light * 255.0) as u8));
        }
        count += 1;
    }
    assert_eq!(count, FRAMES);
    let rate = count as f64 / began.elapsed().as_secs_f64();
    println!("{count} frames on {}, {rate:.0} a second, made and checked", queue.device());

    let file = std::env::temp_dir().join("windlass-video.png");
    let sheet =
        image::GrayImage::from_raw(WIDTH as u32, (HEIGHT * shown.len() / (WIDTH * HEIGHT)) as u32, shown);
    sheet.expect("whole frames").save(&file).map_err(windlass::Error::other)?;
    println!("every thirtieth is in {}", file.display());
    Ok(())
}
