//! The identity behind all handles to one buffer.

use std::panic::Location;
use std::sync::{Arc, OnceLock};

use windlass_backend::{Allocation, HostMemory, ImageShape, Region};
use windlass_kernel::Word;
use windlass_sync::facade::{Mutex, lock};

use super::placed::Home;
use super::unbound::Unbound;
use crate::error::{Error, Kind, Result};
use crate::shell::work::Binding;
use crate::shell::{Effects, Inner, NativeCalls};
use windlass_engine::{Box3, Initial, Mode, RootId, RootShape};

/// Order and validity are exact to this many bytes.
const GRANULE: usize = 4;

/// Shape, type and, once used, its place in a runtime.
#[derive(Debug)]
pub(crate) struct Root {
    shape: [usize; 3],
    element: usize,
    word: Word,
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
    pub(super) fn new(shape: [usize; 3], element: usize, word: Word, data: Option<HostMemory>) -> Self {
        let unbound = Mutex::new(Unbound::new(data));
        Root { shape, element, word, image: None, home: None, bound: OnceLock::new(), unbound }
    }

    /// The same as an image.
    pub(super) fn with_image(mut self, image: ImageShape) -> Self {
        self.image = Some(image);
        self
    }

    /// Puts it in one place for good, with what is given to it there.
    pub(super) fn put(
        &mut self,
        home: Home,
        given: Initial<Arc<dyn Allocation>>,
        inner: &Arc<Inner>,
        at: &'static Location<'static>,
    ) -> Result<()> {
        let (extent, unit) = self.units_of_all();
        let shape = RootShape { extent, unit, bytes: self.bytes(), object: None, home: Some(home.memory) };
        // The context may have gone while the memory was made.
        let root = inner.enter_without_native_calls(|state, turn| {
            let given = state.engine.receive(home.memory, given, turn).map_err(|cause| cause.0)?;
            Ok::<_, Error>(state.engine.add_root(shape, given))
        })?;
        self.home = Some(home);
        self.bound = OnceLock::from(Bound { inner: inner.clone(), root, at });
        Ok(())
    }

    /// Where it stays, if it does.
    pub(crate) fn home(&self) -> Option<&Home> {
        self.home.as_ref()
    }

    pub(super) fn is_image(&self) -> bool {
        self.image.is_some()
    }

    /// All of it in the engine's units, and the bytes of one.
    fn units_of_all(&self) -> (Box3, usize) {
        match self.is_granular() {
            true => (Box3 { lo: [0; 3], hi: self.shape }, self.element),
            false => (Box3::line(0, self.bytes().div_ceil(GRANULE)), GRANULE),
        }
    }

    pub(super) fn shape(&self) -> [usize; 3] {
        self.shape
    }

    pub(super) fn word(&self) -> Word {
        self.word
    }

    pub(crate) fn bytes(&self) -> usize {
        self.shape.iter().product::<usize>() * self.element
    }

    /// Whether elements are whole granules, so that boxes of elements are what the engine tracks. Else it tracks
    /// granules of the bytes in a line.
    fn is_granular(&self) -> bool {
        self.element.is_multiple_of(GRANULE)
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

    /// Two threads may come here at once, so whoever binds does so under the data's lock. What else that turn of the
    /// lock leaves to do, others' native calls and wakers, waits until the lock is free: it may use this buffer.
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
            let (extent, unit) = self.units_of_all();
            let shape = RootShape { extent, unit, bytes: self.bytes(), object: self.image, home: None };
            // Zeros that were only read need not be moved anywhere.
            let is_written = unbound.is_written;
            let data = unbound.data.take().filter(|_| is_written);
            let root = inner.with_state(effects, |state, turn| {
                let root = state.engine.add_root(shape, data.map_or(Initial::None, Initial::Written));
                unbound.take_places(root, inner, state, turn);
                root
            });
            Bound { inner: inner.clone(), root, at }
        });
        drop(unbound);
        inner.perform(effects);
        bound
    }

    /// All that a window touches, in the engine's units.
    pub(super) fn units(&self, bounds: &Box3, bytes: &Region) -> Box3 {
        if bytes.width == 0 || bytes.rows == 0 || bytes.slices == 0 {
            return Box3::line(0, 0);
        }
        match self.is_granular() {
            true => *bounds,
            false => Box3::line(bytes.offset / GRANULE, bytes.end().div_ceil(GRANULE)),
        }
    }

    /// A window in the engine's units. Where a use that does not want what was there ends inside a granule, that
    /// granule's other bytes are somebody else's: there the use keeps them, and so needs them.
    pub(super) fn pieces(
        &self,
        bounds: &Box3,
        binding: &Binding,
        mode: Mode,
        mut each: impl FnMut(Box3, Mode),
    ) {
        if binding.is_empty() {
            return;
        }
        if self.is_granular() {
            return each(*bounds, mode);
        }
        let bytes = binding.region();
        let (start, end) = (bytes.offset, bytes.end());
        let whole_end = if end == self.bytes() { end.div_ceil(GRANULE) } else { end / GRANULE };
        let (outer, inner) = ((start / GRANULE, end.div_ceil(GRANULE)), (start.div_ceil(GRANULE), whole_end));
        let kept = match mode {
            Mode::Overwrite => Mode::Write,
            Mode::ReadWriteUninit => Mode::ReadWrite,
            other => return each(Box3::line(outer.0, outer.1), other),
        };
        if !bytes.is_contiguous() || inner.0 >= inner.1 {
            return each(Box3::line(outer.0, outer.1), kept);
        }
        for (a, b, mode) in [(outer.0, inner.0, kept), (inner.0, inner.1, mode), (inner.1, outer.1, kept)] {
            if a < b {
                each(Box3::line(a, b), mode);
            }
        }
    }
}

impl Drop for Root {
    fn drop(&mut self) {
        if let Some(Bound { inner, root, .. }) = self.bound.take() {
            inner.enter_without_native_calls(|state, turn| state.engine.release_root(root, turn));
        }
    }
}
