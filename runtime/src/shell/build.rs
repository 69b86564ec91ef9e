//! Kernels as contexts build them: off every executor, single flight, kept as long as the context.

use std::collections::hash_map::Entry;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};

use rustc_hash::FxHashMap;
use smallvec::SmallVec;
use windlass_backend::{Aspect, AtomicOrders, BuiltKernel, Context as NativeContext, DeviceInfo};
use windlass_kernel::shape::Shape;
use windlass_kernel::{Declared, Kernel, KernelImage, Need, Slot, asked};
use windlass_sync::cell::{EventCell, Registration};
use windlass_sync::facade::{Mutex, lock};

use crate::error::{Error, Result};
use crate::shell::Inner;
use crate::shell::form::Form;

/// A kernel that is being built, or has been.
#[derive(Debug)]
pub(crate) struct Built {
    cell: EventCell<Result<Arc<dyn BuiltKernel>>>,
    /// The same once it has gone well, for those who look at each launch. Set before the cell is.
    ready: OnceLock<Arc<dyn BuiltKernel>>,
    /// Keeps the kernel's number from being given out again.
    kernel: Kernel,
    /// The arguments that the code relies on.
    declared: Option<Declared>,
}

impl Built {
    pub(crate) fn name(&self) -> &str {
        self.kernel.name()
    }

    pub(crate) fn slots(&self) -> &[Slot] {
        self.kernel.slots()
    }

    /// The arguments that its code for this device relies on, if there are such.
    pub(crate) fn declared(&self) -> Option<&Declared> {
        self.declared.as_ref()
    }

    /// The kernel, if it has been built and that went well.
    #[inline]
    pub(crate) fn ready(&self) -> Option<&Arc<dyn BuiltKernel>> {
        self.ready.get()
    }

    /// How the build went, if it is over.
    pub(crate) fn outcome(&self) -> Option<Result<Arc<dyn BuiltKernel>>> {
        self.cell.get()
    }
}

/// Waits for a build.
#[derive(Debug)]
pub(crate) struct WaitBuilt {
    built: Arc<Built>,
    registration: Registration,
}

impl WaitBuilt {
    pub(crate) fn new(built: Arc<Built>) -> Self {
        WaitBuilt { built, registration: Registration::default() }
    }
}

impl Future for WaitBuilt {
    type Output = Result<Arc<dyn BuiltKernel>>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.get_mut();
        this.built.cell.poll_simply(&mut this.registration, cx)
    }
}

/// Values for the overrides of a kernel's text, by name.
pub(crate) type Values = SmallVec<[(&'static str, f64); 4]>;

/// What a build is known by: the kernel's number, the device's position, and the bits of the overrides' values.
type Key = (usize, usize, SmallVec<[(&'static str, u64); 4]>);

/// A context's kernels.
#[derive(Debug, Default)]
pub(crate) struct Builds {
    table: Mutex<FxHashMap<Key, Arc<Built>>>,
}

impl Builds {
    /// The kernel for a device; starts its build if nobody has.
    pub(crate) fn get(
        &self,
        inner: &Arc<Inner>,
        native: &Arc<dyn NativeContext>,
        device: usize,
        kernel: &Kernel,
        values: Values,
    ) -> Result<Arc<Built>> {
        let image = image_on(kernel, &native.info().devices[device])?;
        // Native code is the same for all values.
        let values = if image.body().is_some() { Values::new() } else { values };
        let bits = values.iter().map(|(name, value)| (*name, value.to_bits())).collect();
        let mut table = lock(&self.table);
        let built = match table.entry((kernel.id(), device, bits)) {
            Entry::Occupied(entry) => return Ok(entry.get().clone()),
            Entry::Vacant(entry) => {
                check_own(kernel, image)?;
                let (cell, declared) = (EventCell::new(()), image.declared().copied());
                let built = Built { cell, ready: OnceLock::new(), kernel: kernel.clone(), declared };
                entry.insert(Arc::new(built)).clone()
            }
        };
        drop(table);
        let image = match values.is_empty() {
            true => image.clone(),
            false => {
                image.with_overrides(values.into_iter().map(|(name, value)| (name.into(), value)).collect())
            }
        };
        let (task, native, kernel) = (inner.clone(), native.clone(), kernel.clone());
        let result = built.clone();
        inner.gates.spawn(async move {
            task.enter(|state, _| state.counters.builds += 1);
            let name = kernel.name().to_owned();
            let made = match native.info().cold_calls_block {
                true => {
                    let (native, kernel, image) = (native.clone(), kernel.clone(), image.clone());
                    let build = move || futures_lite::future::block_on(native.build(device, &kernel, &image));
                    task.off_thread(build).await
                }
                false => native.build(device, &kernel, &image).await,
            };
            if let Ok(built) = &made {
                show(&kernel, &native.info().devices[device], &image, &**built);
                let _first = result.ready.set(built.clone());
            }
            let made = made.map_err(|e| Error::backend(e, format!("building kernel `{name}`")));
            if let Some(woken) = result.cell.complete(made) {
                woken.wake();
            }
        });
        Ok(built)
    }
}

/// A text of the attribute relies on what it is called with, and on what it is built with, being what the attribute wrote it for: so it is built
/// for its own kernel alone. Its code for the host compares all of that itself.
fn check_own(kernel: &Kernel, image: &KernelImage) -> Result<()> {
    match image.declared().is_none() || image.body().is_some() || kernel.owns(image) {
        true => Ok(()),
        false => Err(Error::invalid(format!(
            "kernel `{}` has the text of another kernel, that `#[kernel]` wrote for that one alone: call that one",
            kernel.name()
        ))),
    }
}

/// Says, if asked to, what a device has made of a kernel's text. What its native code does is said by that.
fn show(kernel: &Kernel, device: &DeviceInfo, image: &KernelImage, built: &dyn BuiltKernel) {
    if asked::paths() && image.body().is_none() {
        let form = Form { shape: Shape::of(image), report: built.report() };
        eprintln!("windlass: kernel `{}` on {}: {form} (said once)", kernel.name(), device.name);
    }
}

/// The image of a kernel that a device can run: one that it takes, if it has what the kernel needs.
pub(crate) fn image_on<'k>(kernel: &'k Kernel, device: &DeviceInfo) -> Result<&'k KernelImage> {
    let (name, formats) = (kernel.name(), &device.formats);
    let Some(image) = kernel.image_for(formats, &device.name) else {
        let has: Vec<_> = kernel.images().iter().map(|image| image.format()).collect();
        return Err(Error::unsupported(format!(
            "kernel `{name}` has images in {has:?}, and {} takes {formats:?}",
            device.name
        )));
    };
    for need in kernel.needs() {
        if !is_met(*need, device) {
            let what = format!("kernel `{name}` needs {need}, which {} does not have", device.name);
            return Err(Error::unsupported(what));
        }
    }
    Ok(image)
}

fn is_met(need: Need, device: &DeviceInfo) -> bool {
    match need {
        Need::Fp16 => device.has(Aspect::Fp16),
        Need::Fp64 => device.has(Aspect::Fp64),
        Need::Subgroups => device.has(Aspect::Subgroups),
        Need::Int64 => device.has(Aspect::Int64),
        Need::Atomic64 => device.has(Aspect::Atomic64),
        Need::AcquireRelease => device.atomic_orders >= AtomicOrders::AcquireRelease,
        Need::Pointers => device.has(Aspect::Pointers),
        Need::SequentiallyConsistent => device.atomic_orders >= AtomicOrders::SequentiallyConsistent,
        // One that is younger than this crate.
        _ => true,
    }
}
