//! Bytes that go through a device as they come.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use futures::channel::mpsc;
use futures::{FutureExt, SinkExt, Stream, StreamExt, stream};
use windlass::bytes::Bytes;
use windlass::prelude::*;
use windlass::stream::{Pipe, PipeBuilder};
use windlass_testkit::Rng;

type Piece = Result<Bytes, windlass::Error>;

async fn queue() -> Queue {
    Queue::on(Runtime::new().host().unwrap()).await.unwrap()
}

/// Adds one to each element; fails for a part that has a zero.
fn adding(builder: PipeBuilder<u32, u32>) -> Pipe<u32, u32> {
    builder.build(|cg, part| {
        let views = (cg.read(part.input()), cg.overwrite(part.output()));
        cg.host_for(part.input().len(), views, |item, (x, y)| {
            let x = x.get(item.id(0));
            assert_ne!(x, 0, "a zero");
            y.set(item.id(0), x + 1);
        })
    })
}

fn bytes_of(numbers: impl IntoIterator<Item = u32>) -> Vec<u8> {
    numbers.into_iter().flat_map(u32::to_le_bytes).collect()
}

/// Cuts bytes at random.
fn pieces(bytes: &[u8], rng: &mut Rng, most: usize) -> Vec<Piece> {
    let (mut rest, mut pieces) = (bytes, Vec::new());
    while !rest.is_empty() {
        let (piece, behind) = rest.split_at((1 + rng.below(most)).min(rest.len()));
        pieces.push(Ok(Bytes::from(piece.to_vec())));
        rest = behind;
    }
    pieces
}

async fn all(output: impl Stream<Item = windlass::Result<Bytes>>) -> (Vec<u8>, Option<windlass::Error>) {
    let (mut bytes, mut error, mut output) = (Vec::new(), None, std::pin::pin!(output));
    while let Some(piece) = output.next().await {
        match piece {
            Ok(piece) => bytes.extend_from_slice(&piece),
            Err(problem) => assert!(error.replace(problem).is_none(), "a stream ends with its first error"),
        }
    }
    (bytes, error)
}

/// Whatever is cut how, each element comes out once and in order.
///
/// Seen to fail where parts were given out as they were done.
#[tokio::test]
async fn what_goes_in_comes_out_in_order() {
    let queue = queue().await;
    let mut rng = Rng::new(7);
    for round in 0..60 {
        let (len, part) = (rng.below(5000) as u32, 1 + rng.below(700));
        let pipe = adding(Pipe::builder(&queue).part(part).in_flight(1 + rng.below(5)));
        let input = pieces(&bytes_of(1..=len), &mut rng, 3000);
        let (output, error) = all(pipe.run(stream::iter(input))).await;
        assert!(error.is_none() && output == bytes_of(2..=len + 1), "round {round}: {error:?}");
    }
}

/// Parts are submitted in order, so what one leaves the next finds.
#[tokio::test]
async fn a_part_finds_what_the_last_one_left() {
    let sum = Buffer::<u32>::new(1);
    let pipe = Pipe::<u32, u32>::builder(&queue().await).part(10).build(move |cg, part| {
        let views = (cg.read(part.input()), cg.overwrite(part.output()), cg.read_write(&sum));
        let len = part.input().len();
        cg.host_for(1, views, move |_, (x, y, sum)| {
            for i in 0..len {
                sum.set(0, sum.get(0) + x.get(i));
                y.set(i, sum.get(0));
            }
        })
    });
    let input = pieces(&bytes_of(1..=95), &mut Rng::new(1), 50);
    let (output, _) = all(pipe.run(stream::iter(input))).await;
    assert_eq!(output, bytes_of((1..=95).map(|n| n * (n + 1) / 2)));
}

/// No more is taken in than fits in flight while nobody takes what comes out.
///
/// Seen to fail without the bound on flights.
#[tokio::test]
async fn a_slow_reader_slows_the_writer_down() {
    let taken = Arc::new(AtomicUsize::new(0));
    let count = taken.clone();
    let input = stream::iter(0..1000).map(move |_| {
        count.fetch_add(1, Ordering::SeqCst);
        Ok::<_, windlass::Error>(Bytes::from(bytes_of([1; 100])))
    });
    let pipe = adding(Pipe::builder(&queue().await).part(100).in_flight(4));
    let mut output = pipe.run(input);
    for round in 0..20 {
        output.next().await.unwrap().unwrap();
        tokio::time::sleep(Duration::from_millis(1)).await;
        let taken = taken.load(Ordering::SeqCst);
        assert!(taken <= round + 1 + 4, "{taken} pieces were taken for {round} that were read");
    }
    assert_eq!(output.count().await, 980);
}

/// What has come is sent on where nothing more does, and waits for nothing.
///
/// Seen to wait for ever where only whole parts were sent on.
#[tokio::test]
async fn a_slow_writer_has_answers_at_once() {
    let (mut send, receive) = mpsc::channel::<Piece>(1);
    let pipe = adding(Pipe::builder(&queue().await).part(1_000_000));
    let mut output = pipe.run(receive);
    for round in 1..20_u32 {
        // The last byte of an element comes with the next piece.
        let bytes = bytes_of([round, round]);
        let piece: Vec<u8> = if round == 1 { bytes[..7].to_vec() } else { [&[0][..], &bytes[..7]].concat() };
        send.send(Ok(piece.into())).await.unwrap();
        let answer = output.next().await.unwrap().unwrap();
        let expected = if round == 1 { bytes_of([2]) } else { bytes_of([round, round + 1]) };
        assert_eq!(answer, expected, "round {round}");
        assert!(output.next().now_or_never().is_none());
    }
    drop(send);
    let (rest, error) = all(output).await;
    assert!(rest.is_empty() && error.unwrap().to_string().contains("3 bytes of one"));
}

/// The first error ends the stream, and what came before it comes out.
#[tokio::test]
async fn errors_come_in_their_place() {
    let queue = queue().await;
    let pipe = || adding(Pipe::builder(&queue).part(10));
    let good = || Ok(Bytes::from(bytes_of([1; 10])));
    // Of the input.
    let input = stream::iter([good(), good(), Err(windlass::Error::other("the network")), good()]);
    let (output, error) = all(pipe().run(input)).await;
    assert!(output.len() == 80 && error.unwrap().to_string().contains("the network"));
    // What came whole before it goes its way.
    let input = stream::iter([Ok(Bytes::from(bytes_of([1; 2]))), Err(windlass::Error::other("the network"))]);
    let (output, error) = all(pipe().run(input)).await;
    assert!(output == bytes_of([2; 2]) && error.is_some());
    // Of a part.
    let input = stream::iter([good(), Ok(Bytes::from(bytes_of([0; 10]))), good(), good()]);
    let (output, error) = all(pipe().run(input)).await;
    assert!(output.len() == 40 && error.unwrap().is_panic());
    // Of the closure.
    let refusing =
        Pipe::<u32, u32>::builder(&queue).build(|_, _| Err(windlass::Error::other("not this one")));
    let (output, error) = all(refusing.run(stream::iter([good()]))).await;
    assert!(output.is_empty() && error.unwrap().to_string().contains("not this one"));
    assert_eq!(all(pipe().run(stream::iter([Piece::Ok(Bytes::new())]))).await.0.len(), 0);
    queue.drained().await;
}

/// A stream that nobody polls keeps nobody from the queue. Seen to wait for ever where a stream that had something to give stayed in line for a
/// place.
#[tokio::test]
async fn a_stream_that_is_not_read_keeps_no_place() {
    let queue =
        Queue::builder().device(Runtime::new().host().unwrap()).max_in_flight(1).build().await.unwrap();
    let pipe = adding(Pipe::builder(&queue).part(100).in_flight(4));
    let input = stream::repeat_with(|| Piece::Ok(Bytes::from(bytes_of([1; 100]))));
    let mut output = pipe.run(input);
    for _ in 0..5 {
        output.next().await.unwrap().unwrap();
        // While nobody looks at it.
        let other = queue.ready().await.submit(|cg| cg.host_for(1, (), |_, ()| ()));
        other.unwrap().await.unwrap();
    }
}

/// A buffering writer is flushed when nothing more comes just then. Seen to wait for ever without that.
#[tokio::test]
async fn an_answer_does_not_lie_in_the_writer() {
    use tokio::io::{AsyncReadExt, AsyncWriteExt, BufWriter};
    let pipe = adding(Pipe::builder(&queue().await).part(1000));
    let (mut there, reader) = tokio::io::duplex(100);
    let (writer, mut back) = tokio::io::duplex(100);
    let peer = async {
        for round in 1..10_u32 {
            there.write_all(&bytes_of([round])).await.unwrap();
            assert_eq!(back.read_u32_le().await.unwrap(), round + 1);
        }
        drop(there);
    };
    let (copied, ()) = tokio::join!(pipe.copy(reader, BufWriter::new(writer)), peer);
    assert_eq!(copied.unwrap(), 36);
}

/// A stream that is dropped leaves nothing behind: neither places in the queue, nor groups that wait.
#[tokio::test]
async fn who_goes_away_leaves_nothing_behind() {
    struct Endless(Arc<AtomicBool>);
    impl Stream for Endless {
        type Item = Piece;
        fn poll_next(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Piece>> {
            Poll::Ready(Some(Ok(Bytes::from(bytes_of([1; 100])))))
        }
    }
    impl Drop for Endless {
        fn drop(&mut self) {
            self.0.store(true, Ordering::SeqCst);
        }
    }
    let queue =
        Queue::builder().device(Runtime::new().host().unwrap()).max_in_flight(2).build().await.unwrap();
    for taken in 0..5 {
        let is_dropped = Arc::new(AtomicBool::new(false));
        let pipe = adding(Pipe::builder(&queue).part(100).in_flight(8));
        let mut output = pipe.run(Endless(is_dropped.clone()));
        for _ in 0..taken {
            output.next().await.unwrap().unwrap();
        }
        drop(output);
        assert!(is_dropped.load(Ordering::SeqCst));
    }
    queue.drained().await;
    let places = (queue.try_ready().is_ok(), queue.in_flight());
    assert_eq!(places, (true, 0));
}

/// Readers and writers of any appetite.
#[tokio::test]
async fn readers_and_writers_are_served() {
    let pipe = adding(Pipe::builder(&queue().await).part(1000));
    let (mut there, reader) = tokio::io::duplex(100);
    let (writer, mut back) = tokio::io::duplex(64);
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let write = async {
        there.write_all(&bytes_of(1..=20_000)).await.unwrap();
        drop(there);
    };
    let read = async {
        let mut all = Vec::new();
        back.read_to_end(&mut all).await.unwrap();
        all
    };
    let (copied, (), read) = tokio::join!(pipe.copy(reader, writer), write, read);
    assert_eq!((copied.unwrap(), read), (80_000, bytes_of(2..=20_001)));
}
