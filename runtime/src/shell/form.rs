//! Forms that a kernel is built in, and what devices say of them.

use std::fmt;

use windlass_backend::KernelReport;
use windlass_kernel::shape::Shape;

/// A form of a kernel that a device has.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Form {
    /// How launches of this form are laid out; `None` for kernels that leave nothing open.
    pub shape: Option<Shape>,
    /// What the device says of it.
    pub report: KernelReport,
}

impl fmt::Display for Form {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let KernelReport { local_memory, private_memory, registers, in_step, compared_in_loops, .. } =
            &self.report;
        match &self.shape {
            Some(shape) => write!(f, "{shape}")?,
            None => f.write_str("as it was written")?,
        }
        let numbers = [
            (registers, "registers an item"),
            (private_memory, "bytes of private memory an item"),
            (local_memory, "bytes of local memory a group"),
            (in_step, "items in step"),
        ];
        for (number, what) in numbers {
            if let Some(number) = number {
                write!(f, "; {number} {what}")?;
            }
        }
        if !compared_in_loops.is_empty() {
            write!(f, "; compared in each turn of a loop: {}", compared_in_loops.join(", "))?;
        }
        Ok(())
    }
}
