//! Encoding: operations to wgpu's commands.

use windlass_backend::{BackendError, Region};

use crate::bytes::{self, Source};
use crate::gpu::Gpu;
use crate::launch::{Dispatch, Recorder};
use crate::memory::{BufferBox, HostBox, padded};
use crate::ops::Op;
use crate::stage::{Piece, Stage};
use crate::times::Stamps;

/// At most this many bytes of a repeated pattern are made on the host; a longer fill copies them several times.
const FILL_CHUNK: usize = 256 << 10;

/// A read-back: bytes in a piece of staging memory, bound for host memory.
#[derive(Debug)]
pub(crate) struct Download {
    from: Piece,
    stride: usize,
    to: HostBox,
}

impl Download {
    /// Moves the bytes into host memory, after their submission has ended and before its points are reported.
    pub(crate) fn finish(&self) {
        self.to.write_rows(self.from.read(), self.stride);
    }
}

/// What is encoded.
#[derive(Clone, Copy)]
pub(crate) enum Item<'o> {
    Op(&'o Op),
    /// The device is to write its clock down.
    Stamp,
}

impl<'o> Item<'o> {
    fn launch(self) -> Option<&'o Dispatch> {
        match self {
            Item::Op(Op::Launch(launch)) => Some(launch),
            _ => None,
        }
    }
}

/// Operations as commands.
pub(crate) struct Encoded {
    pub(crate) commands: Vec<wgpu::CommandBuffer>,
    pub(crate) downloads: Vec<Download>,
    /// Where the values of the clock come to, if there are some.
    pub(crate) stamps: Option<Piece>,
}

/// Encodes operations, of one group or of many, among which the clock is written down so many times. To be called under error scopes. If
/// it fails, nothing of them runs.
pub(crate) fn encode<'o>(
    gpu: &Gpu,
    stage: &mut Stage,
    items: impl Iterator<Item = Item<'o>>,
    stamps: usize,
) -> Result<Encoded, BackendError> {
    let mut stamps = Stamps::new(&gpu.device, stamps);
    let mut to = Encoding {
        gpu,
        stage,
        encoder: gpu.device.create_command_encoder(&wgpu::CommandEncoderDescriptor::default()),
        before: Vec::new(),
        shown: Vec::new(),
    };
    let mut downloads = Vec::new();
    let mut recorder = Recorder::default();
    let mut items = items.peekable();
    while let Some(item) = items.next() {
        let op = match item {
            Item::Op(op) => op,
            Item::Stamp => {
                stamps.iter_mut().for_each(|stamps| stamps.take(&mut to.encoder));
                continue;
            }
        };
        match op {
            Op::Launch(first) => {
                let mut pass = to.encoder.begin_compute_pass(&wgpu::ComputePassDescriptor::default());
                recorder.record(gpu, to.stage, &mut pass, first)?;
                // Consecutive launches share a pass, since a pass costs more than a launch. wgpu orders them inside it.
                while let Some(next) = items.next_if(|item| item.launch().is_some()).and_then(Item::launch) {
                    recorder.record(gpu, to.stage, &mut pass, next)?;
                }
                recorder.end_pass();
            }
            Op::Upload(from, target) => to.upload(from, target)?,
            Op::Download(from, target) => downloads.push(to.download(from, target)?),
            Op::Move(from, target) => to.shift(from, target)?,
            Op::Fill(target, pattern) => to.fill(target, pattern)?,
            Op::Native(commands) => to.insert(commands.take()),
        }
    }
    let stamps = match stamps {
        Some(stamps) => Some(stamps.read_back(gpu, to.stage, &mut to.encoder)?),
        None => None,
    };
    to.shown.extend(stamps.as_ref().map(|piece| piece.buffer.clone()));
    to.show();
    let mut commands = to.before;
    commands.push(to.encoder.finish());
    Ok(Encoded { commands, downloads, stamps })
}

/// What is being encoded.
struct Encoding<'a> {
    gpu: &'a Gpu,
    stage: &'a mut Stage,
    encoder: wgpu::CommandEncoder,
    /// What runs before the encoder's commands.
    before: Vec<wgpu::CommandBuffer>,
    /// Buffers of the host's memory that are written.
    shown: Vec<wgpu::Buffer>,
}

impl Encoding<'_> {
    /// Host memory is read while encoding, before the group runs: the runtime keeps it unchanged until the point is passed.
    fn upload(&mut self, from: &HostBox, to: &BufferBox) -> Result<(), BackendError> {
        let packed = packed(to.region);
        let mut piece = self.stage.up.piece(&self.gpu.device, &self.gpu.spare, packed.end())?;
        let mut at = 0;
        from.read_rows(|row| {
            piece.write(at, row);
            at += packed.row_pitch;
        });
        self.copy(Place::of_piece(&piece, packed), Place::of(to))
    }

    fn download(&mut self, from: &BufferBox, to: &HostBox) -> Result<Download, BackendError> {
        let packed = packed(from.region);
        let piece = self.stage.down.piece(&self.gpu.device, &self.gpu.spare, packed.end())?;
        self.copy(Place::of(from), Place::of_piece(&piece, packed))?;
        self.shown.push(piece.buffer.clone());
        Ok(Download { from: piece, stride: packed.row_pitch, to: to.clone() })
    }

    /// wgpu refuses copies within one buffer, so those go through a scratch buffer.
    fn shift(&mut self, from: &BufferBox, to: &BufferBox) -> Result<(), BackendError> {
        if to.addresses.is_some() {
            self.shown.push(to.buffer.clone());
        }
        if from.buffer != to.buffer {
            return self.copy(Place::of(from), Place::of(to));
        }
        let packed = packed(from.region);
        let between = scratch(self.gpu, packed.end());
        let between = Place { buffer: &between, region: packed, is_whole: true };
        self.copy(Place::of(from), between)?;
        self.copy(between, Place::of(to))
    }

    /// Copies between two buffers: row by row, or, where those are not of whole words, byte by byte. A ragged row of whole words
    /// takes the bytes behind it along.
    fn copy(&mut self, from: Place<'_>, to: Place<'_>) -> Result<(), BackendError> {
        if from.is_whole && to.is_whole {
            let size = padded(from.region.width) as u64;
            for (source, target) in from.region.row_offsets().zip(to.region.row_offsets()) {
                self.encoder.copy_buffer_to_buffer(
                    from.buffer,
                    source as u64,
                    to.buffer,
                    target as u64,
                    size,
                );
            }
            return Ok(());
        }
        // What is packed has rows that are padded.
        let width = from.region.width.min(to.region.width);
        let [source, target] = [from.region, to.region].map(|region| Region { width, ..region });
        let source = (from.buffer, Source::Box(source));
        bytes::merge(self.gpu, self.stage, &mut self.encoder, source, (to.buffer, target))
    }

    fn fill(&mut self, to: &BufferBox, pattern: &[u8]) -> Result<(), BackendError> {
        let row = padded(to.region.width);
        if to.addresses.is_some() {
            self.shown.push(to.buffer.clone());
        }
        if to.is_whole && pattern.iter().all(|byte| *byte == 0) {
            for offset in to.region.row_offsets() {
                self.encoder.clear_buffer(&to.buffer, offset as u64, Some(row as u64));
            }
            return Ok(());
        }
        if !to.is_whole {
            let mut piece = self.stage.up.piece(&self.gpu.device, &self.gpu.spare, padded(pattern.len()))?;
            piece.write(0, pattern);
            let pattern = Source::Pattern { offset: piece.offset as usize, bytes: pattern.len() };
            let source = (&piece.buffer, pattern);
            return bytes::merge(self.gpu, self.stage, &mut self.encoder, source, (&to.buffer, to.region));
        }
        // A chunk holds whole patterns and whole words, so that the next one continues where it ends.
        let unit = pattern.len() * padding_free(pattern.len());
        let chunk = row.min(unit * (FILL_CHUNK / unit).max(1));
        let mut piece = self.stage.up.piece(&self.gpu.device, &self.gpu.spare, chunk)?;
        let bytes: Vec<u8> = pattern.iter().copied().cycle().take(chunk).collect();
        piece.write(0, &bytes);
        for offset in to.region.row_offsets() {
            for at in (0..row).step_by(chunk) {
                let (target, size) = ((offset + at) as u64, chunk.min(row - at) as u64);
                self.encoder.copy_buffer_to_buffer(&piece.buffer, piece.offset, &to.buffer, target, size);
            }
        }
        Ok(())
    }

    /// Puts commands that were recorded elsewhere behind those so far.
    fn insert(&mut self, commands: Option<wgpu::CommandBuffer>) {
        let next = self.gpu.device.create_command_encoder(&wgpu::CommandEncoderDescriptor::default());
        self.before.push(std::mem::replace(&mut self.encoder, next).finish());
        self.before.extend(commands);
    }

    /// Makes what was written to host memory visible there: by Vulkan's rules the end of a submission alone does not. wgpu puts
    /// this barrier only before its own mappings.
    fn show(&mut self) {
        let state = wgpu::BufferUses::MAP_READ;
        let shown = self.shown.iter().map(|buffer| wgpu::BufferTransition { buffer, state });
        if !self.shown.is_empty() {
            self.encoder.transition_resources(shown, std::iter::empty());
        }
    }
}

/// Where a copy reads or writes.
#[derive(Clone, Copy)]
struct Place<'a> {
    buffer: &'a wgpu::Buffer,
    region: Region,
    is_whole: bool,
}

impl<'a> Place<'a> {
    fn of(boxed: &'a BufferBox) -> Self {
        Place { buffer: &boxed.buffer, region: boxed.region, is_whole: boxed.is_whole }
    }

    /// What is packed into a piece.
    fn of_piece(piece: &'a Piece, packed: Region) -> Self {
        let region = Region { offset: piece.offset as usize, ..packed };
        Place { buffer: &piece.buffer, region, is_whole: true }
    }
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

fn scratch(gpu: &Gpu, bytes: usize) -> wgpu::Buffer {
    let size = bytes as u64;
    let usage = wgpu::BufferUsages::STORAGE | wgpu::BufferUsages::COPY_SRC | wgpu::BufferUsages::COPY_DST;
    gpu.device.create_buffer(&wgpu::BufferDescriptor { label: None, size, usage, mapped_at_creation: false })
}
