//! The bound on everything that lives in device memory.

/// A type whose values may be copied to a device byte by byte.
///
/// This is `bytemuck::Pod` under the name that users of a runtime expect: no padding, every bit pattern valid, no
/// references. It is implemented for every `Pod` type; derive `bytemuck::Pod` and `bytemuck::Zeroable` for your own.
///
/// ```
/// fn takes<T: windlass_kernel::DeviceCopy>() {}
/// takes::<f32>();
/// takes::<[u32; 4]>();
/// ```
///
/// A struct with padding is refused, because its padding bytes would be uninitialised memory on the host:
///
/// ```compile_fail
/// #[derive(Clone, Copy, bytemuck::Zeroable, bytemuck::Pod)]
/// #[repr(C)]
/// struct Padded { a: u8, b: u32 }
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot live in device memory",
    label = "not `DeviceCopy`",
    note = "elements must be `bytemuck::Pod`: no padding, no references, every bit pattern valid (so no `bool`, `Option` or enum)"
)]
pub trait DeviceCopy: bytemuck::Pod + Send + Sync {
    /// The value whose bytes are all zero.
    fn zero() -> Self {
        bytemuck::Zeroable::zeroed()
    }
}

// Else the compiler speaks of `Pod`, and not of what stands above.
#[diagnostic::do_not_recommend]
impl<T: bytemuck::Pod + Send + Sync> DeviceCopy for T {}

/// A value's bytes.
pub fn bytes_of<T: DeviceCopy>(value: &T) -> &[u8] {
    bytemuck::bytes_of(value)
}

/// The bytes of a slice's elements.
pub fn slice_bytes<T: DeviceCopy>(slice: &[T]) -> &[u8] {
    bytemuck::cast_slice(slice)
}

/// The bytes of a slice's elements, to be written: every pattern is an element.
pub fn slice_bytes_mut<T: DeviceCopy>(slice: &mut [T]) -> &mut [u8] {
    bytemuck::cast_slice_mut(slice)
}
