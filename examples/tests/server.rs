//! The server, as its clients see it.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

struct Server {
    child: Child,
    address: String,
    said: BufReader<std::process::ChildStdout>,
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

struct Answer {
    code: u16,
    head: String,
    body: Vec<u8>,
}

impl Server {
    fn start() -> Self {
        let test = std::env::current_exe().expect("a test knows where it is");
        let profile = test.ancestors().nth(2).expect("tests are built in `deps`");
        let program: PathBuf = profile.join("examples").join("server");
        let mut child = Command::new(&program)
            .env("PORT", "0")
            .env("WINDLASS_DEVICE", "host")
            .stdout(Stdio::piped())
            .spawn()
            .unwrap_or_else(|error| panic!("{}: {error}; run the whole package's tests", program.display()));
        let mut said = BufReader::new(child.stdout.take().expect("it is piped"));
        let mut line = String::new();
        said.read_line(&mut line).expect("it says where it listens");
        let address = line.trim().rsplit("http://").next().expect("an address").to_owned();
        Server { child, address, said }
    }

    fn ask(&self, method: &str, path: &str, body: &[u8]) -> Answer {
        let mut stream = TcpStream::connect(&self.address).expect("it listens");
        stream.set_read_timeout(Some(Duration::from_secs(30))).expect("a time that is not zero");
        let length = body.len();
        write!(
            stream,
            "{method} {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n"
        )
        .and_then(|()| stream.write_all(body))
        .expect("it reads");
        let mut all = Vec::new();
        stream.read_to_end(&mut all).expect("it answers");
        let end = all.windows(4).position(|bytes| bytes == b"\r\n\r\n").expect("a head");
        let head = String::from_utf8_lossy(&all[..end]).into_owned();
        let code = head.split(' ').nth(1).and_then(|code| code.parse().ok()).expect("a code");
        Answer { code, head, body: all.split_off(end + 4) }
    }

    fn text(&self, path: &str) -> String {
        let answer = self.ask("GET", path, &[]);
        assert_eq!(answer.code, 200, "{path}: {}", answer.head);
        String::from_utf8(answer.body).expect("text")
    }
}

fn floats(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

#[test]
fn the_server_answers_everybody() {
    let server = Server::start();
    std::thread::scope(|scope| {
        for client in 0..32 {
            let server = &server;
            scope.spawn(move || {
                for round in 0..20 {
                    let x = (client * 100 + round) as f32;
                    let answer = server.ask("POST", "/soften", &floats(&[x, -x]));
                    assert_eq!(answer.code, 200, "{}", answer.head);
                    assert_eq!(answer.body, floats(&[x / (1.0 + x), -x / (1.0 + x)]));
                }
            });
        }
    });
    assert_eq!(server.text("/healthz"), "well\n");
    assert!(server.text("/devices").contains("* host"), "{}", server.text("/devices"));
    let metrics = server.text("/metrics");
    assert!(metrics.contains("windlass_batch_items_total{batch=\"softened\"} 640\n"), "{metrics}");
    assert!(metrics.contains("windlass_group_seconds_count{device="), "{metrics}");
    assert!(server.text("/").contains("<title>"));
    // Nothing is recorded in no time, and the page says so.
    assert!(server.text("/trace/0").contains("const entries = [\n\n];"));
}

#[test]
fn a_picture_loses_its_colours() {
    let server = Server::start();
    let answer = server.ask("POST", "/grayscale", &[255, 255, 255, 9, 0, 0, 0, 8, 200, 100, 50, 7]);
    let luma = (0.2126 * 200.0 + 0.7152 * 100.0 + 0.0722 * 50.0) as u8;
    assert_eq!((answer.code, answer.body.len()), (200, 12), "{}", answer.head);
    assert!(answer.body[..3].iter().all(|&white| white >= 254) && answer.body[3..8] == [9, 0, 0, 0, 8]);
    assert!(answer.body[8..11].iter().all(|&gray| gray.abs_diff(luma) <= 1) && answer.body[11] == 7);
}

/// More than anybody keeps in memory, read while it is written.
#[test]
fn a_stream_is_answered_as_it_comes() {
    let server = Server::start();
    let mut stream = TcpStream::connect(&server.address).expect("it listens");
    stream.set_read_timeout(Some(Duration::from_secs(30))).expect("a time that is not zero");
    let (piece, pieces) = ([200, 100, 50, 7].repeat(1 << 14), 400);
    let mut writer = stream.try_clone().expect("a second handle");
    let write = std::thread::spawn(move || {
        let head = "POST /grayscale/stream HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length";
        write!(writer, "{head}: {}\r\n\r\n", piece.len() * pieces).expect("it reads");
        (0..pieces).for_each(|_| writer.write_all(&piece).expect("it reads"));
    });
    let mut reader = BufReader::new(&mut stream);
    let mut line = String::new();
    reader.read_line(&mut line).expect("it answers");
    assert!(line.contains(" 200 "), "{line}");
    while line != "\r\n" {
        line.clear();
        reader.read_line(&mut line).expect("a head");
    }
    // Chunks, each behind its length.
    let (mut pixels, luma) = (0, (0.2126 * 200.0 + 0.7152 * 100.0 + 0.0722 * 50.0) as u8);
    loop {
        line.clear();
        reader.read_line(&mut line).expect("a length");
        let length = usize::from_str_radix(line.trim(), 16).expect("a length");
        let mut chunk = vec![0; length + 2];
        reader.read_exact(&mut chunk).expect("a chunk");
        if length == 0 {
            break;
        }
        pixels += length / 4;
        let mut each = chunk[..length].chunks(4);
        assert!(length.is_multiple_of(4) && each.all(|pixel| pixel[0].abs_diff(luma) <= 1 && pixel[3] == 7));
    }
    write.join().expect("it wrote");
    assert_eq!(pixels, pieces << 14);
}

#[test]
fn a_bad_request_is_told_why() {
    let server = Server::start();
    for path in ["/soften", "/grayscale"] {
        let answer = server.ask("POST", path, &[1, 2, 3]);
        let why = String::from_utf8_lossy(&answer.body).into_owned();
        assert!(answer.code == 400 && why.contains("3 bytes"), "{}: {why}", answer.code);
    }
    assert_eq!(server.ask("POST", "/soften", &floats(&[1.0])).body, floats(&[0.5]));
}

/// Clients that hang up half-way leave nothing behind.
#[test]
fn who_hangs_up_is_forgotten() {
    let server = Server::start();
    for _ in 0..100 {
        let mut stream = TcpStream::connect(&server.address).expect("it listens");
        write!(stream, "POST /soften HTTP/1.1\r\nHost: x\r\nContent-Length: 4096\r\n\r\nhalf")
            .expect("it reads");
    }
    assert_eq!(server.ask("POST", "/soften", &floats(&[1.0])).body, floats(&[0.5]));
    let metrics = server.text("/metrics");
    assert!(metrics.contains("windlass_batch_waiting{batch=\"softened\"} 0\n"), "{metrics}");
}

/// A supervisor's signal: what was accepted is answered, and the process ends well.
#[cfg(unix)]
#[test]
fn the_server_ends_when_it_is_told_to() {
    let mut server = Server::start();
    assert_eq!(server.ask("POST", "/soften", &floats(&[1.0])).code, 200);
    let killed = Command::new("sh").arg("-c").arg(format!("kill -TERM {}", server.child.id())).status();
    assert!(killed.is_ok_and(|status| status.success()));
    let mut rest = String::new();
    server.said.read_to_string(&mut rest).expect("it ends");
    let status = server.child.wait().expect("it ends");
    assert!(status.success() && rest.contains("has been answered"), "{status}: {rest}");
}
