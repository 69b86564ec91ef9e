//! The runtime on scripted devices, from one thread: every moment can be held still, and made to fail.

#[path = "scenarios/abandon.rs"]
mod abandon;
#[path = "scenarios/allocators.rs"]
mod allocators;
#[path = "scenarios/aside.rs"]
mod aside;
#[path = "scenarios/batches.rs"]
mod batches;
#[path = "scenarios/beyond.rs"]
mod beyond;
#[path = "scenarios/cancel.rs"]
mod cancel;
#[path = "scenarios/contexts.rs"]
mod contexts;
#[path = "scenarios/costs.rs"]
mod costs;
#[path = "scenarios/drops.rs"]
mod drops;
#[path = "scenarios/ending.rs"]
mod ending;
#[path = "scenarios/failures.rs"]
mod failures;
#[path = "scenarios/feeding.rs"]
mod feeding;
#[path = "scenarios/heirs.rs"]
mod heirs;
#[path = "scenarios/homes.rs"]
mod homes;
#[path = "scenarios/interop.rs"]
mod interop;
#[path = "scenarios/leisure.rs"]
mod leisure;
#[path = "scenarios/limits.rs"]
mod limits;
#[path = "scenarios/look.rs"]
mod look;
#[path = "scenarios/loss.rs"]
mod loss;
#[path = "scenarios/memories.rs"]
mod memories;
#[path = "scenarios/off_path.rs"]
mod off_path;
#[path = "scenarios/order.rs"]
mod order;
#[path = "scenarios/panics.rs"]
mod panics;
#[path = "scenarios/pressure.rs"]
mod pressure;
#[path = "scenarios/recordings.rs"]
mod recordings;
#[path = "scenarios/refusals.rs"]
mod refusals;
#[path = "scenarios/rig.rs"]
mod rig;
#[path = "scenarios/staging.rs"]
mod staging;
#[path = "scenarios/stalls.rs"]
mod stalls;
#[path = "scenarios/status.rs"]
mod status;
#[path = "scenarios/streams.rs"]
mod streams;
#[path = "scenarios/transfers.rs"]
mod transfers;
