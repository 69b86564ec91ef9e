//! What kernels say by `debug!`: each launch brings memory for it, and a host task behind the group says it.

use windlass_kernel::Kernel;
use windlass_kernel::message::{Said, WORDS, said};

use super::{CommandGroup, KernelCall};
use crate::buffer::Buffer;
use crate::error::Result;
use crate::event::Event;
use crate::queue::Queue;

/// The memory into which a launch's items say something.
#[derive(Debug)]
pub(crate) struct Listener {
    kernel: Kernel,
    memory: Buffer<u32>,
}

impl<'g> CommandGroup<'g> {
    /// The call with memory for what its items say, if they say anything.
    pub(super) fn listening(&self, call: KernelCall<'g>) -> KernelCall<'g> {
        if call.kernel().messages().is_empty() {
            return call;
        }
        let listener = Listener { kernel: call.kernel().clone(), memory: Buffer::new(WORDS) };
        let call = call.buffer(self.atomic(&listener.memory));
        self.builder.borrow_mut().listeners.push(listener);
        call
    }
}

impl Listener {
    /// Has it said once the group is over that was submitted last. Who waits until the queue has drained has seen it.
    pub(crate) fn listen(self, queue: &Queue) -> Result<Event> {
        let Listener { kernel, memory } = self;
        queue.submit(|cg| {
            let words = cg.read(&memory);
            cg.host_task(async move |host| {
                say(&kernel, &host.view(&words)?);
                Ok(())
            })
        })
    }
}

/// Says what a launch's items have said: by `tracing`, or on the error stream of a program that has nobody to listen to that.
pub(super) fn say(kernel: &Kernel, words: &[u32]) {
    let name = kernel.name();
    let is_heard = tracing::dispatcher::has_been_set();
    let (all, lost) = said(kernel.messages(), words);
    // Written at once, so that nobody else's lines come between.
    let mut lines = String::new();
    for Said { at: (file, line), item, text } in all {
        let item = match item {
            [one] => one.to_string(),
            all => format!("{all:?}"),
        };
        match is_heard {
            true => tracing::debug!(target: "windlass::kernel", kernel = name, item, file, line, "{text}"),
            false => {
                lines.push_str(&format!("windlass: kernel `{name}`, item {item}, {file}:{line}: {text}\n"))
            }
        }
    }
    match (lost, is_heard) {
        (0, _) => {}
        (_, true) => {
            tracing::warn!(target: "windlass::kernel", kernel = name, lost, "a launch has said too much")
        }
        (_, false) => lines.push_str(&format!(
            "windlass: kernel `{name}` has said too much in one launch: {lost} messages are lost\n"
        )),
    }
    if !lines.is_empty() {
        eprint!("{lines}");
    }
}
