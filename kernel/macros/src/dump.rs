//! `WINDLASS_DUMP=dir` while a program is compiled: what its kernels are on the host, as files to read.

use std::collections::BTreeMap;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::{env, fs};

use proc_macro2::TokenStream;

/// What this compiler has written: several kernels may have one name.
static WRITTEN: Mutex<BTreeMap<PathBuf, Box<str>>> = Mutex::new(BTreeMap::new());

/// Writes a kernel's code for the host to the folder that `WINDLASS_DUMP` names, if it does. A file that cannot be written is said so on
/// the error stream: nothing else depends on it.
pub(crate) fn dump(kernel: &str, code: &TokenStream) {
    let Some(folder) = env::var_os("WINDLASS_DUMP").filter(|folder| !folder.is_empty()) else { return };
    if let Err(error) = write(Path::new(&folder), kernel, &laid_out(&code.to_string())) {
        eprintln!("windlass: WINDLASS_DUMP: {}: {error}", Path::new(&folder).display());
    }
}

/// Another text of the same name gets a number.
fn write(folder: &Path, kernel: &str, text: &str) -> io::Result<()> {
    let kernel = kernel.trim_start_matches("r#");
    let (mut path, mut number) = (folder.join(format!("{kernel}.host.rs")), 1);
    let mut written = WRITTEN.lock().unwrap_or_else(PoisonError::into_inner);
    while let Some(there) = written.get(&path) {
        if **there == *text {
            return Ok(());
        }
        number += 1;
        path.set_file_name(format!("{kernel}.{number}.host.rs"));
    }
    fs::create_dir_all(folder)?;
    fs::write(&path, text)?;
    written.insert(path, text.into());
    Ok(())
}

/// The text as `rustfmt` has it, or, where there is none, in one line.
fn laid_out(text: &str) -> String {
    let formatted = || -> Option<String> {
        let mut rustfmt = Command::new("rustfmt");
        rustfmt
            .args(["--edition", "2024"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null());
        let mut child = rustfmt.spawn().ok()?;
        // It reads everything before it writes anything, so neither waits for the other.
        child.stdin.take()?.write_all(text.as_bytes()).ok()?;
        let out = child.wait_with_output().ok().filter(|out| out.status.success())?;
        String::from_utf8(out.stdout).ok()
    };
    formatted().unwrap_or_else(|| text.to_string())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::{laid_out, write};

    #[test]
    fn kernels_of_one_name_have_files_of_their_own() {
        let folder = std::env::temp_dir().join(format!("windlass-host-dump-{}", std::process::id()));
        for text in ["fn run() {}", "fn run() { work() }", "fn run() {}"] {
            write(&folder, "r#loop", text).expect("there is room");
        }
        let read = |name: &str| fs::read_to_string(folder.join(name)).expect("it was written");
        assert_eq!(
            (read("loop.host.rs"), read("loop.2.host.rs")),
            ("fn run() {}".into(), "fn run() { work() }".into())
        );
        assert!(!folder.join("loop.3.host.rs").exists(), "the first text was written twice");
        fs::remove_dir_all(&folder).expect("it is there");
    }

    #[test]
    fn what_is_no_rust_stays_as_it_is() {
        assert_eq!(laid_out("fn ("), "fn (");
    }
}
