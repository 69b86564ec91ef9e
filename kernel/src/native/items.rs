//! Launches as a block of them sees them.

use std::cell::Cell;

use super::outside::{Whose, takes};
use super::views::{Alone, Own, Plain, Shared, SharedAtomics};
use crate::asked::watched;
use crate::declared::Relied;
use crate::memory::Elements;
use crate::{AtomicElement, Block, DeviceCopy, Span, Way};

/// What a kernel does with the argument in one of its slots.
#[derive(Clone, Copy, Debug)]
pub struct SlotUse {
    /// How it reaches elements; nothing for a value.
    way: Option<Way>,
    align: usize,
    /// An element's, or of a value nothing.
    bytes: usize,
    parameter: &'static str,
    /// The launch's dimensions in which each item's own element is at its position; 0 where that is not so.
    dims: usize,
    /// Whether it is a table of what the kernel reaches by addresses.
    reaches: bool,
    /// The dimensions of the view before it, if it is that one's extents.
    extents: usize,
}

impl SlotUse {
    /// A plain value.
    pub const VALUE: SlotUse =
        SlotUse { way: None, align: 1, bytes: 0, parameter: "", dims: 0, reaches: false, extents: 0 };

    /// A table of what the kernel reaches by addresses.
    pub const REACHED: SlotUse = SlotUse { reaches: true, ..SlotUse::VALUE };

    /// The extents of the view in the slot before it.
    pub const fn extents(dims: usize) -> Self {
        SlotUse { extents: dims, ..SlotUse::VALUE }
    }

    const fn elements<T>(parameter: &'static str, way: Way) -> Self {
        let (align, bytes) = (align_of::<T>(), size_of::<T>());
        SlotUse { way: Some(way), align, bytes, parameter, ..SlotUse::VALUE }
    }

    /// Elements that are only read.
    pub const fn read<T>(parameter: &'static str) -> Self {
        SlotUse::elements::<T>(parameter, Way::Read)
    }

    /// Elements that any item may write.
    pub const fn write<T>(parameter: &'static str) -> Self {
        SlotUse::elements::<T>(parameter, Way::Meeting(None))
    }

    /// Elements of which, in a launch of `D` dimensions, each item touches its own one alone.
    pub const fn own<T, const D: usize>(parameter: &'static str) -> Self {
        SlotUse { dims: D, ..SlotUse::elements::<T>(parameter, Way::Own) }
    }

    /// Elements of which, in a launch of `D` dimensions, each item reads its own one alone.
    pub const fn along<T, const D: usize>(parameter: &'static str) -> Self {
        SlotUse { dims: D, ..SlotUse::read::<T>(parameter) }
    }

    /// Elements of [`SlotUse::write`], of which more is known.
    ///
    /// # Panics
    /// If the slot is not one of those, or would not be written any more.
    pub const fn by(self, way: Way) -> Self {
        assert!(
            self.is_shared() && !matches!(way, Way::Read | Way::Own),
            "a slot is not what it is used for"
        );
        SlotUse { way: Some(way), ..self }
    }

    /// The line of an index that does not tell where items meet.
    fn meeting(&self) -> Option<u32> {
        match self.way {
            Some(Way::Meeting(line)) => line,
            _ => None,
        }
    }

    /// What code relies on in the argument.
    pub(crate) fn relied(&self) -> Relied {
        match (self.way, self.extents) {
            (Some(way), _) => Relied::Elements { bytes: self.bytes, is_atomic: way == Way::Atomics },
            (None, 0) => Relied::Nothing,
            (None, dims) => Relied::Extents(dims),
        }
    }

    fn writes(&self) -> bool {
        self.way.is_some_and(|way| way != Way::Read)
    }

    /// Whether any item may write anywhere.
    const fn is_shared(&self) -> bool {
        !matches!(self.way, None | Some(Way::Read | Way::Own))
    }
}

/// A kernel as native code.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NativeKernel {
    name: &'static str,
    uses: &'static [SlotUse],
    run: fn(&Launch<'_>),
}

impl NativeKernel {
    /// A kernel from its name, what it does with its slots, and its code.
    pub(crate) const fn new(name: &'static str, uses: &'static [SlotUse], run: fn(&Launch<'_>)) -> Self {
        NativeKernel { name, uses, run }
    }

    /// How it reaches its arguments: each parameter's name, and the way.
    pub(crate) fn ways(&self) -> impl Iterator<Item = (&'static str, Way)> {
        self.uses.iter().filter_map(|of| Some((of.parameter, of.way?)))
    }

    /// Whether it reaches memory by addresses: then its launches have further spans behind those of its slots.
    pub(crate) fn follows_pointers(&self) -> bool {
        self.uses.iter().any(|of| of.reaches)
    }

    /// Runs the block's items over the launch's memory.
    ///
    /// # Safety
    /// All blocks of the block's launch are run by this kernel or clones of it, and by nothing else.
    pub(crate) unsafe fn run(&self, block: Block<'_>) {
        let (spans, slots) = (block.spans(), self.uses.len());
        let fits = if self.follows_pointers() { spans.len() >= slots } else { spans.len() == slots };
        assert!(
            fits,
            "a launch has an argument for each of the kernel's slots, and more only for one that follows pointers"
        );
        assert!(slots <= u64::BITS as usize, "a kernel has 64 slots at most");
        // The code may have come into a kernel that declares other slots.
        let allowed = spans.iter().zip(self.uses).all(|(span, of)| span.is_writable() || !of.writes());
        assert!(allowed, "a launch lets a kernel write what the kernel writes");
        if let Err(error) = block.range().check_for(self.name) {
            panic!("{error}, which was to be refused");
        }
        let apart = is_apart(&block, self.uses);
        (self.run)(&Launch { block, kernel: self.name, uses: self.uses, apart, taken: Cell::new(0) });
    }
}

/// One work-item: where it is, and how large the launch is.
#[derive(Clone, Copy, Debug, Default)]
pub struct Item {
    /// The position, outermost dimension first; 0 in dimensions that the launch does not have.
    pub global: [u32; 3],
    /// The extents; 1 in dimensions that the launch does not have.
    pub global_size: [u32; 3],
    /// The position in the work-group.
    pub local: [u32; 3],
    /// The work-group's extents.
    pub local_size: [u32; 3],
    /// The work-group's position.
    pub group: [u32; 3],
}

impl Item {
    /// How many work-groups there are along a dimension.
    pub fn groups(&self, dim: usize) -> u32 {
        self.global_size[dim] / self.local_size[dim].max(1)
    }

    /// Which of its work-group's items it is.
    pub fn number(&self) -> u32 {
        let [x, y, z] = self.local;
        let [_, columns, layers] = self.local_size;
        (x * columns + y) * layers + z
    }

    /// How many items its work-group has.
    pub fn numbers(&self) -> u32 {
        self.local_size.iter().product()
    }
}

/// A block of a launch and its memory. Made by `NativeKernel` alone, out of the block that a device hands it.
#[derive(Debug)]
pub struct Launch<'a> {
    block: Block<'a>,
    kernel: &'static str,
    uses: &'static [SlotUse],
    apart: bool,
    /// Which slots were given out as mutable slices.
    taken: Cell<u64>,
}

impl<'a> Launch<'a> {
    /// A value argument.
    pub fn value<T: DeviceCopy>(&self, slot: usize) -> T {
        assert!(self.uses[slot].way.is_none(), "slot {slot} is no value");
        Elements::new(self.spans()[slot]).load(0)
    }

    /// The position of the block's first item, in row-major order.
    pub fn first(&self) -> usize {
        self.block.items().start
    }

    pub(super) fn end(&self) -> usize {
        self.block.items().end
    }

    fn spans(&self) -> &'a [Span<'a>] {
        self.block.spans()
    }

    /// What the launch reaches beside its slots.
    pub(super) fn lent(&self) -> &'a [Span<'a>] {
        &self.spans()[self.uses.len()..]
    }

    /// The table in a slot.
    pub(super) fn table(&self, slot: usize) -> &'a Span<'a> {
        assert!(self.uses[slot].reaches, "slot {slot} is no table of what the kernel reaches");
        &self.spans()[slot]
    }

    pub(super) fn whose_pointers(&self) -> Whose {
        Whose { kernel: self.kernel, parameter: "" }
    }

    /// How many items the block has.
    pub fn count(&self) -> usize {
        self.block.items().len()
    }

    /// Whether the launch has so many dimensions, and all that it writes lies apart from everything else. With more
    /// dimensions than one, what has an element for each item has the launch's extents then.
    pub fn apart(&self, dims: usize) -> bool {
        self.apart && self.dims() == dims
    }

    /// A slot's extents.
    pub fn extents<const D: usize>(&self, slot: usize) -> [u32; D] {
        extents(&self.spans()[slot])
    }

    /// The block's own elements of a slot, for [`Launch::apart`] launches.
    ///
    /// # Panics
    /// If the slot is not declared so, the launch is another, or the elements were given out already.
    pub fn own<T: DeviceCopy>(&self, slot: usize) -> Own<'a, T> {
        let span = &self.spans()[slot];
        let own = self.uses[slot].way == Some(Way::Own);
        assert!(own && self.apart, "slot {slot} is not the items' own");
        let bit = 1_u64 << slot;
        assert_eq!(self.taken.replace(self.taken.get() | bit) & bit, 0, "slot {slot} was given out already");
        let (first, end) = (self.first().min(span.len()), self.end().min(span.len()));
        // Which launches are `apart` depends on the declarations, the range and the spans, which are one for all blocks: so
        // in such a launch this slot is given out by this function alone, since `shared` refuses it.
        // SAFETY: nobody else reaches these elements while the launch's memory lives: they overlap no other argument and nothing
        // that the launch is lent beside (`apart`), are given out once for each block (`taken`), and no two blocks have an item in common; other groups
        // are kept away (both `Block::new`). All blocks are run by code with these declarations, and the slot is writable
        // (both `run`).
        let slice = unsafe { span.as_mut_slice(first..end) };
        Own::new(slice, first, span.len())
    }

    /// Whether no other argument overlaps a slot.
    pub(super) fn is_by_itself(&self, slot: usize) -> bool {
        let span = &self.spans()[slot];
        let others = self.spans().iter().zip(self.uses).enumerate();
        let mut others = others.filter(|(at, (_, of))| *at != slot && of.way.is_some());
        let overlaps = others.any(|(_, (other, _))| span.overlaps(other));
        !watched() && !overlaps && !self.lent().iter().any(|other| span.overlaps(other))
    }

    /// Says, if asked to, that the launch goes this way, but for slots in which items may meet.
    #[inline]
    pub fn takes(&self, way: &'static str) {
        takes(self.kernel, way, || {
            let meeting = self.uses.iter().filter_map(|of| Some((of.parameter, of.meeting()?)));
            let said = meeting.map(|(name, line)| {
                format!("`{name}` by atomic words, since items may meet there: see the index in line {line}")
            });
            said.collect()
        });
    }

    /// Says, if asked to, that the launch reaches all memory by atomic words: because of arguments that overlap or lie in
    /// pieces, or of slots in which items may meet.
    #[inline]
    pub fn takes_words(&self) {
        takes(self.kernel, "atomic words, each index compared", || {
            let slots = self.uses.iter().enumerate().filter(|(_, of)| of.way.is_some());
            let mut why = Vec::new();
            for (slot, of) in slots {
                let name = of.parameter;
                if !self.is_by_itself(slot) && of.writes() {
                    why.push(format!("`{name}` overlaps another argument"));
                } else if !self.spans()[slot].is_contiguous() {
                    why.push(format!("`{name}` does not lie in one piece"));
                } else if let Some(line) = of.meeting() {
                    why.push(format!("items may meet in `{name}`: see the index in line {line}"));
                } else if of.writes() {
                    why.push(format!("in this launch items may meet in `{name}`"));
                }
            }
            why
        });
    }

    /// How many elements a slot has.
    pub fn len(&self, slot: usize) -> u64 {
        self.spans()[slot].len() as u64
    }

    /// A slot that is only read, as a plain slice, if nothing that the launch writes overlaps it.
    pub fn plain<T: DeviceCopy, const D: usize>(&self, slot: usize) -> Option<Plain<'a, T, D>> {
        let span = &self.spans()[slot];
        assert_eq!(self.uses[slot].way, Some(Way::Read), "slot {slot} is not only read");
        let written =
            self.spans().iter().zip(self.uses).filter(|(_, of)| of.writes()).map(|(other, _)| other);
        let mut written = written.chain(self.lent().iter().filter(|other| other.is_writable()));
        if !span.fits_slice::<T>() || watched() || written.any(|other| span.overlaps(other)) {
            return None;
        }
        // SAFETY: nothing writes the window while the launch's memory lives. This launch writes through slots that are
        // declared so, and through writable spans that it is lent beside, none of which overlaps it, and all its blocks are run by code with these declarations (`run`);
        // other groups that write it are kept away (`Block::new`).
        let slice = unsafe { span.as_slice() };
        Some(Plain::new(slice, extents(span)))
    }

    /// [`Launch::plain`] in an [`Launch::apart`] launch, where it is always to be had.
    ///
    /// # Panics
    /// In other launches.
    pub fn apart_plain<T: DeviceCopy, const D: usize>(&self, slot: usize) -> Plain<'a, T, D> {
        match self.plain(slot) {
            Some(plain) => plain,
            None => panic!("slot {slot} is not apart from what is written"),
        }
    }

    /// A slot as memory that all items share.
    ///
    /// # Panics
    /// If it is the items' own in this launch.
    pub fn shared<T: DeviceCopy, const D: usize>(&self, slot: usize) -> Shared<'a, T, D> {
        let of = &self.uses[slot];
        assert!(of.way != Some(Way::Own) || !self.apart, "slot {slot} is the items' own");
        self.share(slot)
    }

    /// A slot as memory in which each element is one work-item's own; `None` where it does not lie in one piece.
    ///
    /// # Safety
    /// No element that a work-item of the launch writes is read or written by one of another block, and the slot overlaps no
    /// other argument if it is written.
    pub unsafe fn alone<T: DeviceCopy, const D: usize>(&self, slot: usize) -> Option<Alone<'a, T, D>> {
        let span = &self.spans()[slot];
        assert!(self.uses[slot].writes(), "slot {slot} is not written");
        if watched() || !span.fits_slice::<T>() {
            return None;
        }
        // SAFETY: the slot is writable (`run`). Cells may be many; other threads keep away from the elements that this
        // one reaches, by the caller's promise, and other groups from all of them (`Block::new`).
        Some(Alone::new(unsafe { span.as_cells() }, extents(span)))
    }

    /// Combines a value with the one in a slot, each of the numbers that it is made of atomically.
    pub fn reduce<T: DeviceCopy, N: DeviceCopy>(&self, slot: usize, value: T, combined: impl Fn(N, N) -> N) {
        assert!(self.uses[slot].is_shared(), "slot {slot} is not written");
        Elements::<T>::to_write(self.spans()[slot]).combine(0, value, combined);
    }

    /// A slot as atomics.
    pub fn atomics<T: AtomicElement, const D: usize>(&self, slot: usize) -> SharedAtomics<'a, T, D> {
        assert!(self.uses[slot].is_shared(), "slot {slot} is not written");
        SharedAtomics::new(self.share(slot))
    }

    fn share<T: DeviceCopy, const D: usize>(&self, slot: usize) -> Shared<'a, T, D> {
        let (span, of) = (&self.spans()[slot], &self.uses[slot]);
        let whose = Whose { kernel: self.kernel, parameter: of.parameter };
        let elements = Elements::new(if of.writes() { *span } else { span.read_only() });
        Shared::new(elements, extents(span), whose)
    }

    /// Extents as kernels number the dimensions: 0 is the outermost that the launch has, and those it has not are 1.
    pub(super) fn numbered(&self, padded: [usize; 3]) -> [u32; 3] {
        let mut numbered = [1_u32; 3];
        for (to, from) in numbered.iter_mut().zip(&padded[3 - self.dims()..]) {
            *to = *from as u32;
        }
        numbered
    }

    /// The launch's number of dimensions.
    pub fn dims(&self) -> usize {
        self.block.range().dims()
    }

    pub(super) fn range(&self) -> crate::Range {
        self.block.range()
    }

    /// The launch's first item.
    pub fn first_item(&self) -> Item {
        Item { global_size: self.numbered(self.range().extent()), ..Item::default() }
    }

    /// An item of a launch of one dimension.
    #[inline]
    pub fn line_item(&self, at: usize) -> Item {
        let size = self.block.range().extent()[2] as u32;
        Item { global: [at as u32, 0, 0], global_size: [size, 1, 1], ..Item::default() }
    }

    /// Calls `each` for all items of the block, in order.
    pub fn items(&self, each: impl FnMut(&Item)) {
        self.items_from(0, each);
    }

    /// Calls `each` for all items of the block but the first `n`.
    pub fn items_from(&self, n: usize, mut each: impl FnMut(&Item)) {
        let size = self.numbered(self.block.range().extent());
        let mut at = self.first() + n;
        if at >= self.end() {
            return;
        }
        let (inner, row) = (size[2] as usize, size[1] as usize * size[2] as usize);
        let mut item = Item {
            global: [(at / row) as u32, (at / inner % size[1] as usize) as u32, (at % inner) as u32],
            global_size: size,
            ..Item::default()
        };
        loop {
            each(&item);
            at += 1;
            if at >= self.end() {
                return;
            }
            for dim in (0..3).rev() {
                item.global[dim] += 1;
                if item.global[dim] < size[dim] || dim == 0 {
                    break;
                }
                item.global[dim] = 0;
            }
        }
    }
}

/// What [`Launch::apart`] says.
fn is_apart(block: &Block<'_>, uses: &[SlotUse]) -> bool {
    let slots = || block.spans().iter().zip(uses).filter(|(_, of)| of.way.is_some());
    let alone = |(at, (span, of)): (usize, (&Span<'_>, &SlotUse))| {
        let fits = span.is_contiguous() && span.as_ptr().addr().is_multiple_of(of.align);
        // Behind the slots stands what is reached by addresses.
        let meets = |other: &Span<'_>| (other.is_writable() || of.writes()) && span.overlaps(other);
        if block.spans()[uses.len()..].iter().any(meets) {
            return false;
        }
        let others = slots().enumerate().filter(|(other, _)| *other != at);
        fits && (of.way == Some(Way::Read) || others.into_iter().all(|(_, (other, _))| !span.overlaps(other)))
    };
    let dims = block.range().dims();
    // Along one dimension the slices are cut to the shortest.
    let placed = |(span, of): (&Span<'_>, &SlotUse)| match of.dims {
        0 => true,
        1 => dims == 1,
        own => own == dims && span.extent().size == block.range().extent(),
    };
    !watched() && slots().enumerate().all(alone) && slots().all(placed)
}

fn extents<const D: usize>(span: &Span<'_>) -> [u32; D] {
    span.extent().inner().map(|size| u32::try_from(size).unwrap_or(u32::MAX))
}

#[cfg(test)]
mod tests {
    use std::ptr::NonNull;

    use super::*;
    use crate::native::REACH_BYTES;
    use crate::{Extent, Here, Kernel, KernelImage, LaunchRange, RawSpan, Slot, SlotAccess, Word, run_here};

    fn add(launch: &Launch<'_>) {
        if launch.apart(1) {
            let own = launch.own::<u32>(1);
            let (mine, _) = own.split(launch.count().min(4));
            mine.iter_mut().for_each(|v| *v += 1);
        }
    }

    fn twice(launch: &Launch<'_>) {
        launch.own::<u32>(1);
        launch.own::<u32>(1);
    }

    fn both(launch: &Launch<'_>) {
        launch.own::<u32>(1);
        launch.shared::<u32, 1>(1);
    }

    static USES: [SlotUse; 2] = [SlotUse::read::<u32>("x"), SlotUse::own::<u32, 1>("y")];

    fn run(code: fn(&Launch<'_>), slots: [Slot; 2], y: &mut [u32]) {
        let image = KernelImage::native(NativeKernel::new("test", &USES, code));
        let kernel = Kernel::new("test", slots, [image]);
        run_here(&kernel, &mut [Here::read(&[1_u32, 2]), Here::write(y)], 4.range())
            .expect("the arguments fit");
    }

    const SLOTS: [Slot; 2] = [Slot::Buffer(SlotAccess::Read), Slot::Buffer(SlotAccess::ReadWrite)];

    #[test]
    fn own_elements_are_a_slice() {
        let mut y = [1, 2, 3, 4];
        run(add, SLOTS, &mut y);
        assert_eq!(y, [2, 3, 4, 5]);
    }

    #[test]
    #[should_panic(expected = "given out already")]
    fn own_elements_are_given_out_once() {
        run(twice, SLOTS, &mut [1]);
    }

    #[test]
    #[should_panic(expected = "the items' own")]
    fn own_elements_are_not_shared() {
        run(both, SLOTS, &mut [1]);
    }

    #[test]
    #[should_panic(expected = "what the kernel writes")]
    fn code_in_a_kernel_that_declares_less_does_not_run() {
        let image = KernelImage::native(NativeKernel::new("test", &USES, add));
        let kernel = Kernel::new("test", [SLOTS[0], SLOTS[0]], [image]);
        let _ = run_here(&kernel, &mut [Here::read(&[1_u32]), Here::read(&[1_u32])], 4.range());
    }

    static REACHING: [SlotUse; 3] =
        [SlotUse::read::<u32>("x"), SlotUse::own::<u32, 1>("y"), SlotUse::REACHED];

    thread_local! {
        /// Whether `x` is a plain slice, whether `y` is by itself, and whether the launch is apart.
        static SEEN: Cell<[bool; 3]> = const { Cell::new([false; 3]) };
    }

    fn see(launch: &Launch<'_>) {
        SEEN.set([launch.plain::<u32, 1>(0).is_some(), launch.is_by_itself(1), launch.apart(1)]);
    }

    /// What is seen in a launch over twelve numbers, of which `x` has the first four and `y` the next, and pointers lead to four from here on.
    fn seen(reached: usize, writes: bool) -> [bool; 3] {
        let (mut numbers, mut table) = ([0_u32; 12], [0_u32; REACH_BYTES / 4]);
        let line = |start: &mut [u32]| {
            let len = start.len();
            RawSpan::new(NonNull::from(start).cast(), Extent::line(len), 4, Word::B4)
        };
        let all = line(&mut numbers).as_ptr();
        let part = |from: usize| {
            let start = NonNull::new(all.wrapping_add(4 * from)).expect("it is inside");
            RawSpan::new(start, Extent::line(4), 4, Word::B4)
        };
        let lent = if writes { part(reached) } else { part(reached).read_only() };
        let spans = [part(0).read_only(), part(4), line(&mut table).read_only(), lent];
        // SAFETY: it is the launch's only block, and its memory is this function's.
        let block = unsafe { Block::new(0..4, 4.range(), &spans) };
        // SAFETY: the launch has no other block.
        unsafe { NativeKernel::new("test", &REACHING, see).run(block) };
        SEEN.get()
    }

    /// What pointers lead to is no slice's that somebody writes. Seen to fail without each of the three comparisons.
    #[test]
    fn what_pointers_lead_to_is_no_slice_that_is_written() {
        assert_eq!([seen(8, false), seen(8, true)], [[true; 3]; 2]);
        assert_eq!((seen(0, false), seen(0, true)), ([true; 3], [false, true, false]), "what is read");
        assert_eq!([seen(4, false), seen(4, true)], [[true, false, false]; 2], "what is written");
    }
}
