//! A batch in front of a service of [`tower`](https://docs.rs/tower): what the device computes for each request comes along with it.

use std::fmt;
use std::task::{Context, Poll};

use futures::future::{BoxFuture, FutureExt};
use tower_layer::Layer;
use tower_service::Service;
use windlass_kernel::DeviceCopy;

use super::{Answer, Batch, Call};
use crate::error::Error;

/// Puts a batch in front of services; see [`Batch::layer`].
#[derive(Clone)]
pub struct BatchLayer<T: DeviceCopy, U: DeviceCopy, F> {
    batch: Batch<T, U>,
    ask: F,
}

/// A service behind a batch; see [`Batch::layer`].
#[derive(Clone)]
pub struct Batched<S, T: DeviceCopy, U: DeviceCopy, F> {
    inner: S,
    layer: BatchLayer<T, U, F>,
}

impl<T: DeviceCopy, U: DeviceCopy> Batch<T, U> {
    /// A layer for services that take a request together with what the device has computed for it. The closure hands in the request's
    /// item, and says on what terms.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tower::{BoxError, Service, ServiceBuilder, ServiceExt};
    /// use windlass::batch::{Answer, Batch};
    /// use windlass::prelude::*;
    ///
    /// struct Asked {
    ///     name: &'static str,
    ///     features: Vec<f32>,
    /// }
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), BoxError> {
    /// let queue = Queue::new().await?;
    /// let scored = Batch::<f32, f32>::builder(&queue).build(|cg, batch| {
    ///     cg.copy(&cg.read(batch.input()), &cg.overwrite(batch.output()))
    /// });
    /// let mut service = ServiceBuilder::new()
    ///     .layer(scored.layer(|scored, asked: &Asked| {
    ///         scored.within(Duration::from_secs(5)).call(&asked.features[..])
    ///     }))
    ///     .service_fn(async |(asked, scores): (Asked, Answer<f32>)| {
    ///         Ok::<_, BoxError>(format!("{}: {}", asked.name, scores[0]))
    ///     });
    /// let told = service.ready().await?.call(Asked { name: "first", features: vec![0.5] }).await?;
    /// assert_eq!(told, "first: 0.5");
    /// # Ok(())
    /// # }
    /// ```
    pub fn layer<R, F>(&self, ask: F) -> BatchLayer<T, U, F>
    where
        F: Fn(&Batch<T, U>, &R) -> Call<T, U> + Clone,
    {
        BatchLayer { batch: self.clone(), ask }
    }
}

impl<S, T: DeviceCopy, U: DeviceCopy, F: Clone> Layer<S> for BatchLayer<T, U, F> {
    type Service = Batched<S, T, U, F>;

    fn layer(&self, inner: S) -> Self::Service {
        Batched { inner, layer: self.clone() }
    }
}

impl<R, S, T, U, F> Service<R> for Batched<S, T, U, F>
where
    R: Send + 'static,
    S: Service<(R, Answer<U>)> + Clone + Send + 'static,
    S::Future: Send,
    S::Error: From<Error>,
    T: DeviceCopy,
    U: DeviceCopy,
    F: Fn(&Batch<T, U>, &R) -> Call<T, U>,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = BoxFuture<'static, Result<S::Response, S::Error>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: R) -> Self::Future {
        let call = (self.layer.ask)(&self.layer.batch, &request);
        // The one that was found ready is the one to call; its clone may not be.
        let clone = self.inner.clone();
        let mut inner = std::mem::replace(&mut self.inner, clone);
        async move {
            let answer = call.await?;
            inner.call((request, answer)).await
        }
        .boxed()
    }
}

impl<T: DeviceCopy, U: DeviceCopy, F> fmt::Debug for BatchLayer<T, U, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BatchLayer").field("batch", &self.batch.name()).finish_non_exhaustive()
    }
}

impl<S: fmt::Debug, T: DeviceCopy, U: DeviceCopy, F> fmt::Debug for Batched<S, T, U, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Batched").field("inner", &self.inner).field("layer", &self.layer).finish()
    }
}
