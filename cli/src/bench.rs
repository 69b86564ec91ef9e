//! How fast devices are, roughly: medians of a few rounds.

use std::time::{Duration, Instant};

use indicatif::ProgressBar;
use serde_json::{Map, Value, json};
use windlass::prelude::*;
use windlass::{Device, Error};

use crate::doctor::scaled_sum;
use crate::{Verdict, Which};

/// Something that is measured. Returns a figure for each round; an infinite one where there is nothing to do.
struct Measure {
    name: &'static str,
    unit: &'static str,
    run: fn(&Queue) -> Result<f64, Error>,
}

const MEASURES: [Measure; 5] = [
    Measure { name: "launch, awaited", unit: "us", run: awaited },
    Measure { name: "launch, of many", unit: "us", run: of_many },
    Measure { name: "data to the device", unit: "GB/s", run: to_device },
    Measure { name: "data from the device", unit: "GB/s", run: from_device },
    Measure { name: "its own memory, in a kernel", unit: "GB/s", run: in_kernel },
];

const ROUNDS: usize = 7;

/// Large enough that nothing but the rate counts.
const BYTES: usize = 64 << 20;

pub(crate) fn measure(which: &Which) -> Verdict {
    let runtime = windlass::Runtime::new();
    let devices = which.filter.of(&runtime)?;
    let bar = ProgressBar::new((devices.len() * MEASURES.len()) as u64);
    let mut told = Vec::new();
    for device in &devices {
        let figures = figures(device, &bar);
        if which.json {
            let figures: Map<String, Value> = figures
                .into_iter()
                .map(|(measure, figure)| match figure {
                    Ok(figure) => (format!("{} ({})", measure.name, measure.unit), json!(figure)),
                    Err(error) => (measure.name.into(), json!({ "problem": error.to_string() })),
                })
                .collect();
            told.push(json!({ "device": device.to_string(), "figures": figures }));
            continue;
        }
        bar.suspend(|| {
            println!("{device}");
            for (measure, figure) in &figures {
                match figure {
                    Ok(figure) if figure.is_infinite() => {
                        println!("    {:<30} nothing has to be moved", measure.name)
                    }
                    Ok(figure) => println!("    {:<30} {figure:>9.2} {}", measure.name, measure.unit),
                    Err(error) => println!("    {:<30} {error}", measure.name),
                }
            }
        });
    }
    bar.finish_and_clear();
    if which.json {
        println!("{}", json!({ "devices": told }));
    }
    Ok(true)
}

fn figures(device: &Device, bar: &ProgressBar) -> Vec<(&'static Measure, Result<f64, Error>)> {
    let queue = Queue::blocking_on(device.clone());
    let each = MEASURES.iter().map(|measure| {
        bar.inc(1);
        let figure = match &queue {
            Ok(queue) => median(|| (measure.run)(queue)),
            Err(error) => Err(error.clone()),
        };
        (measure, figure)
    });
    each.collect()
}

/// Of some rounds behind one that warms up.
fn median(mut round: impl FnMut() -> Result<f64, Error>) -> Result<f64, Error> {
    round()?;
    let mut figures = (0..ROUNDS).map(|_| round()).collect::<Result<Vec<_>, _>>()?;
    figures.sort_by(f64::total_cmp);
    Ok(figures[ROUNDS / 2])
}

fn timed(what: impl FnOnce() -> Result<(), Error>) -> Result<Duration, Error> {
    let began = Instant::now();
    what()?;
    Ok(began.elapsed())
}

fn rate(bytes: usize, time: Duration) -> f64 {
    bytes as f64 / time.as_secs_f64() / 1e9
}

fn launch(queue: &Queue, x: &Buffer<f32>, y: &Buffer<f32>) -> Result<Event, Error> {
    queue.submit(|cg| cg.parallel_for(y.len(), scaled_sum(0.5, cg.read(x), cg.read_write(y))))
}

fn awaited(queue: &Queue) -> Result<f64, Error> {
    let (x, y) = (Buffer::from(vec![1.0; 256]), Buffer::from(vec![1.0; 256]));
    launch(queue, &x, &y)?.blocking_wait()?;
    let times = 200;
    let each = || (0..times).try_for_each(|_| launch(queue, &x, &y)?.blocking_wait());
    Ok(timed(each)?.as_secs_f64() * 1e6 / f64::from(times))
}

fn of_many(queue: &Queue) -> Result<f64, Error> {
    let (x, y) = (Buffer::from(vec![1.0; 256]), Buffer::from(vec![1.0; 256]));
    launch(queue, &x, &y)?.blocking_wait()?;
    let times = 2000;
    let all = || {
        (0..times).try_for_each(|_| launch(queue, &x, &y).map(drop))?;
        queue.drained().blocking_wait()
    };
    Ok(timed(all)?.as_secs_f64() * 1e6 / f64::from(times))
}

fn to_device(queue: &Queue) -> Result<f64, Error> {
    let data = Buffer::from(vec![1.0_f32; BYTES / 4]);
    // It is there once, so that the second time there is memory for it.
    queue.prefetch(&data)?.blocking_wait()?;
    data.host_write().blocking_wait()?.fill(2.0);
    moved(queue, || queue.prefetch(&data)?.blocking_wait())
}

/// The rate at which something moves, if that has to be done at all: the host reads its own memory, and some of devices, where it is.
fn moved(queue: &Queue, what: impl FnOnce() -> Result<(), Error>) -> Result<f64, Error> {
    let before = queue.runtime().stats().bytes_moved;
    let time = timed(what)?;
    match queue.runtime().stats().bytes_moved == before {
        true => Ok(f64::INFINITY),
        false => Ok(rate(BYTES, time)),
    }
}

fn from_device(queue: &Queue) -> Result<f64, Error> {
    let there = Buffer::<f32>::new(BYTES / 4);
    queue.submit(|cg| cg.fill(&cg.overwrite(&there), 1.0))?.blocking_wait()?;
    moved(queue, || there.host_read().blocking_wait().map(drop))
}

fn in_kernel(queue: &Queue) -> Result<f64, Error> {
    let (x, y) = (Buffer::<f32>::new(BYTES / 4), Buffer::<f32>::new(BYTES / 4));
    launch(queue, &x, &y)?.blocking_wait()?;
    let times = 4;
    let all = || {
        (0..times).try_for_each(|_| launch(queue, &x, &y).map(drop))?;
        queue.drained().blocking_wait()
    };
    // Two are read and one is written.
    Ok(rate(3 * BYTES * times, timed(all)?))
}
