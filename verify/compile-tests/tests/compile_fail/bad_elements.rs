//! Not every bit pattern is one of these.
use windlass::Buffer;

enum Colour {
    Red,
}

fn main() {
    let _ = Buffer::from(vec![true]);
    let _ = Buffer::<Option<u32>>::new(8);
    let _ = Buffer::<&'static str>::new(8);
    let _ = Buffer::from(vec![Colour::Red]);
    let _ = Buffer::<Vec<u32>>::new(8);
}
