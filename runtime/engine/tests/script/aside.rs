//! Memory that is emptied though the heap's place for what it holds is in use.

use windlass_engine::Room;

use super::swap::{with_device, with_one_there};
use super::*;

/// The memory for what is swapped out while the heap's is used, once there is one.
const ASIDE: u32 = 2;

/// A device from which all is copied by way of staging.
fn with_staged_downloads() -> (Script, DeviceId) {
    let mut s = Script::new();
    let domain = s.engine.add_domain();
    let context = s.engine.add_context(domain);
    let traits = MemoryTraits { addressable: false, download_limit: 0, ..MemoryTraits::heap() };
    let gpu = s.device_with_memory(context, traits, 1, 64);
    (s, gpu)
}

/// A host accessor waits for what a group that waits for the program is to write. The heap has no place for what is on the device now,
/// which goes aside, and comes back as it was.
#[test]
fn what_a_host_accessor_waits_for_goes_aside() {
    let (mut s, gpu, a, b) = with_one_there(false);
    let later = s.group("later").on(gpu).updates(a).gates(1).submit();
    let guard = s.guard("guard", a, line(0..64), Mode::Read);
    let writer = s.group("writer").on(gpu).writes(b).submit();
    s.moved();
    assert_eq!(s.make_room(b, gpu), Room::Begun);
    assert_eq!(s.directions(), [(1, ASIDE), (ASIDE, 1)], "out, and back");
    assert_eq!(s.freed, 0, "it is not there yet");
    s.answer_in(ASIDE, a, Ok(0));
    s.run_to_the_end();
    assert_eq!(s.freed, 1);
    s.make(b);
    s.run_to_the_end();
    assert!(s.is_done(writer) && !s.is_done(later));
    s.open(later);
    s.run_to_the_end();
    assert!(!s.is_done(later), "it is not back");
    s.answer_in(1, a, Ok(0));
    s.run_to_the_end();
    assert!(s.is_done(later));
    assert_eq!(s.freed, 2, "what was aside, too");
    s.holds_memory = false;
    s.absorb();
    s.run_to_the_end();
    assert!(s.is_done(guard));
    s.assert_empty();
}

/// What is aside comes from nowhere else: if there is no room for it any more, or no memory to put it into, or the device is lost, all end.
#[test]
fn what_is_aside_is_not_waited_for_in_vain() {
    for step in 0..6 {
        let (mut s, gpu, a, b) = with_one_there(false);
        let later = s.group("later").on(gpu).updates(a).gates(1).submit();
        let guard = s.guard("guard", a, line(0..64), Mode::Read);
        s.group("writer").on(gpu).writes(b).submit();
        assert_eq!(s.make_room(b, gpu), Room::Begun);
        if step > 1 {
            s.answer_in(ASIDE, a, Ok(0));
            s.feed_all();
        }
        if step > 2 {
            s.run_to_the_end();
        }
        match step {
            0 => s.answer_in(ASIDE, a, Err("no memory aside")),
            4 => s.answer_in(1, a, Err("no room")),
            5 => {
                s.answer_in(1, a, Ok(0));
                s.feed_all();
                s.lose(gpu);
            }
            _ => s.lose(gpu),
        }
        s.holds_memory = false;
        s.absorb();
        s.open(later);
        s.run_to_the_end();
        match step {
            0 => {
                let both = s.is_done(later) && s.is_done(guard);
                assert!(both, "it has stayed where it was");
            }
            _ => {
                let end = s.end(later);
                let is_failed = matches!(end, Some(Outcome::Failed(_) | Outcome::Doomed(_)));
                assert!(is_failed, "{step}: {end:?}");
                let told = s.end(guard);
                assert!(matches!(told, Some(Outcome::Doomed(_))), "{step}: {told:?}");
            }
        }
        s.assert_empty();
    }
}

/// Nobody needs on the device any more what is aside, and there is no room for it: it waits for some, since there is no other copy. Seen to be lost
/// for want of memory.
#[test]
fn what_is_aside_comes_back_for_nobody() {
    let (mut s, gpu) = with_device();
    let (a, b) = (s.data(64), s.buffer(64));
    s.group("first").on(gpu).uses(a, line(0..32), Mode::Write).submit();
    s.run_to_the_end();
    let guard = s.guard("guard", a, line(32..64), Mode::Read);
    assert_eq!(s.started, [guard]);
    s.started.clear();
    s.holds_memory = true;
    let later = s.group("later").on(gpu).uses(a, line(0..32), Mode::Read).gates(1).submit();
    s.group("writer").on(gpu).writes(b).submit();
    assert_eq!(s.make_room(b, gpu), Room::Begun);
    s.answer_in(ASIDE, a, Ok(0));
    s.run_to_the_end();
    s.make(b);
    s.run_to_the_end();
    let held = s.group("held").on(gpu).updates(b).gates(1).submit();
    s.cancel(later);
    s.finish(guard);
    assert_eq!(s.make_room(a, gpu), Room::Later);
    s.open(later);
    s.open(held);
    s.run_to_the_end();
    s.holds_memory = false;
    s.absorb();
    s.run_to_the_end();
    let reader = s.group("reads").reads(a).submit();
    s.run_to_the_end();
    assert!(s.is_done(reader));
    s.assert_empty();
}

/// A device hangs with what is to be copied out of it, and with what still uses that: nobody takes the heap's memory for the data, where nothing has
/// come. Seen to be read as if it were there.
#[test]
fn what_hangs_on_its_way_out_is_not_in_the_heap() {
    for is_leaving in [false, true] {
        let (mut s, gpu, a, b) = with_one_there(false);
        let context = s.context_of(gpu);
        if !is_leaving {
            s.group("runs").on(gpu).reads(a).submit();
            s.feed_all();
        }
        s.group("writer").on(gpu).writes(b).submit();
        let later = s.group("later").on(gpu).reads(a).gates(1).submit();
        assert_eq!(s.make_room(b, gpu), Room::Begun);
        if is_leaving {
            s.make(a);
            s.feed_all();
        }
        s.engine.will_abandon(context);
        s.engine.lose(context, "hung", &mut s.turn);
        s.turn.leaked.clear();
        s.holds_memory = false;
        s.absorb();
        s.open(later);
        s.run_to_the_end();
        let reader = s.group("reads").reads(a).submit();
        s.run_to_the_end();
        assert_eq!(s.end(reader), Some(&Outcome::Doomed("hung")), "{is_leaving}");
        s.assert_empty();
    }
}

/// What is copied to the heap by way of staging waits for the group that writes it, and that one for the program: so nobody could run who wants
/// this back. Seen to go first, and to take room for ever from who could run and back, where such a copy counted as what only lacks memory.
#[test]
fn a_copy_behind_who_waits_for_the_program_is_not_urgent() {
    let (mut s, gpu) = with_staged_downloads();
    let (a, b) = (s.data(64), s.buffer(64));
    s.group("first").on(gpu).updates(a).submit();
    s.run_to_the_end();
    s.holds_memory = true;
    s.group("held").on(gpu).updates(a).gates(1).submit();
    s.guard("guard", a, line(0..64), Mode::Read);
    s.group("writer").on(gpu).writes(b).submit();
    assert_eq!(s.make_room(b, gpu), Room::Begun);
    s.answer_in(ASIDE, a, Ok(0));
    s.run_to_the_end();
    assert_eq!(s.freed, 1);
    let memory = s.engine.device_memory(gpu);
    assert_eq!(s.engine.most_urgent(memory, [a, b].into_iter()), Some(b));
}

/// Who waits for the program takes nothing from who could run, and would take it back at once: not even what that one replaces. Seen to go on for
/// ever.
#[test]
fn who_waits_for_the_program_takes_nothing_from_who_could_run() {
    let (mut s, gpu) = with_device();
    let (w, x, y, z) = (s.buffer(64), s.buffer(64), s.buffer(64), s.data(64));
    s.group("first").on(gpu).reads(z).submit();
    s.run_to_the_end();
    s.holds_memory = true;
    s.group("early").on(gpu).writes(w).submit();
    s.group("held").on(gpu).writes(x).gates(1).submit();
    let writer = s.group("writer").on(gpu).writes(y).reads(z).submit();
    assert_eq!(s.make_room(w, gpu), Room::Freed, "of what the last reads");
    s.make(w);
    s.make(y);
    s.run_to_the_end();
    assert_eq!(s.make_room(x, gpu), Room::Later);
    assert_eq!(s.freed, 1);
    s.make(z);
    s.run_to_the_end();
    assert!(s.is_done(writer));
}

/// A root is on its way to the heap by way of staging, and nobody uses it on the device any more: it can be given up when it has come, so the
/// device counts as busy. Seen to fail for want of memory.
#[test]
fn what_is_being_copied_to_the_host_is_waited_for() {
    let (mut s, gpu) = with_staged_downloads();
    let memory = s.engine.device_memory(gpu);
    let (a, b) = (s.data(64), s.buffer(64));
    s.group("first").on(gpu).updates(a).submit();
    s.run_to_the_end();
    s.moved();
    s.holds_memory = true;
    s.group("writer").on(gpu).writes(b).submit();
    assert_eq!(s.engine.idle_in(memory).len(), 1);
    assert!(!s.engine.is_busy(memory));
    let guard = s.guard("guard", a, line(0..64), Mode::Read);
    let download = s.moved()[0].0;
    s.feed_all();
    s.pass(download);
    assert!(s.engine.is_busy(memory), "the upload is still to come");
    s.run_to_the_end();
    assert!(s.is_done(guard));
}
