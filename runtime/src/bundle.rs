//! Kernels that are built before they are needed.

use std::fmt;
use std::sync::Arc;

use windlass_kernel::shape::Shape;
use windlass_kernel::{Kernel, LaunchRange, Range};

use crate::device::Device;
use crate::error::{Error, Result};
use crate::explain::Explanation;
use crate::group::build_values;
use crate::group::shape::shapes;
use crate::queue::Queue;
use crate::shell::Inner;
use crate::shell::build::{Built, Values, WaitBuilt, image_on};
use crate::shell::limits::check_launch;

/// Kernels together: to be listed, asked what they need, and built ahead of their first launch.
///
/// A kernel is built at its first launch on a context, and whoever comes meanwhile waits for the same build. A server that
/// wants no request to wait builds them when it starts. `name::kernel()` is the kernel of a `#[kernel]` function, and
/// `name::bundle()` are all kernels of a `#[kernels]` module.
///
/// ```
/// use windlass::prelude::*;
/// use windlass::{Bundle, NdRange};
///
/// #[windlass::kernels]
/// mod image {
///     #[kernel]
///     pub fn scale(#[spec] times: u32, v: &mut [u32]) {
///         v[global_id(0)] *= times;
///     }
///
///     #[kernel]
///     pub fn turn(v: &mut [u32], #[local] tile: &mut [u32]) {
///         tile[local_id(0)] = v[global_id(0)];
///         barrier();
///         v[global_id(0)] = tile[local_size(0) - 1 - local_id(0)];
///     }
/// }
///
/// # async fn f() -> windlass::Result<()> {
/// let queue = Queue::builder().build().await?;
/// let kernels = image::bundle().with("times", 3.0)?.with("tile", 16.0)?.over(NdRange { global: [64], local: [16] });
/// kernels.warm_up(&queue).await?;
/// // This one finds its kernel ready.
/// let v = Buffer::from(vec![1_u32; 64]);
/// queue.submit(|cg| cg.parallel_for(64, image::scale(3, cg.read_write(&v))))?.await?;
/// assert_eq!(queue.runtime().stats().builds, 2);
/// # Ok(()) }
/// # futures::executor::block_on(f()).unwrap();
/// ```
#[derive(Clone, Debug)]
pub struct Bundle {
    kernels: Vec<Part>,
    range: Option<Range>,
}

#[derive(Clone, Debug)]
struct Part {
    kernel: Kernel,
    /// A value for each of the kernel's overrides, in their order.
    values: Vec<Option<f64>>,
}

impl Bundle {
    /// These kernels.
    ///
    /// ```
    /// use windlass::{Bundle, prelude::*};
    ///
    /// #[windlass::kernel]
    /// fn double(v: &mut [u32]) {
    ///     v[global_id(0)] *= 2;
    /// }
    ///
    /// let bundle = Bundle::new([double::kernel()]);
    /// assert_eq!(bundle.get("double").unwrap().name(), "double");
    /// assert!(bundle.get("triple").is_none());
    /// ```
    pub fn new<'k>(kernels: impl IntoIterator<Item = &'k Kernel>) -> Self {
        let part =
            |kernel: &Kernel| Part { kernel: kernel.clone(), values: vec![None; kernel.overrides().len()] };
        Bundle { kernels: kernels.into_iter().map(part).collect(), range: None }
    }

    /// The kernels, in their order.
    ///
    /// ```
    /// use windlass::prelude::*;
    ///
    /// #[windlass::kernels]
    /// mod sums {
    ///     #[kernel]
    ///     pub fn double(v: &mut [u32]) {
    ///         v[global_id(0)] *= 2;
    ///     }
    ///
    ///     #[kernel]
    ///     pub fn halve(v: &mut [f64]) {
    ///         v[global_id(0)] *= 0.5;
    ///     }
    /// }
    ///
    /// let (host, bundle) = (Device::host(), sums::bundle());
    /// assert_eq!(bundle.kernels().filter(|kernel| host.can_run(kernel).is_ok()).count(), 2);
    /// ```
    pub fn kernels(&self) -> impl Iterator<Item = &Kernel> {
        self.kernels.iter().map(|part| &part.kernel)
    }

    /// The kernel of a name.
    ///
    /// ```
    /// use windlass::prelude::*;
    ///
    /// #[windlass::kernels]
    /// mod sums {
    ///     #[kernel]
    ///     pub fn double(v: &mut [u32]) {
    ///         v[global_id(0)] *= 2;
    ///     }
    /// }
    ///
    /// let bundle = sums::bundle();
    /// let double = bundle.get("double").unwrap();
    /// assert!(Device::host().can_run(double).is_ok() && bundle.get("triple").is_none());
    /// ```
    pub fn get(&self, name: &str) -> Option<&Kernel> {
        self.kernels().find(|kernel| kernel.name() == name)
    }

    /// Says with which value to build those kernels that have a parameter of this name that is `#[spec]`, or how many
    /// elements their `#[local]` memory of this name has.
    ///
    /// ```
    /// use windlass::{Bundle, prelude::*};
    ///
    /// #[windlass::kernel]
    /// fn scale(#[spec] times: u32, v: &mut [u32]) {
    ///     v[global_id(0)] *= times;
    /// }
    ///
    /// let bundle = Bundle::new([scale::kernel()]);
    /// assert!(bundle.clone().with("times", 3.0).is_ok());
    /// assert!(bundle.clone().with("times", -1.0).unwrap_err().is_invalid_input());
    /// assert!(bundle.with("tiems", 3.0).unwrap_err().is_invalid_input());
    /// ```
    pub fn with(mut self, parameter: &str, value: f64) -> Result<Self> {
        let mut found = false;
        for part in &mut self.kernels {
            for (of, place) in part.kernel.overrides().iter().zip(&mut part.values) {
                if of.parameter == parameter {
                    let held = (of.held)(value).ok_or_else(|| {
                        let kernel = part.kernel.name();
                        Error::invalid(format!(
                            "`{parameter}` of kernel `{kernel}` cannot be {value}: it does not fit its type"
                        ))
                    })?;
                    *place = Some(held);
                    found = true;
                }
            }
        }
        match found {
            true => Ok(self),
            false => Err(Error::invalid(format!(
                "no kernel of the bundle is built with a value for `{parameter}`"
            ))),
        }
    }

    /// Says over which range those kernels will be launched that work in groups.
    ///
    /// ```
    /// use windlass::{Bundle, NdRange, prelude::*};
    ///
    /// #[windlass::kernel]
    /// fn turn(v: &mut [u32], #[local] tile: &mut [u32]) {
    ///     tile[local_id(0)] = v[global_id(0)];
    ///     barrier();
    ///     v[global_id(0)] = tile[local_size(0) - 1 - local_id(0)];
    /// }
    ///
    /// # async fn f() -> windlass::Result<()> {
    /// let queue = Queue::on(Device::host()).await?;
    /// let bundle = Bundle::new([turn::kernel()]).with("tile", 16.0)?;
    /// assert!(bundle.warm_up(&queue).await.is_err(), "its groups are not known");
    /// bundle.over(NdRange { global: [64], local: [16] }).warm_up(&queue).await?;
    /// # Ok(()) }
    /// # futures::executor::block_on(f()).unwrap();
    /// ```
    pub fn over(mut self, range: impl LaunchRange) -> Self {
        self.range = Some(range.range());
        self
    }

    /// Builds all kernels for a queue's device, off this thread, and waits until they are. What was built before, or is
    /// being built, is not built again.
    ///
    /// ```
    /// use windlass::{Bundle, prelude::*};
    ///
    /// #[windlass::kernel]
    /// fn double(v: &mut [u32]) {
    ///     v[global_id(0)] *= 2;
    /// }
    ///
    /// # async fn f() -> windlass::Result<()> {
    /// let queue = Queue::on(Runtime::new().host()?).await?;
    /// Bundle::new([double::kernel()]).warm_up(&queue).await?;
    /// let x = Buffer::from(vec![1_u32; 64]);
    /// queue.submit(|cg| cg.parallel_for(64, double(cg.read_write(&x))))?.await?;
    /// assert_eq!(queue.runtime().stats().builds, 1);
    /// # Ok(()) }
    /// # futures::executor::block_on(f()).unwrap();
    /// ```
    pub async fn warm_up(&self, queue: &Queue) -> Result<()> {
        for started in self.start(queue)? {
            WaitBuilt::new(started.built).await?;
        }
        Ok(())
    }

    /// What there is to know of how fast the kernels can be on a queue's device: on the host how their code reaches each
    /// argument, on others what the device says of each form that they are built in, and which indices are compared in loops. Builds
    /// them, like [`Bundle::warm_up`].
    ///
    /// ```
    /// use windlass::prelude::*;
    /// use windlass::{Bundle, Way};
    ///
    /// #[windlass::kernel]
    /// fn scatter(at: &[u32], to: &mut [u32]) {
    ///     to[at[global_id(0)]] = 1;
    /// }
    ///
    /// # async fn f() -> windlass::Result<()> {
    /// let queue = Queue::builder().device(Device::host()).build().await?;
    /// let explained = Bundle::new([scatter::kernel()]).explain(&queue).await?;
    /// println!("{}", explained[0]);
    /// assert_eq!(explained[0].parameters[0], ("at".into(), Way::Read));
    /// assert!(matches!(explained[0].parameters[1].1, Way::Meeting(Some(_line))));
    /// # Ok(()) }
    /// # futures::executor::block_on(f()).unwrap();
    /// ```
    pub async fn explain(&self, queue: &Queue) -> Result<Vec<Explanation>> {
        let device = queue.device();
        let all = self.kernels().map(|kernel| Explanation::new(kernel, device.info()));
        let mut all: Vec<Explanation> = all.collect::<Result<_>>()?;
        for Started { part, shape, built } in self.start(queue)? {
            let built = WaitBuilt::new(built).await?;
            all[part].add(shape, &*built);
        }
        Ok(all)
    }

    /// Starts all builds.
    fn start(&self, queue: &Queue) -> Result<Vec<Started>> {
        Inner::check_process()?;
        let mut started = Vec::new();
        for (at, part) in self.kernels.iter().enumerate() {
            let slot = queue.slot();
            // A kernel that says what its groups are is built for those, whatever the others are launched over.
            let range = self.range.filter(|range| {
                part.kernel.group().is_none()
                    || part.kernel.grouped_range(*range).is_ok_and(|of| of == *range)
            });
            let values = build_values(&part.kernel, part.values()?, range.as_ref())?;
            if let Some(range) = &range {
                let of = (&slot.device as &dyn fmt::Display, &slot.device.info.limits);
                check_launch(part.kernel.name(), of, std::iter::empty(), range, 0)?;
            }
            // What does not work in groups is launched over items, whatever groups the others have.
            let range = range.filter(|range| part.kernel.is_grouped() || range.local().is_none());
            let shapes = shapes(&part.kernel, &slot.device.info, range.as_ref());
            let shapes = match shapes.is_empty() {
                true => vec![None],
                false => shapes.into_iter().map(Some).collect(),
            };
            for shape in shapes {
                let overrides = shape.into_iter().flat_map(Shape::overrides);
                let values = values.iter().copied().chain(overrides).collect();
                let built = slot.build(queue.runtime().inner(), &part.kernel, values)?;
                started.push(Started { part: at, shape, built });
            }
        }
        Ok(started)
    }
}

/// A build that was started: of which part, and for launches of which shape.
struct Started {
    part: usize,
    shape: Option<Shape>,
    built: Arc<Built>,
}

impl Part {
    fn values(&self) -> Result<Values> {
        let named = self.kernel.overrides().iter().zip(&self.values);
        named
            .map(|(of, value)| match value {
                Some(value) => Ok((of.name, *value)),
                None => Err(Error::invalid(format!(
                    "kernel `{}` is built with a value for `{}`; give it by `Bundle::with`",
                    self.kernel.name(),
                    of.parameter
                ))),
            })
            .collect()
    }
}

impl Device {
    /// Whether the device can run a kernel, and else what is missing.
    ///
    /// ```
    /// use windlass::prelude::*;
    ///
    /// #[windlass::kernel]
    /// fn wide(v: &mut [u64]) {
    ///     v[global_id(0)] += 1;
    /// }
    ///
    /// assert!(Device::host().can_run(wide::kernel()).is_ok());
    /// ```
    pub fn can_run(&self, kernel: &Kernel) -> Result<()> {
        image_on(kernel, self.info()).map(drop)
    }
}
