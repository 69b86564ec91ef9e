//! A trace as a page.

use std::time::Duration;

use super::json::Object;
use super::perfetto::describe;
use super::{Entry, EntryKind};

const PAGE: &str = include_str!("page.html");

/// What stands in the page for the entries.
const PLACE: &str = "/*ENTRIES*/";

pub(super) fn page(entries: &[Entry]) -> String {
    let mut text = String::new();
    for (at, entry) in entries.iter().enumerate() {
        text.push_str(if at == 0 { "" } else { ",\n" });
        write(entry, &mut text);
    }
    around(&text)
}

pub(super) fn around(entries: &str) -> String {
    PAGE.replacen(PLACE, &format!("\n{entries}"), 1)
}

fn write(entry: &Entry, text: &mut String) {
    let nanos = |time: Duration| time.as_nanos();
    let kind = match entry.kind {
        EntryKind::Group => "group",
        EntryKind::HostAccessor => "accessor",
        EntryKind::Copy { .. } | EntryKind::Upkeep { .. } => "copy",
    };
    let mut object = Object::new(text);
    object.string("label", &entry.label()).string("kind", kind).string("place", &entry.place());
    object.plain("submitted", nanos(entry.submitted)).plain("started", nanos(entry.started));
    object.plain("ended", nanos(entry.ended));
    if let Some(lane) = entry.lane {
        object.plain("lane", lane);
    }
    object.object("more", |more| describe(entry, more));
    object.end();
}
