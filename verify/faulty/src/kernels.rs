//! Kernels for these devices' tests, over elements of type `u32`.

use std::sync::Arc;

use windlass_kernel::{Block, HostBody, Kernel, KernelImage, Slot, SlotAccess, View, ViewMut};

const BUFFER: Slot = Slot::Buffer(SlotAccess::ReadWrite);
const SOURCE: Slot = Slot::Buffer(SlotAccess::Read);
const VALUE: Slot = Slot::Value(4);

fn kernel(name: &str, slots: &[Slot], body: impl HostBody + 'static) -> Kernel {
    Kernel::new(name, slots.iter().copied(), [KernelImage::host(Arc::new(body))])
}

/// `x[i] = x[i] * 31 + k`: the arguments are `x` and `k`.
pub fn step() -> Kernel {
    kernel("step", &[BUFFER, VALUE], |block: Block<'_>| {
        let spans = block.spans();
        let (x, k) = (ViewMut::<u32>::new(spans[0]), View::<u32>::new(spans[1]).get(0));
        block.items().for_each(|i| x.set(i, stepped(x.get(i), k)));
    })
}

/// What [`step`] makes of an element.
pub fn stepped(x: u32, k: u32) -> u32 {
    x.wrapping_mul(31).wrapping_add(k)
}

/// `x[i] = i * 7 + k`, whatever was there: the arguments are `x` and `k`.
pub fn set() -> Kernel {
    kernel("set", &[BUFFER, VALUE], |block: Block<'_>| {
        let spans = block.spans();
        let (x, k) = (ViewMut::<u32>::new(spans[0]), View::<u32>::new(spans[1]).get(0));
        block.items().for_each(|i| x.set(i, (i as u32).wrapping_mul(7).wrapping_add(k)));
    })
}

/// `x[i] = x[i] * 31 + y[i % y.len()] + k`: the arguments are `x`, `y` and `k`.
pub fn blend() -> Kernel {
    kernel("blend", &[BUFFER, SOURCE, VALUE], |block: Block<'_>| {
        let spans = block.spans();
        let (x, y, k) =
            (ViewMut::<u32>::new(spans[0]), View::<u32>::new(spans[1]), View::<u32>::new(spans[2]).get(0));
        let len = y.len().max(1);
        block.items().for_each(|i| x.set(i, stepped(x.get(i), y.get(i % len).wrapping_add(k))));
    })
}

/// Panics, without a word on standard error: the arguments are `x` and `k`.
pub fn panics() -> Kernel {
    kernel("panics", &[BUFFER, VALUE], |_: Block<'_>| {
        std::panic::resume_unwind(Box::new("a kernel that panics"));
    })
}

/// The same as [`step`] by another name, so that a script can refuse it.
pub fn refused() -> Kernel {
    kernel("refused", &[BUFFER, VALUE], |_: Block<'_>| {})
}
