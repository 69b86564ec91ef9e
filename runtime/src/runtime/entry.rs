//! What a runtime knows of each of its backends: what discovery has found.

use std::sync::{Arc, OnceLock};

use windlass_backend::{Backend, Unavailable};
use windlass_sync::facade::{Mutex, lock};
use windlass_sync::panics::catch;

use crate::shell::Inner;
use crate::shell::devices::DeviceData;

/// A backend of a runtime's.
pub(super) struct BackendEntry {
    pub(super) backend: Arc<dyn Backend>,
    /// What discovery has found; another one once it is to be done again.
    found: Mutex<Arc<OnceLock<Found>>>,
}

pub(super) type Found = Arc<std::result::Result<Vec<FoundPlatform>, Unavailable>>;

/// A platform as a backend has listed it.
pub(super) struct FoundPlatform {
    pub(super) platform: windlass_backend::Platform,
    pub(super) devices: Vec<Arc<DeviceData>>,
}

impl BackendEntry {
    pub(super) fn new(backend: Arc<dyn Backend>) -> Self {
        BackendEntry { backend, found: Mutex::default() }
    }

    /// What there is; asks the driver if nobody has. Blocks, and not under the lock: who asks meanwhile waits for the same.
    pub(super) fn found(&self, at: usize) -> Found {
        if let Err(error) = Inner::check_process() {
            return Arc::new(Err(Unavailable::new(error.to_string(), "do not fork, or fork first")));
        }
        let once = lock(&self.found).clone();
        once.get_or_init(|| Arc::new(self.discover(at))).clone()
    }

    /// The next one to ask has the driver asked again.
    pub(super) fn forget(&self) {
        *lock(&self.found) = Arc::default();
    }

    fn discover(&self, at: usize) -> std::result::Result<Vec<FoundPlatform>, Unavailable> {
        let discover = || futures_lite::future::block_on(self.backend.discover());
        let platforms = catch(discover).unwrap_or_else(|panic| {
            let reason = format!("its driver made the backend panic: {panic}");
            Err(Unavailable::new(reason, "report this, with the driver's version"))
        })?;
        let backend = self.backend.id();
        let numbered = platforms.into_iter().enumerate().map(|(p, platform)| {
            let data = |info: &windlass_backend::DeviceInfo| {
                Arc::new(DeviceData {
                    backend: backend.clone(),
                    at: (at, p),
                    platform: platform.name.clone(),
                    info: info.clone(),
                    faults: OnceLock::new(),
                })
            };
            let devices = platform.devices.iter().map(data).collect();
            FoundPlatform { devices, platform }
        });
        Ok(numbered.collect())
    }
}
