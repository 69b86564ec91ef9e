//! What `#[kernel]` makes a kernel of. Not for other uses.

use crate::declared::Declared;
use crate::follows::FollowsPointers;
use crate::image::KernelInner;
pub use crate::message::Message;
use crate::native::{Launch, NativeKernel, SlotUse};
pub use crate::shape::Shaping;
use crate::{Kernel, KernelImage, Need, Override, Slot};

/// What the attribute knows about a kernel.
#[derive(Debug)]
pub struct Parts {
    /// Its name.
    pub name: &'static str,
    /// Whether it works in groups.
    pub grouped: bool,
    /// The extents of its work-groups, if it has said so.
    pub group: &'static [usize],
    /// Whether devices may be less exact for speed.
    pub fast: bool,
    /// What it expects.
    pub slots: &'static [Slot],
    /// The name of the text's entry point.
    pub entry: &'static str,
    /// The text for devices, in which the attribute guards every index.
    pub text: &'static str,
    /// What it does with its slots.
    pub uses: &'static [SlotUse],
    /// The code for the host.
    pub run: fn(&Launch<'_>),
    /// What it asks of a device.
    pub needs: &'static [Need],
    /// The values that it is built with.
    pub overrides: &'static [Override],
    /// What the shape of its launches depends on.
    pub shaping: Shaping,
    /// Whether all loops of the text end, whatever it is called with.
    pub ends: bool,
    /// What its items say by `debug!`: then its last slot is for that.
    pub messages: &'static [Message],
}

/// The kernel that the attribute makes: text for devices and code for the host.
///
/// # Safety
/// What [`KernelImage::guarded_wgsl`] asks of the text, and what [`KernelImage::ending`] asks where it is said to end.
pub unsafe fn kernel(parts: Parts) -> Kernel {
    let native = KernelImage::native(NativeKernel::new(parts.name, parts.uses, parts.run));
    // SAFETY: the caller's promise.
    let text = unsafe { KernelImage::guarded_wgsl(parts.entry, parts.text) };
    let text = match parts.ends {
        // SAFETY: the caller's promise.
        true => unsafe { text.ending() },
        false => text,
    };
    let text = if parts.needs.contains(&Need::Pointers) { text.reaching() } else { text };
    let declared = Declared { uses: parts.uses };
    Kernel::of(KernelInner {
        name: parts.name.into(),
        slots: parts.slots.into(),
        images: [text, native].map(|image| image.declaring(declared)).into(),
        grouped: parts.grouped,
        group: parts.group.into(),
        fast: parts.fast,
        needs: parts.needs.into(),
        overrides: parts.overrides.into(),
        shaping: Some(parts.shaping),
        messages: parts.messages,
        original: None,
        pointers: FollowsPointers::No,
    })
}
