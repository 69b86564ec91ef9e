//! Platforms: what one driver offers.

use std::hash::{Hash, Hasher};

use windlass_backend::{Aspect, BackendId, DeviceKind};

use super::{Device, Selector};
use crate::error::Result;
use crate::runtime::Runtime;

/// A driver's devices.
///
/// ```
/// use windlass::{DeviceKind, Platform};
/// # async fn f() -> windlass::Result<()> {
/// for platform in Platform::of("host").await {
///     assert_eq!(platform.devices_of(DeviceKind::Host).count(), 1);
/// }
/// # Ok(()) }
/// # futures::executor::block_on(f()).unwrap();
/// ```
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
    ///
    /// ```
    /// use windlass::Platform;
    /// # async fn f() -> windlass::Result<()> {
    /// for platform in Platform::discover().await {
    ///     println!("{} by {}, {}", platform.name(), platform.vendor(), platform.version());
    /// #   assert!(platform.backend().as_str() != "host" || platform.devices().len() == 1);
    /// }
    /// # Ok(()) }
    /// # futures::executor::block_on(f()).unwrap();
    /// ```
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

    /// The platforms of one backend. Only that is asked, so no other driver is loaded.
    ///
    /// ```
    /// use windlass::Platform;
    /// # futures::executor::block_on(async {
    /// for platform in Platform::of("opencl").await {
    ///     println!("{}: {}", platform.name(), platform.version());
    /// }
    /// assert!(Platform::of("abacus").await.is_empty());
    /// # });
    /// ```
    pub async fn of(backend: &str) -> Vec<Platform> {
        let (runtime, backend) = (Runtime::global(), backend.to_owned().into());
        let inner = runtime.inner().clone();
        inner.off_thread(move || runtime.platforms_of(Some(&backend))).await
    }

    /// [`Platform::of`] on this thread, which blocks as long as the driver takes.
    ///
    /// ```
    /// let host = windlass::Platform::blocking_of("host");
    /// assert_eq!(host[0].devices(), [windlass::Device::host()]);
    /// assert!(windlass::Platform::blocking_of("abacus").is_empty());
    /// ```
    pub fn blocking_of(backend: &str) -> Vec<Platform> {
        Runtime::global().platforms_of(Some(&backend.to_owned().into()))
    }

    /// The platform of the device that a selector chooses.
    ///
    /// ```
    /// use windlass::{Platform, Selector};
    /// # async fn f() -> windlass::Result<()> {
    /// let platform = Platform::select(Selector::backend("host")).await?;
    /// assert_eq!(platform.backend().as_str(), "host");
    /// # Ok(()) }
    /// # futures::executor::block_on(f()).unwrap();
    /// ```
    pub async fn select(selector: Selector) -> Result<Platform> {
        Ok(Device::select(selector).await?.platform())
    }

    /// [`Platform::select`] on this thread, which blocks as long as drivers take.
    ///
    /// ```
    /// use windlass::{Platform, Selector};
    /// let host = Platform::blocking_select(Selector::backend("host"))?;
    /// assert_eq!(host.devices(), [windlass::Device::host()]);
    /// # Ok::<(), windlass::Error>(())
    /// ```
    pub fn blocking_select(selector: Selector) -> Result<Platform> {
        Ok(Device::blocking_select(selector)?.platform())
    }

    /// The backend it belongs to.
    ///
    /// ```
    /// assert_eq!(windlass::Device::host().platform().backend().as_str(), "host");
    /// ```
    pub fn backend(&self) -> &BackendId {
        &self.backend
    }

    /// The driver's name for itself.
    ///
    /// ```
    /// for platform in futures::executor::block_on(windlass::Runtime::global().platforms()) {
    ///     println!("{} {} by {}: {} devices", platform.name(), platform.version(), platform.vendor(), platform.devices().len());
    /// }
    /// ```
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
    ///
    /// ```
    /// let host = windlass::Device::host();
    /// assert_eq!(host.platform().devices(), [host]);
    /// ```
    pub fn devices(&self) -> &[Device] {
        &self.devices
    }

    /// Its devices of one kind.
    ///
    /// ```
    /// use windlass::{Device, DeviceKind};
    /// let host = Device::host().platform();
    /// assert!(host.devices_of(DeviceKind::Host).eq([&Device::host()]));
    /// assert_eq!(host.devices_of(DeviceKind::DiscreteGpu).count(), 0);
    /// ```
    pub fn devices_of(&self, kind: DeviceKind) -> impl Iterator<Item = &Device> {
        self.devices.iter().filter(move |device| device.kind() == kind)
    }

    /// Whether all its devices have an [extension](Device::has_extension); a platform without devices has none.
    ///
    /// ```
    /// use windlass::Platform;
    /// let with_doubles = Platform::blocking_of("opencl").into_iter().filter(|p| p.has_extension("cl_khr_fp64"));
    /// for platform in with_doubles {
    ///     println!("{}", platform.name());
    /// }
    /// ```
    pub fn has_extension(&self, name: &str) -> bool {
        !self.devices.is_empty() && self.devices.iter().all(|device| device.has_extension(name))
    }

    /// Whether all its devices have a feature; a platform without devices has none.
    ///
    /// ```
    /// use windlass::{Aspect, Device};
    /// assert!(Device::host().platform().has(Aspect::HostBodies));
    /// ```
    pub fn has(&self, aspect: Aspect) -> bool {
        !self.devices.is_empty() && self.devices.iter().all(|device| device.has(aspect))
    }
}

/// Platforms are the same if they are one backend's, and say the same of themselves and of their devices.
impl PartialEq for Platform {
    fn eq(&self, other: &Self) -> bool {
        let key =
            |of: &Platform| (of.backend.clone(), of.name.clone(), of.vendor.clone(), of.version.clone());
        key(self) == key(other) && self.devices == other.devices
    }
}
impl Eq for Platform {}

impl Hash for Platform {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let Platform { backend, name, vendor, version, devices } = self;
        (backend, name, vendor, version, devices).hash(state);
    }
}
