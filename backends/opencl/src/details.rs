//! What drivers tell of a device's hardware beyond what anything here needs.

use opencl3::device as cl;
use windlass_backend::{Cache, Details, Floats, VectorWidths};

use crate::device::{is_set, size};
use crate::sys::DeviceId;

/// What Intel's extension calls the sizes of sub-groups.
const SIZES_INTEL: u32 = 0x4108;

/// All that the driver tells.
pub(crate) fn details(device: DeviceId, extensions: &[&str]) -> Details {
    let number = |what| device.number(what).and_then(|n| u32::try_from(n).ok());
    let known = |details, what, with: fn(Details, u32) -> Details| match number(what) {
        Some(number) => with(details, number),
        None => details,
    };
    let mut details = Details::new();
    details = known(details, cl::CL_DEVICE_VENDOR_ID, Details::vendor_id);
    details = known(details, cl::CL_DEVICE_MAX_CLOCK_FREQUENCY, Details::clock);
    details = known(details, cl::CL_DEVICE_ADDRESS_BITS, Details::address_bits);
    details = known(details, cl::CL_DEVICE_MAX_NUM_SUB_GROUPS, |details, most| details.subgroups(most));
    details = known(details, cl::CL_DEVICE_LOCAL_MEM_TYPE, |details, kind| {
        details.has_local_memory(kind == cl::CL_LOCAL)
    });
    details = known(details, cl::CL_DEVICE_ERROR_CORRECTION_SUPPORT, |details, corrects| {
        details.corrects_errors(corrects != 0)
    });
    details = details
        .tick(device.number(cl::CL_DEVICE_PROFILING_TIMER_RESOLUTION).unwrap_or(0))
        .subgroup_sizes(subgroup_sizes(device, extensions))
        .floats(floats(device, extensions));
    if let Some(bytes) = Some(size(device, cl::CL_DEVICE_MAX_PARAMETER_SIZE)).filter(|bytes| *bytes > 0) {
        details = details.argument_bytes(bytes);
    }
    // Told in bits.
    if let Some(bytes) = Some(size(device, cl::CL_DEVICE_MEM_BASE_ADDR_ALIGN) / 8).filter(|bytes| *bytes > 0)
    {
        details = details.alignment(bytes);
    }
    if let Some(extent) = extent(&device.bytes(cl::CL_DEVICE_MAX_WORK_ITEM_SIZES)) {
        details = details.work_group_extent(extent);
    }
    if let Some(cache) = cache(device) {
        details = details.cache(cache);
    }
    if let Some(widths) = vector_widths(device) {
        details = details.vector_widths(widths);
    }
    details
}

/// OpenCL counts dimensions from the one that changes fastest.
fn extent(bytes: &[u8]) -> Option<[usize; 3]> {
    let sizes: Vec<usize> = words(bytes).collect();
    match sizes[..] {
        [x, y, z, ..] => Some([z, y, x]),
        _ => None,
    }
}

/// Numbers of the machine's own width.
fn words(bytes: &[u8]) -> impl Iterator<Item = usize> {
    bytes.as_chunks().0.iter().map(|word| usize::from_ne_bytes(*word))
}

/// By Intel's extension, which others have too, or by NVIDIA's or AMD's, whose devices have one size. No query of OpenCL's own tells
/// them without a kernel.
fn subgroup_sizes(device: DeviceId, extensions: &[&str]) -> Vec<u32> {
    let has = |name| extensions.contains(&name);
    let one = |what| device.number(what).and_then(|n| u32::try_from(n).ok()).into_iter().collect();
    if has("cl_intel_required_subgroup_size") {
        let sizes = device.bytes(SIZES_INTEL);
        return words(&sizes).filter_map(|size| u32::try_from(size).ok()).collect();
    }
    match () {
        () if has("cl_nv_device_attribute_query") => one(cl::CL_DEVICE_WARP_SIZE_NV),
        () if has("cl_amd_device_attribute_query") => one(cl::CL_DEVICE_WAVEFRONT_WIDTH_AMD),
        () => Vec::new(),
    }
}

fn cache(device: DeviceId) -> Option<Cache> {
    let bytes = device.number(cl::CL_DEVICE_GLOBAL_MEM_CACHE_SIZE).filter(|bytes| *bytes > 0)?;
    let is_there = is_set(device, cl::CL_DEVICE_GLOBAL_MEM_CACHE_TYPE);
    let line = size(device, cl::CL_DEVICE_GLOBAL_MEM_CACHELINE_SIZE);
    is_there.then(|| Cache::new(bytes, (line > 0).then_some(line)))
}

fn vector_widths(device: DeviceId) -> Option<VectorWidths> {
    let width = |what| device.number(what).and_then(|n| u32::try_from(n).ok());
    let widths = VectorWidths::of_integers(
        width(cl::CL_DEVICE_NATIVE_VECTOR_WIDTH_CHAR)?,
        width(cl::CL_DEVICE_NATIVE_VECTOR_WIDTH_SHORT)?,
        width(cl::CL_DEVICE_NATIVE_VECTOR_WIDTH_INT)?,
        width(cl::CL_DEVICE_NATIVE_VECTOR_WIDTH_LONG)?,
    );
    Some(widths.floats(
        width(cl::CL_DEVICE_NATIVE_VECTOR_WIDTH_HALF)?,
        width(cl::CL_DEVICE_NATIVE_VECTOR_WIDTH_FLOAT)?,
        width(cl::CL_DEVICE_NATIVE_VECTOR_WIDTH_DOUBLE)?,
    ))
}

/// Of 16, 32 and 64 bits. A width that the device has not has no bits, or no query.
fn floats(device: DeviceId, extensions: &[&str]) -> [Option<Floats>; 3] {
    let has_half = extensions.contains(&"cl_khr_fp16");
    let half = has_half.then_some(cl::CL_DEVICE_HALF_FP_CONFIG);
    let widths = [half, Some(cl::CL_DEVICE_SINGLE_FP_CONFIG), Some(cl::CL_DEVICE_DOUBLE_FP_CONFIG)];
    let [half, single, double] = widths.map(|what| device.number(what?));
    // Quotients of the others are exact wherever there are any; of 32 bits they are in programs that are built for it alone, which those here
    // are not.
    [floats_of(half, true), floats_of(single, false), floats_of(double, true)]
}

fn floats_of(bits: Option<u64>, exact_quotients: bool) -> Option<Floats> {
    let bits = bits?;
    let has = |bit: u64| bits & bit != 0;
    (bits != 0).then(|| {
        Floats::new(has(cl::CL_FP_DENORM), has(cl::CL_FP_INF_NAN), has(cl::CL_FP_FMA), exact_quotients)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dimensions_are_turned_round() {
        let bytes = [1024_usize, 512, 64].map(usize::to_ne_bytes);
        assert_eq!(extent(bytes.as_flattened()), Some([64, 512, 1024]));
        assert_eq!(extent(&[0; 16]), None);
        assert_eq!(extent(&[]), None);
    }

    #[test]
    fn a_width_without_bits_is_none() {
        assert_eq!([floats_of(Some(0), true), floats_of(None, true)], [None; 2]);
        let floats = floats_of(Some(cl::CL_FP_FMA | cl::CL_FP_DENORM), false).unwrap();
        assert_eq!(floats, Floats::new(true, false, true, false));
    }
}
