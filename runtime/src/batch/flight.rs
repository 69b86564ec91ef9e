//! A batch on its way: gathered, launched, read back, handed out; and launched again in parts if it failed.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;
use std::time::Instant;

use windlass_batching::BatchId;
use windlass_kernel::DeviceCopy;
use windlass_sync::executor::Executor;
use windlass_sync::forked;
use windlass_sync::inline;
use windlass_sync::panics::catch;

use super::answer::{Answer, Output};
use super::coming::Queued;
use super::gathering::Gathering;
use super::payload::Payload;
use super::slot::{Slot, Wants};
use super::state::Shared;
use crate::buffer::Buffer;
use crate::error::{Error, Kind, Result, UserCode};
use crate::host_view::Elements;
use crate::shell::Inner;
use crate::shell::waking::wake_all;

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
    ///
    /// ```
    /// # use windlass::{batch::Batch, prelude::*};
    /// # async fn f() -> windlass::Result<()> {
    /// # let queue = Queue::new().await?;
    /// let batch = Batch::<u32, u32>::builder(&queue).build(|cg, batch| {
    ///     cg.name(format!("{} items of {} bytes", batch.items(), 4 * batch.input().len()));
    ///     cg.copy(&cg.read(batch.input()), &cg.overwrite(batch.output()))
    /// });
    /// assert_eq!(batch.call([5]).await?[0], 5);
    /// # Ok(()) }
    /// # futures::executor::block_on(f()).unwrap();
    /// ```
    pub fn items(&self) -> usize {
        self.items
    }

    /// The items' elements, one item after the other.
    ///
    /// ```
    /// # use windlass::{batch::Batch, prelude::*};
    /// # async fn f() -> windlass::Result<()> {
    /// # let queue = Queue::new().await?;
    /// // What is to be done for each element needs nothing else.
    /// let batch = Batch::<u32, u32>::builder(&queue).build(|cg, batch| {
    ///     assert_eq!(batch.input().len(), batch.output().len());
    ///     cg.copy(&cg.read(batch.input()), &cg.overwrite(batch.output()))
    /// });
    /// assert_eq!(batch.call([1, 2]).await?[..], [1, 2]);
    /// # Ok(()) }
    /// # futures::executor::block_on(f()).unwrap();
    /// ```
    pub fn input(&self) -> &Buffer<T> {
        &self.input
    }

    /// Where the answers go, in the same order. Nothing is in it yet: a kernel that writes all of it takes it with
    /// [`overwrite`](crate::CommandGroup::overwrite).
    ///
    /// ```
    /// # use windlass::{batch::Batch, prelude::*};
    /// # async fn f() -> windlass::Result<()> {
    /// # let queue = Queue::new().await?;
    /// let batch = Batch::<u8, u32>::builder(&queue).answers_of(|_| 2).build(|cg, batch| {
    ///     assert_eq!(batch.output().len(), 2 * batch.items());
    ///     cg.fill(&cg.overwrite(batch.output()), 7)
    /// });
    /// assert_eq!(batch.call(vec![0; 100]).await?[..], [7, 7]);
    /// # Ok(()) }
    /// # futures::executor::block_on(f()).unwrap();
    /// ```
    pub fn output(&self) -> &Buffer<U> {
        &self.output
    }

    /// Where each item begins in the input, and where the last one ends: one number more than there are items.
    ///
    /// # Panics
    ///
    /// If the batch was not built [`with_starts`](super::BatchBuilder::with_starts).
    ///
    /// ```
    /// # use windlass::{batch::Batch, prelude::*};
    /// # async fn f() -> windlass::Result<()> {
    /// # let queue = Queue::new().await?;
    /// #[windlass::kernel]
    /// fn firsts(starts: &[u32], x: &[u32], firsts: &mut [u32]) {
    ///     let i = global_id(0);
    ///     if i < firsts.len() {
    ///         firsts[i] = x[starts[i] as usize];
    ///     }
    /// }
    ///
    /// let batch = Batch::<u32, u32>::builder(&queue).with_starts().answers_of(|_| 1).build(|cg, batch| {
    ///     let (starts, x) = (cg.read(batch.starts()), cg.read(batch.input()));
    ///     cg.parallel_for(batch.items(), firsts(starts, x, cg.overwrite(batch.output())))
    /// });
    /// let (a, b) = futures::join!(batch.call([5, 6, 7]), batch.call([8]));
    /// assert_eq!((a?[0], b?[0]), (5, 8));
    /// # Ok(()) }
    /// # futures::executor::block_on(f()).unwrap();
    /// ```
    pub fn starts(&self) -> &Buffer<u32> {
        self.starts.as_ref().expect("a batch that was built `with_starts`")
    }
}

/// An item in a batch.
pub(super) struct Member<T, U: DeviceCopy> {
    /// Until it is answered.
    pub(super) slot: Option<Arc<Slot<T, U>>>,
    pub(super) item: Payload<T>,
    pub(super) cost: f64,
    /// Its part of the output.
    pub(super) answer: Range<usize>,
}

/// Nobody waits for ever: a member that is dropped without an answer, because something has panicked, has one now.
impl<T, U: DeviceCopy> Drop for Member<T, U> {
    fn drop(&mut self) {
        if let Some(slot) = self.slot.take().filter(|_| !forked::is_child()) {
            wake_all(slot.answer(Err(Error::new(Kind::Cancelled)), self.item.take()));
        }
    }
}

/// A batch that has ended, and what each of its items gets.
pub(super) struct Landing<T, U: DeviceCopy> {
    members: Vec<Member<T, U>>,
    pub(super) since: Instant,
    answers: Result<Arc<Output<U>>>,
}

impl<T: DeviceCopy, U: DeviceCopy> Landing<T, U> {
    pub(super) fn hand_out(self) {
        for mut member in self.members {
            let answer = self.answers.clone().map(|all| Answer::new(all, member.answer.clone()));
            if let Some(slot) = member.slot.take() {
                wake_all(slot.answer(answer, member.item.take()));
            }
        }
    }

    /// In parts that different threads may hand out.
    fn in_parts(mut self) -> Vec<Self> {
        let mut parts = Vec::with_capacity(self.members.len().div_ceil(AT_A_TIME));
        while self.members.len() > AT_A_TIME {
            let members = self.members.split_off(self.members.len() - AT_A_TIME);
            parts.push(Landing { members, since: self.since, answers: self.answers.clone() });
        }
        parts.push(self);
        // Who came first is answered first.
        parts.reverse();
        parts
    }
}

/// So many answers are handed out by whoever notices the batch's end: to get somebody else to do it takes longer.
const FEW: usize = 4;

/// So many answers are handed out by one thread. What each takes is mostly to reach what another thread has in its caches.
const AT_A_TIME: usize = 32;

/// Bytes that are gathered where the batch closes. More keep a thread too long that has other things to do.
const SMALL: usize = 256 << 10;

/// So many launches of several items may fail in a row: with one bad item among `n` there are two for each halving, of which one goes well. Where
/// none does for so long it is most likely nothing about single items, and what there is by then is not halved any more, until a launch goes well.
fn failures_for(members: usize) -> usize {
    8 + 4 * members.next_power_of_two().ilog2() as usize
}

impl<T: DeviceCopy, U: DeviceCopy> Shared<T, U> {
    /// Launches a batch. Its end is seen to where the device's end is noticed.
    pub(super) fn launch(self: &Arc<Self>, id: BatchId, queued: Vec<Queued<T, U>>) {
        let (members, wants) = Self::take_off(queued);
        if members.is_empty() {
            // All of them have gone since it was closed.
            return self.ended(id, false, Vec::new());
        }
        let bytes: usize = members.iter().map(|member| member.item.bytes()).sum();
        let shared = self.clone();
        match bytes <= SMALL {
            true => inline::run(shared.fly(id, members, wants)),
            false => self.executor().spawn(async move { inline::run(shared.fly(id, members, wants)) }),
        }
    }

    /// For what users' code runs in, and for what takes long.
    pub(super) fn executor(&self) -> &Executor {
        &self.recipe.queue.core().inner.user
    }

    async fn fly(self: Arc<Self>, id: BatchId, mut members: Vec<Member<T, U>>, wants: Arc<Wants>) {
        let outcome = self.outcome(&mut members, &wants).await;
        match outcome {
            Err(error) if members.len() > 1 && is_worth_another(&error) => {
                self.ended(id, false, Vec::new());
                self.executor().clone().spawn(self.launch_in_parts(members));
            }
            outcome => self.land(id, members, outcome),
        }
    }

    fn land(&self, id: BatchId, members: Vec<Member<T, U>>, outcome: Result<Elements<U>>) {
        let is_ok = outcome.is_ok();
        let landing = Landing {
            members,
            since: Instant::now(),
            answers: outcome.map(|all| Arc::new(Output::new(all))),
        };
        if landing.members.len() > FEW {
            return self.ended(id, is_ok, landing.in_parts());
        }
        self.ended(id, is_ok, Vec::new());
        landing.hand_out();
    }

    /// Gathers the items and submits their group, here; then waits for its output.
    async fn outcome(&self, members: &mut [Member<T, U>], wants: &Wants) -> Result<Elements<U>> {
        let launched = catch(|| {
            let gathered = self.gather(members)?;
            let event = self.recipe.queue.submit(|cg| {
                cg.name(self.recipe.name.clone());
                (self.recipe.launch)(cg, &gathered)
            })?;
            wants.flies(&event);
            // The host's access to nothing waits for nobody.
            let alone = gathered.output.is_empty().then_some(event);
            Ok((gathered.output.into_elements(), alone))
        });
        let launched = launched.unwrap_or_else(|panic| Err(Error::user_panicked(UserCode::Batch, &panic)));
        let (reading, alone) = launched?;
        if let Some(event) = alone {
            event.await?;
        }
        reading.await
    }

    fn gather(&self, members: &mut [Member<T, U>]) -> Result<Gathered<T, U>> {
        let lens: Result<Vec<usize>> = members.iter().map(|member| member.item.len()).collect();
        let lens = lens?;
        let inner = &self.recipe.queue.core().inner;
        let mut input = Gathering::with_capacity(lens.iter().sum(), self.recipe.gathered_in.as_ref(), inner);
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
        // The program's own code was called, which may have forked the process.
        Inner::check_process()?;
        Ok(Gathered {
            input: input.into_buffer(),
            output: Buffer::new(answers),
            starts: starts.map(Buffer::from),
            items: members.len(),
        })
    }

    /// Finds the items for which a batch failed: halves are launched one after the other, and again what fails. Parts are taken from
    /// both ends by turns, and the halves of one go where it was taken from. So it shows soon that it is not all of them that fail: where bad items
    /// are here and there, by the small parts at one end, and where they are side by side by large ones at the other.
    async fn launch_in_parts(self: Arc<Self>, mut members: Vec<Member<T, U>>) {
        let most = failures_for(members.len());
        let mut left = most;
        let second = members.split_off(members.len() / 2);
        let mut parts = VecDeque::from([second, members]);
        let mut is_last = false;
        loop {
            is_last = !is_last;
            let part = if is_last { parts.pop_back() } else { parts.pop_front() };
            let Some(mut part) = part else { break };
            let wants = Arc::new(Wants::default());
            part.retain(|member| member.slot.as_ref().is_some_and(|slot| slot.change_to(&wants)));
            if part.is_empty() {
                continue;
            }
            wants.come(part.len());
            let id = self.again(&part);
            let outcome = self.outcome(&mut part, &wants).await;
            left = if outcome.is_ok() { most } else { left.saturating_sub(usize::from(part.len() > 1)) };
            match outcome {
                Err(error) if part.len() > 1 && left > 0 && is_worth_another(&error) => {
                    self.ended(id, false, Vec::new());
                    let second = part.split_off(part.len() / 2);
                    match is_last {
                        true => parts.extend([second, part]),
                        false => [part, second].into_iter().for_each(|part| parts.push_front(part)),
                    }
                }
                outcome => self.land(id, part, outcome),
            }
        }
    }
}

/// Whether other items might fare better than these did.
fn is_worth_another(error: &Error) -> bool {
    let is_everybodys =
        error.is_device_lost() || error.is_shut_down() || error.is_runtime_gone() || error.is_cancelled();
    !is_everybodys
}

fn place(element: usize) -> Result<u32> {
    let too_many = |_| {
        Error::invalid(format!("a batch of {element} elements, which starts cannot count: lower `max_bytes`"))
    };
    u32::try_from(element).map_err(too_many)
}
