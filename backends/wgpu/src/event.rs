//! Completion: from the end of a submission to verdicts.

use std::sync::{Arc, mpsc};

use windlass_backend::{BackendError, Completion, Failed, Note, Point};
use windlass_sync::panics::catch;

use crate::error::failed;
use crate::exit;
use crate::flight::{End, Flight};
use crate::gpu::Gpu;
use crate::submit::Inbox;

/// The waiter thread: settles batches, oldest first, until the submitter is gone.
pub(crate) fn wait(gpu: &Gpu, inbox: &Inbox, flights: &mpsc::Receiver<Flight>) {
    for flight in flights {
        let ends = settle(gpu, flight);
        // Room for the next batch first: the device should not idle while the host is told.
        inbox.finished();
        tell(ends);
    }
}

/// Blocks until a batch has ended, and finds out how.
fn settle(gpu: &Gpu, Flight { index, mut ends, downloads }: Flight) -> Vec<End> {
    let ended = index.and_then(|index| index.map_or(Ok(()), |index| wait_for(gpu, index)));
    let _inside = exit::enter();
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
        // wgpu drops what is submitted to a lost device, and says nothing; so nothing here can be trusted.
        ends.iter_mut().for_each(|end| end.error = Some(error.clone()));
    } else if let Some(stray) = gpu.faults.take_stray() {
        // Whose error it is cannot be known, and to lose it would be worse than to blame too many.
        ends.iter_mut().for_each(|end| {
            end.error.get_or_insert(stray.clone());
        });
    }
    ends
}

/// Blocks until a submission has ended, in slices, so as not to be inside the driver when the process exits.
fn wait_for(gpu: &Gpu, index: wgpu::SubmissionIndex) -> Result<(), BackendError> {
    loop {
        let wait = wgpu::PollType::Wait { submission_index: Some(index.clone()), timeout: Some(exit::SLICE) };
        match poll(gpu, wait)? {
            Ok(_) => return Ok(()),
            Err(wgpu::PollError::Timeout) => {}
            Err(error) => return Err(failed("Device::poll", error.to_string())),
        }
    }
}

/// Where something failed, wgpu may know of a loss that it tells only in a poll; after a failure that a loss would
/// explain, only in one that finds the queue empty.
fn look_for_loss(gpu: &Gpu, doubtful: bool) {
    let how = if doubtful { wgpu::PollType::wait_indefinitely() } else { wgpu::PollType::Poll };
    // The poll's own outcome adds nothing to the failure at hand.
    let _ = poll(gpu, how);
}

/// Polls. wgpu panics where the driver fails in this call, which means that the device is gone.
///
/// It also panics where a wait has just run into its time limit, the submission ends right then, and another thread's
/// poll (each `Queue::submit` has one) settles it first: wgpu's "this should never be hit" compares the old state of
/// the fence with the new one of the queue. Nothing is wrong then. It is mended in the release after 30.0.1, with which this can
/// go (see the head of the crate). What this poll had collected to be called back is
/// dropped, and only read-backs have callbacks: `Download::finish` knows.
fn poll(gpu: &Gpu, how: wgpu::PollType) -> Result<Result<wgpu::PollStatus, wgpu::PollError>, BackendError> {
    let _inside = exit::enter();
    catch(|| gpu.device.poll(how)).or_else(|panic| {
        if overtaken(panic.message()) {
            return Ok(Err(wgpu::PollError::Timeout));
        }
        gpu.faults.lose("the driver failed in Device::poll");
        Err(BackendError::Lost("the driver failed in Device::poll".into()))
    })
}

/// Whether this panic only says that another thread was faster.
fn overtaken(message: &str) -> bool {
    message.starts_with("If the queue is empty, the current submission index")
}

/// Settles the lanes' points, one report for all of a batch's groups of one lane.
fn tell(ends: Vec<End>) {
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
