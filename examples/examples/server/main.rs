//! Computing inside an async service: small requests share launches, large ones run one by one, and nothing blocks a thread.
//!
//! `curl --data-binary @floats http://127.0.0.1:8080/soften` maps little-endian `f32`s to between -1 and 1; `/grayscale` takes RGBA bytes, and
//! `/grayscale/stream` any number of them, which it answers as they come. `/` is a page to
//! try it by hand, `/metrics`, `/devices` and `/healthz` are for those who look after it, and `/trace/2` shows what its devices have done
//! in the next two seconds. `PORT` is where it listens; 0 is any free port. It ends on SIGTERM and Ctrl-C when everything that was accepted has been answered.

use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{DefaultBodyLimit, Path, State};
use axum::http::{HeaderName, StatusCode, header};
use axum::response::{Html, IntoResponse, Response};
use axum::routing::{get, post};
use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle};
use windlass::batch::Batch;
use windlass::prelude::*;
use windlass::stream::Pipe;

/// How long an answer is of use to who asked for it.
const PATIENCE: Duration = Duration::from_secs(2);

#[windlass::kernel]
fn softened(x: &[f32], y: &mut [f32]) {
    let i = global_id(0);
    if i < y.len() {
        // x / (1 + |x|), what a small network does after each layer.
        y[i] = x[i] / (1.0 + x[i].abs());
    }
}

#[windlass::kernel]
fn grayscale(rgba: &[u32], gray: &mut [u32]) {
    let i = global_id(0);
    if i < gray.len() {
        let p = rgba[i];
        let r = (p & 0xff) as f32;
        let g = ((p >> 8) & 0xff) as f32;
        let b = ((p >> 16) & 0xff) as f32;
        let luma = (0.2126 * r + 0.7152 * g + 0.0722 * b) as u32;
        gray[i] = luma | (luma << 8) | (luma << 16) | (p & 0xff000000);
    }
}

#[derive(Clone)]
struct App {
    queue: Queue,
    softened: Batch<f32, f32>,
    gray: Pipe<u32, u32>,
    metrics: PrometheusHandle,
}

/// Requests that come at the same time share a launch. Who hangs up leaves the batch; who cannot be answered in time is told so at once.
async fn soften(State(app): State<App>, body: Bytes) -> Result<impl IntoResponse, Refusal> {
    let answer = app.softened.within(PATIENCE).call(body).await?;
    Ok(answer.into_bytes())
}

/// A picture is work enough for a launch of its own.
async fn gray(State(app): State<App>, body: Bytes) -> Result<impl IntoResponse, Refusal> {
    let rgba = Buffer::<u32>::from_bytes(body)?;
    let gray = Buffer::<u32>::new(rgba.len());
    let answer = async move {
        // When its client goes or its time is up, this future is dropped, and the work with it.
        let group = app
            .queue
            .ready()
            .await
            .submit(|cg| cg.parallel_for(gray.len(), grayscale(cg.read(&rgba), cg.overwrite(&gray))))?;
        group.cancel_on_drop().await?;
        gray.into_bytes().await
    };
    Ok(tokio::time::timeout(PATIENCE, answer).await.map_err(windlass::Error::from)??)
}

/// A picture of any size: its first rows are on their way back while its last are on their way here, and little of it is in memory.
async fn stream_gray(State(app): State<App>, body: Body) -> Body {
    Body::from_stream(app.gray.run(body.into_data_stream()))
}

async fn devices(State(app): State<App>) -> Result<String, Refusal> {
    let mut text = String::new();
    for device in app.queue.runtime().devices().await? {
        let mark = if device == *app.queue.device() { "*" } else { " " };
        text += &format!("{mark} {device}\n");
    }
    Ok(text)
}

async fn metrics(State(app): State<App>) -> impl IntoResponse {
    app.queue.runtime().publish_metrics();
    app.softened.publish_metrics();
    ([(header::CONTENT_TYPE, "text/plain; version=0.0.4")], app.metrics.render())
}

/// What the devices do from now on, for a moment, as a page.
async fn trace(State(app): State<App>, seconds: Option<Path<u64>>) -> Html<String> {
    let seconds = seconds.map_or(1, |Path(seconds)| seconds.min(30));
    let trace = app.queue.runtime().trace(20_000);
    tokio::time::sleep(Duration::from_secs(seconds)).await;
    Html(trace.timeline().html())
}

/// What went wrong, for the client: its own fault, the load's, or ours.
struct Refusal(windlass::Error);

impl From<windlass::Error> for Refusal {
    fn from(error: windlass::Error) -> Self {
        Refusal(error)
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let Refusal(error) = self;
        let code = match &error {
            e if e.is_invalid_input() => StatusCode::BAD_REQUEST,
            e if e.is_overloaded() => StatusCode::SERVICE_UNAVAILABLE,
            e if e.is_timeout() => StatusCode::GATEWAY_TIMEOUT,
            _ => StatusCode::INTERNAL_SERVER_ERROR,
        };
        let wait: Option<[(HeaderName, String); 1]> =
            error.retry_after().map(|wait| [(header::RETRY_AFTER, wait.as_secs_f64().ceil().to_string())]);
        match wait {
            Some(wait) => (code, wait, format!("{error}\n")).into_response(),
            None => (code, format!("{error}\n")).into_response(),
        }
    }
}

/// Ctrl-C, or what a supervisor sends.
async fn told_to_end() {
    let ctrl_c = async { tokio::signal::ctrl_c().await.expect("signals can be listened for") };
    #[cfg(unix)]
    {
        use tokio::signal::unix::{SignalKind, signal};
        let mut terminate = signal(SignalKind::terminate()).expect("signals can be listened for");
        tokio::select! {
            () = ctrl_c => {}
            _ = terminate.recv() => {}
        }
    }
    #[cfg(not(unix))]
    ctrl_c.await;
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let metrics = PrometheusBuilder::new().install_recorder()?;
    let runtime = Runtime::builder().measured().build();
    let queue = Queue::builder().runtime(&runtime).max_in_flight(256).build().await?;
    let softened = Batch::<f32, f32>::builder(&queue).name("softened").build(|cg, batch| {
        cg.parallel_for(batch.output().len(), softened(cg.read(batch.input()), cg.overwrite(batch.output())))
    });
    let gray = Pipe::<u32, u32>::builder(&queue).build(|cg, part| {
        cg.parallel_for(part.output().len(), grayscale(cg.read(part.input()), cg.overwrite(part.output())))
    });
    // After the drivers: some install handlers of their own when they are loaded.
    let end = told_to_end();
    let app = Router::new()
        .route("/", get(|| async { Html(include_str!("page.html")) }))
        .route("/soften", post(soften))
        .route("/grayscale", post(self::gray))
        .route("/grayscale/stream", post(stream_gray))
        .route("/healthz", get(|| async { "well\n" }))
        .route("/devices", get(devices))
        .route("/metrics", get(self::metrics))
        .route("/trace", get(trace))
        .route("/trace/{seconds}", get(trace))
        .layer(DefaultBodyLimit::max(64 << 20))
        .with_state(App { queue: queue.clone(), softened, gray, metrics });
    let port = std::env::var("PORT").unwrap_or_else(|_| "8080".into());
    let listener = tokio::net::TcpListener::bind(format!("127.0.0.1:{port}")).await?;
    println!("on {}: http://{}", queue.device(), listener.local_addr()?);
    axum::serve(listener, app).with_graceful_shutdown(end).await?;
    queue.drained().await;
    println!("everything that was accepted has been answered");
    Ok(())
}
