//! Computing inside an async service: small requests share launches, large ones run one by one, long ones say how far they are, and nothing
//! blocks a thread.
//!
//! `curl --data-binary @floats http://127.0.0.1:8080/soften` maps little-endian `f32`s to between -1 and 1; `/grayscale` takes RGBA bytes,
//! `/grayscale/stream` any number of them, which it answers as they come, and `/picture` a PNG or a JPEG. `curl -NX POST
//! http://127.0.0.1:8080/jobs?steps=5000` runs a long job, and Ctrl-C there cancels it. `/` is a page to
//! try it by hand, `/metrics`, `/devices` and `/healthz` are for those who look after it, and `/trace/2` shows what its devices have done
//! in the next two seconds. [`Settings`](settings::Settings) are in the environment. It ends on SIGTERM and Ctrl-C when everything that was
//! accepted has been answered, or its clients have had their time.

mod ending;
mod jobs;
mod pictures;
mod refusal;
pub(crate) mod settings;
mod watch;

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::{DefaultBodyLimit, State};
use axum::response::{Html, IntoResponse};
use axum::routing::{get, post};
use ending::Signals;
use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle};
use refusal::{Refusal, Whole};
use settings::Settings;
use tokio::sync::Semaphore;
use windlass::batch::Batch;
use windlass::prelude::*;
use windlass::stream::Pipe;

#[windlass::kernel]
fn softened(x: &[f32], y: &mut [f32]) {
    let i = global_id(0);
    if i < y.len() {
        // x / (1 + |x|), what a small network does after each layer.
        y[i] = x[i] / (1.0 + x[i].abs());
    }
}

/// What its handlers have in common.
#[derive(Clone)]
pub(crate) struct App {
    settings: Settings,
    queue: Queue,
    pub(crate) softened: Batch<f32, f32>,
    gray: Pipe<u32, u32>,
    /// Places for pictures that are being read, and for long jobs.
    pictures: Arc<Semaphore>,
    jobs: Arc<Semaphore>,
    metrics: PrometheusHandle,
}

impl App {
    pub(crate) fn new(settings: Settings, queue: &Queue, metrics: PrometheusHandle) -> Self {
        let softened = Batch::<f32, f32>::builder(queue).name("softened").build(|cg, batch| {
            cg.parallel_for(
                batch.output().len(),
                softened(cg.read(batch.input()), cg.overwrite(batch.output())),
            )
        });
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        App {
            settings,
            queue: queue.clone(),
            softened,
            gray: pictures::pipe(queue),
            pictures: Arc::new(Semaphore::new(processors)),
            jobs: Arc::new(Semaphore::new(settings.jobs)),
            metrics,
        }
    }
}

/// Requests that come at the same time share a launch. Who hangs up leaves the batch; who cannot be answered in time is told so at once.
async fn soften(State(app): State<App>, Whole(body): Whole) -> Result<impl IntoResponse, Refusal> {
    let answer = app.softened.within(app.settings.patience).call(body).await?;
    Ok(answer.into_bytes())
}

pub(crate) fn router(app: App) -> Router {
    Router::new()
        .route("/", get(|| async { Html(include_str!("page.html")) }))
        .route("/soften", post(soften))
        .route("/grayscale", post(pictures::pixels))
        .route("/grayscale/stream", post(pictures::stream))
        .route("/picture", post(pictures::file))
        .route("/jobs", post(jobs::start))
        .route("/healthz", get(watch::health))
        .route("/devices", get(watch::devices))
        .route("/metrics", get(watch::metrics))
        .route("/trace", get(watch::trace))
        .route("/trace/{seconds}", get(watch::trace))
        .layer(DefaultBodyLimit::max(64 << 20))
        .with_state(app)
}

/// The exporter keeps each measured time until it is asked for metrics, or told to sum up: where nobody asks, memory would grow.
async fn sum_up(metrics: PrometheusHandle) {
    loop {
        tokio::time::sleep(Duration::from_secs(1)).await;
        metrics.run_upkeep();
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let signals = Signals::hold_back()?;
    tokio::runtime::Runtime::new()?.block_on(run(signals))
}

async fn run(signals: Signals) -> Result<(), Box<dyn std::error::Error>> {
    let settings = Settings::from_env()?;
    let told = signals.first()?;
    let metrics = PrometheusBuilder::new().install_recorder()?;
    tokio::spawn(sum_up(metrics.clone()));
    let runtime = Runtime::builder().measured().build();
    let queue = Queue::builder().runtime(&runtime).max_in_flight(256).build().await?;
    let app = router(App::new(settings, &queue, metrics));
    let listener = tokio::net::TcpListener::bind(("127.0.0.1", settings.port)).await?;
    println!("on {}: http://{}", queue.device(), listener.local_addr()?);
    match ending::serve(listener, app, told, settings.grace).await? {
        true => println!("everything that was accepted has been answered"),
        false => println!("some clients have not sent or taken all in {} s", settings.grace.as_secs_f64()),
    }
    let left = runtime.shutdown(Duration::from_secs(5)).await;
    if left.groups > 0 {
        println!("{} groups are still on their device", left.groups);
    }
    Ok(())
}
