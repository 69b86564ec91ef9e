//! A service on OpenCL as one writes it with `opencl3`: places with a queue, a kernel and buffers each, and threads that wait.

use std::ptr;
use std::sync::{Arc, Mutex};

use futures::future::FutureExt;
use opencl3::command_queue::CommandQueue;
use opencl3::context::Context;
use opencl3::device::{CL_DEVICE_TYPE_ALL, Device, get_all_devices};
use opencl3::kernel::{ExecuteKernel, Kernel};
use opencl3::memory::{Buffer, CL_MEM_READ_ONLY, CL_MEM_WRITE_ONLY};
use opencl3::program::Program;
use opencl3::types::{CL_BLOCKING, CL_NON_BLOCKING};
use tokio::sync::Semaphore;

use crate::service::ways::{LEN, Service, in_time};

const TEXT: &str = "
__kernel void tripled(__global const float *x, __global float *y) {
    size_t i = get_global_id(0);
    y[i] = 3.0f * x[i];
}";

/// Requests that are on the device or on their way.
const PLACES: usize = 32;

struct Place {
    queue: CommandQueue,
    kernel: Kernel,
    x: Buffer<f32>,
    y: Buffer<f32>,
}

impl Place {
    fn new(context: &Context, device: &Device, program: &Program) -> Self {
        let queue = CommandQueue::create_default_with_properties(context, 0, 0)
            .unwrap_or_else(|error| panic!("a queue on {device:?}: {error}"));
        let kernel = Kernel::create(program, "tripled").expect("it is there");
        // SAFETY: no memory of ours is given.
        let (x, y) = unsafe {
            (
                Buffer::create(context, CL_MEM_READ_ONLY, LEN, ptr::null_mut()).expect("there is memory"),
                Buffer::create(context, CL_MEM_WRITE_ONLY, LEN, ptr::null_mut()).expect("there is memory"),
            )
        };
        Place { queue, kernel, x, y }
    }

    fn answer(&mut self, request: &[f32]) -> Vec<f32> {
        let mut answer = vec![0.0; LEN];
        // SAFETY: the kernel's arguments are its own, of `LEN` elements each as the range has; both slices live until the read, which
        // waits, has ended, and the queue runs in order.
        unsafe {
            self.queue
                .enqueue_write_buffer(&mut self.x, CL_NON_BLOCKING, 0, request, &[])
                .and_then(|_| {
                    ExecuteKernel::new(&self.kernel)
                        .set_arg(&self.x)
                        .set_arg(&self.y)
                        .set_global_work_size(LEN)
                        .enqueue_nd_range(&self.queue)
                })
                .and_then(|_| self.queue.enqueue_read_buffer(&self.y, CL_BLOCKING, 0, &mut answer, &[]))
                .expect("it runs");
        }
        answer
    }
}

/// On the device of this name.
pub(super) fn by_hand(name: &str) -> Option<Service> {
    let devices = get_all_devices(CL_DEVICE_TYPE_ALL).ok()?.into_iter().map(Device::new);
    let device = devices.into_iter().find(|device| device.name().is_ok_and(|its| its == name))?;
    let context = Context::from_device(&device).ok()?;
    let program = Program::create_and_build_from_source(&context, TEXT, "").expect("the kernel builds");
    let places: Vec<Place> = (0..PLACES).map(|_| Place::new(&context, &device, &program)).collect();
    let (places, free) = (Arc::new(Mutex::new(places)), Arc::new(Semaphore::new(PLACES)));
    let service = move |request: Vec<f32>, until| {
        let (places, free) = (places.clone(), free.clone());
        let answer = async move {
            let permit = free.acquire_owned().await.expect("nobody closes it");
            let compute = move || {
                let mut place = places.lock().expect("nobody panics").pop().expect("as many as permits");
                let answer = place.answer(&request);
                places.lock().expect("nobody panics").push(place);
                drop(permit);
                answer
            };
            Ok(tokio::task::spawn_blocking(compute).await.expect("it does not panic"))
        };
        in_time(until, answer).boxed()
    };
    Some(Arc::new(service))
}
