//! How often each word stands in a text: a hash table in which all items enter their words at once.

use std::collections::HashMap;

use windlass::prelude::*;

use crate::Report;

const TEXT: &str = "the quick brown fox jumps over the lazy dog while the dog sleeps and the fox runs over the hill \
                    a dog that sleeps is a good dog and a fox that runs is a quick fox so the hill is quiet and the \
                    brown dog and the brown fox are quick and quiet on the hill over the lazy river";

/// Slots of the table.
const SLOTS: usize = 256;

#[windlass::kernels]
mod kernels {
    #[kernels]
    use kernel_library::random::*;
    use windlass::prelude::*;

    const SPACE: u32 = 32;

    /// A character of a text of which four stand in each word of memory.
    fn letter(text: &[u32], at: u32) -> u32 {
        if at / 4 < text.len() { (text[at / 4] >> (at % 4 * 8)) & 255 } else { SPACE }
    }

    fn is_letter(text: &[u32], at: u32) -> bool {
        let letter = letter(text, at);
        letter != SPACE && letter != 0
    }

    /// Where the word of a place ends.
    fn end(text: &[u32], from: u32) -> u32 {
        let mut at = from;
        while is_letter(text, at) {
            at += 1;
        }
        at
    }

    fn same(text: &[u32], a: u32, b: u32, length: u32) -> bool {
        for k in 0..length + 1 {
            // Both end there, or neither does.
            let (x, y) = (letter(text, a + k), letter(text, b + k));
            if k < length && x != y || k == length && (is_letter(text, a + k) || is_letter(text, b + k)) {
                return false;
            }
        }
        true
    }

    /// Each item that is where a word begins enters it. A slot holds where its word began first, and one more, since 0 is
    /// nobody's.
    #[kernel]
    pub fn count(text: &[u32], words: &[AtomicU32], counts: &[AtomicU32]) {
        let i = global_id(0);
        if !is_letter(text, i) || i > 0 && is_letter(text, i - 1) {
            return;
        }
        let length = end(text, i) - i;
        let mut hash = length;
        for k in 0..length {
            hash = scrambled(hash ^ letter(text, i + k));
        }
        let mut slot = hash % words.len();
        for _ in 0..words.len() {
            let owner = match words[slot].compare_exchange(0, i + 1, Relaxed, Relaxed) {
                Ok(_) => i,
                Err(other) => other - 1,
            };
            if same(text, owner, i, length) {
                counts[slot].fetch_add(1, Relaxed);
                return;
            }
            slot = (slot + 1) % words.len();
        }
    }
}

pub(crate) fn run(queue: &Queue) -> windlass::Result<Report> {
    let packed = TEXT.as_bytes().chunks(4).map(|four| {
        let mut word = [0; 4];
        word[..four.len()].copy_from_slice(four);
        u32::from_le_bytes(word)
    });
    let text = Buffer::from(packed.collect::<Vec<u32>>());
    let (words, counts) = (Buffer::<u32>::new(SLOTS), Buffer::<u32>::new(SLOTS));
    queue.submit(|cg| {
        let call = kernels::count(cg.read(&text), cg.atomic(&words), cg.atomic(&counts));
        cg.parallel_for(TEXT.len(), call)
    })?;
    let (words, counts) = (words.host_read().blocking_wait()?, counts.host_read().blocking_wait()?);
    let word = |at: u32| TEXT[at as usize - 1..].split(' ').next().unwrap_or_default();
    let taken = words.iter().zip(counts.iter()).filter(|(word, _)| **word > 0);
    let mut found: Vec<(u32, &str)> = taken.map(|(at, count)| (*count, word(*at))).collect();
    found.sort_by_key(|(count, word)| (std::cmp::Reverse(*count), *word));
    let mut plain: HashMap<&str, u32> = HashMap::new();
    TEXT.split_whitespace().for_each(|word| *plain.entry(word).or_default() += 1);
    let mut plain: Vec<(u32, &str)> = plain.into_iter().map(|(word, count)| (count, word)).collect();
    plain.sort_by_key(|(count, word)| (std::cmp::Reverse(*count), *word));
    let rows = found.iter().take(8).map(|(count, word)| [word.to_string(), count.to_string()]);
    let mut report = Report::table(["word", "times"], rows);
    if found != plain {
        report.wrong.push(format!("{found:?}, and plain Rust counts {plain:?}"));
    }
    Ok(report)
}
