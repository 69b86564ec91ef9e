//! Running a kernel on the calling thread, over slices of the caller's: a kernel's unit tests.

use std::fmt;
use std::ptr::NonNull;

use smallvec::SmallVec;

use crate::{
    Block, DeviceCopy, Extent, Kernel, KernelImage, Range, RawSpan, Slot, SlotAccess, Word, slice_bytes,
};

/// An argument of a kernel that is run here.
pub struct Here<'a> {
    kind: HereKind<'a>,
    element: usize,
    word: Word,
    /// The shape that the caller gave, innermost last; its leading dimensions may be missing.
    shape: Option<SmallVec<[usize; 3]>>,
}

enum HereKind<'a> {
    Read(&'a [u8]),
    Write(&'a mut [u8]),
    Value(SmallVec<[u8; 16]>),
}

impl<'a> Here<'a> {
    /// Elements to be read.
    pub fn read<T: DeviceCopy>(elements: &'a [T]) -> Self {
        Here::new(HereKind::Read(slice_bytes(elements)), size_of::<T>(), Word::of::<T>())
    }

    /// Elements to be read and written.
    pub fn write<T: DeviceCopy>(elements: &'a mut [T]) -> Self {
        let bytes = bytemuck::cast_slice_mut(elements);
        Here::new(HereKind::Write(bytes), size_of::<T>(), Word::of::<T>())
    }

    /// A plain value's bytes.
    pub fn value(bytes: &[u8]) -> Self {
        Here::new(HereKind::Value(SmallVec::from_slice(bytes)), bytes.len(), Word::B1)
    }

    fn new(kind: HereKind<'a>, element: usize, word: Word) -> Self {
        Here { kind, element, word, shape: None }
    }

    /// The elements as a grid of one to three dimensions, row-major. One that has another number of elements is refused
    /// when the kernel is run.
    ///
    /// ```compile_fail,E0080
    /// windlass_kernel::Here::read(&[1_u32]).with_shape([1, 1, 1, 1]);
    /// ```
    pub fn with_shape<const D: usize>(mut self, shape: [usize; D]) -> Self {
        const { assert!(D >= 1 && D <= 3, "memory has one to three dimensions") };
        self.shape = Some(SmallVec::from_slice(&shape));
        self
    }

    /// Slices, rows, elements; unused leading dimensions are 1.
    pub fn size(&self) -> [usize; 3] {
        let mut size = [1; 3];
        match &self.shape {
            Some(shape) => size[3 - shape.len()..].copy_from_slice(shape),
            None => size[2] = self.len(),
        }
        size
    }

    /// Why the shape that was given is not that of the elements.
    fn misshapen(&self) -> Option<String> {
        let shape = self.shape.as_ref()?;
        let empty = shape.contains(&0);
        let count = shape.iter().try_fold(1, |all: usize, extent| all.checked_mul(*extent));
        let count = if empty { Some(0) } else { count };
        (count != Some(self.len())).then(|| format!("{} elements in a shape of {shape:?}", self.len()))
    }

    /// How many elements there are.
    pub fn len(&self) -> usize {
        let bytes = match &self.kind {
            HereKind::Read(bytes) => bytes.len(),
            HereKind::Write(bytes) => bytes.len(),
            HereKind::Value(bytes) => bytes.len(),
        };
        bytes.checked_div(self.element).unwrap_or(0)
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn fits(&self, slot: &Slot) -> bool {
        match (&self.kind, slot) {
            (HereKind::Read(_) | HereKind::Write(_), Slot::Buffer(SlotAccess::Read)) => true,
            (HereKind::Write(_), Slot::Buffer(SlotAccess::ReadWrite)) => true,
            (HereKind::Value(bytes), Slot::Value(size)) => bytes.len() == *size,
            _ => false,
        }
    }

    fn span(&mut self) -> RawSpan {
        let len = self.len();
        let start = match &mut self.kind {
            HereKind::Read(bytes) => bytes.as_ptr().cast_mut(),
            HereKind::Write(bytes) => bytes.as_mut_ptr(),
            HereKind::Value(bytes) => bytes.as_mut_ptr(),
        };
        let start = NonNull::new(start).unwrap_or(NonNull::dangling());
        let size = self.size();
        // Of nothing no element is ever looked for, however long its rows would be.
        let pitch = if len == 0 { [0; 2] } else { [size[1] * size[2], size[2]] };
        let span = RawSpan::new(start, Extent { size, pitch }, self.element.max(1), self.word);
        if matches!(self.kind, HereKind::Write(_)) { span } else { span.read_only() }
    }
}

impl fmt::Debug for Here<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = match &self.kind {
            HereKind::Read(_) => "elements to be read",
            HereKind::Write(_) => "elements to be written",
            HereKind::Value(_) => "a value",
        };
        write!(f, "{what}, {} of {} bytes", self.len(), self.element)
    }
}

/// Why a kernel was not run here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotHere(String);

impl fmt::Display for NotHere {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for NotHere {}

/// Runs all items of a range on this thread, by the kernel's host image.
///
/// ```
/// use std::sync::Arc;
/// use windlass_kernel::{Block, Here, Kernel, KernelImage, LaunchRange, Slot, SlotAccess, run_here};
/// let kernel = Kernel::new("nothing", [Slot::Buffer(SlotAccess::Read)], [KernelImage::host(Arc::new(|_: Block<'_>| {}))]);
/// assert!(run_here(&kernel, &mut [Here::read(&[1_u32])], 1.range()).is_ok());
/// let error = run_here(&kernel, &mut [Here::value(&[1])], 1.range()).unwrap_err();
/// assert!(error.to_string().contains("argument 0"), "{error}");
/// ```
pub fn run_here(kernel: &Kernel, args: &mut [Here<'_>], range: Range) -> Result<(), NotHere> {
    let name = kernel.name();
    let Some((image, body)) = kernel.images().iter().find_map(|image| Some((image, image.body()?))) else {
        return Err(NotHere(format!("kernel `{name}` has no image for the host")));
    };
    check_args(kernel, image, args)?;
    let range = kernel.grouped_range(range).map_err(|error| NotHere(error.to_string()))?;
    let items = range.check_for(name).map_err(|error| NotHere(error.to_string()))?;
    if kernel.is_grouped() && range.local().is_none() {
        return Err(NotHere(format!("kernel `{name}` works in groups: run it over an `NdRange`")));
    }
    let spans: SmallVec<[RawSpan; 4]> = args.iter_mut().map(Here::span).collect();
    // SAFETY: this is the launch's only block. Each window is its argument's bytes, which are initialised and borrowed in
    // `args`, which outlives the call: exclusively where they are written, so that nobody else reaches them, and else for
    // reading, so that nobody writes them.
    let block = unsafe { Block::new(0..items, range, &spans) };
    // SAFETY: as above, there is no other block.
    unsafe { body.run(block) };
    Ok(())
}

fn check_args(kernel: &Kernel, image: &KernelImage, args: &[Here<'_>]) -> Result<(), NotHere> {
    let (name, slots) = (kernel.name(), kernel.slots());
    if slots.len() != args.len() {
        return Err(NotHere(format!(
            "kernel `{name}` takes {} arguments, and got {}",
            slots.len(),
            args.len()
        )));
    }
    for (at, (arg, slot)) in args.iter().zip(slots).enumerate() {
        if !arg.fits(slot) {
            return Err(NotHere(format!(
                "argument {at} of kernel `{name}` is {arg:?}, and the kernel expects {slot:?}"
            )));
        }
        if let Some(what) = arg.misshapen() {
            return Err(NotHere(format!(
                "argument {at} of kernel `{name}` is {what}, which has another number of them"
            )));
        }
        image.check_len(name, at, arg.len()).map_err(|error| NotHere(error.to_string()))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::LaunchRange;
    use crate::native::NativeKernel;

    #[test]
    fn what_cannot_be_counted_in_32_bits_is_refused_by_name() {
        const SLOTS: [Slot; 1] = [Slot::Buffer(SlotAccess::Read)];
        static USES: [crate::native::SlotUse; 1] = [crate::native::SlotUse::read::<u8>("x")];
        let native = KernelImage::native(NativeKernel::new("wide", &USES, |_| panic!("it is not run")));
        let open = KernelImage::host(Arc::new(|_: Block<'_>| {}));
        let (native, open) = (Kernel::new("wide", SLOTS, [native]), Kernel::new("wide", SLOTS, [open]));
        // Nobody touches these pages.
        let x = vec![0_u8; (1 << 32) + 1];
        let says = |kernel: &Kernel, x: &[u8], range: Range, what: &str| {
            let error = run_here(kernel, &mut [Here::read(x)], range).expect_err(what);
            assert!(error.to_string().contains(what), "{error}");
        };
        says(&native, &x, 1.range(), "argument 0 of kernel `wide` has 4294967297 elements");
        says(&native, &x[..1], [2, 1 << 32].range(), "kernel `wide` over a range of [2, 4294967296]");
        says(&open, &x[..1], ((1 << 32) + 4).range(), "kernel `wide` over a range of [4294967300]");
        // A body that counts as it likes may have more elements.
        assert_eq!(run_here(&open, &mut [Here::read(&x)], 1.range()), Ok(()));
    }
}
