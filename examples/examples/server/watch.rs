//! What is for those who look after the service.

use std::time::Duration;

use axum::extract::{Path, State};
use axum::http::header;
use axum::response::{Html, IntoResponse};

use super::App;
use super::refusal::Refusal;

/// Whether this process is of use. A device that was lost takes nothing any more, not even a group of nothing, and a supervisor can help: it
/// starts the process again.
pub(crate) async fn health(State(app): State<App>) -> Result<&'static str, Refusal> {
    app.queue.submit(|_| Ok(()))?;
    Ok("well\n")
}

pub(crate) async fn devices(State(app): State<App>) -> Result<String, Refusal> {
    let mut text = String::new();
    for device in app.queue.runtime().devices().await? {
        let mark = if device == *app.queue.device() { "*" } else { " " };
        text += &format!("{mark} {device}\n");
    }
    Ok(text)
}

pub(crate) async fn metrics(State(app): State<App>) -> impl IntoResponse {
    app.queue.runtime().publish_metrics();
    app.softened.publish_metrics();
    ([(header::CONTENT_TYPE, "text/plain; version=0.0.4")], app.metrics.render())
}

/// What the devices do from now on, for a moment, as a page.
pub(crate) async fn trace(State(app): State<App>, seconds: Option<Path<u64>>) -> Html<String> {
    let seconds = seconds.map_or(1, |Path(seconds)| seconds.min(30));
    let trace = app.queue.runtime().trace(20_000);
    tokio::time::sleep(Duration::from_secs(seconds)).await;
    Html(trace.timeline().html())
}
