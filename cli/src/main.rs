//! `windlass`: which devices there are, whether they are well, how fast they are, and what programs do with them.
//!
//! It ends with 0 if all is well, with 1 if something was found that is not, or could not be done, and with 2 if it was asked for
//! what does not exist.

mod bench;
mod devices;
mod doctor;
mod explain;
mod trace;

use std::error::Error;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand};
use windlass::{Device, Runtime};

#[derive(Parser)]
#[command(version, about = "Devices, their health and their speed, and what programs do with them")]
struct Command {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    /// Lists the devices that programs would find, and why backends have none.
    Devices(Which),
    /// Has each device do a little of everything and checks the results.
    Doctor(Which),
    /// Measures each device: what a launch takes, and how fast data moves.
    Bench(Which),
    /// Builds a kernel in WGSL for each device, and says in which forms it runs there and what drivers tell of them.
    Explain(ExplainArgs),
    /// Shows what a program has done, from the file that it wrote with WINDLASS_TRACE, or runs it to find out.
    ///
    /// `windlass trace run.json` sums a file up; `windlass trace -o run.html -- cargo run` runs a program, and makes a page of what it did.
    Trace(TraceArgs),
}

/// Which devices.
#[derive(Args)]
struct Filter {
    /// Only devices in whose names, or backends' names, this occurs.
    #[arg(long, value_name = "TEXT")]
    device: Option<String>,
}

/// Which devices, and in which form.
#[derive(Args)]
struct Which {
    #[command(flatten)]
    filter: Filter,
    /// For other programs.
    #[arg(long)]
    json: bool,
}

#[derive(Args)]
struct ExplainArgs {
    /// Its text, in the convention of `windlass_kernel::block`.
    file: PathBuf,
    /// Which kernel of the file.
    #[arg(long)]
    entry: Option<String>,
    #[command(flatten)]
    which: Which,
}

#[derive(Args)]
struct TraceArgs {
    /// A file that a program wrote.
    #[arg(required_unless_present = "program", conflicts_with = "program")]
    file: Option<PathBuf>,
    /// Writes a page that shows the trace.
    #[arg(short, long, value_name = "PAGE")]
    output: Option<PathBuf>,
    /// For other programs.
    #[arg(long)]
    json: bool,
    /// A program to run, with its arguments.
    #[arg(last = true, value_name = "PROGRAM")]
    program: Vec<String>,
}

/// What went wrong, in words.
type Failure = Box<dyn Error>;

/// Whether all is well.
type Verdict = Result<bool, Failure>;

impl Filter {
    /// The devices that are meant. It is an error if that is none.
    fn of(&self, runtime: &Runtime) -> Result<Vec<Device>, Failure> {
        let mut devices = block_on(runtime.devices())?;
        let Some(text) = &self.device else { return Ok(devices) };
        let known: Vec<String> = devices.iter().map(ToString::to_string).collect();
        devices.retain(|device| device.to_string().to_lowercase().contains(&text.to_lowercase()));
        match devices.is_empty() {
            true => Err(format!("no device is called `{text}`; there are: {}", known.join("; ")).into()),
            false => Ok(devices),
        }
    }
}

/// A future to its end: this program does one thing at a time.
fn block_on<F: Future>(future: F) -> F::Output {
    futures_lite::future::block_on(future)
}

fn main() -> ExitCode {
    let verdict = match Command::parse().what {
        What::Devices(which) => devices::list(&which),
        What::Doctor(which) => doctor::examine(&which),
        What::Bench(which) => bench::measure(&which),
        What::Explain(args) => explain::explain(&args),
        What::Trace(args) => trace::show(&args),
    };
    match verdict {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(failure) => {
            eprintln!("windlass: {failure}");
            ExitCode::FAILURE
        }
    }
}
