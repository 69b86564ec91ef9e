//! Completion: from the end of a submission to verdicts.

use std::hint;
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use windlass_backend::{BackendError, Completion, Failed, Note, Point, Timed};
use windlass_sync::panics::catch;

use crate::encode::Download;
use crate::error::failed;
use crate::flight::{End, Flight, Notice};
use crate::gpu::Gpu;
use crate::inbox::Inbox;
use windlass_sync::process_exit;

/// How long the waiter asks without a pause whether a batch has ended, and how long it looks for the next one. To wake a thread that
/// sleeps takes as long. Only where it is not the processor's own cores that it keeps busy.
const SPIN: Duration = Duration::from_micros(40);

/// The same of a batch that an idle device is given: a device that has slept takes nearly as long for it, and a thread that slept
/// meanwhile would come late by a third of that. A busy device is not asked for so long, since who submits waits for the answers.
const SPIN_WHEN_IDLE: Duration = Duration::from_micros(200);

/// The waiter thread: settles batches, oldest first, until nothing is submitted any more.
pub(crate) fn wait(gpu: &Gpu, inbox: &Inbox, notices: &mpsc::Receiver<Notice>) {
    while let Some((flight, long)) = next(gpu, notices) {
        let ends = settle(gpu, flight, long);
        // Before the reports: the submitter can hand over the next batch, and the device does not idle meanwhile.
        inbox.finished();
        tell(ends);
    }
}

/// The next batch, for which the thread lingers before it sleeps, and for how long to ask whether it has ended.
fn next(gpu: &Gpu, notices: &mpsc::Receiver<Notice>) -> Option<(Flight, Duration)> {
    let mut long = SPIN;
    loop {
        let lingering = spin(gpu, long, || notices.try_recv().ok());
        match lingering.or_else(|| notices.recv().ok())? {
            Notice::Soon => long = SPIN_WHEN_IDLE,
            Notice::Flight(flight) => return Some((*flight, long)),
        }
    }
}

/// Asks again and again, for so long.
fn spin<T>(gpu: &Gpu, long: Duration, mut ask: impl FnMut() -> Option<T>) -> Option<T> {
    if !gpu.is_real {
        return None;
    }
    let begun = Instant::now();
    loop {
        match ask() {
            None if begun.elapsed() < long => hint::spin_loop(),
            answer => return answer,
        }
    }
}

/// Blocks until a batch has ended, completes its read-backs, and finds out which groups failed.
fn settle(gpu: &Gpu, flight: Flight, long: Duration) -> Vec<End> {
    let Flight { index, mut ends, downloads, times, stage } = flight;
    let ended = index.and_then(|index| index.map_or(Ok(()), |index| wait_for(gpu, index, long)));
    let _inside = process_exit::enter();
    match &ended {
        Ok(()) => {
            downloads.iter().for_each(Download::finish);
            drop(downloads);
            let found = times.iter().flat_map(|times| times.all(gpu));
            found.for_each(|(at, times)| ends[at].times = Some(times));
            drop(times);
            gpu.spare.take_back(stage);
        }
        // The device may still use its staging, which goes with the submission.
        Err(error) => ends.iter_mut().for_each(|end| {
            end.error.get_or_insert(error.clone());
        }),
    }
    if ends.iter().any(|end| end.error.is_some()) {
        look_for_loss(gpu, ended.is_err());
    }
    if let Some(error) = gpu.faults.lost() {
        // wgpu silently drops what is submitted to a lost device, so even groups that seem to have succeeded may not have run.
        ends.iter_mut().for_each(|end| end.error = Some(error.clone()));
    } else if let Some(stray) = gpu.faults.take_stray() {
        // There is no telling which group caused it. Failing groups that did nothing wrong is better than hiding an error.
        ends.iter_mut().for_each(|end| {
            end.error.get_or_insert(stray.clone());
        });
    }
    ends
}

/// Blocks until a submission has ended: asks for so long, and then sleeps. It waits in slices, and leaves the driver between them,
/// so that an exit of the process is not held up.
fn wait_for(gpu: &Gpu, index: wgpu::SubmissionIndex, long: Duration) -> Result<(), BackendError> {
    // Whether the queue is empty can be asked for less than whether this submission has ended, and without the panic that waiting
    // may meet (see `poll`). Where another is behind it this finds nothing: then the device has work, and there is no hurry.
    let emptied = spin(gpu, long, || match poll(gpu, wgpu::PollType::Poll) {
        Ok(Ok(wgpu::PollStatus::QueueEmpty)) => Some(Ok(())),
        Ok(_) => None,
        Err(error) => Some(Err(error)),
    });
    if let Some(ended) = emptied {
        return ended;
    }
    loop {
        let wait = wgpu::PollType::Wait {
            submission_index: Some(index.clone()),
            timeout: Some(process_exit::SLICE),
        };
        match poll(gpu, wait)? {
            Ok(_) => return Ok(()),
            Err(wgpu::PollError::Timeout) => {}
            Err(error) => return Err(failed("Device::poll", error.to_string())),
        }
    }
}

/// After a failure, wgpu may know of a loss that it reports only from within a poll; if the failure is one that a loss would
/// explain, only from a poll that finds the queue empty.
fn look_for_loss(gpu: &Gpu, doubtful: bool) {
    let how = if doubtful { wgpu::PollType::wait_indefinitely() } else { wgpu::PollType::Poll };
    // The poll's own outcome adds nothing to the failure.
    let _ = poll(gpu, how);
}

/// Polls. wgpu panics if the driver fails in this call, which means that the device is gone.
///
/// It also panics when a wait has just timed out, the submission ends at that moment, and another thread's poll (each
/// `Queue::submit` has one) settles it first: a "this should never be hit" of wgpu's compares the old state of the fence with
/// the new state of the queue. That panic is spurious. It is fixed in the release after 30.0.1, with which this can be removed
/// (see the crate's documentation). There are no callbacks that it could lose.
pub(crate) fn poll(
    gpu: &Gpu,
    how: wgpu::PollType,
) -> Result<Result<wgpu::PollStatus, wgpu::PollError>, BackendError> {
    let _inside = process_exit::enter();
    catch(|| gpu.device.poll(how)).or_else(|panic| {
        if overtaken(panic.message()) {
            return Ok(Err(wgpu::PollError::Timeout));
        }
        gpu.faults.lose("the driver failed in Device::poll");
        Err(BackendError::Lost("the driver failed in Device::poll".into()))
    })
}

/// Whether this panic only means that another thread's poll was faster.
fn overtaken(message: &str) -> bool {
    message.starts_with("If the queue is empty, the current submission index")
}

/// Settles the points of a batch, one report for each run of groups of one lane.
fn tell(ends: Vec<End>) {
    // Each device has one lane as a rule, so runs of neighbours are whole batches.
    let same = |a: &End, b: &End| Arc::ptr_eq(&a.completion, &b.completion);
    for of_lane in ends.chunk_by(same) {
        let [.., last] = of_lane else { continue };
        let notes = |upto: Point| {
            let note = |end: &End| match (&end.error, end.times) {
                (Some(error), _) => Some(Failed::at(end.point, error.clone()).into()),
                (None, times) => times.map(|[started, ended]| Timed::new(end.point, started, ended).into()),
            };
            of_lane.iter().filter(|end| end.point <= upto).filter_map(note).collect::<Vec<Note>>()
        };
        let completion: &Completion = &last.completion;
        completion.settle(last.point, notes);
    }
}
