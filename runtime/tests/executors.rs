//! The whole suite of async tests under every kind of executor: nothing in Windlass needs a particular one.
//!
//! The tests are ordinary async functions, in the tables of `suite/*.rs`. Each executor runs them one after the other,
//! then all at once.

#[path = "suite/data.rs"]
mod data;
#[path = "suite/ends.rs"]
mod ends;
#[path = "suite/flow.rs"]
mod flow;
#[path = "common/rig.rs"]
mod rig;

use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;

use futures::future::{BoxFuture, join_all};
use rig::HANG;

/// An async test.
pub(crate) type Case = (&'static str, fn() -> BoxFuture<'static, ()>);

/// Names of async functions as a table of cases.
macro_rules! cases {
    ($($name:ident)*) => {
        pub(crate) const CASES: &[crate::Case] =
            &[$((concat!(module_path!(), "::", stringify!($name)), || Box::pin($name()))),*];
    };
}
pub(crate) use cases;

fn all() -> Vec<Case> {
    [data::CASES, ends::CASES, flow::CASES].concat()
}

/// Runs the suite by `run`, which runs one future to its end, and fails with the name of the case that hangs.
fn run_suite(run: impl Fn(BoxFuture<'static, ()>) + Send + 'static) {
    let (tell, told) = channel();
    let runner = thread::spawn(move || {
        for (name, case) in all() {
            tell.send(name).expect("somebody listens");
            run(case());
        }
        tell.send("all at once").expect("somebody listens");
        run(Box::pin(async {
            join_all(all().into_iter().map(|(_, case)| case())).await;
        }));
    });
    let mut current = "nothing";
    loop {
        match told.recv_timeout(HANG) {
            Ok(name) => current = name,
            Err(RecvTimeoutError::Timeout) => panic!("{current} hangs"),
            Err(RecvTimeoutError::Disconnected) => break,
        }
    }
    assert!(runner.join().is_ok(), "{current} has failed");
}

#[test]
fn the_suite_under_tokio_multi_thread() {
    let tokio = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    run_suite(move |case| tokio.block_on(async { tokio::spawn(case).await.unwrap() }));
}

#[test]
fn the_suite_under_tokio_current_thread() {
    let tokio = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    run_suite(move |case| tokio.block_on(async { tokio::spawn(case).await.unwrap() }));
}

#[test]
fn the_suite_under_smol() {
    run_suite(|case| smol::block_on(smol::spawn(case)));
}

#[test]
fn the_suite_under_futures_block_on() {
    run_suite(futures::executor::block_on);
}

#[test]
fn the_suite_is_there() {
    assert!(all().len() >= 30, "the tables are short of cases");
}
