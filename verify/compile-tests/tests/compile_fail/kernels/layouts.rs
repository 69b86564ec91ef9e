//! Structs that cannot live in device memory.
use windlass::prelude::*;

#[derive(Clone, Copy, DeviceCopy)]
#[repr(C)]
struct Padded {
    a: u32,
    b: u64,
}

#[derive(Clone, Copy, DeviceCopy)]
struct Anyhow {
    a: u32,
}

#[derive(Clone, Copy, DeviceCopy)]
#[repr(C)]
struct Flag {
    a: bool,
}

#[derive(Clone, Copy, DeviceCopy)]
enum Choice {
    A,
}

fn main() {}
