//! What the system tells of the processor.

use std::fs;
use std::path::Path;

use windlass_backend::{Cache, Details, Floats, VectorWidths};

/// What Linux keeps about the first processor; other systems tell less.
const PROCESSOR: &str = "/sys/devices/system/cpu/cpu0";

/// Bits of the registers that this program was compiled for.
const REGISTER: u32 = if cfg!(target_feature = "avx512f") {
    512
} else if cfg!(target_feature = "avx2") {
    256
} else if cfg!(any(target_feature = "sse2", target_feature = "neon", target_feature = "simd128")) {
    128
} else {
    usize::BITS
};

pub(crate) fn details() -> Details {
    let processor = Path::new(PROCESSOR);
    let details = Details::new()
        .address_bits(usize::BITS)
        // A sub-group is one work-item, since a body runs them one after the other.
        .subgroup_sizes([1])
        .has_local_memory(false)
        .alignment(16)
        .tick(1)
        .vector_widths(
            VectorWidths::of_integers(REGISTER / 8, REGISTER / 16, REGISTER / 32, REGISTER / 64)
                // 16-bit floats are worked on as 32-bit ones.
                .floats(REGISTER / 32, REGISTER / 32, REGISTER / 64),
        )
        // Those of 16 bits are rounded after each operation, a product and its sum twice.
        .floats([Some(Floats::new(true, true, false, true)), Some(Floats::IEEE), Some(Floats::IEEE)])
        .clock(clock(processor).unwrap_or(0));
    match cache(&processor.join("cache")) {
        Some(cache) => details.cache(cache),
        None => details,
    }
}

/// The highest clock, which the system tells in kHz, where it sets it.
fn clock(processor: &Path) -> Option<u32> {
    let khz: u32 = read(&processor.join("cpufreq/cpuinfo_max_freq"))?.parse().ok()?;
    Some(khz / 1000)
}

/// The last cache before memory: the one of the highest level.
fn cache(caches: &Path) -> Option<Cache> {
    let of = |cache: &Path| {
        let level: u32 = read(&cache.join("level"))?.parse().ok()?;
        let line = read(&cache.join("coherency_line_size")).and_then(|line| line.parse().ok());
        Some((level, Cache::new(bytes(&read(&cache.join("size"))?)?, line)))
    };
    let all = fs::read_dir(caches).ok()?.filter_map(|entry| of(&entry.ok()?.path()));
    all.max_by_key(|(level, _)| *level).map(|(_, cache)| cache)
}

/// A size as the system writes it, such as `32768K`.
fn bytes(text: &str) -> Option<u64> {
    let digits = text.trim_end_matches(|unit: char| unit.is_ascii_alphabetic());
    let unit = match &text[digits.len()..] {
        "" => 1,
        "K" => 1 << 10,
        "M" => 1 << 20,
        "G" => 1 << 30,
        _ => return None,
    };
    digits.parse::<u64>().ok()?.checked_mul(unit).filter(|bytes| *bytes > 0)
}

fn read(file: &Path) -> Option<String> {
    fs::read_to_string(file).ok().map(|text| text.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_with_their_units() {
        assert_eq!([bytes("32768K"), bytes("64"), bytes("2M")], [Some(32 << 20), Some(64), Some(2 << 20)]);
        assert_eq!([bytes(""), bytes("K"), bytes("3 KiB"), bytes("0K")], [None; 4]);
    }

    #[test]
    fn what_the_system_does_not_tell_is_not_known() {
        let nowhere = Path::new("/nowhere");
        assert_eq!((clock(nowhere), cache(nowhere)), (None, None));
    }
}
