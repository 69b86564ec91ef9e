//! Whether devices do what they should.

use std::time::Duration;

use indicatif::ProgressBar;
use serde_json::json;
use windlass::prelude::*;
use windlass::{Device, Error};

use crate::devices::{missing, tell_missing};
use crate::{Verdict, Which};

#[windlass::kernel]
pub(crate) fn scaled_sum(a: f32, x: &[f32], y: &mut [f32]) {
    let i = global_id(0);
    if i < y.len() {
        y[i] = a * x[i] + y[i];
    }
}

#[windlass::kernel]
fn step(n: u32, x: &mut [u32]) {
    let i = global_id(0);
    if i < x.len() {
        x[i] = x[i] * 3 + n;
    }
}

/// One thing that every device has to be able to do.
struct Check {
    name: &'static str,
    run: fn(&Queue) -> Result<bool, Error>,
}

const CHECKS: [Check; 4] = [
    Check { name: "data goes there and back", run: goes_there_and_back },
    Check { name: "a kernel computes what it should", run: computes },
    Check { name: "groups run in the order of their data", run: keeps_order },
    Check { name: "an unwanted group leaves nothing behind", run: cancels },
];

/// A device on which nothing ends for this long is given up, so that this program ends.
const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) fn examine(which: &Which) -> Verdict {
    let runtime = Runtime::builder().hang_timeout(PATIENCE).build();
    let devices = which.filter.of(&runtime)?;
    let bar = ProgressBar::new((devices.len() * CHECKS.len()) as u64);
    let (mut all_well, mut told) = (true, Vec::new());
    for device in &devices {
        let findings = checks(device, &bar);
        let faults: Vec<String> = device.faults().iter().map(ToString::to_string).collect();
        let is_well = findings.iter().all(|(_, finding)| finding.is_none());
        all_well &= is_well;
        if which.json {
            let checks = findings.iter().map(|(name, finding)| json!({ "check": name, "problem": finding }));
            let checks: Vec<_> = checks.collect();
            told.push(json!({
                "device": device.to_string(), "well": is_well, "checks": checks, "known_faults": faults
            }));
            continue;
        }
        bar.suspend(|| {
            println!("{device}: {}", if is_well { "well" } else { "NOT WELL" });
            for (name, problem) in findings.iter().filter_map(|(name, f)| Some((name, f.as_ref()?))) {
                println!("    it is not so that {name}: {problem}");
            }
            for fault in &faults {
                println!("    a known fault of its driver: it {fault}");
            }
        });
    }
    bar.finish_and_clear();
    match which.json {
        true => println!("{}", json!({ "well": all_well, "devices": told, "missing": missing(&runtime) })),
        false => tell_missing(&runtime),
    }
    Ok(all_well)
}

/// Each check with what is wrong, if anything is.
fn checks(device: &Device, bar: &ProgressBar) -> Vec<(&'static str, Option<String>)> {
    let queue = match Queue::blocking_on(device.clone()) {
        Ok(queue) => queue,
        Err(error) => {
            bar.inc(CHECKS.len() as u64);
            return vec![("it opens", Some(error.to_string()))];
        }
    };
    let each = CHECKS.iter().map(|check| {
        bar.inc(1);
        let problem = match (check.run)(&queue) {
            Ok(true) => None,
            Ok(false) => Some("the result is wrong".into()),
            Err(error) => Some(error.to_string()),
        };
        (check.name, problem)
    });
    each.collect()
}

fn goes_there_and_back(queue: &Queue) -> Result<bool, Error> {
    let data: Vec<u32> = (0..1 << 18).map(|i: u32| i.wrapping_mul(0x9e37_79b9)).collect();
    let (from, to) = (Buffer::from(data.clone()), Buffer::<u32>::new(data.len()));
    queue.submit(|cg| cg.copy(&cg.read(&from), &cg.overwrite(&to)))?;
    Ok(to.host_read().blocking_wait()?[..] == data[..])
}

fn computes(queue: &Queue) -> Result<bool, Error> {
    // Small whole numbers: however a device rounds, these are exact.
    let (x, y): (Vec<f32>, Vec<f32>) = (0..10_000).map(|i| ((i % 100) as f32, (i % 77) as f32)).unzip();
    let expected: Vec<f32> = x.iter().zip(&y).map(|(x, y)| 3.0 * x + y).collect();
    let (x, y) = (Buffer::from(x), Buffer::from(y));
    queue.submit(|cg| cg.parallel_for(x.len(), scaled_sum(3.0, cg.read(&x), cg.read_write(&y))))?;
    Ok(y.host_read().blocking_wait()?[..] == expected[..])
}

fn keeps_order(queue: &Queue) -> Result<bool, Error> {
    let x = Buffer::from(vec![1_u32; 1000]);
    for n in 0..200 {
        queue.submit(|cg| cg.parallel_for(x.len(), step(n, cg.read_write(&x))))?;
    }
    let expected = (0..200).fold(1_u32, |x, n| x.wrapping_mul(3).wrapping_add(n));
    Ok(x.host_read().blocking_wait()?.iter().all(|x| *x == expected))
}

fn cancels(queue: &Queue) -> Result<bool, Error> {
    let x = Buffer::from(vec![5_u32; 100]);
    let unwanted = queue.submit(|cg| {
        cg.on_cancel(OnCancel::KeepPrevious);
        cg.after(std::future::pending::<Result<(), Error>>());
        cg.fill(&cg.overwrite(&x), 6)
    })?;
    unwanted.cancel();
    queue.submit(|cg| cg.parallel_for(x.len(), step(1, cg.read_write(&x))))?;
    Ok(x.host_read().blocking_wait()?.iter().all(|x| *x == 16))
}
