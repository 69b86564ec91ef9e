//! What a service says of itself: counters in Prometheus' text format, and its devices.

use std::fmt::Write;

use windlass::Queue;
use windlass::batch::BatchStats;

pub(crate) fn metrics(queue: &Queue, batches: &[(&str, BatchStats)]) -> String {
    let mut text = String::new();
    let mut say = |kind: &str, name: &str, values: &[(String, f64)]| {
        let _ = writeln!(text, "# TYPE windlass_{name} {kind}");
        for (labels, value) in values {
            let _ = writeln!(text, "windlass_{name}{labels} {value}");
        }
    };
    say("gauge", "groups_in_flight", &[(String::new(), queue.in_flight() as f64)]);
    say("gauge", "bytes_kept", &[(String::new(), queue.runtime().stats().bytes_kept as f64)]);
    let mut each = |kind, name, value: fn(&BatchStats) -> f64| {
        let values: Vec<_> =
            batches.iter().map(|(batch, stats)| (format!("{{batch=\"{batch}\"}}"), value(stats))).collect();
        say(kind, name, &values);
    };
    each("counter", "batch_items_total", |batch| batch.items as f64);
    each("counter", "batch_launches_total", |batch| batch.batches as f64);
    each("counter", "batch_refused_total", |batch| batch.refused as f64);
    each("counter", "batch_expired_total", |batch| batch.expired as f64);
    each("counter", "batch_abandoned_total", |batch| batch.abandoned as f64);
    each("gauge", "batch_waiting", |batch| batch.waiting as f64);
    each("gauge", "batch_in_flight", |batch| batch.in_flight as f64);
    each("gauge", "batch_seconds_per_launch", |batch| batch.time_per_batch.as_secs_f64());
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
