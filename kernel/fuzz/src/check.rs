//! Running a program's kernels on every device that is here.

use std::process::exit;

use windlass::prelude::*;
use windlass::{NdRange, Result};

use crate::plain::Plain;
use crate::random::Random;

/// Work-items of every launch: more than the memory has elements, and whole groups of 16.
const ITEMS: usize = 64;
/// Elements that a kernel sees.
const SEEN: usize = 50;
/// Elements of a root; what a kernel sees starts at an odd place of it.
const ROOT: usize = 71;
const FIRST: usize = 7;

/// What a kernel is launched with.
#[derive(Debug)]
pub struct Memory {
    /// Integers to be read.
    pub a: Buffer<i32>,
    /// Unsigned integers to be read.
    pub b: Buffer<u32>,
    /// Floats to be read.
    pub x: Buffer<f32>,
    /// A plain value.
    pub s: i32,
    /// A plain value.
    pub t: u32,
    /// Results.
    pub out: Buffer<i32>,
    /// Results.
    pub uout: Buffer<u32>,
    /// Results.
    pub fout: Buffer<f32>,
    /// Atomics.
    pub acc: Buffer<u32>,
}

type Launch<R> = for<'g> fn(&CommandGroup<'g>, &Memory, R) -> Result<()>;

/// One kernel and its plain twin.
#[derive(Debug)]
pub struct Case {
    seed: u64,
    name: &'static str,
    launch: Either,
    plain: fn(u32, &mut Plain),
}

#[derive(Debug)]
enum Either {
    Flat(Launch<usize>),
    Grouped(Launch<NdRange<1>>),
}

impl Case {
    /// A kernel without work-groups.
    pub fn flat(seed: u64, name: &'static str, launch: Launch<usize>, plain: fn(u32, &mut Plain)) -> Self {
        Case { seed, name, launch: Either::Flat(launch), plain }
    }

    /// A kernel with work-groups of 16.
    pub fn grouped(
        seed: u64,
        name: &'static str,
        launch: Launch<NdRange<1>>,
        plain: fn(u32, &mut Plain),
    ) -> Self {
        Case { seed, name, launch: Either::Grouped(launch), plain }
    }
}

/// Runs all kernels on all devices; says what disagrees, and ends the program with a failure if anything does.
pub fn check_all(cases: &[Case]) {
    let runtime = Runtime::new();
    let devices = match futures_lite::future::block_on(runtime.devices()) {
        Ok(devices) => devices,
        Err(error) => {
            eprintln!("no devices: {error}");
            exit(2);
        }
    };
    let queues: Vec<Queue> = devices
        .into_iter()
        .map(|device| {
            Queue::builder().device(device).handler(|_| {}).build_blocking().expect("a listed device opens")
        })
        .collect();
    let backends = |name: &str| queues.iter().any(|queue| queue.device().backend().to_string() == name);
    if std::env::var_os("CI").is_some() && !(backends("opencl") && backends("wgpu")) {
        eprintln!("this machine must have an OpenCL and a Vulkan driver");
        exit(2);
    }
    let mut wrong = 0;
    for case in cases {
        let before = inputs(case.seed);
        let mut expected = before.clone();
        (case.plain)(ITEMS as u32, &mut expected);
        for queue in &queues {
            let what = match run(queue, case, &before) {
                Ok(found) => difference(&expected, &found),
                Err(error) => Some(error.to_string()),
            };
            if let Some(what) = what {
                wrong += 1;
                println!("DISAGREES {} (seed {}) on {}: {what}", case.name, case.seed, queue.device());
            }
        }
    }
    println!("{} kernels on {} devices, {wrong} disagree", cases.len(), queues.len());
    if wrong > 0 {
        exit(1);
    }
}

fn inputs(seed: u64) -> Plain {
    let mut random = Random::new(seed ^ 0x5eed);
    let mut odd = |_| match random.below(4) {
        0 => *random.pick(&[0, 1, -1, i32::MIN, i32::MAX, 31, 33]),
        1 => random.next() as i32,
        _ => random.below(64) as i32 - 32,
    };
    let a: Vec<i32> = (0..SEEN).map(&mut odd).collect();
    let b = (0..SEEN).map(&mut odd).map(|v| v as u32).collect();
    let (s, t) = (odd(0), odd(0) as u32);
    let x = (0..SEEN).map(|_| random.below(256) as f32 / 8.0 - 16.0).collect();
    Plain { a, b, x, s, t, out: vec![3; SEEN], uout: vec![4; SEEN], fout: vec![5.0; SEEN], acc: vec![9; 12] }
}

fn run(queue: &Queue, case: &Case, plain: &Plain) -> Result<Plain> {
    let roots = (
        Buffer::from(vec![77_i32; ROOT]),
        Buffer::from(vec![77_u32; ROOT]),
        Buffer::from(vec![77_f32; ROOT]),
    );
    let seen = FIRST..FIRST + SEEN;
    let memory = Memory {
        a: Buffer::from(plain.a.clone()),
        b: Buffer::from(plain.b.clone()),
        x: Buffer::from(plain.x.clone()),
        s: plain.s,
        t: plain.t,
        out: roots.0.range(seen.clone()),
        uout: roots.1.range(seen.clone()),
        fout: roots.2.range(seen.clone()),
        acc: Buffer::from(plain.acc.clone()),
    };
    queue.submit(|cg| {
        cg.copy(&cg.read(&Buffer::from(plain.out.clone())), &cg.write(&memory.out))?;
        cg.copy(&cg.read(&Buffer::from(plain.uout.clone())), &cg.write(&memory.uout))?;
        cg.copy(&cg.read(&Buffer::from(plain.fout.clone())), &cg.write(&memory.fout))
    })?;
    let event = queue.submit(|cg| match case.launch {
        Either::Flat(launch) => launch(cg, &memory, ITEMS),
        Either::Grouped(launch) => launch(cg, &memory, NdRange { global: [ITEMS], local: [16] }),
    })?;
    event.blocking_wait()?;
    let mut found = plain.clone();
    found.out = inside(&roots.0, 77)?;
    found.uout = inside(&roots.1, 77)?;
    found.fout = inside(&roots.2, 77.0)?;
    found.acc = memory.acc.host_read().blocking_wait()?.to_vec();
    Ok(found)
}

/// The part of a root that the kernel saw; everything beside it must be as it was.
fn inside<T: DeviceCopy + PartialEq>(root: &Buffer<T>, before: T) -> Result<Vec<T>> {
    let all = root.host_read().blocking_wait()?.to_vec();
    let beside = all[..FIRST].iter().chain(&all[FIRST + SEEN..]);
    if beside.into_iter().any(|v| *v != before) {
        return Err(windlass::Error::other("it wrote beside its range".to_string()));
    }
    Ok(all[FIRST..FIRST + SEEN].to_vec())
}

fn difference(expected: &Plain, found: &Plain) -> Option<String> {
    let first = |name: &str, e: Vec<String>, f: Vec<String>| {
        let at = e.iter().zip(&f).position(|(a, b)| a != b)?;
        Some(format!("{name}[{at}] is {}, and should be {}", f[at], e[at]))
    };
    let text = |v: &[i32]| v.iter().map(ToString::to_string).collect();
    let unsigned = |v: &[u32]| v.iter().map(ToString::to_string).collect();
    first("out", text(&expected.out), text(&found.out))
        .or_else(|| first("uout", unsigned(&expected.uout), unsigned(&found.uout)))
        .or_else(|| first("acc", unsigned(&expected.acc), unsigned(&found.acc)))
        .or_else(|| {
            let at = expected.fout.iter().zip(&found.fout).position(|(e, f)| !close(*e, *f))?;
            Some(format!("fout[{at}] is {}, and should be {}", found.fout[at], expected.fout[at]))
        })
}

/// Whether two floats are the same but for rounding. What overflows is left open.
fn close(a: f32, b: f32) -> bool {
    !a.is_finite() || (a - b).abs() <= 1e-5 * a.abs().max(1.0)
}
