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

/// Ctrl-C, and what a supervisor sends, held back from this thread and those that it starts, which inherit that.
///
/// To be made before there are any. Drivers that are built on LLVM install handlers of their own, which end the process, or give the signal to whoever
/// had a handler before them, for which a thread's stack for signals may be too small. Where no thread takes the signal, no handler is called.
#[cfg(unix)]
pub(crate) struct Signals(nix::sys::signal::SigSet);

#[cfg(unix)]
impl Signals {
    pub(crate) fn hold_back() -> io::Result<Self> {
        use nix::sys::signal::{SigSet, Signal};
        let mut signals = SigSet::empty();
        [Signal::SIGINT, Signal::SIGTERM].into_iter().for_each(|signal| signals.add(signal));
        signals.thread_block()?;
        Ok(Signals(signals))
    }

    /// Resolves at the first of them. A thread waits for it, since none is interrupted.
    pub(crate) fn first(self) -> io::Result<impl Future<Output = ()>> {
        let (tell, told) = oneshot::channel();
        std::thread::Builder::new().name("signals".into()).spawn(move || {
            if self.0.wait().is_ok() {
                let _ = tell.send(());
            }
        })?;
        Ok(async {
            if told.await.is_err() {
                std::future::pending().await
            }
        })
    }
}

#[cfg(not(unix))]
pub(crate) struct Signals;

#[cfg(not(unix))]
impl Signals {
    pub(crate) fn hold_back() -> io::Result<Self> {
        Ok(Signals)
    }

    pub(crate) fn first(self) -> io::Result<impl Future<Output = ()>> {
        Ok(async { tokio::signal::ctrl_c().await.expect("signals can be listened for") })
    }
}
