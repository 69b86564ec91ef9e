//! Room for those that come next, while those before them run.

use windlass_engine::Room;

use super::*;

/// A device with clean copies of so many roots, of which the last is in use, and where no more memory is made; and two roots that are not
/// there.
fn with_clean(there: usize) -> (Script, DeviceId, Vec<RootId>, [RootId; 2]) {
    let mut s = Script::new();
    let gpu = s.device(1, 64);
    let roots: Vec<RootId> = (0..there).map(|_| s.data(64)).collect();
    for root in &roots {
        s.group("first").on(gpu).reads(*root).submit();
    }
    s.run_to_the_end();
    s.moved();
    s.holds_memory = true;
    s.group("running").on(gpu).reads(roots[there - 1]).submit();
    s.feed_all();
    let lacking = [s.data(64), s.data(64)];
    (s, gpu, roots, lacking)
}

fn make_room(s: &mut Script, root: RootId, device: DeviceId) -> Room {
    let memory = s.engine.device_memory(device);
    let room = s.engine.make_room(memory, root, &mut s.turn);
    s.absorb();
    room
}

/// Whether a root has memory on a device.
fn is_there(s: &Script, root: RootId, device: DeviceId) -> bool {
    s.engine.allocation(root, s.engine.device_memory(device)).is_some()
}

/// The first of two groups is about to have its memory. Then the roots are used in this order: the first's own, and the
/// two that are there.
fn room_for_the_second(order: [Option<usize>; 3]) -> (Room, [bool; 2]) {
    let (mut s, gpu, roots, [x, y]) = with_clean(4);
    s.group("one").on(gpu).reads(x).submit();
    s.group("two").on(gpu).reads(y).reads(roots[3]).submit();
    for at in order {
        let root = at.map_or(x, |at| roots[at]);
        s.group("later").on(gpu).reads(root).gates(1).submit();
    }
    s.group("last").on(gpu).reads(roots[2]).gates(1).submit();
    assert_eq!(make_room(&mut s, x, gpu), Room::Freed);
    assert!(!is_there(&s, roots[2], gpu), "it is wanted the latest");
    let room = make_room(&mut s, y, gpu);
    (room, [is_there(&s, roots[0], gpu), is_there(&s, roots[1], gpu)])
}

/// What is wanted later than what the first group has is given to the second before the first has run. Seen to be `Later` where only the
/// first of all takes room.
#[test]
fn who_comes_next_has_room_while_the_first_waits_for_its_data() {
    assert_eq!(room_for_the_second([None, Some(0), Some(1)]), (Room::Freed, [true, false]));
}

/// What the first group leaves is wanted as late: it makes no difference which of the two goes.
#[test]
fn what_is_wanted_about_as_late_goes_too() {
    assert_eq!(room_for_the_second([Some(0), Some(1), None]), (Room::Freed, [true, false]));
}

/// Nothing is wanted nearly as late as what the first group will leave.
#[test]
fn what_is_wanted_soon_stays_for_what_is_left_later() {
    let (mut s, gpu, roots, [x, y]) = with_clean(3);
    s.group("one").on(gpu).reads(x).submit();
    s.group("two").on(gpu).reads(y).reads(roots[2]).submit();
    s.group("soon").on(gpu).reads(roots[0]).gates(1).submit();
    for _ in 0..4 {
        s.group("between").on(gpu).gates(1).submit();
    }
    s.group("later").on(gpu).reads(x).gates(1).submit();
    s.group("last").on(gpu).reads(roots[1]).gates(1).submit();
    assert_eq!(make_room(&mut s, x, gpu), Room::Freed);
    assert_eq!(make_room(&mut s, y, gpu), Room::Later);
    assert!(is_there(&s, roots[0], gpu));
}

/// What the first group uses for the last time is to be had for nothing, and is waited for.
#[test]
fn what_is_left_for_good_is_waited_for() {
    assert_eq!(room_for_the_second([Some(0), Some(1), Some(0)]), (Room::Later, [true, true]));
}

/// The first takes what nobody uses, where what is wanted the latest is in use and wanted only a little later; where that is wanted much
/// later, it is waited for. Seen to be `Begun` in both cases where the latest always goes.
#[test]
fn what_nobody_uses_goes_in_place_of_what_is_in_use() {
    for (between, expected) in [(0, Room::Freed), (4, Room::Begun)] {
        let (mut s, gpu, roots, [x, _]) = with_clean(2);
        s.group("one").on(gpu).reads(x).submit();
        s.group("other").on(gpu).gates(1).submit();
        s.group("soon").on(gpu).reads(roots[0]).gates(1).submit();
        for _ in 0..between {
            s.group("between").on(gpu).gates(1).submit();
        }
        s.group("later").on(gpu).reads(roots[1]).gates(1).submit();
        assert_eq!(make_room(&mut s, x, gpu), expected, "{between} between");
        assert_eq!(is_there(&s, roots[0], gpu), between > 0);
    }
}
