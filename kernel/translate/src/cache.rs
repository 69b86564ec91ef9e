//! `WINDLASS_CACHE=dir`: what the devices' compilers made, kept beyond the process.
//!
//! An entry holds everything that the code depends on, word for word: the source with its constants, the device, the
//! driver. It is used only if all of that is the same and the code's checksum is right. Whatever else lies in the folder is
//! left alone, with a warning, and the kernel is compiled as if nothing were there. Several processes may use one folder:
//! an entry appears as a whole.

use std::fs;
use std::path::{Path, PathBuf};

/// How an entry starts; another number for another form.
const HEAD: &[u8] = b"windlass kernel cache 1\n";

/// A folder of compiled kernels.
///
/// ```
/// # let folder = std::env::temp_dir().join(format!("windlass-cache-{}", std::process::id()));
/// use windlass_kernel_translate::Cache;
/// let cache = Cache::at(&folder);
/// cache.put(&["source", "device", "driver 1"], b"code");
/// assert_eq!(cache.get(&["source", "device", "driver 1"]).unwrap(), b"code");
/// assert_eq!(cache.get(&["source", "device", "driver 2"]), None);
/// # std::fs::remove_dir_all(folder).unwrap();
/// ```
#[derive(Clone, Debug)]
pub struct Cache {
    folder: PathBuf,
}

impl Cache {
    /// The folder that `WINDLASS_CACHE` names, if it does.
    pub fn named() -> Option<Self> {
        std::env::var_os("WINDLASS_CACHE").filter(|folder| !folder.is_empty()).map(Self::at)
    }

    /// A folder, which is made when the first entry is.
    pub fn at(folder: impl Into<PathBuf>) -> Self {
        Cache { folder: folder.into() }
    }

    /// The code that was kept for exactly this.
    pub fn get(&self, key: &[&str]) -> Option<Vec<u8>> {
        let (key, path) = self.place(key);
        // Opening a pipe would wait for somebody to write.
        let entry = match fs::metadata(&path)
            .and_then(|there| there.is_file().then(|| fs::read(&path)).transpose())
        {
            Ok(Some(entry)) => entry,
            Ok(None) => return ignored(&path, "it is no file"),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return None,
            Err(error) => return ignored(&path, &error.to_string()),
        };
        match read(&entry, &key) {
            Ok(code) => Some(code.to_vec()),
            Err(what) => ignored(&path, what),
        }
    }

    /// Keeps code. Where that fails there is a warning, and nothing depends on it.
    pub fn put(&self, key: &[&str], code: &[u8]) {
        let (key, path) = self.place(key);
        let mut entry = HEAD.to_vec();
        for part in [key.as_slice(), code] {
            entry.extend_from_slice(&(part.len() as u64).to_le_bytes());
            entry.extend_from_slice(part);
        }
        entry.extend_from_slice(&crc32fast::hash(code).to_le_bytes());
        // Under a name of its own first, so that nobody finds half of it.
        let thread: String =
            format!("{:?}", std::thread::current().id()).chars().filter(char::is_ascii_digit).collect();
        let own = path.with_extension(format!("{}-{thread}.part", std::process::id()));
        let written = fs::create_dir_all(&self.folder)
            .and_then(|()| fs::write(&own, &entry))
            .and_then(|()| fs::rename(&own, &path));
        if let Err(error) = written {
            // Nobody would ever look at it.
            let _ = fs::remove_file(&own);
            tracing::warn!(path = %path.display(), %error, "a compiled kernel could not be kept");
        }
    }

    /// A key as bytes, and where its entry is. The name need not be unique: the entry says what it is for.
    fn place(&self, key: &[&str]) -> (Vec<u8>, PathBuf) {
        let mut bytes = Vec::new();
        for part in key {
            bytes.extend_from_slice(&(part.len() as u64).to_le_bytes());
            bytes.extend_from_slice(part.as_bytes());
        }
        let name = format!("{:08x}-{:x}.kernel", crc32fast::hash(&bytes), bytes.len());
        let path = self.folder.join(name);
        (bytes, path)
    }
}

fn ignored(path: &Path, what: &str) -> Option<Vec<u8>> {
    tracing::warn!(path = %path.display(), what, "an entry of the kernel cache is ignored; the kernel is compiled anew");
    None
}

/// The code in an entry, if it is for this key and whole.
fn read<'e>(entry: &'e [u8], key: &[u8]) -> Result<&'e [u8], &'static str> {
    let rest = entry.strip_prefix(HEAD).ok_or("it is no entry of this form")?;
    let (found, rest) = part(rest).ok_or("it is cut off")?;
    if found != key {
        return Err("it is for another source, device or driver");
    }
    let (code, sum) = part(rest).ok_or("it is cut off")?;
    match sum == crc32fast::hash(code).to_le_bytes() {
        true => Ok(code),
        false => Err("its checksum is wrong"),
    }
}

fn part(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (len, rest) = bytes.split_first_chunk::<8>()?;
    rest.split_at_checked(usize::try_from(u64::from_le_bytes(*len)).ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: [&str; 2] = ["source", "device"];

    fn fresh(name: &str) -> Cache {
        let folder = std::env::temp_dir().join(format!("windlass-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        Cache::at(folder)
    }

    #[test]
    fn what_is_damaged_or_for_something_else_is_ignored() {
        let cache = fresh("damaged");
        cache.put(&KEY, b"code");
        let path = cache.place(&KEY).1;
        let whole = fs::read(&path).expect("it was written");
        for at in 0..whole.len() {
            let mut damaged = whole.clone();
            damaged[at] ^= 1;
            fs::write(&path, &damaged).expect("the folder is there");
            assert_eq!(cache.get(&KEY), None, "byte {at}");
            fs::write(&path, &whole[..at]).expect("the folder is there");
            assert_eq!(cache.get(&KEY), None, "cut off at {at}");
        }
        // An entry under the name of another.
        fs::write(cache.place(&["other", "device"]).1, &whole).expect("the folder is there");
        assert_eq!(cache.get(&["other", "device"]), None);
        fs::write(&path, &whole).expect("the folder is there");
        assert_eq!(cache.get(&KEY).as_deref(), Some(&b"code"[..]));
        fs::remove_dir_all(&cache.folder).expect("it is ours");
    }

    #[test]
    fn keys_are_taken_part_by_part() {
        let cache = fresh("parts");
        cache.put(&["ab", "c"], b"one");
        assert_eq!(cache.get(&["a", "bc"]), None);
        fs::remove_dir_all(&cache.folder).expect("it is ours");
    }

    #[test]
    fn a_folder_that_cannot_be_written_harms_nobody() {
        let cache = Cache::at("/dev/null/nothing");
        cache.put(&KEY, b"code");
        assert_eq!(cache.get(&KEY), None);
    }

    /// Seen to wait for ever.
    #[cfg(unix)]
    #[test]
    fn what_is_no_file_is_not_waited_for() {
        let cache = fresh("pipe");
        fs::create_dir_all(&cache.folder).expect("the folder can be made");
        let pipe = cache.place(&KEY).1;
        assert!(std::process::Command::new("mkfifo").arg(&pipe).status().expect("mkfifo is there").success());
        let (tell, told) = std::sync::mpsc::channel();
        let reader = cache.clone();
        std::thread::spawn(move || tell.send(reader.get(&KEY)));
        assert_eq!(told.recv_timeout(std::time::Duration::from_secs(20)), Ok(None));
        fs::remove_dir_all(&cache.folder).expect("it is ours");
    }

    /// Seen to leave what it had written under another name.
    #[test]
    fn what_cannot_be_kept_leaves_nothing_behind() {
        let cache = fresh("leftover");
        let taken = cache.place(&KEY).1;
        fs::create_dir_all(taken.join("inside")).expect("the folder can be made");
        cache.put(&KEY, b"code");
        let there: Vec<_> = fs::read_dir(&cache.folder).expect("it is there").flatten().collect();
        assert_eq!(there.len(), 1, "{there:?}");
        fs::remove_dir_all(&cache.folder).expect("it is ours");
    }
}
