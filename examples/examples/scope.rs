//! Plain functions over plain slices that use devices inside, in a program without any async code: `cargo run --release --example scope`

use std::sync::mpsc::channel;

use windlass::Result;
use windlass::prelude::*;

#[windlass::kernel]
fn blurred(from: &View<f32, 2>, to: &mut View<f32, 2>) {
    let (y, x) = (global_id(0), global_id(1));
    // Outside of a view everything is zero.
    to[y][x] = (from[y][x] + from[y][x + 1] + from[y + 1][x] + from[y + 1][x + 1]) / 4.0;
}

/// Blurs a picture in place. Whoever calls it need not know that there are devices: the scope ends when everything that was
/// submitted in it has, and then the slice has the result.
fn blur(queue: &Queue, width: usize, pixels: &mut [f32]) -> Result<()> {
    let shape = [pixels.len() / width, width];
    let mut before = pixels.to_vec();
    windlass::scope(|scope| {
        let (from, to) = (scope.grid(shape, &mut before)?, scope.grid(shape, pixels)?);
        queue.submit(|cg| cg.parallel_for(shape, blurred(cg.read(&from), cg.overwrite(&to))))
    })?;
    Ok(())
}

fn main() -> Result<()> {
    let queue = Queue::blocking_new()?;
    let (width, height) = (64, 48);
    let mut pixels: Vec<f32> = (0..width * height).map(|i| (i % width) as f32).collect();
    blur(&queue, width, &mut pixels)?;
    assert_eq!((pixels[0], pixels[7], pixels[width - 1]), (0.5, 7.5, 31.5));
    println!("a row on {}: {:?} …", queue.device(), &pixels[..6]);

    // Threads have scopes of their own, on one queue.
    let mut rows = vec![[1_u32; 100]; 4];
    std::thread::scope(|threads| {
        let fill = |row: &mut [u32; 100], by| {
            windlass::scope(|scope| {
                let row = scope.buffer(row);
                queue.submit(|cg| cg.fill(&cg.overwrite(&row.range(50..)), by))
            })
        };
        let threads: Vec<_> =
            rows.iter_mut().zip(10..).map(|(row, by)| threads.spawn(move || fill(row, by))).collect();
        threads.into_iter().try_for_each(|thread| thread.join().expect("it does not panic").map(drop))
    })?;
    assert!(rows.iter().zip(10..).all(|(row, by)| row[49] == 1 && row[99] == by));

    // Data that has failed is left as it was, and the scope says why.
    let mut kept = [5_u32; 8];
    let failed = windlass::scope(|scope| {
        let kept = scope.buffer(&mut kept);
        queue.submit(|cg| {
            let _kept = cg.overwrite(&kept);
            cg.host_task(async |_| Err("no".into()))
        })
    });
    assert!(failed.expect_err("its group has failed").is_dependency_failed());
    assert_eq!(kept, [5; 8]);

    // Where nobody waits, the contents are given to a closure once the buffer is over.
    let (send, receive) = channel();
    let counts = Buffer::<u32>::new(4).with_write_back(move |back| drop(send.send(back)));
    queue.submit(|cg| cg.fill(&cg.overwrite(&counts), 9))?;
    drop(counts);
    assert_eq!(receive.recv().expect("it is called once")?, [9; 4]);
    println!("and every slice has what it should");
    Ok(())
}
