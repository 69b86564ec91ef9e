//! A scripted backend: devices that do nothing until they are told to, and then do it badly if that is asked for.
//!
//! It is written on the public contract of `windlass-backend` alone, as any third party's backend would be. Its devices
//! really hold memory and really run kernels (host images), copies and fills, so a program's results can be
//! checked. But it starts no thread: what was fed stays where it is until a [`FaultyControl`] runs it, one group at a
//! time, in any order that the lanes allow. So every moment of a program can be held still, looked at, and made to fail.
//!
//! ```
//! use windlass::prelude::*;
//! use windlass_faulty::Faulty;
//! # fn main() -> windlass::Result<()> {
//! let faulty = Faulty::builder().build();
//! let control = faulty.control();
//! let runtime = Runtime::builder().backend(faulty).only_given_backends().manual().build();
//! let queue = Queue::builder().runtime(&runtime).blocking_build()?;
//! let event = queue.submit(|_| Ok(()))?;
//! assert!(!event.has_ended());
//! control.run_all();
//! assert_eq!(event.status(), Status::Done);
//! drop((queue, event, runtime));
//! assert_eq!(control.audit().live(), 0);
//! # Ok(())
//! # }
//! ```
//!
//! The backend also watches the other side of the contract: points that do not rise, waits for what was not fed, two
//! feeds of one lane at once, too much in flight, memory freed under a group, another context's memory, and so on are
//! [`breaches`](FaultyControl::breaches). Groups that were fed and never flushed do not run.
#![warn(missing_docs)]

mod audit;
mod builder;
mod context;
mod control;
mod kernel;
pub mod kernels;
mod lane;
mod lanes;
mod machine;
mod memory;
pub mod native;
#[cfg(feature = "programs")]
pub mod programs;
mod script;
mod sequence;
mod window;

use std::any::Any;
use std::sync::Arc;

use windlass_backend::{
    Backend, BackendError, BackendId, Context, ContextSink, ContextSpec, Platform, Unavailable, async_trait,
    native_object,
};

pub use audit::{Audit, inside_poll, inside_submit};
pub use builder::{FaultyBuilder, Memory};
pub use control::FaultyControl;
pub use lanes::{DeviceOfLanes, LanesOnly};
pub use script::Call;

use builder::Config;
use context::FaultyContext;
use machine::Shared;

/// See the crate documentation.
#[derive(Debug)]
pub struct Faulty {
    config: Arc<Config>,
    shared: Arc<Shared>,
}

impl Faulty {
    /// A backend to be configured.
    pub fn builder() -> FaultyBuilder {
        FaultyBuilder::default()
    }

    fn new(config: Config) -> Self {
        let shared = Arc::new(Shared::new(config.auto));
        Faulty { config: Arc::new(config), shared }
    }

    /// The strings by which its devices hang; to be taken before a runtime gets the backend.
    pub fn control(&self) -> FaultyControl {
        FaultyControl::new(self.shared.clone())
    }
}

// SAFETY: its contexts are `FaultyContext`s. What goes wrong there by script is failures, delays and refusals within the contract:
// memory is used as it allows.
#[async_trait]
unsafe impl Backend for Faulty {
    fn id(&self) -> BackendId {
        self.config.id.clone()
    }

    async fn discover(&self) -> Result<Vec<Platform>, Unavailable> {
        if let Some(reason) = self.shared.lock().script.unavailable.clone() {
            return Err(Unavailable::new(reason, "ask for another script"));
        }
        Ok(vec![self.config.platform()])
    }

    async fn open(&self, spec: ContextSpec) -> Result<Arc<dyn Context>, BackendError> {
        let position = |key| {
            let missing = || BackendError::Lost(format!("there is no scripted device `{key}`"));
            self.config.position(key).ok_or_else(missing)
        };
        let devices = spec.devices.iter().map(position).collect::<Result<Vec<_>, _>>()?;
        if let Some(error) = self.shared.lock().script.open.take() {
            return Err(error);
        }
        if let Some(why) = self.shared.lock().script.process_ended.clone() {
            return Err(BackendError::Lost(why));
        }
        Ok(Arc::new(FaultyContext::new(&self.config, &devices, spec.sink, self.shared.clone())))
    }

    async fn adopt(
        &self,
        object: Box<dyn Any + Send>,
        sink: Arc<dyn ContextSink>,
    ) -> Result<Arc<dyn Context>, BackendError> {
        let native::Devices(devices) = native_object(object)?;
        Ok(Arc::new(FaultyContext::new(&self.config, &devices, sink, self.shared.clone())))
    }
}
