//! The kernels of these tests as CUDA C++: NVIDIA's compiler takes all of them.

use std::path::{Path, PathBuf};
use std::{env, fs};

use windlass_kernel_translate::c::{Bounds, Dialect, Machine, translate};
use windlass_kernel_translate::wgsl::Checked;

use crate::again::{self, Ended};
use crate::find;
use crate::nvrtc::Nvrtc;

/// What the CUDA toolkits of today compile for unless told otherwise is newer than this.
const ARCHITECTURE: &str = "compute_80";

/// The texts that `WINDLASS_DUMP` left in a folder: WGSL as a device was given it, above it the values of overrides.
fn texts(folder: &Path) -> Vec<PathBuf> {
    let files = fs::read_dir(folder).expect("the folder is there").flatten().map(|entry| entry.path());
    let mut texts: Vec<_> = files.filter(|path| path.extension().is_some_and(|end| end == "wgsl")).collect();
    texts.sort();
    texts
}

/// A text's kernel in CUDA C++, with the writer's own checks of indices and without.
fn translated(text: &str) -> Result<Vec<String>, String> {
    let value = |line: &str| {
        let (name, value) = line.strip_prefix("// ")?.split_once(" = ")?;
        Some((name.into(), value.parse::<f64>().ok()?))
    };
    let mut values: Vec<(Box<str>, f64)> = text.lines().map_while(value).collect();
    values.push(("rows".into(), 0.0));
    let checked = Checked::parse(text).map_err(|error| error.to_string())?;
    let entries: Vec<String> = checked.compute_entries().map(str::to_owned).collect();
    let [entry] = &entries[..] else { return Err(format!("its entry points are {entries:?}")) };
    let checked = checked.specialise(entry, &values).and_then(|checked| checked.pruned(true));
    let checked = checked.map_err(|error| error.to_string())?;
    let write = |bounds| {
        let written = translate(&checked, entry, Dialect::CudaC, bounds, Machine::Gpu);
        written.map(|translation| translation.source).map_err(|error| error.to_string())
    };
    [Bounds::Clamped, Bounds::Guarded].into_iter().map(write).collect()
}

/// Compiles all of a folder's texts, and says how many there are.
fn compile(nvrtc: &Nvrtc, folder: &Path) -> usize {
    let texts = texts(folder);
    let mut refused = Vec::new();
    for path in &texts {
        let text = fs::read_to_string(path).expect("it can be read");
        let compiles =
            |sources: Vec<String>| sources.iter().try_for_each(|source| nvrtc.compile(source, ARCHITECTURE));
        let done = translated(&text).and_then(compiles);
        if let Err(why) = done {
            refused.push(format!("{}: {why}", path.display()));
        }
    }
    let (none, all) = (refused.is_empty(), texts.len());
    assert!(none, "{} of {all} are no CUDA C++:\n{}", refused.len(), refused.join("\n"));
    all
}

#[test]
fn every_kernel_compiles_as_cuda() {
    let Some(nvrtc) = Nvrtc::load() else { return };
    let folder = again::folder("cuda-texts");
    for test in again::tests() {
        let output = folder.join("output.txt");
        let variables = [("WINDLASS_DUMP", folder.clone().into())];
        let ended = again::run(&test, &output, &variables, again::PATIENCE);
        assert_eq!(ended, Ended::Well, "{test}");
    }
    if texts(&folder).is_empty() {
        // Their texts are taken from what Vulkan was given.
        find::missing("a Vulkan driver");
        return;
    }
    let all = compile(&nvrtc, &folder);
    assert!(all >= 30, "there were {all} kernels");
}

/// Kernels from elsewhere: `WINDLASS_TEXTS` names a folder that `WINDLASS_DUMP` made.
#[test]
fn kernels_from_elsewhere_compile_as_cuda() {
    let Some(folder) = env::var_os("WINDLASS_TEXTS") else { return };
    let Some(nvrtc) = Nvrtc::load() else { return };
    let all = compile(&nvrtc, Path::new(&folder));
    assert_ne!(all, 0, "{} has no kernels", folder.display());
    println!("{all} kernels compile as CUDA C++");
}

/// The compiler is asked, and refuses what is wrong.
#[test]
fn what_is_no_cuda_is_refused() {
    let Some(nvrtc) = Nvrtc::load() else { return };
    let wrong = nvrtc.compile("__global__ void k(float *v) { v[0] = undeclared; }", ARCHITECTURE);
    assert!(wrong.is_err_and(|log| log.contains("undeclared")));
}
