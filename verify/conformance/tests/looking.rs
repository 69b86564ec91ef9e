//! What `WINDLASS_DUMP` and `WINDLASS_DEBUG` show of kernels.

#[path = "drivers/child.rs"]
mod child;
#[path = "drivers/find.rs"]
mod find;

use std::fs;

use futures_lite::future::block_on;
use windlass::prelude::*;
use windlass::{Bundle, NdRange, Result, Way};

/// The neighbour of the first element is outside, and so is that of the last row.
#[windlass::kernel]
fn shifted(
    from: &[u32],
    grid: &View<u32, 2>,
    to: &mut [u32],
    seen: &[AtomicU32],
    #[local] tile: &mut [u32; 2],
) {
    let position = global_id(0);
    let previous = from[position - 1];
    tile[local_id(0)] = previous + grid[1][position];
    barrier();
    to[position + 1] = tile[1 - local_id(0)];
    seen[previous].fetch_add(1, Relaxed);
}

/// Writes at its own position, where nothing is compared unless it is asked for.
#[windlass::kernel]
fn doubled(values: &mut [u32]) {
    let position = global_id(0);
    values[position] = values[position] * 2;
}

/// The neighbour's element, which is no other item's.
#[windlass::kernel]
fn moved(values: &mut [u32]) {
    values[global_id(0) + 1] += 1;
}

/// The line of the next kernel's head: its index, two lines on, tells nothing of where items meet.
const HEAD: u32 = line!() + 2;
#[windlass::kernel]
fn scattered(at: &[u32], values: &mut [u32]) {
    let i = global_id(0);
    values[at[i]] = i;
}

#[windlass::kernel]
fn reversed(from: &[u32], to: &mut [u32]) {
    let i = global_id(0);
    to[i] = from[2 - i];
}

/// What a row reaches is compared before the loop, but not what `at` says.
#[windlass::kernel]
fn gathered(at: &[u32], from: &[u32], to: &mut [u32], n: u32) {
    let i = global_id(0);
    let mut sum = 0;
    for k in 0..n {
        sum += from[at[i * n + k]];
    }
    to[i] = sum;
}

/// What says something, in a kernel and in its helpers.
#[windlass::kernels]
mod speaking {
    fn half(x: u32) -> u32 {
        if x % 2 == 1 {
            debug!("{x} is odd");
        }
        x / 2
    }

    #[kernel]
    pub fn halves(v: &mut [u32]) {
        let i = global_id(0);
        let before = v[i];
        v[i] = half(before);
        match i {
            0 => {}
            1 => debug!("{before} of {:?}: {:.2}, {:#x}", Vec2::new(i as f32, 0.5), -0.5, i64::MIN),
            _ => debug!("{} {n}", v[i] > 1, n = -(i as i32)),
        }
    }

    /// Every item says something before its group waits, and what it got after.
    #[kernel]
    pub fn passed_on(v: &mut [u32], #[local] tile: &mut [u32; 2]) {
        tile[local_id(0)] = v[global_id(0)];
        debug!("has {}", v[global_id(0)]);
        barrier();
        v[global_id(0)] = tile[1 - local_id(0)];
        debug!("got {}", v[global_id(0)]);
    }

    #[kernel]
    pub fn talking(v: &[u32]) {
        debug!("{}", v[global_id(0)]);
    }
}

/// What is said, in the order of the items.
fn spoken(queue: &Queue) -> Result<()> {
    let v = Buffer::from(vec![4_u32, 5, 7, 2]);
    queue.submit(|cg| cg.parallel_for(4, speaking::halves(cg.read_write(&v))))?;
    let range = NdRange { global: [4], local: [2] };
    queue.submit(|cg| cg.parallel_for(range, speaking::passed_on(cg.read_write(&v))))?;
    assert_eq!(v.host_read().blocking_wait()?[..], [2, 2, 1, 3]);
    let many = Buffer::<u32>::new(100_000);
    queue.submit(|cg| cg.parallel_for(many.len(), speaking::talking(cg.read(&many))))?;
    block_on(queue.drained());
    Ok(())
}

#[test]
fn what_items_say_is_said() -> Result<()> {
    if child::is_one() {
        let runtime = Runtime::new();
        for device in
            [find::host(&runtime), find::opencl(&runtime), find::wgpu(&runtime)].into_iter().flatten()
        {
            eprintln!("== {}", device.name());
            spoken(&Queue::builder().device(device).blocking_build()?)?;
        }
        let mut v = [4, 5, 7, 2];
        eprintln!("== here");
        speaking::halves(&mut v[..]).run_here(4)?;
        assert_eq!(v, [2, 2, 3, 1]);
        return Ok(());
    }
    let said = child::run("WINDLASS_DEBUG", "0");
    let here = "verify/conformance/tests/looking.rs";
    let sections: Vec<&str> = said.split("== ").skip(1).collect();
    for section in &sections {
        let lines = |kernel: &str| -> Vec<String> {
            let of = format!("windlass: kernel `{kernel}`");
            let own = section.lines().filter_map(|line| line.strip_prefix(&of));
            let shown = |line: &str| {
                // The line's number is another one in each version of this file.
                let (before, after) = line.split_once(here).unwrap_or((line, ""));
                format!(
                    "{before}{}",
                    after.trim_start_matches([':', '0', '1', '2', '3', '4', '5', '6', '7', '8', '9'])
                )
            };
            let mut all: Vec<String> = own.map(shown).collect();
            all.sort();
            all
        };
        let expected = [
            ", item 1,  5 is odd",
            ", item 1,  5 of [1.0, 0.5]: -0.50, 0x8000000000000000",
            ", item 2,  7 is odd",
            ", item 2,  true -2",
            ", item 3,  false -3",
        ];
        let mut found = lines("halves");
        found.sort();
        assert_eq!(found, expected, "{said}");
        if section.starts_with("here") {
            continue;
        }
        let expected: Vec<String> = [[2, 2], [2, 2], [3, 1], [1, 3]]
            .iter()
            .enumerate()
            .flat_map(|(item, [has, got])| {
                [format!(", item {item},  got {got}"), format!(", item {item},  has {has}")]
            })
            .collect();
        assert_eq!(lines("passed_on"), expected, "{said}");
        let (lost, talked): (Vec<String>, Vec<String>) =
            lines("talking").into_iter().partition(|line| line.contains("has said too much"));
        let [lost] = &lost[..] else { panic!("{lost:?}") };
        let count = lost.split(": ").nth(1).and_then(|rest| rest.split(' ').next()).expect("it counts");
        assert_eq!(count.parse::<usize>().expect("a number") + talked.len(), 100_000, "{lost}");
        assert!(talked.len() > 20_000, "{}", talked.len());
    }
    assert!(sections.len() >= 2, "{said}");
    Ok(())
}

/// Each place is outside for one item alone: a place is told of once, whichever group comes first.
fn launch(queue: &Queue) -> Result<()> {
    let (from, to) = (Buffer::from(vec![5_u32, 0, 1]), Buffer::<u32>::new(4));
    let grid = Buffer::<u32, 2>::with_shape([2, 3], vec![0; 6])?;
    let (seen, values) = (Buffer::from(vec![0_u32; 3]), Buffer::from(vec![1_u32; 3]));
    let range = NdRange { global: [4], local: [2] };
    queue.submit(|cg| {
        let (from, grid, to) = (cg.read(&from), cg.read(&grid), cg.overwrite(&to));
        cg.parallel_for(range, shifted(from, grid, to, cg.atomic(&seen)))
    })?;
    queue.submit(|cg| cg.parallel_for(4, doubled(cg.read_write(&values))))?;
    let (at, other) = (Buffer::from(vec![2_u32, 0, 1]), Buffer::from(vec![0_u32; 4]));
    queue.submit(|cg| cg.parallel_for(3, moved(cg.read_write(&other))))?;
    queue.submit(|cg| cg.parallel_for(3, scattered(cg.read(&at), cg.write(&other))))?;
    assert_eq!(other.host_read().blocking_wait()?.to_vec(), [1, 2, 0, 1]);
    // Both arguments are one buffer, so nothing is plain.
    queue.submit(|cg| cg.parallel_for(3, reversed(cg.read(&other), cg.write(&other))))?;
    let sums = Buffer::<u32>::new(2);
    queue.submit(|cg| {
        let (at, from) = (cg.read(&at), cg.read(&values));
        cg.parallel_for(2, gathered(at, from, cg.overwrite(&sums), 1))
    })?;
    assert_eq!(sums.host_read().blocking_wait()?.to_vec(), [2, 2]);
    assert_eq!(to.host_read().blocking_wait()?.to_vec(), [0, 5, 0, 1]);
    assert_eq!(values.host_read().blocking_wait()?.to_vec(), [2, 2, 2]);
    assert_eq!(seen.host_read().blocking_wait()?.to_vec(), [2, 1, 0]);
    Ok(())
}

#[test]
fn what_is_asked_for_is_shown() -> Result<()> {
    if child::is_one() {
        let runtime = Runtime::new();
        for device in
            [find::host(&runtime), find::opencl(&runtime), find::wgpu(&runtime)].into_iter().flatten()
        {
            launch(&Queue::builder().device(device).blocking_build()?)?;
        }
        return Ok(());
    }
    let said = child::run("WINDLASS_DEBUG", "1");
    for line in [
        "kernel `shifted` reads element 4294967295 of `from`, which has 3; it gives zero",
        "kernel `shifted` reads element [1, 3] of `grid`, which has [2, 3]; it gives zero",
        "kernel `shifted` writes element 4 of `to`, which has 4; it does nothing",
        "kernel `shifted` writes element 5 of `seen`, which has 3; it does nothing",
        "kernel `doubled` writes element 3 of `values`, which has 3; it does nothing",
    ] {
        assert!(said.contains(line), "`{line}` is not in:\n{said}");
    }
    let said = child::run("WINDLASS_DEBUG", "paths");
    let index = HEAD + 2;
    for line in [
        "kernel `doubled` on the host: plain slices, each item at its own element (said once)",
        "kernel `moved` on the host: plain slices, row by row (said once)",
        "kernel `reversed` on the host: atomic words, each index compared; `to` overlaps another argument (said once)",
        &format!(
            "kernel `scattered` on the host: plain slices, row by row; `values` by atomic words, since items may meet there: see \
             the index in line {index} (said once)"
        ),
    ] {
        assert!(said.contains(line), "`{line}` is not in:\n{said}");
    }
    assert!(!said.contains("reads element"), "nobody asked: {said}");
    for device in [find::opencl(&Runtime::new()), find::wgpu(&Runtime::new())].into_iter().flatten() {
        let start = format!("kernel `gathered` on {}: work-groups of ", device.info().name);
        let lines: Vec<&str> = said.lines().filter(|line| line.contains(&start)).collect();
        let end =
            "compared in each turn of a loop: `from_k`: `get_from_k(get_at_2(((i * n) + k)))` (said once)";
        assert!(lines.iter().any(|line| line.ends_with(end)), "{lines:?} of:\n{said}");
    }
    let folder = std::env::temp_dir().join(format!("windlass-dump-test-{}", std::process::id()));
    let said = child::run("WINDLASS_DUMP", &folder);
    assert!(!said.contains("kernel `shifted`"), "nobody asked: {said}");
    let runtime = Runtime::new();
    for (device, extension) in [(find::opencl(&runtime), "cl"), (find::wgpu(&runtime), "wgsl")] {
        let Some(device) = device else { continue };
        let mut files =
            fs::read_dir(&folder).expect("the folder was made").flatten().map(|entry| entry.path());
        let is = |path: &std::path::PathBuf| {
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            name.starts_with("shifted.") && name.ends_with(&format!(".{extension}"))
        };
        let path = files.find(is).unwrap_or_else(|| panic!("no text for {device}"));
        let text = fs::read_to_string(path).expect("it is text");
        for name in ["shifted", "from", "grid", "to", "seen", "tile", "position", "previous"] {
            assert!(text.contains(name), "`{name}` is not in the text for {device}:\n{text}");
        }
    }
    fs::remove_dir_all(&folder).expect("the folder is ours");
    Ok(())
}

#[windlass::kernel]
fn parted(shape: (u32, u32), start: Option<u32>, x: &[f32], y: &mut [f32]) {
    let i = global_id(0);
    if let Some(start) = start {
        y[i * shape.0 + shape.1 + start] = x[i];
    }
}

#[test]
fn kernels_are_explained() -> Result<()> {
    let runtime = Runtime::new();
    let kernels = [
        scattered::kernel(),
        gathered::kernel(),
        doubled::kernel(),
        shifted::kernel(),
        speaking::halves::kernel(),
        parted::kernel(),
    ];
    let bundle = Bundle::new(kernels).over(NdRange { global: [4], local: [2] });
    let queue = Queue::builder().device(Device::host()).blocking_build()?;
    let explained = block_on(bundle.explain(&queue))?;
    let ways = |at: usize| explained[at].parameters.iter().map(|(name, way)| (&**name, *way));
    assert!(ways(0).eq([("at", Way::Read), ("values", Way::Meeting(Some(HEAD + 2)))]));
    assert!(ways(1).eq([("at", Way::Read), ("from", Way::Read), ("to", Way::Own)]));
    assert!(ways(2).eq([("values", Way::Own)]));
    assert!(ways(3).eq([
        ("from", Way::Read),
        ("grid", Way::Read),
        ("to", Way::Tested),
        ("seen", Way::Atomics)
    ]));
    assert!(ways(4).map(|(name, _)| name).eq(["v"]));
    // Parts of what a launch takes apart are numbers of the launch like others.
    let parted: Vec<_> = ways(5).collect();
    assert_eq!(parted, [("x", Way::Read), ("y", Way::Tested)]);
    let said = explained[0].to_string();
    assert!(said.ends_with(&format!("see the index in line {}", HEAD + 2)), "{said}");
    for device in [find::opencl(&runtime), find::wgpu(&runtime)].into_iter().flatten() {
        let is_opencl = device.backend().as_str() == "opencl";
        let explained = block_on(bundle.explain(&Queue::builder().device(device).blocking_build()?))?;
        for one in &explained {
            assert!(one.parameters.is_empty() && !one.forms.is_empty(), "{one}");
            for form in &one.forms {
                let loops = &form.report.compared_in_loops;
                assert_eq!(loops.is_empty(), one.kernel != "gathered", "{one}");
                assert_eq!(form.report.local_memory.is_some(), is_opencl, "{one}");
                assert_eq!(form.report.in_step.is_some(), is_opencl, "{one}");
            }
        }
    }
    Ok(())
}

/// Turns a crank so often that it takes a while.
#[windlass::kernel]
fn cranked(turns: u32, values: &mut [u32]) {
    let mut value = values[global_id(0)];
    for _ in 0..turns {
        value = value * 1_664_525 + 1_013_904_223;
    }
    values[global_id(0)] = value;
}

/// Times are of the device's clock, told by the host's: in order, and inside the time in which the groups were submitted and awaited.
#[test]
fn groups_are_timed() -> Result<()> {
    // The clocks are compared once, when a device or a queue is opened, and go at paces of their own.
    let apart = std::time::Duration::from_millis(5);
    let runtime = Runtime::new();
    for device in [find::host(&runtime), find::opencl(&runtime), find::wgpu(&runtime)].into_iter().flatten() {
        if !device.has(Aspect::Profiling) {
            find::missing(&format!("{device}, whose driver does not time"));
            continue;
        }
        let queue = Queue::builder().device(device.clone()).profiling().blocking_build()?;
        let (x, y) = (Buffer::<u32>::new(1 << 12), Buffer::<u32>::new(1 << 12));
        let before = std::time::Instant::now();
        let crank =
            |turns, of| queue.submit(|cg| cg.parallel_for(1 << 12, cranked(turns, cg.read_write(of))));
        let copy = queue.submit(|cg| cg.copy(&cg.read(&x), &cg.overwrite(&y)));
        let events = [crank(1, &x)?, copy?, crank(20_000, &y)?, crank(3, &y)?];
        for event in &events {
            block_on(event.clone())?;
        }
        let after = std::time::Instant::now();
        let profiles = events.each_ref().map(|event| event.profile().expect("its queue profiles"));
        for profile in &profiles {
            assert!(profile.started <= profile.ended, "{device}: {profiles:?}");
            assert!(
                before <= profile.started + apart && profile.ended <= after + apart,
                "{device}: {profiles:?}"
            );
        }
        // What needs the result of another does not start before that has ended.
        assert!(profiles[2].ended <= profiles[3].started, "{device}: {profiles:?}");
        assert!(profiles[2].duration() >= profiles[3].duration(), "{device}: {profiles:?}");
    }
    Ok(())
}
