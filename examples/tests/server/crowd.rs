//! Many clients, of whom some hang up, some are stuck, and some cannot be answered in time.

use std::fs;
use std::io::{Error, ErrorKind, Write};
use std::net::TcpStream;
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use crate::client::{Answer, GUARD, PATIENT, Server, eventually, floats, head, softened};

/// A client that has sent half of its request.
struct Half {
    stream: TcpStream,
    values: Vec<f32>,
}

impl Half {
    fn sent(server: &Server, client: usize) -> Self {
        let values: Vec<f32> = (0..256).map(|i| (client * 256 + i) as f32).collect();
        let (mut stream, body) = (server.connect(), floats(&values));
        let first = [head("POST", "/soften", "", body.len()).as_bytes(), &body[..512]].concat();
        stream.write_all(&first).expect("it reads");
        Half { stream, values }
    }

    fn send_the_rest(&mut self) {
        self.stream.write_all(&floats(&self.values)[512..]).expect("it reads");
    }
}

/// All are connected at the same time, and have sent half of their requests, before the first one does anything else. Of the 500 that hang
/// up, half do so in the middle of their requests, and half before they have their answers. Seen to fail where the server may have only 600 files.
#[test]
fn of_a_thousand_clients_half_hang_up_and_the_others_are_answered() {
    more_files(4096);
    let server = Server::with(&[PATIENT, ("UPLOAD", "60")]);
    let clients: Vec<_> = (0..1000).map(|client| Half::sent(&server, client)).collect();
    eventually("all of them are connected", || connections(&server).is_none_or(|open| open >= 1000));
    let mut waiting = Vec::new();
    for (number, mut client) in clients.into_iter().enumerate() {
        match number % 4 {
            0 => drop(client),
            1 => client.send_the_rest(),
            _ => {
                client.send_the_rest();
                waiting.push(client);
            }
        }
    }
    for mut client in waiting {
        let answer = Answer::read(&mut client.stream);
        assert_eq!((answer.code, answer.body), (200, softened(&client.values)), "{}", answer.head);
    }
    server.comes_to_rest();
    eventually("all of them are gone", || connections(&server).is_none_or(|open| open < 100));
    let items = server.metric("windlass_batch_items_total{batch=\"softened\"}");
    assert!((500.0..=750.0).contains(&items), "{items} items of 500 who wait and 250 who do not");
}

/// How many sockets the server has, where the system tells that.
fn connections(server: &Server) -> Option<usize> {
    let files = fs::read_dir(format!("/proc/{}/fd", server.child.id())).ok()?;
    let kinds = files.flatten().filter_map(|file| fs::read_link(file.path()).ok());
    Some(kinds.filter(|kind| kind.to_string_lossy().starts_with("socket:")).count())
}

/// Has this process, and those that it starts from now on, have so many open files, which is more than many shells allow at first.
/// Where that cannot be had, opening them says so.
fn more_files(wanted: u64) {
    let limits = fs::read_to_string("/proc/self/limits").unwrap_or_default();
    let soft = limits.lines().find_map(|line| line.strip_prefix("Max open files"));
    let soft = soft.and_then(|numbers| numbers.split_whitespace().next()?.parse::<u64>().ok());
    if soft.is_some_and(|soft| soft < wanted) {
        let me = std::process::id().to_string();
        let raised = Command::new("prlimit").args(["--pid", &me, &format!("--nofile={wanted}:")]).status();
        println!("open files raised to {wanted}: {raised:?}");
    }
}

/// Sends a stream and reads nothing of what it becomes, until the server does not read either.
fn never_read(server: &Server) -> (TcpStream, Error) {
    let mut stream = server.connect();
    stream.set_write_timeout(Some(Duration::from_secs(1))).expect("a time that is not zero");
    stream.write_all(head("POST", "/grayscale/stream", "", 1 << 30).as_bytes()).expect("it reads");
    let (piece, mut written) = (vec![7; 1 << 20], 0);
    loop {
        match stream.write(&piece) {
            Ok(bytes) => written += bytes,
            Err(error) => return (stream, error),
        }
        assert!(written < 256 << 20, "256 MiB were taken from a client that takes nothing");
    }
}

/// Clients that send half and then nothing, and such as do not read their answers: others do not notice.
#[test]
fn stuck_clients_keep_nobody_waiting() {
    let server = Server::with(&[PATIENT]);
    let halves: Vec<_> = (0..50).map(|client| Half::sent(&server, client)).collect();
    let unread: Vec<_> = (0..4).map(|_| never_read(&server)).collect();
    for (_, error) in &unread {
        assert!(matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut), "{error}");
    }
    for round in 0..100 {
        let values = [round as f32; 64];
        let answer = server.ask("POST", "/soften", &floats(&values));
        assert_eq!((answer.code, answer.body), (200, softened(&values)), "{}", answer.head);
        let begun = Instant::now();
        assert_eq!(server.text("/healthz"), "well\n");
        let took = begun.elapsed();
        assert!(took < Duration::from_secs(10), "{took:?} to say that all is well");
    }
    drop((halves, unread));
    server.comes_to_rest();
}

#[test]
fn half_a_body_is_not_waited_for() {
    let server = Server::with(&[("UPLOAD", "0.2")]);
    let mut stream = server.connect();
    stream.write_all((head("POST", "/soften", "", 4096) + "half").as_bytes()).expect("it reads");
    let answer = Answer::read(&mut stream);
    assert!(answer.code == 408 && answer.why().contains("within 0.2 s"), "{}: {}", answer.head, answer.why());
}

/// More than can be answered in a millisecond: who is refused is told when to come again, and the service says that it is well.
#[test]
fn who_cannot_be_answered_in_time_is_told_so() {
    let server = Server::with(&[("PATIENCE", "0.001")]);
    let body = floats(&vec![1.0; 1 << 20]);
    let (is_over, refused) = (AtomicBool::new(false), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        for _ in 0..16 {
            scope.spawn(|| {
                let begun = Instant::now();
                while !is_over.load(Ordering::Relaxed) && begun.elapsed() < GUARD {
                    let answer = server.ask("POST", "/soften", &body);
                    let wait = answer.header("retry-after").map(|wait| wait.parse::<u64>().expect("seconds"));
                    match answer.code {
                        200 => continue,
                        503 => assert!(wait.is_some(), "{}", answer.head),
                        504 => {}
                        _ => panic!("{}: {}", answer.head, answer.why()),
                    }
                    refused.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        for _ in 0..10 {
            assert_eq!(server.text("/healthz"), "well\n");
        }
        let begun = Instant::now();
        while refused.load(Ordering::Relaxed) < 16 && begun.elapsed() < GUARD {
            assert_eq!(server.text("/healthz"), "well\n");
        }
        is_over.store(true, Ordering::Relaxed);
    });
    let refused = refused.into_inner();
    assert!(refused >= 16, "{refused} were refused where 4 MiB each had a millisecond");
    server.comes_to_rest();
}
