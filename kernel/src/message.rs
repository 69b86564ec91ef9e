//! What a kernel's items say of themselves by `debug!`.
//!
//! A kernel with messages has one slot more than parameters that are passed: memory of [`WORDS`] numbers, all zeros at first.
//! The first number counts those that messages take, the second the messages, and behind them the messages stand one after the
//! other: each with its number among the kernel's, counted from 1, the position of its item, and its values.

/// How many numbers of 32 bits a launch's messages may take. Some thousand messages fit.
pub const WORDS: usize = 1 << 16;

/// A `debug!` of a kernel.
#[derive(Clone, Copy, Debug)]
pub struct Message {
    /// The file and the line in which it stands.
    pub at: (&'static str, u32),
    /// How many numbers say where its item is.
    pub positions: usize,
    /// How many numbers its values take.
    pub values: usize,
    /// What it says, given its values.
    pub said: fn(&[u32]) -> String,
}

/// What one item has said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Said<'w> {
    /// The file and the line.
    pub at: (&'static str, u32),
    /// The item's position.
    pub item: &'w [u32],
    /// The text.
    pub text: String,
}

/// The messages that a launch has left, and how many had no room.
pub fn said<'w>(messages: &[Message], words: &'w [u32]) -> (Vec<Said<'w>>, u32) {
    let (mut all, mut at) = (Vec::new(), 2);
    let taken = words.first().map_or(0, |taken| *taken as usize);
    let end = taken.saturating_add(2).min(words.len());
    while let Some(number) = words[..end].get(at)
        && let Some(message) = (*number as usize).checked_sub(1).and_then(|number| messages.get(number))
        && let Some(item) = words[..end].get(at + 1..at + 1 + message.positions)
        && let start = at + 1 + message.positions
        && let Some(values) = words[..end].get(start..start + message.values)
    {
        all.push(Said { at: message.at, item, text: (message.said)(values) });
        at = start + message.values;
    }
    let counted = words.get(1).copied().unwrap_or(0);
    let lost = counted.saturating_sub(u32::try_from(all.len()).unwrap_or(u32::MAX));
    (all, lost)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MESSAGES: [Message; 2] = [
        Message { at: ("a.rs", 3), positions: 1, values: 0, said: |_| "here".into() },
        Message { at: ("a.rs", 4), positions: 1, values: 2, said: |values| format!("{values:?}") },
    ];

    #[test]
    fn messages_are_read_one_after_the_other() {
        let words = [6, 2, 2, 7, 40, 50, 1, 8];
        let (all, lost) = said(&MESSAGES, &words);
        let first = Said { at: ("a.rs", 4), item: &[7], text: "[40, 50]".into() };
        assert_eq!(all, [first, Said { at: ("a.rs", 3), item: &[8], text: "here".into() }]);
        assert_eq!(lost, 0);
    }

    #[test]
    fn one_that_was_cut_off_is_lost() {
        let words = [8, 3, 1, 7, 1, 8, 2, 9];
        let (all, lost) = said(&MESSAGES, &words);
        assert_eq!((all.len(), lost), (2, 1));
        assert_eq!(said(&MESSAGES, &[]), (Vec::new(), 0));
    }
}
