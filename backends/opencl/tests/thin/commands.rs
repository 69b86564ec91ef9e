//! Copies and fills.

use windlass_backend::{Allocation, BackendError, DeviceKind, HostMemory, Region};

use crate::rig::{Line, Rig, bytes_of, copy, fill, rigs};

/// Bytes that differ from their neighbours in every row and slice.
fn noise(bytes: usize) -> Vec<u8> {
    (0..bytes).map(|i| (i * 31 + i / 251) as u8 | 1).collect()
}

/// What `to` holds after a copy, computed byte by byte.
fn copied(from: &[u8], from_region: Region, to: &[u8], to_region: Region) -> Vec<u8> {
    let mut to = to.to_vec();
    for (a, b) in from_region.row_offsets().zip(to_region.row_offsets()) {
        to[b..b + to_region.width].copy_from_slice(&from[a..a + from_region.width]);
    }
    to
}

#[test]
fn memory_is_as_large_as_was_asked() {
    for rig in rigs() {
        let line = rig.line(0);
        for (point, bytes) in [(1, 4), (2, 4099), (3, 1 << 22)] {
            let memory = rig.memory(bytes);
            assert_eq!(memory.bytes(), bytes);
            assert_eq!(line.download(point, &*memory).len(), bytes, "on {}", rig.name);
        }
    }
}

/// Copies one box in each of the three directions, and compares with the copy computed here.
fn check_copy(rig: &Rig, line: &Line, point: u64, from_region: Region, to_region: Region) {
    let (from, to) = (noise(from_region.end() + 12), vec![0xee; to_region.end() + 8]);
    let expected = copied(&from, from_region, &to, to_region);
    let (host_from, host_to) = (HostMemory::from_vec(from.clone()), HostMemory::from_vec(to.clone()));
    let (device_from, device_to) = (rig.upload(line, point, &from), rig.upload(line, point + 1, &to));
    line.run(point + 2, copy(&*device_from, from_region, &host_to, to_region));
    assert_eq!(bytes_of(&host_to), expected, "device to host on {}", rig.name);
    line.run(point + 3, copy(&*device_from, from_region, &*device_to, to_region));
    assert_eq!(line.download(point + 4, &*device_to), expected, "device to device on {}", rig.name);
    let device_to = rig.upload(line, point + 5, &to);
    line.run(point + 6, copy(&host_from, from_region, &*device_to, to_region));
    assert_eq!(line.download(point + 7, &*device_to), expected, "host to device on {}", rig.name);
}

fn block(offset: usize, rows: usize, slices: usize, row_pitch: usize, slice_pitch: usize) -> Region {
    Region { offset, width: 12, rows, slices, row_pitch, slice_pitch }
}

#[test]
fn boxes_are_copied() {
    let pairs = [
        // Lines.
        (Region::line(8, 100), Region::line(0, 100)),
        (Region::line(4, 5), Region::line(12, 5)),
        // A rectangle, to another pitch and to none.
        (block(20, 3, 1, 16, 0), block(4, 3, 1, 20, 60)),
        (block(16, 3, 1, 16, 0), block(4, 3, 1, 12, 36)),
        // A box, likewise.
        (block(16 + 4, 2, 3, 16, 64), block(24, 2, 3, 24, 72)),
        (block(16 + 4, 2, 3, 16, 64), block(8, 2, 3, 12, 24)),
        // Slices of one row.
        (block(4, 1, 4, 12, 64), block(0, 1, 4, 16, 20)),
        // Rows that wrap, and slices that are not whole rows: no native box.
        (block(8, 3, 1, 16, 0), block(4, 3, 1, 12, 36)),
        (block(0, 2, 2, 16, 44), block(0, 2, 2, 16, 36)),
    ];
    for rig in rigs() {
        let line = rig.line(0);
        for (i, (from, to)) in (0..).zip(pairs) {
            check_copy(&rig, &line, 1 + 10 * i, from, to);
        }
    }
}

#[test]
fn boxes_move_inside_one_memory() {
    for rig in rigs() {
        let line = rig.line(0);
        let before = noise(256);
        for (point, from, to) in [
            (1, block(0, 3, 1, 16, 0), block(128, 3, 1, 16, 0)),
            (10, block(0, 3, 1, 16, 0), block(128, 3, 1, 20, 0)),
            (20, block(0, 2, 2, 16, 64), block(32, 2, 2, 16, 64)),
        ] {
            let memory = rig.upload(&line, point, &before);
            line.run(point + 1, copy(&*memory, from, &*memory, to));
            assert_eq!(line.download(point + 2, &*memory), copied(&before, from, &before, to), "{from:?}");
        }
    }
}

fn check_fill(rig: &Rig, line: &Line, point: u64, region: Region, pattern: &[u8]) {
    let before = noise(region.end() + 16);
    let mut expected = before.clone();
    for row in region.row_offsets() {
        expected[row..row + region.width].copy_from_slice(&pattern.repeat(region.width / pattern.len()));
    }
    let memory = rig.upload(line, point, &before);
    line.run(point + 1, fill(&*memory, region, pattern));
    let found = line.download(point + 2, &*memory);
    assert!(found == expected, "{region:?} with {pattern:?} on {}", rig.name);
}

#[test]
fn boxes_are_filled() {
    let short = noise(12);
    let long = noise(252);
    let patterns: [&[u8]; 6] = [&[7], &[1, 2, 3, 4], &[1, 2, 3, 4, 5, 6, 7, 8], &[0; 12], &short, &long];
    for rig in rigs() {
        let line = rig.line(0);
        let mut point = 1;
        for pattern in patterns {
            let width = pattern.len() * if pattern.len() == 12 { 1000 } else { 2 };
            let pitch = width + 8;
            for region in [
                Region::line(0, width),
                Region::line(4, width),
                Region { offset: 4, width, rows: 3, slices: 1, row_pitch: pitch, slice_pitch: 0 },
                Region { offset: 4, width, rows: 21, slices: 1, row_pitch: pitch, slice_pitch: 0 },
                Region { offset: 4, width, rows: 5, slices: 7, row_pitch: pitch, slice_pitch: 6 * pitch },
                Region { offset: 4, width, rows: 5, slices: 7, row_pitch: pitch, slice_pitch: 6 * pitch + 4 },
            ] {
                check_fill(&rig, &line, point, region, pattern);
                point += 3;
            }
        }
    }
}

#[test]
fn staging_carries_copies() {
    for rig in rigs() {
        let (line, data) = (rig.line(0), noise(1 << 16));
        let memory = rig.upload(&line, 1, &data);
        let staging = rig.context.allocate_staging(data.len()).expect("there is room");
        assert!(bytes_of(&*staging).iter().all(|b| *b == 0));
        let whole = Region::line(0, data.len());
        line.run(2, copy(&*memory, whole, &*staging, whole));
        assert_eq!(bytes_of(&*staging), data);
        let other = rig.memory(data.len());
        line.run(3, copy(&*staging, whole, &*other, whole));
        assert_eq!(line.download(4, &*other), data);
    }
}

#[test]
fn strange_memory_is_refused() {
    for (rig, other) in rigs().iter().zip(rigs()) {
        let line = rig.line(0);
        let (ours, theirs) = (rig.memory(16), other.memory(16));
        let (a, b) = (HostMemory::zeroed(16).unwrap(), HostMemory::zeroed(16).unwrap());
        let whole = Region::line(0, 16);
        let refused = |from: &dyn Allocation, to: &dyn Allocation| {
            let fed = line.feed(1, &[], copy(from, whole, to, whole));
            assert!(matches!(fed, Err(BackendError::Unsupported(_))), "{fed:?}");
        };
        refused(&a, &b);
        if theirs.host_ptr().is_none() {
            refused(&*ours, &*theirs);
            refused(&*theirs, &*ours);
        }
        // The lane goes on as if nothing had been fed.
        line.run(1, copy(&a, whole, &*ours, whole));
        if theirs.host_ptr().is_some() {
            // Host memory like any other.
            line.run(2, fill(&*ours, whole, &[7, 8]));
            line.run(3, copy(&*ours, whole, &*theirs, whole));
            assert_eq!(bytes_of(&*theirs), [7, 8].repeat(8), "{}", rig.name);
        }
    }
}

/// On processors a device's memory is the host's, too: each sees what the other has written, without a copy. Oclgrind has memory of its
/// own, and so has whoever asked for copies.
#[test]
fn processors_work_on_memory_that_the_host_reaches() {
    for rig in rigs() {
        let info = &rig.context.info().devices[0];
        let away =
            info.kind != DeviceKind::Cpu || info.name.contains("Oclgrind") || rig.name.contains("copying");
        let memory = rig.memory(4096);
        assert_eq!(memory.host_ptr().is_none(), away, "{}", rig.name);
        if away {
            continue;
        }
        let (line, other, whole) = (rig.line(0), rig.memory(4096), Region::line(0, 4096));
        assert_eq!(bytes_of(&*memory), [0; 4096], "{}", rig.name);
        line.run(1, fill(&*memory, whole, &[1, 2, 3, 4]));
        assert_eq!(bytes_of(&*memory), [1, 2, 3, 4].repeat(1024), "{}", rig.name);
        let start = memory.host_ptr().expect("it was there before").as_ptr();
        assert!(start.addr().is_multiple_of(128));
        // SAFETY: so many bytes, which no command uses now.
        unsafe { start.write_bytes(9, 4096) };
        line.run(2, copy(&*memory, whole, &*other, whole));
        assert_eq!(bytes_of(&*other), [9; 4096], "{}", rig.name);
        // The driver keeps what a command uses, whatever becomes of its owner.
        line.feed(3, &[], copy(&*other, whole, &*memory, whole)).expect("it is taken");
        drop((memory, other));
        line.run(4, fill(&*rig.memory(64), Region::line(0, 64), &[0]));
    }
}
