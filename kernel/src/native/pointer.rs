//! Addresses of elements, as kernels and the memory that they read have them.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::marker::PhantomData;

use bytemuck::{Pod, Zeroable};

use super::number::Zero;

/// The address of a `T` in memory that stays in one place: what kernels follow, and what stands in structs and in buffers.
///
/// It is a number of 64 bits and keeps nothing alive. Whoever has one may do with it what they like: a kernel reaches what it leads to
/// only where its launch has named that memory, of elements of this type. Anywhere else reading gives zero, and writing does nothing.
#[repr(transparent)]
pub struct Ptr<T> {
    address: u64,
    of: PhantomData<fn() -> T>,
}

impl<T> Ptr<T> {
    /// The address that leads nowhere.
    ///
    /// ```
    /// use windlass_kernel::Ptr;
    /// assert!(Ptr::<f32>::null().is_null() && Ptr::<f32>::default().is_null());
    /// ```
    #[inline]
    pub const fn null() -> Self {
        Self::from_address(0)
    }

    /// A pointer to this address.
    ///
    /// ```
    /// use windlass_kernel::Ptr;
    /// assert_eq!(Ptr::<f32>::from_address(64).address(), 64);
    /// ```
    #[inline]
    pub const fn from_address(address: u64) -> Self {
        Ptr { address, of: PhantomData }
    }

    /// The address.
    #[inline]
    pub const fn address(self) -> u64 {
        self.address
    }

    /// Whether it leads nowhere.
    #[inline]
    pub const fn is_null(self) -> bool {
        self.address == 0
    }

    /// The element so many behind this one.
    ///
    /// ```
    /// use windlass_kernel::Ptr;
    /// let x = Ptr::<u64>::from_address(64);
    /// assert_eq!((x.add(2).address(), x.add(2).sub(3).address()), (80, 56));
    /// ```
    #[inline]
    #[allow(clippy::should_implement_trait, reason = "the name that pointers have in Rust")]
    pub const fn add(self, elements: usize) -> Self {
        Self::from_address(self.address.wrapping_add((elements as u64).wrapping_mul(size_of::<T>() as u64)))
    }

    /// The element so many before this one.
    #[inline]
    #[allow(clippy::should_implement_trait, reason = "the name that pointers have in Rust")]
    pub const fn sub(self, elements: usize) -> Self {
        Self::from_address(self.address.wrapping_sub((elements as u64).wrapping_mul(size_of::<T>() as u64)))
    }
}

// Derived ones would ask the same of `T`, of which there is none here.
impl<T> Clone for Ptr<T> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<T> Copy for Ptr<T> {}

impl<T> PartialEq for Ptr<T> {
    fn eq(&self, other: &Self) -> bool {
        self.address == other.address
    }
}
impl<T> Eq for Ptr<T> {}

impl<T> Hash for Ptr<T> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.address.hash(state);
    }
}

impl<T> Default for Ptr<T> {
    fn default() -> Self {
        Self::null()
    }
}

impl<T> fmt::Debug for Ptr<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Ptr({:#x})", self.address)
    }
}

// SAFETY: it is a number and nothing else, of which zero is one.
unsafe impl<T> Zeroable for Ptr<T> {}
// SAFETY: it is a number and nothing else: without padding, and any bits are one. What it leads to is not part of it, and nobody
// reaches that by the pointer alone.
unsafe impl<T: 'static> Pod for Ptr<T> {}

impl<T> Zero for Ptr<T> {
    const ZERO: Self = Self::null();
}
