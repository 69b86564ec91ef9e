//! Random programs on the host backend: real threads, several contexts.

use windlass::{Context, Queue, Runtime};
use windlass_conformance::Kernels;
use windlass_conformance::programs::{World, run};

#[test]
fn random_programs_on_the_host() {
    let runtime = Runtime::new();
    let host = runtime.host().expect("the host is built in");
    let own = || Context::blocking_open(std::slice::from_ref(&host)).expect("a host context opens");
    let (second, third) = (own(), own());
    let queue = |context: Option<&Context>, in_order: bool| {
        let builder = Queue::builder().device(host.clone());
        let builder = context.into_iter().fold(builder, |b, context| b.context(context));
        let builder = if in_order { builder.in_order() } else { builder };
        builder.handler(|_| {}).blocking_build().expect("a host queue opens")
    };
    let places = vec![
        queue(None, false),
        queue(None, true),
        queue(Some(&second), false),
        queue(Some(&second), false),
        queue(Some(&third), true),
    ];
    let world = World { places, kernels: Kernels::new(), stays: Some(600) };
    let tally = run(&world, 0..5_000).unwrap_or_else(|failure| panic!("{failure}"));
    println!("{tally:?}, {:?}", runtime.stats());
    // If the programs did nothing, this test would say nothing.
    assert_eq!(tally.programs, 5_000);
    assert!(tally.steps > 50_000 && tally.failed > 5_000, "{tally:?}");
    // The host has memory of every kind, and all of it has addresses and may be changed at the same time where it is shared.
    assert!(tally.placed > 2_000 && tally.unplaced == 0, "{tally:?}");
    assert!(tally.by_address > 3_000 && tally.at_once > 500, "{tally:?}");
    let stats = runtime.stats();
    assert!(stats.transfers > 10_000 && stats.proxies > 1_000 && stats.host_tasks > 1_000, "{stats:?}");
}
