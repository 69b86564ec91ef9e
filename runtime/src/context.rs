//! Contexts: devices that were opened together.

use std::any::Any;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use windlass_backend::{AtomicOrders, AtomicScopes, Context as NativeContext, ContextSpec};

use crate::device::{Device, Platform};
use crate::error::{Error, Kind, Result};
use crate::runtime::Runtime;
use crate::shell::Inner;
use crate::shell::context::{ContextShared, DeviceSlot, LaneKind};
use crate::shell::devices::DeviceData;
use crate::shell::sink::ContextLoss;

/// Devices of one platform that were opened together: they share kernels, and what one has written another can read
/// without the host.
///
/// Queues that are built without a context share the runtime's own context of their device. A context of your own has
/// memory of its own.
///
/// ```
/// use windlass::prelude::*;
/// # fn main() -> windlass::Result<()> {
/// let host = Device::host();
/// let context = Context::blocking_open(&[host.clone()])?;
/// let queue = Queue::blocking_in_context(&context, &host)?;
/// # drop(queue);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Context {
    // Goes before its runtime, whose reaper gets what it had built.
    shared: Arc<ContextShared>,
    runtime: Runtime,
}

impl Context {
    /// [`Context::open`] on this thread, which blocks as long as the driver takes.
    ///
    /// ```
    /// use windlass::prelude::*;
    /// # fn main() -> windlass::Result<()> {
    /// let context = Context::blocking_open(&[Device::host()])?;
    /// let queue = Queue::builder().context(&context).blocking_build()?;
    /// assert_eq!(*queue.device(), Device::host());
    /// # Ok(()) }
    /// ```
    pub fn blocking_open(devices: &[Device]) -> Result<Context> {
        Inner::check_process()?;
        let Some(first) = devices.first() else { return Err(Error::invalid("a context needs a device")) };
        if let Some(other) = devices.iter().find(|d| !d.runtime().is_same(first.runtime())) {
            return Err(Error::invalid(format!(
                "{first} and {other} were found by different runtimes, and a context has devices of one runtime"
            )));
        }
        let of_platform = |d: &Device| d.data.at;
        if let Some(other) = devices.iter().find(|d| of_platform(d) != of_platform(first)) {
            return Err(Error::new(Kind::MixedPlatforms([first.to_string(), other.to_string()])));
        }
        let runtime = first.runtime().clone();
        let data: Vec<_> = devices.iter().map(|d| d.data.clone()).collect();
        let shared = open(&runtime, &data, false)?;
        Ok(Context { runtime, shared })
    }

    /// Opens a context over devices of one platform.
    ///
    /// ```
    /// use windlass::prelude::*;
    /// # async fn f() -> windlass::Result<()> {
    /// let context = Context::open(&[Device::host()]).await?;
    /// let queue = Queue::builder().context(&context).build().await?;
    /// queue.submit(|_| Ok(()))?.await?;
    /// assert!(Context::open(&[]).await.unwrap_err().is_invalid_input());
    /// # Ok(()) }
    /// # futures::executor::block_on(f()).unwrap();
    /// ```
    pub async fn open(devices: &[Device]) -> Result<Context> {
        let Some(first) = devices.first() else { return Err(Error::invalid("a context needs a device")) };
        let (inner, devices) = (first.runtime().inner().clone(), devices.to_vec());
        inner.off_thread(move || Context::blocking_open(&devices)).await
    }

    /// The platform of its devices.
    ///
    /// ```
    /// use windlass::prelude::*;
    /// # fn main() -> windlass::Result<()> {
    /// let context = Context::blocking_open(&[Device::host()])?;
    /// assert_eq!(context.platform(), Device::host().platform());
    /// # Ok(()) }
    /// ```
    pub fn platform(&self) -> Platform {
        self.devices().swap_remove(0).platform()
    }

    /// Its devices.
    ///
    /// ```
    /// use windlass::prelude::*;
    /// # fn main() -> windlass::Result<()> {
    /// let context = Context::blocking_open(&[Device::host()])?;
    /// let mut queues = Vec::new();
    /// for device in context.devices() {
    ///     queues.push(Queue::blocking_in_context(&context, &device)?);
    /// }
    /// assert_eq!(*queues[0].device(), Device::host());
    /// # Ok(()) }
    /// ```
    pub fn devices(&self) -> Vec<Device> {
        self.shared.devices().map(|data| Device::new(self.runtime.clone(), data.clone())).collect()
    }

    /// The strongest orders that atomic operations have on all its devices.
    ///
    /// ```
    /// use windlass::{AtomicOrders, AtomicScopes, prelude::*};
    /// # fn main() -> windlass::Result<()> {
    /// let context = Context::blocking_open(&[Device::host()])?;
    /// assert_eq!(context.atomic_orders(), AtomicOrders::SequentiallyConsistent);
    /// assert!(context.atomic_scopes() >= AtomicScopes::WorkGroup);
    /// # Ok(())
    /// # }
    /// ```
    pub fn atomic_orders(&self) -> AtomicOrders {
        let orders = self.shared.devices().map(|device| device.info.atomic_orders);
        orders.min().unwrap_or(AtomicOrders::Relaxed)
    }

    /// How far atomic operations reach on all its devices.
    ///
    /// ```
    /// use windlass::{AtomicScopes, prelude::*};
    /// # fn main() -> windlass::Result<()> {
    /// let context = Queue::blocking_new()?.context();
    /// if context.atomic_scopes() < AtomicScopes::Device {
    ///     println!("work-groups cannot count together: each has a sum of its own");
    /// }
    /// # Ok(()) }
    /// ```
    pub fn atomic_scopes(&self) -> AtomicScopes {
        let scopes = self.shared.devices().map(|device| device.info.atomic_scopes);
        scopes.min().unwrap_or(AtomicScopes::WorkGroup)
    }

    /// Gives the context up: its device hangs, or has become too slow to wait for. Everything on it fails as if the device were
    /// lost, at once and without waiting for it, and others go on.
    ///
    /// Nobody knows what such a device still does. So memory that its unfinished commands use is leaked, what was only
    /// there is lost, and that may be host memory too: a buffer that was being copied to the host has lost what it had there.
    /// The device can be opened again, if its driver lets it be.
    ///
    /// ```
    /// use windlass::prelude::*;
    /// # fn main() -> windlass::Result<()> {
    /// let queue = Queue::blocking_on(Device::host())?;
    /// let x = Buffer::from(vec![1_u32; 4]);
    /// queue.submit(|cg| cg.fill(&cg.overwrite(&x), 2))?.blocking_wait()?;
    /// queue.context().abandon();
    /// assert!(queue.submit(|cg| cg.fill(&cg.overwrite(&x), 3)).unwrap_err().is_device_lost());
    /// let again = Queue::blocking_on(Device::host())?;
    /// again.submit(|cg| cg.fill(&cg.overwrite(&x), 4))?.blocking_wait()?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn abandon(&self) {
        self.shared.abandon(self.runtime.inner());
    }

    /// The runtime it belongs to.
    ///
    /// ```
    /// use windlass::prelude::*;
    /// # fn main() -> windlass::Result<()> {
    /// let context = Context::blocking_open(&[Device::host()])?;
    /// assert_eq!(*context.runtime(), Runtime::global());
    /// # Ok(()) }
    /// ```
    pub fn runtime(&self) -> &Runtime {
        &self.runtime
    }

    /// Has a backend make a context of a native object.
    pub(crate) fn adopt(runtime: &Runtime, backend: &str, object: Box<dyn Any + Send>) -> Result<Context> {
        Inner::check_process()?;
        let (at, listed) = runtime.devices_of_backend(backend)?;
        let told = Arc::new(ContextLoss::new(runtime.inner()));
        let native = runtime.adopt_native(at, object, told.clone())?;
        let devices = native.info().devices.iter().map(|info| {
            let found = listed.iter().find(|device| device.info().key == info.key);
            found.map(|device| device.data.clone()).ok_or_else(|| {
                Error::invalid(format!(
                    "a native context on {}, which backend `{backend}` does not list among its devices",
                    info.name
                ))
            })
        });
        let devices = devices.collect::<Result<Vec<_>>>()?;
        let shared = ContextShared::new(runtime.inner(), native, &told, &devices, false)?;
        Ok(Context { runtime: runtime.clone(), shared })
    }

    /// The context of a queue.
    pub(crate) fn new(runtime: Runtime, shared: Arc<ContextShared>) -> Self {
        Context { runtime, shared }
    }

    /// The backend's end.
    pub(crate) fn backend_context(&self) -> &Arc<dyn NativeContext> {
        &self.shared.native
    }

    /// The shell's end.
    pub(crate) fn shared(&self) -> &Arc<ContextShared> {
        &self.shared
    }

    pub(crate) fn slot(&self, device: &Device, kind: LaneKind) -> Result<Arc<DeviceSlot>> {
        ContextShared::slot(&self.shared, self.runtime.inner(), &device.data, kind)
    }
}

/// Handles to one open context are the same.
impl PartialEq for Context {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.shared, &other.shared)
    }
}
impl Eq for Context {}

impl Hash for Context {
    fn hash<H: Hasher>(&self, state: &mut H) {
        Arc::as_ptr(&self.shared).hash(state);
    }
}

impl fmt::Display for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.shared.fmt(f)
    }
}

impl fmt::Debug for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Context").field("devices", &self.devices()).finish()
    }
}

/// Opens a native context, the runtime's own or another.
pub(crate) fn open(runtime: &Runtime, devices: &[Arc<DeviceData>], own: bool) -> Result<Arc<ContextShared>> {
    let told = Arc::new(ContextLoss::new(runtime.inner()));
    let keys = devices.iter().map(|d| d.info.key.clone()).collect();
    let native = runtime.open_native(devices[0].at.0, ContextSpec::new(keys, told.clone()));
    let native = native.map_err(|why| match devices.len() > 1 && why.is_of_native_call() {
        true => {
            Error::new(Kind::NotShareable { devices: devices.iter().map(|d| d.to_string()).collect(), why })
        }
        false => why,
    })?;
    let opened = ContextShared::new(runtime.inner(), native, &told, devices, own)?;
    devices.iter().for_each(|device| runtime.probe(device));
    Ok(opened)
}
