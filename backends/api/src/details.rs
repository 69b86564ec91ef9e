//! What drivers tell of a device's hardware that nothing here depends on.

/// What is known of a device's hardware, for programs that choose sizes and layouts by it. The runtime itself uses none of it. What a driver
/// does not tell is `None`, or empty.
///
/// ```
/// use windlass_backend::{Cache, Details};
/// let details = Details::new().clock(1980).subgroup_sizes([32]).cache(Cache::new(50 << 20, Some(128)));
/// assert_eq!(details.clock_mhz, Some(1980));
/// assert_eq!(details.cache.and_then(|cache| cache.line), Some(128));
/// assert_eq!(details.address_bits, None);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Details {
    /// The number that the PCI consortium, or Khronos, knows its maker by.
    pub vendor_id: Option<u32>,
    /// The highest clock of its compute units, in MHz.
    pub clock_mhz: Option<u32>,
    /// Bits of an address in kernels.
    pub address_bits: Option<u32>,
    /// Bytes that all arguments of a kernel may have together.
    pub argument_bytes: Option<usize>,
    /// Work-items along each dimension of a work-group, the last of which changes fastest. All together are bounded by
    /// [`Limits::work_group_items`](crate::Limits::work_group_items).
    pub work_group_extent: Option<[usize; 3]>,
    /// How many work-items a sub-group may have, in rising order: all sizes that the driver names, or the least and the most.
    pub subgroup_sizes: Vec<u32>,
    /// The most sub-groups in a work-group.
    pub subgroups: Option<u32>,
    /// The cache between its compute units and its memory.
    pub cache: Option<Cache>,
    /// Local memory is memory of its own, beside that which all work-groups use.
    pub has_local_memory: Option<bool>,
    /// The alignment in bytes that its memory's allocations have at least.
    pub alignment: Option<usize>,
    /// Nanoseconds from one tick to the next of the clock by which it tells when groups ran.
    pub tick_ns: Option<u64>,
    /// Its memory mends errors.
    pub corrects_errors: Option<bool>,
    /// How many numbers its units work on at a time by one instruction of one work-item.
    pub vector_widths: Option<VectorWidths>,
    /// What its 16-, 32- and 64-bit floats do.
    pub floats: [Option<Floats>; 3],
}

/// A cache of a device's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Cache {
    /// Its size.
    pub bytes: u64,
    /// The bytes that come and go together.
    pub line: Option<usize>,
}

impl Cache {
    /// A cache of so many bytes, in lines of so many.
    pub const fn new(bytes: u64, line: Option<usize>) -> Self {
        Cache { bytes, line }
    }
}

/// How many numbers of each type are worked on at a time; 0 of those that the device has not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct VectorWidths {
    /// Of 8 bits.
    pub i8: u32,
    /// Of 16 bits.
    pub i16: u32,
    /// Of 32 bits.
    pub i32: u32,
    /// Of 64 bits.
    pub i64: u32,
    /// 16-bit floats.
    pub f16: u32,
    /// 32-bit floats.
    pub f32: u32,
    /// 64-bit floats.
    pub f64: u32,
}

impl VectorWidths {
    /// So many integers of 8, 16, 32 and 64 bits, and no floats.
    pub const fn of_integers(i8: u32, i16: u32, i32: u32, i64: u32) -> Self {
        VectorWidths { i8, i16, i32, i64, f16: 0, f32: 0, f64: 0 }
    }

    /// So many floats of 16, 32 and 64 bits.
    pub const fn floats(self, f16: u32, f32: u32, f64: u32) -> Self {
        VectorWidths { f16, f32, f64, ..self }
    }
}

/// What floats of one width do beyond what every device's do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Floats {
    /// Numbers too small to be normal are not taken for zero.
    pub denormals: bool,
    /// There are infinities and what is no number.
    pub infinities: bool,
    /// A product and a sum are rounded once.
    pub fused: bool,
    /// Quotients and square roots are rounded as IEEE 754 has it.
    pub exact_quotients: bool,
}

impl Floats {
    /// Floats as IEEE 754 has them.
    pub const IEEE: Self = Floats { denormals: true, infinities: true, fused: true, exact_quotients: true };

    /// Whether they have numbers too small to be normal, infinities, a fused product and sum, and quotients that are rounded well.
    pub const fn new(denormals: bool, infinities: bool, fused: bool, exact_quotients: bool) -> Self {
        Floats { denormals, infinities, fused, exact_quotients }
    }
}

impl Details {
    /// Nothing is known.
    pub fn new() -> Self {
        Details::default()
    }

    /// The maker's number.
    pub fn vendor_id(self, id: u32) -> Self {
        Details { vendor_id: Some(id), ..self }
    }

    /// The highest clock, in MHz; none is zero.
    pub fn clock(self, mhz: u32) -> Self {
        Details { clock_mhz: (mhz > 0).then_some(mhz), ..self }
    }

    /// Bits of an address.
    pub fn address_bits(self, bits: u32) -> Self {
        Details { address_bits: Some(bits), ..self }
    }

    /// Bytes of a kernel's arguments.
    pub fn argument_bytes(self, bytes: usize) -> Self {
        Details { argument_bytes: Some(bytes), ..self }
    }

    /// The most work-items along each dimension of a work-group, the last of which changes fastest.
    pub fn work_group_extent(self, items: [usize; 3]) -> Self {
        Details { work_group_extent: Some(items), ..self }
    }

    /// The sizes of sub-groups, in any order.
    pub fn subgroup_sizes(self, sizes: impl IntoIterator<Item = u32>) -> Self {
        let mut sizes: Vec<u32> = sizes.into_iter().filter(|size| *size > 0).collect();
        sizes.sort_unstable();
        sizes.dedup();
        Details { subgroup_sizes: sizes, ..self }
    }

    /// The most sub-groups in a work-group; there are none of which there are zero.
    pub fn subgroups(self, count: u32) -> Self {
        Details { subgroups: (count > 0).then_some(count), ..self }
    }

    /// The cache of its memory.
    pub fn cache(self, cache: Cache) -> Self {
        Details { cache: Some(cache), ..self }
    }

    /// Whether local memory is memory of its own.
    pub fn has_local_memory(self, has: bool) -> Self {
        Details { has_local_memory: Some(has), ..self }
    }

    /// The least alignment of its memory's allocations, in bytes.
    pub fn alignment(self, bytes: usize) -> Self {
        Details { alignment: Some(bytes), ..self }
    }

    /// The nanoseconds between two ticks of its clock.
    pub fn tick(self, ns: u64) -> Self {
        Details { tick_ns: (ns > 0).then_some(ns), ..self }
    }

    /// Whether its memory mends errors.
    pub fn corrects_errors(self, corrects: bool) -> Self {
        Details { corrects_errors: Some(corrects), ..self }
    }

    /// How many numbers are worked on at a time.
    pub fn vector_widths(self, widths: VectorWidths) -> Self {
        Details { vector_widths: Some(widths), ..self }
    }

    /// What its floats of 16, 32 and 64 bits do; `None` for those that it has not.
    pub fn floats(self, floats: [Option<Floats>; 3]) -> Self {
        Details { floats, ..self }
    }
}
