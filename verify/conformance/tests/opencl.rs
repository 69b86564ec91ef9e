//! The suite on OpenCL: PoCL, where it is installed.

#[path = "drivers/find.rs"]
mod find;

use windlass::Runtime;

#[test]
fn opencl_conforms() {
    let runtime = Runtime::new();
    let Some(device) = find::opencl(&runtime) else { return };
    find::conform("opencl", &device);
}
