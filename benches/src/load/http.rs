//! A way to answer requests, put behind HTTP: a server with a route, and clients with connections that stay open, on this machine. The server
//! is on the processors of its clients, or is a process that has others.

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::routing::{get, post};
use futures::future::FutureExt;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;

use crate::service::runtime;
use crate::service::ways::{LEN, Service, Unanswered, in_time};

/// Connections at most: who finds none free waits, and its time runs.
const CONNECTIONS: usize = 2_000;

/// For how many microseconds an answer is of use.
const WITHIN: &str = "within-us";

async fn answer(
    State(service): State<Service>,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Vec<u8>, StatusCode> {
    let within = headers.get(WITHIN).and_then(|text| text.to_str().ok()?.parse().ok());
    let until = within.map(|micros| Instant::now() + Duration::from_micros(micros));
    match service(floats(&body), until).await {
        Ok(answer) => Ok(answer.iter().flat_map(|x| x.to_le_bytes()).collect()),
        Err(Unanswered::NotLetIn) => Err(StatusCode::SERVICE_UNAVAILABLE),
        Err(Unanswered::Late) => Err(StatusCode::GATEWAY_TIMEOUT),
    }
}

fn floats(bytes: &[u8]) -> Vec<f32> {
    bytes.chunks_exact(4).map(|x| f32::from_le_bytes([x[0], x[1], x[2], x[3]])).collect()
}

/// A server that answers in this way, beside who asks it.
pub(super) fn beside(service: Service) -> SocketAddr {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("there is a port");
    let address = listener.local_addr().expect("it has an address");
    std::thread::spawn(move || runtime().block_on(serve(listener, service)));
    address
}

async fn serve(listener: std::net::TcpListener, service: Service) {
    listener.set_nonblocking(true).expect("it is a socket");
    let listener = TcpListener::from_std(listener).expect("it listens");
    let routes = Router::new().route("/", post(answer)).route("/healthz", get(async || "ok"));
    axum::serve(listener, routes.with_state(service)).await.expect("it serves for as long as it is there");
}

/// A server that is a process of its own. It ends when this is dropped.
pub(super) struct Apart {
    process: Child,
    pub(super) address: SocketAddr,
}

impl Apart {
    /// On these processors, by the names that `taskset` has for them.
    pub(super) fn start(way: &str, is_heavy: bool, processors: &str) -> Self {
        let program = std::env::current_exe().expect("a program knows where it is");
        let mut command = Command::new("taskset");
        command.args(["-c", processors]).arg(program).args(["--serve", way]);
        command.args(is_heavy.then_some("--heavy")).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut process = command.spawn().expect("there is `taskset`");
        let mut line = String::new();
        let said = process.stdout.take().expect("it is piped");
        BufReader::new(said).read_line(&mut line).expect("text");
        let address = line.trim().parse().expect("it says where it listens");
        Apart { process, address }
    }

    /// That process: it says where it listens, and serves until who started it is gone.
    pub(super) fn be(service: Service) -> ! {
        println!("{}", beside(service));
        let _ = std::io::stdin().read_line(&mut String::new());
        std::process::exit(0)
    }
}

impl Drop for Apart {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Clients of a server.
pub(super) fn clients(address: SocketAddr) -> Service {
    let (free, places) = (Arc::new(Mutex::new(Vec::new())), Arc::new(Semaphore::new(CONNECTIONS)));
    Arc::new(move |request, until| {
        let (free, places) = (free.clone(), places.clone());
        let asked = async move {
            let _place = places.acquire().await.expect("nobody closes it");
            let known = free.lock().expect("nobody panics with it").pop();
            let mut connection = match known {
                Some(connection) => connection,
                None => TcpStream::connect(address).await.unwrap_or_else(|error| broken(&error)),
            };
            let answer = ask(&mut connection, &request, until).await;
            // One whose request is given up before is closed.
            free.lock().expect("nobody panics with it").push(connection);
            answer
        };
        in_time(until, asked).boxed()
    })
}

async fn ask(
    connection: &mut TcpStream,
    request: &[f32],
    until: Option<Instant>,
) -> Result<Vec<f32>, Unanswered> {
    let left = until.map(|until| until.saturating_duration_since(Instant::now()).as_micros());
    let within = left.map(|micros| format!("{WITHIN}: {micros}\r\n")).unwrap_or_default();
    let mut text =
        format!("POST / HTTP/1.1\r\nhost: here\r\n{within}content-length: {}\r\n\r\n", 4 * LEN).into_bytes();
    text.extend(request.iter().flat_map(|x| x.to_le_bytes()));
    connection.write_all(&text).await.unwrap_or_else(|error| broken(&error));
    let mut read = Vec::with_capacity(2 * 4 * LEN);
    let head = loop {
        if let Some(end) = read.windows(4).position(|four| four == b"\r\n\r\n") {
            break end + 4;
        }
        read_more(connection, &mut read).await;
    };
    let head_text = String::from_utf8_lossy(&read[..head]).to_ascii_lowercase();
    let length = head_text.lines().find_map(|line| line.strip_prefix("content-length: ")?.parse().ok());
    let end = head + length.unwrap_or(0);
    while read.len() < end {
        read_more(connection, &mut read).await;
    }
    match head_text.split(' ').nth(1) {
        Some("200") => Ok(floats(&read[head..])),
        Some("503") => Err(Unanswered::NotLetIn),
        Some("504") => Err(Unanswered::Late),
        _ => broken(&head_text),
    }
}

async fn read_more(connection: &mut TcpStream, read: &mut Vec<u8>) {
    match connection.read_buf(read).await {
        Ok(0) => broken(&"it has closed"),
        Ok(_) => {}
        Err(error) => broken(&error),
    }
}

/// A request that was lost on the way would be counted nowhere, so there are no figures.
fn broken(why: &dyn std::fmt::Display) -> ! {
    eprintln!("the connection to the server: {why} (it takes {} open files)", 2 * CONNECTIONS);
    std::process::exit(1)
}
