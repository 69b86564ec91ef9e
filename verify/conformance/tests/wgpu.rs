//! The suite on Vulkan through wgpu: lavapipe, where it is installed.

#[path = "drivers/find.rs"]
mod find;

use windlass::Runtime;

#[test]
fn wgpu_conforms() {
    let runtime = Runtime::new();
    let Some(device) = find::wgpu(&runtime) else { return };
    find::conform("wgpu", &device);
}
