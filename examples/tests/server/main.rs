//! The server, as its clients see it: those who are patient, those who hang up, and those who do neither.

mod answers;
mod browser;
#[cfg(target_os = "linux")]
mod churn;
mod client;
mod crowd;
#[cfg(unix)]
mod ending;
mod jobs;
#[cfg(unix)]
mod load;
mod lost;
mod pictures;
