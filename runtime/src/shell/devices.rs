//! Devices as discovery found them.

use std::fmt;

use windlass_backend::{Aspect, BackendId, DeviceInfo, DeviceKey};

/// A device as discovery found it.
#[derive(Debug)]
pub(crate) struct DeviceData {
    pub(crate) backend: BackendId,
    /// Positions of the backend in the runtime, and of the platform in what it discovered.
    pub(crate) at: (usize, usize),
    pub(crate) platform: String,
    pub(crate) info: DeviceInfo,
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
