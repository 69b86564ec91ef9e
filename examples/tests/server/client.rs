//! The server as a process, and the HTTP that its clients speak.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// How long something may take that must come: a guard against hanging, and no measure.
pub(crate) const GUARD: Duration = Duration::from_secs(60);

/// A server that waits for as long as a loaded machine takes.
pub(crate) const PATIENT: (&str, &str) = ("PATIENCE", "60");

pub(crate) struct Server {
    pub(crate) child: Child,
    pub(crate) address: String,
    pub(crate) said: BufReader<ChildStdout>,
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Server {
    pub(crate) fn start() -> Self {
        Server::with(&[])
    }

    /// With settings in its environment. It is on the host, unless `WINDLASS_SERVER_DEVICE` says otherwise.
    pub(crate) fn with(settings: &[(&str, &str)]) -> Self {
        Server::try_with(settings).expect("it says where it listens")
    }

    /// `None` where it ends at once, as on a device that is not there.
    pub(crate) fn try_with(settings: &[(&str, &str)]) -> Option<Self> {
        let test = std::env::current_exe().expect("a test knows where it is");
        let profile = test.ancestors().nth(2).expect("tests are built in `deps`");
        let program: PathBuf = profile.join("examples").join("server");
        let device = std::env::var("WINDLASS_SERVER_DEVICE").unwrap_or_else(|_| "host".into());
        let mut child = Command::new(&program)
            .env("PORT", "0")
            .env("WINDLASS_DEVICE", device)
            .envs(settings.iter().copied())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap_or_else(|error| panic!("{}: {error}; run the whole package's tests", program.display()));
        let mut said = BufReader::new(child.stdout.take().expect("it is piped"));
        let mut line = String::new();
        said.read_line(&mut line).expect("text");
        let address = line.trim().split_once("http://").map(|(_, address)| address.to_owned());
        let mut server = Server { child, address: String::new(), said };
        server.address = address?;
        Some(server)
    }

    pub(crate) fn connect(&self) -> TcpStream {
        connect(&self.address)
    }

    pub(crate) fn ask(&self, method: &str, path: &str, body: &[u8]) -> Answer {
        self.ask_with(method, path, "", body)
    }

    /// With more lines in the request's head, each of which ends in `\r\n`.
    pub(crate) fn ask_with(&self, method: &str, path: &str, more: &str, body: &[u8]) -> Answer {
        ask(&self.address, method, path, more, body)
    }

    pub(crate) fn text(&self, path: &str) -> String {
        let answer = self.ask("GET", path, &[]);
        assert_eq!(answer.code, 200, "{path}: {}", answer.head);
        String::from_utf8(answer.body).expect("text")
    }

    /// What `/metrics` says of a name with its labels; what has never been counted is 0.
    pub(crate) fn metric(&self, name: &str) -> f64 {
        let metrics = self.text("/metrics");
        let value = metrics.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        value.map_or(0.0, |value| value.parse().expect("a number"))
    }

    /// Nobody waits, nothing is in flight, and no job runs.
    pub(crate) fn comes_to_rest(&self) {
        for name in [
            "windlass_batch_waiting{batch=\"softened\"}",
            "windlass_batch_in_flight{batch=\"softened\"}",
            "windlass_under_way",
            "windlass_buffers",
            "server_jobs_running",
        ] {
            eventually(name, || self.metric(name) == 0.0);
        }
    }
}

fn connect(address: &str) -> TcpStream {
    let stream = TcpStream::connect(address).expect("it listens");
    stream.set_read_timeout(Some(GUARD)).expect("a time that is not zero");
    stream
}

/// See [`Server::ask_with`].
pub(crate) fn ask(address: &str, method: &str, path: &str, more: &str, body: &[u8]) -> Answer {
    let mut stream = connect(address);
    let head = head(method, path, more, body.len());
    stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(body)).expect("it reads");
    Answer::read(&mut stream)
}

/// The head of a request that has a connection of its own.
pub(crate) fn head(method: &str, path: &str, more: &str, length: usize) -> String {
    format!(
        "{method} {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n{more}Content-Length: {length}\r\n\r\n"
    )
}

pub(crate) struct Answer {
    pub(crate) code: u16,
    pub(crate) head: String,
    pub(crate) body: Vec<u8>,
}

impl Answer {
    pub(crate) fn read(stream: &mut impl Read) -> Self {
        Answer::try_read(stream).expect("it answers")
    }

    pub(crate) fn try_read(stream: &mut impl Read) -> io::Result<Self> {
        let mut all = Vec::new();
        stream.read_to_end(&mut all)?;
        let end =
            all.windows(4).position(|bytes| bytes == b"\r\n\r\n").ok_or(io::ErrorKind::UnexpectedEof)?;
        let head = String::from_utf8_lossy(&all[..end]).into_owned();
        let code = head.split(' ').nth(1).and_then(|code| code.parse().ok()).expect("a code");
        Ok(Answer { code, head, body: all.split_off(end + 4) })
    }

    /// The next answer of a connection that may have more of them. `None` where it was closed before anything of an answer came; an error
    /// where it was closed later than that.
    pub(crate) fn next(stream: &mut impl BufRead) -> io::Result<Option<Self>> {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            match stream.read_until(b'\n', &mut head) {
                Ok(1..) => {}
                Err(error) if head.is_empty() && !is_late(&error) => return Ok(None),
                Err(error) => return Err(error),
                Ok(0) if head.is_empty() => return Ok(None),
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            }
        }
        head.truncate(head.len() - 4);
        let head = String::from_utf8_lossy(&head).into_owned();
        let code = head.split(' ').nth(1).and_then(|code| code.parse().ok()).expect("a code");
        let mut answer = Answer { code, head, body: Vec::new() };
        match answer.header("content-length").map(|length| length.parse().expect("a length")) {
            Some(length) => {
                answer.body = vec![0; length];
                stream.read_exact(&mut answer.body)?;
            }
            None if answer.header("transfer-encoding") == Some("chunked") => answer.body = chunks(stream)?,
            None => {}
        }
        Ok(Some(answer))
    }

    /// What a line of the head says, by its name in small letters.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let mut lines = self.head.lines().filter_map(|line| line.split_once(": "));
        lines.find(|(found, _)| found.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    }

    pub(crate) fn why(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }
}

/// Nothing has come for so long that the test gives up.
fn is_late(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut)
}

/// A body in chunks, up to the empty one that ends it.
fn chunks(stream: &mut impl BufRead) -> io::Result<Vec<u8>> {
    let mut body = Vec::new();
    loop {
        let mut line = String::new();
        stream.read_line(&mut line)?;
        let length = usize::from_str_radix(line.trim(), 16).map_err(|_| io::ErrorKind::UnexpectedEof)?;
        let mut chunk = vec![0; length + 2];
        stream.read_exact(&mut chunk)?;
        body.extend_from_slice(&chunk[..length]);
        if length == 0 {
            return Ok(body);
        }
    }
}

/// Waits until something holds that has to.
#[track_caller]
pub(crate) fn eventually(what: &str, holds: impl FnMut() -> bool) {
    eventually_within(GUARD, what, holds);
}

#[track_caller]
pub(crate) fn eventually_within(guard: Duration, what: &str, mut holds: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < guard, "not in {guard:?}: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Says that it is over when it is dropped, so that threads which ask until then end where their test has failed, too.
pub(crate) struct Until<'a>(pub(crate) &'a AtomicBool);

impl Drop for Until<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

pub(crate) fn floats(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

/// What `/soften` makes of it.
pub(crate) fn softened(values: &[f32]) -> Vec<u8> {
    floats(&values.iter().map(|x| x / (1.0 + x.abs())).collect::<Vec<_>>())
}
