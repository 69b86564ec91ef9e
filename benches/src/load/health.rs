//! Whether a server says that it is well while others keep it busy, and how soon: what an orchestrator asks, and restarts it for.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// So long after each answer it is asked again.
const GAP: Duration = Duration::from_millis(2);

/// A thread that asks as long as others do.
pub(super) struct Probe {
    over: Arc<AtomicBool>,
    thread: JoinHandle<Vec<Duration>>,
}

impl Probe {
    pub(super) fn start(server: SocketAddr) -> Self {
        let over = Arc::new(AtomicBool::new(false));
        let until = over.clone();
        let thread = std::thread::spawn(move || {
            let mut connection = TcpStream::connect(server).expect("it listens");
            let mut took = Vec::new();
            while !until.load(Ordering::Relaxed) {
                std::thread::sleep(GAP);
                let began = Instant::now();
                ask(&mut connection);
                took.push(began.elapsed());
            }
            took
        });
        Probe { over, thread }
    }

    /// Microseconds that it took: the median, and 99 of 100.
    pub(super) fn stop(self) -> (f64, f64) {
        self.over.store(true, Ordering::Relaxed);
        let mut took = self.thread.join().expect("it is answered");
        took.sort();
        let part = |part: f64| {
            let at = (took.len() as f64 * part) as usize;
            took.get(at).map_or(f64::NAN, |took| took.as_nanos() as f64 / 1e3)
        };
        (part(0.5), part(0.99))
    }
}

fn ask(connection: &mut TcpStream) {
    connection.write_all(b"GET /healthz HTTP/1.1\r\nhost: here\r\n\r\n").expect("it reads");
    let (mut read, mut piece) = (Vec::new(), [0; 1024]);
    while !read.ends_with(b"\r\n\r\nok") {
        let count = connection.read(&mut piece).expect("it answers");
        assert!(count > 0, "it has closed: {}", String::from_utf8_lossy(&read));
        read.extend_from_slice(&piece[..count]);
    }
}
