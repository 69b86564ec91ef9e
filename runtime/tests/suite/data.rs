//! Data: buffers, accessors, copies between memories.

use windlass::prelude::*;

use crate::rig::Rig;

crate::cases! {
    read_what_was_written
    a_fresh_buffer_reads_as_zeros
    into_vec_gives_the_same_memory_back
    a_write_guard_is_seen_by_later_groups
    guards_across_awaits
    ranges_of_a_grid
    data_goes_where_it_is_needed
    copy_and_fill
    small_elements
    chunks
    a_buffer_outlives_its_handles
    many_readers
}

fn bump(queue: &Queue, x: &Buffer<u32>) -> Event {
    crate::rig::bump(queue, x)
}

async fn read_what_was_written() {
    let rig = Rig::new();
    let x = Buffer::from((0..100).collect::<Vec<u32>>());
    bump(&rig.queue, &x).await.unwrap();
    assert!(x.host_read().await.unwrap().iter().zip(1..).all(|(&v, i)| v == i));
    assert_eq!(x.range(10..12).host_read().await.unwrap()[..], [11, 12]);
}

async fn a_fresh_buffer_reads_as_zeros() {
    let rig = Rig::new();
    let x = Buffer::<u32>::new(1000);
    bump(&rig.queue, &x.range(..1)).await.unwrap();
    let x = x.host_read().await.unwrap();
    assert_eq!((x[0], x[1..].iter().max()), (1, Some(&0)));
}

async fn into_vec_gives_the_same_memory_back() {
    let rig = Rig::new();
    let vec = vec![1_u32; 4096];
    let address = vec.as_ptr().addr();
    let x = Buffer::from(vec);
    bump(&rig.queue, &x).await.unwrap();
    let vec = x.into_vec().await.unwrap();
    assert_eq!((vec.as_ptr().addr(), vec.len(), vec[4095]), (address, 4096, 2));
}

async fn a_write_guard_is_seen_by_later_groups() {
    let rig = Rig::new();
    let x = Buffer::from(vec![1_u32; 8]);
    bump(&rig.queue, &x).await.unwrap();
    x.host_write().await.unwrap()[3] = 10;
    for queue in [&rig.queue, &rig.elsewhere()] {
        bump(queue, &x).await.unwrap();
    }
    assert_eq!(x.host_read().await.unwrap()[2..5], [4, 12, 4]);
}

async fn guards_across_awaits() {
    let rig = Rig::new();
    let (x, y) = (Buffer::from(vec![1_u32; 8]), Buffer::from(vec![1_u32; 8]));
    bump(&rig.queue, &x).await.unwrap();
    let guard = x.host_read().await.unwrap();
    let behind = bump(&rig.queue, &x);
    bump(&rig.queue, &y).await.unwrap();
    let second = x.range(..4).host_read();
    assert_eq!(guard[0], 2);
    drop(guard);
    behind.await.unwrap();
    assert_eq!(second.await.unwrap()[..], [3; 4], "it took its place at its first poll");
}

async fn ranges_of_a_grid() {
    let rig = Rig::new();
    let grid = Buffer::<u32, 2>::new([4, 6]);
    let inner = grid.range((1..3, 2..5));
    let event = rig.queue.submit(|cg| {
        let inner = cg.read_write(&inner);
        cg.host_for([2, 3], inner, |item, inner| {
            inner.set_at([item.id(0), item.id(1)], 1 + inner.at([item.id(0), item.id(1)]))
        })
    });
    event.unwrap().await.unwrap();
    inner.host_write().await.unwrap()[0][0] = 5;
    let all = grid.host_read().await.unwrap();
    let expected = [0, 0, 0, 0, 0, 0, 0, 0, 5, 1, 1, 0, 0, 0, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0];
    assert_eq!(all[..], expected);
}

async fn data_goes_where_it_is_needed() {
    let rig = Rig::new();
    let queues = [rig.queue.clone(), rig.elsewhere(), rig.elsewhere()];
    let x = Buffer::from(vec![0_u32; 1000]);
    for i in 0..60 {
        drop(bump(&queues[i % 3], &x));
    }
    assert_eq!(x.into_vec().await.unwrap(), [60; 1000]);
}

async fn copy_and_fill() {
    let rig = Rig::new();
    let (x, y) = (Buffer::from((0..64).collect::<Vec<u32>>()), Buffer::<u32>::new(64));
    let event = rig.queue.submit(|cg| cg.fill(&cg.overwrite(&y), 9)).unwrap();
    let copy = rig.queue.submit(|cg| cg.copy(&cg.read(&x.range(10..20)), &cg.overwrite(&y.range(50..60))));
    copy.unwrap().await.unwrap();
    event.await.unwrap();
    let y = y.host_read().await.unwrap();
    assert_eq!((y[49], y[50], y[59], y[60]), (9, 10, 19, 9));
}

async fn small_elements() {
    let rig = Rig::new();
    let elsewhere = rig.elsewhere();
    let x = Buffer::from((0..101).collect::<Vec<u8>>());
    for (queue, range) in [(&rig.queue, 3..7), (&elsewhere, 5..101), (&rig.queue, 0..2)] {
        let part = x.range(range);
        let len = part.len();
        let event = queue.submit(|cg| {
            let part = cg.read_write(&part);
            cg.host_for(len, part, |item, x| x.set(item.id(0), x.get(item.id(0)) + 100))
        });
        event.unwrap().await.unwrap();
    }
    let x = x.host_read().await.unwrap();
    assert_eq!(x[..9], [100, 101, 2, 103, 104, 205, 206, 107, 108]);
    assert_eq!(x[100], 200);
}

async fn chunks() {
    let rig = Rig::new();
    let (x, y) = (Buffer::from(vec![2.0_f32; 1 << 16]), Buffer::<f32>::new(1 << 16));
    let event = rig.queue.submit(|cg| {
        let args = (cg.read(&x), cg.overwrite(&y));
        cg.host_chunks(64, args, |chunk, (x, y)| {
            for (y, x) in y.iter_mut().zip(&x[chunk.range()]) {
                *y = x * 3.0;
            }
        })
    });
    event.unwrap().await.unwrap();
    assert!(y.host_read().await.unwrap().iter().all(|&v| v == 6.0));
}

async fn a_buffer_outlives_its_handles() {
    let rig = Rig::new();
    let y = Buffer::<u32>::new(8);
    let event = {
        let x = Buffer::from(vec![3_u32; 8]);
        drop(bump(&rig.queue, &x));
        rig.elsewhere().submit(|cg| cg.copy(&cg.read(&x), &cg.overwrite(&y)))
    };
    event.unwrap().await.unwrap();
    assert_eq!(y.host_read().await.unwrap()[..], [4; 8]);
}

async fn many_readers() {
    let rig = Rig::new();
    let x = Buffer::from(vec![1_u32; 64]);
    let reads: Vec<_> = (0..100).map(|_| crate::rig::look(&rig.queue, &x)).collect();
    bump(&rig.queue, &x).await.unwrap();
    for (event, seen) in reads {
        event.await.unwrap();
        assert_eq!(*seen.lock().unwrap(), [1; 64]);
    }
}
