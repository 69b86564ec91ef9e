//! NVIDIA's own product of matrices, where its library is installed.

use std::ffi::c_void;
use std::ptr::null_mut;
use std::time::Instant;

use libloading::{Library, Symbol};

use crate::table::median;

/// Products in a row.
const PRODUCTS: usize = 20;

type Handle = *mut c_void;
type Init = unsafe extern "C" fn(u32) -> i32;
type DeviceGet = unsafe extern "C" fn(*mut i32, i32) -> i32;
type Retain = unsafe extern "C" fn(*mut Handle, i32) -> i32;
type SetCurrent = unsafe extern "C" fn(Handle) -> i32;
type Alloc = unsafe extern "C" fn(*mut u64, usize) -> i32;
type Synchronize = unsafe extern "C" fn() -> i32;
type Create = unsafe extern "C" fn(*mut Handle) -> i32;
#[rustfmt::skip]
type Sgemm = unsafe extern "C" fn(
    Handle, i32, i32, i32, i32, i32, *const f32, u64, i32, u64, i32, *const f32, u64, i32,
) -> i32;

/// Nanoseconds for a product of two matrices of n x n, of single precision all through.
pub(super) fn product(n: usize, times: usize) -> Option<f64> {
    let names = ["libcublas.so.13", "libcublas.so.12", "libcublas.so"];
    // SAFETY: these are NVIDIA's libraries, whose initialisers do nothing that a program has to prepare.
    let (driver, cublas) = unsafe {
        let cublas = names.iter().find_map(|name| Library::new(name).ok())?;
        (Library::new("libcuda.so.1").ok()?, cublas)
    };
    // SAFETY: the functions have the types that CUDA's and cuBLAS's headers give them; every pointer is to a variable of ours, but
    // for those to device memory, which is as large as the matrices; and nothing is freed while it is in use.
    unsafe {
        let init: Symbol<'_, Init> = driver.get(b"cuInit").ok()?;
        let device_get: Symbol<'_, DeviceGet> = driver.get(b"cuDeviceGet").ok()?;
        let retain: Symbol<'_, Retain> = driver.get(b"cuDevicePrimaryCtxRetain").ok()?;
        let set_current: Symbol<'_, SetCurrent> = driver.get(b"cuCtxSetCurrent").ok()?;
        let alloc: Symbol<'_, Alloc> = driver.get(b"cuMemAlloc_v2").ok()?;
        let synchronize: Symbol<'_, Synchronize> = driver.get(b"cuCtxSynchronize").ok()?;
        let create: Symbol<'_, Create> = cublas.get(b"cublasCreate_v2").ok()?;
        let sgemm: Symbol<'_, Sgemm> = cublas.get(b"cublasSgemm_v2").ok()?;
        let (mut device, mut context, mut handle) = (0, null_mut(), null_mut());
        let opened =
            [init(0), device_get(&mut device, 0), retain(&mut context, device), set_current(context)];
        if opened != [0; 4] || create(&mut handle) != 0 {
            return None;
        }
        let mut matrices = [0_u64; 3];
        for matrix in &mut matrices {
            if alloc(matrix, 4 * n * n) != 0 {
                return None;
            }
        }
        let [a, b, c] = matrices;
        let (side, one, zero) = (i32::try_from(n).ok()?, 1.0_f32, 0.0_f32);
        let multiply = || sgemm(handle, 0, 0, side, side, side, &one, a, side, b, side, &zero, c, side);
        let mut measured = Vec::new();
        for _ in 0..=times {
            let begun = Instant::now();
            if (0..PRODUCTS).any(|_| multiply() != 0) || synchronize() != 0 {
                return None;
            }
            measured.push(begun.elapsed().as_nanos() as f64 / PRODUCTS as f64);
        }
        // What is loaded is used until the end of the process: neither library takes it well to be unloaded.
        std::mem::forget((driver, cublas));
        // The first one builds kernels.
        Some(median(measured.split_off(1)))
    }
}
