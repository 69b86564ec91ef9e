//! What a kernel's parameters take: accessors of a group, and, for [`KernelCall::run_here`], slices of the caller's.
//!
//! A `#[kernel]` function asks for these traits by what its body does with each parameter, so a wrong argument is an
//! error of the compiler at the place where the kernel is called.
//!
//! [`KernelCall::run_here`]: crate::KernelCall::run_here

use windlass_kernel::{DeviceCopy, Here, Ptr};

use crate::group::sealed::Sealed;
use crate::group::{
    Accessor, Atomic, Concurrent, Overwrite, Read, ReadWrite, ReadWriteUninit, Window as _, Write,
};
use crate::shell::work::Binding;
use windlass_engine::Mode;

/// An argument on its way into a call; for the crate's own use.
#[doc(hidden)]
#[allow(unnameable_types, reason = "only the crate itself looks inside")]
#[derive(Debug)]
pub struct Argument<'g>(pub(crate) Passed<'g>);

#[derive(Debug)]
pub(crate) enum Passed<'g> {
    Accessor(Option<Binding>, Mode),
    /// Memory of the caller's, for `run_here`.
    Here(Here<'g>),
}

impl Argument<'_> {
    fn of<'g, A: Accessor<'g>>(accessor: &A) -> Self {
        Argument(Passed::Accessor(accessor.binding(), A::MODE.0))
    }

    /// The extents of what it shows, outermost first, as kernels count them.
    pub(crate) fn extents<const D: usize>(&self) -> [u32; D] {
        let size = match &self.0 {
            Passed::Accessor(binding, _) => binding.map_or([0; 3], |binding| binding.extent.size),
            Passed::Here(here) => here.size(),
        };
        std::array::from_fn(|dim| as_counted(size[3 - D + dim]))
    }
}

/// An extent as kernels count it. What has more elements than they can count is refused as a whole.
pub(crate) fn as_counted(extent: usize) -> u32 {
    u32::try_from(extent).unwrap_or(u32::MAX)
}

impl<T> Sealed for &[T] {}
impl<T> Sealed for &mut [T] {}
impl<T> Sealed for &Vec<T> {}
impl<T> Sealed for &mut Vec<T> {}
impl<S: Sealed, const D: usize> Sealed for (S, [usize; D]) {}

/// An argument for a parameter that the kernel only reads, `&[T]` or `&View<T, D>`: `cg.read(&buffer)`, or an
/// accessor that may read among other things.
///
/// ```
/// use windlass::args::{ReadArg, WriteArg};
/// use windlass::prelude::*;
///
/// #[windlass::kernel]
/// fn doubled(x: &[u32], y: &mut [u32]) {
///     y[global_id(0)] = 2 * x[global_id(0)];
/// }
///
/// /// Launches the kernel over whatever accessors the caller has.
/// fn double<'g>(
///     cg: &CommandGroup<'g>,
///     x: impl ReadArg<'g, u32>,
///     y: impl WriteArg<'g, u32>,
/// ) -> windlass::Result<()> {
///     cg.parallel_for(2, doubled(x, y))
/// }
///
/// # fn main() -> windlass::Result<()> {
/// let queue = Queue::blocking_new()?;
/// let (x, y) = (Buffer::from(vec![1_u32, 2]), Buffer::from(vec![0_u32; 2]));
/// queue.submit(|cg| double(cg, cg.read(&x), cg.overwrite(&y)))?;
/// queue.submit(|cg| double(cg, cg.read_write(&y), cg.write(&x)))?;
/// assert_eq!(x.host_read().blocking_wait()?[..], [4, 8]);
/// # Ok(()) }
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be passed for a kernel parameter that reads `{T}`",
    label = "it takes `cg.read` of a buffer of `{T}` in {D} dimension(s)",
    note = "the kernel reads elements of type `{T}` in {D} dimension(s) here: `cg.read(&buffer)` or `cg.read_write(&buffer)`; \
            in a test, with `run_here`, also a slice, or `(&slice[..], shape)` where there is more than one dimension"
)]
pub trait ReadArg<'g, T, const D: usize = 1>: Sealed {
    #[doc(hidden)]
    fn argument(self) -> Argument<'g>;
}

/// An argument for a parameter that the kernel reads and writes, `&mut [T]` or `&mut View<T, D>`.
///
/// ```
/// use windlass::args::UpdateArg;
/// use windlass::prelude::*;
///
/// #[windlass::kernel]
/// fn doubled(v: &mut [u32]) {
///     v[global_id(0)] *= 2;
/// }
///
/// /// Launches the kernel in a group, and on a slice in a test.
/// fn double<'g>(v: impl UpdateArg<'g, u32>) -> windlass::KernelCall<'g> {
///     doubled(v)
/// }
///
/// # fn main() -> windlass::Result<()> {
/// let mut v = [1, 2, 3];
/// double(&mut v[..]).run_here(3)?;
/// let (queue, buffer) = (Queue::blocking_new()?, Buffer::from(v.to_vec()));
/// queue.submit(|cg| cg.parallel_for(3, double(cg.read_write(&buffer))))?;
/// assert_eq!(buffer.host_read().blocking_wait()?[..], [4, 8, 12]);
/// # Ok(()) }
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be passed for a kernel parameter that reads and writes `{T}`",
    label = "it takes `cg.read_write` of a buffer of `{T}` in {D} dimension(s)",
    note = "the kernel reads elements of type `{T}` in {D} dimension(s) here, and writes them: `cg.read_write(&buffer)`; \
            `cg.overwrite(&buffer)` is for kernels that read nothing back. In a test, with `run_here`, also a `&mut` slice, \
            or `(&mut slice[..], shape)` where there is more than one dimension"
)]
pub trait UpdateArg<'g, T, const D: usize = 1>: Sealed {
    #[doc(hidden)]
    fn argument(self) -> Argument<'g>;
}

/// An argument for a parameter that the kernel only writes, `&mut [T]` or `&mut View<T, D>`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be passed for a kernel parameter that writes `{T}`",
    label = "it takes `cg.overwrite` of a buffer of `{T}` in {D} dimension(s)",
    note = "the kernel writes elements of type `{T}` in {D} dimension(s) here: `cg.overwrite(&buffer)`, or `cg.write(&buffer)` \
            if it leaves some of them as they are; in a test, with `run_here`, also a `&mut` \
            slice, or `(&mut slice[..], shape)` where there is more than one dimension"
)]
pub trait WriteArg<'g, T, const D: usize = 1>: Sealed {
    #[doc(hidden)]
    fn argument(self) -> Argument<'g>;
}

/// An argument for a parameter of atomics, `&[AtomicU32]` and its kind.
///
/// ```
/// use windlass::args::{AtomicArg, ReadArg};
/// use windlass::prelude::*;
///
/// #[windlass::kernel]
/// fn counted(v: &[u32], odd: &[AtomicU32]) {
///     if v[global_id(0)] % 2 == 1 {
///         odd[0].fetch_add(1, Relaxed);
///     }
/// }
///
/// /// Adds to a count of the caller's.
/// fn count<'g>(v: impl ReadArg<'g, u32>, odd: impl AtomicArg<'g, u32>) -> windlass::KernelCall<'g> {
///     counted(v, odd)
/// }
///
/// let mut odd = [0];
/// count(&[1, 2, 3][..], &mut odd[..]).run_here(3).unwrap();
/// assert_eq!(odd, [2]);
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be passed for a kernel parameter of atomics of `{T}`",
    label = "it takes `cg.atomic` of a buffer of `{T}` in {D} dimension(s)",
    note = "the kernel changes elements of type `{T}` atomically here: `cg.atomic(&buffer)`; in a test, with `run_here`, \
            also a `&mut` slice, or `(&mut slice[..], shape)` where there is more than one dimension"
)]
pub trait AtomicArg<'g, T, const D: usize = 1>: Sealed {
    #[doc(hidden)]
    fn argument(self) -> Argument<'g>;
}

/// An argument for a parameter that is a pointer, `Ptr<T>`: one that was [found](crate::Buffer::pointer), or an accessor of memory that has
/// addresses, which stands for a pointer to its first element, and which the kernel may then reach.
///
/// ```
/// use windlass::args::{PtrArg, WriteArg};
/// use windlass::prelude::*;
/// use windlass::MemoryKind;
///
/// #[windlass::kernel]
/// fn first(x: Ptr<u32>, out: &mut [u32]) {
///     out[0] = x.read();
/// }
///
/// /// Reads the first element of whatever the caller points to.
/// fn look<'g>(x: impl PtrArg<'g, u32>, out: impl WriteArg<'g, u32>) -> windlass::KernelCall<'g> {
///     first(x, out)
/// }
///
/// # fn main() -> windlass::Result<()> {
/// let queue = Queue::blocking_on(Device::host())?;
/// let (x, out) = (queue.blocking_import(MemoryKind::Shared, vec![3_u32, 4])?, Buffer::<u32>::new(1));
/// queue.submit(|cg| cg.parallel_for(1, look(cg.read(&x), cg.overwrite(&out))))?;
/// assert_eq!(out.host_read().blocking_wait()?[0], 3);
/// let second = x.range(1..).pointer().expect("the host has addresses");
/// queue.submit(|cg| cg.parallel_for(1, look(second, cg.overwrite(&out)).reaching(cg.read(&x))))?;
/// assert_eq!(out.host_read().blocking_wait()?[0], 4);
/// # Ok(()) }
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be passed for a kernel parameter that is a pointer to `{T}`",
    label = "it takes an accessor of a buffer of `{T}`, or a `Ptr<{T}>`",
    note = "the kernel follows a pointer to elements of type `{T}` here: `cg.read(&buffer)` or `cg.read_write(&buffer)` of a buffer \
            that stays in memory with addresses, or `buffer.pointer()` of one that the call names by `reaching`"
)]
pub trait PtrArg<'g, T>: Sealed {
    #[doc(hidden)]
    fn pointed(self) -> PointerTo;
}

/// Where a pointer leads; for the crate's own use.
#[doc(hidden)]
#[allow(unnameable_types, reason = "only the crate itself looks inside")]
#[derive(Debug)]
pub struct PointerTo(pub(crate) Pointed);

#[derive(Debug)]
pub(crate) enum Pointed {
    Address(u64),
    Memory(Option<Binding>, Mode),
}

impl<T> Sealed for Ptr<T> {}

impl<T> PtrArg<'_, T> for Ptr<T> {
    fn pointed(self) -> PointerTo {
        PointerTo(Pointed::Address(self.address()))
    }
}

macro_rules! points {
    ($($accessor:ident)*) => {$(
        impl<'g, T: DeviceCopy, const D: usize> PtrArg<'g, T> for $accessor<'g, T, D> {
            fn pointed(self) -> PointerTo {
                PointerTo(Pointed::Memory(self.binding(), <Self as Accessor<'g>>::MODE.0))
            }
        }

        impl<'g, T: DeviceCopy, const D: usize> PtrArg<'g, T> for &$accessor<'g, T, D> {
            fn pointed(self) -> PointerTo {
                PointerTo(Pointed::Memory(self.binding(), <Self as Accessor<'g>>::MODE.0))
            }
        }
    )*};
}
points! { Read Write ReadWrite ReadWriteUninit }

macro_rules! takes {
    ($($name:ident: $($accessor:ident)*, $($make:ident $slice:ty)*;)*) => {$(
        $(
            impl<'g, T: DeviceCopy, const D: usize> $name<'g, T, D> for $accessor<'g, T, D> {
                fn argument(self) -> Argument<'g> {
                    Argument::of(&self)
                }
            }

            impl<'g, T: DeviceCopy, const D: usize> $name<'g, T, D> for &$accessor<'g, T, D> {
                fn argument(self) -> Argument<'g> {
                    Argument::of(self)
                }
            }
        )*
        $(
            impl<'g, T: DeviceCopy> $name<'g, T> for $slice {
                fn argument(self) -> Argument<'g> {
                    Argument(Passed::Here(Here::$make(self)))
                }
            }

            impl<'g, T: DeviceCopy, const D: usize> $name<'g, T, D> for ($slice, [usize; D]) {
                fn argument(self) -> Argument<'g> {
                    Argument(Passed::Here(Here::$make(self.0).with_shape(self.1)))
                }
            }
        )*
    )*};
}
takes! {
    ReadArg: Read ReadWrite ReadWriteUninit, read &'g [T] read &'g Vec<T>;
    UpdateArg: ReadWrite ReadWriteUninit, write &'g mut [T] write &'g mut Vec<T>;
    WriteArg: Overwrite Write ReadWrite ReadWriteUninit, write &'g mut [T] write &'g mut Vec<T>;
    AtomicArg: Atomic Concurrent, write &'g mut [T] write &'g mut Vec<T>;
}
