//! Who has the memory of which there is no more: for the error that says so.

use std::collections::HashMap;
use std::fmt;
use std::panic::Location;

use windlass_backend::ImageShape;
use windlass_engine::MemoryId;

use super::State;

/// What the engine keeps for us of a buffer.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct AboutRoot {
    /// It is an image: memory that holds images keeps it as one.
    pub(crate) image: Option<ImageShape>,
    /// Where it was first used, or made to stay in one memory.
    pub(crate) at: Option<&'static Location<'static>>,
}

/// How many places are named, those whose buffers have most.
const MOST_NAMED: usize = 3;

/// So many buffers with so many bytes together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Sum {
    buffers: usize,
    bytes: usize,
}

/// What buffers have in one memory, by the places where they began: buffers have no names, and a program has few such places.
#[derive(Debug, Default)]
pub(super) struct Holders {
    places: Vec<(&'static Location<'static>, Sum)>,
    all: Sum,
}

impl State {
    /// Who has how much of a memory.
    pub(super) fn holders(&self, memory: MemoryId) -> Holders {
        let held = self.engine.held_in(memory);
        Holders::of(held.map(|(about, allocation)| (about.at, allocation.bytes())))
    }
}

impl Holders {
    fn of(held: impl Iterator<Item = (Option<&'static Location<'static>>, usize)>) -> Self {
        let (mut places, mut all) = (HashMap::<_, Sum>::new(), Sum::default());
        for (at, bytes) in held {
            all.add(bytes);
            if let Some(at) = at {
                places.entry(at).or_default().add(bytes);
            }
        }
        let mut places: Vec<_> = places.into_iter().collect();
        places.sort_by_key(|(at, sum)| (std::cmp::Reverse(sum.bytes), *at));
        Holders { places, all }
    }

    /// The bytes of all of them.
    pub(super) fn bytes(&self) -> usize {
        self.all.bytes
    }
}

impl Sum {
    fn add(&mut self, bytes: usize) {
        self.buffers += 1;
        self.bytes += bytes;
    }
}

impl fmt::Display for Sum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Sum { buffers, bytes } = self;
        match buffers {
            1 => write!(f, "1 buffer of {bytes} bytes"),
            _ => write!(f, "{buffers} buffers of {bytes} bytes together"),
        }
    }
}

/// `3 buffers of 40 bytes together (2 buffers of 32 bytes together from a.rs:1:2, 1 buffer of 8 bytes from b.rs:3:4)`.
impl fmt::Display for Holders {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.all)?;
        let mut rest = self.all;
        for (i, (at, sum)) in self.places.iter().take(MOST_NAMED).enumerate() {
            rest = Sum { buffers: rest.buffers - sum.buffers, bytes: rest.bytes - sum.bytes };
            let open = if i == 0 { " (" } else { ", " };
            // That it is the same sum again would be said twice.
            match *sum == self.all {
                true => write!(f, "{open}from {at}")?,
                false => write!(f, "{open}{sum} from {at}")?,
            }
        }
        match (self.places.is_empty(), rest.buffers) {
            (true, _) => Ok(()),
            (false, 0) => f.write_str(")"),
            (false, _) => write!(f, ", {rest} from elsewhere)"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_are_named_and_the_others_counted() {
        let places: [&'static Location<'static>; 4] =
            [Location::caller(), Location::caller(), Location::caller(), Location::caller()];
        let [a, b, c, d] = places;
        let said = |held: &[(&'static Location<'static>, usize)]| {
            Holders::of(held.iter().map(|(at, bytes)| (Some(*at), *bytes))).to_string()
        };
        assert_eq!(said(&[]), "0 buffers of 0 bytes together");
        assert_eq!(said(&[(a, 8)]), format!("1 buffer of 8 bytes (from {a})"));
        assert_eq!(said(&[(a, 8), (a, 4)]), format!("2 buffers of 12 bytes together (from {a})"));
        let five = [(a, 8), (b, 100), (c, 5), (c, 6), (d, 1)];
        let first = format!("1 buffer of 100 bytes from {b}, 2 buffers of 11 bytes together from {c}");
        let all = "5 buffers of 120 bytes together";
        let rest = format!("1 buffer of 8 bytes from {a}, 1 buffer of 1 bytes from elsewhere");
        assert_eq!(said(&five), format!("{all} ({first}, {rest})"));
    }
}
