//! How a kernel in WGSL runs on each device. It is well if one of them runs it: the host never does.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use serde_json::json;
use windlass::image::{Kernel, KernelImage, Slot, SlotAccess};
use windlass::{Bundle, Queue, Runtime};
use windlass_kernel_translate::wgsl::Checked;

use crate::{ExplainArgs, Failure, Verdict, block_on};

pub(crate) fn explain(args: &ExplainArgs) -> Verdict {
    let kernel = kernel(&args.file, args.entry.as_deref())?;
    let runtime = Runtime::new();
    let (mut somebody_can, mut told) = (false, Vec::new());
    for device in args.which.filter.of(&runtime)? {
        let explained = || {
            let queue = Queue::blocking_on(device.clone())?;
            block_on(Bundle::new([&kernel]).explain(&queue))
        };
        let (lines, problem) = match explained() {
            Ok(explained) => (explained.iter().map(ToString::to_string).collect(), None),
            Err(error) => (Vec::new(), Some(error.to_string())),
        };
        somebody_can |= problem.is_none();
        match (args.which.json, problem) {
            (true, problem) => {
                told.push(json!({ "device": device.to_string(), "explained": lines, "problem": problem }));
            }
            (false, None) => lines.iter().for_each(|line| println!("{line}")),
            (false, Some(problem)) => println!("{device} cannot run it: {problem}"),
        }
    }
    if args.which.json {
        println!("{}", json!({ "runs": somebody_can, "devices": told }));
    }
    Ok(somebody_can)
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
