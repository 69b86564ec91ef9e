//! A trace in the format of Chrome's `about:tracing`: one event a line, so that a file may also grow, and need not end.

use std::collections::{HashMap, VecDeque};
use std::time::{Duration, SystemTime};

use super::json::Object;
use super::{Entry, EntryKind};

/// What was written: processes are devices, threads are lanes, or as many rows as what overlaps needs.
#[derive(Debug, Default)]
pub(super) struct Rows {
    processes: HashMap<String, Process>,
    /// Where entries stand to which arrows may lead back, the latest.
    recent: HashMap<u64, Row>,
    order: VecDeque<u64>,
    arrows: u64,
    is_begun: bool,
}

#[derive(Debug)]
struct Process {
    id: usize,
    /// Of each row its lane, if it is one's, and up to when it is taken.
    rows: Vec<(Option<u32>, Duration)>,
}

/// Where an entry stands.
#[derive(Clone, Copy, Debug)]
struct Row {
    process: usize,
    thread: usize,
    ended: Duration,
}

/// How many entries arrows may lead back to. One waits for what is under way when it is submitted, so few are older.
const RECENT: usize = 1 << 16;

/// What the event is called that says when the trace began.
const BEGAN: &str = "windlass_began";

/// The format's unit.
fn micros(time: Duration) -> f64 {
    time.as_nanos() as f64 / 1e3
}

impl Rows {
    /// An event, behind those that are there.
    fn event(&mut self, text: &mut String, fill: impl FnOnce(&mut Object<'_>)) {
        text.push_str(if std::mem::replace(&mut self.is_begun, true) { ",\n" } else { "\n" });
        let mut object = Object::new(text);
        fill(&mut object);
        object.end();
    }

    /// When by the clock on the wall the trace began, so that those of several processes can be put together.
    pub(super) fn began(&mut self, at: SystemTime, text: &mut String) {
        let at = at.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_micros();
        self.event(text, |event| {
            event.string("name", BEGAN).string("ph", "M").plain("pid", 0).plain("tid", 0);
            event.object("args", |args| {
                args.plain("unix_us", at);
            });
        });
    }

    pub(super) fn write(&mut self, entry: &Entry, text: &mut String) {
        let row = self.place(entry, text);
        self.event(text, |event| {
            event.string("name", &entry.label()).string("ph", "X").string("cat", category(&entry.kind));
            event.plain("ts", micros(entry.started)).plain("dur", micros(entry.ended - entry.started));
            event.plain("pid", row.process).plain("tid", row.thread);
            event.object("args", |args| describe(entry, args));
        });
        for ahead in &entry.after {
            let Some(from) = self.recent.get(ahead).copied() else { continue };
            self.arrows += 1;
            let arrow = self.arrows;
            let mut end = |phase, row: Row, at: Duration| {
                self.event(text, |event| {
                    event
                        .string("name", "after")
                        .string("cat", "after")
                        .string("ph", phase)
                        .string("bp", "e");
                    event.plain("id", arrow).plain("ts", micros(at));
                    event.plain("pid", row.process).plain("tid", row.thread);
                });
            };
            end("s", from, from.ended);
            end("f", row, entry.started);
        }
        self.remember(entry.id, row);
    }

    fn remember(&mut self, id: u64, row: Row) {
        if self.order.len() >= RECENT
            && let Some(oldest) = self.order.pop_front()
        {
            self.recent.remove(&oldest);
        }
        self.order.push_back(id);
        self.recent.insert(id, row);
    }

    /// Finds a row for an entry. What is on a lane has the lane's, since a lane runs in order; other things take one that is free.
    fn place(&mut self, entry: &Entry, text: &mut String) -> Row {
        let (name, next) = (entry.place(), self.processes.len() + 1);
        let is_new = !self.processes.contains_key(&name);
        if is_new {
            self.event(text, |event| named("process_name", &name, (next, 0), event));
        }
        let process = self.processes.entry(name).or_insert_with(|| Process { id: next, rows: Vec::new() });
        let fits = |(lane, taken): &(Option<u32>, Duration)| match entry.lane {
            Some(own) => *lane == Some(own),
            None => lane.is_none() && *taken <= entry.started,
        };
        let found = process.rows.iter().position(fits);
        let thread = found.unwrap_or(process.rows.len());
        if found.is_none() {
            process.rows.push((entry.lane, Duration::ZERO));
        }
        process.rows[thread].1 = entry.ended;
        let row = Row { process: process.id, thread, ended: entry.ended };
        if let (None, Some(lane)) = (found, entry.lane) {
            let name = format!("lane {lane}");
            self.event(text, |event| named("thread_name", &name, (row.process, thread), event));
        }
        row
    }
}

fn named(what: &str, name: &str, (process, thread): (usize, usize), event: &mut Object<'_>) {
    event.string("name", what).string("ph", "M").plain("pid", process).plain("tid", thread);
    event.object("args", |args| {
        args.string("name", name);
    });
}

fn category(kind: &EntryKind) -> &'static str {
    match kind {
        EntryKind::Group => "group",
        EntryKind::HostAccessor => "host accessor",
        EntryKind::Copy { .. } => "copy",
        EntryKind::Upkeep { .. } => "upkeep",
    }
}

/// All that is known of an entry but its name and times.
pub(super) fn describe(entry: &Entry, args: &mut Object<'_>) {
    args.plain("id", entry.id).list("after", &entry.after).string("outcome", entry.outcome.name());
    args.plain("waited_us", micros(entry.started.saturating_sub(entry.submitted)));
    args.maybe("error", entry.error.as_deref());
    if let Some(at) = entry.at {
        args.string("at", &at.to_string());
    }
    if !entry.commands.is_empty() {
        args.string("commands", &entry.commands.join(", "));
    }
    if entry.bytes_moved > 0 {
        args.plain("bytes_moved", entry.bytes_moved);
    }
    if let Some(of) = entry.copy_for {
        args.plain("copy_for", of);
    }
    match &entry.kind {
        EntryKind::Copy { bytes, from, to } => {
            args.plain("bytes", bytes).maybe("from", from.as_deref()).maybe("to", to.as_deref());
        }
        EntryKind::Upkeep { bytes, .. } => {
            args.plain("bytes", bytes);
        }
        EntryKind::Group | EntryKind::HostAccessor => {}
    }
    if entry.lane.is_some() {
        args.string("clock", if entry.is_by_device_clock { "device" } else { "host" });
    }
}
