//! What a runtime counts, for the facade [`metrics`](https://docs.rs/metrics): whichever exporter the program has installed.

use metrics::{Unit, counter, describe_counter, describe_gauge, describe_histogram, gauge, histogram};
use windlass_kernel::DeviceCopy;

use crate::batch::Batch;
use crate::runtime::{Runtime, RuntimeBuilder};
use crate::shell::tracer::{EntryKind, Sink, Traced};

impl Runtime {
    /// With the feature `metrics`, hands what [`Runtime::stats`] counts to the program's recorder of [`metrics`](https://docs.rs/metrics), as
    /// `windlass_…`: for whoever is about to be asked for them, as a handler of `/metrics` is. Names are the process's: of several runtimes
    /// publish one. The guide's page `observability` has a table of them.
    ///
    /// ```
    /// let runtime = windlass::Runtime::new();
    /// // Without a recorder this does nothing.
    /// runtime.publish_metrics();
    /// ```
    pub fn publish_metrics(&self) {
        let stats = self.stats();
        let count = |name: &'static str, value: u64, what: &'static str| {
            describe_counter!(name, Unit::Count, what);
            counter!(name).absolute(value);
        };
        count("windlass_groups_submitted_total", stats.submitted, "Groups that were submitted.");
        count("windlass_transfers_total", stats.transfers, "Transfers that were planned.");
        count("windlass_bytes_moved_total", stats.bytes_moved, "Bytes that transfers moved.");
        count("windlass_bytes_cleared_total", stats.bytes_cleared, "Bytes that were cleared to be read.");
        count("windlass_staged_transfers_total", stats.staged_transfers, "Transfers through staging.");
        count("windlass_kernel_builds_total", stats.builds, "Kernel builds that were started.");
        count("windlass_host_tasks_total", stats.host_tasks, "Host tasks that were started.");
        count("windlass_allocations_total", stats.allocations, "Allocations for buffers.");
        count("windlass_evictions_total", stats.evictions, "Allocations that were given up for room.");
        let state = |name: &'static str, value: usize, unit, what: &'static str| {
            describe_gauge!(name, unit, what);
            gauge!(name).set(value as f64);
        };
        let live = "Groups, copies and host accessors under way.";
        state("windlass_under_way", stats.live_nodes, Unit::Count, live);
        state("windlass_buffers", stats.live_buffers, Unit::Count, "Buffers that the runtime knows.");
        state("windlass_bytes_kept", stats.bytes_kept, Unit::Bytes, "Memory kept for the next buffers.");
        state("windlass_staging_bytes", stats.staging_bytes, Unit::Bytes, "Staging memory, in use and kept.");
    }
}

impl<T: DeviceCopy, U: DeviceCopy> Batch<T, U> {
    /// With the feature `metrics`, the same as [`Runtime::publish_metrics`] for [`Batch::stats`], with the batch's name as the label `batch`.
    ///
    /// ```
    /// use windlass::batch::Batch;
    /// use windlass::prelude::*;
    /// # fn main() -> windlass::Result<()> {
    /// let queue = Queue::blocking_new()?;
    /// let batch = Batch::<f32, f32>::builder(&queue).name("copied").build(|cg, batch| {
    ///     cg.copy(&cg.read(batch.input()), &cg.overwrite(batch.output()))
    /// });
    /// batch.publish_metrics();
    /// # Ok(())
    /// # }
    /// ```
    pub fn publish_metrics(&self) {
        let stats = self.stats();
        let count = |name: &'static str, value: u64, what: &'static str| {
            describe_counter!(name, Unit::Count, what);
            counter!(name, "batch" => self.name().to_owned()).absolute(value);
        };
        count("windlass_batch_items_total", stats.items, "Items that were launched.");
        count("windlass_batch_launches_total", stats.batches, "Batches that were launched.");
        let refused = "Items that were refused when they came, or since another tenant's item had the place.";
        count("windlass_batch_refused_total", stats.refused, refused);
        count("windlass_batch_expired_total", stats.expired, "Items whose deadlines passed as they waited.");
        count("windlass_batch_abandoned_total", stats.abandoned, "Items whose callers went away.");
        let state = |name: &'static str, value: f64, unit, what: &'static str| {
            describe_gauge!(name, unit, what);
            gauge!(name, "batch" => self.name().to_owned()).set(value);
        };
        state("windlass_batch_waiting", stats.waiting as f64, Unit::Count, "Items that wait.");
        state("windlass_batch_in_flight", stats.in_flight as f64, Unit::Count, "Batches on the device.");
        let time = stats.time_per_batch.as_secs_f64();
        state(
            "windlass_batch_seconds_per_launch",
            time,
            Unit::Seconds,
            "What a batch takes beside its items.",
        );
    }
}

impl RuntimeBuilder {
    /// With the feature `metrics`, tells the program's recorder of [`metrics`](https://docs.rs/metrics) of each group that ends: histograms
    /// `windlass_group_seconds` and `windlass_group_wait_seconds`, with its device and its commands as labels. Times are the devices'
    /// own where they have clocks: this turns [`RuntimeBuilder::profiling`] on. An exporter may keep each time until it is asked for metrics:
    /// `metrics-exporter-prometheus` does, unless `run_upkeep` is called now and then.
    ///
    /// ```
    /// let runtime = windlass::Runtime::builder().measured().build();
    /// # drop(runtime);
    /// ```
    pub fn measured(mut self) -> Self {
        self.is_measured = true;
        self.profiling()
    }
}

const RAN: &str = "windlass_group_seconds";
const WAITED: &str = "windlass_group_wait_seconds";

/// Tells how long groups took.
#[derive(Debug)]
pub(crate) struct Histograms;

impl Histograms {
    pub(crate) fn new() -> Self {
        describe_histogram!(RAN, Unit::Seconds, "How long groups ran.");
        describe_histogram!(WAITED, Unit::Seconds, "How long groups waited before they ran.");
        Histograms
    }
}

impl Sink for Histograms {
    fn ended(&self, traced: &Traced) {
        if traced.what.kind != EntryKind::Group {
            return;
        }
        let device = traced.device.as_deref().unwrap_or("host tasks").to_owned();
        let commands = traced.what.commands.join(", ");
        let tell = |name: &'static str, time: std::time::Duration| {
            histogram!(name, "device" => device.clone(), "commands" => commands.clone()).record(time);
        };
        if traced.has_begun {
            tell(RAN, traced.ended.saturating_duration_since(traced.started));
        }
        tell(WAITED, traced.started.saturating_duration_since(traced.planned));
    }
}
