//! NVIDIA's compiler of CUDA C++, loaded when it is asked for. It needs no GPU and no driver.

use std::ffi::{CString, c_char, c_int, c_void};
use std::path::Path;
use std::{fs, ptr};

use libloading::{Library, Symbol};

use crate::find;

type Program = *mut c_void;
type Create = unsafe extern "C" fn(
    *mut Program,
    *const c_char,
    *const c_char,
    c_int,
    *const *const c_char,
    *const *const c_char,
) -> c_int;
type Compile = unsafe extern "C" fn(Program, c_int, *const *const c_char) -> c_int;
type LogSize = unsafe extern "C" fn(Program, *mut usize) -> c_int;
type Log = unsafe extern "C" fn(Program, *mut c_char) -> c_int;
type Destroy = unsafe extern "C" fn(*mut Program) -> c_int;

/// The compiler.
pub(crate) struct Nvrtc(Library);

impl Nvrtc {
    /// The one that `cargo xtask setup` installs; where it is missing, this says so.
    pub(crate) fn load() -> Option<Self> {
        let note = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.drivers/nvrtc.txt");
        let Ok(path) = fs::read_to_string(note) else {
            find::missing("NVRTC (`cargo xtask setup` installs it)");
            return None;
        };
        // SAFETY: it is NVIDIA's own library, whose initialisers ask for nothing.
        let library = unsafe { Library::new(path.trim()) };
        Some(Nvrtc(library.unwrap_or_else(|error| panic!("{}: {error}", path.trim()))))
    }

    /// A function of the library's.
    ///
    /// # Safety
    /// `F` is the type that NVRTC's header declares for the name.
    unsafe fn function<F>(&self, name: &str) -> Symbol<'_, F> {
        // SAFETY: the caller's promise.
        unsafe { self.0.get(name.as_bytes()) }.unwrap_or_else(|error| panic!("{name}: {error}"))
    }

    /// Compiles a text for GPUs from an architecture on; else what the compiler says.
    pub(crate) fn compile(&self, text: &str, architecture: &str) -> Result<(), String> {
        let text = CString::new(text).map_err(|error| error.to_string())?;
        let options = [format!("--gpu-architecture={architecture}"), "--fmad=false".to_owned()]
            .map(|option| CString::new(option).expect("it has no zero"));
        let options = options.each_ref().map(|option| option.as_ptr());
        let mut program: Program = ptr::null_mut();
        // SAFETY: the types are those of `nvrtc.h`. Strings end in a zero and outlive the calls, the log is as long as
        // the library said, and the program is destroyed last and once.
        unsafe {
            let create = self.function::<Create>("nvrtcCreateProgram");
            let made =
                create(&mut program, text.as_ptr(), c"kernel.cu".as_ptr(), 0, ptr::null(), ptr::null());
            assert_eq!(made, 0, "nvrtcCreateProgram");
            let compiled = self.function::<Compile>("nvrtcCompileProgram")(
                program,
                options.len() as c_int,
                options.as_ptr(),
            );
            let mut size = 0;
            self.function::<LogSize>("nvrtcGetProgramLogSize")(program, &mut size);
            let mut log = vec![0_u8; size.max(1)];
            self.function::<Log>("nvrtcGetProgramLog")(program, log.as_mut_ptr().cast());
            self.function::<Destroy>("nvrtcDestroyProgram")(&mut program);
            let log = String::from_utf8_lossy(&log).trim_end_matches('\0').to_owned();
            if compiled == 0 { Ok(()) } else { Err(format!("error {compiled}: {log}")) }
        }
    }
}
