//! The suite on the host backend.

use windlass::Runtime;
use windlass_conformance::{Kernels, Subject, expected, run};

#[test]
fn host_conforms() {
    let runtime = Runtime::new();
    let device =
        Subject::find(&runtime, |d| d.backend().as_str() == "host").expect("the host is always there");
    let subject = Subject::open("host", &device, Kernels::new()).expect("the host opens");
    run(&subject).compare(expected::of("host")).unwrap_or_else(|text| panic!("{text}"));
}
