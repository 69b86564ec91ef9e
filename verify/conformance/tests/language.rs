//! The kernel language: every construct, on every device that is here, with the same result.

#[path = "language/again.rs"]
mod again;
#[path = "language/arithmetic.rs"]
mod arithmetic;
#[path = "language/chosen.rs"]
mod chosen;
#[path = "language/computed.rs"]
mod computed;
#[path = "language/cuda.rs"]
mod cuda;
#[path = "language/edges.rs"]
mod edges;
#[path = "language/enums.rs"]
mod enums;
#[path = "language/everywhere.rs"]
mod everywhere;
#[path = "language/exactness.rs"]
mod exactness;
#[path = "language/fills.rs"]
mod fills;
#[path = "language/flow.rs"]
mod flow;
#[path = "language/forms.rs"]
mod forms;
#[path = "language/groups.rs"]
mod groups;
#[path = "language/half.rs"]
mod half;
#[path = "language/images.rs"]
mod images;
#[path = "language/lent.rs"]
mod lent;
#[path = "language/limits.rs"]
mod limits;
#[path = "language/lines.rs"]
mod lines;
#[path = "language/memory.rs"]
mod memory;
#[path = "language/nvrtc.rs"]
mod nvrtc;
#[path = "language/oclgrind.rs"]
mod oclgrind;
#[path = "language/orders.rs"]
mod orders;
#[path = "language/parts.rs"]
mod parts;
#[path = "language/pixels.rs"]
mod pixels;
#[path = "language/pointers.rs"]
mod pointers;
#[path = "language/reduce.rs"]
mod reduce;
#[path = "language/rows.rs"]
mod rows;

#[path = "language/shared.rs"]
mod shared;

#[path = "language/small.rs"]
mod small;

#[path = "drivers/find.rs"]
mod find;
#[path = "language/subgroups.rs"]
mod subgroups;
#[path = "language/untyped.rs"]
mod untyped;
#[path = "language/variants.rs"]
mod variants;
#[path = "drivers/watch.rs"]
mod watch;
