//! Running a program's kernels on every device that is here.

use std::fmt::Debug;
use std::process::exit;

use windlass::prelude::*;
use windlass::{Aspect, Result};

use crate::cells::Cell;
use crate::heard;
use crate::plain::Plain;
use crate::random::Random;

/// Elements that a kernel sees; every launch has 64 items, which is more.
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
    /// Signed atomics.
    pub iacc: Buffer<i32>,
    /// To be read, in two dimensions.
    pub grid: Buffer<i32, 2>,
    /// Results in two dimensions.
    pub gout: Buffer<u32, 2>,
    /// Results, four to an element.
    pub quads: Buffer<[i32; 4]>,
    /// Results, three to an element.
    pub trios: Buffer<Vec3<i32>>,
    /// Results of bytes.
    pub cells: Buffer<Cell>,
    /// A sum.
    pub rsum: Buffer<u32>,
    /// A minimum.
    pub rmin: Buffer<i32>,
    /// An exclusive or.
    pub rxor: Buffer<u32>,
    /// Sums of two numbers.
    pub rpair: Buffer<Vec2<u32>>,
}

/// One kernel and its plain twin.
#[derive(Debug)]
pub struct Case {
    /// What its inputs depend on.
    pub seed: u64,
    /// Its name in the program.
    pub name: &'static str,
    /// Whether it has 64-bit integers.
    pub wide: bool,
    /// Whether it compares 64-bit integers.
    pub compared: bool,
    /// Whether it has 64-bit floats.
    pub double: bool,
    /// Whether it has 16-bit floats.
    pub half: bool,
    /// Whether its floats come from functions that devices round differently.
    pub loose: bool,
    /// Its launch.
    pub launch: for<'g> fn(&CommandGroup<'g>, &Memory) -> Result<()>,
    /// The same over slices, on this thread, where its arguments are such.
    pub here: Option<fn(&mut Plain) -> Result<()>>,
    /// The same in plain Rust, one item after the other.
    pub plain: fn(&mut Plain),
}

/// Runs all kernels, or those that the program's arguments name, on all devices; says what disagrees, and ends the program
/// with a failure if anything does.
pub fn check_all(cases: &[Case]) {
    heard::listen();
    let named: Vec<String> = std::env::args().skip(1).collect();
    let wanted = |case: &&Case| named.is_empty() || named.iter().any(|name| name == case.name);
    let cases: Vec<&Case> = cases.iter().filter(wanted).collect();
    let devices = match futures_lite::future::block_on(Device::discover()) {
        Ok(devices) => devices,
        Err(error) => {
            eprintln!("no devices: {error}");
            exit(2);
        }
    };
    let queues: Vec<Queue> = devices
        .into_iter()
        .map(|device| {
            Queue::builder().device(device).handler(|_| {}).blocking_build().expect("a listed device opens")
        })
        .collect();
    let backends = |name: &str| queues.iter().any(|queue| queue.device().backend().to_string() == name);
    if std::env::var_os("CI").is_some() && !(backends("opencl") && backends("wgpu")) {
        eprintln!("this machine must have an OpenCL and a Vulkan driver");
        exit(2);
    }
    let (mut wrong, mut left_out) = (0, 0);
    for case in &cases {
        let before = inputs(case.seed);
        let mut expected = before.clone();
        (case.plain)(&mut expected);
        let tolerance = if case.loose { 1e-3 } else { 1e-5 };
        if let Some(here) = case.here {
            let mut found = before.clone();
            heard::forget();
            let ran = here(&mut found);
            found.said = heard::all();
            let what = match ran {
                Ok(()) => difference(&expected, &found, tolerance),
                Err(error) => Some(error.to_string()),
            };
            if let Some(what) = what {
                wrong += 1;
                println!("DISAGREES {} (seed {}) over slices: {what}", case.name, case.seed);
            }
        }
        for queue in &queues {
            let has = |aspect| queue.device().info().has(aspect);
            let needs = [(case.wide, Aspect::Int64), (case.double, Aspect::Fp64), (case.half, Aspect::Fp16)];
            // Mesa 22.3 compares a 64-bit number that it knows with one made of 32 bits wrongly: `-63 < -92` is true.
            let misled = case.compared && queue.device().info().name.contains("llvmpipe (LLVM 15");
            if misled || needs.into_iter().any(|(needed, aspect)| needed && !has(aspect)) {
                left_out += 1;
                continue;
            }
            let what = match run(queue, case, &before) {
                Ok(found) => difference(&expected, &found, tolerance),
                Err(error) => Some(error.to_string()),
            };
            if let Some(what) = what {
                wrong += 1;
                println!("DISAGREES {} (seed {}) on {}: {what}", case.name, case.seed, queue.device());
            }
        }
    }
    let (kernels, devices) = (cases.len(), queues.len());
    println!(
        "{kernels} kernels on {devices} devices, {wrong} disagree; {left_out} times a device has no such numbers, or not in order"
    );
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
    let grid = (0..54).map(&mut odd).collect();
    let x = (0..SEEN).map(|_| random.below(256) as f32 / 8.0 - 16.0).collect();
    let (out, uout, fout) = (vec![3; SEEN], vec![4; SEEN], vec![5.0; SEEN]);
    let (acc, iacc, gout) = (vec![9; 28], vec![-9; 8], vec![6; 54]);
    let (quads, trios, reduced) = (vec![[1, 2, 3, 4]; SEEN], vec![[5, 6, 7]; SEEN], (11, 12, 13, [14, 15]));
    let cell = |at: usize| Cell { low: at as u8, side: -(at as i8), rest: [at as u16 * 1000, 9] };
    let cells = (0..SEEN).map(cell).collect();
    Plain {
        a,
        b,
        x,
        s,
        t,
        out,
        uout,
        fout,
        acc,
        iacc,
        grid,
        gout,
        quads,
        trios,
        cells,
        reduced,
        said: Vec::new(),
    }
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
        iacc: Buffer::from(plain.iacc.clone()),
        grid: grid(&plain.grid)?,
        gout: grid(&plain.gout)?,
        quads: Buffer::from(plain.quads.clone()),
        trios: Buffer::from(plain.trios.iter().map(|t| Vec3::new(t[0], t[1], t[2])).collect::<Vec<_>>()),
        cells: Buffer::from(plain.cells.clone()),
        rsum: Buffer::from(vec![plain.reduced.0]),
        rmin: Buffer::from(vec![plain.reduced.1]),
        rxor: Buffer::from(vec![plain.reduced.2]),
        rpair: Buffer::from(vec![Vec2::new(plain.reduced.3[0], plain.reduced.3[1])]),
    };
    queue.submit(|cg| {
        cg.copy(&cg.read(&Buffer::from(plain.out.clone())), &cg.overwrite(&memory.out))?;
        cg.copy(&cg.read(&Buffer::from(plain.uout.clone())), &cg.overwrite(&memory.uout))?;
        cg.copy(&cg.read(&Buffer::from(plain.fout.clone())), &cg.overwrite(&memory.fout))
    })?;
    heard::forget();
    queue.submit(|cg| (case.launch)(cg, &memory))?.blocking_wait()?;
    // What was said is heard behind the launch.
    queue.drained().blocking_wait()?;
    let mut found = plain.clone();
    found.said = heard::all();
    found.out = inside(&roots.0, 77)?;
    found.uout = inside(&roots.1, 77)?;
    found.fout = inside(&roots.2, 77.0)?;
    found.acc = all(&memory.acc)?;
    found.iacc = all(&memory.iacc)?;
    found.gout = all(&memory.gout)?;
    found.quads = all(&memory.quads)?;
    found.trios = all(&memory.trios)?.into_iter().map(|t| [t.x, t.y, t.z]).collect();
    found.cells = all(&memory.cells)?;
    let pair = all(&memory.rpair)?[0];
    let (sum, min, xor) = (all(&memory.rsum)?[0], all(&memory.rmin)?[0], all(&memory.rxor)?[0]);
    found.reduced = (sum, min, xor, [pair.x, pair.y]);
    Ok(found)
}

fn all<T: DeviceCopy, const D: usize>(buffer: &Buffer<T, D>) -> Result<Vec<T>> {
    Ok(buffer.host_read().blocking_wait()?.to_vec())
}

/// A buffer of six rows of nine.
fn grid<T: DeviceCopy>(elements: &[T]) -> Result<Buffer<T, 2>> {
    let buffer = Buffer::new([6, 9]);
    buffer.host_write().blocking_wait()?.copy_from_slice(elements);
    Ok(buffer)
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

fn difference(expected: &Plain, found: &Plain, tolerance: f32) -> Option<String> {
    let floats = expected.fout.iter().zip(&found.fout).position(|(e, f)| !close(*e, *f, tolerance));
    let said = || format!("it says {:?}, and should say {:?}", found.said, expected.said);
    first("out", &expected.out, &found.out)
        .or_else(|| (expected.said != found.said).then(said))
        .or_else(|| first("uout", &expected.uout, &found.uout))
        .or_else(|| first("acc", &expected.acc, &found.acc))
        .or_else(|| first("iacc", &expected.iacc, &found.iacc))
        .or_else(|| first("gout", &expected.gout, &found.gout))
        .or_else(|| first("quads", &expected.quads, &found.quads))
        .or_else(|| first("trios", &expected.trios, &found.trios))
        .or_else(|| first("cells", &expected.cells, &found.cells))
        .or_else(|| first("reduced", &[expected.reduced], &[found.reduced]))
        .or_else(|| {
            floats.map(|at| format!("fout[{at}] is {}, and should be {}", found.fout[at], expected.fout[at]))
        })
}

fn first<T: PartialEq + Debug>(name: &str, expected: &[T], found: &[T]) -> Option<String> {
    let at = expected.iter().zip(found).position(|(e, f)| e != f)?;
    Some(format!("{name}[{at}] is {:?}, and should be {:?}", found[at], expected[at]))
}

/// Whether two floats are the same but for rounding. What overflows is left open.
fn close(a: f32, b: f32, tolerance: f32) -> bool {
    !a.is_finite() || (a - b).abs() <= tolerance * a.abs().max(1.0)
}
