//! Objects of JSON, written and never read: the little that takes.

use std::fmt::{Display, Write};

/// An object that is being written.
pub(super) struct Object<'t> {
    text: &'t mut String,
    is_empty: bool,
}

impl<'t> Object<'t> {
    pub(super) fn new(text: &'t mut String) -> Self {
        text.push('{');
        Object { text, is_empty: true }
    }

    fn key(&mut self, key: &str) -> &mut String {
        if !std::mem::take(&mut self.is_empty) {
            self.text.push(',');
        }
        quote(key, self.text);
        self.text.push(':');
        self.text
    }

    pub(super) fn string(&mut self, key: &str, value: &str) -> &mut Self {
        quote(value, self.key(key));
        self
    }

    /// A string, where there is one.
    pub(super) fn maybe(&mut self, key: &str, value: Option<&str>) -> &mut Self {
        match value {
            Some(value) => self.string(key, value),
            None => self,
        }
    }

    /// A number or a truth value.
    pub(super) fn plain(&mut self, key: &str, value: impl Display) -> &mut Self {
        let text = self.key(key);
        let _ = write!(text, "{value}");
        self
    }

    /// A list of numbers.
    pub(super) fn list(&mut self, key: &str, values: &[u64]) -> &mut Self {
        let text = self.key(key);
        let _ = write!(text, "{values:?}");
        self
    }

    /// An object inside.
    pub(super) fn object(&mut self, key: &str, fill: impl FnOnce(&mut Object<'_>)) -> &mut Self {
        let mut inside = Object::new(self.key(key));
        fill(&mut inside);
        inside.end();
        self
    }

    pub(super) fn end(&mut self) {
        self.text.push('}');
    }
}

/// A string, such that it may also stand inside a `<script>`.
fn quote(value: &str, text: &mut String) {
    text.push('"');
    for char in value.chars() {
        match char {
            '"' => text.push_str("\\\""),
            '\\' => text.push_str("\\\\"),
            '\n' => text.push_str("\\n"),
            // Of the last two, JavaScript of old takes them for the ends of lines.
            '\0'..='\u{1f}' | '<' | '\u{2028}' | '\u{2029}' => {
                let _ = write!(text, "\\u{:04x}", char as u32);
            }
            _ => text.push(char),
        }
    }
    text.push('"');
}

#[cfg(test)]
mod tests {
    use super::Object;

    #[test]
    fn what_a_string_has_inside_ends_neither_it_nor_a_script() {
        let mut text = String::new();
        let mut object = Object::new(&mut text);
        object
            .string("na\"me", "a\\\"\n</script>\u{7}")
            .maybe("none", None)
            .plain("n", 1.5)
            .list("l", &[1, 2]);
        object.object("in", |inside| {
            inside.plain("yes", true);
        });
        object.end();
        let expected = r#"{"na\"me":"a\\\"\n\u003c/script>\u0007","n":1.5,"l":[1, 2],"in":{"yes":true}}"#;
        assert_eq!(text, expected);
    }
}
