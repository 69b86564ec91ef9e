//! Staging memory, which the device and the host both reach.

use super::*;

/// What the host sees in an allocation.
fn bytes(memory: &dyn Allocation) -> Vec<u8> {
    let start = memory.host_ptr().expect("the host reaches it");
    // SAFETY: the memory has so many bytes, and each test reads them when no command uses them.
    unsafe { std::slice::from_raw_parts(start.as_ptr(), memory.bytes()) }.to_vec()
}

/// Writes the same byte everywhere.
fn write(memory: &dyn Allocation, byte: u8) {
    let start = memory.host_ptr().expect("the host reaches it");
    // SAFETY: the memory has so many bytes, and each test writes them when no command uses them.
    unsafe { start.as_ptr().write_bytes(byte, memory.bytes()) }
}

#[test]
fn staging_goes_both_ways_without_a_stop() {
    let Some(lab) = lab() else { return };
    let (up, down) = (staging(&lab, 4096), staging(&lab, 4096));
    let (first, second) = (lab.allocate(4096), lab.allocate(4096));
    write(&*up, 3);
    write(&*down, 0);
    for command in [line(&*up, &*first), line(&*first, &*down), line(&*down, &*second)] {
        lab.feed(smallvec![command]).expect("a copy by the device");
    }
    let last = lab.feed(smallvec![Command::Fill(Fill::new(&*up, Region::line(0, 4), &[9; 4]))]);
    lab.end(last.expect("a fill")).expect("all of them");
    assert_eq!(bytes(&*down), [3; 4096]);
    assert_eq!(bytes(&*up)[..8], [9, 9, 9, 9, 3, 3, 3, 3]);
    assert_eq!(lab.download::<u8>(&*second), [3; 4096]);
}

/// Parts of words in the host's memory are written by the host, which has to wait for what the device writes there.
#[test]
fn odd_places_in_staging_are_copied_in_order() {
    let Some(lab) = lab() else { return };
    let between = staging(&lab, 64);
    let (from, to) = (lab.upload(&(0..64).collect::<Vec<u8>>()), lab.allocate(8));
    write(&*between, 0);
    lab.feed(smallvec![line(&*from, &*between)]).expect("by the device");
    let odd = copy((&*between, Region::line(13, 8)), (&*to, Region::line(0, 8)));
    lab.feed(smallvec![odd]).expect("by the device, too");
    let back = copy((&*from, Region::line(0, 8)), (&*between, Region::line(33, 8)));
    let back = lab.feed(smallvec![back]).expect("by the host, at the end");
    let part = Command::Fill(Fill::new(&*between, Region::line(1, 2), &[9]));
    assert!(matches!(lab.feed(smallvec![part]), Err(BackendError::Unsupported(_))));
    lab.end(back).expect("all of them");
    assert_eq!(lab.download::<u8>(&*to), [13, 14, 15, 16, 17, 18, 19, 20]);
    assert_eq!(bytes(&*between)[32..42], [32, 0, 1, 2, 3, 4, 5, 6, 7, 41]);
}

/// wgpu destroys all buffers of a device that is lost; the host may be in the middle of this one. When wgpu owned the memory, a
/// lost device of NVIDIA's crashed the process, in `every_point_of_a_lost_device_is_reported_lost`.
#[test]
fn the_host_keeps_staging_of_a_lost_device() {
    let Some(lab) = lab() else { return };
    let (staging, device) = (staging(&lab, 1 << 20), lab.allocate(1 << 20));
    write(&*staging, 5);
    lab.run(smallvec![line(&*staging, &*device)]).expect("a copy");
    let native = (&*lab.context as &dyn Any).downcast_ref::<WgpuContext>().expect("its own context");
    native.device().destroy();
    assert!(lab.run(smallvec![line(&*device, &*staging)]).is_err_and(|error| error.is_lost()));
    assert!(lab.context.allocate_staging(64).is_err_and(|error| error.is_lost()));
    assert_eq!(bytes(&*staging)[..4], [5; 4]);
    write(&*staging, 6);
}

/// Immediate data takes no more than 256 bytes, and on some devices 128.
#[test]
fn a_block_may_be_larger_than_immediate_data() {
    let Some(lab) = lab() else { return };
    let text = "
        struct Args { at: u32, len: u32, e0: u32, e1: u32, e2: u32, many: array<vec4u, 40> }
        @group(0) @binding(0) var<storage, read_write> data: array<u32>;
        @group(0) @binding(1) var<uniform> args: Args;
        @compute @workgroup_size(64) fn last(@builtin(global_invocation_id) at: vec3u) {
            data[at.x] = args.many[39].w;
        }";
    let slots = [Slot::Buffer(ReadWrite), Slot::Value(12 + 40 * 16)];
    let kernel = Kernel::new("last", slots, [KernelImage::wgsl("last", text)]);
    let kernel = lab.build(&kernel).expect("it builds");
    let data = lab.allocate(256);
    let mut many = [0_u8; 12 + 40 * 16];
    many[12 + 40 * 16 - 4..].copy_from_slice(&77_u32.to_ne_bytes());
    let args = [words(&*data, 0, 64, ReadWrite), Arg::Value(&many)];
    lab.run(smallvec![launch(&kernel, 64.range(), &args), launch(&kernel, 64.range(), &args)]).expect("both");
    assert_eq!(lab.download::<u32>(&*data), [77; 64]);
}

fn staging(lab: &Lab, bytes: usize) -> Arc<dyn Allocation> {
    lab.context.allocate_staging(bytes).expect("there is room")
}
