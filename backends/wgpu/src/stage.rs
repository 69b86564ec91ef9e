//! Staging memory of one batch: pieces of chunks that the host and the device both reach. Chunks of batches that have ended
//! serve later ones.

use std::fmt;
use std::ptr::NonNull;
use std::slice;

use windlass_backend::{Allocation, BackendError};
use windlass_sync::facade::{Mutex, lock};

use crate::memory::Memory;
use crate::pinned;

/// The size of chunks; what is larger has one of its own.
const CHUNK: usize = 256 << 10;

/// The most chunks that are kept for later.
const KEPT: usize = 16;

/// Chunks that no batch uses.
#[derive(Default)]
pub(crate) struct Spare(Mutex<Vec<Chunk>>);

impl fmt::Debug for Spare {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Spare").field(&lock(&self.0).len()).finish()
    }
}

impl Spare {
    /// Takes back the chunks of a batch that has ended, or that was never submitted.
    pub(crate) fn take_back(&self, stage: Stage) {
        let chunks = [stage.arguments, stage.up, stage.down].into_iter().flat_map(|arena| arena.chunks);
        let usual = chunks.filter(|chunk| chunk.memory.buffer().size() == CHUNK as u64);
        let mut spare = lock(&self.0);
        let room = KEPT.saturating_sub(spare.len());
        spare.extend(usual.take(room).map(|chunk| Chunk { used: 0, ..chunk }));
    }

    fn pop(&self) -> Option<Chunk> {
        lock(&self.0).pop()
    }
}

/// Staging memory of a batch. What the device reads and what it writes is apart, since wgpu copies nothing within one buffer.
#[derive(Debug)]
pub(crate) struct Stage {
    /// Kernels' arguments.
    pub(crate) arguments: Arena,
    /// Bytes from the host, for copies and fills.
    pub(crate) up: Arena,
    /// Bytes for the host.
    pub(crate) down: Arena,
}

impl Stage {
    pub(crate) fn new(limits: &wgpu::Limits) -> Self {
        let word = wgpu::COPY_BUFFER_ALIGNMENT;
        let arena = |align| Arena { align: align as usize, chunks: Vec::new() };
        Stage {
            arguments: arena(u64::from(limits.min_uniform_buffer_offset_alignment)),
            up: arena(word),
            down: arena(word),
        }
    }
}

/// Chunks, from which pieces are taken in order.
#[derive(Debug)]
pub(crate) struct Arena {
    align: usize,
    chunks: Vec<Chunk>,
}

#[derive(Debug)]
struct Chunk {
    memory: Memory,
    used: usize,
}

/// A piece of an arena.
#[derive(Clone, Debug)]
pub(crate) struct Piece {
    pub(crate) buffer: wgpu::Buffer,
    pub(crate) offset: u64,
    start: NonNull<u8>,
    bytes: usize,
}

// SAFETY: the pointer is an address, of memory that may be used from any thread, and that the buffer beside it keeps mapped.
unsafe impl Send for Piece {}

impl Piece {
    /// Puts `bytes` at offset `at` of the piece, before its batch is submitted.
    pub(crate) fn write(&mut self, at: usize, bytes: &[u8]) {
        assert!(at <= self.bytes && bytes.len() <= self.bytes - at, "it ends outside its piece");
        // SAFETY: the bytes lie in the piece, which is mapped, and which nobody else has: arenas hand out each once in a batch.
        // The device uses it from the submission on, and not any more when its chunk serves another batch.
        unsafe { bytes.as_ptr().copy_to_nonoverlapping(self.start.as_ptr().add(at), bytes.len()) }
    }

    /// What the device has written, once the batch has ended.
    pub(crate) fn read(&self) -> &[u8] {
        // SAFETY: the piece is mapped, and nobody writes it any more.
        unsafe { slice::from_raw_parts(self.start.as_ptr(), self.bytes) }
    }
}

impl Arena {
    /// A piece of so many bytes, of any contents. To be called under error scopes.
    pub(crate) fn piece(
        &mut self,
        device: &wgpu::Device,
        spare: &Spare,
        bytes: usize,
    ) -> Result<Piece, BackendError> {
        let fits = |chunk: &Chunk| chunk.used + bytes <= chunk.memory.buffer().size() as usize;
        if !self.chunks.last().is_some_and(fits) {
            let chunk = match bytes > CHUNK {
                true => Chunk { memory: pinned::create(device, bytes)?, used: 0 },
                false => match spare.pop() {
                    Some(chunk) => chunk,
                    None => Chunk { memory: pinned::create(device, CHUNK)?, used: 0 },
                },
            };
            self.chunks.push(chunk);
        }
        let Some(chunk) = self.chunks.last_mut() else {
            unreachable!("a chunk was pushed if there was none")
        };
        let Some(start) = chunk.memory.host_ptr() else { unreachable!("chunks are mapped") };
        let offset = chunk.used;
        chunk.used = (offset + bytes).next_multiple_of(self.align);
        // SAFETY: the piece ends inside the chunk.
        let start = unsafe { start.add(offset) };
        Ok(Piece { buffer: chunk.memory.buffer().clone(), offset: offset as u64, start, bytes })
    }
}
