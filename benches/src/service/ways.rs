//! Ways to answer a request.

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::future::{BoxFuture, FutureExt};
use tokio::sync::{Semaphore, mpsc, oneshot};
use windlass::batch::Batch;
use windlass::prelude::*;

#[windlass::kernel]
fn tripled(x: &[f32], y: &mut [f32]) {
    let i = global_id(0);
    if i < y.len() {
        y[i] = 3.0 * x[i];
    }
}

/// Elements of a request: 1 KiB.
pub(crate) const LEN: usize = 256;

/// What became of a request.
pub(crate) type Answered = Result<Vec<f32>, windlass::Error>;

/// One way to answer a request: its data, and until when the answer is of use.
pub(crate) type Service =
    Arc<dyn Fn(Vec<f32>, Option<Instant>) -> BoxFuture<'static, Answered> + Send + Sync>;

/// Who has no answer by then goes.
pub(crate) async fn in_time<F: Future<Output = Answered>>(until: Option<Instant>, answer: F) -> Answered {
    match until {
        Some(until) => tokio::time::timeout_at(until.into(), answer).await?,
        None => answer.await,
    }
}

pub(crate) fn request(number: usize) -> Vec<f32> {
    vec![number as f32; LEN]
}

pub(crate) fn batched(queue: &Queue, max_items: usize) -> (Batch<f32, f32>, Service) {
    let batch = Batch::<f32, f32>::builder(queue).max_items(max_items).build(|cg, batch| {
        cg.parallel_for(batch.output().len(), tripled(cg.read(batch.input()), cg.overwrite(batch.output())))
    });
    let own = batch.clone();
    (own, asking(batch))
}

pub(super) fn asking(batch: Batch<f32, f32>) -> Service {
    let service = move |x: Vec<f32>, until: Option<Instant>| {
        let call = match until {
            Some(deadline) => batch.until(deadline).call(x),
            None => batch.call(x),
        };
        async move { Ok(call.await?.to_vec()) }.boxed()
    };
    Arc::new(service)
}

pub(crate) fn unbatched(queue: &Queue) -> Service {
    let queue = queue.clone();
    Arc::new(move |x, until| {
        let queue = queue.clone();
        let answer = async move {
            let (x, y) = (Buffer::from(x), Buffer::<f32>::new(LEN));
            queue.ready().await.submit(|cg| cg.parallel_for(LEN, tripled(cg.read(&x), cg.overwrite(&y))))?;
            y.into_vec().await
        };
        in_time(until, answer).boxed()
    })
}

/// What one writes without Windlass, for the host.
pub(crate) fn by_hand() -> Service {
    let places = Arc::new(Semaphore::new(256));
    Arc::new(move |x, until| {
        let places = places.clone();
        let answer = async move {
            let _place = places.acquire().await.expect("nobody closes it");
            let (send, receive) = oneshot::channel();
            rayon::spawn(move || drop(send.send(x.iter().map(|x| 3.0 * x).collect())));
            Ok(receive.await.expect("it is computed"))
        };
        in_time(until, answer).boxed()
    })
}

/// Batches of one size, filled by who comes: the best that a size chosen beforehand does. What does not fill one goes when nobody has come
/// for a millisecond.
pub(super) fn fixed(queue: &Queue, size: usize) -> Service {
    type Asked = (Vec<f32>, oneshot::Sender<Vec<f32>>);
    let (send, mut asked) = mpsc::unbounded_channel::<Asked>();
    let queue = queue.clone();
    tokio::spawn(async move {
        let mut batch: Vec<Asked> = Vec::new();
        loop {
            match tokio::time::timeout(Duration::from_millis(1), asked.recv()).await {
                Ok(Some(one)) => batch.push(one),
                Ok(None) => return,
                Err(_) => {}
            }
            if batch.is_empty() || (batch.len() < size && !asked.is_empty()) {
                continue;
            }
            if batch.len() < size {
                // Those who are about to come.
                tokio::task::yield_now().await;
                if !asked.is_empty() {
                    continue;
                }
            }
            let members = std::mem::take(&mut batch);
            let input: Vec<f32> = members.iter().flat_map(|(x, _)| x.iter().copied()).collect();
            let (len, x) = (input.len(), Buffer::from(input));
            let y = Buffer::<f32>::new(len);
            queue
                .submit(|cg| cg.parallel_for(len, tripled(cg.read(&x), cg.overwrite(&y))))
                .expect("nothing to refuse");
            let all = y.into_vec().await.expect("nothing fails");
            for ((_, send), part) in members.into_iter().zip(all.chunks(LEN)) {
                let _ = send.send(part.to_vec());
            }
        }
    });
    Arc::new(move |x, _| {
        let (answer, answered) = oneshot::channel();
        let _ = send.send((x, answer));
        async move { answered.await.map_err(windlass::Error::other) }.boxed()
    })
}
