//! When groups ran: before and behind each that is to be timed the device writes its clock down.

use std::time::Instant;

use windlass_backend::{BackendError, ClockSample};

use crate::encode::{self, Item};
use crate::error::failed;
use crate::event::poll;
use crate::gpu::Gpu;
use crate::stage::{Piece, Stage};

/// A value of the clock, in bytes.
const STAMP: usize = wgpu::QUERY_SIZE as usize;

/// The values that are written down in one command buffer.
#[derive(Debug)]
pub(crate) struct Stamps {
    set: wgpu::QuerySet,
    count: u32,
    taken: u32,
}

impl Stamps {
    /// Room for so many; none for none. To be called under error scopes.
    pub(crate) fn new(device: &wgpu::Device, count: usize) -> Option<Self> {
        let count = u32::try_from(count).ok().filter(|&count| count > 0)?;
        let set = device.create_query_set(&wgpu::QuerySetDescriptor {
            label: None,
            ty: wgpu::QueryType::Timestamp,
            count,
        });
        Some(Stamps { set, count, taken: 0 })
    }

    /// Has the next value written down once everything before has ended.
    pub(crate) fn take(&mut self, encoder: &mut wgpu::CommandEncoder) {
        encoder.write_timestamp(&self.set, self.taken);
        self.taken += 1;
    }

    /// Brings all of them to a piece of staging memory.
    pub(crate) fn read_back(
        &self,
        gpu: &Gpu,
        stage: &mut Stage,
        encoder: &mut wgpu::CommandEncoder,
    ) -> Result<Piece, BackendError> {
        let bytes = self.count as usize * STAMP;
        let size = bytes as u64;
        let usage = wgpu::BufferUsages::QUERY_RESOLVE | wgpu::BufferUsages::COPY_SRC;
        let found = gpu.device.create_buffer(&wgpu::BufferDescriptor {
            label: None,
            size,
            usage,
            mapped_at_creation: false,
        });
        encoder.resolve_query_set(&self.set, 0..self.count, &found, 0);
        let piece = stage.down.piece(&gpu.device, &gpu.spare, bytes)?;
        encoder.copy_buffer_to_buffer(&found, 0, &piece.buffer, piece.offset, size);
        Ok(piece)
    }
}

/// Read-backs of the clock's values, in pairs, each of the group at this place among the batch's ends.
#[derive(Debug)]
pub(crate) struct Times {
    pub(crate) from: Piece,
    pub(crate) ends: Vec<usize>,
}

impl Times {
    /// The ends with when their groups started and ended, in nanoseconds.
    pub(crate) fn all(&self, gpu: &Gpu) -> impl Iterator<Item = (usize, [u64; 2])> {
        let (stamps, _) = self.from.read().as_chunks::<STAMP>();
        let period = gpu.queue.get_timestamp_period();
        let stamps = stamps.iter().map(move |bytes| nanoseconds(u64::from_ne_bytes(*bytes), period));
        let stamps: Vec<u64> = stamps.collect();
        let (pairs, _) = stamps.as_chunks::<2>();
        self.ends.iter().copied().zip(pairs.to_vec())
    }
}

/// The clock's ticks, which take `period` nanoseconds each.
fn nanoseconds(ticks: u64, period: f32) -> u64 {
    if period == 1.0 { ticks } else { (ticks as f64 * f64::from(period)) as u64 }
}

/// What the clocks of the device, which is idle, and of the host say. Waits for the device.
pub(crate) fn sample(gpu: &Gpu) -> Result<ClockSample, BackendError> {
    let mut stage = Stage::new(&gpu.limits);
    let encoded = gpu.guarded("CommandEncoder::finish", || {
        encode::encode(gpu, &mut stage, [Item::Stamp, Item::Stamp].into_iter(), 2)
    })?;
    let before = Instant::now();
    gpu.guarded("Queue::submit", || Ok(gpu.queue.submit(encoded.commands)))?;
    let ended = poll(gpu, wgpu::PollType::wait_indefinitely())?;
    ended.map_err(|error| failed("Device::poll", error.to_string()))?;
    let took = before.elapsed();
    let Some(from) = encoded.stamps else { unreachable!("two were encoded") };
    let found = Times { from, ends: vec![0] };
    let [started, _] = found.all(gpu).next().map_or([0; 2], |(_, times)| times);
    gpu.spare.take_back(stage);
    Ok(ClockSample::new(started, before + took / 2))
}

#[cfg(test)]
mod tests {
    use super::nanoseconds;

    #[test]
    fn ticks_are_counted_in_nanoseconds() {
        assert_eq!(nanoseconds(u64::MAX, 1.0), u64::MAX);
        assert_eq!(nanoseconds(1000, 52.0), 52_000);
    }
}
