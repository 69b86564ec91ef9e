//! Kernels that are given addresses: on the host, and in OpenCL C.

use std::ptr::with_exposed_provenance_mut;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, LazyLock};

use windlass::DeviceCopy;
use windlass::image::{Block, Kernel, KernelImage, Slot, View};

/// `v[i] = 31 v[i] + k`, by the address of `v` as an argument.
pub(crate) static CHURN_AT: LazyLock<Kernel> = LazyLock::new(|| {
    let body = |block: Block<'_>| {
        let (v, k, items) = (argument(&block, 0), argument(&block, 1), block.items());
        // SAFETY: each launch has as many items as elements stand at the address, and the group is to change them.
        items.for_each(|i| unsafe { churn(element(v, i), k) });
    };
    let text = "__kernel void churn_at(__global uint *v, uint k) {
    v[get_global_id(0)] = 31 * v[get_global_id(0)] + k;
}";
    kernel("churn_at", [Slot::Pointer, Slot::Value(4)], body, text)
});

/// The same, by the address as a number.
pub(crate) static CHURN_BY: LazyLock<Kernel> = LazyLock::new(|| {
    let body = |block: Block<'_>| {
        let (v, k, items) = (argument(&block, 0), argument(&block, 1), block.items());
        // SAFETY: each launch has as many items as elements stand at the address, and says that it reaches them.
        items.for_each(|i| unsafe { churn(element(v, i), k) });
    };
    let text = "__kernel void churn_by(ulong at, uint k) {
    __global uint *v = (__global uint *)(uintptr_t)at;
    v[get_global_id(0)] = 31 * v[get_global_id(0)] + k;
}";
    kernel("churn_by", [Slot::Value(8), Slot::Value(4)], body, text)
});

/// `y[i] = 31 y[i] + x[i] + k`, by two addresses.
pub(crate) static FOLD_AT: LazyLock<Kernel> = LazyLock::new(|| {
    let body = |block: Block<'_>| {
        let (x, y, items) = (argument(&block, 0), argument(&block, 1), block.items());
        let k: u32 = argument(&block, 2);
        // SAFETY: each launch has as many items as elements stand at both addresses, and the group is to read and to change them.
        items.for_each(|i| unsafe { churn(element(y, i), (*element(x, i)).wrapping_add(k)) });
    };
    let text = "__kernel void fold_at(__global const uint *x, __global uint *y, uint k) {
    y[get_global_id(0)] = 31 * y[get_global_id(0)] + x[get_global_id(0)] + k;
}";
    kernel("fold_at", [Slot::Pointer, Slot::Pointer, Slot::Value(4)], body, text)
});

/// `v[i] += 1`, atomically.
pub(crate) static BUMP: LazyLock<Kernel> = LazyLock::new(|| {
    let body = |block: Block<'_>| {
        let (v, items) = (argument(&block, 0), block.items());
        items.for_each(|i| {
            // SAFETY: each launch has as many items as elements stand at the address, and whoever changes them meanwhile does it like this.
            unsafe { AtomicU32::from_ptr(element(v, i)) }.fetch_add(1, Ordering::Relaxed);
        });
    };
    let text = "__kernel void bump(volatile __global uint *v) { atomic_inc(v + get_global_id(0)); }";
    kernel("bump", [Slot::Pointer], body, text)
});

fn kernel<const N: usize>(name: &str, slots: [Slot; N], body: fn(Block<'_>), text: &str) -> Kernel {
    // SAFETY: each launch here has as many items as elements stand at the addresses that it passes, of memory that its group is to use
    // in this way.
    let text = unsafe { KernelImage::opencl_c(name, text) };
    Kernel::new(name, slots, [KernelImage::host(Arc::new(body)), text])
}

/// An argument of a launch on the host: an address, or a number.
fn argument<T: DeviceCopy>(block: &Block<'_>, at: usize) -> T {
    View::new(block.spans()[at]).get(0)
}

fn element(start: u64, at: usize) -> *mut u32 {
    with_exposed_provenance_mut(start as usize + at * size_of::<u32>())
}

/// # Safety
/// There is such an element, and nobody else uses it meanwhile.
unsafe fn churn(element: *mut u32, k: u32) {
    // SAFETY: as the caller promises.
    unsafe { *element = (*element).wrapping_mul(31).wrapping_add(k) };
}
