//! Commands that are described once and submitted often: a bar of metal that cools down, step by step.
//! `cargo run --release --example recording`

use windlass::Result;
use windlass::prelude::*;

const LEN: usize = 1 << 12;
const STEPS: usize = 200;

/// A quarter of each neighbour, and half of what there was. Outside it is as cold as can be.
#[windlass::kernel]
fn spread(from: &[f32], to: &mut [f32]) {
    let i = global_id(0);
    if i < to.len() {
        let left = if i > 0 { from[i - 1] } else { 0.0 };
        let right = if i + 1 < from.len() { from[i + 1] } else { 0.0 };
        to[i] = 0.5 * from[i] + 0.25 * (left + right);
    }
}

/// The same in plain Rust.
fn expected(mut bar: Vec<f32>) -> Vec<f32> {
    for _ in 0..2 * STEPS {
        let at = |i: Option<usize>| i.and_then(|i| bar.get(i)).copied().unwrap_or(0.0);
        bar = (0..LEN).map(|i| 0.5 * bar[i] + 0.25 * (at(i.checked_sub(1)) + at(Some(i + 1)))).collect();
    }
    bar
}

#[tokio::main]
async fn main() -> Result<()> {
    let queue = Queue::new().await?;
    let hot: Vec<f32> = (0..LEN).map(|i| if i / 100 % 2 == 0 { 100.0 } else { 0.0 }).collect();
    let (here, there) = (Buffer::from(hot.clone()), Buffer::<f32>::new(LEN));

    // Nothing runs yet. What is described and checked here is not described and checked again at each step, and a device
    // that takes whole sequences (`Aspect::Sequences`) is handed one thing in place of two.
    let two_steps = queue.record(|cg| {
        cg.parallel_for(LEN, spread(cg.read(&here), cg.overwrite(&there)))?;
        cg.parallel_for(LEN, spread(cg.read(&there), cg.overwrite(&here)))
    })?;
    assert_eq!(two_steps.len(), 2);
    assert_eq!(here.host_read().await?[..4], [100.0; 4]);

    // A group that replays is a group like any other: it has an event and its place in the order, and may do more.
    for step in 0..STEPS {
        queue.submit(|cg| {
            cg.name(format!("step {step}"));
            cg.replay(&two_steps)
        })?;
    }
    let expected = expected(hot);
    let bar = here.host_read().await?;
    let off = bar.iter().zip(&expected).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
    assert!(off < 1e-3, "off by {off}");
    drop(bar);

    // The buffers are those of the recording. What belongs to one submission has no place in it: closures of the program's, and events.
    let refused = queue.record(|cg| cg.host_task(async |_| Ok(()))).expect_err("a closure runs once");
    assert!(refused.is_invalid_input());
    println!("{} steps on {}, no more than {off:e} off", 2 * STEPS, queue.device());
    println!("  it takes sequences as one command: {}", queue.device().has(Aspect::Sequences));
    Ok(())
}
