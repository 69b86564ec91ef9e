//! A batch as a service of [`tower`](https://docs.rs/tower), behind whatever layers a program has.

use std::task::{Context, Poll};

use tower_service::Service;
use windlass_kernel::DeviceCopy;

use super::{Answer, Batch, Call, Payload};
use crate::error::{Error, Result};

/// Requests are items. It is always ready: what cannot be answered in time is refused when it comes, with the time that it would have
/// taken, which a service that is not ready could not say.
///
/// ```
/// use std::time::Duration;
/// use tower::{Service, ServiceBuilder, ServiceExt};
/// use windlass::batch::Batch;
/// use windlass::prelude::*;
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
/// let queue = Queue::new().await?;
/// let copied = Batch::<f32, f32>::builder(&queue).build(|cg, batch| {
///     cg.copy(&cg.read(batch.input()), &cg.overwrite(batch.output()))
/// });
/// let mut service = ServiceBuilder::new()
///     .concurrency_limit(1000)
///     .timeout(Duration::from_secs(5))
///     .service(copied);
/// let answer = service.ready().await?.call(vec![1.0, 2.0].into()).await?;
/// assert_eq!(answer[..], [1.0, 2.0]);
/// # Ok(())
/// # }
/// ```
impl<T: DeviceCopy, U: DeviceCopy> Service<Payload<T>> for Batch<T, U> {
    type Response = Answer<U>;
    type Error = Error;
    type Future = Call<T, U>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, item: Payload<T>) -> Call<T, U> {
        Batch::call(self, item)
    }
}
