//! Devices as discovery found them.

use std::fmt;
use std::sync::OnceLock;

use windlass_backend::{Aspect, BackendId, DeviceInfo, DeviceKey};

/// Something that a device gets wrong without a word, found by a kernel whose results are known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Fault {
    /// All loops of a work-item together end after some ten thousand turns, and what follows computes with what there is.
    /// Mesa's lavapipe does that after 65,535.
    LoopsEnd,
    /// Sums and products of floats are not rounded in the order in which they are written, so last digits are others than on
    /// other devices. Mesa's lavapipe has that.
    FloatsReordered,
    /// Integers of 64 bits that are known when a kernel is compiled compare wrongly with ones made of 32 bits: `-63 < -92` is
    /// true. Mesa's lavapipe has that.
    WideComparisons,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Fault::LoopsEnd => "ends the loops of a work-item before they are done",
            Fault::FloatsReordered => "rounds sums of floats in another order than they are written",
            Fault::WideComparisons => "compares integers of 64 bits wrongly",
        })
    }
}

/// A device as discovery found it.
#[derive(Debug)]
pub(crate) struct DeviceData {
    pub(crate) backend: BackendId,
    /// Positions of the backend in the runtime, and of the platform in what it discovered.
    pub(crate) at: (usize, usize),
    pub(crate) platform: String,
    pub(crate) info: DeviceInfo,
    /// What it is known to get wrong, once it was opened.
    pub(crate) faults: OnceLock<Vec<Fault>>,
}

impl DeviceData {
    /// What it is known by, however often drivers are asked for their devices.
    pub(crate) fn id(&self) -> (usize, DeviceKey) {
        (self.at.0, self.info.key.clone())
    }

    pub(crate) fn has(&self, aspect: Aspect) -> bool {
        self.info.has(aspect)
    }

    pub(crate) fn is_same(&self, other: &DeviceData) -> bool {
        (self.at.0, &self.info.key) == (other.at.0, &other.info.key)
    }
}

impl fmt::Display for DeviceData {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let DeviceData { backend, info, platform, .. } = self;
        write!(f, "{} ({backend}, {})", info.name, info.kind)?;
        if f.alternate() {
            write!(f, ": {platform}, {} units, ", info.compute_units)?;
            match info.memory_bytes {
                Some(bytes) => write!(f, "{} MiB, ", bytes >> 20)?,
                None => f.write_str("memory unknown, ")?,
            }
            write!(f, "{:?}", info.aspects)?;
        }
        Ok(())
    }
}
