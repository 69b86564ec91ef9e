//! What the tests need: OpenCL and Vulkan on the CPU, so that any machine will do, and a browser. What Debian does not have
//! is in [`wheels`].

use std::path::Path;

use crate::process::Process;
use crate::{Result, validation, wheels};

/// One thing that has to be there.
struct Need {
    what: &'static str,
    /// The Debian package that has it.
    package: &'static str,
    is_there: fn() -> bool,
}

const NEEDS: [Need; 8] = [
    Need {
        what: "OpenCL loader (libOpenCL.so.1)",
        package: "ocl-icd-libopencl1",
        is_there: || library("libOpenCL.so.1"),
    },
    Need {
        what: "PoCL, OpenCL on the CPU",
        package: "pocl-opencl-icd",
        is_there: || listed(&["/etc/OpenCL/vendors"], "pocl"),
    },
    Need {
        what: "Vulkan loader (libvulkan.so.1)",
        package: "libvulkan1",
        is_there: || library("libvulkan.so.1"),
    },
    Need {
        what: "lavapipe, Vulkan on the CPU",
        package: "mesa-vulkan-drivers",
        is_there: || listed(&["/usr/share/vulkan/icd.d", "/etc/vulkan/icd.d"], "lvp"),
    },
    Need {
        what: "Vulkan's validation layer",
        package: "vulkan-validationlayers",
        is_there: validation::is_there,
    },
    Need { what: "Chromium, for the server's pages", package: "chromium", is_there: browser },
    Need { what: "Oclgrind, which watches kernels' memory", package: "oclgrind", is_there: wheels::oclgrind },
    Need {
        what: "Python's environments, for what follows",
        package: "python3-venv",
        is_there: || wheels::installed() || wheels::python(),
    },
];

/// Installs what is missing, by `apt-get` where there is one; elsewhere says what is missing. Then what comes from
/// Python's package index.
pub(crate) fn setup() -> Result<()> {
    system()?;
    let there = if wheels::installed() { "is there" } else { "is missing" };
    println!("{:<44} {there}", "Intel's OpenCL runtime and NVRTC");
    wheels::install()
}

fn system() -> Result<()> {
    let mut missing = Vec::new();
    for need in &NEEDS {
        let there = (need.is_there)();
        println!("{:<44} {}", need.what, if there { "is there" } else { "is missing" });
        if !there {
            missing.push(need);
        }
    }
    if missing.is_empty() {
        return Ok(());
    }
    let packages: Vec<&str> = missing.iter().map(|need| need.package).collect();
    if Process::new("apt-get").args(["--version"]).output().is_none() {
        let names: Vec<&str> = missing.iter().map(|need| need.what).collect();
        return Err(format!(
            "please install: {}\n(Fedora: `dnf install ocl-icd pocl vulkan-loader mesa-vulkan-drivers \
             vulkan-validation-layers chromium`; Arch: `pacman -S ocl-icd pocl vulkan-icd-loader vulkan-swrast \
             vulkan-validation-layers chromium python`; Oclgrind is in Debian. Windlass itself builds and runs without them.)",
            names.join("; ")
        ));
    }
    println!("installing by apt-get: {}", packages.join(" "));
    // What the package index says may be stale, or empty in a fresh container.
    apt("update")?;
    apt(&format!("install -y --no-install-recommends {}", packages.join(" ")))?;
    match NEEDS.iter().find(|need| !(need.is_there)()) {
        None => Ok(()),
        Some(need) => {
            Err(format!("{} is still not found, although {} is installed", need.what, need.package))
        }
    }
}

/// Runs apt-get as root: directly, or through sudo if that asks no questions.
fn apt(words: &str) -> Result<()> {
    let id = Process::new("id").args(["-u"]).output().unwrap_or_default();
    let apt = match id.trim() {
        "0" => Process::new("apt-get").env("DEBIAN_FRONTEND", "noninteractive"),
        _ => Process::new("sudo").words("-n env DEBIAN_FRONTEND=noninteractive apt-get"),
    };
    apt.args(["-q", "-o", "Dpkg::Use-Pty=0", "-o", "Acquire::Retries=3"]).words(words).run().map_err(
        |problem| {
            format!("{problem}\nroot is needed for this: run `sudo apt-get {words}` yourself, then try again")
        },
    )
}

/// By the names under which the server's tests look for one.
fn browser() -> bool {
    let names = ["chromium", "chromium-browser", "google-chrome"];
    names.into_iter().any(|name| Process::new(name).args(["--version"]).output().is_some())
}

/// Whether the dynamic linker finds a library.
fn library(name: &str) -> bool {
    let folders = [
        "/usr/lib",
        "/usr/lib64",
        "/usr/local/lib",
        "/usr/lib/x86_64-linux-gnu",
        "/usr/lib/aarch64-linux-gnu",
    ];
    let cached = ["ldconfig", "/sbin/ldconfig"]
        .iter()
        .any(|ldconfig| Process::new(ldconfig).args(["-p"]).output().is_some_and(|list| list.contains(name)));
    cached || folders.iter().any(|folder| Path::new(folder).join(name).exists())
}

/// Whether one of the folders has a file whose name starts so.
fn listed(folders: &[&str], start: &str) -> bool {
    let entries = folders.iter().flat_map(std::fs::read_dir).flatten().flatten();
    entries.into_iter().any(|entry| entry.file_name().to_string_lossy().starts_with(start))
}
