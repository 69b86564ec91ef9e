//! What a program shows.

use std::fmt::Write;

/// A picture or a table, and what is wrong with it.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// What there is to see.
    pub text: String,
    /// In what the device's results differ from those of plain Rust.
    pub wrong: Vec<String>,
}

/// From dark to bright.
const SHADES: &[u8] = b" .:-=+*#%@";

impl Report {
    /// A picture of values from 0 to 1, `width` in a row; the rows are twice as high as their letters are wide, so every second
    /// one is shown.
    pub fn picture(values: &[f32], width: usize) -> Self {
        let mut text = String::new();
        for row in values.chunks(width).step_by(2) {
            let shade = |value: &f32| {
                let at = (value.clamp(0.0, 1.0) * (SHADES.len() - 1) as f32).round() as usize;
                char::from(SHADES[at])
            };
            let line: String = row.iter().map(shade).collect();
            text.push_str(line.trim_end());
            text.push('\n');
        }
        Report { text, wrong: Vec::new() }
    }

    /// A table with a line of names above it.
    pub fn table<const N: usize>(names: [&str; N], rows: impl IntoIterator<Item = [String; N]>) -> Self {
        let mut lines: Vec<[String; N]> = vec![names.map(String::from)];
        lines.extend(rows);
        let widths: [usize; N] =
            std::array::from_fn(|at| lines.iter().map(|line| line[at].chars().count()).max().unwrap_or(0));
        let mut text = String::new();
        for line in lines {
            for (cell, width) in line.iter().zip(widths) {
                // Writing to a string does not fail.
                let _ = write!(text, "{cell:>width$}  ");
            }
            text.truncate(text.trim_end().len());
            text.push('\n');
        }
        Report { text, wrong: Vec::new() }
    }

    /// Notes where integers are not as they should be.
    pub fn same(mut self, what: &str, found: &[u32], expected: &[u32]) -> Self {
        if found.len() != expected.len() {
            self.wrong.push(format!("{what}: {} of {}", found.len(), expected.len()));
        }
        let differ = found.iter().zip(expected).position(|(a, b)| a != b);
        if let Some(at) = differ {
            self.wrong.push(format!("{what}[{at}] is {}, and should be {}", found[at], expected[at]));
        }
        self
    }

    /// Notes where floats are farther from what they should be than `off`, of numbers above 1 as a part of them.
    pub fn near(mut self, what: &str, found: &[f32], expected: &[f32], off: f32) -> Self {
        if found.len() != expected.len() {
            self.wrong.push(format!("{what}: {} of {}", found.len(), expected.len()));
        }
        let is_far = |(a, b): (&f32, &f32)| {
            let by = (a - b).abs();
            by.is_nan() || by > off * b.abs().max(1.0)
        };
        let differ = found.iter().zip(expected).position(is_far);
        if let Some(at) = differ {
            self.wrong.push(format!("{what}[{at}] is {}, and should be {}", found[at], expected[at]));
        }
        self
    }
}
