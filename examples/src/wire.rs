//! Frames on the network: a header of two words, frame number and length, then the elements, all little-endian.

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use windlass::BoxError;

use crate::pipeline::{FRAMES, LEN, sample, smooth};

/// Sends one frame.
pub(crate) async fn send(stream: &mut TcpStream, frame: usize, elements: &[f32]) -> Result<(), BoxError> {
    let mut bytes = Vec::with_capacity(8 + size_of_val(elements));
    bytes.extend(u32::try_from(frame)?.to_le_bytes());
    bytes.extend(u32::try_from(elements.len())?.to_le_bytes());
    bytes.extend(elements.iter().flat_map(|element| element.to_le_bytes()));
    Ok(stream.write_all(&bytes).await?)
}

/// Receives frames until the sender hangs up, and compares each with what plain Rust makes of it.
pub(crate) async fn receive(mut stream: TcpStream) -> Result<(), BoxError> {
    let mut missing: Vec<usize> = (0..FRAMES).collect();
    while let Some(frame) = receive_one(&mut stream).await? {
        missing.retain(|waiting| *waiting != frame);
    }
    match missing.is_empty() {
        true => Ok(()),
        false => Err(format!("frames {missing:?} did not arrive").into()),
    }
}

async fn receive_one(stream: &mut TcpStream) -> Result<Option<usize>, BoxError> {
    let mut header = [0; 8];
    match stream.read_exact(&mut header).await {
        Err(end) if end.kind() == std::io::ErrorKind::UnexpectedEof => return Ok(None),
        read => read?,
    };
    let [a, b, c, d, e, f, g, h] = header;
    let (frame, len) = (u32::from_le_bytes([a, b, c, d]) as usize, u32::from_le_bytes([e, f, g, h]) as usize);
    if frame >= FRAMES || len != LEN {
        return Err(format!("a frame {frame} of {len} elements was never sent").into());
    }
    let mut bytes = vec![0; len * size_of::<f32>()];
    stream.read_exact(&mut bytes).await?;
    let (words, _) = bytes.as_chunks::<4>();
    let raw: Vec<f32> = (0..len).map(|at| sample(frame, at)).collect();
    for (at, word) in words.iter().enumerate() {
        let (got, expected) = (f32::from_le_bytes(*word), smooth(&raw, at));
        if got != expected {
            return Err(format!("element {at} of frame {frame} is {got}, and should be {expected}").into());
        }
    }
    Ok(Some(frame))
}
