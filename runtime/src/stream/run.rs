//! A stream on its way through a device.

use std::any::type_name;
use std::collections::VecDeque;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use futures::stream::FusedStream;
use futures::{FutureExt, Stream};
use windlass_kernel::DeviceCopy;

use super::carry::Carry;
use super::{Part, Recipe};
use crate::buffer::Buffer;
use crate::error::{BoxError, Error, Result};
use crate::queue::{OwnedSlot, ReadyOwned};

/// The output of a [`Pipe`](super::Pipe), as a stream of bytes. It works while it is polled.
#[must_use = "streams do nothing unless polled"]
pub struct Running<S, T: DeviceCopy, U: DeviceCopy> {
    recipe: Arc<Recipe<T, U>>,
    /// Until it has ended.
    input: Option<Pin<Box<S>>>,
    carry: Carry,
    /// The next part, while it waits for a place in the queue.
    waiting: Option<(Bytes, ReadyOwned)>,
    flights: VecDeque<Flight>,
    parts: u64,
    /// What ends the stream, once all that came before it is out.
    failing: Option<Error>,
    is_over: bool,
}

/// A part that was submitted: its output, once it is there.
type Flight = Pin<Box<dyn Future<Output = Result<Bytes>> + Send>>;

impl<S, T: DeviceCopy, U: DeviceCopy> Running<S, T, U> {
    pub(super) fn new(recipe: Arc<Recipe<T, U>>, input: S) -> Self {
        Running {
            carry: Carry::new(size_of::<T>(), recipe.part),
            recipe,
            input: Some(Box::pin(input)),
            waiting: None,
            flights: VecDeque::new(),
            parts: 0,
            failing: None,
            is_over: false,
        }
    }

    /// Has a part wait for its place.
    fn send(&mut self, part: Bytes) {
        let outputs = (self.recipe.output_len)(part.len() / size_of::<T>());
        let bytes = part.len().saturating_add(outputs.saturating_mul(size_of::<U>()));
        let ready = self.recipe.queue.ready_owned_for(bytes as u64);
        self.waiting = Some((part, ready));
    }

    fn launch(&mut self, bytes: Bytes, slot: OwnedSlot) -> Result<Flight> {
        let input = Buffer::<T>::from_bytes(bytes)?;
        let output = Buffer::<U>::new((self.recipe.output_len)(input.len()));
        let part = Part { index: self.parts, input, output };
        self.parts += 1;
        let recipe = &self.recipe;
        let group = slot.submit(|cg| (recipe.launch)(cg, &part))?.cancel_on_drop();
        let output = part.output.into_bytes();
        Ok(Box::pin(async move {
            // The output is asked for at once, and so is on its way before anybody here hears that the group has ended.
            match output.await {
                Ok(bytes) => Ok(bytes),
                // The group's own error says more than that of who reads what it was to write.
                Err(error) => Err(group.await.err().unwrap_or(error)),
            }
        }))
    }

    /// The stream ends with this, behind what is in flight.
    fn fail(&mut self, error: Error) {
        self.failing.get_or_insert(error);
        (self.input, self.waiting) = (None, None);
    }
}

impl<S, E, T: DeviceCopy, U: DeviceCopy> Running<S, T, U>
where
    S: Stream<Item = std::result::Result<Bytes, E>>,
    E: Into<BoxError>,
{
    /// Submits what can be, and asks for more where there is room. Whatever it waits for afterwards has the waker.
    fn fill(&mut self, cx: &mut Context<'_>) {
        while self.failing.is_none() {
            if let Some((part, mut ready)) = self.waiting.take() {
                let Poll::Ready(slot) = ready.poll_unpin(cx) else {
                    self.waiting = Some((part, ready));
                    return;
                };
                match self.launch(part, slot) {
                    Ok(flight) => self.flights.push_back(flight),
                    Err(error) => self.fail(error),
                }
            }
            if self.flights.len() >= self.recipe.in_flight {
                return;
            }
            if let Some(part) = self.carry.part() {
                self.send(part);
                continue;
            }
            let more = self.input.as_mut().map(|input| input.as_mut().poll_next(cx));
            match more {
                Some(Poll::Ready(Some(Ok(bytes)))) => self.carry.push(bytes),
                Some(Poll::Ready(Some(Err(error)))) => self.fail(Error::other(error)),
                Some(Poll::Ready(None)) => self.input = None,
                // Nothing comes just now. While parts are in flight it may yet come before the device is idle.
                Some(Poll::Pending) if !self.flights.is_empty() => return,
                Some(Poll::Pending) | None => match self.carry.rest() {
                    Some(part) => self.send(part),
                    None if more.is_none() && self.carry.left() > 0 => self.fail(cut::<T>(self.carry.left())),
                    None => return,
                },
            }
        }
    }
}

/// The input has ended inside an element.
fn cut<T>(left: usize) -> Error {
    Error::invalid(format!(
        "a stream of elements of `{}`, which have {} bytes each, that ends with {left} bytes of one",
        type_name::<T>(),
        size_of::<T>()
    ))
}

impl<S, E, T: DeviceCopy, U: DeviceCopy> Stream for Running<S, T, U>
where
    S: Stream<Item = std::result::Result<Bytes, E>>,
    E: Into<BoxError>,
{
    type Item = Result<Bytes>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes>>> {
        let this = &mut *self;
        if this.is_over {
            return Poll::Ready(None);
        }
        this.fill(cx);
        // All of them: each asks for its output when it is first polled.
        let mut done = None;
        for (at, flight) in this.flights.iter_mut().enumerate() {
            match flight.poll_unpin(cx) {
                Poll::Ready(output) if at == 0 => {
                    done = Some(output);
                    break;
                }
                Poll::Ready(output) => *flight = Box::pin(std::future::ready(output)),
                Poll::Pending => {}
            }
        }
        let Some(output) = done else {
            let is_done = this.flights.is_empty() && this.input.is_none() && this.waiting.is_none();
            if !is_done {
                return Poll::Pending;
            }
            this.is_over = true;
            return Poll::Ready(this.failing.take().map(Err));
        };
        this.flights.pop_front();
        if output.is_err() {
            // What is in flight behind it is cancelled.
            this.flights.clear();
            (this.input, this.waiting, this.is_over) = (None, None, true);
        }
        Poll::Ready(Some(output))
    }
}

impl<S, E, T: DeviceCopy, U: DeviceCopy> FusedStream for Running<S, T, U>
where
    S: Stream<Item = std::result::Result<Bytes, E>>,
    E: Into<BoxError>,
{
    fn is_terminated(&self) -> bool {
        self.is_over
    }
}

impl<S, T: DeviceCopy, U: DeviceCopy> fmt::Debug for Running<S, T, U> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Running { flights, parts, is_over, .. } = self;
        let mut shown = f.debug_struct("Running");
        shown.field("parts", parts).field("in_flight", &flights.len()).field("is_over", is_over).finish()
    }
}
