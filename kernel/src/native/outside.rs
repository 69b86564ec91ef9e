//! What kernels on the host say of themselves: with `WINDLASS_DEBUG=1` when one reaches outside of its memory, which is defined,
//! and rarely meant; with `WINDLASS_DEBUG=paths` how each reaches its memory, and what is in the way of a faster way.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

use crate::asked::{paths, watched};

/// Of which kernels it was said already that they take a way.
static TAKEN: Mutex<BTreeSet<(&str, &str)>> = Mutex::new(BTreeSet::new());

/// What was said already: once for each kernel, buffer and way.
static SAID: Mutex<BTreeSet<(&str, &str, bool)>> = Mutex::new(BTreeSet::new());

/// Says the first time that a kernel goes a way, and `why` it takes no faster one.
#[inline]
pub(super) fn takes(kernel: &'static str, way: &'static str, why: impl FnOnce() -> Vec<String>) {
    if paths() {
        say(kernel, way, &why());
    }
}

#[cold]
fn say(kernel: &'static str, way: &'static str, why: &[String]) {
    if !TAKEN.lock().unwrap_or_else(PoisonError::into_inner).insert((kernel, way)) {
        return;
    }
    let why: String = why.iter().map(|reason| format!("; {reason}")).collect();
    eprintln!("windlass: kernel `{kernel}` on the host: {way}{why} (said once)");
}

/// Whose memory it is.
#[derive(Clone, Copy, Debug)]
pub(super) struct Whose {
    pub(super) kernel: &'static str,
    pub(super) parameter: &'static str,
}

impl Whose {
    /// An access outside. Most kernels that have any mean it, so this stands aside.
    #[cold]
    pub(super) fn outside(self, writes: bool, at: &[u32], extents: &[u32]) {
        if !watched() {
            return;
        }
        let Whose { kernel, parameter } = self;
        if !SAID.lock().unwrap_or_else(PoisonError::into_inner).insert((kernel, parameter, writes)) {
            return;
        }
        let list = |numbers: &[u32]| match numbers {
            [one] => one.to_string(),
            all => format!("{all:?}"),
        };
        let (verb, result) = if writes { ("writes", "does nothing") } else { ("reads", "gives zero") };
        eprintln!(
            "windlass: kernel `{kernel}` {verb} element {} of `{parameter}`, which has {}; it {result} (said once)",
            list(at),
            list(extents)
        );
    }

    /// An address that is followed and leads to nothing that the launch reaches.
    #[cold]
    pub(super) fn outside_by_address(self, writes: bool, address: u64) {
        let Whose { kernel, parameter } = self;
        if !watched()
            || !SAID.lock().unwrap_or_else(PoisonError::into_inner).insert((kernel, parameter, writes))
        {
            return;
        }
        let (verb, result) = if writes { ("writes", "does nothing") } else { ("reads", "gives zero") };
        eprintln!(
            "windlass: kernel `{kernel}` {verb} by the address {address:#x}, where its launch reaches nothing of that type, or not for \
             writing; it {result} (said once)"
        );
    }
}
