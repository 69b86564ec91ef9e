//! A job of many groups, whose client hears how far it is.
//!
//! The stream of events is the job: when its client hangs up the stream is dropped, and what is left of the job with it.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::mem;
use std::time::Duration;

use axum::extract::{RawQuery, State};
use axum::http::StatusCode;
use axum::response::IntoResponse;
use axum::response::sse::{Event, KeepAlive, Sse};
use futures::{Stream, stream};
use metrics::{counter, gauge};
use tokio::sync::OwnedSemaphorePermit;
use windlass::CancelOnDrop;
use windlass::prelude::*;

use super::App;
use super::refusal::Refusal;

/// How much of the difference to its four neighbours a place takes on in a step; more than a quarter would swing.
const FLOW: f32 = 0.2;

/// Groups that are handed over before the first of them has ended: enough that the device is never idle, and few enough that others
/// are let in between and that little is to be cancelled.
const AHEAD: usize = 16;

/// How often at most a client is told of progress.
const REPORTS: u32 = 100;

/// A step of heat that flows over a plate. Nothing flows over its border.
#[windlass::kernel]
fn flow(flow: f32, from: &View<f32, 2>, to: &mut View<f32, 2>) {
    let (row, column) = (global_id(0), global_id(1));
    let (below, right) = ((row + 1).min(from.extent(0) - 1), (column + 1).min(from.extent(1) - 1));
    let (above, left) = (row.max(1) - 1, column.max(1) - 1);
    let around = from[above][column] + from[below][column] + from[row][left] + from[row][right];
    to[row][column] = from[row][column] + flow * (around - 4.0 * from[row][column]);
}

/// `POST /jobs?steps=1000&size=256`: so many steps on a square plate whose middle is hot. The answer is Server-Sent Events:
/// `progress`, and at last `result`, or `failed`.
pub(crate) async fn start(
    State(app): State<App>,
    RawQuery(query): RawQuery,
) -> Result<impl IntoResponse, Refusal> {
    let plan = Plan::of(&query.unwrap_or_default())?;
    let place = app.jobs.clone().try_acquire_owned().map_err(|_| {
        let why = format!("{} jobs are running, as many as may", app.settings.jobs);
        Refusal::busy(why, Duration::from_secs(1))
    })?;
    let job = Job::new(&app.queue, plan, Running::begin(place))?;
    Ok(Sse::new(job.events()).keep_alive(KeepAlive::default()))
}

struct Plan {
    steps: u32,
    size: u32,
}

impl Plan {
    fn of(query: &str) -> Result<Self, Refusal> {
        let mut plan = Plan { steps: 1000, size: 256 };
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            match name {
                "steps" => plan.steps = within(name, value, 1, 100_000)?,
                "size" => plan.size = within(name, value, 2, 2048)?,
                _ => return Err(bad(format!("a job has no `{name}`: it has `steps` and `size`"))),
            }
        }
        Ok(plan)
    }
}

fn within(name: &str, value: &str, least: u32, most: u32) -> Result<u32, Refusal> {
    let number = value.parse().ok().filter(|number| (least..=most).contains(number));
    number.ok_or_else(|| bad(format!("{name}={value}: set a number from {least} to {most}")))
}

fn bad(why: String) -> Refusal {
    Refusal::new(StatusCode::BAD_REQUEST, why)
}

/// Counts a job from its beginning to its end, whichever that is.
struct Running {
    how: &'static str,
    place: Option<OwnedSemaphorePermit>,
}

impl Running {
    fn begin(place: OwnedSemaphorePermit) -> Self {
        gauge!("server_jobs_running").increment(1.0);
        Running { how: "cancelled", place: Some(place) }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Who sees that it has ended finds its place free.
        drop(self.place.take());
        gauge!("server_jobs_running").decrement(1.0);
        counter!("server_jobs_ended_total", "how" => self.how).increment(1);
    }
}

struct Job {
    queue: Queue,
    plan: Plan,
    from: Buffer<f32, 2>,
    to: Buffer<f32, 2>,
    submitted: u32,
    ended: u32,
    ahead: VecDeque<CancelOnDrop>,
    running: Running,
}

impl Job {
    fn new(queue: &Queue, plan: Plan, running: Running) -> windlass::Result<Self> {
        let size = plan.size as usize;
        let middle = size / 4..size - size / 4;
        let hot = |at: usize| middle.contains(&(at / size)) && middle.contains(&(at % size));
        let plate: Vec<f32> = (0..size * size).map(|at| if hot(at) { 1.0 } else { 0.0 }).collect();
        let (from, to) = (Buffer::with_shape([size; 2], plate)?, Buffer::new([size; 2]));
        let queue = queue.clone();
        Ok(Job { queue, plan, from, to, submitted: 0, ended: 0, ahead: VecDeque::new(), running })
    }

    fn events(self) -> impl Stream<Item = Result<Event, Infallible>> {
        stream::unfold(Some(self), async |job| {
            let mut job = job?;
            let is_last = job.ended == job.plan.steps;
            let next = if is_last { job.result().await } else { job.progress().await };
            match next {
                Ok(event) => Some((Ok(event), (!is_last).then_some(job))),
                Err(error) => {
                    job.running.how = "failed";
                    Some((
                        Ok(Event::default()
                            .event("failed")
                            .data(error.to_string().replace(['\r', '\n'], " "))),
                        None,
                    ))
                }
            }
        })
    }

    /// Goes on until there is something to tell.
    async fn progress(&mut self) -> windlass::Result<Event> {
        let next = self.ended + self.plan.steps.div_ceil(REPORTS);
        while self.ended < next.min(self.plan.steps) {
            self.submit_ahead().await?;
            if let Some(first) = self.ahead.pop_front() {
                first.await?;
                self.ended += 1;
            }
        }
        let data = format!(r#"{{"step":{},"of":{}}}"#, self.ended, self.plan.steps);
        Ok(Event::default().event("progress").data(data))
    }

    async fn submit_ahead(&mut self) -> windlass::Result<()> {
        while self.submitted < self.plan.steps && self.ahead.len() < AHEAD {
            let event = self.queue.ready().await.submit(|cg| {
                let call = flow(FLOW, cg.read(&self.from), cg.overwrite(&self.to));
                cg.parallel_for([self.plan.size as usize; 2], call)
            })?;
            self.ahead.push_back(event.cancel_on_drop());
            self.submitted += 1;
            mem::swap(&mut self.from, &mut self.to);
        }
        Ok(())
    }

    async fn result(&mut self) -> windlass::Result<Event> {
        let heat = self.from.host_read().await?;
        let (mut sum, mut most) = (0.0_f64, 0.0_f32);
        for &place in heat.iter() {
            sum += f64::from(place);
            most = most.max(place);
        }
        self.running.how = "done";
        let Plan { steps, size } = self.plan;
        let data = format!(
            r#"{{"steps":{steps},"size":{size},"mean":{},"warmest":{most}}}"#,
            sum / heat.len() as f64
        );
        Ok(Event::default().event("result").data(data))
    }
}
