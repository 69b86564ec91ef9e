//! What whoever runs the service may choose, by the environment.

use std::env;
use std::str::FromStr;
use std::time::Duration;

#[derive(Clone, Copy)]
pub(crate) struct Settings {
    /// `PORT`: where it listens; 0 is any free port.
    pub(crate) port: u16,
    /// `PATIENCE`: how long an answer is of use to who asked for it.
    pub(crate) patience: Duration,
    /// `UPLOAD`: how long a request's body may take to come.
    pub(crate) upload: Duration,
    /// `GRACE`: how long those who were accepted have once the service is told to end.
    pub(crate) grace: Duration,
    /// `JOBS`: how many long jobs run at the same time.
    pub(crate) jobs: usize,
}

impl Settings {
    pub(crate) fn from_env() -> Result<Self, String> {
        Ok(Settings {
            port: setting("PORT", 8080)?,
            patience: seconds("PATIENCE", 2.0)?,
            upload: seconds("UPLOAD", 30.0)?,
            grace: seconds("GRACE", 20.0)?,
            jobs: setting("JOBS", 4)?,
        })
    }
}

fn setting<T: FromStr>(name: &str, default: T) -> Result<T, String> {
    let Ok(text) = env::var(name) else { return Ok(default) };
    text.parse().map_err(|_| format!("{name}={text}: set a number that fits, or nothing"))
}

fn seconds(name: &str, default: f64) -> Result<Duration, String> {
    let seconds = setting(name, default)?;
    Duration::try_from_secs_f64(seconds).map_err(|error| format!("{name}={seconds}: {error}"))
}
