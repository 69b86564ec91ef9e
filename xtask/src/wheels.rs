//! Drivers that Python's package index has and Debian does not: Intel's OpenCL runtime for CPUs and NVIDIA's compiler of
//! CUDA C++, which needs no GPU. They go to `.drivers/`, and only the tests that name a folder of it see them: a second
//! OpenCL platform beside PoCL would change what the others run on.

use std::fs;
use std::path::{Path, PathBuf};

use crate::Result;
use crate::process::Process;

/// What is installed, in the versions that the tests were seen to pass with. `libintelocl.so` needs libraries of the
/// second package, which the first one does not ask for.
const PACKAGES: &[&str] = if cfg!(target_arch = "x86_64") {
    &["intel-opencl-rt==2026.2.0", "intel-cmplr-lib-rt==2026.2.0", NVRTC]
} else {
    // Intel's is for its own architecture.
    &[NVRTC]
};

const NVRTC: &str = "nvidia-cuda-nvrtc-cu12==12.9.86";

/// Where Debian's `oclgrind` has its OpenCL library.
const OCLGRIND: &str = "/usr/lib/oclgrind/liboclgrind-rt-icd.so";

/// PoCL's OpenCL library, which the linker finds.
const POCL: &str = "libpocl.so.2";

/// The folder with PoCL and Intel's runtime.
const BOTH: &str = "pocl-and-intel";

/// Whether Oclgrind is there.
pub(crate) fn oclgrind() -> bool {
    Path::new(OCLGRIND).exists()
}

/// Where what is downloaded lies.
pub(crate) fn drivers() -> PathBuf {
    crate::root().join(".drivers")
}

/// The file that says which packages were installed, written when they all are.
fn receipt() -> PathBuf {
    drivers().join("installed.txt")
}

/// Whether nothing has to be downloaded.
pub(crate) fn installed() -> bool {
    fs::read_to_string(receipt()).is_ok_and(|text| text == PACKAGES.join("\n"))
        && nvrtc().is_some()
        && (library().exists() || !cfg!(target_arch = "x86_64"))
}

/// Whether this machine's Python can make an environment of its own, which on Debian is a package apart.
pub(crate) fn python() -> bool {
    Process::new("python3").args(["-c", "import venv, ensurepip"]).output().is_some()
}

/// Installs what is missing, and writes down for the tests where everything is.
pub(crate) fn install() -> Result<()> {
    if !installed() {
        let environment = drivers().join("python");
        let io = |error: std::io::Error| format!("{}: {error}", environment.display());
        // An environment that was left half made, or is for another Python, is of no use.
        if environment.exists() {
            fs::remove_dir_all(&environment).map_err(io)?;
        }
        Process::new("python3").args(["-m", "venv"]).args([&environment]).run()?;
        // An environment and no `--target`: that option leaves out the libraries of Intel's packages.
        let pip = Process::new(environment.join("bin/python3"))
            .words("-m pip install --quiet --disable-pip-version-check --no-cache-dir --retries 5");
        pip.args(PACKAGES).run()?;
        fs::write(receipt(), PACKAGES.join("\n")).map_err(io)?;
    }
    if !installed() {
        return Err(
            "the packages of Python are installed, but not the libraries that they should have".into()
        );
    }
    if cfg!(target_arch = "x86_64") {
        vendor("intel", "intel", &library())?;
        // Beside PoCL, where programs are to be on both.
        vendor(BOTH, "intel", &library())?;
        vendor(BOTH, "pocl", Path::new(POCL))?;
    }
    if oclgrind() {
        vendor("oclgrind", "oclgrind", Path::new(OCLGRIND))?;
    }
    match nvrtc() {
        Some(path) => note(&drivers().join("nvrtc.txt"), &path),
        None => Ok(()),
    }
}

/// Intel's OpenCL library.
fn library() -> PathBuf {
    drivers().join("python/lib/libintelocl.so")
}

/// NVRTC lies below a folder that is named after Python's version.
fn nvrtc() -> Option<PathBuf> {
    let versions = fs::read_dir(drivers().join("python/lib")).ok()?.flatten();
    let inside = "site-packages/nvidia/cuda_nvrtc/lib/libnvrtc.so.12";
    versions.map(|version| version.path().join(inside)).find(|path| path.exists())
}

/// A folder for `OCL_ICD_VENDORS` with OpenCL platforms in it. The slash at its end is what tells the loader that it
/// is a folder.
fn vendors(name: &str) -> String {
    format!("{}/", drivers().join("icd").join(name).display())
}

/// The folder that has one platform alone, `intel` or `oclgrind`, if that was installed.
pub(crate) fn vendor_of(name: &str) -> Option<String> {
    let folder = vendors(name);
    Path::new(&folder).join(format!("{name}.icd")).exists().then_some(folder)
}

/// The folder that has PoCL and Intel's runtime, if that was installed.
pub(crate) fn both() -> Option<String> {
    intel().map(|_| vendors(BOTH))
}

/// The folder that has Intel's runtime, if that was installed.
pub(crate) fn intel() -> Option<String> {
    vendor_of("intel")
}

/// Puts a platform into a folder.
fn vendor(folder: &str, name: &str, library: &Path) -> Result<()> {
    note(&Path::new(&vendors(folder)).join(format!("{name}.icd")), library)
}

/// Writes a path to a file.
fn note(file: &Path, path: &Path) -> Result<()> {
    let write = || {
        fs::create_dir_all(file.parent().unwrap_or(file))?;
        fs::write(file, format!("{}\n", path.display()))
    };
    write().map_err(|error| format!("{}: {error}", file.display()))
}
