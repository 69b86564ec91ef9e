//! Kernels in OpenCL's own language and kernels that a device has built in, with their parameters described.

#[path = "drivers/by_hand.rs"]
mod by_hand;
#[path = "drivers/find.rs"]
mod find;

use windlass::image::{ImageFormat, Kernel, KernelImage, Parameter, Slot, SlotAccess, Width};
use windlass::{Buffer, KernelCall, Queue, Result, Runtime, ext};

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
    let add = unsafe { ext::builtin("pocl.add.i8", [READ, READ, WRITE]) };
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
    assert!(text.contains("kernel `pocl.add.i8` did not build"), "{text}");
    Ok(())
}

#[test]
fn built_in_kernels_are_listed() -> Result<()> {
    let Some(queue) = queue() else { return Ok(()) };
    let device = queue.device();
    let by_hand = by_hand::device(device.name()).built_in_kernels().expect("every device says which");
    let listed = device.builtin_kernels();
    assert_eq!(listed.join(";"), by_hand.trim_end_matches(['\0', ';']), "{device}");
    eprintln!("{device}: {listed:?}");
    Ok(())
}

#[test]
fn a_built_in_kernel_that_no_device_has_is_refused_by_name() -> Result<()> {
    let Some(queue) = queue() else { return Ok(()) };
    // SAFETY: there is none, so it does nothing.
    let none = unsafe { ext::builtin("nobody.has.this", [WRITE]) };
    let x = Buffer::<i32>::new(4);
    let refused = queue.submit(|cg| cg.parallel_for(4, KernelCall::new(&none).buffer(cg.read_write(&x))));
    let error = refused.and_then(|event| event.blocking_wait()).expect_err("no device has it");
    assert!(error.to_string().contains("nobody.has.this"), "{error}");
    Ok(())
}

/// Runs what should make three times as much of each element, or says how it is refused.
fn run_triples(queue: &Queue, kernel: &Kernel) -> Result<Vec<u32>> {
    let v = Buffer::from((0..16).collect::<Vec<u32>>());
    queue
        .submit(|cg| cg.parallel_for(16, KernelCall::new(kernel).buffer(cg.read_write(&v))))?
        .blocking_wait()?;
    Ok(v.host_read().blocking_wait()?.to_vec())
}

/// Where the device takes the format it runs, and else it is refused with the formats that there are.
fn runs_or_is_refused(format: ImageFormat, image: KernelImage) -> Result<()> {
    let Some(queue) = queue() else { return Ok(()) };
    let kernel = Kernel::new("triple", [WRITE], [image.with_parameters([Parameter::Start(0)])]);
    let ran = run_triples(&queue, &kernel);
    match queue.device().info().formats.contains(&format) {
        true => assert_eq!(ran?, (0..16).map(|i| 3 * i).collect::<Vec<u32>>(), "on {}", queue.device()),
        false => {
            eprintln!("{} takes no {format:?}, and is to say so", queue.device());
            let error = ran.expect_err("the device does not take it").to_string();
            assert!(error.contains(&format!("images in [{format:?}]")), "{error}");
        }
    }
    Ok(())
}

#[test]
fn a_kernel_in_ptx_runs_on_nvidias_devices() -> Result<()> {
    let text = "
.version 6.0
.target sm_60
.address_size 64
.entry triple(.param .u64 .ptr .global .align 4 triple_param_0)
{
    .reg .b32 %r<6>;
    .reg .b64 %rd<4>;
    ld.param.u64 %rd1, [triple_param_0];
    mov.u32 %r1, %ctaid.x;
    mov.u32 %r2, %ntid.x;
    mov.u32 %r3, %tid.x;
    mad.lo.s32 %r4, %r1, %r2, %r3;
    mul.wide.u32 %rd2, %r4, 4;
    add.s64 %rd3, %rd1, %rd2;
    ld.global.u32 %r5, [%rd3];
    mul.lo.s32 %r5, %r5, 3;
    st.global.u32 [%rd3], %r5;
    ret;
}
";
    // SAFETY: each item touches its own element.
    runs_or_is_refused(ImageFormat::Ptx, unsafe { KernelImage::ptx("triple", text) })
}

#[test]
fn a_kernel_in_spirv_runs_where_it_is_taken() -> Result<()> {
    let words = spirv();
    // SAFETY: each item touches its own element.
    runs_or_is_refused(ImageFormat::SpirV, unsafe { KernelImage::spirv("triple", &words) })
}

/// `__kernel void triple(__global uint *v) { v[get_global_id(0)] *= 3; }`, assembled by hand.
fn spirv() -> Vec<u32> {
    let [void, uint, ulong, ids, ids_in, pointer, function, three, id, main, v, label, all, first, at, x, y] =
        std::array::from_fn(|number| number as u32 + 1);
    let mut words = vec![0x0723_0203, 0x0001_0000, 0, 18, 0];
    let mut op = |code: u32, operands: &[u32]| {
        words.push((operands.len() as u32 + 1) << 16 | code);
        words.extend(operands);
    };
    // Addresses, Kernel, Int64; pointers of 64 bits, OpenCL's memory model.
    [4, 6, 11].iter().for_each(|capability| op(17, &[*capability]));
    op(14, &[2, 2]);
    op(15, &[6, main, u32::from_le_bytes(*b"trip"), u32::from_le_bytes(*b"le\0\0"), id]);
    // The variable is the item's position.
    op(71, &[id, 11, 28]);
    op(71, &[id, 22]);
    op(19, &[void]);
    op(21, &[uint, 32, 0]);
    op(21, &[ulong, 64, 0]);
    op(23, &[ids, ulong, 3]);
    op(32, &[ids_in, 1, ids]);
    op(32, &[pointer, 5, uint]);
    op(33, &[function, void, pointer]);
    op(43, &[uint, three, 3]);
    op(59, &[ids_in, id, 1]);
    op(54, &[void, main, 0, function]);
    op(55, &[pointer, v]);
    op(248, &[label]);
    op(61, &[ids, all, id, 2, 32]);
    op(81, &[ulong, first, all, 0]);
    op(70, &[pointer, at, v, first]);
    op(61, &[uint, x, at, 2, 4]);
    op(132, &[uint, y, x, three]);
    op(62, &[at, y, 2, 4]);
    op(253, &[]);
    op(56, &[]);
    words
}

/// What a compiler has made for one device runs there; a device of another name gets the text.
#[test]
fn a_kernel_that_was_compiled_before_runs_on_its_device() -> Result<()> {
    let Some(queue) = queue() else { return Ok(()) };
    let name = queue.device().name();
    let by = |factor: u32| {
        format!("__kernel void triple(__global uint *v) {{ v[get_global_id(0)] *= {factor}; }}")
    };
    let code = compiled(name, &by(3));
    let parameters = [Parameter::Start(0)];
    let made = |device: &str, code: &[u8]| {
        // SAFETY: each item touches its own element; the code is whole, or none that a driver takes for code.
        let image = unsafe { KernelImage::binary(device, "triple", code) };
        image.with_parameters(parameters)
    };
    // SAFETY: each item touches its own element.
    let text = unsafe { KernelImage::opencl_c("triple", &by(5)) }.with_parameters(parameters);
    let own = Kernel::new("triple", [WRITE], [text.clone(), made(name, &code)]);
    assert_eq!(run_triples(&queue, &own)?, (0..16).map(|i| 3 * i).collect::<Vec<u32>>());
    let others = Kernel::new("triple", [WRITE], [made("another device", &code), text]);
    assert_eq!(run_triples(&queue, &others)?, (0..16).map(|i| 5 * i).collect::<Vec<u32>>());
    let none = Kernel::new("triple", [WRITE], [made("another device", &code)]);
    let error = run_triples(&queue, &none).expect_err("it is for another device").to_string();
    assert!(error.contains("images in [Binary]"), "{error}");
    let broken = Kernel::new("triple", [WRITE], [made(name, b"nothing")]);
    assert!(run_triples(&queue, &broken).is_err());
    Ok(())
}

/// What the device's own compiler makes of a text.
fn compiled(device: &str, text: &str) -> Vec<u8> {
    let context = opencl3::context::Context::from_device(&by_hand::device(device));
    let context = context.expect("it opens");
    let program = opencl3::program::Program::create_and_build_from_source(&context, text, "");
    let codes = program.expect("it compiles").get_binaries().expect("it is told");
    codes.into_iter().next().expect("for the device")
}
