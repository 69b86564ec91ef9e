//! `windlass-kernel-fuzz SEED COUNT` prints a program of that many kernels; `windlass-kernel-fuzz shares SEED PROGRAMS
//! COUNT` what share of such programs' kernels has each construct of the language.

use std::process::ExitCode;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let numbers: Vec<u64> = words.iter().filter_map(|word| word.parse().ok()).collect();
    match (words.first().map(String::as_str), &numbers[..]) {
        (Some("shares"), [seed, programs, each]) => {
            let all = (programs * each) as f64;
            for (name, count) in windlass_kernel_fuzz::shares::shares(*seed, *programs, *each as usize) {
                println!("{:6.2} %  {name}", 100.0 * count as f64 / all);
            }
        }
        (_, [seed, count]) => print!("{}", windlass_kernel_fuzz::program(*seed, *count as usize)),
        _ => {
            eprintln!(
                "usage: windlass-kernel-fuzz SEED COUNT, or windlass-kernel-fuzz shares SEED PROGRAMS COUNT"
            );
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}
