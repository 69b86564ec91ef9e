//! What is known of how fast a kernel can be on a device.

use std::fmt;

use windlass_backend::{BuiltKernel, DeviceInfo};
use windlass_kernel::shape::Shape;
use windlass_kernel::{Kernel, Way};

use crate::error::Result;
use crate::shell::build::image_on;
use crate::shell::form::Form;

/// What there is to know of how fast a kernel can be on a device, as [`Bundle::explain`](crate::Bundle::explain) finds it out. Its
/// `Display` says it in lines.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Explanation {
    /// The kernel's name.
    pub kernel: String,
    /// The device's.
    pub device: String,
    /// On the host, how the kernel's code reaches each argument, by the parameter's name. Of code that the attribute did not
    /// make nothing is known.
    pub parameters: Vec<(String, Way)>,
    /// On other devices, the forms that the kernel is built in.
    pub forms: Vec<Form>,
    /// Whether it runs as native code, which has no forms.
    is_native: bool,
}

impl Explanation {
    pub(crate) fn new(kernel: &Kernel, device: &DeviceInfo) -> Result<Self> {
        let body = image_on(kernel, device)?.body();
        let mut ways = body.map_or(Vec::new(), windlass_kernel::Body::ways);
        if !kernel.messages().is_empty() {
            // The last one is for what its items say, and nobody passes it.
            ways.pop();
        }
        Ok(Explanation {
            kernel: kernel.name().into(),
            device: device.name.clone(),
            parameters: ways.into_iter().map(|(name, way)| (name.into(), way)).collect(),
            forms: Vec::new(),
            is_native: body.is_some(),
        })
    }

    pub(crate) fn add(&mut self, shape: Option<Shape>, built: &dyn BuiltKernel) {
        if !self.is_native {
            self.forms.push(Form { shape, report: built.report() });
        }
    }
}

impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "kernel `{}` on {}:", self.kernel, self.device)?;
        for (name, way) in &self.parameters {
            write!(f, "\n  `{name}`: {way}")?;
        }
        self.forms.iter().try_for_each(|form| write!(f, "\n  {form}"))
    }
}
