//! Words in text.

fn is_part(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// The words of a text.
pub(super) fn words(text: &str) -> impl DoubleEndedIterator<Item = &str> {
    text.split(|c| !is_part(c)).filter(|word| !word.is_empty())
}

/// Whether the text stands there, and not as a part of longer words.
pub(super) fn has_word(line: &str, text: &str) -> bool {
    line.match_indices(text).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        let after = line[at + text.len()..].chars().next();
        let begins = text.starts_with(|c: char| !is_part(c)) || !before.is_some_and(is_part);
        let ends = text.ends_with(|c: char| !is_part(c)) || !after.is_some_and(is_part);
        begins && ends
    })
}

/// Whether the line ends with this word.
pub(super) fn ends_with_word(line: &str, word: &str) -> bool {
    line.strip_suffix(word).is_some_and(|before| !before.ends_with(is_part))
}

/// What stands between the braces of literals and patterns of a struct.
pub(super) fn literals<'a>(text: &'a str, of: &str) -> impl Iterator<Item = &'a str> {
    let opens = format!("{of} {{");
    let starts: Vec<usize> = text.match_indices(&opens).map(|(at, _)| at).collect();
    starts.into_iter().filter_map(move |at| {
        let before = &text[..at];
        // `struct X {`, `impl X {`, `impl Y for X {` and `-> X {` open something else.
        let other = ["struct ", "impl ", "for ", "-> "].iter().any(|word| before.ends_with(word));
        if other || before.ends_with(is_part) {
            return None;
        }
        let inside = &text[at + opens.len()..];
        let mut depth = 1;
        let end = inside.find(|c: char| {
            depth += i32::from(c == '{') - i32::from(c == '}');
            depth == 0
        })?;
        Some(&inside[..end])
    })
}
