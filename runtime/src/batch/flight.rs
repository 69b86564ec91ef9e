//! A batch on its way: gathered, launched, read back, handed out; and launched again in parts if it failed.

use std::ops::Range;
use std::sync::Arc;

use windlass_batching::BatchId;
use windlass_kernel::DeviceCopy;
use windlass_sync::inline;
use windlass_sync::panics::catch;

use super::item::Item;
use super::state::Shared;
use crate::buffer::Buffer;
use crate::error::{Error, Kind, Result, UserCode};

/// The items of one batch, side by side in one buffer, and where their answers go.
#[derive(Debug)]
pub struct Gathered<T: DeviceCopy, U: DeviceCopy> {
    input: Buffer<T>,
    output: Buffer<U>,
    starts: Option<Buffer<u32>>,
    items: usize,
}

impl<T: DeviceCopy, U: DeviceCopy> Gathered<T, U> {
    /// How many items there are.
    pub fn items(&self) -> usize {
        self.items
    }

    /// The items' elements, one item after the other.
    pub fn input(&self) -> &Buffer<T> {
        &self.input
    }

    /// Where the answers go, in the same order. Nothing is in it yet: a kernel that writes all of it takes it with
    /// [`overwrite`](crate::CommandGroup::overwrite).
    pub fn output(&self) -> &Buffer<U> {
        &self.output
    }

    /// Where each item begins in the input, and where the last one ends: one number more than there are items.
    ///
    /// # Panics
    ///
    /// If the batch was not built [`with_starts`](super::BatchBuilder::with_starts).
    pub fn starts(&self) -> &Buffer<u32> {
        self.starts.as_ref().expect("a batch that was built `with_starts`")
    }
}

/// An item in a batch.
#[derive(Debug)]
pub(super) struct Member<T> {
    pub(super) key: usize,
    pub(super) item: Item<T>,
    pub(super) cost: f64,
    /// Its part of the output.
    pub(super) answer: Range<usize>,
}

/// What a batch's failure may cost: one bad item among `n` is found with two launches for each halving, two with four.
fn launches_for(members: usize) -> usize {
    8 + 4 * members.next_power_of_two().ilog2() as usize
}

impl<T: DeviceCopy, U: DeviceCopy> Shared<T, U> {
    /// Launches a batch from here. Its end is seen to where the device's end is noticed: it hands out answers, and nothing else.
    pub(super) fn launch(self: &Arc<Self>, id: BatchId, mut members: Vec<Member<T>>) {
        let flown = self.submit(id, &mut members);
        let shared = self.clone();
        inline::run(async move {
            let outcome = match flown {
                Ok(reading) => reading.await,
                Err(error) => Err(error),
            };
            match outcome {
                Err(error) if members.len() > 1 && is_worth_another(&error) => {
                    shared.landed(id, &members, None);
                    let executor = shared.recipe.queue.core().inner.user.clone();
                    executor.spawn(async move { shared.launch_in_parts(members).await });
                }
                outcome => shared.landed(id, &members, Some(outcome.map(Arc::new))),
            }
        });
    }

    /// Gathers the items and submits their group; the future is of its output on the host.
    fn submit(
        &self,
        id: BatchId,
        members: &mut [Member<T>],
    ) -> Result<impl Future<Output = Result<Vec<U>>> + Send + use<T, U>> {
        let launched = catch(|| {
            let gathered = self.gather(members)?;
            let event = self.recipe.queue.submit(|cg| {
                cg.name(self.recipe.name.clone());
                (self.recipe.launch)(cg, &gathered)
            })?;
            self.flies(id, &event);
            Ok(gathered.output.into_vec())
        });
        launched.unwrap_or_else(|panic| Err(Error::user_panicked(UserCode::Batch, &panic)))
    }

    fn gather(&self, members: &mut [Member<T>]) -> Result<Gathered<T, U>> {
        let lens: Result<Vec<usize>> = members.iter().map(|member| member.item.len()).collect();
        let lens = lens?;
        let mut input = Vec::with_capacity(lens.iter().sum());
        let mut starts = self.recipe.with_starts.then(|| Vec::with_capacity(members.len() + 1));
        let mut answers = 0_usize;
        for (member, len) in members.iter_mut().zip(lens) {
            if let Some(starts) = &mut starts {
                starts.push(place(input.len())?);
            }
            member.item.append_to(&mut input);
            let begin = answers;
            answers = begin.saturating_add((self.recipe.answer_len)(len));
            member.answer = begin..answers;
        }
        if let Some(starts) = &mut starts {
            starts.push(place(input.len())?);
        }
        Ok(Gathered {
            input: Buffer::from(input),
            output: Buffer::new(answers),
            starts: starts.map(Buffer::from),
            items: members.len(),
        })
    }

    /// Finds the items for which a batch failed: halves are launched one after the other, and again what fails.
    async fn launch_in_parts(self: Arc<Self>, mut members: Vec<Member<T>>) {
        let mut left = launches_for(members.len());
        let second = members.split_off(members.len() / 2);
        let mut parts = vec![second, members];
        while let Some(mut part) = parts.pop() {
            let id = self.again(&part);
            left = left.saturating_sub(1);
            let outcome = match self.submit(id, &mut part) {
                Ok(reading) => reading.await,
                Err(error) => Err(error),
            };
            match outcome {
                Err(error) if part.len() > 1 && left > 0 && is_worth_another(&error) => {
                    self.landed(id, &part, None);
                    let second = part.split_off(part.len() / 2);
                    parts.extend([second, part]);
                }
                outcome => self.landed(id, &part, Some(outcome.map(Arc::new))),
            }
        }
    }
}

/// Whether other items might fare better than these did.
fn is_worth_another(error: &Error) -> bool {
    let is_everybodys = error.is_device_lost() || error.is_shut_down() || error.is_runtime_gone() || error.is_cancelled();
    !is_everybodys
}

fn place(element: usize) -> Result<u32> {
    u32::try_from(element)
        .map_err(|_| Error::new(Kind::Invalid(format!("a batch of {element} elements, which starts cannot count: lower `max_bytes`"))))
}
