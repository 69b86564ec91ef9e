//! A job of many groups: what its client hears, and what is left of it when its client goes.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;

use crate::client::{Server, head};

/// The events of a job, as they come.
struct Job {
    stream: BufReader<TcpStream>,
}

impl Job {
    fn start(server: &Server, query: &str) -> Self {
        let mut stream = server.connect();
        let sent = head("POST", &format!("/jobs?{query}"), "", 0);
        stream.write_all(sent.as_bytes()).expect("it reads");
        Job { stream: BufReader::new(stream) }
    }

    /// The next event's name and data. What else there is are chunks' lengths and empty lines.
    fn next(&mut self) -> Option<(String, String)> {
        let mut name = None;
        loop {
            let mut line = String::new();
            if self.stream.read_line(&mut line).expect("it answers") == 0 {
                return None;
            }
            match (line.trim().split_once(": "), name.take()) {
                (Some(("event", event)), _) => name = Some(event.to_owned()),
                (Some(("data", data)), Some(name)) => return Some((name, data.to_owned())),
                _ => {}
            }
        }
    }
}

/// A number of a flat object.
fn number(json: &str, name: &str) -> f64 {
    let value = json.split(['{', ',', '}']).find_map(|pair| pair.strip_prefix(&format!("\"{name}\":")));
    value.and_then(|value| value.parse().ok()).unwrap_or_else(|| panic!("no {name} in {json}"))
}

/// The same in plain Rust.
fn plain(steps: usize, size: usize) -> Vec<f32> {
    let middle = size / 4..size - size / 4;
    let is_hot = |at: usize| middle.contains(&(at / size)) && middle.contains(&(at % size));
    let mut heat: Vec<f32> = (0..size * size).map(|at| f32::from(u8::from(is_hot(at)))).collect();
    for _ in 0..steps {
        let next = |at: usize| {
            let (row, column) = (at / size, at % size);
            let neighbours = [
                (row > 0).then(|| at - size),
                (row + 1 < size).then(|| at + size),
                (column > 0).then(|| at - 1),
                (column + 1 < size).then(|| at + 1),
            ];
            heat[at] + 0.2 * neighbours.into_iter().flatten().map(|to| heat[to] - heat[at]).sum::<f32>()
        };
        heat = (0..size * size).map(next).collect();
    }
    heat
}

#[test]
fn a_job_says_how_far_it_is_and_at_last_what_came_out() {
    let server = Server::start();
    let mut job = Job::start(&server, "steps=250&size=24");
    for step in (3..=249).step_by(3).chain([250]) {
        let (name, data) = job.next().expect("it goes on");
        assert_eq!(
            (name.as_str(), number(&data, "step"), number(&data, "of")),
            ("progress", f64::from(step), 250.0)
        );
    }
    let (name, data) = job.next().expect("it has a result");
    assert_eq!(name, "result", "{data}");
    let heat = plain(250, 24);
    let mean = heat.iter().map(|&place| f64::from(place)).sum::<f64>() / 576.0;
    let warmest = f64::from(heat.iter().copied().fold(0.0, f32::max));
    assert!((number(&data, "mean") - mean).abs() < 1e-4, "{data} where the mean is {mean}");
    assert!((number(&data, "warmest") - warmest).abs() < 1e-4, "{data} where the most is {warmest}");
    assert_eq!(job.next(), None);
    server.comes_to_rest();
    assert_eq!(server.metric("server_jobs_ended_total{how=\"done\"}"), 1.0);
}

/// The first progress is heard while most of the job is still to be done; and that is never done when its client goes.
#[test]
fn progress_comes_while_a_job_runs_and_hanging_up_cancels_it() {
    let server = Server::start();
    let mut job = Job::start(&server, "steps=100000&size=512");
    let (name, data) = job.next().expect("it begins");
    assert_eq!((name.as_str(), number(&data, "step")), ("progress", 1000.0));
    assert_eq!(server.metric("server_jobs_running"), 1.0);
    drop(job);
    server.comes_to_rest();
    let submitted = server.metric("windlass_groups_submitted_total");
    assert!((1000.0..100_000.0).contains(&submitted), "{submitted} groups of a job that was cancelled");
    assert_eq!(server.metric("server_jobs_ended_total{how=\"cancelled\"}"), 1.0);
}

#[test]
fn a_job_that_makes_no_sense_is_told_why() {
    let server = Server::start();
    for (query, reason) in [
        ("steps=0", "steps=0: set a number from 1 to 100000"),
        ("steps=100001", "from 1 to 100000"),
        ("steps=many", "steps=many"),
        ("size=1", "from 2 to 2048"),
        ("size=4096&steps=1", "size=4096"),
        ("steps=1&stops=2", "no `stops`"),
    ] {
        let answer = server.ask("POST", &format!("/jobs?{query}"), &[]);
        assert!(
            answer.code == 400 && answer.why().contains(reason),
            "{query}: {}: {}",
            answer.code,
            answer.why()
        );
    }
    assert_eq!(server.metric("server_jobs_running"), 0.0);
}

/// Its place is free when its client has gone, and not before.
#[test]
fn a_job_too_many_is_refused_until_another_ends() {
    let server = Server::with(&[("JOBS", "1")]);
    let mut first = Job::start(&server, "steps=100000&size=512");
    first.next().expect("it begins");
    let answer = server.ask("POST", "/jobs?steps=1&size=2", &[]);
    let wait = answer.header("retry-after").and_then(|wait| wait.parse::<u64>().ok());
    assert!(answer.code == 503 && wait.is_some(), "{}", answer.head);
    assert_eq!(server.text("/healthz"), "well\n");
    assert_eq!(first.next().expect("it goes on").0, "progress");
    drop(first);
    server.comes_to_rest();
    assert_eq!(server.ask("POST", "/jobs?steps=1&size=2", &[]).code, 200);
}
