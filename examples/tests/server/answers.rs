//! What is asked for is answered, and what is asked wrongly is told why.

use std::io::{BufRead, BufReader, Read, Write};

use crate::client::{Server, floats};

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
    let devices = server.text("/devices");
    assert_eq!(devices.lines().filter(|device| device.starts_with("* ")).count(), 1, "{devices}");
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
    let mut stream = server.connect();
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
