//! `WINDLASS_DEBUG=1`: says when a kernel reaches outside of its memory, which is defined, and rarely meant.

use std::collections::BTreeSet;
use std::sync::{LazyLock, Mutex, PoisonError};

static WATCHED: LazyLock<bool> = LazyLock::new(|| {
    std::env::var_os("WINDLASS_DEBUG").is_some_and(|value| !value.is_empty() && value != "0")
});

/// What was said already: once for each kernel, buffer and way.
static SAID: Mutex<BTreeSet<(&str, &str, bool)>> = Mutex::new(BTreeSet::new());

/// Whether kernels are watched. Then all their memory is reached through views that compare indices, and nothing as
/// plain slices.
pub(super) fn watched() -> bool {
    *WATCHED
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
}
