//! What is larger than a device, and by how much.

use std::fmt;

use super::{Error, Kind};

/// How much memory is asked for that a device does not have. See [`Error::too_large`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct TooLarge {
    /// How many bytes are asked for: by one buffer, or by all those of a group together.
    pub needs: u64,
    /// How many there can be.
    pub has: u64,
}

/// What is too large, and of which of a device's limits it is more.
#[derive(Debug)]
pub(crate) struct Excess {
    pub(crate) of: TooLarge,
    pub(crate) buffers: usize,
    pub(crate) device: String,
    pub(crate) limit: Limit,
}

/// What a device has so many bytes of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Limit {
    /// One allocation.
    OnePiece,
    /// All memory there is.
    Memory,
    /// All that the program gave its buffers.
    Told,
}

impl Error {
    pub(crate) fn exceeds(
        (needs, has, limit): (u64, u64, Limit),
        buffers: usize,
        device: &dyn fmt::Display,
    ) -> Error {
        let (of, device) = (TooLarge { needs, has }, device.to_string());
        Error::new(Kind::TooLarge(Box::new(Excess { of, buffers, device, limit })))
    }

    /// How many bytes are asked for and how many there can be, where that is [too large](Error::is_too_large): so a program can cut
    /// its data into buffers that fit. Ranges of one buffer do not help, since a device has all of it.
    ///
    /// ```
    /// use windlass::prelude::*;
    /// # fn main() -> windlass::Result<()> {
    /// let runtime = Runtime::builder().device_memory(1 << 20).build();
    /// let queue = Queue::builder().runtime(&runtime).blocking_build()?;
    /// let (from, to) = (Buffer::<u8>::new(700_000), Buffer::<u8>::new(700_000));
    /// match queue.submit(|cg| cg.copy(&cg.read(&from), &cg.overwrite(&to))) {
    ///     Ok(copied) => copied.blocking_wait()?, // On the host, whose memory is everybody's.
    ///     Err(error) => {
    ///         let excess = error.too_large().unwrap();
    ///         assert_eq!((excess.needs, excess.has), (1_400_000, 1 << 20));
    ///         println!("to be done in {} parts", excess.needs.div_ceil(excess.has.max(1)));
    ///     }
    /// }
    /// # Ok(()) }
    /// ```
    pub fn too_large(&self) -> Option<TooLarge> {
        match self.kind() {
            Kind::TooLarge(excess) => Some(excess.of),
            _ => None,
        }
    }

    /// A buffer has more bytes than its device has or takes in one piece, or the buffers of a group have more together than their
    /// device has at a time, or than [`RuntimeBuilder::device_memory`](crate::RuntimeBuilder::device_memory) gives them. OpenCL and wgpu do
    /// not tell how much a device has at a time, so there it is the piece and what the runtime was told. [`Error::too_large`] says
    /// how many.
    ///
    /// ```
    /// use windlass::prelude::*;
    /// # fn main() -> windlass::Result<()> {
    /// let (queue, huge) = (Queue::blocking_new()?, Buffer::<u8>::new(1 << 50));
    /// match queue.submit(|cg| cg.fill(&cg.overwrite(&huge), 0)) {
    ///     // It would never fit: in parts, or not at all.
    ///     Err(error) if error.is_too_large() => println!("{error}"),
    ///     // The host says how much there is when it is asked for it.
    ///     submitted => assert!(submitted?.blocking_wait().unwrap_err().is_out_of_memory()),
    /// }
    /// # Ok(()) }
    /// ```
    pub fn is_too_large(&self) -> bool {
        self.too_large().is_some()
    }
}

impl fmt::Display for Excess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Excess { of: TooLarge { needs, has }, buffers, device, limit } = self;
        match buffers {
            1 => write!(f, "a buffer of {needs} bytes")?,
            _ => write!(f, "a group over {buffers} buffers, which have {needs} bytes together")?,
        }
        match limit {
            Limit::OnePiece => write!(f, ", and {device} takes {has} in one piece: use several buffers"),
            Limit::Memory => {
                write!(f, ", and {device} has {has}: use smaller buffers, and fewer in one group")
            }
            Limit::Told => write!(
                f,
                ", and the runtime's buffers may have {has} of {device} (`RuntimeBuilder::device_memory`): raise that, or use \
                 smaller buffers, and fewer in one group"
            ),
        }
    }
}
