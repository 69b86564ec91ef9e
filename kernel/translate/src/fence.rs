//! Fences in WGSL, which has none: a call of a function of a certain name stands for one.
//!
//! The name is `w_fence_ORDER_SCOPE`, with an order of `acquire`, `release`, `acq_rel` and `seq_cst`, and a scope of
//! `group` and `device`; the function takes nothing and does nothing. Atomics are relaxed in WGSL, so a stronger one is
//! a relaxed one between fences. A writer of another language puts that language's fence in the call's place; a device
//! that takes WGSL itself has none, and refuses the text.

/// One of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fence {
    /// As C names it.
    pub(crate) order: &'static str,
    /// Whether it is kept for the whole device, or for the work-group.
    pub(crate) device: bool,
}

impl Fence {
    /// The fence that a function stands for.
    pub(crate) fn of(function: &naga::Function) -> Option<Fence> {
        let (order, scope) = function.name.as_deref()?.strip_prefix("w_fence_")?.rsplit_once('_')?;
        let order = ["acquire", "release", "acq_rel", "seq_cst"].into_iter().find(|known| *known == order)?;
        let device = match scope {
            "device" => true,
            "group" => false,
            _ => return None,
        };
        (function.arguments.is_empty() && function.result.is_none()).then_some(Fence { order, device })
    }
}
