//! Completion: from the end of a submission to verdicts.

use std::sync::{Arc, mpsc};

use windlass_backend::{BackendError, Completion, Failed, Note, Point};
use windlass_sync::panics::catch;

use crate::error::failed;
use crate::flight::{End, Flight};
use crate::gpu::Gpu;
use crate::inbox::Inbox;
use crate::process_exit;

/// The waiter thread: settles batches, oldest first, until the submitter has ended.
pub(crate) fn wait(gpu: &Gpu, inbox: &Inbox, flights: &mpsc::Receiver<Flight>) {
    for flight in flights {
        let ends = settle(gpu, flight);
        // Before the reports: the submitter can hand over the next batch, and the device does not idle meanwhile.
        inbox.finished();
        tell(ends);
    }
}

/// Blocks until a batch has ended, completes its read-backs, and finds out which groups failed.
fn settle(gpu: &Gpu, Flight { index, mut ends, downloads }: Flight) -> Vec<End> {
    let ended = index.and_then(|index| index.map_or(Ok(()), |index| wait_for(gpu, index)));
    let _inside = process_exit::enter();
    // Whether something failed in a way that a lost device would explain.
    let mut doubtful = ended.is_err();
    match ended {
        Ok(()) => {
            for (at, download) in downloads {
                if let Err(why) = download.finish(gpu) {
                    doubtful = true;
                    ends[at].error.get_or_insert(failed("Buffer::map_async", why));
                }
            }
        }
        Err(error) => ends.iter_mut().for_each(|end| {
            end.error.get_or_insert(error.clone());
        }),
    }
    if ends.iter().any(|end| end.error.is_some()) {
        look_for_loss(gpu, doubtful);
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

/// Blocks until a submission has ended. It waits in slices, and leaves the driver between them, so that an exit of the process
/// is not held up.
fn wait_for(gpu: &Gpu, index: wgpu::SubmissionIndex) -> Result<(), BackendError> {
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
/// (see the crate's documentation). The callbacks that this poll had collected are dropped. Only read-backs have any, and
/// `Download::finish` handles that.
fn poll(gpu: &Gpu, how: wgpu::PollType) -> Result<Result<wgpu::PollStatus, wgpu::PollError>, BackendError> {
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
            let failed = |end: &End| Some(Failed::at(end.point, end.error.clone()?));
            of_lane.iter().filter(|end| end.point <= upto).filter_map(failed).map(Note::from).collect()
        };
        let completion: &Completion = &last.completion;
        completion.settle(last.point, notes);
    }
}
