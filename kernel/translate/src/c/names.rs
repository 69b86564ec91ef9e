//! Names: the author's own, where the language lets them be.

use naga::proc::{CaseInsensitiveKeywordSet, KeywordSet, NameKey, Namer};

use super::dialect::Dialect;

/// The names of everything in a module, and a source of new ones.
pub(super) struct Names {
    namer: Namer,
    names: naga::FastHashMap<NameKey, String>,
}

/// What the writer's own functions and types start with.
const OWN: &[&str] = &["w_", "vec2_", "vec3_", "vec4_"];

impl Names {
    pub(super) fn new(module: &naga::Module, dialect: Dialect) -> Self {
        let (mut namer, mut names) = (Namer::default(), naga::FastHashMap::default());
        let none = KeywordSet::empty();
        namer.reset(module, keywords(dialect), none, CaseInsensitiveKeywordSet::empty(), OWN, &mut names);
        Names { namer, names }
    }

    pub(super) fn of(&self, key: NameKey) -> &str {
        self.names.get(&key).map_or("unnamed", String::as_str)
    }

    /// A name that nothing else has, like this one.
    pub(super) fn fresh(&mut self, like: &str) -> String {
        self.namer.call(like)
    }
}

fn keywords(dialect: Dialect) -> &'static KeywordSet {
    use std::sync::LazyLock;
    static OPENCL: LazyLock<KeywordSet> = LazyLock::new(|| Dialect::OpenClC.reserved().collect());
    static CUDA: LazyLock<KeywordSet> = LazyLock::new(|| Dialect::CudaC.reserved().collect());
    match dialect {
        Dialect::OpenClC => &OPENCL,
        Dialect::CudaC => &CUDA,
    }
}
