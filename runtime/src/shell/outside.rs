//! Things outside the engine that hold a group back: a user's future, a kernel that is being built.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use windlass_sync::forked;
use windlass_sync::panics::{catch, contain};

use super::proxy::Signalled;
use super::{Inner, NativeCalls, Signal};
use crate::error::{BoxError, Cause, Error, Kind, Result, UserCode};
use crate::shell::build::{Built, WaitBuilt};
use windlass_engine::NodeId;

/// A user's future that a group waits for.
pub(crate) type Outside = Pin<Box<dyn Future<Output = Result<(), BoxError>> + Send>>;

impl Inner {
    /// Waits for a user's future where user code runs. However it ends, the gate opens.
    pub(crate) fn spawn_outside(
        self: &Arc<Self>,
        node: NodeId,
        future: Outside,
        cancelled: Arc<Signal>,
        runtime: Option<tokio::runtime::Handle>,
    ) {
        let result = Some(Err(Error::new(Kind::RuntimeGone)));
        let gate = Gate { inner: self.clone(), node, is_build: false, result };
        let waiting = Waiting { future: Some(future), cancelled: Signalled::new(cancelled), gate };
        match runtime {
            Some(runtime) => drop(runtime.spawn(waiting)),
            None => self.user.spawn(waiting),
        }
    }

    /// Waits for a build on the executor.
    pub(crate) fn spawn_build_gate(self: &Arc<Self>, node: NodeId, built: Arc<Built>) {
        let inner = self.clone();
        self.gates.spawn(async move {
            let result = WaitBuilt::new(built).await.map(|_| ());
            let mut gate = Gate { inner, node, is_build: true, result: Some(result) };
            gate.open(NativeCalls::Here);
        });
    }
}

/// Opens one gate of a node when it is dropped, after failing the node if need be.
struct Gate {
    inner: Arc<Inner>,
    node: NodeId,
    /// It waits for a kernel to be built.
    is_build: bool,
    result: Option<Result<()>>,
}

impl Gate {
    fn open(&mut self, calls: NativeCalls) {
        let Some(result) = self.result.take() else { return };
        self.inner.enter_with(calls, |state, turn| {
            if let Err(error) = result {
                state.engine.fail(self.node, Cause(error), turn);
            }
            state.engine.open(self.node, turn);
            if self.is_build {
                // Who counted on this build to lead to something looks again: it may have led to nothing.
                state.building -= 1;
                state.look_again = true;
            }
        });
    }
}

impl Drop for Gate {
    fn drop(&mut self) {
        if forked::is_child() {
            return;
        }
        self.open(NativeCalls::Elsewhere);
    }
}

/// The user's future, until it is done, has panicked, its group is cancelled, or its runtime has ended.
struct Waiting {
    future: Option<Outside>,
    cancelled: Signalled,
    gate: Gate,
}

impl Future for Waiting {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let this = self.get_mut();
        if Pin::new(&mut this.cancelled).poll(cx).is_ready() {
            this.gate.result = Some(Ok(()));
            this.drop_future();
            return Poll::Ready(());
        }
        let Some(future) = &mut this.future else { return Poll::Ready(()) };
        let result = match catch(|| future.as_mut().poll(cx)) {
            Ok(Poll::Pending) => return Poll::Pending,
            Ok(Poll::Ready(result)) => result.map_err(|e| Error::user(UserCode::Outside, e)),
            Err(panic) => Err(Error::user_panicked(UserCode::Outside, &panic)),
        };
        this.gate.result = Some(result);
        this.drop_future();
        Poll::Ready(())
    }
}

impl Waiting {
    fn drop_future(&mut self) {
        let future = self.future.take();
        contain(|| drop(future));
    }
}
