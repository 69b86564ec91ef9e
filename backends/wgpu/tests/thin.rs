//! The backend against its contract, directly on the traits, on whatever Vulkan device is there.
//!
//! Without a driver every test says loudly that it was skipped; with `CI` or `WINDLASS_REQUIRE_DRIVERS` set, it fails.

#[path = "thin/lab.rs"]
mod lab;
#[path = "thin/staged.rs"]
mod staged;

use std::any::Any;
use std::sync::Arc;

use futures::executor::block_on;
use smallvec::{SmallVec, smallvec};
use windlass_backend::{
    Allocation, Arg, Backend, BackendError, BufferArg, Command, ContextSpec, DeviceKey, DeviceKind, Fill,
    Group, HostMemory, LaneNumber, LaneSpec, MemoryIndex, MemoryObject, Point, Region,
};
use windlass_kernel::SlotAccess::{Read, ReadWrite};
use windlass_kernel::{Kernel, KernelImage, LaunchRange, NdRange, Range, Slot, Word};
use windlass_wgpu::Wgpu;
use windlass_wgpu::native::WgpuContext;

use lab::{Lab, Sink, copy, count, lab, launch, line, open, saxpy, slow, words};

#[test]
fn devices_say_what_they_are() {
    let Some(lab) = lab() else { return };
    let info = &lab.context.info().devices[0];
    eprintln!("{info:#?}");
    assert!(!info.name.is_empty() && info.memory_bytes.is_some() && info.limits.binding > 0);
    assert_eq!((info.lanes, info.copy_lanes), (1, 0));
    assert!(info.aspects.is_sorted());
    assert_ne!(info.kind, DeviceKind::Host);
    let platforms = block_on(Wgpu::new().discover()).expect("it was there a moment ago");
    assert!(platforms.iter().all(|p| !p.devices.is_empty() && !p.name.is_empty()));
    let open = |keys| block_on(Wgpu::new().open(ContextSpec::new(keys, Arc::new(()))));
    assert!(matches!(open(vec![info.key.clone(); 2]), Err(BackendError::Unsupported(_))));
    assert!(matches!(open(vec![DeviceKey::new("no such device")]), Err(BackendError::Lost(_))));
}

#[test]
fn fresh_memory_reads_as_zeros() {
    let Some(lab) = lab() else { return };
    assert_eq!(lab.download::<u32>(&*lab.allocate(4096)), [0; 1024]);
    assert_eq!(lab.download::<u8>(&*lab.allocate(7)), [0; 7]);
    let too_much = MemoryObject::Buffer { bytes: usize::MAX - 1 };
    assert!(matches!(lab.context.allocate(MemoryIndex::Own(0), too_much), Err(BackendError::Unsupported(_))));
}

#[test]
fn bytes_come_back_as_they_went() {
    let Some(lab) = lab() else { return };
    let long: Vec<u32> = (0..100_000).collect();
    assert_eq!(lab.download::<u32>(&*lab.upload(&long)), long);
    let odd: Vec<u8> = (1..=10).collect();
    assert_eq!(lab.download::<u8>(&*lab.upload(&odd)), odd, "an end inside a word");
}

/// What a copy of `from_region` to `to_region` makes of `to`.
fn copied(from: &[u8], from_region: Region, to: &[u8], to_region: Region) -> Vec<u8> {
    let mut to = to.to_vec();
    for (a, b) in from_region.row_offsets().zip(to_region.row_offsets()) {
        to[b..b + to_region.width].copy_from_slice(&from[a..a + from_region.width]);
    }
    to
}

#[test]
fn boxes_go_to_their_places_in_every_direction() {
    let Some(lab) = lab() else { return };
    let boxed = |offset, row_pitch, slice_pitch| Region {
        offset,
        width: 12,
        rows: 3,
        slices: 4,
        row_pitch,
        slice_pitch,
    };
    boxes_go(&lab, boxed(20, 40, 200), boxed(8, 16, 64));
    // Words of the target that belong to two rows, and to nothing of the box but one byte.
    boxes_go(&lab, boxed(21, 43, 203), boxed(11, 13, 41));
    boxes_go(&lab, boxed(20, 40, 200), boxed(8, 12, 39));
    boxes_go(&lab, Region::line(13, 1), Region::line(1031, 1));
    boxes_go(&lab, Region::line(301, 2002), Region::line(1030, 2002));
}

fn boxes_go(lab: &Lab, a: Region, b: Region) {
    let source: Vec<u8> = (0..4096_u32).map(|i| (i * 7 + 1) as u8).collect();
    let target = vec![0xEE_u8; 4096];
    let expected = copied(&source, a, &target, b);

    let (from, to) = (HostMemory::from_vec(source.clone()), lab.upload(&target));
    lab.run(smallvec![copy((&from, a), (&*to, b))]).expect("host to device");
    assert_eq!(lab.download::<u8>(&*to), expected);

    let (from, to) = (lab.upload(&source), lab.upload(&target));
    lab.run(smallvec![copy((&*from, a), (&*to, b))]).expect("device to device");
    assert_eq!(lab.download::<u8>(&*to), expected);

    let to = HostMemory::from_vec(target.clone());
    lab.run(smallvec![copy((&*from, a), (&to, b))]).expect("device to host");
    assert_eq!(to.try_into_vec::<u8>().expect("the vector's own layout"), expected);

    let one = lab.upload(&source);
    lab.run(smallvec![copy((&*one, a), (&*one, b))]).expect("inside one allocation");
    assert_eq!(lab.download::<u8>(&*one), copied(&source, a, &source, b));
}

#[test]
fn what_cannot_be_copied_is_refused_and_the_lane_goes_on() {
    let Some(lab) = lab() else { return };
    let memory = lab.upload(&[0_u8; 64]);
    let host = HostMemory::zeroed(64).expect("64 bytes");
    let refused = [
        copy((&host, Region::line(0, 8)), (&*memory, Region::line(57, 8))),
        copy((&host, Region::line(0, 8)), (&*memory, Region::line(60, 8))),
        copy((&host, Region::line(60, 8)), (&*memory, Region::line(0, 8))),
        copy((&host, Region::line(0, 8)), (&*memory, Region::line(0, 4))),
        line(&host, &host),
    ];
    for command in refused {
        let what = format!("{command:?}");
        assert!(matches!(lab.feed(smallvec![command]), Err(BackendError::Unsupported(_))), "{what}");
    }
    let nothing = copy((&host, Region::line(64, 0)), (&*memory, Region::line(64, 0)));
    lab.run(smallvec![nothing]).expect("a copy of nothing");
}

#[test]
fn fills_repeat_their_pattern() {
    let Some(lab) = lab() else { return };
    let fill = |bytes: usize, region, pattern: &[u8]| {
        let memory = lab.upload(&vec![0xAA_u8; bytes]);
        lab.run(smallvec![Command::Fill(Fill::new(&*memory, region, pattern))]).expect("a fill");
        lab.download::<u8>(&*memory)
    };
    let zeroed = fill(64, Region::line(8, 16), &[0; 4]);
    assert!(zeroed.iter().enumerate().all(|(i, b)| *b == if (8..24).contains(&i) { 0 } else { 0xAA }));
    let three = fill(12, Region::line(0, 12), &[1, 2, 3]);
    assert_eq!(three, [1, 2, 3, 1, 2, 3, 1, 2, 3, 1, 2, 3]);
    let to_the_end = fill(10, Region::line(4, 6), &[9, 8]);
    assert_eq!(to_the_end[4..], [9, 8, 9, 8, 9, 8]);
    let block = fill(
        64,
        Region { offset: 4, width: 8, rows: 2, slices: 2, row_pitch: 12, slice_pitch: 28 },
        &[5, 6, 7, 8],
    );
    for row in [4, 16, 32, 44] {
        assert_eq!(block[row..row + 8], [5, 6, 7, 8, 5, 6, 7, 8]);
        assert_eq!(block[row + 8], 0xAA);
    }
    let odd = Region { offset: 5, width: 6, rows: 2, slices: 2, row_pitch: 7, slice_pitch: 23 };
    for pattern in [&[1, 2, 3][..], &[0]] {
        let filled = fill(64, odd, pattern);
        let mut expected = [0xAA_u8; 64];
        for row in odd.row_offsets() {
            (0..6).for_each(|i| expected[row + i] = pattern[i % pattern.len()]);
        }
        assert_eq!(filled, expected);
    }
    let long = fill(3 << 20, Region::line(0, 3 << 20), &[1, 2, 3]);
    assert!(long.chunks(3).all(|c| c == [1, 2, 3]), "longer than what is repeated on the host");
}

#[test]
fn a_kernel_sees_its_window_its_values_and_its_extents() {
    let Some(lab) = lab() else { return };
    let kernel = lab.build(&saxpy()).expect("the kernel is right");
    let x = lab.upload(&(0..200).map(|i| i as f32).collect::<Vec<_>>());
    let y = lab.upload(&vec![1000_f32; 200]);
    let a = 2_f32.to_ne_bytes();
    // Neither 101 nor 3 elements is a multiple of the device's alignment.
    let args = [words(&*x, 101, 70, Read), words(&*y, 3, 90, ReadWrite), Arg::Value(&a)];
    lab.run(smallvec![launch(&kernel, 80.range(), &args)]).expect("the launch");
    let result = lab.download::<f32>(&*y);
    for (i, value) in result.iter().enumerate() {
        let inside = (3..73).contains(&i);
        let expected = if inside { 1000.0 + 2.0 * (101 + i - 3) as f32 } else { 1000.0 };
        assert_eq!(*value, expected, "element {i}");
    }
}

#[test]
fn more_groups_than_one_dimension_takes_are_folded() {
    let Some(lab) = lab() else { return };
    let kernel = lab.build(&count()).expect("the kernel is right");
    let items = 64 * 65_535 + 100;
    let data = lab.allocate(items * 4);
    let args = [words(&*data, 0, items, ReadWrite), Arg::Value(&[1, 0, 0, 0])];
    lab.run(smallvec![launch(&kernel, [1, items].range(), &args)]).expect("the launch");
    assert!(lab.download::<u32>(&*data).iter().all(|n| *n == 1), "every item ran once");
}

#[test]
fn two_arguments_may_share_an_allocation() {
    let Some(lab) = lab() else { return };
    let kernel = lab.build(&saxpy()).expect("the kernel is right");
    let both = lab.upload(&(0..64).map(|i| i as f32).collect::<Vec<_>>());
    let a = 1_f32.to_ne_bytes();
    for (x, y) in [(0, 32), (0, 0)] {
        let before = lab.download::<f32>(&*both);
        let args = [words(&*both, x, 32, Read), words(&*both, y, 32, ReadWrite), Arg::Value(&a)];
        lab.run(smallvec![launch(&kernel, 32.range(), &args)]).expect("the launch");
        let after = lab.download::<f32>(&*both);
        assert!((0..32).all(|i| after[y + i] == before[x + i] + before[y + i]));
    }
}

#[test]
fn launches_that_cannot_run_are_refused() {
    let Some(lab) = lab() else { return };
    let kernel = lab.build(&count()).expect("the kernel is right");
    let data = lab.allocate(256);
    let one = Arg::Value(&[1, 0, 0, 0]);
    let gaps = Region { offset: 0, width: 8, rows: 2, slices: 1, row_pitch: 16, slice_pitch: 0 };
    let host = HostMemory::zeroed(64).expect("64 bytes");
    let refused: [(&[Arg<'_>], Range); 6] = [
        (&[words(&*data, 0, 4, ReadWrite)], 4.range()),
        (&[one, words(&*data, 0, 4, ReadWrite)], 4.range()),
        (&[words(&*data, 0, 65, ReadWrite), one], 4.range()),
        (&[words(&host, 0, 4, ReadWrite), one], 4.range()),
        (&[Arg::Buffer(BufferArg::new(&*data, gaps, 4, ReadWrite, Word::B4)), one], 4.range()),
        (&[words(&*data, 0, 4, ReadWrite), one], NdRange { global: [64], local: [32] }.range()),
    ];
    for (args, range) in refused {
        let fed = lab.feed(smallvec![launch(&kernel, range, args)]);
        assert!(matches!(fed, Err(BackendError::Unsupported(_))), "{args:?} over {range:?}");
    }
    let args = [words(&*data, 0, 64, ReadWrite), one];
    lab.run(smallvec![launch(&kernel, NdRange { global: [64], local: [64] }.range(), &args)])
        .expect("its own size");
    let empty = [words(&*data, 64, 0, ReadWrite), one];
    lab.run(smallvec![launch(&kernel, 64.range(), &empty)]).expect("an argument without elements");
    assert_eq!(lab.download::<u32>(&*data), [1; 64]);
}

#[test]
fn a_kernel_that_does_not_build_says_why() {
    let Some(lab) = lab() else { return };
    let build = |entry: &str, text: &str| {
        let kernel = Kernel::new("wrong", [Slot::Buffer(Read)], [KernelImage::wgsl(entry, text)]);
        match lab.build(&kernel) {
            Err(BackendError::Build { kernel, log }) if kernel == "wrong" => log,
            other => panic!("{other:?}"),
        }
    };
    let log = build("main", "@compute @workgroup_size(64) fn main() { let x: u32 = 1.5; }");
    assert!(log.contains("1.5") || log.contains("u32"), "{log}");
    assert!(build("other", "@compute @workgroup_size(64) fn main() {}").contains("other"));
    assert!(build("main", "@compute @workgroup_size(8, 8) fn main() {}").contains("[8, 8, 1]"));
    let writes = "@group(0) @binding(0) var<storage, read_write> x: array<u32>;
                  @compute @workgroup_size(64) fn main() { x[0] = 1; }";
    assert!(!build("main", writes).is_empty(), "a kernel may not write what its slot says it reads");
}

#[test]
fn a_thousand_feeds_need_one_arm() {
    let Some(lab) = lab() else { return };
    let kernel = lab.build(&count()).expect("the kernel is right");
    let data = lab.allocate(256);
    let args = [words(&*data, 0, 64, ReadWrite), Arg::Value(&[1, 0, 0, 0])];
    let mut last = Point(0);
    for _ in 0..1000 {
        last = lab.feed(smallvec![launch(&kernel, 64.range(), &args)]).expect("the group is right");
    }
    lab.end(last).expect("all of them");
    assert_eq!(lab.sink.count(), 1, "nothing was reported that was not armed");
    assert_eq!(lab.download::<u32>(&*data), [1000; 64]);
}

#[test]
fn feeding_does_not_wait_for_the_device() {
    let Some(lab) = lab() else { return };
    let (kernel, slow) = (lab.build(&count()).expect("it builds"), lab.build(&slow()).expect("it builds"));
    let items = 4096;
    let (data, other) = (lab.allocate(items * 4), lab.allocate(256));
    let args = [words(&*data, 0, items, ReadWrite)];
    let long = lab.feed(smallvec![launch(&slow, items.range(), &args)]).expect("the long group");
    lab.lane.flush();
    lab.lane.arm(long);
    let args = [words(&*other, 0, 64, ReadWrite), Arg::Value(&[1, 0, 0, 0])];
    let mut last = long;
    for _ in 0..50 {
        last = lab.feed(smallvec![launch(&kernel, 64.range(), &args)]).expect("a short group");
        lab.lane.flush();
    }
    assert_eq!(lab.sink.count(), 0, "all feeds returned while the long group ran");
    lab.end(last).expect("the short groups");
    lab.sink.outcome(long).expect("the long group");
    assert_eq!(lab.download::<u32>(&*other), [50; 64]);
}

#[test]
fn a_failure_belongs_to_its_point_alone() {
    let Some(lab) = lab() else { return };
    let text = "@group(0) @binding(0) var<storage, read_write> x: array<vec4f>;
                @compute @workgroup_size(64) fn main() { x[0] = vec4f(1); }";
    let wide = Kernel::new("wide", [Slot::Buffer(ReadWrite)], [KernelImage::wgsl("main", text)]);
    let (wide, good) = (lab.build(&wide).expect("it builds"), lab.build(&count()).expect("it builds"));
    let data = lab.allocate(256);
    // One word where the kernel declares four: wgpu finds that out when the group is encoded.
    let short = [words(&*data, 0, 1, ReadWrite)];
    let args = [words(&*data, 0, 64, ReadWrite), Arg::Value(&[1, 0, 0, 0])];
    let mut points = Vec::new();
    for i in 0..5 {
        let command = if (1..3).contains(&i) {
            launch(&wide, 1.range(), &short)
        } else {
            launch(&good, 64.range(), &args)
        };
        points.push(lab.feed(smallvec![command]).expect("feed cannot know"));
    }
    lab.end(points[4]).expect("the last one");
    for (i, point) in points.iter().enumerate() {
        let outcome = lab.sink.outcome(*point);
        assert_eq!(outcome.is_err(), (1..3).contains(&i), "point {i}: {outcome:?}");
    }
    assert_eq!(lab.download::<u32>(&*data), [3; 64], "the others ran");
}

#[test]
fn host_memory_may_be_written_by_one_group_and_read_by_the_next() {
    let Some(lab) = lab() else { return };
    let (from, to) = (lab.upload(&[7_u32; 1024]), lab.allocate(4096));
    let between = HostMemory::zeroed(4096).expect("a page");
    lab.feed(smallvec![line(&*from, &between)]).expect("out");
    let last = lab.feed(smallvec![line(&between, &*to)]).expect("and in");
    lab.end(last).expect("both");
    assert_eq!(lab.download::<u32>(&*to), [7; 1024]);
    let both = smallvec![line(&*from, &between), line(&between, &*to)];
    assert!(matches!(lab.feed(both), Err(BackendError::Unsupported(_))), "in one group it cannot be done");
}

#[test]
fn a_group_of_several_commands_runs_in_order() {
    let Some(lab) = lab() else { return };
    let kernel = lab.build(&count()).expect("the kernel is right");
    let (a, b) = (lab.allocate(256), lab.allocate(256));
    let host = HostMemory::from_vec(vec![0_u32; 64]);
    let args = [words(&*a, 0, 64, ReadWrite), Arg::Value(&[1, 0, 0, 0])];
    let region = Region::line(0, 256);
    let commands: SmallVec<[Command<'_>; 1]> = smallvec![
        Command::Fill(Fill::new(&*a, region, &[5, 0, 0, 0])),
        launch(&kernel, 64.range(), &args),
        launch(&kernel, 64.range(), &args),
        line(&*a, &*b),
        launch(&kernel, 64.range(), &args),
        line(&*b, &host),
    ];
    lab.run(commands).expect("the group");
    assert_eq!(host.try_into_vec::<u32>().expect("the vector's own layout"), [7; 64]);
    assert_eq!(lab.download::<u32>(&*a), [8; 64]);
}

#[test]
fn a_barrier_passes_and_may_be_armed_late_twice_and_from_the_sink() {
    let Some(lab) = lab() else { return };
    let first = lab.feed(smallvec![]).expect("a barrier");
    *lab.sink.arm_again.lock().unwrap() = Some(first);
    lab.end(first).expect("it passes");
    lab.sink.wait_for(|v| v.len() == 2);
    lab.lane.arm(first);
    lab.sink.wait_for(|v| v.len() == 3);
    assert!(lab.sink.verdicts.lock().unwrap().iter().all(|v| v.failed.is_empty()));
}

#[test]
fn every_point_of_a_lost_device_is_reported_lost() {
    let Some(lab) = lab() else { return };
    let kernel = lab.build(&count()).expect("the kernel is right");
    let data = lab.allocate(256);
    let host = HostMemory::from_vec(vec![0_u32; 64]);
    let args = [words(&*data, 0, 64, ReadWrite), Arg::Value(&[1, 0, 0, 0])];
    let native = (&*lab.context as &dyn Any).downcast_ref::<WgpuContext>().expect("its own context");
    native.device().destroy();
    let mut points = Vec::new();
    for i in 0..20 {
        let command = match i % 3 {
            0 => launch(&kernel, 64.range(), &args),
            1 => line(&*data, &host),
            _ => Command::Fill(Fill::new(&*data, Region::line(0, 256), &[1; 4])),
        };
        match lab.feed(smallvec![command]) {
            Ok(point) => points.push(point),
            Err(error) => assert!(error.is_lost(), "{error}"),
        }
        if i % 5 == 4 {
            lab.lane.flush();
        }
    }
    lab.lane.flush();
    assert!(!points.is_empty());
    for point in points {
        lab.lane.arm(point);
        let outcome = lab.sink.outcome(point);
        assert!(outcome.as_ref().is_err_and(BackendError::is_lost), "{point:?}: {outcome:?}");
    }
    assert!(lab.feed(smallvec![]).is_err_and(|e| e.is_lost()));
    let more = lab.context.allocate(MemoryIndex::Own(0), MemoryObject::Buffer { bytes: 4 });
    assert!(more.is_err_and(|e| e.is_lost()));
    assert!(lab.build(&saxpy()).is_err_and(|e| e.is_lost()));
}

#[test]
fn a_closed_context_has_finished_and_takes_nothing() {
    let Some(lab) = lab() else { return };
    let kernel = lab.build(&count()).expect("the kernel is right");
    let data = lab.allocate(256);
    let args = [words(&*data, 0, 64, ReadWrite), Arg::Value(&[1, 0, 0, 0])];
    for _ in 0..100 {
        lab.feed(smallvec![launch(&kernel, 64.range(), &args)]).expect("the group is right");
    }
    block_on(lab.context.close());
    lab.lane.arm(Point(100));
    assert_eq!(lab.sink.count(), 1, "all was over when close returned");
    assert!(lab.feed(smallvec![]).is_err());
}

#[test]
fn an_abandoned_context_refuses_everything() {
    let Some(lab) = lab() else { return };
    lab.build(&count()).expect("the kernel is right");
    lab.context.abandon();
    let lost = |what: &str, outcome: Result<(), BackendError>| {
        assert!(outcome.as_ref().is_err_and(BackendError::is_lost), "{what}: {outcome:?}");
    };
    let object = MemoryObject::Buffer { bytes: 64 };
    lost("allocate", lab.context.allocate(MemoryIndex::Own(0), object).map(drop));
    lost("allocate_staging", lab.context.allocate_staging(64).map(drop));
    lost("build", lab.build(&count()).map(drop));
    let another = LaneSpec::new(0, LaneNumber(1));
    lost("open_lane", lab.context.open_lane(another, Arc::new(Sink::default())).map(drop));
    lost("feed", lab.feed(smallvec![]).map(drop));
}

#[test]
fn what_was_fed_runs_though_everything_was_dropped() {
    let Some(context) = open() else { return };
    let sink = Arc::new(Sink::default());
    let lane =
        context.open_lane(LaneSpec::new(0, LaneNumber(0)), sink.clone()).expect("the first lane opens");
    let kernel = count();
    let kernel = block_on(context.build(0, &kernel, &kernel.images()[0])).expect("the kernel is right");
    let data =
        context.allocate(MemoryIndex::Own(0), MemoryObject::Buffer { bytes: 256 }).expect("there is room");
    let args = [words(&*data, 0, 64, ReadWrite), Arg::Value(&[1, 0, 0, 0])];
    let group = Group::new(Point(1), &[], smallvec![launch(&kernel, 64.range(), &args)]);
    // SAFETY: the group's memory stays until the point has been passed.
    unsafe { lane.feed(group) }.expect("the group is right");
    lane.flush();
    lane.arm(Point(1));
    drop((kernel, data, lane, context));
    sink.outcome(Point(1)).expect("it has run");
}
