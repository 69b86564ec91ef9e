//! Memory that is emptied for others, and filled again before its next user runs.

use windlass_engine::Room;

use super::*;

pub(super) fn with_device() -> (Script, DeviceId) {
    let mut s = Script::new();
    let gpu = s.device(1, 64);
    (s, gpu)
}

/// A device that has the first of two buffers, which the heap has too or not, and where no memory is made from here on before a script
/// says so.
pub(super) fn with_one_there(heap_has_it: bool) -> (Script, DeviceId, RootId, RootId) {
    let (mut s, gpu) = with_device();
    let (a, b) = (if heap_has_it { s.data(64) } else { s.buffer(64) }, s.buffer(64));
    let first = s.group("first").on(gpu);
    if heap_has_it { first.reads(a) } else { first.writes(a) }.submit();
    s.run_to_the_end();
    s.moved();
    s.holds_memory = true;
    (s, gpu, a, b)
}

impl Script {
    /// A root waits for memory on a device, and there is no room.
    pub(super) fn make_room(&mut self, root: RootId, device: DeviceId) -> Room {
        let memory = self.engine.device_memory(device);
        let room = self.engine.make_room(memory, root, &mut self.turn);
        self.absorb();
        room
    }

    /// The allocation that was asked for first is made.
    pub(super) fn make(&mut self, root: RootId) {
        self.answer(root, Ok(0));
    }

    fn answer(&mut self, root: RootId, made: Result<u32, &'static str>) {
        let asked = self.asked.iter().find(|(of, _)| *of == root).expect("it was asked for");
        self.answer_in(asked.1.0, root, made);
    }

    pub(super) fn answer_in(&mut self, memory: u32, root: RootId, made: Result<u32, &'static str>) {
        let at = self.asked.iter().position(|(of, there)| (*of, there.0) == (root, memory));
        let (root, memory) = self.asked.remove(at.expect("it was asked for"));
        self.engine.allocated(root, memory, made, &mut self.turn);
        self.absorb();
    }

    /// The directions of the transfers planned since this was last asked.
    pub(super) fn directions(&mut self) -> Vec<(u32, u32)> {
        self.moved().iter().map(|(_, copy)| (copy.from.0, copy.to.0)).collect()
    }
}

/// The heap has what a reader left on the device, so nothing has to be saved; and the next reader finds it again.
#[test]
fn what_is_wanted_later_makes_room_and_comes_back() {
    let (mut s, gpu, a, b) = with_one_there(true);
    let writer = s.group("writer").on(gpu).writes(b).submit();
    let later = s.group("later").on(gpu).reads(a).gates(1).submit();
    assert_eq!(s.make_room(b, gpu), Room::Freed);
    assert_eq!((s.freed, s.directions()), (1, vec![(0, 1)]));
    s.open(later);
    assert!(s.feed_all().is_empty(), "one waits for its memory, the other for its data");
    s.make(b);
    s.run_to_the_end();
    assert!(s.is_done(writer) && !s.is_done(later));
    s.make(a);
    s.run_to_the_end();
    assert!(s.is_done(later));
    s.assert_empty();
}

/// What only the device has is copied to the heap first, and what runs with it has ended before that.
#[test]
fn what_only_the_device_has_is_saved_when_its_users_have_ended() {
    let (mut s, gpu) = with_device();
    let (a, b) = (s.buffer(64), s.buffer(64));
    let first = s.group("first").on(gpu).writes(a).submit();
    s.feed_all();
    s.holds_memory = true;
    s.group("writer").on(gpu).writes(b).submit();
    let later = s.group("later").on(gpu).updates(a).gates(1).submit();
    assert_eq!(s.make_room(b, gpu), Room::Begun);
    assert_eq!(s.directions(), [], "the first still writes it");
    assert_eq!(s.make_room(b, gpu), Room::Later);
    s.open(later);
    s.pass(first);
    s.holds_memory = false;
    s.absorb();
    s.run_to_the_end();
    let moved = s.directions();
    assert_eq!(moved, [(1, 0), (0, 1)], "out, and back");
    assert!(s.is_done(later));
    assert_eq!(s.freed, 1);
    s.assert_empty();
}

/// What is written anew before anybody reads it is neither saved nor brought back.
#[test]
fn what_is_replaced_moves_nothing() {
    let (mut s, gpu, a, b) = with_one_there(false);
    s.group("writer").on(gpu).writes(b).submit();
    let later = s.group("later").on(gpu).writes(a).gates(1).submit();
    assert_eq!(s.make_room(b, gpu), Room::Freed);
    s.open(later);
    s.holds_memory = false;
    s.absorb();
    s.run_to_the_end();
    assert_eq!(s.directions(), []);
    assert!(s.is_done(later));
    s.assert_empty();
}

/// The next user of what is there comes before the one that lacks room; or the heap's copy is in use, and the one that lacks room could
/// not run yet.
#[test]
fn what_is_used_before_stays() {
    let (mut s, gpu, a, b) = with_one_there(true);
    let before = s.group("before").on(gpu).reads(a).gates(1).submit();
    s.group("writer").on(gpu).writes(b).gates(1).submit();
    assert_eq!(s.make_room(b, gpu), Room::Later, "it may be emptied when that one has run");
    assert_eq!(s.freed, 0);
    s.open(before);
    s.run_to_the_end();
    let guard = s.guard("guard", a, line(0..64), Mode::Read);
    s.group("later").on(gpu).reads(a).gates(1).submit();
    assert_eq!(s.make_room(b, gpu), Room::Later, "the host has it, in the heap");
    assert_eq!(s.freed, 0);
    s.finish(guard);
    assert_eq!(s.make_room(b, gpu), Room::Freed);
}

/// If nothing runs that could make room, the group that only lacks memory takes it from whom it can.
#[test]
fn who_could_run_takes_from_who_waits_for_the_program() {
    let (mut s, gpu, a, b) = with_one_there(true);
    let held = s.group("held").on(gpu).reads(a).gates(1).submit();
    let writer = s.group("writer").on(gpu).writes(b).submit();
    assert_eq!(s.make_room(b, gpu), Room::Freed);
    s.make(b);
    s.run_to_the_end();
    assert!(s.is_done(writer));
    s.open(held);
    s.make(a);
    s.run_to_the_end();
    assert!(s.is_done(held));
}

/// A copy to the heap fails: the data stays where it is, its users run, and it is not tried again.
#[test]
fn what_cannot_be_saved_stays() {
    let (mut s, gpu, a, b) = with_one_there(false);
    s.group("writer").on(gpu).writes(b).submit();
    let later = s.group("later").on(gpu).reads(a).gates(1).submit();
    assert_eq!(s.make_room(b, gpu), Room::Begun);
    let (out, _) = s.moved()[0];
    s.make(a);
    s.feed_all();
    s.fail(out, "broken");
    s.run_to_the_end();
    s.open(later);
    s.run_to_the_end();
    assert!(s.is_done(later));
    s.group("again").on(gpu).reads(a).gates(1).submit();
    assert_eq!(s.make_room(b, gpu), Room::None);
    assert_eq!(s.freed, 0);
}

/// There is no room for it any more: its users fail, and the data is in the heap.
#[test]
fn what_cannot_come_back_is_in_the_heap() {
    let (mut s, gpu, a, b) = with_one_there(false);
    s.group("writer").on(gpu).writes(b).submit();
    let later = s.group("later").on(gpu).reads(a).gates(1).submit();
    assert_eq!(s.make_room(b, gpu), Room::Begun);
    s.make(a);
    s.run_to_the_end();
    assert_eq!(s.freed, 1);
    s.answer(a, Err("no room"));
    assert_eq!(s.told.get(&later), Some(&Outcome::Failed("no room")));
    s.open(later);
    s.make(b);
    s.run_to_the_end();
    s.holds_memory = false;
    s.moved();
    let guard = s.guard("guard", a, line(0..64), Mode::Read);
    assert!(s.started.contains(&guard), "nothing has to move");
    s.finish(guard);
    s.run_to_the_end();
    s.assert_empty();
}

/// The device is lost while data is on its way out, away, or on its way back: its users fail, and nothing is left over.
#[test]
fn a_device_is_lost_at_every_step_of_the_way() {
    for step in 0..4 {
        let (mut s, gpu, a, b) = with_one_there(false);
        s.group("writer").on(gpu).writes(b).submit();
        let later = s.group("later").on(gpu).reads(a).gates(1).submit();
        assert_eq!(s.make_room(b, gpu), Room::Begun);
        s.make(a);
        if step > 0 {
            s.feed_all();
        }
        if step > 1 {
            s.run_to_the_end();
        }
        if step > 2 {
            s.make(a);
            s.feed_all();
        }
        s.lose(gpu);
        s.open(later);
        s.holds_memory = false;
        s.absorb();
        s.run_to_the_end();
        assert!(
            matches!(s.end(later), Some(Outcome::Failed(_) | Outcome::Doomed(_))),
            "{step}: {:?}",
            s.end(later)
        );
        s.assert_empty();
    }
}

/// Of two that are wanted later, the one goes whose user is the farther behind; and who comes first in the order takes it.
#[test]
fn what_is_wanted_last_goes_first() {
    let (mut s, gpu) = with_device();
    let (near, far, a, b) = (s.data(64), s.data(64), s.buffer(64), s.buffer(64));
    s.group("first").on(gpu).reads(near).reads(far).submit();
    s.run_to_the_end();
    s.moved();
    s.holds_memory = true;
    s.group("writer").on(gpu).writes(a).submit();
    s.group("behind").on(gpu).writes(b).submit();
    let users = [near, far].map(|root| s.group("user").on(gpu).reads(root).gates(1).submit());
    let memory = s.engine.device_memory(gpu);
    assert_eq!(s.engine.most_urgent(memory, [b, a].into_iter()), Some(a));
    assert_eq!(s.make_room(a, gpu), Room::Freed);
    let moved = s.moved();
    assert!(moved.iter().all(|(_, copy)| copy.root == far) && !moved.is_empty());
    for root in [a, b, far] {
        s.make(root);
    }
    users.into_iter().for_each(|user| s.open(user));
    s.run_to_the_end();
    s.assert_empty();
}

/// One group uses three buffers next: one that the heap has too, one that the device alone has, and one of which it is to find a quarter.
/// What costs the fewest copies goes, whichever came first.
#[test]
fn of_what_is_wanted_at_once_the_cheapest_goes_first() {
    for order in [[0, 1, 2], [2, 1, 0], [1, 0, 2]] {
        let (mut s, gpu) = with_device();
        let lacking = [s.buffer(64), s.buffer(64), s.buffer(64)];
        let mut made = [None; 3];
        for kind in order {
            let root = if kind == 0 { s.data(64) } else { s.buffer(64) };
            made[kind] = Some(root);
            let first = s.group("first").on(gpu);
            match kind {
                0 => first.reads(root),
                1 => first.writes(root),
                _ => first.uses(root, line(0..16), Mode::Overwrite),
            }
            .submit();
        }
        let [clean, dirty, part] = made.map(|root| root.expect("each was made"));
        s.run_to_the_end();
        s.moved();
        s.holds_memory = true;
        let writers = lacking.map(|root| s.group("writer").on(gpu).writes(root).submit());
        let later = s.group("later").on(gpu).reads(dirty).reads(part).reads(clean).gates(1).submit();
        let mut gone = Vec::new();
        for (lacks, writer) in lacking.into_iter().zip(writers) {
            let room = s.make_room(lacks, gpu);
            assert!(matches!(room, Room::Freed | Room::Begun), "{room:?}");
            // Into the heap's memory, which is made at once.
            while let Some((root, _)) = s.asked.iter().find(|(_, memory)| memory.0 == 0).copied() {
                s.make(root);
            }
            s.run_to_the_end();
            gone.extend(s.moved().iter().map(|(_, copy)| copy.root).next_back());
            s.make(lacks);
            s.run_to_the_end();
            assert!(s.is_done(writer));
        }
        assert_eq!(gone, [part, clean, dirty], "{order:?}");
        s.holds_memory = false;
        s.absorb();
        s.open(later);
        s.run_to_the_end();
        assert!(s.is_done(later));
        s.assert_empty();
    }
}

/// Two groups want the same two buffers, and there is room for one. The second could run, but not by taking from itself. Seen to swap them
/// for each other for ever where only the places of the next users were compared.
#[test]
fn nobody_takes_room_from_itself() {
    let (mut s, gpu) = with_device();
    let (a, b) = (s.data(64), s.data(64));
    s.holds_memory = true;
    s.group("held").on(gpu).reads(a).reads(b).gates(1).submit();
    s.group("could run").on(gpu).reads(a).reads(b).submit();
    s.make(a);
    s.run_to_the_end();
    assert_eq!(s.make_room(b, gpu), Room::None);
    assert_eq!(s.freed, 0);
}

/// Who writes the heap's copy waits for the way back, which waits for room: so that counts as what could run. Seen to wait for ever where it
/// was as little urgent as its own group, which waits for the program.
#[test]
fn the_way_back_is_urgent_if_the_host_waits_for_it() {
    let (mut s, gpu) = with_device();
    let (r, p) = (s.data(64), s.buffer(64));
    s.group("first").on(gpu).reads(r).submit();
    s.run_to_the_end();
    s.holds_memory = true;
    s.group("held").on(gpu).reads(r).gates(1).submit();
    s.group("writer").on(gpu).writes(p).submit();
    assert_eq!(s.make_room(p, gpu), Room::Freed);
    s.make(p);
    s.run_to_the_end();
    s.group("later").on(gpu).reads(p).gates(1).submit();
    assert_eq!(s.make_room(r, gpu), Room::Begun);
    s.make(p);
    s.run_to_the_end();
    s.make(r);
    s.run_to_the_end();
    assert_eq!(s.make_room(p, gpu), Room::Later, "its group waits for the program");
    let host = s.group("host").writes(p).submit();
    assert_eq!(s.make_room(p, gpu), Room::Freed);
    s.make(p);
    s.run_to_the_end();
    assert!(s.is_done(host));
}

/// Who could run at once leaves what it replaces to one that came before and lacks room, and asks again; but only once, and not what it
/// reads.
#[test]
fn what_is_about_to_be_replaced_goes_to_who_came_before() {
    let (mut s, gpu) = with_device();
    let (old, kept, a) = (s.buffer(64), s.data(64), s.buffer(64));
    let memory = s.engine.device_memory(gpu);
    let early = s.group("early").on(gpu).reads(kept).gates(1).submit();
    s.group("first").on(gpu).writes(old).reads(kept).submit();
    s.run_to_the_end();
    s.holds_memory = true;
    let sooner = s.group("sooner").on(gpu).writes(old).gates(1).submit();
    let before = s.group("before").on(gpu).writes(a).submit();
    s.engine.lacks_room(a, memory);
    s.open(sooner);
    s.run_to_the_end();
    assert!(s.is_done(sooner), "the one that lacks room came later");
    let reader = s.group("reader").on(gpu).reads(old).reads(kept).submit();
    let replaces = s.group("replaces").on(gpu).reads(kept).writes(old).submit();
    s.moved();
    s.run_to_the_end();
    assert_eq!((s.is_done(reader), s.is_done(replaces), s.freed), (true, false, 1));
    assert_eq!((s.moved().len(), s.engine.tally().given_up), (0, 1), "nobody reads it");
    s.make(a);
    s.run_to_the_end();
    assert!(s.is_done(before) && !s.is_done(replaces));
    let b = s.buffer(64);
    let last = s.group("lacks room for good").on(gpu).writes(b).gates(1).submit();
    s.engine.lacks_room(b, memory);
    s.make(old);
    s.run_to_the_end();
    assert!(s.is_done(replaces), "that one came later");
    let late = s.group("late").on(gpu).writes(old).submit();
    s.run_to_the_end();
    assert!(s.is_done(late), "what else is held back is not helped");
    s.open(last);
    let again = s.group("again").on(gpu).writes(old).submit();
    s.run_to_the_end();
    assert!(!s.is_done(again));
    s.make(old);
    s.run_to_the_end();
    assert!(s.is_done(again), "though there still is none for the other");
    s.make(b);
    s.open(early);
    s.run_to_the_end();
    assert!(s.is_done(last));
}

/// What is replaced later is taken as well, and whose turn that is has farther to go: then who could run does.
#[test]
fn nobody_gives_up_what_another_replaces_later() {
    let (mut s, gpu) = with_device();
    let (near, far, a) = (s.buffer(64), s.buffer(64), s.buffer(64));
    let memory = s.engine.device_memory(gpu);
    s.group("first").on(gpu).writes(near).writes(far).submit();
    s.run_to_the_end();
    s.holds_memory = true;
    let before = s.group("before").on(gpu).writes(a).submit();
    let replaces = s.group("replaces").on(gpu).writes(near).gates(1).submit();
    let later = s.group("later").on(gpu).writes(far).gates(1).submit();
    s.engine.lacks_room(a, memory);
    s.open(replaces);
    s.run_to_the_end();
    assert!(s.is_done(replaces) && s.freed == 0);
    assert_eq!(s.make_room(a, gpu), Room::Freed);
    s.make(a);
    s.make(far);
    s.open(later);
    s.run_to_the_end();
    assert!(s.is_done(before) && s.is_done(later));
}

/// Who replaces something runs behind what it reads, also where it gives up its room between, and then goes to another lane. Seen to be fed there
/// without a wait, before the writer was fed, where it had been let onto the writer's list: when it was submitted, and when the writer was
/// let go.
#[test]
fn who_gives_up_room_waits_for_what_it_reads() {
    for writers_gates in [0, 1] {
        let mut s = Script::new();
        let gpu = s.device(2, 64);
        let (memory, lanes) = (s.engine.device_memory(gpu), s.lanes_of(gpu));
        let (old, read, a) = (s.buffer(64), s.buffer(64), s.buffer(64));
        s.group("first").on(gpu).writes(old).writes(read).submit();
        s.run_to_the_end();
        s.holds_memory = true;
        s.group("before").on(gpu).writes(a).submit();
        s.engine.lacks_room(a, memory);
        let writer = s.group("writer").on(gpu).updates(read).gates(writers_gates).submit();
        let replaces = s.group("replaces").on(gpu).reads(read).writes(old).submit();
        (0..writers_gates).for_each(|_| s.open(writer));
        let early = s.freed > 0;
        if early {
            s.make(old);
        }
        // The other lane, which has less to do.
        assert_eq!(s.feed(lanes[1]), [], "the writer has not been fed");
        s.feed(lanes[0]);
        assert!(!early && s.freed == 1, "now nothing else holds it back, and it gives up its room");
        // Behind this one the writer's lane has more to do.
        s.group("reader").on(gpu).reads(read).submit();
        s.feed(lanes[0]);
        s.make(old);
        let given = s.feed(lanes[1]);
        assert_eq!((given[0].node, &given[0].waits[..]), (replaces, &[s.point(writer)][..]));
        s.make(a);
        s.run_to_the_end();
        assert!(s.is_done(replaces));
    }
}
