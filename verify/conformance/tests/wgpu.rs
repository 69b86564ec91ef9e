//! The suite on Vulkan through wgpu: lavapipe and NVIDIA's driver, where they are installed.

#[path = "drivers/find.rs"]
mod find;

use windlass::Runtime;

#[test]
fn wgpu_conforms() {
    let runtime = Runtime::new();
    let Some(device) = find::wgpu(&runtime) else { return };
    find::conform("wgpu", &device);
}

#[test]
fn nvidia_conforms() {
    let runtime = Runtime::new();
    let Some(device) = find::nvidia(&runtime, "wgpu") else { return };
    find::conform("nvidia-vulkan", &device);
}
