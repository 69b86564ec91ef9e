//! Kernels in OpenCL's own language and kernels that a device has built in, with their parameters described.

#[path = "drivers/find.rs"]
mod find;

use windlass::image::{Kernel, KernelImage, Parameter, Slot, SlotAccess, Width};
use windlass::{Buffer, KernelCall, Queue, Result, Runtime};

const READ: Slot = Slot::Buffer(SlotAccess::Read);
const WRITE: Slot = Slot::Buffer(SlotAccess::ReadWrite);

fn queue() -> Option<Queue> {
    let runtime = Runtime::new();
    let device = find::opencl(&runtime).into_iter().next()?;
    Some(Queue::builder().device(device).blocking_build().expect("a listed device opens"))
}

/// As somebody wrote it who never heard of Windlass.
const TEXT: &str = "
__kernel void scale(uint n, __global const float *from, __global float *to, uint at, float by, ulong rows, __local float *tile) {
    uint i = get_global_id(0);
    tile[get_local_id(0)] = i < n ? from[i] : 0.0f;
    barrier(CLK_LOCAL_MEM_FENCE);
    if (i < n) to[at + i] = tile[get_local_id(0)] * by + (float)rows;
}";

fn scale() -> Kernel {
    // SAFETY: what it reads and writes is below `n`, the length of the second buffer's range, which is no longer than the first.
    let image = unsafe { KernelImage::opencl_c("scale", TEXT) }.with_parameters([
        Parameter::Len(1, Width::W32),
        Parameter::Start(0),
        Parameter::Start(1),
        Parameter::Offset(1, Width::W32),
        Parameter::Slot(2),
        Parameter::Extent(0, Width::W64),
        Parameter::Slot(3),
    ]);
    Kernel::new("scale", [READ, WRITE, Slot::Value(4), Slot::Local(0)], [image])
}

#[test]
fn a_foreign_kernel_is_called_by_its_description() -> Result<()> {
    let Some(queue) = queue() else { return Ok(()) };
    let from = Buffer::from((0..16).map(|i| i as f32).collect::<Vec<_>>());
    let to = Buffer::from(vec![-1.0_f32; 20]);
    let part = to.range(3..11);
    let kernel = scale();
    queue.submit(|cg| {
        let call = KernelCall::new(&kernel).buffer(cg.read(&from)).buffer(cg.write(&part));
        cg.parallel_for(windlass::NdRange { global: [16], local: [4] }, call.value(2.0_f32).local::<f32>(4))
    })?;
    let expected: Vec<f32> =
        (0..20).map(|i| if (3..11).contains(&i) { (i - 3) as f32 * 2.0 + 16.0 } else { -1.0 }).collect();
    assert_eq!(to.host_read().blocking_wait()?.to_vec(), expected);

    // What takes no offset is told of a range that has one.
    let end = from.range(5..16);
    let refused = queue.submit(|cg| {
        let call = KernelCall::new(&kernel).buffer(cg.read(&end)).buffer(cg.write(&part));
        cg.parallel_for(windlass::NdRange { global: [16], local: [4] }, call.value(2.0_f32).local::<f32>(4))
    });
    let error = refused.and_then(|event| event.blocking_wait()).expect_err("it starts at element 5");
    assert!(error.to_string().contains("starts at element 5"), "{error}");
    Ok(())
}

#[test]
fn a_description_that_does_not_fit_is_refused() -> Result<()> {
    let Some(queue) = queue() else { return Ok(()) };
    // SAFETY: it does nothing.
    let image = unsafe { KernelImage::opencl_c("none", "__kernel void none(__global int *x) {}") };
    let kernel = Kernel::new("none", [WRITE], [image.with_parameters([Parameter::Slot(0)])]);
    let x = Buffer::from(vec![0_i32; 4]);
    let refused = queue.submit(|cg| cg.parallel_for(4, KernelCall::new(&kernel).buffer(cg.read_write(&x))));
    let error = refused.and_then(|event| event.blocking_wait()).expect_err("a buffer is no value");
    assert!(error.to_string().contains("parameter 0 of kernel `none`"), "{error}");
    Ok(())
}

/// PoCL has one that adds bytes. Debian's package lists it and lacks its text: there the error has to say so, and every other
/// PoCL has to run it.
#[test]
fn a_built_in_kernel_runs_but_on_debians_pocl_which_says_why_not() -> Result<()> {
    let Some(queue) = queue() else { return Ok(()) };
    if queue.device().platform_name() != "Portable Computing Language" {
        find::missing("no PoCL, whose built-in kernels this is about");
        return Ok(());
    }
    // SAFETY: it reads and writes one byte for each work-item.
    let image = unsafe { KernelImage::builtin("pocl.add.i8") };
    let add = Kernel::new("add", [READ, READ, WRITE], [image]);
    let (a, b) = (Buffer::from((0..64).collect::<Vec<i8>>()), Buffer::from(vec![3_i8; 64]));
    let sum = Buffer::<i8>::new(64);
    let done = queue.submit(|cg| {
        let call = KernelCall::new(&add).buffer(cg.read(&a)).buffer(cg.read(&b)).buffer(cg.overwrite(&sum));
        cg.parallel_for(64, call)
    });
    let ended = done.and_then(|event| event.blocking_wait());
    if !queue.device().info().driver.contains("debian") {
        ended?;
        assert_eq!(sum.host_read().blocking_wait()?.to_vec(), (3..67).collect::<Vec<i8>>());
        return Ok(());
    }
    let text = ended.expect_err("Debian's package has it now: let it run").to_string();
    assert!(text.contains("kernel `add` did not build") && text.contains("pocl.add.i8"), "{text}");
    Ok(())
}

#[test]
fn a_built_in_kernel_that_no_device_has_is_refused_by_name() -> Result<()> {
    let Some(queue) = queue() else { return Ok(()) };
    // SAFETY: there is none, so it does nothing.
    let image = unsafe { KernelImage::builtin("nobody.has.this") };
    let none = Kernel::new("none", [WRITE], [image]);
    let x = Buffer::<i32>::new(4);
    let refused = queue.submit(|cg| cg.parallel_for(4, KernelCall::new(&none).buffer(cg.read_write(&x))));
    let error = refused.and_then(|event| event.blocking_wait()).expect_err("no device has it");
    assert!(error.to_string().contains("nobody.has.this"), "{error}");
    Ok(())
}
