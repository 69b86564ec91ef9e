//! `windlass-kernel-fuzz SEED COUNT` prints a program of that many kernels.

use std::process::ExitCode;

fn main() -> ExitCode {
    let numbers: Vec<u64> = std::env::args().skip(1).filter_map(|arg| arg.parse().ok()).collect();
    let [seed, count] = numbers[..] else {
        eprintln!("usage: windlass-kernel-fuzz SEED COUNT");
        return ExitCode::FAILURE;
    };
    print!("{}", windlass_kernel_fuzz::program(seed, count as usize));
    ExitCode::SUCCESS
}
