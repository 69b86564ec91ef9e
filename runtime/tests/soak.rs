//! Invariant 13: memory is flat. A million groups, none of them awaited, with fresh buffers, gates, host tasks,
//! cancellations, failures and two contexts; the process does not grow with them.
//!
//! The heap is measured after every tenth of the groups, with nothing under way. What leaks, leaks in every tenth;
//! a table that keeps the room of its fullest moment grows once or twice, when the threads happen to meet so. The median
//! growth tells one from the other, and sees a leak of a byte in ten groups.
//!
//! `WINDLASS_SOAK` sets another number of groups. With far fewer the tables' first growth shows, which is no leak.

#[path = "common/rig.rs"]
mod rig;

use std::alloc::{GlobalAlloc, Layout, System};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Instant;

use futures::channel::oneshot;
use rig::{poll_once, until, wait};
use windlass::prelude::*;
use windlass::{Error, Result};

/// The system's allocator, with a count of the bytes that are out.
struct Counting;

static LIVE: AtomicI64 = AtomicI64::new(0);

// SAFETY: every call goes to the system's allocator with the same arguments; the count changes nothing of it.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        LIVE.fetch_add(layout.size() as i64, Ordering::Relaxed);
        // SAFETY: the caller's obligations are the same.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        LIVE.fetch_add(layout.size() as i64, Ordering::Relaxed);
        // SAFETY: as for `alloc`.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        LIVE.fetch_sub(layout.size() as i64, Ordering::Relaxed);
        // SAFETY: as for `alloc`.
        unsafe { System.dealloc(at, layout) }
    }

    unsafe fn realloc(&self, at: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        LIVE.fetch_add(size as i64 - layout.size() as i64, Ordering::Relaxed);
        // SAFETY: as for `alloc`.
        unsafe { System.realloc(at, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// How many groups come first.
const FIRST: usize = 5_000;

/// What one pass needs.
struct Soak {
    runtime: Runtime,
    /// For the first groups, of which more are in flight than ever after: tables keep the room that they needed at
    /// most, and how much that is must not be left to chance.
    wide: [Queue; 2],
    queues: [Queue; 2],
    shared: Buffer<u32>,
    /// Doors of gates that are still shut, the oldest first.
    doors: VecDeque<oneshot::Sender<()>>,
    told: Arc<AtomicU64>,
}

impl Soak {
    fn new() -> Self {
        let told = Arc::new(AtomicU64::new(0));
        let count = told.clone();
        let runtime = Runtime::builder()
            .handler(move |errors| {
                count.fetch_add(errors.len() as u64, Ordering::Relaxed);
            })
            .build();
        let host = runtime.host().unwrap();
        let context = Context::blocking_open(std::slice::from_ref(&host)).expect("a context opens");
        let pair = |limit| {
            let built = |queue: windlass::QueueBuilder| {
                queue.device(host.clone()).max_in_flight(limit).blocking_build().expect("a queue")
            };
            [built(Queue::builder()), built(Queue::builder().context(&context))]
        };
        let (wide, queues) = (pair(4096), pair(128));
        Soak { runtime, wide, queues, shared: Buffer::new(64), doors: VecDeque::new(), told }
    }

    /// Submits one group, and forgets it.
    async fn one(&mut self, i: usize) -> Result<()> {
        let first = i < FIRST;
        let queue = if first { &self.wide } else { &self.queues }[i / 3 % 2].clone();
        let slot = queue.ready().await;
        let fresh = Buffer::<u32>::new(1 + i % 256);
        let len = fresh.len();
        match i % 16 {
            0..6 => drop(slot.submit(|cg| {
                let x = cg.overwrite(&fresh);
                cg.host_for(len, x, move |item, x| x.set(item.id(0), i as u32))
            })?),
            6..8 => drop(slot.submit(|cg| {
                let args = (cg.read(&self.shared), cg.overwrite(&fresh));
                cg.host_for(1, args, |_, (shared, x)| x.set(0, shared.get(0)))
            })?),
            8 => drop(slot.submit(|cg| {
                let x = cg.read_write(&self.shared.range(i % 60..i % 60 + 4));
                cg.host_for(4, x, |item, x| x.set(item.id(0), x.get(item.id(0)).wrapping_add(1)))
            })?),
            9 => drop(slot.submit(|cg| cg.fill(&cg.overwrite(&fresh), 5))?),
            10 => self.gated(slot, &fresh)?,
            11 => drop(slot.submit(|cg| {
                let mut x = cg.read_write(&fresh);
                cg.host_task(async move |host| {
                    host.view_mut(&mut x)?[0] = 1;
                    Ok(())
                })
            })?),
            12 => self.cancelled(slot)?,
            13 => failed(&queue, slot, &fresh, i)?,
            14 => self.elsewhere(slot, &fresh)?,
            _ => self.accessors(slot)?,
        }
        while self.doors.len() > if first { 64 } else { 16 } {
            self.open_one();
        }
        Ok(())
    }

    fn open_one(&mut self) {
        if let Some(door) = self.doors.pop_front() {
            // The group behind it may have been cancelled meanwhile.
            let _ = door.send(());
        }
    }

    fn door(&mut self) -> impl Future<Output = Result<(), Error>> + Send + 'static + use<> {
        let (door, opened) = oneshot::channel();
        self.doors.push_back(door);
        async move { opened.await.map_err(Error::other) }
    }

    fn gated(&mut self, slot: windlass::Slot<'_>, fresh: &Buffer<u32>) -> Result<()> {
        let opened = self.door();
        let event = slot.submit(|cg| {
            cg.after(opened);
            let x = cg.read_write(fresh);
            cg.host_for(1, x, |_, x| x.set(0, 1))
        })?;
        // One more behind it, on the other side.
        drop(self.queues[1].submit(|cg| {
            cg.after_end(&event);
            cg.read(fresh);
            Ok(())
        })?);
        Ok(())
    }

    fn cancelled(&mut self, slot: windlass::Slot<'_>) -> Result<()> {
        let opened = self.door();
        let event = slot.submit(|cg| {
            cg.after(opened);
            cg.on_cancel(OnCancel::KeepPrevious);
            let x = cg.read_write(&self.shared);
            cg.host_for(1, x, |_, x| x.set(0, 1))
        })?;
        drop(self.queues[0].submit(|cg| {
            cg.read(&self.shared);
            Ok(())
        })?);
        drop(event.cancel_on_drop());
        Ok(())
    }

    fn elsewhere(&mut self, slot: windlass::Slot<'_>, fresh: &Buffer<u32>) -> Result<()> {
        drop(slot.submit(|cg| {
            let x = cg.overwrite(fresh);
            cg.host_for(1, x, |_, x| x.set(0, 3))
        })?);
        for queue in &self.queues {
            drop(queue.submit(|cg| {
                let x = cg.read_write(fresh);
                cg.host_for(1, x, |_, x| x.set(0, x.get(0) + 1))
            })?);
        }
        Ok(())
    }

    /// Accessors that are dropped before and after they have the data, and one that nobody polls.
    fn accessors(&mut self, slot: windlass::Slot<'_>) -> Result<()> {
        drop(slot.submit(|cg| {
            cg.read_write(&self.shared.range(..8));
            Ok(())
        })?);
        let _ = poll_once(&mut self.shared.host_read());
        let _ = poll_once(&mut self.shared.range(4..).host_write());
        drop(self.shared.host_write());
        Ok(())
    }

    /// Opens all gates, waits until nothing is under way, and checks that nothing is kept.
    fn drain(&mut self) {
        while !self.doors.is_empty() {
            self.open_one();
        }
        for queue in self.queues.iter().chain(&self.wide) {
            wait(queue.drained());
        }
        let mut last = None;
        until("every live-object counter is zero, but for the one buffer that is there", || {
            let s = self.runtime.stats();
            let live = [s.live_nodes, s.live_links, s.live_tasks, s.frees_waiting, s.live_buffers - 1];
            if last.replace(live) != Some(live) && live != [0; 5] {
                println!("  draining: nodes, links, tasks, frees, buffers = {live:?}");
            }
            live == [0; 5]
        });
    }
}

fn failed(queue: &Queue, slot: windlass::Slot<'_>, fresh: &Buffer<u32>, i: usize) -> Result<()> {
    drop(slot.submit(|cg| {
        let x = cg.read_write(fresh);
        match i % 32 < 16 {
            true => cg.host_for(1, x, |_, _| panic!("a kernel that fails")),
            false => cg.host_task(async move |host| {
                host.view(&x)?;
                Err("a task that fails".into())
            }),
        }
    })?);
    drop(queue.submit(|cg| {
        cg.read(fresh);
        Ok(())
    })?);
    Ok(())
}

fn resident() -> i64 {
    let statm = std::fs::read_to_string("/proc/self/statm").expect("a Linux system");
    let pages: i64 = statm.split(' ').nth(1).and_then(|n| n.parse().ok()).expect("its second number");
    pages * 4096
}

#[test]
fn invariant_13_a_million_groups_later_the_process_is_as_large_as_before() {
    std::panic::set_hook(Box::new(|panic| {
        let kernel =
            panic.payload().downcast_ref::<&str>().is_some_and(|s| s.contains("a kernel that fails"));
        if !kernel {
            eprintln!("{panic}");
        }
    }));
    let all = match std::env::var("WINDLASS_SOAK") {
        Ok(text) => text.parse().expect("WINDLASS_SOAK is a number of groups"),
        Err(_) => 1_000_000,
    };
    let started = Instant::now();
    let mut soak = Soak::new();
    let mut marks = Vec::new();
    for i in 0..all {
        wait(soak.one(i)).expect("a group is taken");
        if (i + 1) % (all / 10) == 0 {
            soak.drain();
            marks.push((LIVE.load(Ordering::SeqCst), resident()));
            println!(
                "{} groups, {:?}: {} bytes live, {} resident, {} errors told",
                i + 1,
                started.elapsed(),
                marks[marks.len() - 1].0,
                marks[marks.len() - 1].1,
                soak.told.load(Ordering::Relaxed)
            );
        }
    }
    let mut growth: Vec<i64> = marks.windows(2).map(|pair| pair[1].0 - pair[0].0).collect();
    growth.sort_unstable();
    let (median, in_all) = (growth[growth.len() / 2], growth.iter().sum::<i64>());
    let resident = marks[marks.len() - 1].1 - marks[0].1;
    assert!(median <= 8 << 10, "the heap grows by {median} bytes in every {} groups", all / 10);
    assert!(in_all <= 512 << 10, "the heap has grown by {in_all} bytes");
    assert!(resident.abs() <= 16 << 20, "the process has grown by {resident} bytes");
    assert!(soak.told.load(Ordering::Relaxed) > 0, "failures were told");
}
