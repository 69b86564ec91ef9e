//! The backend's own tests, directly on the contract: what a driver does with what a lane is fed.

#[path = "thin/abandoned.rs"]
mod abandoned;
#[path = "thin/commands.rs"]
mod commands;
#[path = "thin/completion.rs"]
mod completion;
#[path = "thin/discovery.rs"]
mod discovery;
#[path = "thin/held.rs"]
mod held;
#[path = "thin/kernels.rs"]
mod kernels;
#[path = "thin/left.rs"]
mod left;
#[path = "thin/rig.rs"]
mod rig;
