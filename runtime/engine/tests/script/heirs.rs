//! Memory that new buffers have from others, whose last users have not ended.

use windlass_engine::Room;

use super::*;

/// A device whose memory is not zeroed, and its name. What is released there is fit for another of the same size.
fn device(s: &mut Script, lanes: usize) -> (DeviceId, MemoryId) {
    let domain = s.engine.add_domain();
    device_in(s, domain, lanes)
}

fn device_in(s: &mut Script, domain: windlass_engine::DomainId, lanes: usize) -> (DeviceId, MemoryId) {
    let context = s.engine.add_context(domain);
    let traits = MemoryTraits { addressable: false, zeroed: false, ..MemoryTraits::heap() };
    let device = s.device_with_memory(context, traits, lanes, 64);
    (device, s.engine.device_memory(device))
}

impl Script {
    fn release(&mut self, root: RootId) {
        self.engine.release_root(root, &mut self.turn);
        self.absorb();
    }

    fn inherited(&self) -> u64 {
        self.engine.tally().inherited
    }

    /// A buffer that one group writes and another reads, which writes `out`; its last handle goes before either has run.
    fn goes_through(&mut self, device: DeviceId, out: RootId) -> (RootId, NodeId) {
        let buffer = self.buffer(64);
        self.group("writes").on(device).reads(out).writes(buffer).submit();
        let last = self.group("reads").on(device).reads(buffer).updates(out).submit();
        self.release(buffer);
        (buffer, last)
    }
}

/// A program that is a hundred buffers ahead of its device has memory for one, whose users come behind each other.
#[test]
fn one_allocation_serves_all_that_come_behind_each_other() {
    let mut s = Script::new();
    let (gpu, memory) = device(&mut s, 1);
    let out = s.buffer(4);
    s.group("first").on(gpu).writes(out).submit();
    let (first, _) = s.goes_through(gpu, out);
    let allocation = s.engine.allocation(first, memory).copied();
    let made = s.made;
    let (mut last, mut one_of_them) = (first, None);
    for _ in 1..100 {
        let (buffer, reader) = s.goes_through(gpu, out);
        assert_eq!(s.engine.allocation(buffer, memory).copied(), allocation);
        (last, one_of_them) = (buffer, Some(reader));
    }
    assert_eq!((s.inherited(), s.made - made, s.freed), (99, 0, 0));
    assert_eq!(s.engine.held_in(memory).count(), 2, "it is counted once");
    s.run_to_the_end();
    assert!(
        one_of_them.is_some_and(|reader| s.is_done(reader)) && s.engine.allocation(last, memory).is_none()
    );
    assert_eq!(s.freed, 1, "once, by whoever held it last");
    s.release(out);
    assert_eq!(s.freed, 2);
    s.assert_empty();
}

/// The new one's first user comes behind the old one's, and nobody waits for more than before.
#[test]
fn the_first_user_comes_behind_the_last_of_the_other() {
    let mut s = Script::new();
    let (gpu, _) = device(&mut s, 2);
    let out = s.buffer(4);
    s.group("first").on(gpu).writes(out).submit();
    let (_, last) = s.goes_through(gpu, out);
    let b = s.buffer(64);
    let new = s.group("new").on(gpu).reads(out).writes(b).submit();
    assert_eq!(s.inherited(), 1);
    let edges = &s.engine.record().expect("it is kept").edges;
    assert!(edges.contains(&(last, new)));
    s.run_to_the_end();
    s.assert_empty();
}

/// Who need not wait for the users of what is going has memory of its own: one that comes behind none of them, or behind some.
#[test]
fn who_would_have_to_wait_has_memory_of_its_own() {
    let mut s = Script::new();
    let (gpu, _) = device(&mut s, 2);
    let a = s.buffer(64);
    let outs = [s.buffer(4), s.buffer(4)];
    s.group("writes").on(gpu).writes(a).submit();
    let readers = outs.map(|out| s.group("reads").on(gpu).reads(a).writes(out).submit());
    s.release(a);
    let (alone, behind_one, behind_both) = (s.buffer(64), s.buffer(64), s.buffer(64));
    s.group("alone").on(gpu).writes(alone).submit();
    s.group("behind one").on(gpu).reads(outs[0]).writes(behind_one).submit();
    assert_eq!(s.inherited(), 0);
    // They are in two chains, of which a third node comes behind both ends. The read set alone does not say so.
    s.group("behind both").on(gpu).reads(outs[0]).reads(outs[1]).writes(behind_both).submit();
    assert_eq!(s.inherited(), 0);
    s.run_to_the_end();
    assert!(readers.iter().all(|reader| s.is_done(*reader)));
    s.assert_empty();
}

/// What is not written as a whole and unread, is of another size, or has been seen by the program.
#[test]
fn what_is_not_fit_is_not_handed_on() {
    let cases: [(&str, fn(&mut Script, DeviceId, RootId, NodeId)); 4] = [
        ("a part", |s, gpu, b, last| {
            s.group("part").on(gpu).uses(b, line(0..32), Mode::Overwrite).after_end(last).submit();
        }),
        ("some of it", |s, gpu, b, last| {
            s.group("some").on(gpu).whole(b, Mode::Write).after_end(last).submit();
        }),
        ("another size", |s, gpu, _, last| {
            let small = s.buffer(32);
            s.group("small").on(gpu).writes(small).after_end(last).submit();
        }),
        ("kept if cancelled", |s, gpu, b, last| {
            s.group("keeps").on(gpu).writes(b).keep_previous().after_end(last).submit();
        }),
    ];
    for (name, uses) in cases {
        let mut s = Script::new();
        let (gpu, _) = device(&mut s, 1);
        let (a, b) = (s.buffer(64), s.buffer(64));
        let last = s.group("writes").on(gpu).writes(a).submit();
        s.feed_all();
        s.release(a);
        uses(&mut s, gpu, b, last);
        assert_eq!(s.inherited(), 0, "{name}");
        s.run_to_the_end();
        s.assert_empty();
    }
    let mut s = Script::new();
    let (gpu, _) = device(&mut s, 1);
    let (seen, b) = (s.buffer(64), s.buffer(64));
    let last = s.group("shows").on(gpu).writes(seen).shows().submit();
    s.release(seen);
    s.group("new").on(gpu).writes(b).after_end(last).submit();
    assert_eq!(s.inherited(), 0, "the program may have kept it");
    s.run_to_the_end();
    s.assert_empty();
}

/// Where fresh memory is zeroed, what nobody has written is read as it is.
#[test]
fn zeroed_memory_is_not_handed_on() {
    let mut s = Script::new();
    let gpu = s.device(1, 64);
    let (a, b) = (s.buffer(64), s.buffer(64));
    s.group("writes").on(gpu).writes(a).submit();
    let on_host = s.group("on the host").reads(a).gates(1).submit();
    // Nobody uses it in that memory any more, so that there is nobody to come behind.
    s.run_to_the_end();
    s.release(a);
    s.group("new").on(gpu).writes(b).submit();
    assert_eq!(s.inherited(), 0);
    s.open(on_host);
    s.run_to_the_end();
    s.assert_empty();
}

/// The old one has a user elsewhere, and goes after the new one.
#[test]
fn whoever_goes_last_frees_it() {
    for new_goes_first in [true, false] {
        let mut s = Script::new();
        let (gpu, memory) = device(&mut s, 1);
        let (a, b) = (s.buffer(64), s.buffer(64));
        s.group("writes").on(gpu).writes(a).submit();
        let on_host = s.group("on the host").reads(a).gates(1).submit();
        let [(download, _)] = s.moved()[..] else { panic!("one copy") };
        s.release(a);
        let new = s.group("new").on(gpu).writes(b).after_end(download).submit();
        assert_eq!(s.engine.allocation(a, memory), s.engine.allocation(b, memory));
        s.run_to_the_end();
        assert!(s.is_done(new) && !s.is_done(on_host));
        let end_one = |s: &mut Script| {
            s.open(on_host);
            s.finish(on_host);
        };
        match new_goes_first {
            true => {
                s.release(b);
                assert_eq!(s.freed, 0, "the other holds it");
                end_one(&mut s);
            }
            false => {
                end_one(&mut s);
                assert_eq!(s.freed, 1, "the heap's");
                s.release(b);
            }
        }
        assert_eq!(s.freed, 2);
        s.assert_empty();
    }
}

/// A device is lost that has an allocation which two buffers hold: it is freed once, or leaked once.
#[test]
fn what_is_lost_is_lost_once() {
    for hangs in [false, true] {
        let mut s = Script::new();
        let (gpu, _) = device(&mut s, 1);
        let (a, b) = (s.buffer(64), s.buffer(64));
        let last = s.group("writes").on(gpu).writes(a).submit();
        s.feed_all();
        s.release(a);
        let new = s.group("new").on(gpu).writes(b).after_end(last).submit();
        assert_eq!(s.inherited(), 1);
        let context = s.context_of(gpu);
        if hangs {
            s.engine.will_abandon(context);
        }
        s.engine.lose(context, "lost", &mut s.turn);
        let leaked = std::mem::take(&mut s.turn.leaked).len();
        s.absorb();
        assert_eq!((leaked, s.freed), if hangs { (1, 0) } else { (0, 1) });
        assert_eq!(s.end(new), Some(&Outcome::Failed("lost")));
        s.release(b);
        s.assert_empty();
    }
}

/// The host's device hangs while it copies one of two buffers out of the memory that both hold.
#[test]
fn what_a_hung_device_may_touch_is_lost_to_all_who_hold_it() {
    let mut s = Script::new();
    let domain = s.engine.add_domain();
    let host_context = s.engine.add_context(domain);
    let host = s.engine.add_device(host_context, HEAP);
    let lane = s.engine.add_lane(host, Depth { commands: 64, reports: 64 });
    s.devices.insert(host, (host_context, vec![lane]));
    let context = s.engine.add_context(domain);
    let shown = MemoryTraits { zeroed: false, ..MemoryTraits::heap() };
    let gpu = s.device_with_memory(context, shown, 1, 64);
    let there = s.engine.device_memory(gpu);
    let (a, b) = (s.buffer(64), s.buffer(64));
    s.group("writes").on(gpu).writes(a).submit();
    s.run_to_the_end();
    let later = s.group("later").on(gpu).reads(a).gates(1).submit();
    s.release(a);
    let new = s.group("new").on(gpu).writes(b).after_end(later).submit();
    assert_eq!(s.inherited(), 1);
    s.engine.swap_out_now(a, there, &mut s.turn);
    s.absorb();
    assert_eq!(s.feed(lane).len(), 1, "it copies to its own memory");
    s.engine.will_abandon(host_context);
    s.engine.lose(host_context, "hung", &mut s.turn);
    s.absorb();
    assert!(s.engine.allocation(b, there).is_none(), "that device may still touch it");
    assert!(s.end(new).is_none(), "its turn has not come");
    s.open(later);
    s.run_to_the_end();
    assert_eq!(s.end(new), Some(&Outcome::Failed("hung")));
    s.release(b);
    assert_eq!(s.freed, 0);
    assert_eq!(std::mem::take(&mut s.turn.leaked).len(), 2, "both ends of the copy, each once");
    s.assert_empty();
}

/// Who copies from another context's memory may hang there, so its users wait for it, but nobody else is to.
#[test]
fn what_other_contexts_use_is_not_handed_on() {
    let mut s = Script::new();
    let domain = s.engine.add_domain();
    let [(one, _), (two, _)] = [(); 2].map(|()| device_in(&mut s, domain, 1));
    for (from, to) in [(one, two), (two, one)] {
        s.engine.add_link(s.engine.device_memory(from), s.engine.device_memory(to));
    }
    let (a, b) = (s.buffer(64), s.buffer(64));
    s.group("writes").on(one).writes(a).submit();
    let reads = s.group("reads").on(two).reads(a).submit();
    s.release(a);
    s.group("new").on(one).writes(b).after_end(reads).submit();
    assert_eq!(s.inherited(), 0);
    s.run_to_the_end();
    s.assert_empty();
}

/// What is handed on is no room for anybody before both have let it go.
#[test]
fn who_lacks_room_has_it_when_both_have_let_go() {
    let mut s = Script::new();
    let (gpu, memory) = device(&mut s, 1);
    let (a, b, c) = (s.data(64), s.buffer(64), s.buffer(32));
    s.group("reads").on(gpu).reads(a).submit();
    s.run_to_the_end();
    let later = s.group("later").on(gpu).reads(a).gates(1).submit();
    s.release(a);
    let new = s.group("new").on(gpu).writes(b).after_end(later).submit();
    assert_eq!(s.inherited(), 1);
    s.holds_memory = true;
    s.group("lacks room").on(gpu).writes(c).submit();
    let mut asked = 0;
    while s.freed == 0 {
        assert_ne!(s.make_room(c, gpu), Room::None);
        s.run_to_the_end();
        asked += 1;
        assert!(asked < 4);
    }
    s.make(c);
    s.run_to_the_end();
    s.holds_memory = false;
    s.open(later);
    s.run_to_the_end();
    assert!(s.is_done(later) && s.is_done(new));
    assert!(s.engine.allocation(b, memory).is_some());
    [b, c].into_iter().for_each(|root| s.release(root));
    s.assert_empty();
}
