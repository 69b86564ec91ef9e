//! An end that loses nothing and comes for certain.

use std::io;
use std::time::Duration;

use axum::Router;
use tokio::net::TcpListener;
use tokio::sync::oneshot;

/// Serves until the end is told, takes no more connections then, and answers what was accepted. Clients that have not sent all of what they
/// ask, or do not take all of their answers, get `grace` and no more. Whether everybody was answered.
pub(crate) async fn serve(
    listener: TcpListener,
    app: Router,
    told: impl Future<Output = ()> + Send + 'static,
    grace: Duration,
) -> io::Result<bool> {
    let (begin, begun) = oneshot::channel();
    let end = async move {
        told.await;
        let _ = begin.send(());
    };
    let out_of_time = async {
        let _ = begun.await;
        tokio::time::sleep(grace).await;
    };
    tokio::select! {
        served = axum::serve(listener, app).with_graceful_shutdown(end).into_future() => served.map(|()| true),
        () = out_of_time => Ok(false),
    }
}

/// Ctrl-C, or what a supervisor sends.
pub(crate) async fn told() {
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
