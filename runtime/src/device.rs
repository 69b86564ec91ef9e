//! Devices and platforms: what there is, and how to choose.

use std::fmt;
use std::sync::Arc;

use windlass_backend::{Aspect, BackendId, DeviceInfo, DeviceKind};
use windlass_kernel::Kernel;

use crate::error::{Error, Kind, Result};
use crate::runtime::Runtime;
use crate::shell::devices::{DeviceData, Fault};

/// A device that some backend offers. Cheap to clone.
///
/// The environment variable `WINDLASS_DEVICE` narrows what there is, `opencl:1` for instance: see [`Selector`].
///
/// ```
/// use windlass::Device;
/// # fn main() -> windlass::Result<()> {
/// for device in Device::blocking_discover()? {
///     println!("{device:#}");
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Device {
    runtime: Runtime,
    pub(crate) data: Arc<DeviceData>,
}

impl Device {
    pub(crate) fn new(runtime: Runtime, data: Arc<DeviceData>) -> Self {
        Device { runtime, data }
    }

    /// [`Device::discover`] on this thread, which blocks as long as drivers take.
    pub fn blocking_discover() -> Result<Vec<Device>> {
        Runtime::global().devices_here()
    }

    /// All devices of the process's default runtime.
    pub async fn discover() -> Result<Vec<Device>> {
        Runtime::global().devices().await
    }

    /// The best device by a selector's score.
    ///
    /// ```
    /// use windlass::prelude::*;
    /// # async fn f() -> windlass::Result<()> {
    /// let device = Device::select(Selector::backend("host")).await?;
    /// assert_eq!(device.backend().as_str(), "host");
    /// # Ok(()) }
    /// # futures::executor::block_on(f()).unwrap();
    /// ```
    pub async fn select(selector: Selector) -> Result<Device> {
        let runtime = Runtime::global();
        let inner = runtime.inner().clone();
        inner.off_thread(move || runtime.select_here(selector)).await
    }

    /// [`Device::select`] on this thread, which blocks as long as drivers take.
    pub fn blocking_select(selector: Selector) -> Result<Device> {
        Runtime::global().select_here(selector)
    }

    /// This process's own threads: always there.
    ///
    /// ```
    /// assert_eq!(windlass::Device::host().backend().as_str(), "host");
    /// ```
    #[cfg(feature = "host")]
    pub fn host() -> Device {
        match Runtime::global().host() {
            Ok(device) => device,
            Err(_) => unreachable!("the process's runtime has the built-in host backend, which has a device"),
        }
    }

    /// The runtime that found it.
    pub fn runtime(&self) -> &Runtime {
        &self.runtime
    }

    /// The backend that offers it.
    pub fn backend(&self) -> &BackendId {
        &self.data.backend
    }

    /// The name of its platform.
    pub fn platform_name(&self) -> &str {
        &self.data.platform
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.data.info.name
    }

    /// What kind of hardware it is.
    pub fn kind(&self) -> DeviceKind {
        self.data.info.kind
    }

    /// Everything that is known of it.
    pub fn info(&self) -> &DeviceInfo {
        &self.data.info
    }

    /// What it is known to get wrong without a word: looked for when the device is first opened, and nothing before. Each is also
    /// a warning, by `tracing`.
    ///
    /// ```
    /// use windlass::prelude::*;
    /// # fn main() -> windlass::Result<()> {
    /// let queue = Queue::blocking_new()?;
    /// for fault in queue.device().faults() {
    ///     println!("{} {fault}", queue.device().name());
    /// }
    /// assert!(Device::host().faults().is_empty());
    /// # Ok(())
    /// # }
    /// ```
    pub fn faults(&self) -> &[Fault] {
        self.data.faults.get().map_or(&[], Vec::as_slice)
    }

    /// The names of the kernels that it has built in, for [`KernelImage::builtin`](windlass_kernel::KernelImage::builtin).
    ///
    /// ```
    /// assert!(windlass::Device::host().builtin_kernels().is_empty());
    /// ```
    pub fn builtin_kernels(&self) -> &[String] {
        &self.data.info.builtin_kernels
    }

    /// Whether it has a feature.
    pub fn has(&self, aspect: Aspect) -> bool {
        self.data.info.has(aspect)
    }
}

impl PartialEq for Device {
    fn eq(&self, other: &Self) -> bool {
        self.runtime.is_same(&other.runtime) && self.data.is_same(&other.data)
    }
}
impl Eq for Device {}

impl fmt::Display for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.data.fmt(f)
    }
}

impl fmt::Debug for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Device({self})")
    }
}

/// A driver's devices.
#[derive(Clone, Debug)]
pub struct Platform {
    backend: BackendId,
    name: String,
    vendor: String,
    version: String,
    devices: Vec<Device>,
}

impl Platform {
    pub(crate) fn new(backend: BackendId, of: &windlass_backend::Platform, devices: Vec<Device>) -> Self {
        let windlass_backend::Platform { name, vendor, version, .. } = of.clone();
        Platform { backend, name, vendor, version, devices }
    }

    /// All platforms of the process's default runtime, those without devices included.
    pub async fn discover() -> Vec<Platform> {
        Runtime::global().platforms().await
    }

    /// [`Platform::discover`] on this thread, which blocks as long as drivers take.
    ///
    /// ```
    /// assert!(windlass::Platform::blocking_discover().iter().any(|p| p.backend().as_str() == "host"));
    /// ```
    pub fn blocking_discover() -> Vec<Platform> {
        Runtime::global().platforms_here()
    }

    /// The backend it belongs to.
    pub fn backend(&self) -> &BackendId {
        &self.backend
    }

    /// The driver's name for itself.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Who made it.
    pub fn vendor(&self) -> &str {
        &self.vendor
    }

    /// The native API's version.
    pub fn version(&self) -> &str {
        &self.version
    }

    /// Its devices; there may be none.
    pub fn devices(&self) -> &[Device] {
        &self.devices
    }
}

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
    aspects: Vec<Aspect>,
    kernels: Vec<Kernel>,
    score: Option<Arc<Score>>,
}

impl fmt::Debug for Selector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Selector")
            .field("backend", &self.backend)
            .field("aspects", &self.aspects)
            .field("kernels", &self.kernels.iter().map(Kernel::name).collect::<Vec<_>>())
            .finish_non_exhaustive()
    }
}

impl Selector {
    /// Any device; the best by the default score.
    pub fn new() -> Self {
        Self::default()
    }

    /// Devices of one backend.
    pub fn backend(name: &str) -> Self {
        Selector { backend: Some(name.to_owned().into()), ..Self::default() }
    }

    /// Only devices with this feature.
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

    /// Your own score: the highest wins, `None` rules out. Ties go to the one found first.
    pub fn score(mut self, score: impl Fn(&Device) -> Option<i64> + Send + Sync + 'static) -> Self {
        self.score = Some(Arc::new(score));
        self
    }

    /// What this selector gives a device; `None` if it is ruled out. Without a score of your own: GPUs before this
    /// process's own threads, and these before CPUs behind a driver.
    pub fn score_of(&self, device: &Device) -> Option<i64> {
        if self.backend.as_ref().is_some_and(|b| b != device.backend()) {
            return None;
        }
        if !self.aspects.iter().all(|a| device.has(*a)) {
            return None;
        }
        if self.kernels.iter().any(|kernel| device.can_run(kernel).is_err()) {
            return None;
        }
        match &self.score {
            Some(score) => score(device),
            None => Some(match device.kind() {
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

/// What `WINDLASS_DEVICE` asks for: a backend, and which of its devices.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DeviceFilter {
    pub(crate) backend: BackendId,
    pub(crate) index: Option<usize>,
}

impl DeviceFilter {
    /// What `WINDLASS_DEVICE` says, if it is set.
    pub(crate) fn of_environment() -> Result<Option<DeviceFilter>> {
        let Some(value) = std::env::var_os("WINDLASS_DEVICE") else { return Ok(None) };
        match value.to_str() {
            Some(text) => DeviceFilter::parse(text).map(Some),
            None => Err(Error::invalid(format!(
                "WINDLASS_DEVICE is {value:?}, which is not UTF-8; it must be a backend, or a backend and a number, as \
                 in `opencl:1`"
            ))),
        }
    }

    /// Reads `backend` or `backend:n`.
    pub(crate) fn parse(text: &str) -> Result<DeviceFilter> {
        let wrong = || {
            Error::invalid(format!(
                "WINDLASS_DEVICE is `{text}`; it must be a backend (`host`, `opencl`, `wgpu`) or a backend and the \
                 number of one of its devices, as in `opencl:1`"
            ))
        };
        let (backend, index) = match text.split_once(':') {
            Some((backend, index)) => (backend, Some(index.parse().map_err(|_| wrong())?)),
            None => (text, None),
        };
        match backend.is_empty() || backend.chars().any(char::is_whitespace) {
            true => Err(wrong()),
            false => Ok(DeviceFilter { backend: backend.to_owned().into(), index }),
        }
    }

    /// The devices that it leaves.
    pub(crate) fn leave(&self, devices: Vec<Device>) -> Result<Vec<Device>> {
        let of_backend: Vec<_> = devices.into_iter().filter(|d| *d.backend() == self.backend).collect();
        let found = of_backend.len();
        let left: Vec<_> = match self.index {
            None => of_backend,
            Some(index) => of_backend.into_iter().skip(index).take(1).collect(),
        };
        match left.is_empty() {
            false => Ok(left),
            true => Err(Error::new(Kind::NoDevice(format!(
                "WINDLASS_DEVICE asks for {}{}, and that backend has {found} devices here",
                self.backend,
                self.index.map(|i| format!(":{i}")).unwrap_or_default(),
            )))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn row_18_device_variable() {
        let filter = |backend: &'static str, index| DeviceFilter { backend: BackendId::new(backend), index };
        assert_eq!(DeviceFilter::parse("opencl").unwrap(), filter("opencl", None));
        assert_eq!(DeviceFilter::parse("wgpu:2").unwrap(), filter("wgpu", Some(2)));
        for bad in ["", ":1", "opencl:", "opencl:x", "opencl:-1", "open cl"] {
            let error = DeviceFilter::parse(bad).unwrap_err();
            assert!(
                error.is_invalid_input() && error.to_string().contains("WINDLASS_DEVICE"),
                "{bad}: {error}"
            );
        }
    }
}
