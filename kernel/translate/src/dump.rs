//! `WINDLASS_DUMP=dir`: what each device is given, as files to read.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::{env, fs};

/// What this process has written. Kernels of one name, and one kernel built with other values, are told apart by it.
static WRITTEN: Mutex<BTreeMap<PathBuf, Box<str>>> = Mutex::new(BTreeMap::new());

/// Writes a kernel's text for a device to the folder that `WINDLASS_DUMP` names, if it does; another text of the same
/// name gets a number. A file that cannot be written is said so on the error stream, once for each: nothing else
/// depends on it.
pub fn dump(kernel: &str, device: &str, extension: &str, text: &str) {
    let Some(folder) = env::var_os("WINDLASS_DUMP").filter(|folder| !folder.is_empty()) else { return };
    let plain = |name: &str| -> String {
        let kept = |c: char| if c.is_ascii_alphanumeric() || "-_".contains(c) { c } else { '-' };
        name.chars().map(kept).collect()
    };
    let name = format!("{}.{}", plain(kernel), plain(device));
    let mut written = WRITTEN.lock().unwrap_or_else(PoisonError::into_inner);
    let (mut path, mut number) = (Path::new(&folder).join(format!("{name}.{extension}")), 1);
    while let Some(there) = written.get(&path) {
        if **there == *text {
            return;
        }
        number += 1;
        path.set_file_name(format!("{name}.{number}.{extension}"));
    }
    written.insert(path.clone(), text.into());
    drop(written);
    let done = fs::create_dir_all(&folder).and_then(|()| fs::write(&path, text));
    if let Err(error) = done {
        eprintln!("windlass: WINDLASS_DUMP: {}: {error}", path.display());
    }
}
