//! Decision 33: in a child that was forked from a process with a runtime every call says so, and nothing hangs. Where the flag
//! was never found set, the first three tests were seen to end by the alarm.
#![cfg(unix)]

use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::mpsc::channel;
use std::thread;
use std::time::{Duration, Instant};

use futures::executor::block_on;
use windlass::batch::Batch;
use windlass::prelude::*;
use windlass::{Context, MemoryKind, Result, Runtime};
use windlass_sync::process_exit;

// SAFETY: these are POSIX's declarations. None of them takes a pointer but `waitpid`, which gets one to a number of this thread's.
unsafe extern "C" {
    safe fn fork() -> i32;
    safe fn alarm(seconds: u32) -> u32;
    safe fn _exit(status: i32) -> !;
    fn waitpid(child: i32, status: *mut i32, options: i32) -> i32;
}

/// How long a child may take: far longer than it should, and less than an exit that waits for threads.
const ALARM: u32 = 9;
/// Set for the process that is to run one of these tests alone.
const ALONE: &str = "WINDLASS_TEST_ALONE";

/// Runs this in a forked child. Says how that ended, as `waitpid` does: by an exit's number times 256, or by a signal's number.
fn in_child(work: impl FnOnce() -> i32) -> i32 {
    let child = fork();
    if child == 0 {
        alarm(ALARM);
        _exit(work());
    }
    assert!(child > 0, "no fork");
    let mut status = 0;
    // SAFETY: the status is a number of this thread's that outlives the call.
    assert_eq!(unsafe { waitpid(child, &raw mut status, 0) }, child);
    status
}

/// The position of the first that is not refused because of the fork, counted from 1; an exit's number.
fn first_allowed(calls: impl IntoIterator<Item = Result<()>>) -> i32 {
    let wrong = calls.into_iter().position(|call| !call.is_err_and(|error| error.is_forked()));
    wrong.map_or(0, |at| at as i32 + 1)
}

fn doubled(queue: &Queue) -> Batch<u32, u32> {
    Batch::builder(queue).build(|cg, batch| {
        let (items, answers) = (cg.read(batch.input()), cg.overwrite(batch.output()));
        cg.host_for(items.len(), (items, answers), |item, (items, answers)| {
            answers.set(item.id(0), 2 * items.get(item.id(0)));
        })
    })
}

#[test]
fn decision_33_every_call_in_a_forked_child_is_refused() {
    let runtime = Runtime::new();
    let queue = Queue::blocking_on(runtime.host().unwrap()).unwrap();
    let data = Buffer::from(vec![1_u32; 64]);
    let guard = data.host_read().blocking_wait().unwrap();
    let waits = queue.submit(|cg| cg.fill(&cg.overwrite(&data), 2)).unwrap();
    let slot = queue.try_ready_owned().unwrap();
    let device = queue.device().clone();
    let batch = doubled(&queue);
    let status = in_child(|| {
        let other = Buffer::<u32>::new(4);
        first_allowed([
            queue.submit(|_| Ok(())).map(drop),
            queue.try_submit(|_| Ok(())).map(drop),
            queue.submit_or(&queue, |_| Ok(())).map(drop),
            slot.submit(|_| Ok(())).map(drop),
            block_on(queue.ready()).submit(|_| Ok(())).map(drop),
            block_on(queue.ready_owned_for(7)).submit(|_| Ok(())).map(drop),
            queue.try_ready().map(drop),
            waits.clone().blocking_wait(),
            block_on(waits.clone()),
            block_on(Event::all([waits.clone(), waits.clone()])),
            block_on(waits.clone().cancel_on_drop()),
            data.host_read().blocking_wait().map(drop),
            block_on(data.host_write()).map(drop),
            block_on(other.host_overwrite()).map(drop),
            block_on(other.into_vec()).map(drop),
            block_on(queue.buffer_in::<u32, 1>(MemoryKind::Shared, 4)).map(drop),
            Queue::blocking_on(device.clone()).map(drop),
            block_on(Queue::on(device.clone())).map(drop),
            Context::blocking_open(std::slice::from_ref(&device)).map(drop),
            block_on(Context::open(std::slice::from_ref(&device))).map(drop),
            runtime.host().map(drop),
            block_on(runtime.devices()).map(drop),
            block_on(runtime.rediscover()).map(drop),
            block_on(batch.call([1, 2])).map(drop),
            queue.record(|_| Ok(())).map(drop),
            queue.drained().blocking_wait(),
            data.poison().map_or(Ok(()), Err),
            block_on(queue.evict(&data)).map(drop),
        ])
    });
    assert_eq!(status, 0, "256 times the number of the first call that was not refused, or a signal");
    // What must not hang, and returns no result.
    let status = in_child(|| {
        block_on(queue.drained());
        let left = (runtime.abort(), block_on(runtime.shutdown(Duration::from_secs(60))));
        let ended = block_on(runtime.backends()).iter().all(|(_, found)| found.is_err());
        i32::from(!ended || left != Default::default())
    });
    assert_eq!(status, 0);
    // The parent has noticed nothing.
    drop(guard);
    waits.blocking_wait().unwrap();
    assert_eq!(data.host_read().blocking_wait().unwrap()[..], [2; 64]);
    assert_eq!(block_on(batch.call([1, 2])).unwrap()[..], [2, 4]);
}

/// Threads submit, read and let go all the time, so that now and then one of them has a lock when the process is forked.
#[test]
fn a_child_drops_everything_whatever_locks_were_taken() {
    let queue = Queue::blocking_on(Device::host()).unwrap();
    let stop = Arc::new(AtomicBool::new(false));
    let work = |queue: Queue, stop: Arc<AtomicBool>| {
        thread::spawn(move || {
            while !stop.load(Ordering::Relaxed) {
                let data = Buffer::from(vec![1_u32; 16]);
                queue.submit(|cg| cg.fill(&cg.overwrite(&data), 2)).unwrap();
                assert_eq!(data.host_read().blocking_wait().unwrap()[0], 2);
            }
        })
    };
    let workers: Vec<_> = (0..3).map(|_| work(queue.clone(), stop.clone())).collect();
    let batch = doubled(&queue);
    let until = Instant::now() + Duration::from_secs(2);
    let mut forks = 0;
    while Instant::now() < until {
        let data = Buffer::from(vec![1_u32; 16]);
        let event = queue.submit(|cg| cg.fill(&cg.overwrite(&data), 3)).unwrap();
        let guard = data.host_read().blocking_wait().unwrap();
        let behind = queue.submit(|cg| cg.fill(&cg.overwrite(&data), 4)).unwrap();
        let (waiting, call) = (data.host_write(), batch.call([1]));
        let answer = block_on(batch.call([1])).unwrap();
        let (recorded, other) = (Buffer::<u32>::new(16), Buffer::from(vec![1_u32; 16]));
        let recording = queue.record(|cg| cg.fill(&cg.overwrite(&recorded), 1)).unwrap();
        let trace = queue.runtime().trace(10);
        queue.submit(|cg| cg.fill(&cg.overwrite(&other), 3)).unwrap();
        let own = (queue.clone(), batch.clone());
        let status = in_child(|| {
            let runtime = own.0.runtime();
            other.clear_poison();
            let seen = (runtime.stats(), runtime.stalls().len(), runtime.run_until_stalled(), other.poison());
            drop((event.status(), event.profile(), own.0.in_flight(), format!("{behind:?}")));
            drop((seen, own.1.stats(), trace.timeline(), format!("{runtime:?}")));
            drop((event, guard, behind, waiting, call, data, answer, recording, recorded, trace, other));
            drop(own);
            0
        });
        assert_eq!(status, 0);
        forks += 1;
    }
    assert!(forks > 10, "{forks} forks");
    stop.store(true, Ordering::Relaxed);
    workers.into_iter().for_each(|worker| worker.join().unwrap());
}

/// As when `main` returns: handlers of the exit included, while a thread of the parent's is inside a driver.
#[test]
fn a_child_exits_at_once() {
    let (go, hold) = channel::<()>();
    let (tell, is_inside) = channel();
    let inside = thread::spawn(move || {
        let _inside = process_exit::enter();
        tell.send(()).unwrap();
        hold.recv().unwrap();
    });
    is_inside.recv().unwrap();
    process_exit::watch();
    let runtime = Runtime::new();
    let queue = Queue::blocking_on(runtime.host().unwrap()).unwrap();
    let status = in_child(|| {
        drop((queue, runtime));
        std::process::exit(0);
    });
    assert_eq!(status, 0);
    go.send(()).unwrap();
    inside.join().unwrap();
}

#[test]
fn a_child_that_is_forked_before_the_first_runtime_has_its_own() {
    if std::env::var_os(ALONE).is_some() {
        let status = in_child(|| {
            let (queue, data) = (Queue::blocking_on(Device::host()).unwrap(), Buffer::<u32>::new(8));
            queue.submit(|cg| cg.fill(&cg.overwrite(&data), 5)).unwrap();
            i32::from(data.host_read().blocking_wait().unwrap()[..] != [5; 8])
        });
        return assert_eq!(status, 0);
    }
    let name = "a_child_that_is_forked_before_the_first_runtime_has_its_own";
    let alone =
        Command::new(std::env::current_exe().unwrap()).args(["--exact", name]).env(ALONE, "1").output();
    let alone = alone.unwrap();
    assert!(alone.status.success(), "{}", String::from_utf8_lossy(&alone.stdout));
    assert!(String::from_utf8_lossy(&alone.stdout).contains("1 passed"));
}

/// In memory that both have, as that of an owner may be. Seen to fail where the child's guard wrote its copy there.
#[cfg(target_os = "linux")]
#[test]
fn a_childs_guard_writes_nothing() {
    const READ_WRITE: i32 = 3;
    const SHARED_ANONYMOUS: i32 = 0x21;
    /// Memory that stays mapped.
    struct Both(*mut [AtomicU32; 16]);
    // SAFETY: it is the only one that changes what is there.
    unsafe impl Send for Both {}
    impl AsMut<[u32]> for Both {
        fn as_mut(&mut self) -> &mut [u32] {
            // SAFETY: the page is there for good and zero, and an atomic number lies in memory as a number does.
            unsafe { &mut *self.0.cast::<[u32; 16]>() }
        }
    }
    // SAFETY: this is POSIX's declaration on systems of 64 bits.
    unsafe extern "C" {
        fn mmap(at: *mut u8, bytes: usize, may: i32, kind: i32, file: i32, from: i64)
        -> *mut [AtomicU32; 16];
    }
    // SAFETY: it asks for a page of its own wherever there is room.
    let page = unsafe { mmap(std::ptr::null_mut(), 4096, READ_WRITE, SHARED_ANONYMOUS, -1, 0) };
    assert!(page.addr() != usize::MAX, "no memory");
    let data = Buffer::from_owner(Both(page)).reinterpret::<u32, 2>([4, 4]).unwrap();
    let mut guard = Some(data.range((.., 1..3)).host_write().blocking_wait().unwrap());
    guard.iter_mut().for_each(|guard| guard.fill(5));
    let status = in_child(|| {
        drop(guard.take());
        0
    });
    assert_eq!(status, 0);
    // SAFETY: the page is there, and nobody changes it now.
    let at = |i: usize| unsafe { page.cast::<u32>().add(i).read_volatile() };
    assert_eq!(at(5), 0, "the child has dropped its guard");
    drop(guard);
    assert_eq!(at(5), 5, "this one is the parent's");
}
