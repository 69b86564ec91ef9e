//! The identity behind all handles to one buffer.

use std::any::{Any, TypeId};
use std::panic::Location;
use std::sync::{Arc, OnceLock, Weak};

use windlass_backend::{Allocation, HostMemory, ImageShape, Region};
use windlass_kernel::{DeviceCopy, Word};
use windlass_sync::facade::{Mutex, lock};
use windlass_sync::forked;

use super::Window;
use super::grid::{Cover, Grid};
use super::placed::Home;
use super::unbound::Unbound;
use crate::error::{Error, Kind, Result};
use crate::shell::holders::AboutRoot;
use crate::shell::pinned::Filling;
use crate::shell::work::{Binding, window_region};
use crate::shell::{Effects, Inner, Message, NativeCalls, Windlass};
use windlass_engine::{Box3, Initial, MemoryId, Mode, RootId, RootShape};

/// Order and validity are exact to this many bytes.
const GRANULE: usize = 4;

/// Shape, type and, once used, its place in a runtime.
#[derive(Debug)]
pub(crate) struct Root {
    shape: [usize; 3],
    element: usize,
    element_type: TypeId,
    word: Word,
    /// To how many bytes its memory on the host is aligned at least.
    align: usize,
    /// How many of the engine's units only count together.
    page: [usize; 3],
    /// It is an image: devices that have such keep it as one.
    image: Option<ImageShape>,
    /// It stays there.
    home: Option<Home>,
    bound: OnceLock<Bound>,
    pub(super) unbound: Mutex<Unbound>,
}

/// A buffer's place in a runtime, and who gave it that place.
#[derive(Debug)]
struct Bound {
    inner: Arc<Inner>,
    root: RootId,
    at: &'static Location<'static>,
}

impl Root {
    pub(super) fn new<T: DeviceCopy>(shape: [usize; 3], data: Option<HostMemory>) -> Self {
        let align = data.as_ref().map_or(FRESH_ALIGN, |data| align_of_memory(data));
        Root {
            shape,
            element: size_of::<T>(),
            element_type: TypeId::of::<T>(),
            word: Word::of::<T>(),
            align,
            page: [1; 3],
            image: None,
            home: None,
            bound: OnceLock::new(),
            unbound: Mutex::new(Unbound::new(data)),
        }
    }

    /// Has it counted in pages of so many elements, which are more where an element is no whole granule.
    pub(super) fn take_pages(&mut self, elements: [usize; 3]) -> std::result::Result<(), String> {
        if self.bound.get().is_some() || self.image.is_some() {
            return Err("pages for a buffer that a queue has used, or an image".into());
        }
        // A page that is larger than the buffer is the buffer.
        let page = [0, 1, 2].map(|d| elements[d].min(self.shape[d].max(1)));
        self.page = match self.is_granular() {
            true => page,
            false => [1, 1, self.granules_of(page)],
        };
        Ok(())
    }

    /// How many granules come to whole pages of so many elements. Where these have rows, whole rows or slices stand for them.
    fn granules_of(&self, page: [usize; 3]) -> usize {
        let [_, rows, row] = self.shape;
        let longest = [rows * row, row, 1].into_iter().zip(page).find(|(_, elements)| *elements > 1);
        let bytes = longest.map_or(1, |(pitch, elements)| pitch * elements) * self.element;
        match bytes % GRANULE {
            0 => bytes / GRANULE,
            2 => bytes / 2,
            _ => bytes,
        }
    }

    /// Has devices keep it as this image, unless it is too late for that.
    pub(super) fn take_image(&mut self, image: ImageShape) -> bool {
        let is_fresh = self.bound.get().is_none() && self.page == [1; 3];
        self.image = is_fresh.then_some(image).or(self.image);
        is_fresh
    }

    /// Puts it in one place for good, with what is given to it there.
    pub(super) fn put(
        &mut self,
        home: Home,
        given: Initial<Arc<dyn Allocation>>,
        inner: &Arc<Inner>,
        at: &'static Location<'static>,
    ) -> Result<()> {
        let shape = self.as_engine_has_it(Some(home.memory), at);
        if let Initial::Written(memory) = &given {
            self.align = align_of_memory(&**memory);
        }
        // The context may have gone while the memory was made.
        let root = inner.enter_without_native_calls(|state, turn| {
            let given = state.engine.receive(home.memory, given, turn).map_err(|cause| cause.0)?;
            Ok::<_, Error>(state.engine.add_root(shape, given))
        })?;
        self.home = Some(home);
        self.bound = OnceLock::from(Bound { inner: inner.clone(), root, at });
        Ok(())
    }

    /// Binds it with what has been gathered for it in pinned memory.
    pub(super) fn put_gathered(&mut self, gathered: Filling, at: &'static Location<'static>) {
        assert_eq!(gathered.filled(), self.bytes(), "nobody sees more than was gathered");
        let (shape, inner) = (self.as_engine_has_it(None, at), gathered.inner().clone());
        let (memory, by) = gathered.finish();
        self.align = align_of_memory(&*memory);
        let given = Initial::Pinned(memory, by);
        let root = Effects::with(NativeCalls::Here, |effects| {
            let root = inner.name_root(shape, given, effects);
            inner.perform(effects);
            root
        });
        self.bound = OnceLock::from(Bound { inner, root, at });
    }

    /// Tells how many handles there are.
    pub(crate) fn weak(self: &Arc<Self>) -> Weak<dyn Any + Send + Sync> {
        let weak: Weak<Root> = Arc::downgrade(self);
        weak
    }

    /// Where it stays, if it does.
    pub(crate) fn home(&self) -> Option<&Home> {
        self.home.as_ref()
    }

    pub(super) fn is_image(&self) -> bool {
        self.image.is_some()
    }

    /// The engine's units of it: its elements where those are whole granules, and else the granules of its bytes in a line.
    fn grid(&self) -> Grid {
        let (bytes, page) = (self.bytes(), self.page);
        match self.is_granular() {
            true => Grid { extent: self.shape, unit: self.element, page, bytes },
            false => Grid { extent: [1, 1, bytes.div_ceil(GRANULE)], unit: GRANULE, page, bytes },
        }
    }

    fn as_engine_has_it(
        &self,
        home: Option<MemoryId>,
        at: &'static Location<'static>,
    ) -> RootShape<Windlass> {
        let grid = self.grid();
        let image = if home.is_some() { None } else { self.image };
        let object = AboutRoot { image, at: Some(at) };
        RootShape { extent: grid.extent(), unit: grid.unit, bytes: grid.bytes, object, home }
    }

    pub(super) fn shape(&self) -> [usize; 3] {
        self.shape
    }

    pub(super) fn word(&self) -> Word {
        self.word
    }

    pub(super) fn element_type(&self) -> TypeId {
        self.element_type
    }

    pub(super) fn align(&self) -> usize {
        self.align
    }

    /// Whether a window shows all of it, from the first byte to the last.
    pub(super) fn is_whole(&self, window: &Window, element: usize) -> bool {
        match window.bounds {
            Some(bounds) => bounds == Box3 { lo: [0; 3], hi: self.shape },
            None => {
                let region = window_region(window.offset, &window.extent, element);
                region.offset == 0 && region.is_contiguous() && region.bytes() == self.bytes()
            }
        }
    }

    pub(crate) fn bytes(&self) -> usize {
        self.shape.iter().product::<usize>() * self.element
    }

    /// Whether elements are whole granules, so that boxes of elements are what the engine tracks. Else it tracks
    /// granules of the bytes in a line.
    fn is_granular(&self) -> bool {
        self.element.is_multiple_of(GRANULE)
    }

    /// What the engine of that runtime calls it.
    pub(crate) fn id(&self) -> Option<RootId> {
        self.bound.get().map(|bound| bound.root)
    }

    /// The runtime that used the buffer first.
    pub(crate) fn owner(&self) -> Option<&Arc<Inner>> {
        self.bound.get().map(|bound| &bound.inner)
    }

    /// Binds the buffer to a runtime, or checks that it is bound to this one.
    pub(crate) fn bind(&self, inner: &Arc<Inner>, at: &'static Location<'static>) -> Result<RootId> {
        let bound = match self.bound.get() {
            Some(bound) => bound,
            None => self.bind_first(inner, at),
        };
        match Arc::ptr_eq(&bound.inner, inner) {
            true => Ok(bound.root),
            false => Err(Error::new(Kind::OtherRuntime { first: bound.at })),
        }
    }

    /// Two threads may come here at once, so whoever binds does so under the data's lock. What a turn of the engine's lock
    /// leaves to do, others' native calls and wakers, waits until that is free: it may use this buffer.
    fn bind_first(&self, inner: &Arc<Inner>, at: &'static Location<'static>) -> &Bound {
        Effects::with(NativeCalls::Here, |effects| self.bind_under_the_lock(inner, at, effects))
    }

    fn bind_under_the_lock(
        &self,
        inner: &Arc<Inner>,
        at: &'static Location<'static>,
        effects: &mut Effects,
    ) -> &Bound {
        let mut unbound = lock(&self.unbound);
        let bound = self.bound.get_or_init(|| {
            let shape = self.as_engine_has_it(None, at);
            // Zeros that were only read need not be moved anywhere.
            let is_written = unbound.is_written;
            let data = unbound.data.take().filter(|_| is_written);
            let root = inner.name_root(shape, data.map_or(Initial::None, Initial::Written), effects);
            if unbound.has_accessors() {
                inner.with_state(effects, |state, turn| unbound.take_places(root, inner, state, turn));
            }
            Bound { inner: inner.clone(), root, at }
        });
        drop(unbound);
        inner.perform(effects);
        bound
    }

    /// All that a window touches, in the engine's units.
    pub(super) fn units(&self, window: &Window, element: usize) -> Box3 {
        match window.extent.is_empty() {
            true => Box3::line(0, 0),
            false => self.cover(window, || window_region(window.offset, &window.extent, element)).outer,
        }
    }

    fn cover(&self, window: &Window, region: impl FnOnce() -> Region) -> Cover {
        match window.bounds.filter(|_| self.is_granular()) {
            Some(bounds) => self.grid().of_box(bounds),
            None => self.grid().of_bytes(&region()),
        }
    }

    /// A window in the engine's units. Where a use that does not want what was there ends inside a unit, that unit's other bytes are
    /// somebody else's: there the use keeps them, and so needs them.
    pub(super) fn pieces(
        &self,
        window: &Window,
        binding: &Binding,
        mode: Mode,
        mut each: impl FnMut(Box3, Mode),
    ) {
        if binding.is_empty() {
            return;
        }
        // Nearly all uses are of this kind.
        if let Some(bounds) = window.bounds.filter(|_| self.is_granular() && self.page == [1; 3]) {
            return each(bounds, mode);
        }
        let cover = self.cover(window, || binding.region());
        let kept = match mode {
            Mode::Overwrite => Mode::Write,
            Mode::ReadWriteUninit => Mode::ReadWrite,
            other => return each(cover.outer, other),
        };
        cover.edges().into_iter().for_each(|edge| each(edge, kept));
        cover.inner.into_iter().for_each(|inner| each(inner, mode));
    }
}

/// Host memory that is not a vector's is aligned to this many bytes at least.
const FRESH_ALIGN: usize = 64;

/// To how many bytes memory is aligned, as far as that is ever asked.
fn align_of_memory(memory: &dyn Allocation) -> usize {
    let at = memory.host_ptr().map_or(0, |start| start.addr().get());
    1 << at.trailing_zeros().min(FRESH_ALIGN.trailing_zeros())
}

impl Drop for Root {
    fn drop(&mut self) {
        if let Some(Bound { inner, root, .. }) = self.bound.take().filter(|_| !forked::is_child()) {
            inner.post(NativeCalls::Elsewhere, Message::Release(root));
        }
    }
}
