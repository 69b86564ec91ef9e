//! How a kernel in WGSL runs on each device.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use windlass::image::{Kernel, KernelImage, Slot, SlotAccess};
use windlass::{Bundle, Queue, Runtime};
use windlass_kernel_translate::wgsl::Checked;

use crate::{ExplainArgs, Failure, Verdict, block_on};

pub(crate) fn explain(args: &ExplainArgs) -> Verdict {
    let kernel = kernel(&args.file, args.entry.as_deref())?;
    let runtime = Runtime::new();
    let mut all_can = true;
    for device in args.which.of(&runtime)? {
        let explained = || {
            let queue = Queue::blocking_on(device.clone())?;
            block_on(Bundle::new([&kernel]).explain(&queue))
        };
        match explained() {
            Ok(explained) => explained.iter().for_each(|explanation| println!("{explanation}")),
            Err(error) => {
                all_can = false;
                println!("{device} cannot run it: {error}");
            }
        }
    }
    Ok(all_can)
}

/// A kernel of the file, with a slot for each storage buffer, in the order of their bindings.
fn kernel(file: &Path, entry: Option<&str>) -> Result<Kernel, Failure> {
    let told = |error: &dyn std::fmt::Display| format!("{}: {error}", file.display());
    let text = fs::read_to_string(file).map_err(|error| told(&error))?;
    let checked = Checked::parse(&text).map_err(|error| told(&error))?;
    let entries: Vec<&str> = checked.compute_entries().collect();
    let entry = match (entry, &entries[..]) {
        (Some(entry), _) if entries.contains(&entry) => entry,
        (None, [only]) => only,
        (Some(entry), _) => return Err(told(&format!("it has no kernel `{entry}`, but {entries:?}")).into()),
        (None, []) => return Err(told(&"it has no kernel").into()),
        (None, _) => return Err(told(&format!("say which by --entry: {entries:?}")).into()),
    };
    let slot = |(binding, is_written)| {
        let access = if is_written { SlotAccess::ReadWrite } else { SlotAccess::Read };
        (binding, Slot::Buffer(access))
    };
    let buffers: BTreeMap<u32, Slot> = checked.storage_buffers().map(slot).collect();
    Ok(Kernel::new(entry, buffers.into_values(), [KernelImage::wgsl(entry, &text)]))
}
