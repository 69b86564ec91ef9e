//! A device that is lost while requests are on it. No driver here can be made to lose one, so the service of the example runs in this process, on
//! a scripted device.

#[path = "../../examples/server/main.rs"]
#[allow(dead_code, reason = "here it is not a program of its own")]
mod service;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

use metrics_exporter_prometheus::PrometheusBuilder;
use service::App;
use service::settings::Settings;
use windlass::prelude::*;
use windlass_faulty::{Faulty, FaultyControl};

use crate::client::{GUARD, Until, ask, eventually, floats, softened};

/// Works for as long as it is let.
fn work(control: &FaultyControl, over: &AtomicBool) {
    while !over.load(Ordering::SeqCst) {
        if !control.step() {
            thread::yield_now();
        }
    }
}

/// Whoever asks is answered: with the right bytes, or with an error that says what happened. Nobody is left without an answer, and whoever looks
/// after the service is told.
///
/// Seen to fail where `/healthz` asked nothing of the device.
#[tokio::test(flavor = "multi_thread")]
async fn a_device_that_is_lost_under_requests_leaves_nobody_waiting() {
    let faulty = Faulty::builder().lanes(2).build();
    let (control, over) = (faulty.control(), Arc::new(AtomicBool::new(false)));
    let runtime = Runtime::builder().backend(faulty).build();
    let devices = runtime.devices().await.expect("scripted devices are found");
    let device =
        devices.into_iter().find(|device| device.backend().as_str() == "faulty").expect("it is there");
    let worker = thread::spawn({
        let (control, over) = (control.clone(), over.clone());
        move || work(&control, &over)
    });
    let over = Until(&over);
    let queue = Queue::on(device).await.expect("a queue opens");
    let metrics = PrometheusBuilder::new().build_recorder().handle();
    let settings = Settings { patience: GUARD, ..Settings::from_env().expect("nothing is set") };
    let app = App::new(settings, &queue, metrics);
    let batch = app.softened.clone();
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port is free");
    let address = &listener.local_addr().expect("it is bound").to_string();
    tokio::spawn(async move { axum::serve(listener, service::router(app)).await });

    let (right, lost) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let client = |number: usize| {
        for round in 0.. {
            let values: Vec<f32> = (0..64).map(|i| (number * 1_000 + round * 64 + i) as f32).collect();
            let answer = ask(address, "POST", "/soften", "", &floats(&values));
            match answer.code {
                200 => assert!(answer.body == softened(&values), "another's answer"),
                500 => {
                    assert!(answer.why().contains("lost"), "{}", answer.why());
                    lost.fetch_add(1, Ordering::SeqCst);
                    return;
                }
                code => panic!("{code}: {}", answer.why()),
            }
            right.fetch_add(1, Ordering::SeqCst);
        }
    };
    thread::scope(|clients| {
        for number in 0..32 {
            let client = &client;
            clients.spawn(move || client(number));
        }
        eventually("requests are answered", || right.load(Ordering::SeqCst) > 200);
        assert_eq!(ask(address, "GET", "/healthz", "", &[]).code, 200);
        (0..2).for_each(|lane| control.hold(lane, true));
        eventually("a batch is on the device", || batch.stats().in_flight > 0);
        control.lose_devices("pulled out");
    });
    assert_eq!(lost.load(Ordering::SeqCst), 32, "each client's last answer is of the loss");
    let health = ask(address, "GET", "/healthz", "", &[]);
    assert!(health.code == 500 && health.why().contains("pulled out"), "{}: {}", health.code, health.why());
    let stats = batch.stats();
    assert_eq!((stats.waiting, stats.in_flight), (0, 0), "{stats:?}");
    drop(over);
    worker.join().expect("the device does not panic");
}
