//! Padding would be uninitialised memory.
use windlass::Buffer;

#[derive(Clone, Copy)]
#[repr(C)]
struct Padded {
    a: u8,
    b: u32,
}

#[derive(Clone, Copy, bytemuck::Zeroable, bytemuck::Pod)]
#[repr(C)]
struct Derived {
    a: u8,
    b: u32,
}

fn main() {
    let _ = Buffer::from(vec![Padded { a: 1, b: 2 }]);
}
