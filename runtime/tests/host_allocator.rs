//! Host memory of the runtime's that an allocator of the program's gives.

#[path = "common/rig.rs"]
mod rig;

use std::alloc::Layout;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rig::{Hold, Rig, bump, contents, fails, poll_once, put, until, wait};
use windlass::prelude::*;
use windlass::{HostAllocator, MemoryKind, Residency};

/// Bytes that the tests' allocators are asked for, and elements of a buffer that has as many.
const BYTES: usize = 256 << 10;
const LEN: usize = BYTES / 4;

/// What an allocator has given, and what it may give.
#[derive(Default)]
struct Arena {
    /// The addresses that are out.
    out: Mutex<Vec<Range<usize>>>,
    asked: AtomicUsize,
    /// Bytes that may be out at a time; without bounds if there are none.
    most: Mutex<Option<usize>>,
}

/// What was in the allocator's memory before.
const RUBBISH: u8 = 0xab;

/// Some bytes of an [`Arena`].
struct Block {
    bytes: Vec<u8>,
    at: usize,
    size: usize,
    arena: Arc<Arena>,
}

impl Arena {
    fn new() -> Arc<Self> {
        Arc::default()
    }

    fn of(most: usize) -> Arc<Self> {
        let arena = Arena::new();
        *arena.most.lock().unwrap() = Some(most);
        arena
    }

    fn give(self: &Arc<Self>, asked: Layout) -> Option<Block> {
        self.asked.fetch_add(1, SeqCst);
        let mut out = self.out.lock().unwrap();
        let there: usize = out.iter().map(Range::len).sum();
        if self.most.lock().unwrap().is_some_and(|most| there + asked.size() > most) {
            return None;
        }
        let bytes = vec![RUBBISH; asked.size() + asked.align()];
        let at = bytes.as_ptr().align_offset(asked.align());
        let from = bytes.as_ptr().addr() + at;
        out.push(from..from + asked.size());
        Some(Block { bytes, at, size: asked.size(), arena: self.clone() })
    }

    fn allocator(self: &Arc<Self>) -> HostAllocator {
        let arena = self.clone();
        HostAllocator::new("the arena", move |asked| arena.give(asked))
    }

    fn rig(self: &Arc<Self>) -> Rig {
        Rig::of(Runtime::builder().host_allocator(self.allocator()), 4)
    }

    /// Whether an address is in memory that is out.
    fn has(&self, at: usize) -> bool {
        self.out.lock().unwrap().iter().any(|range| range.contains(&at))
    }

    fn asked(&self) -> usize {
        self.asked.load(SeqCst)
    }

    fn out(&self) -> usize {
        self.out.lock().unwrap().len()
    }

    /// The runtime is gone, and everything is given back.
    #[track_caller]
    fn end(&self, rig: Rig) {
        rig.settle();
        drop(rig);
        until("everything is given back", || self.out() == 0);
    }
}

impl AsMut<[u8]> for Block {
    fn as_mut(&mut self) -> &mut [u8] {
        &mut self.bytes[self.at..][..self.size]
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        let from = self.bytes[self.at..].as_ptr().addr();
        self.arena.out.lock().unwrap().retain(|range| range.start != from);
    }
}

#[track_caller]
fn failed(event: &Event) -> windlass::Error {
    wait(event.clone()).expect_err("it has no memory")
}

/// Groups, host tasks and guards are all there, in every context of the host's; and smaller buffers are not.
#[test]
fn row_121_host_memory_comes_from_an_allocator_of_the_programs() {
    let arena = Arena::new();
    let rig = arena.rig();
    for queue in [&rig.queue, &rig.elsewhere()] {
        let data = Buffer::<u32>::new(LEN);
        let seen = Arc::new(AtomicUsize::new(0));
        let told = seen.clone();
        bump(queue, &data);
        let task = queue.submit(|cg| {
            let mut data = cg.read_write(&data);
            cg.host_task(async move |host| {
                let mut data = host.view_mut(&mut data)?;
                data[1] = 7;
                told.store(data.as_ptr().addr(), SeqCst);
                Ok(())
            })
        });
        wait(task.unwrap()).unwrap();
        assert!(arena.has(seen.load(SeqCst)));
        let guard = wait(data.host_write()).unwrap();
        assert!(arena.has(guard.as_ptr().addr()));
        assert_eq!(guard[..3], [1, 7, 1]);
        assert!(guard.iter().skip(2).all(|x| *x == 1), "what nobody had written was zero");
    }
    let (small, asked) = (Buffer::<u32>::new(1000), arena.asked());
    bump(&rig.queue, &small);
    assert_eq!((contents(&small)[999], arena.asked()), (1, asked));
    arena.end(rig);
}

/// Not even where the first group fails, or writes a part only.
#[test]
fn what_the_allocator_had_there_is_never_shown() {
    let arena = Arena::new();
    let rig = arena.rig();
    let parts = Buffer::<u32>::new(LEN);
    put(&rig.queue, &parts.range(5..7), 9);
    let mut expected = vec![0; LEN];
    expected[5..7].fill(9);
    assert_eq!(contents(&parts), expected);
    // A group that was to write all of it.
    let whole = Buffer::<u32>::new(LEN);
    let group = rig.queue.submit(|cg| {
        let x = cg.overwrite(&whole);
        cg.host_for(1, x, |_, _| panic!("it does not write"))
    });
    failed(&group.unwrap());
    let mut guard = wait(whole.host_overwrite()).unwrap();
    assert!(guard.iter().all(|x| *x == 0));
    guard.fill(3);
    drop(guard);
    assert_eq!(contents(&whole), [3; LEN]);
    drop((parts, whole));
    arena.end(rig);
}

/// What a buffer lets go of is the next one's, and reads as zeros there.
#[test]
fn the_allocators_memory_is_kept_for_the_next_buffer() {
    let arena = Arena::new();
    let rig = arena.rig();
    for round in 0..20 {
        let data = Buffer::<u32>::new(LEN - round);
        match round % 2 {
            0 => wait(put(&rig.queue, &data, 7)).unwrap(),
            _ => wait(put(&rig.queue, &data.range(..1), 7)).unwrap(),
        }
        let rest = if round % 2 == 0 { 7 } else { 0 };
        let seen = contents(&data);
        assert!(seen[0] == 7 && seen[1..].iter().all(|x| *x == rest), "round {round}");
        drop(data);
        until("the buffer is gone", || rig.stats().live_buffers == 0);
        rig.settle();
    }
    assert!(arena.asked() <= 4, "asked {} times", arena.asked());
    assert!(rig.stats().allocations_reused >= 16);
    arena.end(rig);
}

#[test]
fn an_allocator_that_has_none_is_named_and_nothing_is_lost() {
    let arena = Arena::of(2 * BYTES);
    let rig = arena.rig();
    let [a, b, c] = [1, 2, 3].map(|_| Buffer::<u32>::new(LEN));
    wait(put(&rig.queue, &a, 1)).unwrap();
    wait(put(&rig.queue, &b, 2)).unwrap();
    let error = failed(&put(&rig.queue, &c, 3));
    assert!(error.is_out_of_memory(), "{error}");
    for part in [
        "262144 bytes",
        "from runtime/tests/host_allocator.rs",
        "`the arena` has none to give",
        "2 buffers of 524288 bytes",
    ] {
        assert!(error.to_string().contains(part), "{error}");
    }
    // A guard is told the same.
    let d = Buffer::<u32>::new(LEN);
    wait(put(&rig.queue, &d.range(..0), 1)).unwrap();
    assert!(wait(d.host_write()).is_err_and(|error| error.is_out_of_memory()));
    assert_eq!((contents(&a), contents(&b)), (vec![1; LEN], vec![2; LEN]));
    drop((a, d));
    until("the buffer is gone", || rig.stats().live_buffers == 2);
    rig.settle();
    wait(put(&rig.queue, &c, 4)).unwrap();
    assert_eq!(contents(&c), [4; LEN]);
    drop((b, c));
    arena.end(rig);
}

/// What is kept of it for buffers of other sizes is given back before it is said that there is none.
#[test]
fn kept_memory_is_no_reason_to_have_none() {
    let arena = Arena::of(BYTES);
    let rig = arena.rig();
    for len in [LEN, LEN / 2, LEN - 1000, LEN / 3, LEN - 1, 70_000 / 4, LEN] {
        let data = Buffer::<u32>::new(len);
        wait(bump(&rig.queue, &data)).unwrap();
        assert_eq!(contents(&data), vec![1; len]);
        drop(data);
        until("the buffer is gone", || rig.stats().live_buffers == 0);
        rig.settle();
    }
    arena.end(rig);
}

#[test]
fn what_it_gives_is_looked_at() {
    let rig = |give: fn(Layout) -> Option<Vec<u8>>| {
        Rig::of(Runtime::builder().host_allocator(HostAllocator::new("odd", give)), 2)
    };
    let short = rig(|asked| Some(vec![0; asked.size() - 1]));
    let error = failed(&put(&short.queue, &Buffer::new(LEN), 1));
    assert!(!error.is_out_of_memory() && error.to_string().contains("`odd` gave 262143 bytes"), "{error}");
    let none = rig(|_| Some(Vec::new()));
    let error = failed(&put(&none.queue, &Buffer::new(LEN), 1));
    assert!(error.to_string().contains("`odd` gave 0 bytes where 262144 were asked for"), "{error}");
    let panics = rig(|_| panic!("no more"));
    let error = failed(&put(&panics.queue, &Buffer::new(LEN), 1));
    assert!(error.to_string().contains("`odd` panicked: no more"), "{error}");
    for rig in [short, none, panics] {
        wait(put(&rig.queue, &Buffer::new(1000), 1)).unwrap();
        rig.settle();
    }
    // One byte beside every alignment.
    struct Beside(Vec<u8>, usize);
    impl AsMut<[u8]> for Beside {
        fn as_mut(&mut self) -> &mut [u8] {
            let ahead = self.0.as_ptr().align_offset(64) + 1;
            &mut self.0[ahead..][..self.1]
        }
    }
    let give = |asked: Layout| Some(Beside(vec![0; asked.size() + 64], asked.size()));
    let rig = Rig::of(Runtime::builder().host_allocator(HostAllocator::new("beside", give)), 2);
    let error = failed(&put(&rig.queue, &Buffer::new(LEN), 1));
    assert!(error.to_string().contains("no multiple of 64"), "{error}");
    rig.settle();
}

/// It is called where it may block: nothing else waits for it, and neither does who submits or asks.
#[test]
fn an_allocator_that_blocks_holds_up_nobody_else() {
    let (arena, hold) = (Arena::new(), Hold::new());
    let (inside, of) = (hold.clone(), arena.clone());
    let slow = HostAllocator::new("slow", move |asked| {
        inside.here();
        of.give(asked)
    });
    let rig = Rig::of(Runtime::builder().host_allocator(slow), 4);
    let large = [1, 2, 3].map(|_| Buffer::<u32>::new(LEN));
    let events: Vec<Event> = large.iter().map(|data| put(&rig.queue, data, 7)).collect();
    hold.wait_until_entered();
    let guarded = Buffer::<u32>::new(LEN);
    wait(put(&rig.queue, &guarded.range(..0), 0)).unwrap();
    let mut guard = guarded.host_overwrite();
    assert!(poll_once(&mut guard).is_pending());
    // Groups, gates and host tasks of others.
    let small = Buffer::<u32>::new(10);
    for _ in 0..50 {
        let future = async { Ok::<(), windlass::Error>(()) };
        let group = rig.queue.submit(|cg| {
            cg.after(future);
            let x = cg.read_write(&small);
            cg.host_for(10, x, |item, x| x.set(item.id(0), x.get(item.id(0)) + 1))
        });
        wait(group.unwrap()).unwrap();
    }
    assert_eq!(contents(&small), [50; 10]);
    assert!(events.iter().all(|event| event.status() != Status::Done));
    hold.let_go();
    events.into_iter().for_each(|event| wait(event).unwrap());
    wait(guard).unwrap()[0] = 1;
    drop((large, guarded));
    arena.end(rig);
}

/// Also while memory of it is kept, being made, or in the hands of guards; and where destructors panic.
#[test]
fn everything_is_given_back_at_the_end() {
    struct Loud(Block);
    impl AsMut<[u8]> for Loud {
        fn as_mut(&mut self) -> &mut [u8] {
            self.0.as_mut()
        }
    }
    impl Drop for Loud {
        fn drop(&mut self) {
            panic!("at its end");
        }
    }
    let (arena, gone) = (Arena::new(), Arc::new(AtomicBool::new(false)));
    struct Told(Arc<AtomicBool>);
    impl Drop for Told {
        fn drop(&mut self) {
            self.0.store(true, SeqCst);
            panic!("the allocator's end");
        }
    }
    let (of, told) = (arena.clone(), Told(gone.clone()));
    let loud = HostAllocator::new("loud", move |asked| {
        let _: &Told = &told;
        Some(Loud(of.give(asked)?))
    });
    let rig = Rig::of(Runtime::builder().host_allocator(loud), 4);
    let events: Vec<Event> = (0..16).map(|i| put(&rig.queue, &Buffer::new(LEN + 3000 * i), 1)).collect();
    let guarded = Buffer::<u32>::new(LEN);
    bump(&rig.queue, &guarded);
    let guard = wait(guarded.host_read()).unwrap();
    drop(guarded);
    events.into_iter().for_each(|event| wait(event).unwrap());
    drop(fails(&rig.queue, "and goes on"));
    drop(rig);
    assert!(arena.has(guard.as_ptr().addr()) && guard[LEN - 1] == 1, "as long as there is a guard");
    drop(guard);
    until("everything is given back", || arena.out() == 0 && gone.load(SeqCst));
}

/// What stays in host memory is there, too, and what leaves a buffer is a copy.
#[test]
fn buffers_that_stay_and_vectors_that_leave() {
    let arena = Arena::new();
    let rig = arena.rig();
    let stays = rig.queue.blocking_buffer_in::<u32, 1>(MemoryKind::Shared, LEN).unwrap();
    assert_eq!(contents(&stays), [0; LEN]);
    bump(&rig.queue, &stays);
    assert!(arena.has(wait(stays.host_read()).unwrap().as_ptr().addr()));
    assert_eq!(wait(stays.into_vec()).unwrap(), [1; LEN]);
    let data = Buffer::<u32>::new(LEN);
    bump(&rig.queue, &data);
    let taken = wait(data.into_vec()).unwrap();
    assert!(taken == [1; LEN] && !arena.has(taken.as_ptr().addr()));
    let mine = Buffer::from(vec![4_u32; LEN]);
    bump(&rig.queue, &mine);
    assert!(!arena.has(wait(mine.host_read()).unwrap().as_ptr().addr()), "a vector stays where it is");
    drop(mine);
    arena.end(rig);
}

/// Sizes that it is asked for, as it was told.
#[test]
fn it_is_asked_from_its_size_on() {
    let arena = Arena::of(BYTES);
    let allocator = arena.allocator().from_bytes(1);
    let rig = Rig::of(Runtime::builder().residency(Residency::Evictable).host_allocator(allocator), 2);
    for (bytes, asked) in [(1, 0), (4096, 0), (4100, 1), (60_000, 2), (70_000, 3)] {
        let data = Buffer::<u8>::new(bytes);
        wait(rig.queue.submit(|cg| cg.fill(&cg.overwrite(&data.range(..1)), 1)).unwrap()).unwrap();
        assert_eq!(arena.asked(), asked, "{bytes} bytes");
        let seen = wait(data.host_read()).unwrap();
        assert!(seen[0] == 1 && seen[1..].iter().all(|x| *x == 0));
    }
    let huge = Buffer::<u8>::new(isize::MAX as usize - 100);
    let event = rig.queue.submit(|cg| cg.fill(&cg.overwrite(&huge.range(..1)), 1)).unwrap();
    assert!(failed(&event).is_out_of_memory());
    drop(huge);
    arena.end(rig);
}

/// Many threads at a time, with room for some of what they want: each group has its memory or is told that there is none, and all of it
/// comes back.
#[test]
fn many_that_share_too_little() {
    let arena = Arena::of(6 * BYTES);
    let rig = arena.rig();
    let refused = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for thread in 0..4_usize {
            let (rig, refused) = (&rig, &refused);
            scope.spawn(move || {
                for round in 0..40 {
                    let len = LEN / (1 + (thread + round) % 3);
                    let data = Buffer::<u32>::new(len);
                    match wait(bump(&rig.queue, &data)) {
                        Ok(()) => assert_eq!(contents(&data), vec![1; len]),
                        Err(error) => {
                            assert!(error.is_out_of_memory(), "{error}");
                            refused.fetch_add(1, SeqCst);
                            std::thread::sleep(Duration::from_micros(100));
                        }
                    }
                }
            });
        }
    });
    assert!(refused.load(SeqCst) < 100, "{refused:?} of 160");
    arena.end(rig);
}
