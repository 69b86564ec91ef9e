//! The table in `docs/conformance.md`: rows of the checklist against devices.
//!
//! It is made from the cases and from what is pinned in [`expected`]. The suite fails where a device
//! differs from that, so the table says what is so.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use crate::cases::cases;
use crate::{expected, rows};

/// The whole page.
pub fn page() -> String {
    let mut text = String::from(PREFACE);
    let columns = expected::COLUMNS;
    let _ =
        writeln!(text, "| row | case | {} |\n|---|---|{}", columns.join(" | "), "---|".repeat(columns.len()));
    let mut by_row: BTreeMap<u8, Vec<&str>> = BTreeMap::new();
    for case in cases() {
        case.rows.iter().for_each(|row| by_row.entry(*row).or_default().push(case.name));
    }
    for (row, names) in by_row {
        for name in names {
            let _ = writeln!(text, "| {row} | `{name}` | {} |", results(name));
        }
    }
    text.push_str(OF_NO_ROW);
    let _ = writeln!(text, "| case | {} |\n|---|{}", columns.join(" | "), "---|".repeat(columns.len()));
    for case in cases().iter().filter(|case| case.rows.is_empty()) {
        let _ = writeln!(text, "| `{}` | {} |", case.name, results(case.name));
    }
    text.push_str(ELSEWHERE);
    let mut elsewhere: Vec<(u8, &str, &str)> = Vec::new();
    for (rows, test, path) in rows::ELSEWHERE {
        elsewhere.extend(rows.iter().map(|row| (*row, *test, *path)));
    }
    elsewhere.sort_by_key(|(row, ..)| *row);
    for (row, test, path) in elsewhere {
        let _ = writeln!(text, "| {row} | `{test}` | `{path}` |");
    }
    let deviating: Vec<String> = rows::DEVIATING.iter().map(u8::to_string).collect();
    let _ = writeln!(text, "{DEVIATING}{}.", deviating.join(", "));
    text.push_str("\n## Unsupported, and why\n\n");
    for column in columns {
        for (case, why) in expected::of(column) {
            let _ = writeln!(text, "- `{column}`, `{case}`: {why}.");
        }
    }
    text
}

/// What comes of a case on each backend.
fn results(case: &str) -> String {
    let of = |column| if reason(column, case).is_some() { "unsupported" } else { "passes" };
    expected::COLUMNS.map(of).join(" | ")
}

fn reason(column: &str, case: &str) -> Option<&'static str> {
    expected::of(column).iter().find(|(name, _)| *name == case).map(|(_, why)| *why)
}

const PREFACE: &str = "# Conformance

Rows of the checklist, 179 in all, the case of the suite that is about each, and what comes of it on each backend; then the rows that
other tests are about, and those of which [deviations.md](deviations.md) says what is missing or otherwise. This page is made
by the suite (`verify/conformance`) from its cases and from the results that are pinned in it; a backend that differs
from its pinned results in either direction fails, and so does the suite if this page is not up to date
(`WINDLASS_WRITE_DOCS=1 cargo test -p windlass-conformance` writes it).
`opencl` is PoCL, `intel` Intel's OpenCL for processors, `wgpu` lavapipe; `nvidia` and `nvidia-vulkan` are NVIDIA's GPUs by OpenCL and by wgpu, for which
the suite runs where there is one (`WINDLASS_REQUIRE_GPU` makes it a failure if there is none).

";

const OF_NO_ROW: &str = "
## Cases that are about no row

";

const ELSEWHERE: &str = "
## Rows that other tests are about

| row | test | where |
|---|---|---|
";

const DEVIATING: &str = "
## Rows that are not there, not in full, or otherwise

[deviations.md](deviations.md) has a line about each of rows ";

#[cfg(test)]
mod tests {
    #[test]
    fn the_page_is_up_to_date() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/conformance.md");
        let page = super::page();
        if std::env::var_os("WINDLASS_WRITE_DOCS").is_some() {
            std::fs::write(path, &page).expect("the page can be written");
        }
        let there = std::fs::read_to_string(path).expect("the page is there");
        assert!(there == page, "docs/conformance.md is old: write it with WINDLASS_WRITE_DOCS=1");
    }
}
