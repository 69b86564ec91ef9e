//! Readers and writers at the ends of a pipe.

use std::future::poll_fn;
use std::io;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes};
use futures::Stream;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::error::{Error, Result};

/// What one call of a reader may give.
const ROOM: usize = 64 << 10;

/// All that a reader gives.
pub(super) struct Reader<R> {
    reader: Pin<Box<R>>,
    room: Vec<u8>,
}

impl<R: AsyncRead> Reader<R> {
    pub(super) fn new(reader: R) -> Self {
        Reader { reader: Box::pin(reader), room: vec![0; ROOM] }
    }
}

impl<R: AsyncRead> Stream for Reader<R> {
    type Item = io::Result<Bytes>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<io::Result<Bytes>>> {
        let Reader { reader, room } = &mut *self;
        let mut read = ReadBuf::new(room);
        if let Err(error) = ready!(reader.as_mut().poll_read(cx, &mut read)) {
            return Poll::Ready(Some(Err(error)));
        }
        let bytes = Bytes::copy_from_slice(read.filled());
        Poll::Ready((!bytes.is_empty()).then_some(Ok(bytes)))
    }
}

/// Writes all that a stream gives.
pub(super) async fn write_all(
    output: impl Stream<Item = Result<Bytes>>,
    writer: impl AsyncWrite,
) -> Result<u64> {
    let (mut output, mut writer) = (pin!(output), pin!(writer));
    let (mut written, mut is_flushed) = (0, true);
    loop {
        let next = poll_fn(|cx| {
            let next = output.as_mut().poll_next(cx);
            // What nothing follows just then is not to lie in a buffer of the writer's: the next input may be an answer to it.
            if next.is_pending() && !is_flushed && writer.as_mut().poll_flush(cx)?.is_ready() {
                is_flushed = true;
            }
            next.map(Ok::<_, io::Error>)
        });
        let Some(bytes) = next.await.map_err(Error::other)? else { break };
        let mut bytes = bytes?;
        is_flushed = false;
        while bytes.has_remaining() {
            let taken = poll_fn(|cx| writer.as_mut().poll_write(cx, &bytes)).await.map_err(Error::other)?;
            if taken == 0 {
                return Err(Error::other(io::Error::from(io::ErrorKind::WriteZero)));
            }
            bytes.advance(taken);
            written += taken as u64;
        }
    }
    poll_fn(|cx| writer.as_mut().poll_flush(cx)).await.map_err(Error::other)?;
    Ok(written)
}
