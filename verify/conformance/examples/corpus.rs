//! WGSL that nobody here wrote: how much of it the C-family writer takes.
//!
//! `cargo xtask corpus FOLDER` looks at all compute entry points of a folder's `.wgsl` files, such as those of naga's own
//! tests. A text that naga takes is translated to OpenCL C and CUDA C++, and what comes out is compiled by the OpenCL
//! devices that are here and by NVRTC. Each failure is printed with its reason; it ends with a failure if a compiler
//! refuses a translation.

#[allow(dead_code, reason = "the tests use more of it")]
#[path = "../tests/language/everywhere.rs"]
mod everywhere;
#[path = "../tests/drivers/find.rs"]
mod find;
#[path = "../tests/language/nvrtc.rs"]
mod nvrtc;

use std::{env, fs};

use futures_lite::future::block_on;
use windlass::image::{Kernel, KernelImage, Parameter, Slot, SlotAccess, Width};
use windlass::{Bundle, Queue};
use windlass_kernel_translate::c::{Bounds, Dialect, Machine, Param, Translation, translate};
use windlass_kernel_translate::wgsl::Checked;

use crate::everywhere::queues;
use crate::nvrtc::Nvrtc;

/// Why an entry point went no further.
enum Stop {
    /// There is something in it that the language does not have.
    Refused(String),
    /// A compiler does not take what was written: our fault.
    Wrong(String),
}

/// An error's first and last words.
fn in_a_line(text: &str) -> String {
    let lines: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    match lines[..] {
        [] => String::new(),
        [one] => one.into(),
        [first, .., last] => format!("{first} … {last}"),
    }
}

fn refused(what: &str) -> impl Fn(windlass_kernel_translate::TranslateError) -> Stop {
    move |error| {
        let text = error.to_string();
        Stop::Refused(format!("{what}: {}", in_a_line(&text)))
    }
}

/// The text as a kernel whose parameters are described.
fn kernel(translation: &Translation) -> Kernel {
    let mut slots = Vec::new();
    let mut described = Vec::new();
    let mut storage = None;
    for param in &translation.params {
        match param {
            Param::Length { .. } => described.extend(storage.map(|slot| Parameter::Len(slot, Width::W32))),
            Param::Uniform { bytes, .. } => {
                described.push(Parameter::Slot(slots.len()));
                slots.push(Slot::Value(*bytes as usize));
            }
            _ => {
                storage = Some(slots.len());
                described.push(Parameter::Start(slots.len()));
                slots.push(Slot::Buffer(SlotAccess::ReadWrite));
            }
        }
    }
    // SAFETY: it is built, and never launched.
    let image = unsafe { KernelImage::opencl_c(&translation.entry, &translation.source) };
    Kernel::new(&translation.entry, slots, [image.with_parameters(described)])
}

/// Translates and compiles one entry point; says on how many devices it was built.
fn compile(checked: &Checked, entry: &str, queues: &[&Queue], nvrtc: Option<&Nvrtc>) -> Result<usize, Stop> {
    // What has no value of its own is given one.
    let open = checked.module().overrides.iter().filter(|(_, of)| of.init.is_none());
    let name = |id: Option<u16>, name: Option<&String>| id.map(|id| id.to_string()).or_else(|| name.cloned());
    let values: Vec<(Box<str>, f64)> =
        open.filter_map(|(_, of)| Some((name(of.id, of.name.as_ref())?.into(), 2.0))).collect();
    let checked = checked.specialise(entry, &values).map_err(refused("overrides"))?;
    let written = |dialect| translate(&checked, entry, dialect, Bounds::Clamped, Machine::Gpu);
    let cuda = written(Dialect::CudaC).map_err(refused("CUDA C++"))?;
    if let Some(nvrtc) = nvrtc {
        nvrtc
            .compile(&cuda.source, "compute_80")
            .map_err(|log| Stop::Wrong(format!("NVRTC: {log}\n{}", cuda.source)))?;
    }
    let opencl = written(Dialect::OpenClC).map_err(refused("OpenCL C"))?;
    let kernel = kernel(&opencl);
    for queue in queues {
        block_on(Bundle::new([&kernel]).warm_up(queue))
            .map_err(|error| Stop::Wrong(format!("{}: {error}\n{}", queue.device(), opencl.source)))?;
    }
    Ok(queues.len())
}

fn main() {
    let folder = env::args_os().nth(1).expect("usage: corpus FOLDER");
    let files = fs::read_dir(&folder).expect("the folder is there").flatten().map(|entry| entry.path());
    let mut files: Vec<_> = files.filter(|path| path.extension().is_some_and(|end| end == "wgsl")).collect();
    files.sort();
    let queues: Vec<&Queue> =
        queues().iter().filter(|queue| queue.device().backend().as_str() == "opencl").collect();
    let nvrtc = Nvrtc::load();
    let (mut texts, mut parsed, mut entries, mut done, mut wrong) = (0, 0, 0, 0, 0);
    for path in &files {
        let text = fs::read_to_string(path).expect("it can be read");
        if !text.contains("@compute") {
            continue;
        }
        texts += 1;
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let checked = match Checked::parse(&text) {
            Ok(checked) => checked,
            Err(error) => {
                println!("{name}: naga: {}", in_a_line(&error.to_string()));
                continue;
            }
        };
        parsed += 1;
        for entry in checked.compute_entries() {
            entries += 1;
            match compile(&checked, entry, &queues, nvrtc.as_ref()) {
                Ok(_) => done += 1,
                Err(Stop::Refused(why)) => println!("{name}: {entry}: {why}"),
                Err(Stop::Wrong(why)) => {
                    wrong += 1;
                    println!("{name}: {entry}: REFUSED BY A COMPILER: {why}");
                }
            }
        }
    }
    let devices: Vec<String> = queues.iter().map(|queue| queue.device().to_string()).collect();
    println!(
        "{parsed} of {texts} texts with compute entry points parse; {done} of their {entries} entry points translate and compile on \
         {devices:?}{}",
        if nvrtc.is_some() { " and by NVRTC" } else { "" }
    );
    assert!(texts > 0, "there is nothing in {}", folder.to_string_lossy());
    assert_eq!(wrong, 0, "the writer's texts compile");
}
