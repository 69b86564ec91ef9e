//! Compute shaders in SPIR-V, as a compiler of GLSL has made them, on devices that have never heard of it.

#[path = "drivers/find.rs"]
mod find;

use windlass::image::{Kernel, Slot, SlotAccess};
use windlass::{Buffer, Device, KernelCall, Queue, Result, Runtime, ext};

/// `spirv/scaled.comp`, compiled.
fn scaled() -> Vec<u32> {
    let bytes = include_bytes!("spirv/scaled.spv");
    bytes.chunks_exact(4).map(|word| u32::from_le_bytes(word.try_into().expect("four bytes"))).collect()
}

fn kernel() -> Result<Kernel> {
    let slots = [Slot::Buffer(SlotAccess::Read), Slot::Buffer(SlotAccess::ReadWrite), Slot::Value(4)];
    Ok(Kernel::new("scaled", slots, [ext::spirv_shader("main", &scaled())?]))
}

fn run_on(device: Option<Device>) -> Result<()> {
    let Some(device) = device else { return Ok(()) };
    let queue = Queue::builder().device(device).blocking_build()?;
    let kernel = kernel()?;
    let from = Buffer::from((0..200).map(|i| i as f32).collect::<Vec<_>>());
    let to = Buffer::from(vec![-1.0_f32; 210]);
    // Parts of both, so that neither begins where its binding does.
    let (from, part) = (from.range(7..137), to.range(3..133));
    queue.submit(|cg| {
        let call = KernelCall::new(&kernel).buffer(cg.read(&from)).buffer(cg.write(&part)).value(2.0_f32);
        cg.parallel_for(130, call)
    })?;
    let expected = |i: usize| match i {
        3..133 => 2.0 * (7 + ((i - 3) ^ 1)) as f32,
        _ => -1.0,
    };
    let expected: Vec<f32> = (0..210).map(expected).collect();
    assert_eq!(to.host_read().blocking_wait()?.to_vec(), expected, "{}", queue.device().name());
    Ok(())
}

#[test]
fn a_shader_runs_on_vulkan() -> Result<()> {
    run_on(find::wgpu(&Runtime::new()))
}

#[test]
fn a_shader_runs_on_opencl() -> Result<()> {
    run_on(find::opencl(&Runtime::new()))
}

#[test]
fn what_is_no_shader_is_refused() {
    let whole = scaled();
    assert!(ext::spirv_shader("main", &[]).is_err());
    let error = ext::spirv_shader("other", &whole).unwrap_err();
    assert!(error.to_string().contains("no compute entry point `other`"), "{error}");
    assert!(ext::spirv_shader("main", &whole[..whole.len() / 2]).is_err());
    // Words of it changed one by one: none of them brings anything down.
    for at in 0..whole.len() {
        let mut words = whole.clone();
        words[at] ^= 0x0101_0101;
        let _ = ext::spirv_shader("main", &words);
    }
}
