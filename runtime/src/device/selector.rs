//! How to choose a device.

use std::fmt;
use std::sync::Arc;

use windlass_backend::{Aspect, BackendId, DeviceKind};
use windlass_kernel::Kernel;

use super::Device;
use crate::error::{Error, Kind, Result};

type Score = dyn Fn(&Device) -> Option<i64> + Send + Sync;

/// How to choose a device: what it must be, and which is best.
///
/// A selector that names a backend ([`Selector::backend`]) asks that one only: no other driver is loaded for it.
///
/// # `WINDLASS_DEVICE`
///
/// This environment variable goes before selectors and narrows every list of devices. Its value is a backend (`host`,
/// `opencl`, `wgpu`, or what a backend that was added is called), or a backend, a colon and the number of one of its devices,
/// counted from 0 in the order of [`Device::discover`]: `host`, `opencl`, `opencl:1`. Anything else is an error wherever a device
/// is looked for, and so is a backend that this build does not have. No other backend is asked, so no other driver is
/// loaded. A device that is given to [`QueueBuilder::device`](crate::QueueBuilder::device) is used whatever it says.
///
/// ```
/// use windlass::{Aspect, Device, Selector};
/// let host = Selector::backend("host").aspect(Aspect::HostBodies);
/// assert!(Device::blocking_select(host).is_ok());
/// let nothing = Selector::new().score(|_| None);
/// assert!(Device::blocking_select(nothing).unwrap_err().is_unavailable());
/// ```
#[derive(Clone, Default)]
pub struct Selector {
    backend: Option<BackendId>,
    kind: Option<DeviceKind>,
    aspects: Vec<Aspect>,
    kernels: Vec<Kernel>,
    score: Option<Arc<Score>>,
}

impl fmt::Debug for Selector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Selector")
            .field("backend", &self.backend)
            .field("kind", &self.kind)
            .field("aspects", &self.aspects)
            .field("kernels", &self.kernels.iter().map(Kernel::name).collect::<Vec<_>>())
            .finish_non_exhaustive()
    }
}

impl Selector {
    /// Any device; the best by the default score.
    ///
    /// ```
    /// use windlass::{Device, Selector};
    /// let best = Device::blocking_select(Selector::new())?;
    /// println!("{best}, {}", Selector::new().explain(&best));
    /// # Ok::<(), windlass::Error>(())
    /// ```
    pub fn new() -> Self {
        Self::default()
    }

    /// Devices of one backend.
    ///
    /// ```
    /// use windlass::prelude::*;
    /// # fn main() -> windlass::Result<()> {
    /// let host = Device::blocking_select(Selector::backend("host"))?;
    /// assert_eq!(host, Device::host());
    /// # Ok(()) }
    /// ```
    pub fn backend(name: &str) -> Self {
        Selector { backend: Some(name.to_owned().into()), ..Self::default() }
    }

    /// Only devices with this feature.
    ///
    /// ```
    /// use windlass::prelude::*;
    /// # fn main() -> windlass::Result<()> {
    /// let device = Device::blocking_select(Selector::new().aspect(Aspect::HostBodies))?;
    /// assert!(device.has(Aspect::HostBodies));
    /// # Ok(()) }
    /// ```
    pub fn aspect(mut self, aspect: Aspect) -> Self {
        self.aspects.push(aspect);
        self
    }

    /// Only devices that can run this kernel: that take one of its images, and have the numbers that it works with.
    ///
    /// ```
    /// use windlass::prelude::*;
    ///
    /// #[windlass::kernel]
    /// fn halve(v: &mut [f64]) {
    ///     v[global_id(0)] *= 0.5;
    /// }
    ///
    /// let device = Device::blocking_select(Selector::new().kernel(halve::kernel())).unwrap();
    /// assert!(device.can_run(halve::kernel()).is_ok());
    /// ```
    pub fn kernel(mut self, kernel: &Kernel) -> Self {
        self.kernels.push(kernel.clone());
        self
    }

    /// Only devices of this kind.
    ///
    /// ```
    /// use windlass::{Device, DeviceKind, Selector};
    /// let host = Device::blocking_select(Selector::new().kind(DeviceKind::Host)).unwrap();
    /// assert_eq!(host.kind(), DeviceKind::Host);
    /// ```
    pub fn kind(mut self, kind: DeviceKind) -> Self {
        self.kind = Some(kind);
        self
    }

    /// Your own score: the highest wins, `None` rules out. Ties go to the one found first.
    ///
    /// ```
    /// use windlass::{DeviceKind, prelude::*};
    /// # fn main() -> windlass::Result<()> {
    /// // This process's own threads if they are many, and else any GPU.
    /// let selector = Selector::new().score(|device| match device.kind() {
    ///     DeviceKind::Host if device.info().compute_units >= 1 => Some(2),
    ///     kind if kind.is_gpu() => Some(1),
    ///     _ => None,
    /// });
    /// assert_eq!(Device::blocking_select(selector)?, Device::host());
    /// # Ok(()) }
    /// ```
    pub fn score(mut self, score: impl Fn(&Device) -> Option<i64> + Send + Sync + 'static) -> Self {
        self.score = Some(Arc::new(score));
        self
    }

    /// What this selector gives a device; `None` if it is ruled out. Without a score of your own: GPUs before this
    /// process's own threads, and these before CPUs behind a driver.
    ///
    /// ```
    /// use windlass::prelude::*;
    /// let host = Device::host();
    /// assert!(Selector::new().score_of(&host).is_some());
    /// assert_eq!(Selector::new().score(|_| Some(7)).score_of(&host), Some(7));
    /// assert_eq!(Selector::backend("opencl").score_of(&host), None);
    /// ```
    pub fn score_of(&self, device: &Device) -> Option<i64> {
        self.judge(device).ok()
    }

    /// The score that it gives a device, or why it rules the device out: for people.
    ///
    /// ```
    /// use windlass::{Aspect, Device, Selector};
    /// let host = Device::host();
    /// assert_eq!(Selector::new().explain(&host), "500, as of its kind: host");
    /// assert_eq!(Selector::backend("opencl").explain(&host), "ruled out: its backend is host, and not opencl");
    /// ```
    pub fn explain(&self, device: &Device) -> String {
        match (self.judge(device), &self.score) {
            (Ok(score), Some(_)) => format!("{score}, by the program's own score"),
            (Ok(score), None) => format!("{score}, as of its kind: {}", device.kind()),
            (Err(why), _) => format!("ruled out: {why}"),
        }
    }

    fn judge(&self, device: &Device) -> std::result::Result<i64, String> {
        if let Some(backend) = self.backend.as_ref().filter(|backend| *backend != device.backend()) {
            return Err(format!("its backend is {}, and not {backend}", device.backend()));
        }
        if let Some(kind) = self.kind.filter(|kind| *kind != device.kind()) {
            return Err(format!("its kind is {}, and not {kind}", device.kind()));
        }
        if let Some(aspect) = self.aspects.iter().find(|aspect| !device.has(**aspect)) {
            return Err(format!("it lacks {aspect:?}"));
        }
        if let Some(why) = self.kernels.iter().find_map(|kernel| device.can_run(kernel).err()) {
            return Err(why.to_string());
        }
        match &self.score {
            Some(score) => score(device).ok_or_else(|| "the program's own score".into()),
            None => Ok(match device.kind() {
                DeviceKind::DiscreteGpu => 1000,
                DeviceKind::IntegratedGpu => 800,
                DeviceKind::Host => 500,
                DeviceKind::Cpu => 300,
                _ => 100,
            }),
        }
    }

    /// The one backend that it is about, if there is one.
    pub(crate) fn named_backend(&self) -> Option<&BackendId> {
        self.backend.as_ref()
    }

    pub(crate) fn choose(&self, devices: Vec<Device>) -> Result<Device> {
        let count = devices.len();
        let scored = devices.into_iter().filter_map(|d| Some((self.score_of(&d)?, d)));
        // `max_by_key` takes the last of equals; the first found is wanted.
        let best = scored.rev_first().max_by_key(|(score, _)| *score);
        best.map(|(_, device)| device).ok_or_else(|| {
            Error::new(Kind::NoDevice(format!("none of {count} devices is what {self:?} asks for")))
        })
    }
}

/// An iterator from the back, for those that cannot be reversed themselves.
trait RevFirst: Iterator + Sized {
    fn rev_first(self) -> std::iter::Rev<std::vec::IntoIter<Self::Item>> {
        self.collect::<Vec<_>>().into_iter().rev()
    }
}
impl<I: Iterator> RevFirst for I {}
