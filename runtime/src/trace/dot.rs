//! A trace as a graph.

use std::collections::{BTreeMap, HashSet};
use std::fmt::Write;

use super::{Entry, EntryKind, Outcome};

/// Entries by where they ran, with an arrow from each to what came after it.
pub(super) fn graph(entries: &[Entry]) -> String {
    let mut text =
        String::from("digraph windlass {\n  rankdir=LR;\n  node [fontname=\"sans-serif\", fontsize=10];\n");
    let mut places: BTreeMap<String, Vec<&Entry>> = BTreeMap::new();
    entries.iter().for_each(|entry| places.entry(entry.place()).or_default().push(entry));
    for (at, (place, entries)) in places.iter().enumerate() {
        let _ = writeln!(text, "  subgraph cluster_{at} {{\n    label=\"{}\";", escaped(place));
        entries.iter().for_each(|entry| node(entry, &mut text));
        text.push_str("  }\n");
    }
    let known: HashSet<u64> = entries.iter().map(|entry| entry.id).collect();
    for entry in entries {
        for ahead in entry.after.iter().filter(|ahead| known.contains(ahead)) {
            let _ = writeln!(text, "  n{ahead} -> n{};", entry.id);
        }
    }
    text.push_str("}\n");
    text
}

fn node(entry: &Entry, text: &mut String) {
    let shape = match entry.kind {
        EntryKind::Group => "box",
        EntryKind::HostAccessor => "ellipse",
        EntryKind::Copy { .. } | EntryKind::Upkeep { .. } => "cds",
    };
    let colour = match entry.outcome {
        Outcome::Done => "black",
        Outcome::Failed => "red",
        Outcome::DependencyFailed => "orange",
        Outcome::Cancelled => "gray",
    };
    let mut lines = vec![entry.label()];
    lines.extend(entry.at.map(ToString::to_string));
    lines.push(format!("{:?}", entry.ended - entry.started));
    let label: Vec<String> = lines.iter().map(|line| escaped(line)).collect();
    let label = label.join("\\n");
    let _ = writeln!(text, "    n{} [shape={shape}, color={colour}, label=\"{label}\"];", entry.id);
}

fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}
