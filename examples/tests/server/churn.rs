//! Clients come and go, and the process is as large as before.

use std::fs;
use std::io::{Cursor, Read, Write};
use std::time::{Duration, Instant};

use image::{ImageFormat, RgbImage};

use crate::client::{PATIENT, Server, eventually, floats, head, softened};

/// What a process has.
#[derive(Debug)]
struct Size {
    kilobytes: u64,
    threads: u64,
    files: usize,
}

impl Size {
    fn of(server: &Server) -> Self {
        let process = format!("/proc/{}", server.child.id());
        let status = fs::read_to_string(format!("{process}/status")).expect("it runs");
        let number = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name)).expect("Linux says it");
            line.split_whitespace().next().and_then(|number| number.parse().ok()).expect("a number")
        };
        let files = fs::read_dir(format!("{process}/fd")).expect("it runs").count();
        Size { kilobytes: number("VmRSS:"), threads: number("Threads:"), files }
    }
}

/// One client of each kind.
fn clients(server: &Server, png: &[u8]) {
    let values = vec![3.0; 1 << 14];
    assert_eq!(server.ask("POST", "/soften", &floats(&values)).body, softened(&values));
    assert_eq!(server.ask("POST", "/grayscale", &[200; 1 << 18]).code, 200);
    assert_eq!(server.ask("POST", "/grayscale/stream", &[200; 1 << 18]).code, 200);
    assert_eq!(server.ask("POST", "/picture", png).code, 200);
    assert_eq!(server.ask("POST", "/picture", &png[..png.len() / 2]).code, 400);
    // Who hangs up in the middle of a request, of an answer, and of a job.
    let half = head("POST", "/soften", "", 1 << 16).into_bytes();
    let whole = [head("POST", "/grayscale", "", 1 << 18).as_bytes(), &[7; 1 << 18]].concat();
    let job = head("POST", "/jobs?steps=100000&size=128", "", 0).into_bytes();
    for (sent, heard) in [([&half[..], &[7; 1 << 15]].concat(), 0), (whole, 0), (job, 1)] {
        let mut stream = server.connect();
        stream.write_all(&sent).expect("it reads");
        stream.read_exact(&mut vec![0; heard]).expect("it answers");
    }
}

fn churn(server: &Server, png: &[u8], time: Duration) -> u64 {
    let begun = Instant::now();
    let one = || {
        let mut rounds = 0;
        while begun.elapsed() < time {
            clients(server, png);
            rounds += 1;
        }
        rounds
    };
    let rounds = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4).map(|_| scope.spawn(one)).collect();
        threads.into_iter().map(|thread| thread.join().expect("its clients are answered")).sum()
    });
    server.comes_to_rest();
    rounds
}

/// `WINDLASS_CHURN` says for how many seconds; a few unless it does.
#[test]
fn nothing_grows_as_clients_come_and_go() {
    let seconds = std::env::var("WINDLASS_CHURN").map_or(4, |text| text.parse().expect("whole seconds"));
    // What the allocator keeps for each thread is not what is looked for.
    let server = Server::with(&[PATIENT, ("JOBS", "1000"), ("MALLOC_ARENA_MAX", "2")]);
    let mut png = Cursor::new(Vec::new());
    RgbImage::new(300, 200).write_to(&mut png, ImageFormat::Png).expect("it is written");
    let png = png.into_inner();
    churn(&server, &png, Duration::from_secs(2));
    let before = Size::of(&server);
    let rounds = churn(&server, &png, Duration::from_secs(seconds));
    // Threads for what may block go when they have had nothing to do for some seconds.
    let is_as_before = |size: &Size| size.threads <= before.threads && size.files <= before.files;
    eventually("threads and files as before", || is_as_before(&Size::of(&server)));
    let after = Size::of(&server);
    println!("{rounds} rounds: {before:?}, then {after:?}");
    assert!(after.kilobytes < before.kilobytes + (32 << 10), "{rounds} rounds: {before:?}, then {after:?}");
}

/// Hundreds of thousands of groups, each of which is measured, and nobody asks for metrics. Seen to grow by 25 bytes a group where only
/// those who ask had the times summed up.
#[test]
fn times_that_nobody_asks_for_are_not_kept() {
    let server = Server::with(&[("JOBS", "4"), ("MALLOC_ARENA_MAX", "2")]);
    let four_jobs = || {
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| assert_eq!(server.ask("POST", "/jobs?steps=100000&size=2", &[]).code, 200));
            }
        })
    };
    four_jobs();
    let before = Size::of(&server);
    four_jobs();
    four_jobs();
    let after = Size::of(&server);
    assert!(after.kilobytes < before.kilobytes + (12 << 10), "{before:?}, then {after:?}");
}
