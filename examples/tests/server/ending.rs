//! A supervisor's signal: what was accepted is answered, and the process ends well.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::{Command, ExitStatus};

use crate::client::{Answer, PATIENT, Server, eventually, floats, head, softened};

impl Server {
    pub(crate) fn terminate(&self) {
        let killed = Command::new("sh").arg("-c").arg(format!("kill -TERM {}", self.child.id())).status();
        assert!(killed.is_ok_and(|status| status.success()));
    }

    /// How it ended, and what it said.
    pub(crate) fn ended(&mut self) -> (ExitStatus, String) {
        let mut status = None;
        eventually("the server ends", || {
            status = self.child.try_wait().expect("it is a child");
            status.is_some()
        });
        let mut rest = String::new();
        self.said.read_to_string(&mut rest).expect("text");
        (status.expect("seen above"), rest)
    }
}

/// The server asks each client to go on (`100 Continue`), so it has accepted them all when the signal comes, and takes nobody else when
/// they send their bodies.
#[test]
fn what_was_accepted_is_answered_before_the_end() {
    let mut server = Server::with(&[PATIENT, ("GRACE", "60"), ("UPLOAD", "60")]);
    let clients: Vec<_> = (0..200)
        .map(|client| {
            let values = [client as f32; 64];
            let (mut stream, body) = (server.connect(), floats(&values));
            let sent = head("POST", "/soften", "Expect: 100-continue\r\n", body.len());
            stream.write_all(sent.as_bytes()).expect("it reads");
            let mut go_on = [0; 25];
            stream.read_exact(&mut go_on).expect("it asks for the body");
            assert_eq!(&go_on, b"HTTP/1.1 100 Continue\r\n\r\n");
            (stream, body, values)
        })
        .collect();
    server.terminate();
    eventually("nobody else is taken", || TcpStream::connect(&server.address).is_err());
    for (stream, body, _) in &clients {
        (&*stream).write_all(body).expect("it reads");
    }
    for (mut stream, _, values) in clients {
        let answer = Answer::read(&mut stream);
        assert_eq!((answer.code, answer.body), (200, softened(&values)), "{}", answer.head);
    }
    let (status, said) = server.ended();
    assert!(status.success() && said.contains("has been answered"), "{status}: {said}");
}

/// Half a head, half a body, and a job that takes minutes: none of them keeps the process.
#[test]
fn the_end_does_not_wait_for_stuck_clients() {
    let mut server = Server::with(&[("GRACE", "0.5")]);
    let requests = [
        "POST /soften HT".into(),
        head("POST", "/soften", "", 9) + "half",
        head("POST", "/jobs?steps=100000&size=512", "", 0),
    ];
    let stuck = requests.map(|request| {
        let mut stream = server.connect();
        stream.write_all(request.as_bytes()).expect("it reads");
        stream
    });
    eventually("the job runs", || server.metric("server_jobs_running") == 1.0);
    server.terminate();
    let (status, said) = server.ended();
    assert!(status.success() && said.contains("have not sent or taken all"), "{status}: {said}");
    drop(stuck);
}

/// Drivers have handlers of signals, too. Seen to be killed by the signal where the server listened for it after they were loaded; and where it
/// listened before, and two of them did, since the stack for signals was too small for all three handlers (a processor with AVX-512).
#[test]
fn the_signal_is_heard_beside_drivers() {
    for backend in ["opencl", "wgpu"] {
        let Some(mut server) = Server::try_with(&[PATIENT, ("WINDLASS_DEVICE", backend)]) else {
            assert!(std::env::var_os("CI").is_none(), "no {backend} to test with");
            println!("SKIPPED: the server does not run on {backend} here");
            continue;
        };
        let answer = server.ask("POST", "/soften", &floats(&[1.0]));
        assert_eq!((answer.code, answer.body), (200, softened(&[1.0])), "{backend}: {}", answer.head);
        server.terminate();
        let (status, said) = server.ended();
        assert!(status.success() && said.contains("has been answered"), "{backend}: {status}: {said}");
    }
}
