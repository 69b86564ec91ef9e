//! `WINDLASS_DUMP=dir`: what each device is given, as files to read.

use std::path::Path;
use std::{env, fs};

/// Writes a kernel's text for a device to the folder that `WINDLASS_DUMP` names, if it does. A file that cannot be
/// written is said so on the error stream, once for each: nothing else depends on it.
pub fn dump(kernel: &str, device: &str, extension: &str, text: &str) {
    let Some(folder) = env::var_os("WINDLASS_DUMP").filter(|folder| !folder.is_empty()) else { return };
    let plain = |name: &str| -> String {
        let kept = |c: char| if c.is_ascii_alphanumeric() || "-_".contains(c) { c } else { '-' };
        name.chars().map(kept).collect()
    };
    let path = Path::new(&folder).join(format!("{}.{}.{extension}", plain(kernel), plain(device)));
    let written = fs::create_dir_all(&folder).and_then(|()| fs::write(&path, text));
    if let Err(error) = written {
        eprintln!("windlass: WINDLASS_DUMP: {}: {error}", path.display());
    }
}
