//! Kernels, and how arguments reach them.

use smallvec::smallvec;
use windlass_backend::{Arg, BackendError, BufferArg, Point, Region};
use windlass_kernel::{LaunchRange, NdRange, Slot, SlotAccess, Word};

use crate::rig::{fill, kernel, launch, rigs, words};

const BUFFER: Slot = Slot::Buffer(SlotAccess::ReadWrite);

const SCALE: &str = "
__kernel void scale(__global uint *v, ulong v_at, ulong v_len, uint factor) {
    size_t i = get_global_id(0);
    if (i < v_len) v[v_at + i] = v[v_at + i] * factor + (uint)v_len;
}";

const PLACE: &str = "
__kernel void place(__global uint *v, ulong v_at, ulong v_len) {
    size_t i = get_global_id(0) + get_global_size(0) * (get_global_id(1) + get_global_size(1) * get_global_id(2));
    v[v_at + i] = get_global_id(0) | get_global_id(1) << 8 | get_global_id(2) << 16;
}";

const REVERSE: &str = "
__kernel void reverse(__global uint *v, ulong v_at, ulong v_len, __local uint *tile) {
    size_t l = get_local_id(0), n = get_local_size(0), i = get_global_id(0);
    tile[l] = v[v_at + i];
    barrier(CLK_LOCAL_MEM_FENCE);
    v[v_at + i] = tile[n - 1 - l];
}";

fn bytes(words: impl IntoIterator<Item = u32>) -> Vec<u8> {
    words.into_iter().flat_map(u32::to_ne_bytes).collect()
}

fn buffer(memory: &dyn windlass_backend::Allocation, region: Region) -> Arg<'_> {
    Arg::Buffer(BufferArg::new(memory, region, 4, SlotAccess::ReadWrite, Word::B4))
}

#[test]
fn a_kernel_sees_its_range_of_a_buffer() {
    for rig in rigs() {
        let line = rig.line(0);
        let built = rig.build(&kernel("scale", &[BUFFER, Slot::Value(4)], SCALE)).expect("it builds");
        let memory = rig.upload(&line, 1, &bytes(0..64));
        // More work-items than elements: the kernel is told where its range ends.
        let factor = 10_u32.to_ne_bytes();
        let args = [buffer(&*memory, Region::line(4 * 5, 4 * 7)), Arg::Value(&factor)];
        line.run(2, launch(&*built, 16.range(), &args));
        let expected: Vec<u32> = (0..64).map(|i| if (5..12).contains(&i) { i * 10 + 7 } else { i }).collect();
        assert_eq!(words(&line.download(3, &*memory)), expected, "{}", rig.name);
    }
}

/// A launch sets what differs from the one before: of a buffer that takes a gone one's place its handle need not differ. Seen to
/// fail where buffers were taken for those that were set before (a crash), and where values were.
#[test]
fn arguments_that_change_are_set() {
    for rig in rigs() {
        let line = rig.line(0);
        let built = rig.build(&kernel("scale", &[BUFFER, Slot::Value(4)], SCALE)).expect("it builds");
        for turn in 0..12_u32 {
            let point = u64::from(turn) * 4;
            let memory = rig.upload(&line, point + 1, &bytes(0..16));
            let (factor, len) = ((2 + turn / 3).to_ne_bytes(), 4 + turn as usize / 5);
            let args = [buffer(&*memory, Region::line(4 * 2, 4 * len)), Arg::Value(&factor)];
            line.run(point + 2, launch(&*built, 16.range(), &args));
            line.run(point + 3, launch(&*built, 16.range(), &args));
            let scaled = |i: u32| i * (2 + turn / 3) + len as u32;
            let inside = |i: u32| (2..2 + len as u32).contains(&i);
            let expected: Vec<u32> = (0..16).map(|i| if inside(i) { scaled(scaled(i)) } else { i }).collect();
            assert_eq!(words(&line.download(point + 4, &*memory)), expected, "{}, turn {turn}", rig.name);
        }
    }
}

#[test]
fn the_last_dimension_varies_fastest() {
    for rig in rigs() {
        let line = rig.line(0);
        let built = rig.build(&kernel("place", &[BUFFER], PLACE)).expect("it builds");
        let memory = rig.memory(4 * 24);
        line.run(1, launch(&*built, [2, 3, 4].range(), &[buffer(&*memory, Region::line(0, 96))]));
        let expected: Vec<u32> = (0..24).map(|i| (i % 4) | (i / 4 % 3) << 8 | (i / 12) << 16).collect();
        assert_eq!(words(&line.download(2, &*memory)), expected, "{}", rig.name);
    }
}

#[test]
fn work_groups_share_local_memory() {
    for rig in rigs() {
        let line = rig.line(0);
        let built = rig.build(&kernel("reverse", &[BUFFER, Slot::Local(32)], REVERSE)).expect("it builds");
        let memory = rig.upload(&line, 1, &bytes(0..32));
        let args = [buffer(&*memory, Region::line(0, 128)), Arg::Local(32)];
        line.run(2, launch(&*built, NdRange { global: [32], local: [8] }.range(), &args));
        let expected: Vec<u32> = (0..32).map(|i| i / 8 * 8 + 7 - i % 8).collect();
        assert_eq!(words(&line.download(3, &*memory)), expected, "{}", rig.name);
    }
}

/// A kernel with `WORDS` words of local memory of its own beside its argument. It reads what it wrote to both, or a compiler
/// could do without them.
const CROWDED: &str = "
__kernel void crowded(__global uint *v, ulong v_at, ulong v_len, __local uint *tile) {
    __local uint own[WORDS];
    size_t l = get_local_id(0), n = get_local_size(0);
    for (uint i = l; i < WORDS; i += n) own[i] = i;
    tile[l] = l;
    barrier(CLK_LOCAL_MEM_FENCE);
    v[v_at + get_global_id(0)] = own[WORDS - 1 - l] + tile[n - 1 - l];
}";

#[test]
fn a_kernels_own_local_memory_counts() {
    const LEFT: usize = 1024;
    for rig in rigs() {
        let line = rig.line(0);
        let device = rig.context.info().devices[0].limits.local_memory;
        let own = (device - LEFT) / 4;
        let text = CROWDED.replace("WORDS", &own.to_string());
        let built = rig.build(&kernel("crowded", &[BUFFER, Slot::Local(4)], &text)).expect("it builds");
        let left = built.limits().local_memory;
        assert!(left <= LEFT + 3, "{} has {device}, and says that {left} are left", rig.name);
        let memory = rig.memory(4 * 8);
        let range = || NdRange { global: [8], local: [8] }.range();
        let args = |local| [buffer(&*memory, Region::line(0, 32)), Arg::Local(local)];

        // By itself the device has room for each of these arguments, but not beside the kernel's own memory.
        for local in [left + 4, device] {
            let fed = line.feed(1, &[], launch(&*built, range(), &args(local)));
            let Err(BackendError::Unsupported(why)) = fed else { panic!("{local} bytes: {fed:?}") };
            assert!(why.contains("local memory") && why.contains(&local.to_string()), "{why}");
        }
        line.run(1, launch(&*built, range(), &args(32)));
        // A kernel that exceeds the device by itself either does not build, or is not launched.
        let text = CROWDED.replace("WORDS", &(device / 4 + 1).to_string());
        if let Ok(built) = rig.build(&kernel("crowded", &[BUFFER, Slot::Local(4)], &text)) {
            assert_eq!(built.limits().local_memory, 0);
            let fed = line.feed(2, &[], launch(&*built, range(), &args(0)));
            assert!(matches!(fed, Err(BackendError::Unsupported(_))), "{fed:?}");
        }
        let expected: Vec<u32> = (0..8).map(|l| (own as u32 - 1 - l) + (7 - l)).collect();
        assert_eq!(words(&line.download(2, &*memory)), expected, "{}", rig.name);
    }
}

#[test]
fn two_lanes_launch_one_kernel_at_once() {
    const TIMES: u64 = 500;
    for rig in rigs() {
        let built = rig.build(&kernel("scale", &[BUFFER, Slot::Value(4)], SCALE)).expect("it builds");
        std::thread::scope(|scope| {
            for number in 0..2 {
                let (rig, built) = (&rig, &built);
                scope.spawn(move || {
                    let line = rig.line(number);
                    let memory = rig.memory(4);
                    let (one, region) = (1_u32.to_ne_bytes(), Region::line(0, 4));
                    let args = [buffer(&*memory, region), Arg::Value(&one)];
                    for point in 1..=TIMES {
                        line.feed(point, &[], launch(&**built, 1.range(), &args)).expect("it is fed");
                        if point % 50 == 0 {
                            line.finish(point);
                        }
                    }
                    assert_eq!(words(&line.download(TIMES + 1, &*memory)), [TIMES as u32]);
                });
            }
        });
    }
}

#[test]
fn a_faulty_kernel_does_not_build() {
    for rig in rigs() {
        let log_of = |entry: &str, slots: &[Slot], text: &str| {
            let built = rig.build(&kernel(entry, slots, text));
            let Err(BackendError::Build { kernel, log }) = built else { panic!("{entry}: {built:?}") };
            assert_eq!(kernel, entry);
            println!("{log}");
            log
        };
        let log = log_of("broken", &[], "__kernel void broken() { no_such_name = 1; }");
        assert!(log.contains("no_such_name"), "the compiler's words are in the error: {log}");
        assert!(log_of("absent", &[], "__kernel void present() {}").contains("absent"));
        let log = log_of("scale", &[BUFFER], SCALE);
        assert!(log.contains("4 parameters") && log.contains("`KernelImage::with_parameters`"), "{log}");
    }
}

/// The work-group's size is fixed by the kernel, which only the driver notices.
const PICKY: &str = "
__kernel __attribute__((reqd_work_group_size(8, 1, 1))) void picky(__global uint *v, ulong v_at, ulong v_len) {
    v[v_at + get_global_id(0)] = 1;
}";

#[test]
fn a_group_that_the_driver_refuses_was_never_fed() {
    for rig in rigs() {
        let line = rig.line(0);
        let built = rig.build(&kernel("picky", &[BUFFER], PICKY)).expect("it builds");
        let memory = rig.memory(64);
        let args = [buffer(&*memory, Region::line(0, 64))];
        let wrong = || launch(&*built, NdRange { global: [16], local: [4] }.range(), &args);
        let fed = line.feed(1, &[], wrong());
        assert!(matches!(fed, Err(BackendError::Native { call: "clEnqueueNDRangeKernel", .. })), "{fed:?}");
        line.run(1, launch(&*built, NdRange { global: [16], local: [8] }.range(), &args));
        assert_eq!(words(&line.download(2, &*memory)), [1; 16]);
    }
}

#[test]
fn a_group_that_breaks_off_fails_alone() {
    for rig in rigs() {
        let line = rig.line(0);
        let built = rig.build(&kernel("picky", &[BUFFER], PICKY)).expect("it builds");
        let memory = rig.memory(64);
        let args = [buffer(&*memory, Region::line(0, 64))];
        let wrong = launch(&*built, NdRange { global: [16], local: [4] }.range(), &args);
        let fine = || fill(&*memory, Region::line(0, 64), &[9, 0, 0, 0]);
        line.feed(1, &[], fine()).expect("it is fed");
        // The fill cannot be taken back once the launch is refused, so the group is fed and fails.
        line.feed_all(2, smallvec![fine(), wrong, fine()]).expect("it is fed in part");
        line.feed(3, &[], fine()).expect("it is fed");
        line.finish(3);
        let failed = line.sink.failed();
        assert_eq!(failed.len(), 1, "{failed:?}");
        assert_eq!((failed[0].first, failed[0].last), (Point(2), Point(2)));
        assert!(matches!(failed[0].error, BackendError::Native { .. }), "{failed:?}");
    }
}

#[test]
fn arguments_must_match_their_slots() {
    for rig in rigs() {
        let line = rig.line(0);
        let built = rig.build(&kernel("scale", &[BUFFER, Slot::Value(4)], SCALE)).expect("it builds");
        let memory = rig.memory(64);
        let gaps = Region { offset: 0, width: 8, rows: 2, slices: 1, row_pitch: 16, slice_pitch: 32 };
        let (whole, one) = (Region::line(0, 64), 1_u32.to_ne_bytes());
        for args in [
            [buffer(&*memory, whole), Arg::Value(&[1, 2])],
            [buffer(&*memory, whole), Arg::Local(4)],
            [buffer(&*memory, gaps), Arg::Value(&one)],
        ] {
            let fed = line.feed(1, &[], launch(&*built, 1.range(), &args));
            assert!(matches!(fed, Err(BackendError::Unsupported(_))), "{fed:?}");
        }
    }
}
