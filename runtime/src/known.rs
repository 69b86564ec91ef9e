//! Which of the backends that this crate knows a build has.

use windlass_backend::BackendId;

/// A backend that this crate can be built with. Others are given to a runtime by
/// [`RuntimeBuilder::backend`](crate::RuntimeBuilder::backend).
///
/// ```
/// use windlass::KnownBackend;
/// const HAS_OPENCL: bool = KnownBackend::OpenCl.is_active();
/// assert_eq!(HAS_OPENCL, cfg!(feature = "opencl"));
/// assert_eq!(KnownBackend::Wgpu.id().as_str(), "wgpu");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum KnownBackend {
    /// This process's own threads: feature `host`.
    Host,
    /// OpenCL drivers: feature `opencl`.
    OpenCl,
    /// Vulkan through wgpu: feature `wgpu`.
    Wgpu,
}

impl KnownBackend {
    /// All of them.
    pub const ALL: [KnownBackend; 3] = [KnownBackend::Host, KnownBackend::OpenCl, KnownBackend::Wgpu];

    /// Whether this build has it; whether it can be used here is for [`Runtime::backends`](crate::Runtime::backends) to say.
    ///
    /// ```
    /// use windlass::KnownBackend;
    /// let built = KnownBackend::ALL.into_iter().filter(|backend| backend.is_active());
    /// println!("built with {:?}", built.collect::<Vec<_>>());
    /// ```
    pub const fn is_active(self) -> bool {
        match self {
            KnownBackend::Host => cfg!(feature = "host"),
            KnownBackend::OpenCl => cfg!(feature = "opencl"),
            KnownBackend::Wgpu => cfg!(feature = "wgpu"),
        }
    }

    /// What it calls itself.
    ///
    /// ```
    /// use windlass::{Device, KnownBackend};
    /// assert_eq!(*Device::host().backend(), KnownBackend::Host.id());
    /// ```
    pub const fn id(self) -> BackendId {
        BackendId::new(match self {
            KnownBackend::Host => "host",
            KnownBackend::OpenCl => "opencl",
            KnownBackend::Wgpu => "wgpu",
        })
    }
}
