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

/// As many steps for each element as somebody asked for: what keeps a device busy, and not those who ask.
#[windlass::kernel]
fn stepped(steps: u32, x: &[f32], y: &mut [f32]) {
    let i = global_id(0);
    if i < y.len() {
        let mut value = x[i];
        for _ in 0..steps {
            value = value * 0.999 + 0.001;
        }
        y[i] = value;
    }
}

/// What is computed for each element.
#[derive(Clone, Copy)]
pub(crate) enum Work {
    /// Next to nothing.
    Tripled,
    /// So many steps.
    Stepped(u32),
}

impl Work {
    pub(super) fn launch(
        self,
        cg: &CommandGroup<'_>,
        x: &Buffer<f32>,
        y: &Buffer<f32>,
    ) -> windlass::Result<()> {
        match self {
            Work::Tripled => cg.parallel_for(y.len(), tripled(cg.read(x), cg.overwrite(y))),
            Work::Stepped(steps) => cg.parallel_for(y.len(), stepped(steps, cg.read(x), cg.overwrite(y))),
        }
    }

    fn by_hand(self, x: f32) -> f32 {
        match self {
            Work::Tripled => 3.0 * x,
            Work::Stepped(steps) => (0..steps).fold(x, |value, _| value * 0.999 + 0.001),
        }
    }
}

/// Elements of a request: 1 KiB.
pub(crate) const LEN: usize = 256;

/// Why a request has no answer.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Unanswered {
    /// It was refused, since it could not have been in time.
    NotLetIn,
    /// Its time was over.
    Late,
}

impl From<windlass::Error> for Unanswered {
    fn from(error: windlass::Error) -> Self {
        if error.is_overloaded() { Unanswered::NotLetIn } else { Unanswered::Late }
    }
}

impl From<tokio::time::error::Elapsed> for Unanswered {
    fn from(_: tokio::time::error::Elapsed) -> Self {
        Unanswered::Late
    }
}

/// What became of a request.
pub(crate) type Answered = Result<Vec<f32>, Unanswered>;

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

pub(crate) fn batched(queue: &Queue, work: Work) -> (Batch<f32, f32>, Service) {
    let batch = Batch::<f32, f32>::builder(queue)
        .build(move |cg, batch| work.launch(cg, batch.input(), batch.output()));
    let own = batch.clone();
    let service = move |x: Vec<f32>, until: Option<Instant>| {
        let call = match until {
            Some(deadline) => batch.until(deadline).call(x),
            None => batch.call(x),
        };
        async move { Ok(call.await?.to_vec()) }.boxed()
    };
    (own, Arc::new(service))
}

pub(crate) fn unbatched(queue: &Queue, work: Work) -> Service {
    one_by_one(queue, work, false)
}

/// The same by who awaits the group before its data.
pub(super) fn unbatched_awaited(queue: &Queue, work: Work) -> Service {
    one_by_one(queue, work, true)
}

fn one_by_one(queue: &Queue, work: Work, awaits_group: bool) -> Service {
    let queue = queue.clone();
    Arc::new(move |x, until| {
        let queue = queue.clone();
        let answer = async move {
            let (x, y) = (Buffer::from(x), Buffer::<f32>::new(LEN));
            let event = queue.ready().await.submit(|cg| work.launch(cg, &x, &y))?;
            match awaits_group {
                true => event.await?,
                false => drop(event),
            }
            Ok(y.into_vec().await?)
        };
        in_time(until, answer).boxed()
    })
}

/// What one writes without Windlass, for the host.
pub(crate) fn by_hand(work: Work) -> Service {
    let places = Arc::new(Semaphore::new(256));
    Arc::new(move |x, until| {
        let places = places.clone();
        let answer = async move {
            let _place = places.acquire().await.expect("nobody closes it");
            let (send, receive) = oneshot::channel();
            rayon::spawn(move || drop(send.send(x.iter().map(|x| work.by_hand(*x)).collect())));
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
            queue.submit(|cg| Work::Tripled.launch(cg, &x, &y)).expect("nothing to refuse");
            let all = y.into_vec().await.expect("nothing fails");
            for ((_, send), part) in members.into_iter().zip(all.chunks(LEN)) {
                let _ = send.send(part.to_vec());
            }
        }
    });
    Arc::new(move |x, _| {
        let (answer, answered) = oneshot::channel();
        let _ = send.send((x, answer));
        async move { answered.await.map_err(|_| Unanswered::Late) }.boxed()
    })
}
