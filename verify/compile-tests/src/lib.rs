//! What must not compile. A crate of its own, since the cases are built with all that their crate depends on: here that
//! is the runtime without any backend.
