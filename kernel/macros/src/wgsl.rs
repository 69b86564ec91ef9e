//! The device's text: WGSL in the convention of `windlass_kernel::block`, one module for each kernel.
//!
//! Every access to memory goes through a small function that compares the index with the length: outside, reading
//! gives zero and writing does nothing. What WGSL leaves open (conversions of floats, rounding halves) is written out.

mod atomics;
mod clearing;
mod entry;
mod filled;
mod hoist;
mod loops;
mod memory;
mod packed;
mod place;
mod prelude;
mod reached;
mod reduce;
mod stmt;
mod value;

use std::collections::{BTreeMap, HashMap, HashSet};

use crate::hir::{Function, Module, Slice, Space, VarId, VarKind};
use crate::ty::{Scalar, Ty};
use crate::uses::Uses;
use entry::{EACH, Entry, GROUPS, NAMES, SHAPE, SUBGROUP_NUMBERS, Work};

/// Elements that the kernel's text reaches by a name.
#[derive(Clone, Debug)]
pub(super) struct Memory {
    pub(super) name: String,
    pub(super) ty: Ty,
    pub(super) slice: Slice,
}

/// A part of the text that has a name, in the order of first need.
#[derive(Default)]
pub(super) struct Parts {
    seen: HashSet<String>,
    pub(super) text: String,
}

impl Parts {
    /// Adds a part, unless it is there; false where it was.
    pub(super) fn claim(&mut self, name: &str) -> bool {
        self.seen.insert(name.into())
    }
}

/// The writer of one kernel's module.
pub(crate) struct Writer<'m> {
    pub(super) module: &'m Module,
    pub(super) uses: &'m [Uses],
    taken: HashSet<String>,
    pub(super) structs: HashMap<usize, String>,
    pub(super) consts: HashMap<usize, String>,
    pub(super) memories: Vec<Memory>,
    pub(super) types: Parts,
    pub(super) helpers: Parts,
    pub(super) functions: Parts,
    pub(super) half: bool,
    /// Whether there are operations of sub-groups.
    subgroups: bool,
    /// Whether launches have work-groups.
    pub(super) grouped: bool,
    /// How many dimensions the kernel asks about.
    dims: u8,
    /// Whether helpers ask where they are.
    places: bool,
    /// Whether the text promises something.
    promises: bool,
    /// The helpers that were written, by number and memories.
    pub(super) helper_names: HashMap<String, String>,
    /// The block's members.
    block: Vec<String>,
    /// Names that members have, or will have.
    members: HashSet<String>,
    /// The member whose upper half is the next 16 bits of the value that is being written.
    half_word: Option<String>,
    /// Values that the text is built with.
    overrides: String,
    override_names: BTreeMap<VarId, String>,
    /// Where each reduction's result goes.
    pub(super) results: HashMap<VarId, usize>,
    /// Through which name the body reaches each reduction's value.
    pub(super) pointers: HashMap<VarId, String>,
}

/// A kernel's text, and the names in it that others use.
pub(crate) struct Text {
    pub(crate) text: String,
    /// The entry point.
    pub(crate) entry: String,
    /// The values that the text is built with, for the parameters that they come from.
    pub(crate) overrides: BTreeMap<VarId, String>,
}

/// The text for kernel `at` of a module.
pub(crate) fn kernel(module: &Module, uses: &[Uses], at: usize) -> Text {
    let writer = Writer {
        module,
        uses,
        taken: HashSet::new(),
        structs: HashMap::new(),
        consts: HashMap::new(),
        memories: Vec::new(),
        types: Parts::default(),
        helpers: Parts::default(),
        functions: Parts::default(),
        half: false,
        subgroups: uses[at].subgroups,
        grouped: uses[at].groups,
        dims: crate::uses::dims_asked(module, at),
        places: crate::uses::helpers_ask(module, uses, at),
        promises: false,
        helper_names: HashMap::new(),
        block: Vec::new(),
        members: HashSet::new(),
        half_word: None,
        overrides: String::new(),
        override_names: BTreeMap::new(),
        results: HashMap::new(),
        pointers: HashMap::new(),
    };
    writer.write(&module.functions[at])
}

/// Whether WGSL keeps a word for itself.
#[cfg(feature = "naga")]
fn is_reserved(name: &str) -> bool {
    naga::keywords::wgsl::RESERVED.contains(&name)
}

#[cfg(feature = "naga")]
fn is_built_in(name: &str) -> bool {
    naga::keywords::wgsl::BUILTIN_IDENTIFIERS.contains(&name)
}

/// No device reads the text.
#[cfg(not(feature = "naga"))]
fn is_reserved(_: &str) -> bool {
    false
}

#[cfg(not(feature = "naga"))]
fn is_built_in(_: &str) -> bool {
    false
}

/// The name of a function of the author's, which must be none of those that mean something to who translates the text.
fn of_author(name: &str) -> String {
    match name.trim_start_matches("r#").strip_prefix("w_") {
        Some(_) => format!("k_{}", name.trim_start_matches("r#")),
        None => name.into(),
    }
}

impl<'m> Writer<'m> {
    /// A name that is the author's own where WGSL lets it be, and that nothing else in the module has.
    pub(super) fn unique(&mut self, name: &str) -> String {
        let name = name.trim_start_matches("r#");
        let reserved = is_reserved(name) || is_built_in(name) || name.starts_with("__") || name == "_";
        let ascii: String =
            name.chars().map(|c| if c.is_ascii_alphanumeric() || c == '_' { c } else { '_' }).collect();
        let stem = match reserved {
            true => format!("{}_k", ascii.trim_start_matches('_')),
            // A helper of this name would be taken for the function that reaches a memory.
            false if ACCESS.iter().any(|verb| ascii.starts_with(verb)) => format!("k_{ascii}"),
            false => ascii,
        };
        let mut unique = stem.clone();
        let mut number = 1;
        while !self.taken.insert(unique.clone()) {
            number += 1;
            unique = format!("{stem}_{number}");
        }
        unique
    }

    fn write(mut self, function: &'m Function) -> Text {
        let groups = self.grouped;
        self.taken.extend(NAMES.split_ascii_whitespace().map(String::from));
        for stem in ["local", "local_id", "group_id", "global_id", "launch_id"] {
            self.taken.extend((0..3).map(|dim| format!("{stem}_{dim}")));
        }
        // Parameters of the access functions would hide memories of these names, and variables nothing.
        self.taken.extend(ACCESS_PARAMETERS.map(String::from));
        let entry = self.unique(&of_author(&function.name.to_string()));
        let memories = self.declare_parameters(function);
        for name in ACCESS_PARAMETERS {
            self.taken.remove(name);
        }
        if groups {
            self.item_ty();
        }
        self.access_functions();
        let (opening, values) = self.values(function);
        self.pitches();
        let clearing = self.clearing(function);
        let body = self.entry_body(function, memories, values, &clearing);
        let covered = self.covered(function);
        let form = Entry {
            name: &entry,
            covered: &covered,
            dims: self.dims,
            positions: if self.places { 3 } else { self.dims },
            subgroups: self.subgroups,
            clearing: &clearing.first,
            reduces: !function.reductions.is_empty(),
        };
        let body = opening + &body;
        let point = match (groups, form.reduces) {
            (true, false) => form.of_groups(&Work::Here(body)),
            (true, true) => form.of_groups(&self.reduced(function, &form, &body)),
            (false, true) => form.of_range(&self.reduced(function, &form, &body)),
            (false, false) => form.of_range(&self.called(&form, &body)),
        };
        let mut text = String::new();
        if self.half {
            text.push_str("enable f16;\n\n");
        }
        text.push_str(SHAPE);
        text.push_str(if groups { GROUPS } else { EACH });
        text.push('\n');
        text.push_str(&self.overrides);
        text.push_str(&self.types.text);
        text.push_str(&format!("struct Block {{\n{}}}\n\n", self.block.concat()));
        text.push_str(&self.bindings());
        if groups || self.promises || !covered.is_empty() {
            // What holds behind a call of it is known to hold: see `windlass_kernel_translate`.
            text.push_str("fn w_promised(holds: bool) {}\n\n");
        }
        text.push_str(&self.helpers.text);
        text.push_str(&self.functions.text);
        if self.subgroups {
            for (_, name, _) in SUBGROUP_NUMBERS {
                text.push_str(&format!("var<private> {name}: u32;\n"));
            }
            text.push('\n');
        }
        text.push_str(&point);
        Text { text, entry, overrides: self.override_names }
    }

    /// What holds in a launch in which every argument that is reached at the items' own positions has an element for each.
    fn covered(&self, function: &Function) -> Vec<String> {
        let mut covered = Vec::new();
        for param in crate::uses::placed(function, self.dims) {
            let Memory { name, slice, .. } = self.memory_of(function, param);
            match slice.dims {
                1 => covered.push(format!("block.size_0 <= block.{name}_len")),
                dims => {
                    covered.extend((0..dims).map(|d| format!("block.size_{d} <= block.{name}_extent_{d}")))
                }
            }
        }
        covered
    }

    /// Gives each parameter that is memory its name; says which variable is which memory.
    fn declare_parameters(&mut self, function: &Function) -> HashMap<VarId, usize> {
        let mut memories = HashMap::new();
        for &param in &function.params {
            let var = &function.vars[param];
            if function.reduction(param).is_some() {
                self.result_memory(param, var);
                continue;
            }
            let VarKind::Slice(slice) = &var.kind else { continue };
            let name = self.unique(&var.name.to_string());
            memories.insert(param, self.memories.len());
            self.memories.push(Memory { name, ty: var.ty.clone(), slice: slice.clone() });
        }
        let globals: Vec<String> =
            self.memories.iter().filter(|m| m.slice.space == Space::Global).map(|m| m.name.clone()).collect();
        for name in self.memories.iter().map(|memory| &memory.name) {
            let own = ["at", "len", "items", "extent_0", "extent_1", "extent_2", "row", "slice"];
            self.members.extend(own.map(|what| format!("{name}_{what}")));
        }
        self.members.extend((0..3).map(|dim| format!("size_{dim}")));
        for name in globals {
            self.block.push(format!("    {name}_at: u32,\n    {name}_len: u32,\n"));
        }
        for dim in 0..3 {
            self.block.push(format!("    size_{dim}: u32,\n"));
        }
        memories
    }

    /// The parameters by value, as they come out of the block: statements at the kernel's start, and their names.
    fn values(&mut self, function: &'m Function) -> (String, HashMap<VarId, String>) {
        let (mut text, mut names) = (String::new(), HashMap::new());
        for &param in &function.params {
            let var = &function.vars[param];
            match &var.kind {
                VarKind::Slice(slice) => {
                    if slice.space == Space::Reached {
                        let memory = self.memory_of(function, param).clone();
                        self.reach(&memory);
                    }
                    if slice.space == Space::Local(None) {
                        // The length is known to the text as an override; the block has it for the host.
                        let name = self.memory_of(function, param).name.clone();
                        self.block.push(format!("    {name}_items: u32,\n"));
                        self.override_names.insert(param, format!("{name}_len"));
                    }
                    if slice.dims > 1 && slice.space == Space::Global {
                        let name = self.memory_of(function, param).name.clone();
                        for dim in 0..slice.dims {
                            self.block.push(format!("    {name}_extent_{dim}: u32,\n"));
                        }
                    }
                }
                VarKind::Ref => {
                    let name = self.unique(&var.name.to_string());
                    names.insert(param, format!("(*{name})"));
                    self.pointers.insert(param, name);
                }
                _ if function.specs.contains(&param) => {
                    let (name, value) = self.spec(param, var);
                    text.push_str(&value);
                    names.insert(param, name);
                }
                _ => {
                    let name = self.unique(&var.name.to_string());
                    self.half_word = None;
                    let value = self.block_value(&var.ty, &name);
                    let ty = self.ty(&var.ty);
                    let keyword = if var.mutable || matches!(var.ty, Ty::Array(..)) { "var" } else { "let" };
                    text.push_str(&format!("    {keyword} {name}: {ty} = {value};\n"));
                    names.insert(param, name);
                }
            }
        }
        (text, names)
    }

    /// How many elements the rows and slices of each buffer start apart: the block's last words, for texts that ask.
    fn pitches(&mut self) {
        let of_buffers = self.memories.iter().filter(|memory| memory.slice.space == Space::Global);
        if of_buffers.clone().any(|memory| memory.slice.dims > 1) {
            let words: Vec<String> = of_buffers
                .map(|Memory { name, .. }| format!("    {name}_row: u32,\n    {name}_slice: u32,\n"))
                .collect();
            self.block.extend(words);
        }
    }

    fn memory_of(&self, function: &Function, param: VarId) -> &Memory {
        let before = function.params.iter().take_while(|&&p| p != param);
        let has_memory =
            |p: VarId| matches!(function.vars[p].kind, VarKind::Slice(_)) || function.reduction(p).is_some();
        let at = before.filter(|&&p| has_memory(p)).count();
        &self.memories[at]
    }

    /// A value that the text is built with. It goes through a variable: what is made of values known by then alone is
    /// found when the text is built, where WGSL refuses to divide by zero.
    fn spec(&mut self, param: VarId, var: &crate::hir::Var) -> (String, String) {
        let name = self.unique(&var.name.to_string());
        let ty = self.ty(&var.ty);
        let key = self.unique(&format!("{name}_spec"));
        self.override_names.insert(param, key.clone());
        self.overrides.push_str(&format!("override {key}: {ty} = {ty}();\n"));
        // The block has it for the host.
        self.member(&format!("{key}_value"), "u32");
        let text = format!("    var {name}: {ty} = {key};\n");
        (name, text)
    }

    /// Adds a member to the block, by this name or one like it, and says how it is reached.
    fn member(&mut self, wanted: &str, ty: &str) -> String {
        let mut name = wanted.to_string();
        let mut number = 1;
        while !self.members.insert(name.clone()) {
            number += 1;
            name = format!("{wanted}_{number}");
        }
        self.block.push(format!("    {name}: {ty},\n"));
        format!("block.{name}")
    }

    /// A value as an expression over members of the block, which are added; the block has words only.
    fn block_value(&mut self, ty: &Ty, name: &str) -> String {
        match ty {
            Ty::Scalar(scalar) => self.block_scalar(*scalar, name),
            ty if self.has_small(ty) => self.block_bytes(ty, name),
            Ty::Vector(n, of) => {
                let parts: Vec<String> = "xyzw"
                    .chars()
                    .take(*n as usize)
                    .map(|axis| self.block_value(of, &format!("{name}_{axis}")))
                    .collect();
                format!("{}({})", self.ty(ty), parts.join(", "))
            }
            Ty::Array(of, len) => {
                let parts: Vec<String> =
                    (0..*len).map(|i| self.block_value(of, &format!("{name}_{i}"))).collect();
                format!("{}({})", self.ty(ty), parts.join(", "))
            }
            Ty::Struct(at) => {
                let module = self.module;
                let parts: Vec<String> = module.structs[*at]
                    .fields
                    .iter()
                    .map(|(field, ty)| self.block_value(ty, &format!("{name}_{field}")))
                    .collect();
                format!("{}({})", self.ty(ty), parts.join(", "))
            }
            _ => String::new(),
        }
    }

    /// A value with small integers in it: as it lies in memory, in words that have numbers.
    fn block_bytes(&mut self, ty: &Ty, name: &str) -> String {
        let words = self.bytes(ty).div_ceil(4);
        let words: Vec<String> = (0..words).map(|at| self.member(&format!("{name}_{at}"), "u32")).collect();
        self.of_words(ty, &words, 0)
    }

    /// A value out of such words, so many bytes behind their start.
    pub(super) fn of_words(&mut self, ty: &Ty, words: &[String], at: u32) -> String {
        let word = |at: u32| words.get(at as usize / 4).cloned().unwrap_or_else(|| "0u".into());
        let part = format!("({} >> {}u)", word(at), at % 4 * 8);
        match ty {
            Ty::Scalar(Scalar::F16) => {
                self.half = true;
                format!("f16(unpack2x16float{part}.x)")
            }
            Ty::Scalar(scalar) => match scalar.bits() {
                64 => {
                    let bits = format!("((u64({}) << 32u) | u64({}))", word(at + 4), word(at));
                    if *scalar == Scalar::U64 { bits } else { format!("bitcast<{}>({bits})", scalar.name()) }
                }
                32 if *scalar == Scalar::U32 => word(at),
                32 => format!("bitcast<{}>({})", scalar.name(), word(at)),
                _ => self.cut(ty, format!("{}{part}", scalar.register().name())),
            },
            ty => {
                let parts = self.packed_parts(ty);
                let parts: Vec<String> =
                    parts.iter().map(|(_, offset, ty)| self.of_words(ty, words, at + offset)).collect();
                format!("{}({})", self.ty(ty), parts.join(", "))
            }
        }
    }

    fn block_scalar(&mut self, scalar: Scalar, name: &str) -> String {
        let lower = self.half_word.take();
        match scalar {
            Scalar::Bool => format!("({} != 0u)", self.member(name, "u32")),
            Scalar::F16 => {
                self.half = true;
                if let Some(word) = lower {
                    return format!("f16(unpack2x16float({word}).y)");
                }
                let word = self.member(name, "u32");
                self.half_word = Some(word.clone());
                format!("f16(unpack2x16float({word}).x)")
            }
            Scalar::I32 | Scalar::U32 | Scalar::F32 => self.member(name, scalar.name()),
            Scalar::I8 | Scalar::U8 | Scalar::I16 | Scalar::U16 => {
                let word = self.member(name, scalar.register().name());
                self.cut(&Ty::Scalar(scalar), word)
            }
            Scalar::I64 | Scalar::U64 | Scalar::F64 => {
                let (low, high) =
                    (self.member(&format!("{name}_low"), "u32"), self.member(&format!("{name}_high"), "u32"));
                let bits = format!("((u64({high}) << 32u) | u64({low}))");
                match scalar {
                    Scalar::U64 => bits,
                    Scalar::I64 => format!("bitcast<i64>({bits})"),
                    _ => format!("bitcast<f64>({bits})"),
                }
            }
        }
    }

    fn bindings(&mut self) -> String {
        let mut text = String::new();
        let mut binding = 0;
        for at in 0..self.memories.len() {
            let memory = self.memories[at].clone();
            match &memory.slice.space {
                // It is reached by addresses, and the block says which.
                Space::Reached => {}
                Space::Global => {
                    let access = if self.memory_is_written(&memory) { "read_write" } else { "read" };
                    let element = self.stored(&memory);
                    let name = &memory.name;
                    text.push_str(&format!(
                        "@group(0) @binding({binding}) var<storage, {access}> {name}: array<{element}>;\n"
                    ));
                    binding += 1;
                }
                Space::Local(len) => {
                    let element = self.stored(&memory);
                    let name = &memory.name;
                    let len = match len {
                        Some(len) => format!("{len}"),
                        None => {
                            text.push_str(&format!("override {name}_len: u32 = 1u;\n"));
                            format!("{name}_len")
                        }
                    };
                    text.push_str(&format!("var<workgroup> {name}: array<{element}, {len}>;\n"));
                }
            }
        }
        text.push_str(&format!("@group(0) @binding({binding}) var<uniform> block: Block;\n\n"));
        text
    }

    fn memory_is_written(&self, memory: &Memory) -> bool {
        memory.slice.may != crate::hir::May::Read
    }
}

/// What the functions begin with that reach memory.
const ACCESS: [&str; 7] = ["get_", "set_", "load_", "store_", "fetch_", "swap_", "exchange_if_"];

const ACCESS_PARAMETERS: [&str; 5] = ["i", "j", "k", "m", "value"];
