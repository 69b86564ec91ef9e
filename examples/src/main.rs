//! A tour: what devices there are and what is missing, then a small pipeline of kernels, host tasks and network I/O
//! over two contexts, checked to the last bit. `cargo run --release` in the workspace's root runs it.
//!
//! The pipeline needs no driver: it runs on the host backend, in two contexts with memory of their own, so that data
//! really moves. Exit code 1 says that a result was wrong.

mod machine;
mod pipeline;
mod wire;

use std::process::ExitCode;

use windlass::BoxError;

#[tokio::main]
async fn main() -> ExitCode {
    match tour().await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("\nthe tour went wrong: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn tour() -> Result<(), BoxError> {
    machine::show().await;
    pipeline::run().await
}
