//! What `WINDLASS_DEBUG` asks for: words with commas between them.

use std::sync::LazyLock;

static ASKED: LazyLock<String> = LazyLock::new(|| std::env::var("WINDLASS_DEBUG").unwrap_or_default());

static WATCHED: LazyLock<bool> =
    LazyLock::new(|| ASKED.split(',').any(|word| !word.is_empty() && word != "0" && word != "paths"));

static PATHS: LazyLock<bool> = LazyLock::new(|| ASKED.split(',').any(|word| word == "paths"));

/// Whether kernels on the host are watched. Then all their memory is reached through views that compare indices, and nothing as
/// plain slices.
pub(crate) fn watched() -> bool {
    *WATCHED
}

/// Whether it is said how each kernel reaches its memory, and what a device makes of it: by the word `paths`.
pub fn paths() -> bool {
    *PATHS
}
