//! What single commands do to memory, and which are refused.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures::executor::block_on;
use smallvec::{SmallVec, smallvec};
use windlass_backend::{
    Allocation, Arg, BackendError, BufferArg, Command, Context, CopyBox, Fill, HostMemory, Launch,
    MemoryIndex, MemoryObject, Region,
};
use windlass_kernel::{
    Block, HostBody, Kernel, KernelImage, LaunchRange, Slot, SlotAccess, View, ViewMut, Word,
};

use crate::support::{feed, finish, once, one_lane, try_feed};

fn bytes(memory: &dyn Allocation) -> Vec<u8> {
    let start = memory.host_ptr().expect("host memory has an address");
    // SAFETY: the memory is live and initialised, and every group that used it has ended.
    unsafe { std::slice::from_raw_parts(start.as_ptr(), memory.bytes()) }.to_vec()
}

#[test]
fn boxes_are_copied_in_one_to_three_dimensions() {
    let (context, lane, told) = one_lane();
    let from: Vec<u8> = (0..=255).collect();
    let source = HostMemory::from_vec(from.clone());
    let line = Region::line(4, 100);
    let from_grid = Region { offset: 8, width: 4, rows: 3, slices: 1, row_pitch: 16, slice_pitch: 0 };
    let to_grid = Region { offset: 0, row_pitch: 4, ..from_grid };
    let from_block = Region { offset: 12, width: 8, rows: 2, slices: 3, row_pitch: 16, slice_pitch: 64 };
    let to_block = Region { offset: 20, width: 8, rows: 2, slices: 3, row_pitch: 12, slice_pitch: 40 };
    for (point, (a, b)) in (1..).zip([(line, line), (from_grid, to_grid), (from_block, to_block)]) {
        let target = context
            .allocate(MemoryIndex::Heap, MemoryObject::Buffer { bytes: 256 })
            .expect("256 bytes are there");
        let copy = CopyBox::new((&source, a), (&*target, b));
        feed(&lane, point, smallvec![Command::Copy(copy)]);
        finish(&lane, &told, point);
        let mut expected = vec![0; 256];
        for (x, y) in a.row_offsets().zip(b.row_offsets()) {
            expected[y..y + a.width].copy_from_slice(&from[x..x + a.width]);
        }
        assert_eq!(bytes(&*target), expected);
    }
}

#[test]
fn boxes_are_filled() {
    let (_context, lane, told) = one_lane();
    let memory = HostMemory::zeroed(64).expect("64 bytes are there");
    let grid = Region { offset: 4, width: 12, rows: 2, slices: 2, row_pitch: 14, slice_pitch: 30 };
    let fill = |region, pattern| smallvec![Command::Fill(Fill::new(&memory, region, pattern))];
    feed(&lane, 1, fill(Region::line(0, 64), &[9]));
    feed(&lane, 2, fill(grid, &[1, 2, 3, 4]));
    finish(&lane, &told, 2);
    let mut expected = vec![9; 64];
    grid.row_offsets().for_each(|at| expected[at..at + 12].copy_from_slice(&[1, 2, 3, 4].repeat(3)));
    assert_eq!(bytes(&memory), expected);
}

#[test]
fn boxes_may_end_where_their_memory_does() {
    let (_context, lane, told) = one_lane();
    let source = HostMemory::from_vec((0..40_u8).collect());
    let memory = HostMemory::zeroed(40).expect("40 bytes are there");
    let rows = Region { offset: 5, width: 15, rows: 2, slices: 1, row_pitch: 20, slice_pitch: 0 };
    let copy = CopyBox::new((&source, rows), (&memory, rows));
    feed(&lane, 1, smallvec![Command::Copy(copy)]);
    finish(&lane, &told, 1);
    let copied = bytes(&memory);
    assert!(copied.iter().zip(0..).all(|(&byte, at)| byte == if at % 20 < 5 { 0 } else { at }), "{copied:?}");
    feed(&lane, 2, smallvec![Command::Fill(Fill::new(&memory, rows, &[7, 8, 9]))]);
    finish(&lane, &told, 2);
    let row = [[0; 5].as_slice(), &[7, 8, 9].repeat(5)].concat();
    assert_eq!(bytes(&memory), row.repeat(2));
}

/// `out[i] = a[i] * factor` over whatever the spans show.
struct Scale;

impl HostBody for Scale {
    fn run(&self, block: Block<'_>) {
        let [a, factor, out] = block.spans() else { panic!("the kernel has three arguments") };
        let (a, factor, out) = (View::<u32>::new(*a), View::<u32>::new(*factor), ViewMut::<u32>::new(*out));
        block.items().for_each(|i| out.set(i, a.get(i) * factor.get(0)));
    }
}

fn scale(context: &dyn Context) -> Arc<dyn windlass_backend::BuiltKernel> {
    let slots = [Slot::Buffer(SlotAccess::Read), Slot::Value(4), Slot::Buffer(SlotAccess::ReadWrite)];
    let kernel = Kernel::new("scale", slots, [KernelImage::host(Arc::new(Scale))]);
    let image = kernel.image_for(&context.info().devices[0].formats, "").expect("it has a host image");
    block_on(context.build(0, &kernel, image)).expect("a host body is built")
}

#[test]
fn kernels_see_windows_and_values() {
    let (context, lane, told) = one_lane();
    let built = scale(&*context);
    let a = HostMemory::from_vec((0..64_u32).collect());
    let out = HostMemory::zeroed(256).expect("256 bytes are there");
    // A 2 x 3 window of rows of eight, into a line.
    let window = Region { offset: 4, width: 12, rows: 2, slices: 1, row_pitch: 32, slice_pitch: 64 };
    let factor = 10_u32.to_ne_bytes();
    let buffer = |memory, region, access| Arg::Buffer(BufferArg::new(memory, region, 4, access, Word::B4));
    let args = [
        buffer(&a, window, SlotAccess::Read),
        Arg::Value(&factor),
        buffer(&out, Region::line(8, 24), SlotAccess::ReadWrite),
    ];
    feed(&lane, 1, smallvec![Command::Launch(Launch::new(&*built, 6.range(), &args))]);
    finish(&lane, &told, 1);
    assert_eq!(told.failures(), []);
    let out = out.try_into_vec::<u32>().unwrap_or_else(|memory| {
        bytes(&memory).as_chunks().0.iter().map(|b| u32::from_ne_bytes(*b)).collect()
    });
    assert_eq!(out[..9], [0, 0, 10, 20, 30, 90, 100, 110, 0]);
}

/// An allocation that the host cannot reach.
struct Remote;

// SAFETY: it shows no memory.
unsafe impl Allocation for Remote {
    fn bytes(&self) -> usize {
        64
    }

    fn host_ptr(&self) -> Option<std::ptr::NonNull<u8>> {
        None
    }
}

#[test]
fn what_cannot_run_is_refused_whole() {
    let (context, lane, told) = one_lane();
    let built = scale(&*context);
    let memory = HostMemory::zeroed(64).expect("64 bytes are there");
    let ran = Arc::new(AtomicUsize::new(0));
    let copy =
        |from, from_region, to_region| Command::Copy(CopyBox::new((from, from_region), (&memory, to_region)));
    let (part, whole) = (Region::line(0, 32), Region::line(0, 64));
    let local = [Arg::Local(16)];
    let odd = [Arg::Buffer(BufferArg::new(&memory, part, 5, SlotAccess::Read, Word::B1))];
    let bad = [
        copy(&Remote, whole, whole),
        copy(&memory, part, whole),
        copy(&memory, Region::line(40, 32), part),
        copy(&memory, Region { rows: usize::MAX, row_pitch: 2, ..part }, part),
        Command::Fill(Fill::new(&memory, whole, &[])),
        Command::Fill(Fill::new(&memory, whole, &[1, 2, 3])),
        Command::Launch(Launch::new(&*built, 1.range(), &local)),
        Command::Launch(Launch::new(&*built, 1.range(), &odd)),
    ];
    for (point, bad) in (1..).zip(bad) {
        let mut commands: SmallVec<[Command<'_>; 1]> = once({
            let ran = ran.clone();
            move || ran.fetch_add(1, Ordering::Relaxed)
        });
        commands.push(bad);
        let refused = try_feed(&lane, point, &[], commands);
        assert!(matches!(refused, Err(BackendError::Unsupported(_))), "{point}: {refused:?}");
    }
    feed(&lane, 100, SmallVec::new());
    finish(&lane, &told, 100);
    assert_eq!((ran.load(Ordering::Relaxed), told.failures()), (0, vec![]));
}
