//! WGSL text to checked IR: the road that every kernel takes to a device.

use naga::back::pipeline_constants::process_overrides;
use naga::front::wgsl::{Frontend, Options};
use naga::valid::{Capabilities, ModuleInfo, ShaderStages, SubgroupOperationSet, ValidationFlags, Validator};

use crate::compared::{Branches, Comparison};
use crate::error::TranslateError;
use crate::fence::Fence;
use crate::immediate;
use crate::prove::prove;

/// A module that was checked, with what the check found out about it.
#[derive(Debug)]
pub struct Checked {
    pub(crate) module: naga::Module,
    pub(crate) info: ModuleInfo,
    /// What is compared in loops, once that has been looked for.
    compared: Vec<Comparison>,
}

/// What a compute kernel may ask of a device. Whether the device has it is asked elsewhere, by aspects.
fn capabilities() -> Capabilities {
    Capabilities::FLOAT64
        | Capabilities::SHADER_FLOAT16
        | Capabilities::SHADER_FLOAT16_IN_FLOAT32
        | Capabilities::SHADER_INT16
        | Capabilities::SHADER_INT64
        | Capabilities::SHADER_INT64_ATOMIC_ALL_OPS
        | Capabilities::SHADER_INT64_ATOMIC_MIN_MAX
        | Capabilities::SHADER_FLOAT32_ATOMIC
        | Capabilities::SUBGROUP
        | Capabilities::SUBGROUP_BARRIER
        | Capabilities::IMMEDIATES
}

impl Checked {
    /// Parses and validates a text.
    ///
    /// ```
    /// use windlass_kernel_translate::wgsl::Checked;
    /// assert!(Checked::parse("@compute @workgroup_size(64) fn main() {}").is_ok());
    /// let error = Checked::parse("fn f() -> u32 { return 1.5; }").unwrap_err();
    /// assert!(error.to_string().contains("1.5"), "{error}");
    /// ```
    pub fn parse(text: &str) -> Result<Self, TranslateError> {
        let mut options = Options::new();
        options.capabilities = capabilities();
        let module = Frontend::new_with_options(options)
            .parse(text)
            .map_err(|error| TranslateError(error.emit_to_string(text)))?;
        let info =
            validator().validate(&module).map_err(|error| TranslateError(error.emit_to_string(text)))?;
        Ok(Checked { module, info, compared: Vec::new() })
    }

    /// The module itself.
    pub fn module(&self) -> &naga::Module {
        &self.module
    }

    /// Whether the text has overrides.
    pub fn has_overrides(&self) -> bool {
        !self.module.overrides.is_empty()
    }

    /// Whether the text has fences.
    pub fn has_fences(&self) -> bool {
        self.module.functions.iter().any(|(_, function)| Fence::of(function).is_some())
    }

    /// Each storage buffer's binding, and whether the text may write it; in no order.
    ///
    /// ```
    /// use windlass_kernel_translate::wgsl::Checked;
    /// let text = "@group(0) @binding(3) var<storage, read_write> x: array<u32>;";
    /// let checked = Checked::parse(text).unwrap();
    /// assert_eq!(checked.storage_buffers().collect::<Vec<_>>(), [(3, true)]);
    /// ```
    pub fn storage_buffers(&self) -> impl Iterator<Item = (u32, bool)> {
        self.module.global_variables.iter().filter_map(|(_, variable)| match variable.space {
            naga::AddressSpace::Storage { access } => {
                Some((variable.binding.as_ref()?.binding, access.contains(naga::StorageAccess::STORE)))
            }
            _ => None,
        })
    }

    /// The names of the compute entry points.
    pub fn compute_entries(&self) -> impl Iterator<Item = &str> {
        let compute = self.module.entry_points.iter().filter(|e| e.stage == naga::ShaderStage::Compute);
        compute.map(|e| e.name.as_str())
    }

    /// The module with its overrides replaced by these values, and by their defaults where none is given.
    ///
    /// ```
    /// use windlass_kernel_translate::wgsl::Checked;
    /// let text = "override N: u32; @compute @workgroup_size(N) fn main() {}";
    /// let checked = Checked::parse(text).unwrap();
    /// assert!(checked.specialise("main", &[("N".into(), 32.0)]).is_ok());
    /// assert!(checked.specialise("main", &[]).is_err());
    /// ```
    pub fn specialise(&self, entry: &str, values: &[(Box<str>, f64)]) -> Result<Checked, TranslateError> {
        // Names that the text does not have are no concern of its own. One with an `@id` goes by that.
        let known = |name: &str| {
            self.module.overrides.iter().any(|(_, o)| match o.id {
                Some(id) => id.to_string() == name,
                None => o.name.as_deref() == Some(name),
            })
        };
        let values = values.iter().filter(|(name, _)| known(name));
        let constants = values.map(|(name, value)| (name.to_string(), *value)).collect();
        let entry = (naga::ShaderStage::Compute, entry);
        let (module, info) = process_overrides(&self.module, &self.info, Some(entry), &constants)
            .map_err(|error| TranslateError(chain(&error)))?;
        Ok(Checked { module: module.into_owned(), info: info.into_owned(), compared: Vec::new() })
    }

    /// The module without what its overrides' values, or barriers that stand before others, make needless. Where the text is
    /// `trusted`, a call of a function `w_promised` says that what it is called with holds.
    ///
    /// ```
    /// use windlass_kernel_translate::wgsl::Checked;
    /// let text = "
    ///     override N: u32;
    ///     @group(0) @binding(0) var<storage, read_write> v: array<u32>;
    ///     @compute @workgroup_size(N) fn main(@builtin(local_invocation_index) i: u32) {
    ///         if N > 64u { v[i] = 1u; }
    ///         workgroupBarrier();
    ///         storageBarrier();
    ///     }";
    /// let statements = |checked: &Checked| checked.module().entry_points[0].function.body.len();
    /// let checked = Checked::parse(text).unwrap().specialise("main", &[("N".into(), 32.0)]).unwrap();
    /// let before = statements(&checked);
    /// assert!(statements(&checked.pruned(false).unwrap()) < before);
    /// ```
    pub fn pruned(self, trusted: bool) -> Result<Checked, TranslateError> {
        let Checked { module, info, compared } = self;
        let branches = trusted.then(|| Branches::of(&module));
        let checked = Checked { module, info: ModuleInfo::default(), compared };
        let mut pruned = checked.changed(|module| prove(module, &info, trusted))?;
        pruned.compared = branches.map_or(Vec::new(), |branches| branches.left_in_loops(&pruned.module));
        Ok(pruned)
    }

    /// The accesses in loops whose indices are compared with the memory's length in each turn: the memory, and what the text says
    /// there. Known of a trusted text that was [`Checked::pruned`]; `text` is the one that was parsed.
    pub fn compared_in_loops(&self, text: &str) -> Vec<String> {
        self.compared.iter().map(|comparison| comparison.shown(text)).collect()
    }
}

impl Checked {
    /// The module with atomic additions of floats in the place of functions that stand for them, for devices that have those.
    pub fn with_float_atomics(self) -> Result<Checked, TranslateError> {
        self.changed(crate::float_add::native)
    }

    /// The module with reads that make no branches, for GPUs.
    pub fn unbranched(self) -> Result<Checked, TranslateError> {
        self.changed(crate::unbranched::unbranch)
    }

    /// The module with negations and complements of integers that a device's compiler does not recognise as such: for compilers that lose some. Only
    /// modules whose uniform `block` has the launch's extents are changed.
    ///
    /// ```
    /// use windlass_kernel_translate::wgsl::Checked;
    /// let text = "
    ///     struct Block { size_0: u32, size_1: u32, size_2: u32 }
    ///     @group(0) @binding(0) var<storage, read_write> v: array<i32>;
    ///     @group(0) @binding(1) var<uniform> block: Block;
    ///     @compute @workgroup_size(64) fn main() { v[0] = max(v[1], max(v[2], -v[3])); }";
    /// let checked = Checked::parse(text).unwrap();
    /// assert_eq!(checked.module().functions.len(), 0);
    /// assert_eq!(checked.with_hidden_negations().unwrap().module().functions.len(), 1);
    /// ```
    pub fn with_hidden_negations(self) -> Result<Checked, TranslateError> {
        let Checked { module, info, compared } = self;
        let checked = Checked { module, info: ModuleInfo::default(), compared };
        checked.changed(|module| crate::negated::hide(module, &info))
    }

    /// The module with the uniform at `binding` of group 0 as immediate data, and how many bytes these are, which a launch hands
    /// over beside its commands; the module as it is where the uniform is missing, of more than `most` bytes, or of a type that
    /// immediate data cannot have.
    ///
    /// ```
    /// use windlass_kernel_translate::wgsl::Checked;
    /// let text = "
    ///     @group(0) @binding(0) var<uniform> v: vec3u;
    ///     @compute @workgroup_size(64) fn main() { _ = v.x; }";
    /// let checked = Checked::parse(text).unwrap();
    /// let (checked, none) = checked.with_immediates(0, 8);
    /// assert_eq!(none, None);
    /// let (checked, bytes) = checked.with_immediates(0, 128);
    /// assert_eq!(bytes, Some(12));
    /// assert_eq!(checked.with_immediates(0, 128).1, None, "it is no uniform any more");
    /// ```
    pub fn with_immediates(self, binding: u32, most: u32) -> (Checked, Option<u32>) {
        let found = immediate::uniform(&self.module, binding).filter(|(_, bytes)| *bytes <= most);
        let Some((uniform, bytes)) = found else { return (self, None) };
        let mut module = self.module.clone();
        immediate::make(&mut module, uniform);
        match validator().validate(&module) {
            Ok(info) => (Checked { module, info, ..self }, Some(bytes)),
            Err(_) => (self, None),
        }
    }

    fn changed(self, change: impl FnOnce(&mut naga::Module)) -> Result<Checked, TranslateError> {
        let Checked { mut module, compared, .. } = self;
        change(&mut module);
        let info =
            validator().validate(&module).map_err(|error| TranslateError(chain(&error.into_inner())))?;
        Ok(Checked { module, info, compared })
    }
}

pub(crate) fn validator() -> Validator {
    let mut validator = Validator::new(ValidationFlags::all(), capabilities());
    validator.subgroup_stages(ShaderStages::COMPUTE).subgroup_operations(SubgroupOperationSet::all());
    validator
}

/// An error and what it came from, in one line.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text = format!("{text}: {cause}");
        source = cause.source();
    }
    text
}
