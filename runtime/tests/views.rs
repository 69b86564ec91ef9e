//! Buffers seen as elements of other types, in other shapes and in pages; positions in guards.

use windlass::prelude::*;
use windlass::texel::R32Uint;
use windlass::{KnownBackend, Platform};

fn host() -> Queue {
    Queue::blocking_on(Runtime::new().host().unwrap()).unwrap()
}

fn values<T: DeviceCopy>(of: &Buffer<T>) -> Vec<T> {
    of.host_read().blocking_wait().unwrap().to_vec()
}

#[test]
fn row_81_a_part_of_an_element_is_refused() {
    let line = Buffer::<u32>::new(6);
    for error in [
        line.reinterpret::<[u32; 4], 1>(1).map(drop),
        line.reinterpret::<u16, 2>([3, 5]).map(drop),
        line.reinterpret::<u8, 3>([usize::MAX, 3, 2]).map(drop),
        line.range(2..9).reinterpret::<u8, 1>(28).map(drop),
        Buffer::<u32, 2>::new([4, 6]).range((.., 1..3)).reinterpret::<u8, 1>(32).map(drop),
        Image::<R32Uint>::new([2, 2]).unwrap().native().unwrap().reinterpret::<u8, 1>(16).map(drop),
    ] {
        let error = error.unwrap_err();
        assert!(error.is_invalid_input(), "{error}");
    }
    assert_eq!(line.reinterpret::<u16, 2>([3, 4]).unwrap().shape(), [3, 4]);
    assert!(Buffer::<u32>::new(0).reinterpret::<f64, 2>([0, 9]).unwrap().is_empty());
}

#[test]
fn row_81_elements_that_memory_is_not_aligned_for_are_refused() {
    let bytes = Buffer::<u8>::new(64);
    assert!(bytes.reinterpret::<u64, 1>(8).is_ok(), "memory of the runtime's own is aligned for everything");
    // A vector's may be aligned better than it says, and it never may be worse.
    for len in 1..40 {
        let vec = vec![1_u8; len * 8];
        let aligned = vec.as_ptr().addr().is_multiple_of(8);
        let view = Buffer::from(vec).reinterpret::<u64, 1>(len);
        assert_eq!(view.is_ok(), aligned);
        if let Ok(view) = view {
            assert_eq!(values(&view), vec![0x0101_0101_0101_0101; len]);
        }
    }
}

#[test]
fn row_81_views_of_all_types_are_one_buffer() {
    let queue = host();
    let bytes = Buffer::from(vec![0_u32; 16]).reinterpret::<u8, 1>(64).unwrap();
    let words = bytes.reinterpret::<u64, 2>([2, 4]).unwrap();
    let held = words.range((1.., ..2)).host_read().blocking_wait().unwrap();
    let behind = queue.submit(|cg| cg.fill(&cg.overwrite(&bytes.range(40..41)), 7)).unwrap();
    let beside = queue.submit(|cg| cg.fill(&cg.overwrite(&bytes.range(16..32)), 9)).unwrap();
    beside.blocking_wait().unwrap();
    assert!(!behind.has_ended(), "its byte is the guard's");
    drop(held);
    behind.blocking_wait().unwrap();
    let mut expected = vec![0_u8; 64];
    expected[16..32].fill(9);
    expected[40] = 7;
    assert_eq!(values(&bytes), expected);
    let back = bytes.reinterpret::<u32, 1>(16).unwrap();
    drop((bytes, words));
    let vec = futures::executor::block_on(back.into_vec()).unwrap();
    assert_eq!(vec[10], 7);
}

/// A kernel by relaxed words of one size must not meet another's of another size.
#[test]
fn row_81_two_views_of_one_launch_do_not_mix_types() {
    let queue = host();
    let words = Buffer::<u32>::new(8);
    let bytes = words.reinterpret::<u8, 1>(32).unwrap();
    let run = |bytes: &Buffer<u8>, words: &Buffer<u32>| {
        queue.submit(|cg| {
            let args = (cg.read_write(bytes), cg.read_write(words));
            cg.host_for(4, args, |item, (bytes, words)| {
                bytes.set(item.id(0), 1);
                words.set(item.id(0), 2);
            })
        })
    };
    let error = run(&bytes, &words).unwrap_err();
    assert!(error.is_invalid_input() && error.to_string().contains("reinterpret"), "{error}");
    run(&bytes.range(..16), &words.range(4..)).unwrap().blocking_wait().unwrap();
    assert_eq!(values(&words)[..5], [0x0101_0101, 0, 0, 0, 2]);
    let error = queue.submit(|cg| {
        let wide = cg.atomic(&Buffer::<u32>::new(8).reinterpret::<u64, 1>(4)?);
        cg.host_for(4, wide, |item, wide| _ = wide.fetch_add(item.id(0), 1))
    });
    assert!(error.unwrap_err().is_invalid_input());
    let same = Buffer::<i32>::new(4).reinterpret::<u32, 1>(4).unwrap();
    let count =
        |cg: &CommandGroup<'_>| cg.host_for(100, cg.atomic(&same), |_, count| _ = count.fetch_add(0, 1));
    queue.submit(count).unwrap();
    assert_eq!(values(&same), [100, 0, 0, 0]);
}

/// Two views may start at one address and be of as many elements.
/// Seen to fail where a loan was given back by what it looks like.
#[test]
fn row_81_a_view_that_goes_takes_no_other_with_it() {
    let queue = host();
    let words = Buffer::from(vec![1_u32; 4]);
    let bytes = words.reinterpret::<u8, 1>(16).unwrap();
    let event = queue.submit(|cg| {
        let (w, b, mut m) = (cg.read(&words), cg.read(&bytes.range(..4)), cg.read_write(&words.range(2..)));
        cg.host_task(async move |host| {
            let live = host.view(&w)?;
            drop(host.view(&b)?);
            assert!(host.view_mut(&mut m).unwrap_err().is_aliased());
            drop(live);
            host.view_mut(&mut m)?[0] = 77;
            Ok(())
        })
    });
    event.unwrap().blocking_wait().unwrap();
    assert_eq!(values(&words), [1, 1, 77, 1]);
}

#[test]
fn row_81_shapes_that_cannot_be_counted_are_refused() {
    let nothing = Buffer::<u32>::new(0);
    assert!(nothing.reinterpret::<u64, 3>([0, usize::MAX, 2]).unwrap_err().is_invalid_input());
    assert!(nothing.reinterpret::<u64, 2>([0, usize::MAX / 2]).unwrap_err().is_invalid_input());
    let inside = Buffer::<f32>::new(8).range(1..4).reinterpret::<[f32; 3], 1>(1).unwrap_err();
    assert!(inside.is_invalid_input() && inside.to_string().contains("inside"), "{inside}");
}

#[test]
fn row_81_two_views_of_other_types_may_be_read_at_once() {
    let queue = host();
    let words = Buffer::from(vec![1.0_f32.to_bits(); 4]);
    let floats = words.reinterpret::<f32, 1>(4).unwrap();
    let out = Buffer::<f32>::new(4);
    queue
        .submit(|cg| {
            let args = (cg.read(&words), cg.read(&floats), cg.overwrite(&out));
            cg.host_for(4, args, |item, (words, floats, out)| {
                let i = item.id(0);
                out.set(i, floats.get(i) + f32::from_bits(words.get(i)));
            })
        })
        .unwrap();
    assert_eq!(values(&out), [2.0; 4]);
}

#[test]
fn row_66_groups_that_use_parts_of_one_page_are_ordered() {
    let queue = Queue::blocking_on(
        Runtime::builder()
            .only_given_backends()
            .backend(windlass_host::Host::new().with_lanes(2))
            .build()
            .host()
            .unwrap(),
    )
    .unwrap();
    let image = Buffer::<u32, 2>::new([8, 8]).with_pages([4, 4]);
    let hold = |part: &Buffer<u32, 2>| part.host_write().blocking_wait().unwrap();
    let fill = |part: Buffer<u32, 2>| queue.submit(|cg| cg.fill(&cg.overwrite(&part), 1)).unwrap();
    // Once it is bound, order is by pages.
    fill(image.range((0..0, 0..0))).blocking_wait().unwrap();
    let held = hold(&image.range((1..2, 1..2)));
    let (same, other) = (fill(image.range((3..4, 3..4))), fill(image.range((4.., ..4))));
    other.blocking_wait().unwrap();
    assert!(!same.has_ended(), "it is in the page that is held");
    drop(held);
    same.blocking_wait().unwrap();
    let seen = image.host_read().blocking_wait().unwrap();
    assert_eq!((seen[[3, 3]], seen[[3, 2]], seen[5][3], seen[5][4]), (1, 0, 1, 0));
    let odd = Buffer::<[u8; 3]>::from(vec![[1; 3]; 50]).with_pages(5);
    queue.submit(|cg| cg.fill(&cg.overwrite(&odd.range(7..9)), [2; 3])).unwrap();
    let all = values(&odd);
    assert_eq!((all[6], all[7], all[8], all[9]), ([1; 3], [2; 3], [2; 3], [1; 3]));
}

#[test]
fn row_66_pages_are_given_at_first() {
    let queue = host();
    let shared = Buffer::<u32>::new(8);
    let used = Buffer::<u32>::new(8);
    queue.submit(|cg| cg.fill(&cg.overwrite(&used), 1)).unwrap();
    for wrong in [shared.clone().with_pages(2), used.with_pages(2), Buffer::<u32>::new(8).with_pages(0)] {
        let error = queue.submit(|cg| cg.fill(&cg.overwrite(&wrong), 1)).unwrap_err();
        assert!(error.is_invalid_input() && error.to_string().contains("pages"), "{error}");
    }
    let huge = Buffer::<u32>::new(8).with_pages(usize::MAX);
    queue.submit(|cg| cg.fill(&cg.overwrite(&huge.range(2..3)), 1)).unwrap();
    assert_eq!(values(&huge), [0, 0, 1, 0, 0, 0, 0, 0]);
    let huge = Buffer::<u8, 3>::new([2, 2, 2]).with_pages([usize::MAX, 1, 1]);
    queue.submit(|cg| cg.fill(&cg.overwrite(&huge.range((1.., .., ..1))), 1)).unwrap();
    assert_eq!(huge.host_read().blocking_wait().unwrap()[..], [0, 0, 0, 0, 1, 0, 1, 0]);
}

#[test]
fn row_117_subscripts_nest() {
    let grid = Buffer::with_shape([2, 3], vec![0, 1, 2, 3, 4, 5]).unwrap();
    let mut guard = grid.host_write().blocking_wait().unwrap();
    assert_eq!((guard[1][2], guard[[0, 1]], &guard[1..3], guard[0].len()), (5, 1, &[1, 2][..], 3));
    guard[1][0] = 7;
    guard[[0, 2]] += 10;
    assert_eq!(guard[..], [0, 1, 12, 7, 4, 5]);
    drop(guard);
    let cube = Buffer::with_shape([2, 2, 2], (0..8).collect()).unwrap();
    let part = cube.range((1.., .., ..1)).host_read().blocking_wait().unwrap();
    assert_eq!((part[[0, 1, 0]], &part[..]), (6, &[4, 6][..]));
    let line = Buffer::from(vec![3, 4]).host_read().blocking_wait().unwrap();
    assert_eq!((line[1], line[[1]], line.first()), (4, 4, Some(&3)));
}

#[test]
#[should_panic(expected = "row 2 of 2")]
fn row_117_a_row_outside_is_none() {
    let guard = Buffer::<u32, 2>::new([2, 3]).host_read().blocking_wait().unwrap();
    let _ = &guard[2];
}

#[test]
#[should_panic(expected = "position [0, 3] of [2, 3]")]
fn row_117_a_position_outside_is_none() {
    let guard = Buffer::<u32, 2>::new([2, 3]).host_read().blocking_wait().unwrap();
    let _ = guard[[0, 3]];
}

#[test]
fn rows_3_5_6_platforms_are_found_by_backend_and_selector() {
    let [of_host] = &Platform::blocking_of("host")[..] else { panic!("the host is one platform") };
    assert_eq!(of_host.devices(), [Device::host()]);
    assert!(Platform::blocking_of("metal").is_empty());
    assert_eq!(Platform::blocking_select(Selector::backend("host")).unwrap(), *of_host);
    assert!(Platform::blocking_select(Selector::new().score(|_| None)).unwrap_err().is_unavailable());
    assert_eq!(of_host.devices_of(windlass::DeviceKind::Host).count(), 1);
    assert_eq!(of_host.devices_of(windlass::DeviceKind::Cpu).count(), 0);
    assert!(of_host.has(Aspect::HostBodies) && !of_host.has(Aspect::Priorities));
}

#[test]
fn row_11_a_build_says_which_backends_it_has() {
    const HERE: [bool; 3] =
        [KnownBackend::Host.is_active(), KnownBackend::OpenCl.is_active(), KnownBackend::Wgpu.is_active()];
    let listed = futures::executor::block_on(Runtime::new().backends());
    for (known, active) in KnownBackend::ALL.into_iter().zip(HERE) {
        assert_eq!(listed.iter().any(|(id, _)| *id == known.id()), active, "{known:?}");
    }
}

#[cfg(feature = "bytes")]
mod bytes {
    use windlass::bytes::Bytes;

    use super::*;

    #[test]
    fn bytes_are_taken_over_where_nobody_else_has_them() {
        let body = Bytes::from(1_u64.to_ne_bytes().repeat(100));
        let address = body.as_ptr();
        let aligned = address.addr().is_multiple_of(8);
        let numbers = Buffer::<u64>::from_bytes(body).unwrap();
        let seen = numbers.host_read().blocking_wait().unwrap();
        assert_eq!((seen.as_ptr().cast() == address, &seen[..]), (aligned, &[1; 100][..]));
    }

    #[test]
    fn bytes_that_others_have_are_copied() {
        let body = Bytes::from(vec![7_u8; 33]);
        let part = body.slice(1..);
        let numbers = Buffer::<u32>::from_bytes(part.clone()).unwrap();
        numbers.host_write().blocking_wait().unwrap().fill(0);
        assert_eq!(&part[..], [7; 32], "they are somebody else's");
        assert!(Buffer::<u32>::from_bytes(Bytes::new()).unwrap().is_empty());
    }

    #[test]
    fn bytes_hold_the_buffer_until_the_last_part_is_gone() {
        let queue = host();
        let sums = Buffer::from(vec![1_u16, 2, 3]);
        queue.prefetch(&sums).unwrap().blocking_wait().unwrap();
        let body = futures::executor::block_on(sums.clone().into_bytes()).unwrap();
        let part = body.slice(4..);
        let later = queue.submit(|cg| cg.fill(&cg.overwrite(&sums), 9)).unwrap();
        drop(body);
        assert_eq!((later.status(), &part[..]), (Status::Pending, &3_u16.to_ne_bytes()[..]));
        drop(part);
        later.blocking_wait().unwrap();
        let copy = sums.host_read().blocking_wait().unwrap().copy_to_bytes();
        queue.submit(|cg| cg.fill(&cg.overwrite(&sums), 0)).unwrap().blocking_wait().unwrap();
        assert_eq!(&copy[..2], 9_u16.to_ne_bytes());
    }
}
