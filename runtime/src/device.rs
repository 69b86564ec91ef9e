//! Devices and platforms: what there is, and how to choose.

mod filter;
mod platform;
mod selector;

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use windlass_backend::{Aspect, BackendId, DeviceInfo, DeviceKind};

pub(crate) use filter::DeviceFilter;
pub use platform::Platform;
pub use selector::Selector;

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
    ///
    /// ```
    /// use windlass::prelude::*;
    /// # fn main() -> windlass::Result<()> {
    /// let gpus = Device::blocking_discover()?.into_iter().filter(|device| device.kind().is_gpu());
    /// for gpu in gpus {
    ///     println!("{gpu}: {:?} bytes", gpu.info().memory_bytes);
    /// }
    /// # Ok(()) }
    /// ```
    pub fn blocking_discover() -> Result<Vec<Device>> {
        Runtime::global().devices_here()
    }

    /// All devices of the process's default runtime.
    ///
    /// ```
    /// use windlass::prelude::*;
    /// # async fn f() -> windlass::Result<()> {
    /// let devices = Device::discover().await?;
    /// assert!(devices.contains(&Device::host()));
    /// # Ok(()) }
    /// # futures::executor::block_on(f()).unwrap();
    /// ```
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
    ///
    /// ```
    /// use windlass::prelude::*;
    /// # fn main() -> windlass::Result<()> {
    /// let most_units = Selector::new().score(|device| i64::try_from(device.info().compute_units).ok());
    /// let device = Device::blocking_select(most_units)?;
    /// assert!(device.info().compute_units >= Device::host().info().compute_units);
    /// # Ok(()) }
    /// ```
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
    ///
    /// ```
    /// use windlass::prelude::*;
    /// # fn main() -> windlass::Result<()> {
    /// let runtime = Runtime::new();
    /// // Queues are of the runtime that has found their device, and not of the process's default one.
    /// let queue = Queue::blocking_on(runtime.host()?)?;
    /// assert_ne!(*queue.device(), Device::host());
    /// queue.device().runtime().abort();
    /// assert!(queue.submit(|_| Ok(())).is_err() && Queue::blocking_on(Device::host()).is_ok());
    /// # Ok(()) }
    /// ```
    pub fn runtime(&self) -> &Runtime {
        &self.runtime
    }

    /// Asks its driver for it once more: after it was lost, or given up because it hung. Queues of it stay lost; new ones are built on what this
    /// returns. An error if the driver does not list it any more, and whether it lets the device be opened again is seen when a
    /// queue is built: some do not, as long as the process lives.
    ///
    /// ```
    /// use windlass::prelude::*;
    /// # async fn f() -> windlass::Result<()> {
    /// let queue = Queue::on(Device::host()).await?;
    /// queue.context().abandon();
    /// assert!(queue.submit(|_| Ok(())).unwrap_err().is_device_lost());
    /// let again = Queue::on(queue.device().reopen().await?).await?;
    /// again.submit(|_| Ok(()))?.await
    /// # }
    /// # futures::executor::block_on(f()).unwrap();
    /// ```
    pub async fn reopen(&self) -> Result<Device> {
        let found = self.runtime.rediscover().await?;
        found.into_iter().find(|device| device == self).ok_or_else(|| {
            Error::new(Kind::NoDevice(format!("{self} is not among the devices that its driver lists now")))
        })
    }

    /// The backend that offers it.
    ///
    /// ```
    /// let host = windlass::Device::host();
    /// assert_eq!(host.backend().as_str(), "host");
    /// ```
    pub fn backend(&self) -> &BackendId {
        &self.data.backend
    }

    /// Its platform: what else its driver offers.
    ///
    /// ```
    /// use windlass::Device;
    /// let host = Device::host();
    /// assert_eq!(host.platform().devices(), [host]);
    /// ```
    pub fn platform(&self) -> Platform {
        let found = self.runtime.platform_at(self.data.at);
        found.unwrap_or_else(|| unreachable!("a device was found on a platform"))
    }

    /// The name of its platform.
    ///
    /// ```
    /// let host = windlass::Device::host();
    /// assert_eq!(host.platform_name(), host.platform().name());
    /// ```
    pub fn platform_name(&self) -> &str {
        &self.data.platform
    }

    /// Its name.
    ///
    /// ```
    /// for device in windlass::Device::blocking_discover()? {
    ///     println!("{} of {}, by {}", device.name(), device.platform_name(), device.backend());
    /// }
    /// # Ok::<(), windlass::Error>(())
    /// ```
    pub fn name(&self) -> &str {
        &self.data.info.name
    }

    /// What kind of hardware it is.
    ///
    /// ```
    /// use windlass::{Device, DeviceKind};
    /// assert_eq!(Device::host().kind(), DeviceKind::Host);
    /// assert!(!Device::host().kind().is_gpu());
    /// ```
    pub fn kind(&self) -> DeviceKind {
        self.data.info.kind
    }

    /// Everything that is known of it.
    ///
    /// ```
    /// use windlass::prelude::*;
    /// let host = Device::host();
    /// let info = host.info();
    /// println!("{}: {} units, groups of up to {}", info.name, info.compute_units, info.limits.work_group_items);
    /// assert!(info.compute_units > 0);
    /// // What its driver tells beside: sizes of sub-groups, caches, clocks and others.
    /// let line = info.details.cache.and_then(|cache| cache.line).unwrap_or(64);
    /// assert!(line > 0 && info.details.subgroup_sizes == [1]);
    /// ```
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

    /// Whether it has an extension or feature that its native API calls so. Most programs ask for an [`Aspect`], which is the same
    /// for all.
    ///
    /// ```
    /// assert!(!windlass::Device::host().has_extension("cl_khr_fp64"));
    /// ```
    pub fn has_extension(&self, name: &str) -> bool {
        self.data.info.extensions.binary_search_by(|known| known.as_str().cmp(name)).is_ok()
    }

    /// Whether two devices are known to be one piece of hardware, which several backends offer: memory and time of one are the
    /// other's. They are if their drivers tell the same identity (Vulkan's `deviceUUID`, which OpenCL has by `cl_khr_device_uuid`), or
    /// the same place on the bus; devices that one backend tells apart are not. Processors are in no such place, and where drivers
    /// tell neither, nothing is known.
    ///
    /// ```
    /// let host = windlass::Device::host();
    /// assert!(host.is_same_hardware(&host));
    /// ```
    pub fn is_same_hardware(&self, other: &Device) -> bool {
        let (this, that) = (&self.data.info, &other.data.info);
        let ids = this.physical_id.zip(that.physical_id);
        // A card that is divided has parts with identities of their own in one place; of one backend's devices they count. Drivers of
        // two APIs are known to make different identities of one card.
        let are_told_apart = ids.is_some() && self.backend() == other.backend();
        let are_in_one_place = this.pci.is_some() && this.pci == that.pci;
        self == other || ids.is_some_and(|(a, b)| a == b) || (are_in_one_place && !are_told_apart)
    }

    /// Whether it has a feature.
    ///
    /// ```
    /// use windlass::prelude::*;
    /// # fn main() -> windlass::Result<()> {
    /// let queue = Queue::blocking_on(Device::host())?;
    /// if queue.device().has(Aspect::HostBodies) {
    ///     // It runs closures.
    ///     queue.submit(|cg| cg.host_for(8, (), |_, ()| ()))?.blocking_wait()?;
    /// }
    /// assert!(queue.device().has(Aspect::HostBodies));
    /// # Ok(()) }
    /// ```
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

impl Hash for Device {
    fn hash<H: Hasher>(&self, state: &mut H) {
        // Devices that differ in their runtimes only are rare.
        (self.data.at.0, &self.data.info.key).hash(state);
    }
}

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
