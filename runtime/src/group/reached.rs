//! What a kernel reaches by addresses, beside its arguments.

use std::any::{TypeId, type_name};
use std::sync::Arc;

use smallvec::SmallVec;
use windlass_engine::Mode;
use windlass_kernel::native::{REACH_BYTES, REACH_PARTS, ReachedPart, reach_table};
use windlass_kernel::{DeviceCopy, FollowsPointers, SlotAccess};

use super::accessor::{Accessor, Window as _};
use super::kernel_call::KernelCall;
use crate::args::{Pointed, PtrArg};
use crate::error::{Error, Result};
use crate::shell::Inner;
use crate::shell::work::{Binding, KernelArg};

/// Memory that a call names.
#[derive(Debug)]
pub(super) struct Reached {
    pub(super) window: Binding,
    pub(super) access: SlotAccess,
    mode: Mode,
    elem: Type,
    /// Whether it was passed as an argument, so that nobody asks whether the kernel follows it.
    is_passed: bool,
}

/// What a call knows of the pointers that its kernel follows.
#[derive(Debug, Default)]
pub(super) struct Pointers {
    /// Which argument is the table of what is reached of a type.
    tables: Vec<(usize, Type)>,
    /// Which arguments are addresses of windows.
    addresses: Vec<(usize, Binding)>,
}

impl Pointers {
    /// Whether it follows none.
    pub(super) fn is_empty(&self) -> bool {
        self.tables.is_empty()
    }

    /// Whether some stand for accessors, whose addresses only a group knows.
    pub(super) fn are_of_a_group(&self) -> bool {
        !self.tables.is_empty() || !self.addresses.is_empty()
    }
}

/// A type of elements, and its name.
#[derive(Clone, Copy, Debug)]
struct Type {
    id: TypeId,
    name: &'static str,
}

impl Type {
    fn of<T: DeviceCopy>() -> Self {
        Type { id: TypeId::of::<T>(), name: type_name::<T>() }
    }
}

impl<'g> KernelCall<'g> {
    /// Memory that is no argument: the kernel finds its [address](crate::Buffer::device_address), in a value or in what it reads, and uses
    /// it in the way that the accessor allows. Only buffers have one that [stay](crate::Queue::buffer_in) in memory with addresses.
    ///
    /// A `#[kernel]` reaches by its [pointers](crate::Ptr) what was named here or passed for one of them, and nothing else:
    ///
    /// ```
    /// use windlass::prelude::*;
    /// use windlass::{MemoryKind, Ptr};
    ///
    /// #[windlass::kernel]
    /// fn add(to: Ptr<Ptr<u32>>, by: u32) {
    ///     to.read()[global_id(0)] += by;
    /// }
    ///
    /// # fn main() -> windlass::Result<()> {
    /// let queue = Queue::blocking_on(Device::host())?;
    /// let x = queue.blocking_buffer_in::<u32, 1>(MemoryKind::Shared, 4)?;
    /// let found = queue.blocking_buffer_in::<Ptr<u32>, 1>(MemoryKind::Shared, 1)?;
    /// found.host_write().blocking_wait()?[0] = x.pointer().expect("the host has addresses");
    /// queue.submit(|cg| cg.parallel_for(4, add(cg.read(&found), 7).reaching(cg.read_write(&x))))?;
    /// // Of what it does not name it reaches nothing.
    /// queue.submit(|cg| cg.parallel_for(4, add(cg.read(&found), 7)))?;
    /// assert_eq!(x.host_read().blocking_wait()?[..], [7; 4]);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// Code of other kinds does as it likes, and its author promises that it is this:
    ///
    /// ```
    /// use windlass::prelude::*;
    /// use windlass::image::{Block, Kernel, KernelImage, Slot, View};
    /// use windlass::{KernelCall, MemoryKind};
    /// # fn main() -> windlass::Result<()> {
    /// let body = |block: Block<'_>| {
    ///     let address = View::<u64>::new(block.spans()[0]).get(0) as usize;
    ///     // SAFETY: the call names the buffer whose address that is, for writing.
    ///     unsafe { *std::ptr::with_exposed_provenance_mut::<u32>(address) = 7 };
    /// };
    /// let kernel = Kernel::new("by_address", [Slot::Value(8)], [KernelImage::host(std::sync::Arc::new(body))]);
    /// let queue = Queue::blocking_on(Device::host())?;
    /// let x = queue.blocking_buffer_in::<u32, 1>(MemoryKind::Shared, 8)?;
    /// let address = x.device_address().expect("the host has addresses");
    /// queue.submit(|cg| cg.parallel_for(1, KernelCall::new(&kernel).value(address).reaching(cg.read_write(&x))))?;
    /// assert_eq!(x.host_read().blocking_wait()?[0], 7);
    /// # Ok(())
    /// # }
    /// ```
    pub fn reaching<A: Accessor<'g>>(mut self, accessor: A) -> Self {
        self.reach_window::<A::Elem>(accessor.binding(), A::MODE.0, false);
        self
    }

    fn reach_window<T: DeviceCopy>(&mut self, window: Option<Binding>, mode: Mode, is_passed: bool) {
        let access = if mode.writes() { SlotAccess::ReadWrite } else { SlotAccess::Read };
        // Without a binding the group reports why.
        let reached = window.filter(|window| !window.is_empty());
        let elem = Type::of::<T>();
        self.reached.extend(reached.map(|window| Reached { window, access, mode, elem, is_passed }));
    }

    /// The next argument of a `#[kernel]` function: a pointer.
    #[doc(hidden)]
    pub fn pointer_argument<T: DeviceCopy>(mut self, pointer: impl PtrArg<'g, T>) -> Self {
        let address = match pointer.pointed().0 {
            Pointed::Address(address) => address,
            Pointed::Memory(window, mode) => {
                self.reach_window::<T>(window, mode, true);
                let known = window.filter(|window| !window.is_empty());
                // It is found when it is known where the group goes.
                let at = self.launch.args.len();
                self.pointers.addresses.extend(known.map(|window| (at, window)));
                0
            }
        };
        self.value(address)
    }

    /// The next argument of a `#[kernel]` function: the table of what it reaches of elements of this type, which is filled when all that
    /// the call reaches is known.
    #[doc(hidden)]
    pub fn reach<T: DeviceCopy>(mut self) -> Self {
        self.pointers.tables.push((self.launch.args.len(), Type::of::<T>()));
        self.launch.args.push(KernelArg::Value(SmallVec::from_slice(&[0; REACH_BYTES])));
        self
    }

    /// Refuses what a `#[kernel]` that follows pointers would not reach by them, and fills in addresses and tables.
    pub(super) fn fill_tables(&mut self, inner: &Arc<Inner>) -> Result<()> {
        for (at, window) in &self.pointers.addresses {
            let address = self.address(window, inner)?;
            self.launch.args[*at] = KernelArg::Value(SmallVec::from_slice(&address.to_ne_bytes()));
        }
        self.check_pointers()?;
        if self.pointers.is_empty() {
            return Ok(());
        }
        let mut parts: SmallVec<[(TypeId, ReachedPart); 4]> = SmallVec::new();
        for reached in &self.reached {
            self.check_reached(reached)?;
            let window = &reached.window;
            let (start, bytes) = (self.address(window, inner)?, window.region().bytes() as u64);
            let writes = reached.access == SlotAccess::ReadWrite;
            // What is named twice has one place in the table.
            let same = parts
                .iter_mut()
                .find(|(id, part)| *id == reached.elem.id && (part.start, part.bytes) == (start, bytes));
            match same {
                Some((_, part)) => part.writes |= writes,
                None => parts.push((reached.elem.id, ReachedPart { start, bytes, writes })),
            }
        }
        for (at, of) in &self.pointers.tables {
            let of_type = parts.iter().filter(|(id, _)| *id == of.id).map(|(_, part)| *part);
            let of_type: SmallVec<[ReachedPart; 4]> = of_type.collect();
            let Some(table) = reach_table(&of_type) else {
                return Err(Error::unsupported(format!(
                    "kernel `{}` is to reach {} parts of memory with elements of `{}`, and a launch takes {REACH_PARTS} of one \
                     type: keep them in fewer buffers, or launch it once for each few",
                    self.kernel().name(),
                    of_type.len(),
                    of.name
                )));
            };
            self.launch.args[*at] = KernelArg::Value(SmallVec::from_slice(&table));
        }
        Ok(())
    }

    /// What code reaches that follows pointers is said by its kernel's own function alone: values that are passed in another way could say
    /// that it reaches anything.
    fn check_pointers(&self) -> Result<()> {
        let name = self.kernel().name();
        match self.kernel().pointers() {
            FollowsPointers::ByItself if self.pointers.is_empty() => Err(Error::invalid(format!(
                "kernel `{name}` follows pointers, so that only the function of its name can call it, and no `KernelCall::new`"
            ))),
            FollowsPointers::ByOthersCode => Err(Error::invalid(format!(
                "kernel `{name}` has the code of another kernel, which follows pointers and can be called as that one alone"
            ))),
            FollowsPointers::No | FollowsPointers::ByItself => Ok(()),
        }
    }

    fn check_reached(&self, reached: &Reached) -> Result<()> {
        let (name, Reached { window, mode, elem, is_passed, .. }) = (self.kernel().name(), reached);
        let tables = &self.pointers.tables;
        if !is_passed && tables.iter().all(|(_, of)| of.id != elem.id) {
            let known: Vec<String> = tables.iter().map(|(_, of)| format!("`{}`", of.name)).collect();
            return Err(Error::invalid(format!(
                "kernel `{name}` is to reach elements of `{}`, and follows pointers to {} only",
                elem.name,
                known.join(" and ")
            )));
        }
        let wrong = match mode {
            Mode::Concurrent => {
                "of data that others change at the same time: only kernels take it that change it by atomic operations alone, \
                 so that it is an argument, `&[AtomicU32]`"
            }
            Mode::Overwrite => {
                "to be overwritten, and a kernel may read what it has a pointer to: use `cg.read_write`"
            }
            _ if window.has_gaps() => {
                "a part of a grid whose rows do not follow each other: name the whole grid, or each row"
            }
            _ => return Ok(()),
        };
        Err(Error::invalid(format!("memory of `{}` that kernel `{name}` is to reach is {wrong}", elem.name)))
    }

    /// The address of a window's first element.
    fn address(&self, window: &Binding, inner: &Arc<Inner>) -> Result<u64> {
        let memory = inner.enter_without_native_calls(|state, _| {
            let home = state.engine.home(window.root)?;
            state.engine.allocation(window.root, home).cloned()
        });
        match memory.and_then(|memory| memory.device_address()) {
            Some(address) => Ok(address + window.offset as u64),
            None => Err(Error::unsupported(format!(
                "memory that kernel `{}` is to reach by a pointer, of a buffer that goes where it is used and has no address: keep \
                 it in memory that has some, by `Queue::buffer_in`",
                self.kernel().name()
            ))),
        }
    }
}
