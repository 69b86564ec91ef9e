//! What a runtime tells of what it does: traces in their forms, files, spans, metrics.

#[path = "common/rig.rs"]
mod rig;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use rig::{fails, until};
use serde_json::Value;
use tracing::field::{Field, Visit};
use tracing::span;
use windlass::prelude::*;
use windlass::trace::{EntryKind, Outcome, Timeline};

const LONG: Duration = Duration::from_millis(3);

fn host(runtime: &Runtime) -> Queue {
    Queue::blocking_on(runtime.host().unwrap()).unwrap()
}

/// Takes its time over a buffer.
fn slow(queue: &Queue, name: &'static str, data: &Buffer<u32>) -> Event {
    let group = queue.submit(|cg| {
        cg.name(name);
        cg.host_for(1, cg.read_write(data), |_, data| {
            std::thread::sleep(LONG);
            data.set(0, data.get(0) + 1);
        })
    });
    group.unwrap()
}

/// Three groups in a row, a host accessor, and one that fails with another behind it.
fn program(queue: &Queue) {
    let data = Buffer::from(vec![0_u32; 4]);
    let last = ["one", "two", "three"].map(|name| slow(queue, name, &data)).into_iter().next_back();
    last.unwrap().blocking_wait().unwrap();
    assert_eq!(data.host_read().blocking_wait().unwrap()[0], 3);
    let failed = fails(queue, "no </script> and \"quotes\"");
    let behind = queue.submit(|cg| {
        cg.depends_on(&failed);
        Ok(())
    });
    assert!(behind.unwrap().blocking_wait().is_err());
    assert!(failed.blocking_wait().is_err());
}

/// Everything that was submitted, and who waited for whom.
///
/// Seen to fail where what ended in the turn that planned it was not taken in before.
#[test]
fn a_timeline_says_who_ran_when_and_after_whom() {
    let runtime = Runtime::builder().profiling().build();
    let queue = host(&runtime);
    let trace = runtime.trace(1000);
    program(&queue);
    let timeline = trace.timeline();
    let entries = timeline.entries();
    let find = |label: &str| entries.iter().find(|entry| entry.label() == label).expect(label);
    let [one, two, three] = ["one", "two", "three"].map(find);
    assert_eq!((&two.after, &three.after), (&vec![one.id], &vec![two.id]));
    for (before, behind) in [(one, two), (two, three)] {
        assert!(before.ended <= behind.started && behind.started <= behind.ended, "{timeline:?}");
        assert!(behind.is_by_device_clock && behind.ended - behind.started >= LONG);
    }
    assert_eq!(one.commands, ["host code"]);
    assert!(one.at.unwrap().file().ends_with("trace.rs"));
    assert!(one.device.as_ref().unwrap().contains("host"));
    assert!(entries.iter().any(|entry| entry.kind == EntryKind::HostAccessor));
    let failed = entries.iter().find(|entry| entry.outcome == Outcome::Failed).unwrap();
    assert!(failed.error.as_ref().unwrap().contains("</script>"));
    let behind = entries.iter().find(|entry| entry.outcome == Outcome::DependencyFailed).unwrap();
    assert_eq!(behind.after, [failed.id]);
}

/// A writer comes after all that read, and a copy between memories is told with what it was for.
///
/// Seen to fail with the edges behind readers left out of the record, and with copies that nobody was told for.
#[test]
fn readers_and_copies_are_in_a_timeline() {
    let runtime = Runtime::new();
    let here = host(&runtime);
    let context = windlass::Context::blocking_open(&[runtime.host().unwrap()]).unwrap();
    let there = Queue::blocking_in_context(&context, &runtime.host().unwrap()).unwrap();
    let trace = runtime.trace(1000);
    let data = Buffer::from(vec![7_u32; 1 << 10]);
    let gate = slow(&here, "first", &data);
    let readers = [0, 1].map(|_| {
        let sum = Buffer::<u32>::new(1);
        let reader = here.submit(|cg| {
            cg.name("reader");
            cg.host_for(1, (cg.read(&data), cg.overwrite(&sum)), |_, (data, sum)| sum.set(0, data.get(0)))
        });
        reader.unwrap()
    });
    slow(&here, "writer", &data);
    slow(&there, "elsewhere", &data).blocking_wait().unwrap();
    let timeline = trace.timeline();
    let all = |label: &str| timeline.entries().iter().filter(|e| e.label() == label).collect::<Vec<_>>();
    let (writer, elsewhere) = (all("writer")[0], all("elsewhere")[0]);
    let ids: Vec<u64> = all("reader").iter().map(|reader| reader.id).collect();
    assert_eq!(ids.len(), 2);
    // The readers themselves may have begun, but not ended, when it was submitted: `first` sleeps.
    assert!(ids.iter().all(|id| writer.after.contains(id)), "{timeline:?}");
    let copy = timeline.entries().iter().find(|entry| matches!(entry.kind, EntryKind::Copy { .. })).unwrap();
    assert_eq!((copy.copy_for, elsewhere.bytes_moved), (Some(elsewhere.id), 4 << 10));
    assert!(elsewhere.after.contains(&copy.id) && copy.after.contains(&writer.id), "{timeline:?}");
    // What nobody has written is cleared, and not moved.
    let empty = Buffer::<u32>::new(1 << 10);
    slow(&there, "cleared", &empty).blocking_wait().unwrap();
    let timeline = trace.timeline();
    let cleared = timeline.entries().iter().find(|entry| entry.label() == "cleared").unwrap();
    assert_eq!(cleared.bytes_moved, 0, "{timeline:?}");
    drop((gate, readers));
}

/// Who was told that a group will not run finds that in the trace, although what it stands behind has not ended: where it was to run, and
/// that it took no time.
///
/// Seen to fail where such groups were traced when their nodes settled.
#[test]
fn what_never_ran_took_no_time() {
    let runtime = Runtime::new();
    let queue = host(&runtime);
    let data = Buffer::from(vec![0_u32; 4]);
    let trace = runtime.trace(10);
    let ahead = slow(&queue, "ahead", &data);
    let unwanted = queue.submit(|cg| {
        cg.name("unwanted");
        cg.after(std::future::pending::<windlass::Result<()>>());
        cg.fill(&cg.overwrite(&data), 1)
    });
    let unwanted = unwanted.unwrap();
    std::thread::sleep(LONG / 3);
    unwanted.cancel();
    assert!(unwanted.blocking_wait().unwrap_err().is_cancelled());
    let timeline = trace.timeline();
    let entry = timeline.entries().iter().find(|entry| entry.label() == "unwanted").unwrap();
    assert_eq!((entry.outcome, entry.started, entry.lane), (Outcome::Cancelled, entry.ended, None));
    assert!(entry.started - entry.submitted >= LONG / 3 && entry.device.is_some(), "{entry:?}");
    ahead.blocking_wait().unwrap();
    let count = trace.timeline().entries().iter().filter(|entry| entry.label() == "unwanted").count();
    assert_eq!(count, 1, "it is not told again when its node settles");
}

/// A trace keeps no more than it was told to, and what is over is over.
#[test]
fn a_trace_keeps_the_latest_and_ends() {
    let runtime = Runtime::new();
    let queue = host(&runtime);
    let data = Buffer::from(vec![0_u32; 4]);
    let fill = |value| {
        let group = queue.submit(|cg| cg.fill(&cg.overwrite(&data), value));
        group.unwrap().blocking_wait().unwrap();
    };
    fill(1);
    let (long, short) = (runtime.trace(100), runtime.trace(3));
    (0..10).for_each(fill);
    let later = runtime.trace(100);
    fill(1);
    let ids = |timeline: Timeline| timeline.entries().iter().map(|entry| entry.id).collect::<Vec<_>>();
    // Another test's subscriber may have had the first one followed.
    let first = ids(long.timeline())[0];
    assert_eq!(ids(long.timeline()), (first..first + 11).collect::<Vec<_>>());
    let latest = [first + 8, first + 9, first + 10];
    assert_eq!((ids(short.timeline()), ids(later.timeline())), (latest.into(), vec![first + 10]));
    drop((long, later));
    assert_eq!(ids(short.timeline()), latest);
    drop(short);
    fill(1);
    assert!(runtime.trace(100).timeline().entries().is_empty());
}

/// Each form is what it is said to be.
#[test]
fn a_timeline_can_be_written_in_each_form() {
    let runtime = Runtime::new();
    let trace = runtime.trace(1000);
    program(&host(&runtime));
    let timeline = trace.timeline();
    check_events(&serde_json::from_str(&timeline.perfetto()).unwrap(), timeline.entries().len());
    let html = timeline.html();
    assert_eq!(html.matches("</script>").count(), 1, "what an error says ends no script");
    let data = html.split_once("const entries = ").unwrap().1.split_once(";\nconst chart").unwrap().0;
    let entries: Value = serde_json::from_str(data).unwrap();
    assert_eq!(entries.as_array().unwrap().len(), timeline.entries().len());
    let dot = timeline.dot();
    let arrows: usize = timeline.entries().iter().map(|entry| entry.after.len()).sum();
    assert_eq!(dot.matches(" -> ").count(), arrows);
    assert!(dot.contains("\\\"quotes\\\"") || !dot.contains("quotes"));
}

/// As many slices as there were entries; each arrow has two ends, in the rows of slices, and leads forwards.
fn check_events(events: &Value, count: usize) {
    let events = events.as_array().unwrap();
    let of = |phase: &'static str| events.iter().filter(move |event| event["ph"] == phase);
    assert_eq!(of("X").count(), count);
    let inside = |event: &Value, slice: &Value| {
        let (at, ts) = (event["ts"].as_f64().unwrap(), slice["ts"].as_f64().unwrap());
        let row = |e: &Value| (e["pid"].clone(), e["tid"].clone());
        row(event) == row(slice) && (ts..=ts + slice["dur"].as_f64().unwrap() + 0.001).contains(&at)
    };
    assert!(of("s").count() > 0);
    for start in of("s") {
        let end = of("f").find(|end| end["id"] == start["id"]).unwrap();
        assert!(of("X").any(|slice| inside(start, slice)) && of("X").any(|slice| inside(end, slice)));
    }
    let named: Vec<&Value> = of("M").filter(|event| event["name"] == "process_name").collect();
    assert!(of("X").all(|slice| named.iter().any(|process| process["pid"] == slice["pid"])));
}

/// What spans have said until they closed, by their ids.
type Spans = Arc<Mutex<Vec<(Option<u64>, Vec<(String, String)>, bool)>>>;

/// A subscriber that keeps spans.
struct Listener(Spans);

struct Fields<'a>(&'a mut Vec<(String, String)>);

impl Visit for Fields<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        self.0.push((field.name().into(), format!("{value:?}")));
    }
}

thread_local! {
    static INSIDE: std::cell::Cell<Option<u64>> = const { std::cell::Cell::new(None) };
}

impl tracing::Subscriber for Listener {
    fn enabled(&self, metadata: &tracing::Metadata<'_>) -> bool {
        metadata.is_span()
    }
    fn new_span(&self, attributes: &span::Attributes<'_>) -> span::Id {
        let mut spans = self.0.lock().unwrap();
        let mut fields = vec![("target".into(), attributes.metadata().target().into())];
        attributes.record(&mut Fields(&mut fields));
        let parent = INSIDE.with(std::cell::Cell::get).filter(|_| attributes.is_contextual());
        spans.push((parent, fields, false));
        span::Id::from_u64(spans.len() as u64)
    }
    fn record(&self, id: &span::Id, values: &span::Record<'_>) {
        let mut spans = self.0.lock().unwrap();
        values.record(&mut Fields(&mut spans[id.into_u64() as usize - 1].1));
    }
    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}
    fn event(&self, _: &tracing::Event<'_>) {}
    fn enter(&self, id: &span::Id) {
        INSIDE.with(|inside| inside.set(Some(id.into_u64())));
    }
    fn exit(&self, _: &span::Id) {
        INSIDE.with(|inside| inside.set(None));
    }
    fn try_close(&self, id: span::Id) -> bool {
        self.0.lock().unwrap()[id.into_u64() as usize - 1].2 = true;
        true
    }
}

/// Each group is a span, from its submission to its end, below the caller's, and says what became of it.
#[test]
fn groups_are_spans_below_their_callers() {
    let spans = Spans::default();
    let runtime = Runtime::new();
    let queue = host(&runtime);
    let subscriber = Listener(spans.clone());
    tracing::subscriber::with_default(subscriber, || {
        tracing::info_span!("request").in_scope(|| {
            let data = Buffer::from(vec![0_u32; 4]);
            slow(&queue, "ahead", &data);
            slow(&queue, "behind", &data).blocking_wait().unwrap();
            assert!(fails(&queue, "as it should").blocking_wait().is_err());
        });
    });
    let spans = spans.lock().unwrap();
    let groups: Vec<_> = spans.iter().filter(|(_, fields, _)| fields[0].1 == "windlass::group").collect();
    assert_eq!(groups.len(), 3);
    assert!(groups.iter().all(|(parent, _, is_closed)| *parent == Some(1) && *is_closed), "{groups:?}");
    let field = |at: usize, name: &str| {
        let (_, fields, _) = groups[at];
        fields.iter().find(|(field, _)| field == name).map(|(_, value)| value.clone()).unwrap_or_default()
    };
    assert!(field(1, "waited_for").contains("ahead (") && field(1, "waited_for").contains("trace.rs"));
    assert!(field(1, "waited_us").parse::<u64>().unwrap() >= LONG.as_micros() as u64 / 2);
    assert!(field(1, "ran_us").parse::<u64>().unwrap() >= LONG.as_micros() as u64 / 2);
    assert!(field(1, "device").contains("host"), "{groups:?}");
    assert_eq!(field(1, "outcome"), "\"done\"");
    assert_eq!((field(1, "name"), field(1, "otel.name")), ("\"behind\"".into(), "\"behind\"".into()));
    assert!(field(1, "at").contains("trace.rs:") && !field(1, "commands").is_empty(), "{groups:?}");
    assert!(field(2, "error").contains("as it should"));
}

/// A process that is told to by its environment writes a file, which is whole however the process ends.
#[test]
fn a_process_is_traced_by_its_environment() {
    if std::env::var_os("WINDLASS_TRACE").is_some() {
        program(&host(&Runtime::new()));
        let second = Runtime::new();
        program(&host(&second));
        std::process::abort();
    }
    let folder = std::env::temp_dir().join(format!("windlass-trace-test-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let file = folder.join("trace.json");
    let run = |file: &std::path::Path| {
        let mut child = std::process::Command::new(std::env::current_exe().unwrap());
        child.args(["--exact", "a_process_is_traced_by_its_environment", "--nocapture"]);
        child.env("WINDLASS_TRACE", file).output().unwrap()
    };
    assert!(!run(&file).status.success(), "it aborts");
    for name in ["trace.json", "trace.2.json"] {
        let text = std::fs::read_to_string(folder.join(name)).unwrap();
        let events: Value = serde_json::from_str(&format!("{text}]")).unwrap();
        check_events(&events, 6);
    }
    let told = run(&folder.join("no/such/folder.json"));
    assert!(String::from_utf8_lossy(&told.stderr).contains("nothing is traced"));
    std::fs::remove_dir_all(&folder).unwrap();
}

/// Spans that a subscriber panics over harm no group.
#[test]
fn a_subscriber_that_panics_when_a_group_ends_is_no_harm() {
    struct Panics;
    impl tracing::Subscriber for Panics {
        fn enabled(&self, metadata: &tracing::Metadata<'_>) -> bool {
            metadata.is_span()
        }
        fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
            span::Id::from_u64(1)
        }
        fn record(&self, _: &span::Id, _: &span::Record<'_>) {
            panic!("a record");
        }
        fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}
        fn event(&self, _: &tracing::Event<'_>) {}
        fn enter(&self, _: &span::Id) {}
        fn exit(&self, _: &span::Id) {}
        fn try_close(&self, _: span::Id) -> bool {
            panic!("a close");
        }
    }
    let runtime = Runtime::new();
    let queue = host(&runtime);
    let data = Buffer::from(vec![0_u32; 4]);
    tracing::subscriber::with_default(Panics, || {
        (0..20).for_each(|_| drop(slow(&queue, "watched", &data)));
    });
    until("all have ended", || queue.in_flight() == 0);
    assert_eq!(data.host_read().blocking_wait().unwrap()[0], 20);
}

/// Counters and histograms reach whichever recorder there is.
#[cfg(feature = "metrics")]
#[test]
fn counts_and_times_go_to_the_recorder() {
    use metrics_util::debugging::{DebugValue, DebuggingRecorder};
    let recorder = DebuggingRecorder::new();
    let snapshots = recorder.snapshotter();
    recorder.install().unwrap();
    let runtime = Runtime::builder().measured().build();
    let queue = host(&runtime);
    program(&queue);
    runtime.publish_metrics();
    let taken = snapshots.snapshot().into_vec();
    let value = |name: &str| {
        let found = taken.iter().filter(|(key, ..)| key.key().name() == name);
        found.map(|(key, _, _, value)| (key.key().labels().count(), value)).collect::<Vec<_>>()
    };
    assert!(matches!(value("windlass_groups_submitted_total")[..], [(0, DebugValue::Counter(5))]));
    let ran: Vec<f64> = value("windlass_group_seconds")
        .into_iter()
        .flat_map(|(labels, value)| match value {
            DebugValue::Histogram(values) if labels == 2 => values.iter().map(|v| v.0).collect::<Vec<_>>(),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(ran.len(), 5);
    assert!(ran.iter().filter(|seconds| **seconds >= LONG.as_secs_f64() / 2.0).count() >= 3, "{ran:?}");
}
