//! Room for those that come next, while those before them run.

use windlass_engine::Room;

use super::*;

/// A device with clean copies of so many roots, of which the last is in use, and where no more memory is made; and two roots that are not
/// there.
fn with_clean(there: usize) -> (Script, DeviceId, Vec<RootId>, [RootId; 2]) {
    with_clean_and_uploads(there, usize::MAX)
}

/// The same on a device to which so many bytes are copied at once, and more by way of staging.
fn with_clean_and_uploads(there: usize, upload_limit: usize) -> (Script, DeviceId, Vec<RootId>, [RootId; 2]) {
    let mut s = Script::new();
    let domain = s.engine.add_domain();
    let context = s.engine.add_context(domain);
    let traits = MemoryTraits { addressable: false, upload_limit, ..MemoryTraits::heap() };
    let gpu = s.device_with_memory(context, traits, 1, 64);
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
    assert_eq!(s.make_room(x, gpu), Room::Freed);
    assert!(!is_there(&s, roots[2], gpu), "it is wanted the latest");
    let room = s.make_room(y, gpu);
    (room, [is_there(&s, roots[0], gpu), is_there(&s, roots[1], gpu)])
}

/// What is wanted later than what the first group has is given to the second before the first has run. Seen to be `Later` where only the
/// first of all takes room.
#[test]
fn who_comes_next_has_room_while_the_first_waits_for_its_data() {
    assert_eq!(room_for_the_second([None, Some(0), Some(1)]), (Room::Freed, [true, false]));
}

/// What the first group will leave is wanted later, but what is there at least two thirds as late.
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
    assert_eq!(s.make_room(x, gpu), Room::Freed);
    assert_eq!(s.make_room(y, gpu), Room::Later);
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
        assert_eq!(s.make_room(x, gpu), expected, "{between} between");
        assert_eq!(is_there(&s, roots[0], gpu), between > 0);
    }
}

/// What is to be fetched for the second is still the program's: it has no room before that has ended, however it is fetched. Seen to be
/// `Freed` by way of staging where only the second step of that is asked.
#[test]
fn who_waits_for_the_program_has_no_room_ahead() {
    for upload_limit in [usize::MAX, 0] {
        let (mut s, gpu, roots, [x, y]) = with_clean_and_uploads(4, upload_limit);
        let guard = s.guard("host", y, line(0..64), Mode::Write);
        s.group("one").on(gpu).reads(x).submit();
        s.group("two").on(gpu).reads(y).reads(roots[3]).submit();
        for root in [x, roots[0], roots[1], roots[2]] {
            s.group("later").on(gpu).reads(root).gates(1).submit();
        }
        assert_eq!(s.make_room(x, gpu), Room::Freed);
        assert_eq!(s.make_room(y, gpu), Room::Later, "{upload_limit} bytes at once");
        s.finish(guard);
        assert_eq!(s.make_room(y, gpu), Room::Freed);
    }
}

/// No more than a few groups have room before they are the first; where there is room for many four times, twice as many.
#[test]
fn few_groups_have_room_ahead() {
    for (there, before, expected) in
        [(4, 3, Room::Freed), (4, 4, Room::Later), (36, 6, Room::Freed), (36, 7, Room::Later)]
    {
        let (mut s, gpu, roots, [_, y]) = with_clean(there);
        let lacking: Vec<RootId> = (0..before).map(|_| s.data(64)).collect();
        for root in &lacking {
            s.group("before").on(gpu).reads(*root).submit();
        }
        s.group("mine").on(gpu).reads(y).reads(roots[there - 1]).submit();
        for root in lacking.iter().chain(&roots[..there - 1]) {
            s.group("later").on(gpu).reads(*root).gates(1).submit();
        }
        if there > 4 {
            want_as_much_again(&mut s, gpu, there);
        }
        assert_eq!(s.make_room(y, gpu), expected, "{there} there, {before} before");
    }
}

/// As many groups again as have room for what they use want something that is not there.
fn want_as_much_again(s: &mut Script, gpu: DeviceId, there: usize) {
    for _ in 0..there {
        let absent = s.data(64);
        s.group("much later").on(gpu).reads(absent).gates(1).submit();
    }
}

/// What wishes for room come to that follow each other while what leaves is saved, where there is room for so many, so many groups lack some,
/// and so much more is wanted.
fn asked_again(there: usize, lack: usize, wanted: usize) -> [Room; 3] {
    let mut s = Script::new();
    let gpu = s.device(1, 64);
    let roots: Vec<RootId> = (0..there).map(|_| s.buffer(64)).collect();
    for root in &roots {
        s.group("first").on(gpu).writes(*root).submit();
    }
    s.run_to_the_end();
    s.holds_memory = true;
    let lacking: Vec<RootId> = (0..lack).map(|_| s.data(64)).collect();
    for root in &lacking {
        s.group("next").on(gpu).reads(*root).submit();
        let memory = s.engine.device_memory(gpu);
        s.engine.lacks_room(*root, memory);
    }
    for root in &roots {
        s.group("later").on(gpu).reads(*root).gates(1).submit();
    }
    want_as_much_again(&mut s, gpu, wanted);
    [(); 3].map(|()| s.make_room(lacking[0], gpu))
}

/// While a root leaves for the first, another does for the next. Seen to be `Later` the second time where one root at a time is swapped
/// out.
#[test]
fn two_are_swapped_out_at_once_for_two_who_lack_room() {
    assert_eq!(asked_again(9, 3, 9), [Room::Begun, Room::Begun, Room::Later]);
}

/// With room for few, or for most of what is wanted, that would cost copies; and if nobody else lacks room, it would be for nothing. Seen to be `Begun` the second time
/// where nobody asks who lacks room.
#[test]
fn one_is_swapped_out_at_a_time_where_few_or_most_have_room_or_one_lacks_some() {
    assert_eq!(asked_again(8, 3, 8), [Room::Begun, Room::Later, Room::Later]);
    assert_eq!(asked_again(10, 3, 0), [Room::Begun, Room::Later, Room::Later]);
    assert_eq!(asked_again(10, 1, 10), [Room::Begun, Room::Later, Room::Later]);
}

/// With room for many four times three leave at once, for three who lack room. Seen to be `Later` the third time where two are the most, and
/// `Begun` where the third may leave for the second.
#[test]
fn three_are_swapped_out_at_once_where_there_is_room_for_many_four_times() {
    assert_eq!(asked_again(35, 3, 35), [Room::Begun, Room::Begun, Room::Later]);
    assert_eq!(asked_again(36, 3, 36), [Room::Begun, Room::Begun, Room::Begun]);
    assert_eq!(asked_again(36, 2, 36), [Room::Begun, Room::Begun, Room::Later]);
}

/// With room for many that is as well where something is wanted soon. Seen to be `Later` where that has to be wanted about as late as what
/// the first will leave.
#[test]
fn what_is_wanted_soon_goes_where_there_is_room_for_many() {
    for (there, expected) in [(9, Room::Later), (10, Room::Freed)] {
        let (mut s, gpu, roots, [x, y]) = with_clean(there);
        s.group("one").on(gpu).reads(x).submit();
        s.group("two").on(gpu).reads(y).reads(roots[there - 1]).submit();
        for root in &roots[..there - 2] {
            s.group("soon").on(gpu).reads(*root).gates(1).submit();
        }
        for _ in 0..40 {
            s.group("between").on(gpu).gates(1).submit();
        }
        s.group("later").on(gpu).reads(x).gates(1).submit();
        want_as_much_again(&mut s, gpu, there);
        s.group("last").on(gpu).reads(roots[there - 2]).gates(1).submit();
        assert_eq!(s.make_room(x, gpu), Room::Freed);
        assert_eq!(s.make_room(y, gpu), expected, "room for {there}");
    }
}

/// With room for many nobody waits for what is left for good. Seen to be `Later` where somebody does.
#[test]
fn what_is_left_for_good_is_not_waited_for_where_there_is_room_for_many() {
    for (there, expected) in [(9, Room::Later), (10, Room::Freed)] {
        let (mut s, gpu, roots, [x, _]) = with_clean(there);
        s.group("one").on(gpu).reads(x).submit();
        for root in &roots[..there - 1] {
            s.group("later").on(gpu).reads(*root).gates(1).submit();
        }
        want_as_much_again(&mut s, gpu, there);
        assert_eq!(s.make_room(x, gpu), expected, "room for {there}");
    }
}

/// Who waits for another group has room once for each of its uses, and then before all others only when it could run: it could take from others,
/// and these from it, as long as that group waits for another memory. Seen to be `Freed` each time where that is not counted.
#[test]
fn who_waits_for_others_has_room_ahead_so_many_times() {
    let (mut s, gpu, roots, [x, _]) = with_clean(13);
    s.group("one").on(gpu).reads(x).writes(roots[0]).submit();
    let absent: Vec<RootId> = (0..12).map(|_| s.data(64)).collect();
    for root in roots[1..12].iter().chain(&absent) {
        s.group("next").on(gpu).reads(*root).writes(roots[0]).submit();
    }
    s.moved();
    let memory = s.engine.device_memory(gpu);
    for expected in [Room::Freed, Room::Freed, Room::Later] {
        s.group("running").on(gpu).reads(roots[12]).submit();
        s.feed_all();
        s.engine.swap_out_now(roots[1], memory, &mut s.turn);
        s.absorb();
        assert_eq!(s.make_room(roots[1], gpu), expected);
        if expected == Room::Freed {
            let back: Vec<NodeId> = s.moved().iter().map(|(node, _)| *node).collect();
            s.make(roots[1]);
            s.feed_all();
            s.pass(back[0]);
        }
    }
}

/// Who waits for another group, which has yet to run, has room ahead: the data comes back meanwhile. Not if there is anything of the program's
/// about, which might hold it back for long. Seen to be `Later` in both cases where what is held back is asked for last.
#[test]
fn who_waits_for_others_has_room_ahead_where_there_is_room_for_many() {
    for (has_guard, expected) in [(true, Room::Later), (false, Room::Freed)] {
        let (mut s, gpu, roots, [x, host]) = with_clean(13);
        if has_guard {
            s.guard("host", host, line(0..64), Mode::Write);
        }
        // Each waits for the one before.
        s.group("one").on(gpu).reads(x).writes(roots[0]).submit();
        let absent: Vec<RootId> = (0..12).map(|_| s.data(64)).collect();
        for root in roots[1..12].iter().chain(&absent) {
            s.group("next").on(gpu).reads(*root).writes(roots[0]).submit();
        }
        let memory = s.engine.device_memory(gpu);
        s.engine.swap_out_now(roots[1], memory, &mut s.turn);
        s.absorb();
        assert_eq!(s.make_room(x, gpu), Room::Freed);
        assert_eq!(s.make_room(roots[1], gpu), expected, "there is something of the program's: {has_guard}");
    }
}
