//! Errors of user code that own a part of the runtime: whoever lets go of the last of them comes back to the runtime by
//! their drop, which may panic as well.

#[path = "common/rig.rs"]
mod rig;

use std::any::Any;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::thread;

use rig::{Gate, HANG, Rig, bump, contents, put, until, wait};
use windlass::BoxError;
use windlass::prelude::*;

/// What an error owns the last handle of.
#[derive(Clone, Copy, Debug)]
enum Part {
    Buffer,
    Guard,
    /// The only queue of a context of its own.
    Queue,
}

/// An error that owns a part of the runtime, and panics when it is dropped.
struct Owning {
    _part: Box<dyn Any + Send + Sync>,
    dropped: Arc<AtomicUsize>,
}

impl Drop for Owning {
    fn drop(&mut self) {
        self.dropped.fetch_add(1, Ordering::SeqCst);
        panic!("dropping an error");
    }
}

impl fmt::Debug for Owning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Owning")
    }
}

impl fmt::Display for Owning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an error that owns a buffer")
    }
}

impl std::error::Error for Owning {}

impl Owning {
    fn new(rig: &Rig, part: Part, dropped: &Arc<AtomicUsize>) -> Self {
        let buffer = Buffer::from(vec![0_u32; 8]);
        wait(bump(&rig.queue, &buffer)).unwrap();
        let part: Box<dyn Any + Send + Sync> = match part {
            Part::Buffer => Box::new(buffer),
            Part::Guard => Box::new(buffer.host_write().blocking_wait().unwrap()),
            Part::Queue => {
                let device = rig.queue.device().clone();
                let context = Context::blocking_open(std::slice::from_ref(&device)).unwrap();
                Box::new(Queue::blocking_in_context(&context, &device).unwrap())
            }
        };
        Owning { _part: part, dropped: dropped.clone() }
    }
}

/// Runs something on a thread of its own: it may stand still for ever.
#[track_caller]
fn in_time(what: &str, work: impl FnOnce() + Send + 'static) {
    let (tell, told) = channel();
    let worker = thread::spawn(move || {
        work();
        let _ = tell.send(());
    });
    let ended = told.recv_timeout(HANG / 2);
    assert!(!matches!(ended, Err(std::sync::mpsc::RecvTimeoutError::Timeout)), "{what} stands still");
    worker.join().expect("nobody suffers from the drop of an error");
}

/// A buffer whose data has failed with such an error, of which the runtime has the only reference.
fn poisoned(rig: &Rig, part: Part, dropped: &Arc<AtomicUsize>) -> Buffer<u32> {
    let x = Buffer::from(vec![0_u32; 8]);
    let error = Owning::new(rig, part, dropped);
    let task = rig.queue.submit(|cg| {
        cg.read_write(&x);
        cg.host_task(async move |_| Err(Box::new(error) as BoxError))
    });
    assert!(wait(task.unwrap()).unwrap_err().to_string().contains("owns a buffer"));
    // A guard is a node for as long as it is held.
    let held = usize::from(matches!(part, Part::Guard));
    until("the task has ended", || rig.stats().live_nodes == held);
    assert_eq!(dropped.load(Ordering::SeqCst), 0, "the data keeps it");
    x
}

#[test]
fn data_that_failed_with_an_error_that_owns_a_buffer_is_written_anew() {
    for part in [Part::Buffer, Part::Guard, Part::Queue] {
        let (rig, dropped) = (Arc::new(Rig::new()), Arc::default());
        let x = poisoned(&rig, part, &dropped);
        let (inside, heals) = (rig.clone(), x.clone());
        in_time("a submission that heals the data", move || {
            wait(put(&inside.queue, &heals, 3)).unwrap();
        });
        until("the error has been dropped", || dropped.load(Ordering::SeqCst) == 1);
        assert_eq!(contents(&x), [3; 8], "{part:?}");
    }
}

#[test]
fn a_buffer_that_failed_with_an_error_that_owns_a_buffer_is_dropped() {
    for part in [Part::Buffer, Part::Guard, Part::Queue] {
        let (rig, dropped) = (Rig::new(), Arc::default());
        let x = poisoned(&rig, part, &dropped);
        in_time("the drop of a buffer", move || drop(x));
        until("the error has been dropped", || dropped.load(Ordering::SeqCst) == 1);
        wait(bump(&rig.queue, &Buffer::from(vec![1]))).unwrap();
    }
}

#[test]
fn a_group_that_fails_twice_drops_the_second_error_where_nothing_is_held() {
    let (rig, dropped) = (Rig::new(), Arc::new(AtomicUsize::new(0)));
    let error = Owning::new(&rig, Part::Buffer, &dropped);
    let (first, second) = (Gate::new(), Gate::new());
    let (one, two) = (first.opened(), second.opened());
    let event = rig.queue.submit(|cg| {
        cg.after(async move {
            one.await?;
            Err::<(), BoxError>("the first to fail".into())
        });
        cg.after(async move {
            two.await?;
            Err::<(), BoxError>(Box::new(error))
        });
        Ok(())
    });
    let event = event.unwrap();
    first.open();
    in_time("a group that fails twice", move || {
        // The first is told to the engine by now, or soon: the gates' executor has two threads at most.
        thread::sleep(std::time::Duration::from_millis(20));
        second.open();
        assert!(wait(event).unwrap_err().to_string().contains("the first to fail"));
    });
    until("the second error is dropped", || dropped.load(Ordering::SeqCst) == 1);
    wait(bump(&rig.queue, &Buffer::from(vec![1]))).unwrap();
}
