//! Every device that is here.

use std::sync::OnceLock;

use windlass::{Buffer, Device, DeviceCopy, Queue, Runtime};

use crate::find;

/// A queue on each device of each backend; the host's is first. Where a driver is missing, this says so, and in CI it
/// is a failure.
pub(crate) fn queues() -> &'static [Queue] {
    static QUEUES: OnceLock<Vec<Queue>> = OnceLock::new();
    QUEUES.get_or_init(|| {
        let runtime = Runtime::new();
        // These complain if there is none.
        let _ = (find::opencl(&runtime), find::wgpu(&runtime));
        let mut devices = futures_lite::future::block_on(runtime.devices()).expect("devices are listed");
        devices.sort_by_key(|device: &Device| device.backend().to_string() != "host");
        let open =
            |device: Device| Queue::builder().device(device).blocking_build().expect("a listed device opens");
        devices.into_iter().map(open).collect()
    })
}

/// Runs a test on every device, which gives elements that must be the same everywhere, and these.
pub(crate) fn everywhere<T: DeviceCopy + PartialEq + std::fmt::Debug>(
    expected: &[T],
    run: impl Fn(&Queue) -> windlass::Result<Vec<T>>,
) {
    for queue in queues() {
        let name = format!("{} ({})", queue.device(), queue.device().backend());
        match run(queue) {
            Ok(found) => assert_eq!(found, expected, "on {name}"),
            Err(error) => panic!("on {name}: {error}"),
        }
    }
}

/// Runs a test on every device that has what it needs, and returns how many of them are not the host. Where there is none, a
/// test that goes by the host alone shows nothing: it is said, and in CI it is a failure.
pub(crate) fn where_there_is(
    what: &str,
    has: impl Fn(&Queue) -> bool,
    mut run: impl FnMut(&Queue) -> windlass::Result<()>,
) {
    let mut beside = 0;
    for queue in queues().iter().filter(|queue| has(queue)) {
        let name = format!("{} ({})", queue.device(), queue.device().backend());
        run(queue).unwrap_or_else(|error| panic!("on {name}: {error}"));
        beside += usize::from(queue.device().backend().to_string() != "host");
    }
    if beside == 0 {
        find::missing(&format!("no device but the host has {what}"));
    }
}

/// What a buffer holds.
pub(crate) fn read<T: DeviceCopy, const D: usize>(buffer: &Buffer<T, D>) -> windlass::Result<Vec<T>> {
    Ok(buffer.host_read().blocking_wait()?.to_vec())
}
