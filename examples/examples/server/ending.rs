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

/// Ctrl-C, and what a supervisor sends, are listened for from here on; resolves at the first of them.
///
/// To be called before any driver is loaded. Some drivers (those built on LLVM) have handlers of their own, which end the process, or give the
/// signal to whoever had a handler before them. Who comes later calls theirs first.
#[cfg(unix)]
pub(crate) fn listen() -> io::Result<impl Future<Output = ()>> {
    use tokio::signal::unix::{SignalKind, signal};
    let (mut interrupt, mut terminate) = (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
    Ok(async move {
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
    })
}

#[cfg(not(unix))]
pub(crate) fn listen() -> io::Result<impl Future<Output = ()>> {
    Ok(async { tokio::signal::ctrl_c().await.expect("signals can be listened for") })
}
