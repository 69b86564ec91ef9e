//! Flow: order, host tasks, outside futures, back-pressure, combinators.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use futures::channel::oneshot;
use futures::future::{join_all, select};
use futures::stream::{self, StreamExt};
use futures::{FutureExt, join};
use windlass::prelude::*;
use windlass::{BoxError, Error};

use crate::rig::{Gate, Rig, bump};

crate::cases! {
    events_are_futures
    all_of_several_events
    a_host_task_awaits
    a_host_task_submits_and_awaits
    a_host_task_of_a_named_function
    a_pipeline_of_kernels_and_tasks
    after_an_outside_future
    in_order_queues
    back_pressure_by_ready
    a_stream_of_requests
    select_of_an_event_and_a_future
    requests_on_one_buffer
    build_discover_and_open
    drained
    explicit_order
    events_move_between_tasks
}

async fn events_are_futures() {
    let rig = Rig::new();
    let x = Buffer::from(vec![0_u32; 8]);
    let event = bump(&rig.queue, &x);
    let clone = event.clone();
    let (first, second) = join!(event, clone);
    first.and(second).unwrap();
    let mut fused = bump(&rig.queue, &x);
    (&mut fused).await.unwrap();
    (&mut fused).await.unwrap();
    assert!(futures::future::FusedFuture::is_terminated(&fused));
}

async fn all_of_several_events() {
    let rig = Rig::new();
    let x = Buffer::from(vec![0_u32; 8]);
    Event::all((0..50).map(|_| bump(&rig.queue, &x))).await.unwrap();
    Event::all::<Event>([]).await.unwrap();
    assert_eq!(x.into_vec().await.unwrap(), [50; 8]);
}

async fn a_host_task_awaits() {
    let rig = Rig::new();
    let x = Buffer::from(vec![0_u32; 8]);
    let (send, receive) = oneshot::channel::<u32>();
    let event = rig.queue.submit(|cg| {
        let mut x = cg.read_write(&x);
        cg.host_task(async move |host| {
            let value = receive.await?;
            host.view_mut(&mut x)?.fill(value);
            Ok(())
        })
    });
    let reader = bump(&rig.queue, &x);
    send.send(41).unwrap();
    event.unwrap().await.unwrap();
    reader.await.unwrap();
    assert_eq!(x.host_read().await.unwrap()[..], [42; 8]);
}

async fn a_host_task_submits_and_awaits() {
    let rig = Rig::new();
    let (x, y) = (Buffer::from(vec![0_u32; 8]), Buffer::from(vec![5_u32; 8]));
    let (queue, inner) = (rig.queue.clone(), y.clone());
    let event = rig.queue.submit(|cg| {
        let mut x = cg.read_write(&x);
        cg.host_task(async move |host| {
            bump(&queue, &inner).await?;
            let y = inner.host_read().await?;
            host.view_mut(&mut x)?.copy_from_slice(&y);
            Ok(())
        })
    });
    event.unwrap().await.unwrap();
    assert_eq!(x.host_read().await.unwrap()[..], [6; 8]);
}

async fn a_host_task_of_a_named_function() {
    async fn nothing(_: windlass::access::Host<'_>) -> Result<(), BoxError> {
        Ok(())
    }
    let rig = Rig::new();
    rig.queue.submit(|cg| cg.host_task(nothing)).unwrap().await.unwrap();
    let event = rig.queue.submit(|cg| cg.host_task(move |_| async move { Err("no".into()) }));
    assert!(event.unwrap().await.unwrap_err().to_string().contains("no"));
}

async fn a_pipeline_of_kernels_and_tasks() {
    let rig = Rig::new();
    let elsewhere = rig.elsewhere();
    let x = Buffer::from(vec![1_u32; 64]);
    for _ in 0..20 {
        drop(bump(&rig.queue, &x));
        drop(rig.queue.submit(|cg| {
            let mut x = cg.read_write(&x);
            cg.host_task(async move |host| {
                host.view_mut(&mut x)?.iter_mut().for_each(|v| *v += 10);
                Ok(())
            })
        }));
        drop(bump(&elsewhere, &x));
    }
    assert_eq!(x.host_read().await.unwrap()[..], [241; 64]);
}

async fn after_an_outside_future() {
    let rig = Rig::new();
    let x = Buffer::from(vec![0_u32; 8]);
    let gate = Gate::new();
    let event = rig.queue.submit(|cg| {
        cg.after(gate.opened());
        let x = cg.read_write(&x);
        cg.host_for(8, x, |item, x| x.set(item.id(0), 1))
    });
    let (result, ()) = join!(event.unwrap(), async { gate.open() });
    result.unwrap();
    assert_eq!(x.host_read().await.unwrap()[..], [1; 8]);
}

async fn in_order_queues() {
    let rig = Rig::new();
    let queue = Queue::builder().device(rig.device.clone()).in_order().build().await.unwrap();
    let turn = Arc::new(AtomicU32::new(0));
    let events = (0..200).map(|i| {
        let turn = turn.clone();
        let event = queue.submit(|cg| match i % 3 {
            0 => cg.host_task(async move |_| {
                assert_eq!(turn.fetch_add(1, Ordering::SeqCst), i);
                Ok(())
            }),
            _ => cg.host_for(1, (), move |_, ()| assert_eq!(turn.fetch_add(1, Ordering::SeqCst), i)),
        });
        event.unwrap()
    });
    Event::all(events).await.unwrap();
}

async fn back_pressure_by_ready() {
    let rig = Rig::new();
    let queue = Queue::builder().device(rig.device.clone()).max_in_flight(4).build().await.unwrap();
    let x = Buffer::from(vec![0_u32; 8]);
    for _ in 0..200 {
        let slot = queue.ready().await;
        assert!(queue.in_flight() <= 4);
        drop(slot.submit(|cg| {
            let x = cg.read_write(&x);
            cg.host_for(8, x, |item, x| x.set(item.id(0), x.get(item.id(0)) + 1))
        }));
    }
    queue.drained().await;
    assert_eq!(x.host_read().await.unwrap()[..], [200; 8]);
}

async fn a_stream_of_requests() {
    let rig = Rig::new();
    let sums = stream::iter(0..100_u32).map(|i| {
        let queue = rig.queue.clone();
        async move {
            let x = Buffer::from(vec![i; 16]);
            bump(&queue, &x).await?;
            Ok::<u32, Error>(x.host_read().await?.iter().sum())
        }
    });
    let sums: Vec<_> = sums.buffer_unordered(8).collect().await;
    let total: u32 = sums.into_iter().map(Result::unwrap).sum();
    assert_eq!(total, 16 * (1..=100).sum::<u32>());
}

async fn select_of_an_event_and_a_future() {
    let rig = Rig::new();
    let gate = Gate::new();
    let event = rig.queue.submit(|cg| {
        cg.after(gate.opened());
        Ok(())
    });
    // The other side is quicker; the group is not harmed by that.
    let chosen = select(event.unwrap(), async {}.boxed()).await;
    let futures::future::Either::Right(((), event)) = chosen else { panic!("the gate is shut") };
    gate.open();
    event.await.unwrap();
}

async fn requests_on_one_buffer() {
    let rig = Rig::new();
    let x = Buffer::from(vec![0_u32; 8]);
    let request = |i: usize| {
        let (queue, x) = (rig.queue.clone(), x.clone());
        async move {
            bump(&queue, &x.range(i % 8..i % 8 + 1)).await?;
            Ok::<_, Error>(x.range(i % 8..).host_read().await?[0])
        }
    };
    for result in join_all((0..80).map(request)).await {
        assert!((1..=10).contains(&result.unwrap()));
    }
    assert_eq!(x.host_read().await.unwrap()[..], [10; 8]);
}

async fn build_discover_and_open() {
    let rig = Rig::new();
    let devices = rig.runtime.devices().await.unwrap();
    let context = Context::open(&devices[..1]).await.unwrap();
    let queue = Queue::builder().context(&context).build().await.unwrap();
    let x = Buffer::from(vec![0_u32; 8]);
    bump(&queue, &x).await.unwrap();
    assert!(rig.runtime.backends().await.iter().all(|(_, status)| status.is_ok()));
    assert!(!rig.runtime.platforms().await.is_empty());
}

async fn drained() {
    let rig = Rig::new();
    let x = Buffer::from(vec![0_u32; 8]);
    rig.queue.drained().await;
    for _ in 0..100 {
        drop(bump(&rig.queue, &x));
    }
    rig.queue.drained().await;
    assert_eq!(rig.queue.in_flight(), 0);
}

async fn explicit_order() {
    let rig = Rig::new();
    let turn = Arc::new(AtomicU32::new(0));
    let step = |i: u32, after: Option<&Event>| {
        let turn = turn.clone();
        let queue = if i.is_multiple_of(2) { rig.queue.clone() } else { rig.elsewhere() };
        let event = queue.submit(|cg| {
            after.iter().for_each(|event| cg.depends_on(event));
            cg.host_for(1, (), move |_, ()| assert_eq!(turn.fetch_add(1, Ordering::SeqCst), i))
        });
        event.unwrap()
    };
    let mut last = step(0, None);
    for i in 1..20 {
        last = step(i, Some(&last));
    }
    last.await.unwrap();
    assert_eq!(turn.load(Ordering::SeqCst), 20);
}

async fn events_move_between_tasks() {
    let rig = Rig::new();
    let gate = Gate::new();
    let event = rig.queue.submit(|cg| {
        cg.after(gate.opened());
        Ok(())
    });
    let mut event = event.unwrap();
    // Polled here first, then handed to another thread's executor.
    assert!((&mut event).now_or_never().is_none());
    let (send, receive) = oneshot::channel();
    std::thread::spawn(move || send.send(futures::executor::block_on(event)));
    gate.open();
    receive.await.unwrap().unwrap();
}
