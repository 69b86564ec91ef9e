//! What a service says of itself: counters in Prometheus' text format, and its devices.

use std::fmt::Write;

use windlass::Queue;
use windlass::batch::BatchStats;

pub(crate) fn metrics(queue: &Queue, batches: &[(&str, BatchStats)]) -> String {
    let mut text = String::new();
    let stats = queue.runtime().stats();
    let mut say = |kind: &str, name: &str, labels: &str, value: f64| {
        let _ = writeln!(text, "# TYPE windlass_{name} {kind}\nwindlass_{name}{labels} {value}");
    };
    say("gauge", "groups_in_flight", "", queue.in_flight() as f64);
    say("gauge", "bytes_kept", "", stats.bytes_kept as f64);
    for (name, batch) in batches {
        let labels = format!("{{batch=\"{name}\"}}");
        say("counter", "batch_items_total", &labels, batch.items as f64);
        say("counter", "batch_launches_total", &labels, batch.batches as f64);
        say("counter", "batch_refused_total", &labels, batch.refused as f64);
        say("counter", "batch_expired_total", &labels, batch.expired as f64);
        say("counter", "batch_abandoned_total", &labels, batch.abandoned as f64);
        say("gauge", "batch_waiting", &labels, batch.waiting as f64);
        say("gauge", "batch_in_flight", &labels, batch.in_flight as f64);
        say("gauge", "batch_seconds_per_launch", &labels, batch.time_per_batch.as_secs_f64());
    }
    text
}

pub(crate) async fn devices(queue: &Queue) -> windlass::Result<String> {
    let mut text = String::new();
    for device in queue.runtime().devices().await? {
        let mark = if device == *queue.device() { "*" } else { " " };
        let _ = writeln!(text, "{mark} {device}: {}", device.info().name);
    }
    Ok(text)
}
