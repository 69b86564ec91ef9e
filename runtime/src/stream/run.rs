//! A stream on its way through a device.

use std::any::type_name;
use std::collections::VecDeque;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

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
    /// The next part, and how many elements come of it.
    next: Option<(Bytes, usize)>,
    /// A place in the queue for it, in whose line the stream stands only while it has nothing to give: one that is polled seldom is
    /// not to keep a place from others.
    place: Option<ReadyOwned>,
    flights: VecDeque<Flight>,
    parts: u64,
    /// What the input ended with, until all that came before it is out.
    input_error: Option<Error>,
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
            next: None,
            place: None,
            flights: VecDeque::new(),
            parts: 0,
            input_error: None,
            failing: None,
            is_over: false,
        }
    }

    /// A part is the next.
    fn send(&mut self, part: Bytes) {
        let outputs = (self.recipe.output_len)(part.len() / size_of::<T>());
        self.next = Some((part, outputs));
    }

    /// A place for the next part, once it is its turn.
    fn poll_place(&mut self, part: &Bytes, outputs: usize, cx: &mut Context<'_>) -> Poll<OwnedSlot> {
        let queue = &self.recipe.queue;
        let place = self.place.get_or_insert_with(|| {
            let bytes = part.len().saturating_add(outputs.saturating_mul(size_of::<U>()));
            queue.ready_owned_for(bytes as u64)
        });
        let slot = ready!(place.poll_unpin(cx));
        self.place = None;
        Poll::Ready(slot)
    }

    fn launch(&mut self, bytes: Bytes, outputs: usize, slot: OwnedSlot) -> Result<Flight> {
        let input = Buffer::<T>::from_bytes(bytes)?;
        let output = Buffer::<U>::new(outputs);
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
        (self.input, self.next, self.place) = (None, None, None);
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
            if let Some((part, outputs)) = self.next.take() {
                let Poll::Ready(slot) = self.poll_place(&part, outputs, cx) else {
                    self.next = Some((part, outputs));
                    return;
                };
                match self.launch(part, outputs, slot) {
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
                // What came before it goes its way.
                Some(Poll::Ready(Some(Err(error)))) => {
                    (self.input, self.input_error) = (None, Some(Error::other(error)));
                }
                Some(Poll::Ready(None)) => self.input = None,
                // Nothing comes just now. While parts are in flight it may yet come before the device is idle.
                Some(Poll::Pending) if !self.flights.is_empty() => return,
                Some(Poll::Pending) | None => match self.carry.rest() {
                    Some(part) => self.send(part),
                    None if more.is_none() => match (self.input_error.take(), self.carry.left()) {
                        (Some(error), _) => self.fail(error),
                        (None, 0) => return,
                        (None, left) => self.fail(cut::<T>(left)),
                    },
                    None => return,
                },
            }
        }
    }
}

impl<S, T: DeviceCopy, U: DeviceCopy> Running<S, T, U> {
    /// The output of the first part that is in flight, or the end.
    fn poll_flights(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes>>> {
        let mut first = Poll::Pending;
        // All of them, also where the first is done: each asks for its output when it is first polled.
        for (at, flight) in self.flights.iter_mut().enumerate() {
            match flight.poll_unpin(cx) {
                Poll::Ready(output) if at == 0 => first = Poll::Ready(Some(output)),
                Poll::Ready(output) => *flight = Box::pin(std::future::ready(output)),
                Poll::Pending => {}
            }
        }
        match first.is_ready() {
            true => drop(self.flights.pop_front()),
            false if self.flights.is_empty() && self.input.is_none() && self.next.is_none() => {
                first = Poll::Ready(self.failing.take().map(Err));
            }
            false => {}
        }
        first
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
        // Until it is known to go on: a closure of the program's that panics on the way ends the stream.
        if std::mem::replace(&mut this.is_over, true) {
            return Poll::Ready(None);
        }
        this.fill(cx);
        let output = this.poll_flights(cx);
        this.is_over = matches!(output, Poll::Ready(None | Some(Err(_))));
        if this.is_over {
            // What is in flight is cancelled.
            this.flights.clear();
            (this.input, this.next) = (None, None);
        }
        if output.is_ready() {
            this.place = None;
        }
        output
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
