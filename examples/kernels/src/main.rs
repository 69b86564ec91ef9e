//! Runs one of the programs, or lists them.

use std::process::ExitCode;

use windlass::{Device, Queue};
use windlass_kernel_examples::PROGRAMS;

fn main() -> ExitCode {
    let name = std::env::args().nth(1);
    let Some(program) = PROGRAMS.iter().find(|program| name.as_deref() == Some(program.name)) else {
        println!("Say which (and set WINDLASS_DEVICE for a device of your choice):");
        PROGRAMS.iter().for_each(|program| println!("  {:12} {}", program.name, program.about));
        return ExitCode::from(u8::from(name.is_some()));
    };
    let run = || {
        let queue = match std::env::var_os("WINDLASS_DEVICE") {
            Some(_) => Queue::builder().blocking_build()?,
            None => Queue::blocking_on(Device::host())?,
        };
        println!("{} on {}", program.name, queue.device());
        (program.run)(&queue)
    };
    match run() {
        Ok(report) if report.wrong.is_empty() => println!("{}", report.text),
        Ok(report) => {
            eprintln!("{}\nwrong: {}", report.text, report.wrong.join("; "));
            return ExitCode::FAILURE;
        }
        Err(error) => {
            eprintln!("{error}");
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}
