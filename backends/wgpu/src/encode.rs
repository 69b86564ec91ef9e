//! Encoding: operations to wgpu commands, with one encoder for each group.

use std::sync::mpsc;

use windlass_backend::{BackendError, Region};

use crate::gpu::Gpu;
use crate::memory::{DeviceBox, HostBox, padded};
use crate::ops::{Op, Ops};
use crate::process_exit;
use crate::stage::Stage;

/// At most this many bytes of a repeated pattern are made on the host; a longer fill copies them several times.
const FILL_CHUNK: usize = 256 << 10;

/// A read-back: bytes in a staging buffer, which wgpu maps when the submission has ended, bound for host memory.
#[derive(Debug)]
pub(crate) struct Download {
    staging: wgpu::Buffer,
    stride: usize,
    to: HostBox,
    /// Whether mapping succeeded, once wgpu has called back.
    mapped: mpsc::Receiver<bool>,
}

impl Download {
    /// The host memory that will be written.
    pub(crate) fn to(&self) -> &HostBox {
        &self.to
    }

    /// Moves the bytes into host memory, after their submission has ended and before its points are reported.
    ///
    /// Whichever thread polls first sees the submission's end and runs its callbacks. That may be the submitter, inside
    /// `Queue::submit`, and our own wait may return before it has called back. So this waits for the callback.
    ///
    /// A callback may also be dropped without a call, if the poll that was to run it panicked (see `event::poll`). The buffer
    /// is mapped then; if not, asking for the view fails below.
    pub(crate) fn finish(self, gpu: &Gpu) -> Result<(), String> {
        let mapped = loop {
            match self.mapped.recv_timeout(process_exit::SLICE) {
                Ok(mapped) => break mapped,
                Err(mpsc::RecvTimeoutError::Disconnected) => break true,
                Err(mpsc::RecvTimeoutError::Timeout) if gpu.faults.lost().is_none() => {}
                Err(mpsc::RecvTimeoutError::Timeout) => break false,
            }
        };
        if !mapped {
            return Err("the staging buffer of a read-back could not be mapped".into());
        }
        let view = self.staging.slice(..).get_mapped_range().map_err(|e| e.to_string())?;
        self.to.write_rows(&view, self.stride);
        Ok(())
    }
}

/// Encodes one group. To be called under error scopes. If it fails, nothing of the group runs.
pub(crate) fn group(
    gpu: &Gpu,
    stage: &mut Stage,
    ops: Ops,
) -> Result<(wgpu::CommandBuffer, Vec<Download>), BackendError> {
    let mut encoder = gpu.device.create_command_encoder(&wgpu::CommandEncoderDescriptor::default());
    let mut downloads = Vec::new();
    let mut ops = ops.into_iter().peekable();
    while let Some(op) = ops.next() {
        match op {
            Op::Launch(first) => {
                let mut pass = encoder.begin_compute_pass(&wgpu::ComputePassDescriptor::default());
                first.record(gpu, stage, &mut pass)?;
                // Consecutive launches share a pass, since a pass costs more than a launch. wgpu orders them inside it.
                while let Some(Op::Launch(next)) = ops.next_if(|op| matches!(op, Op::Launch(_))) {
                    next.record(gpu, stage, &mut pass)?;
                }
            }
            Op::Upload(from, to) => upload(gpu, stage, &mut encoder, &from, &to)?,
            Op::Download(from, to) => downloads.push(download(gpu, &mut encoder, &from, to)),
            Op::Move(from, to) => shift(gpu, &mut encoder, &from, &to),
            Op::Fill(to, pattern) => fill(gpu, stage, &mut encoder, &to, &pattern)?,
        }
    }
    Ok((encoder.finish(), downloads))
}

/// Host memory is read while encoding, before the group runs: the runtime keeps it unchanged until the point is passed.
fn upload(
    gpu: &Gpu,
    stage: &mut Stage,
    encoder: &mut wgpu::CommandEncoder,
    from: &HostBox,
    to: &DeviceBox,
) -> Result<(), BackendError> {
    let packed = packed(to.region);
    let mut piece = stage.uploads.piece(&gpu.device, packed.end())?;
    let mut at = 0;
    from.read_rows(|row| {
        piece.write(at, row);
        at += packed.row_pitch;
    });
    let mut staged = packed;
    staged.offset = piece.offset as usize;
    copy(encoder, (&piece.buffer, staged), (&to.buffer, to.region));
    Ok(())
}

fn download(gpu: &Gpu, encoder: &mut wgpu::CommandEncoder, from: &DeviceBox, to: HostBox) -> Download {
    let packed = packed(from.region);
    let usage = wgpu::BufferUsages::MAP_READ | wgpu::BufferUsages::COPY_DST;
    let staging = scratch(gpu, packed.end(), usage);
    copy(encoder, (&from.buffer, from.region), (&staging, packed));
    let (outcome, mapped) = mpsc::channel();
    encoder.map_buffer_on_submit(&staging, wgpu::MapMode::Read, .., move |result| {
        // The receiver is gone if the batch failed to be submitted.
        let _ = outcome.send(result.is_ok());
    });
    Download { staging, stride: packed.row_pitch, to, mapped }
}

/// wgpu refuses copies within one buffer, so those go through a scratch buffer.
fn shift(gpu: &Gpu, encoder: &mut wgpu::CommandEncoder, from: &DeviceBox, to: &DeviceBox) {
    if from.buffer != to.buffer {
        return copy(encoder, (&from.buffer, from.region), (&to.buffer, to.region));
    }
    let packed = packed(from.region);
    let between = scratch(gpu, packed.end(), wgpu::BufferUsages::COPY_SRC | wgpu::BufferUsages::COPY_DST);
    copy(encoder, (&from.buffer, from.region), (&between, packed));
    copy(encoder, (&between, packed), (&to.buffer, to.region));
}

fn fill(
    gpu: &Gpu,
    stage: &mut Stage,
    encoder: &mut wgpu::CommandEncoder,
    to: &DeviceBox,
    pattern: &[u8],
) -> Result<(), BackendError> {
    let row = padded(to.region.width);
    if pattern.iter().all(|byte| *byte == 0) {
        for offset in to.region.row_offsets() {
            encoder.clear_buffer(&to.buffer, offset as u64, Some(row as u64));
        }
        return Ok(());
    }
    // A chunk holds whole patterns and whole words, so that the next one continues where it ends.
    let unit = pattern.len() * padding_free(pattern.len());
    let chunk = row.min(unit * (FILL_CHUNK / unit).max(1));
    let mut piece = stage.uploads.piece(&gpu.device, chunk)?;
    let bytes: Vec<u8> = pattern.iter().copied().cycle().take(chunk).collect();
    piece.write(0, &bytes);
    for offset in to.region.row_offsets() {
        for at in (0..row).step_by(chunk) {
            let size = chunk.min(row - at) as u64;
            encoder.copy_buffer_to_buffer(
                &piece.buffer,
                piece.offset,
                &to.buffer,
                (offset + at) as u64,
                size,
            );
        }
    }
    Ok(())
}

/// How often a pattern of this length must be repeated to end at a word.
fn padding_free(length: usize) -> usize {
    match length % 4 {
        0 => 1,
        2 => 2,
        _ => 4,
    }
}

/// The box's rows packed one after the other, each padded to whole words.
fn packed(region: Region) -> Region {
    let width = padded(region.width);
    Region {
        offset: 0,
        width,
        rows: region.rows,
        slices: region.slices,
        row_pitch: width,
        slice_pitch: width * region.rows,
    }
}

/// Copies row by row. wgpu copies whole words, so a ragged row takes the bytes behind it along.
fn copy(
    encoder: &mut wgpu::CommandEncoder,
    (from, from_region): (&wgpu::Buffer, Region),
    (to, to_region): (&wgpu::Buffer, Region),
) {
    let size = padded(from_region.width) as u64;
    for (source, target) in from_region.row_offsets().zip(to_region.row_offsets()) {
        encoder.copy_buffer_to_buffer(from, source as u64, to, target as u64, size);
    }
}

fn scratch(gpu: &Gpu, bytes: usize, usage: wgpu::BufferUsages) -> wgpu::Buffer {
    let size = bytes as u64;
    gpu.device.create_buffer(&wgpu::BufferDescriptor { label: None, size, usage, mapped_at_creation: false })
}
