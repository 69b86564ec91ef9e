//! Small values that go to a kernel beside its commands, in the place of a uniform buffer.

use naga::{AddressSpace, GlobalVariable, Handle, Module};

/// The uniform at `binding` of group 0, and its size; `None` if there is none.
pub(crate) fn uniform(module: &Module, binding: u32) -> Option<(Handle<GlobalVariable>, u32)> {
    let at = |global: &GlobalVariable| global.binding.is_some_and(|b| (b.group, b.binding) == (0, binding));
    let mut uniforms = module.global_variables.iter().filter(|(_, g)| g.space == AddressSpace::Uniform);
    let (handle, global) = uniforms.find(|(_, global)| at(global))?;
    Some((handle, module.types[global.ty].inner.size(module.to_ctx())))
}

/// Makes immediate data of a uniform.
pub(crate) fn make(module: &mut Module, uniform: Handle<GlobalVariable>) {
    let global = module.global_variables.get_mut(uniform);
    (global.space, global.binding) = (AddressSpace::Immediate, None);
}
