//! A process that ends while a device is at work ends well: nothing is waited for, no driver is torn down.

#[path = "thin/lab.rs"]
#[allow(dead_code, reason = "this test needs little of what the other one does")]
mod lab;

use std::process::Command;

use smallvec::smallvec;
use windlass_kernel::LaunchRange;
use windlass_kernel::SlotAccess::ReadWrite;

use lab::{lab, launch, slow, words};

/// Set for the process that is to end early.
const CHILD: &str = "WINDLASS_WGPU_EXIT_TEST";

#[test]
fn a_process_may_end_while_the_device_works() {
    let Some(lab) = lab() else { return };
    if std::env::var_os(CHILD).is_some() {
        let kernel = lab.build(&slow()).expect("the kernel is right");
        let data = lab.allocate(4096 * 4);
        let args = [words(&*data, 0, 4096, ReadWrite)];
        for _ in 0..3 {
            lab.feed(smallvec![launch(&kernel, 4096.range(), &args)]).expect("the group is right");
            lab.lane.flush();
        }
        std::process::exit(0);
    }
    for turn in 0..10 {
        let this = std::env::current_exe().expect("a test knows its own file");
        let child = Command::new(this).env(CHILD, "1").output().expect("it starts");
        assert!(child.status.success(), "turn {turn}: {child:?}");
    }
}
