//! Compute shaders in SPIR-V, as texts in WGSL: then they take the road of all others, to every device that takes WGSL.

use naga::back::wgsl::{WriterFlags, write_string};
use naga::compact::{KeepUnused, compact};
use naga::front::spv::{Options, parse_u8_slice};
use naga::valid::GlobalUse;
use naga::{AddressSpace, ShaderStage, StorageAccess};

use crate::TranslateError;
use crate::wgsl::{Checked, validator};

/// An entry point of a compute shader as a text in WGSL, with the same bindings and specialisation constants (as overrides).
/// What is not in the shader flavour, or asks for what no kernel has, is refused in words.
///
/// The front end may panic on what is no SPIR-V at all.
pub fn to_wgsl(entry: &str, words: &[u32]) -> Result<String, TranslateError> {
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    let refuse = |why: String| TranslateError(format!("a shader in SPIR-V: {why}"));
    let mut module =
        parse_u8_slice(&bytes, &Options::default()).map_err(|error| refuse(error.to_string()))?;
    let is_entry = |point: &naga::EntryPoint| point.stage == ShaderStage::Compute && point.name == entry;
    // What another entry point does with a buffer says nothing about what this one may.
    module.entry_points.retain(is_entry);
    if module.entry_points.is_empty() {
        return Err(refuse(format!("it has no compute entry point `{entry}`")));
    }
    compact(&mut module, KeepUnused::No);
    let info = validator().validate(&module).map_err(|error| refuse(error.emit_to_string("")))?;
    // GLSL's `readonly` is said of what is in a buffer, where the front end looks at the buffer alone. What counts is what the
    // shader does.
    let uses = info.get_entry_point(0);
    for (handle, variable) in module.global_variables.iter_mut() {
        if let AddressSpace::Storage { access } = &mut variable.space
            && !uses[handle].intersects(GlobalUse::WRITE | GlobalUse::ATOMIC)
        {
            access.remove(StorageAccess::STORE);
        }
    }
    let text =
        write_string(&module, &info, WriterFlags::empty()).map_err(|error| refuse(error.to_string()))?;
    Checked::parse(&text)?;
    Ok(text)
}
