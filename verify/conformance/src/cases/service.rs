//! What services are made of: items that are gathered in batches, and bytes that stream through.

use std::sync::{Arc, Mutex, PoisonError};

use futures::future::join_all;
use futures::{StreamExt, stream};
use windlass::batch::{Batch, Gathered};
use windlass::bytes::Bytes;
use windlass::stream::Pipe;
use windlass::{Buffer, CommandGroup, Result};

use super::steps::{counted, holds};
use crate::check::{Latch, Opened, Verdict, latch, refused};
use crate::subject::Subject;
use crate::{ensure, ensure_eq};

/// Copies what was gathered, and adds one to all of it.
fn add_one(s: &Subject, cg: &CommandGroup<'_>, batch: &Gathered<u32, u32>) -> Result<()> {
    let len = batch.output().len();
    let (from, to) = (cg.read(batch.input()), cg.overwrite(batch.output()));
    cg.parallel_for(len, s.call("copy").buffer(from).buffer(&to))?;
    cg.parallel_for(len, s.call("increment").buffer(to))
}

/// What the next launch waits for, so that items come together behind it however fast the device is.
#[derive(Default)]
struct Held(Mutex<Option<Opened>>);

impl Held {
    fn next(&self) -> Latch {
        let (latch, opened) = latch();
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(opened);
        latch
    }

    fn back(&self, cg: &CommandGroup<'_>) {
        let opened = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        opened.into_iter().for_each(|opened| cg.after(opened));
    }
}

/// Items of one element and of thousands, in batches small and large: what is gathered goes to the device in every way that there is.
pub(super) async fn items_of_a_batch_have_their_own_answers(s: &Subject) -> Verdict {
    let (own, opened) = (s.clone(), Arc::new(Held::default()));
    let held = opened.clone();
    let batch = Batch::builder(&s.home).build(move |cg, batch| {
        held.back(cg);
        add_one(&own, cg, batch)
    });
    for round in 0..6_u32 {
        let len = |item: u32| if item % 10 == 9 { 6_000 + 100 * round } else { item % 7 };
        let items: Vec<_> = (0..60).map(|item| counted(1_000 * (item + round), len(item) as usize)).collect();
        let gate = opened.next();
        let calls: Vec<_> = items.iter().map(|item| batch.call(item.clone())).collect();
        gate.open();
        let answers = join_all(calls).await;
        for (item, answer) in items.iter().zip(answers) {
            let right = item.iter().map(|x| x + 1);
            ensure!(answer?.iter().copied().eq(right), "round {round}, an item of {}", item.len());
        }
    }
    let stats = batch.stats();
    ensure_eq!((stats.items, stats.waiting, stats.in_flight), (360, 0, 0));
    ensure!(stats.batches <= 6 * 3, "the items of a round are the first and the others: {stats:?}");
    Ok(())
}

/// Its batch fails after the items have been moved; the others are tried again without it.
pub(super) async fn a_bad_item_of_a_batch_fails_alone(s: &Subject) -> Verdict {
    /// As many elements as only the bad item has.
    const BAD: usize = 5_000;
    let (own, opened) = (s.clone(), Arc::new(Held::default()));
    let held = opened.clone();
    let batch = Batch::builder(&s.home).build(move |cg, batch| {
        held.back(cg);
        let is_bad = batch.input().len() >= BAD;
        cg.after(async move { if is_bad { Err(windlass::Error::other("a bad item")) } else { Ok(()) } });
        add_one(&own, cg, batch)
    });
    let gate = opened.next();
    let items = (0..64_u32).map(|item| counted(item, if item == 40 { BAD } else { 1 + item as usize }));
    let calls: Vec<_> = items.map(|item| batch.call(item)).collect();
    gate.open();
    let answers = join_all(calls).await;
    for (item, answer) in answers.into_iter().enumerate() {
        match item {
            40 => ensure!(refused(answer)?.to_string().contains("a bad item")),
            _ => ensure_eq!(answer?.to_vec(), counted(item as u32 + 1, 1 + item)),
        }
    }
    ensure!(batch.stats().retried > 0, "it was alone from the beginning: {:?}", batch.stats());
    Ok(())
}

/// Groups before a batch and behind it, on this queue and another context's, are ordered by what it uses beside its items.
pub(super) async fn batches_are_ordered_by_their_data(s: &Subject) -> Verdict {
    let shared = Buffer::<u32>::new(64);
    s.count(&s.away, &shared, 10)?;
    let (own, used) = (s.clone(), shared.clone());
    let batch = Batch::<u32, u32>::builder(&s.home).build(move |cg, batch| {
        cg.parallel_for(64, own.call("increment").buffer(cg.read_write(&used)))?;
        add_one(&own, cg, batch)
    });
    for _ in 0..20 {
        ensure_eq!(batch.call(vec![6; 9]).await?.to_vec(), [7; 9]);
        s.increment(&s.away, &shared)?;
    }
    holds(&shared, &counted(10 + 40, 64)).await
}

/// Pieces that are no whole elements, parts that are on their way at the same time, and a last one that is short.
pub(super) async fn bytes_stream_through_in_order(s: &Subject) -> Verdict {
    let own = s.clone();
    let pipe = Pipe::<u32, u32>::builder(&s.home).part(1_000).in_flight(3).build(move |cg, part| {
        let len = part.output().len();
        let (from, to) = (cg.read(part.input()), cg.overwrite(part.output()));
        cg.parallel_for(len, own.call("copy").buffer(from).buffer(&to))?;
        cg.parallel_for(len, own.call("increment").buffer(to))
    });
    let bytes_of =
        |base: u32| counted(base, 20_321).into_iter().flat_map(u32::to_ne_bytes).collect::<Vec<u8>>();
    let sent = bytes_of(5);
    let pieces: Vec<_> =
        sent.chunks(3_001).map(|piece| Ok::<_, windlass::Error>(Bytes::copy_from_slice(piece))).collect();
    let come: Vec<_> = pipe.run(stream::iter(pieces)).collect().await;
    let come: Vec<Bytes> = come.into_iter().collect::<Result<_>>()?;
    ensure!(come.concat() == bytes_of(6), "{} bytes came for {}", come.concat().len(), sent.len());
    Ok(())
}

/// What came before it comes out, it comes out, and nothing behind it does.
pub(super) async fn a_stream_ends_with_its_first_failed_part(s: &Subject) -> Verdict {
    let pipe = Pipe::<u32, u32>::builder(&s.home).part(100).build(|cg, part| {
        let is_bad = part.index() == 7;
        cg.after(async move { if is_bad { Err(windlass::Error::other("a bad part")) } else { Ok(()) } });
        cg.copy(&cg.read(part.input()), &cg.overwrite(part.output()))
    });
    let sent: Vec<u8> = counted(0, 2_000).into_iter().flat_map(u32::to_ne_bytes).collect();
    let piece = Ok::<_, windlass::Error>(Bytes::from(sent.clone()));
    let mut come: Vec<_> = pipe.run(stream::iter([piece])).collect().await;
    let error = refused(come.pop().unwrap_or_else(|| Ok(Bytes::new())))?;
    ensure!(error.to_string().contains("a bad part"), "{error}");
    let come: Vec<Bytes> = come.into_iter().collect::<Result<_>>()?;
    ensure!(come.concat() == sent[..7 * 400], "{} bytes came before it", come.concat().len());
    Ok(())
}
