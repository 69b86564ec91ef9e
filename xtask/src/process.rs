//! Running other programs.

use std::ffi::OsStr;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::Result;

/// A command whose line is printed before it runs, and whose output goes where ours does.
pub(crate) struct Process {
    command: Command,
    line: String,
}

impl Process {
    pub(crate) fn new(program: impl AsRef<OsStr>) -> Self {
        let line = program.as_ref().to_string_lossy().into_owned();
        let mut command = Command::new(program);
        command.current_dir(crate::root());
        Process { command, line }
    }

    /// The cargo that runs us.
    pub(crate) fn cargo() -> Self {
        let mut process = Process::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        process.line = "cargo".to_owned();
        process
    }

    pub(crate) fn args<A: AsRef<OsStr>>(mut self, args: impl IntoIterator<Item = A>) -> Self {
        for arg in args {
            self.line.push(' ');
            self.line.push_str(&arg.as_ref().to_string_lossy());
            self.command.arg(arg);
        }
        self
    }

    /// The arguments in one string, separated by blanks.
    pub(crate) fn words(self, words: &str) -> Self {
        self.args(words.split_whitespace())
    }

    pub(crate) fn env(mut self, name: &str, value: impl AsRef<OsStr>) -> Self {
        self.line = format!("{name}={:?} {}", value.as_ref().to_string_lossy(), self.line);
        self.command.env(name, value);
        self
    }

    /// Runs it, and fails if it does.
    pub(crate) fn run(mut self) -> Result<()> {
        println!("$ {}", self.line);
        let status = self.command.stdin(Stdio::null()).status();
        match status {
            Ok(status) if status.success() => Ok(()),
            Ok(status) => Err(format!("`{}` failed: {status}", self.line)),
            Err(error) => Err(format!("`{}` could not be started: {error}", self.line)),
        }
    }

    pub(crate) fn env_remove(mut self, name: &str) -> Self {
        self.command.env_remove(name);
        self
    }

    /// How it ended, by its own number where it was not killed, and what it printed; nothing if it could not be started.
    pub(crate) fn ended(mut self) -> Option<(Option<i32>, String)> {
        let output = self.command.stdin(Stdio::null()).stderr(Stdio::null()).output().ok()?;
        Some((output.status.code(), String::from_utf8_lossy(&output.stdout).into_owned()))
    }

    /// Whether it succeeded, and what it complained of.
    pub(crate) fn complained(mut self) -> Result<(bool, String)> {
        let output = self.command.stdin(Stdio::null()).output();
        let output = output.map_err(|error| format!("`{}` could not be started: {error}", self.line))?;
        Ok((output.status.success(), String::from_utf8_lossy(&output.stderr).into_owned()))
    }

    /// How it ended, by its own number where it was not killed. Nothing if it took longer than it may: then it is
    /// killed. What it prints is not shown.
    pub(crate) fn quietly_within(mut self, time: Duration) -> Result<Option<i32>> {
        self.command.stdout(Stdio::null()).stderr(Stdio::null());
        self.ended_within(time)
    }

    /// Runs it, and fails if it does or takes longer than it may.
    pub(crate) fn run_within(mut self, time: Duration) -> Result<()> {
        println!("$ {}", self.line);
        match self.ended_within(time)? {
            Some(0) => Ok(()),
            Some(code) => Err(format!("`{}` failed with {code}", self.line)),
            None => Err(format!("`{}` had not ended in {time:?}", self.line)),
        }
    }

    fn ended_within(&mut self, time: Duration) -> Result<Option<i32>> {
        let failed = |line: &str, error: std::io::Error| format!("`{line}` could not be run: {error}");
        let child = self.command.stdin(Stdio::null()).spawn();
        let mut child = child.map_err(|error| failed(&self.line, error))?;
        let start = Instant::now();
        while start.elapsed() < time {
            match child.try_wait().map_err(|error| failed(&self.line, error))? {
                Some(status) => return Ok(Some(status.code().unwrap_or(-1))),
                None => std::thread::sleep(Duration::from_millis(2)),
            }
        }
        child.kill().and_then(|()| child.wait()).map_err(|error| failed(&self.line, error))?;
        Ok(None)
    }

    /// What it prints, if it succeeds; what it complains of goes where ours does.
    pub(crate) fn printed(mut self) -> Result<String> {
        let output = self.command.stdin(Stdio::null()).stderr(Stdio::inherit()).output();
        let output = output.map_err(|error| format!("`{}` could not be started: {error}", self.line))?;
        match output.status.success() {
            true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
            false => Err(format!("`{}` failed: {}", self.line, output.status)),
        }
    }

    /// What it prints, if it can be run and succeeds.
    pub(crate) fn output(mut self) -> Option<String> {
        let output = self.command.stdin(Stdio::null()).stderr(Stdio::null()).output().ok()?;
        output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
    }
}
