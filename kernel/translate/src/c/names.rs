//! Names: the author's own, where the language lets them be.

use naga::proc::{CaseInsensitiveKeywordSet, KeywordSet, NameKey, Namer};

use super::dialect::Dialect;

/// The names of everything in a module, and a source of new ones.
pub(super) struct Names {
    namer: Namer,
    names: naga::FastHashMap<NameKey, String>,
}

/// What the writer's own functions and types start with, and what languages and compilers have by themselves in great numbers.
const OWN: &[&str] = &[
    "w_",
    "vec2_",
    "vec3_",
    "vec4_",
    "as_",
    "convert_",
    "atom_",
    "atomic_",
    "native_",
    "half_",
    "async_",
    "vload",
    "vstore",
    "work_group_",
    "sub_group_",
    "intel_",
    "memory_",
    "cl_",
    "get_global_",
    "get_local_",
    "get_group_",
    "get_num_",
    "get_work_",
    "get_sub_",
    "get_image_",
    "get_enqueued_",
    "get_max_",
    "get_default_",
    "get_fence",
    "read_image",
    "read_mem_",
    "read_pipe",
    "write_image",
    "write_mem_",
    "write_pipe",
    "CLK_",
    "CL_",
    "FLT_",
    "DBL_",
    "HALF_",
    "CHAR_",
    "SCHAR_",
    "UCHAR_",
    "SHRT_",
    "USHRT_",
    "INT_",
    "UINT_",
    "LONG_",
    "ULONG_",
    "M_",
    "HUGE_",
];

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
