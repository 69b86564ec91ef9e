//! What is not answered as it was asked for, and why; and bodies that do not come.

use std::fmt::Display;
use std::time::Duration;

use axum::body::Bytes;
use axum::extract::{FromRequest, Request};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use tokio::time::timeout;

use super::App;

/// What went wrong, for the client: its own fault, the load's, or ours.
pub(crate) struct Refusal {
    code: StatusCode,
    why: String,
    wait: Option<Duration>,
}

impl Refusal {
    pub(crate) fn new(code: StatusCode, why: impl Display) -> Self {
        Refusal { code, why: why.to_string(), wait: None }
    }

    /// The load's fault: it may be asked again after so long.
    pub(crate) fn busy(why: impl Display, wait: Duration) -> Self {
        Refusal { wait: Some(wait), ..Refusal::new(StatusCode::SERVICE_UNAVAILABLE, why) }
    }
}

impl From<windlass::Error> for Refusal {
    fn from(error: windlass::Error) -> Self {
        let code = match &error {
            e if e.is_invalid_input() => StatusCode::BAD_REQUEST,
            e if e.is_overloaded() => StatusCode::SERVICE_UNAVAILABLE,
            e if e.is_timeout() => StatusCode::GATEWAY_TIMEOUT,
            _ => StatusCode::INTERNAL_SERVER_ERROR,
        };
        Refusal { wait: error.retry_after(), ..Refusal::new(code, error) }
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let Refusal { code, why, wait } = self;
        let wait = wait.map(|wait| [(header::RETRY_AFTER, wait.as_secs_f64().ceil().to_string())]);
        match wait {
            Some(wait) => (code, wait, format!("{why}\n")).into_response(),
            None => (code, format!("{why}\n")).into_response(),
        }
    }
}

/// A body that has come whole. Who sends half of one keeps a connection, and that for no longer than a body may take.
pub(crate) struct Whole(pub(crate) Bytes);

impl FromRequest<App> for Whole {
    type Rejection = Response;

    async fn from_request(request: Request, app: &App) -> Result<Self, Response> {
        let time = app.settings.upload;
        match timeout(time, Bytes::from_request(request, app)).await {
            Ok(body) => body.map(Whole).map_err(IntoResponse::into_response),
            Err(_) => {
                let why =
                    format!("the request's body has not come within {} s: send it again", time.as_secs_f64());
                Err(Refusal::new(StatusCode::REQUEST_TIMEOUT, why).into_response())
            }
        }
    }
}
