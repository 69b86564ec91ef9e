//! What Windlass costs, as ratios to what there is below it, measured side by side in one run.
//!
//! `cargo xtask bench` prints the table. Rows that are about single costs run pinned to one CPU, in a child process
//! under `taskset`, because wake-ups on small virtual machines are bimodal; rows about bandwidth run on all of them.
//! Each figure is the median of several alternating runs. `--kernels` prints the rows about kernels alone, and `--submissions`
//! measures the cost of a submission again and again, and `--first-uses` that of groups on as many buffers, for a profiler to look at. `--transfers` moves data to and from the device
//! that a program would get, `--device` runs kernels on it beside the same ones in its own language, and `--native` measures
//! launches, waits and copies there beside its driver by hand. `--service` puts many small requests to it, in batches and without, and `--load` does so at loads from a trickle to three times what it can do,
//! of which `--draw FILE` makes a picture. `--beyond` runs programs that use more than the device may have, beside what takes the longer
//! of their groups and their copies alone.

mod bandwidth;
mod beyond;
mod busy;
mod device;
mod forms;
mod heap;
mod kernels;
mod load;
mod native;
mod null;
mod programs;
mod service;
mod table;
mod tasks;
mod transfers;
#[cfg(feature = "wgpu")]
mod vulkan;
mod wake;

use std::process::{Command, ExitCode};

use table::Table;

#[global_allocator]
static HEAP: heap::Counting = heap::Counting;

fn main() -> ExitCode {
    let quick = has("--quick");
    let scale = if quick { 1 } else { 10 };
    if has("--pinned") {
        let mut table = Table::default();
        tasks::rows(&mut table, scale);
        wake::rows(&mut table, scale);
        table.print();
        return ExitCode::SUCCESS;
    }
    if has("--submissions") {
        let mut table = Table::default();
        tasks::submissions(&mut table, 20 * scale);
        table.print();
        return ExitCode::SUCCESS;
    }
    if has("--first-uses") {
        let mut table = Table::default();
        tasks::first_uses(&mut table, 2 * scale);
        table.print();
        return ExitCode::SUCCESS;
    }
    if has("--transfers") {
        transfers::print(scale);
        return ExitCode::SUCCESS;
    }
    if has("--beyond") {
        beyond::print(scale);
        return ExitCode::SUCCESS;
    }
    if has("--load") {
        let processors = behind("--server-on");
        let server = match &processors {
            Some(processors) => load::Server::On(processors),
            None if has("--http") => load::Server::Beside,
            None => load::Server::None,
        };
        load::print(scale, has("--heavy"), server);
        return ExitCode::SUCCESS;
    }
    if let Some(way) = behind("--serve") {
        load::serve(&way, has("--heavy"));
    }
    if let Some(lines) = behind("--draw") {
        return load::draw(lines.as_ref());
    }
    table::head();
    if has("--device") {
        let mut table = Table::default();
        device::rows(&mut table, scale);
        table.print();
        return ExitCode::SUCCESS;
    }
    if has("--service") {
        let mut table = Table::default();
        service::rows(&mut table, scale);
        table.print();
        return ExitCode::SUCCESS;
    }
    if has("--native") {
        let mut table = Table::default();
        native::rows(&mut table, scale);
        table.print();
        return ExitCode::SUCCESS;
    }
    #[cfg(feature = "wgpu")]
    if has("--vulkan") {
        let mut table = Table::default();
        vulkan::rows(&mut table, scale);
        table.print();
        return ExitCode::SUCCESS;
    }
    if has("--kernels") {
        let mut table = Table::default();
        bandwidth::rows(&mut table, scale);
        kernels::rows(&mut table, scale);
        forms::rows(&mut table, scale);
        programs::rows(&mut table, scale);
        table.print();
        return ExitCode::SUCCESS;
    }
    if !pinned_child(quick) {
        eprintln!("no `taskset` here: the rows that want one CPU were measured on all of them");
        let mut table = Table::default();
        tasks::rows(&mut table, scale);
        wake::rows(&mut table, scale);
        table.print();
    }
    let mut table = Table::default();
    busy::rows(&mut table, scale);
    bandwidth::rows(&mut table, scale);
    kernels::rows(&mut table, scale);
    forms::rows(&mut table, scale);
    programs::rows(&mut table, scale);
    table.print();
    ExitCode::SUCCESS
}

fn has(flag: &str) -> bool {
    std::env::args().any(|a| a == flag)
}

/// What comes behind a flag.
fn behind(flag: &str) -> Option<String> {
    std::env::args().skip_while(|a| a != flag).nth(1)
}

fn pinned_child(quick: bool) -> bool {
    let Ok(program) = std::env::current_exe() else { return false };
    let mut child = Command::new("taskset");
    child.args(["-c", "0"]).arg(program).arg("--pinned");
    if quick {
        child.arg("--quick");
    }
    child.status().is_ok_and(|s| s.success())
}
