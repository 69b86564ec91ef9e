//! Where something was written that a `kernels` module uses: in the module itself, or in another one.

/// Where the language's own functions stand, which methods of numbers stand for.
pub(crate) const LIBRARY: usize = usize::MAX;

/// Of an item: in which module it stands, and whether this one sees it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Origin {
    /// 0 is the module itself, and [`LIBRARY`] the language's own, whose types are open to all.
    pub(crate) home: usize,
    /// Of another module: whether it is public there, and the module is one that this one names.
    pub(crate) is_open: bool,
}

/// Which of several things of one name is meant in a module: its own first.
pub(crate) fn meant<T>(found: impl Iterator<Item = (T, Origin)>, from: usize) -> Option<T> {
    let mut second = None;
    for (item, origin) in found {
        if origin.home == from {
            return Some(item);
        }
        // What another module uses of third ones was looked at when that one was compiled.
        let is_seen = match origin.home {
            LIBRARY => origin.is_open,
            home if from == 0 => home != 0 && origin.is_open,
            home => home != 0 && from != LIBRARY,
        };
        if is_seen && second.is_none() {
            second = Some(item);
        }
    }
    second
}
