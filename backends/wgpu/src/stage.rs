//! Staging memory of one batch. Small pieces share buffers, since creating a buffer costs more than filling it.

use windlass_backend::BackendError;

use crate::error::failed;

/// Staging memory of a batch.
#[derive(Debug)]
pub(crate) struct Stage {
    /// Kernel arguments.
    pub(crate) arguments: Arena,
    /// Bytes from the host, for copies and fills.
    pub(crate) uploads: Arena,
}

impl Stage {
    pub(crate) fn new(limits: &wgpu::Limits) -> Self {
        Stage {
            arguments: Arena::new(wgpu::BufferUsages::UNIFORM, limits.min_uniform_buffer_offset_alignment),
            uploads: Arena::new(
                wgpu::BufferUsages::MAP_WRITE | wgpu::BufferUsages::COPY_SRC,
                wgpu::COPY_BUFFER_ALIGNMENT as u32,
            ),
        }
    }
}

/// The first buffer of an arena; each further one is twice as large, up to `LARGEST`.
const FIRST: usize = 4 << 10;
const LARGEST: usize = 1 << 20;

/// Mapped buffers of one usage, from which pieces are taken in order.
#[derive(Debug)]
pub(crate) struct Arena {
    usage: wgpu::BufferUsages,
    align: usize,
    chunks: Vec<Chunk>,
}

#[derive(Debug)]
struct Chunk {
    buffer: wgpu::Buffer,
    view: wgpu::BufferViewMut,
    used: usize,
}

/// A piece of an arena, filled from the host before the batch is submitted.
pub(crate) struct Piece<'a> {
    pub(crate) buffer: wgpu::Buffer,
    pub(crate) offset: u64,
    bytes: wgpu::WriteOnly<'a, [u8]>,
}

impl Piece<'_> {
    /// Puts `bytes` at offset `at` of the piece.
    pub(crate) fn write(&mut self, at: usize, bytes: &[u8]) {
        self.bytes.slice(at..at + bytes.len()).copy_from_slice(bytes);
    }
}

impl Arena {
    /// An arena whose pieces start at multiples of `align`.
    pub(crate) fn new(usage: wgpu::BufferUsages, align: u32) -> Self {
        Arena { usage, align: align as usize, chunks: Vec::new() }
    }

    /// A piece of `bytes` zeros. Chunks are mapped from their creation until [`Arena::close`], so that pieces are written without
    /// waiting for the device.
    pub(crate) fn piece(&mut self, device: &wgpu::Device, bytes: usize) -> Result<Piece<'_>, BackendError> {
        let fits = |chunk: &Chunk| chunk.used + bytes <= chunk.view.len();
        if !self.chunks.last().is_some_and(fits) {
            let usual = (FIRST << self.chunks.len().min(16)).min(LARGEST);
            let chunk = Chunk::create(device, self.usage, usual.max(bytes.next_multiple_of(self.align)))?;
            self.chunks.push(chunk);
        }
        let Some(chunk) = self.chunks.last_mut() else {
            unreachable!("a chunk was pushed if there was none")
        };
        let offset = chunk.used;
        chunk.used = (offset + bytes).next_multiple_of(self.align);
        Ok(Piece {
            buffer: chunk.buffer.clone(),
            offset: offset as u64,
            bytes: chunk.view.slice(offset..offset + bytes),
        })
    }

    /// Unmaps the buffers, which a submission that uses them requires.
    pub(crate) fn close(self) {
        for Chunk { buffer, view, .. } in self.chunks {
            drop(view);
            buffer.unmap();
        }
    }
}

impl Chunk {
    fn create(device: &wgpu::Device, usage: wgpu::BufferUsages, bytes: usize) -> Result<Self, BackendError> {
        let size = bytes as u64;
        let buffer = device.create_buffer(&wgpu::BufferDescriptor {
            label: None,
            size,
            usage,
            mapped_at_creation: true,
        });
        let view = buffer.slice(..).get_mapped_range_mut();
        let view = view.map_err(|e| failed("Buffer::get_mapped_range_mut", e.to_string()))?;
        Ok(Chunk { buffer, view, used: 0 })
    }
}
