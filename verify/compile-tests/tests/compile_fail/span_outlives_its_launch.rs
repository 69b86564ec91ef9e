//! The memory of a launch cannot be kept beyond it.

use std::sync::{Arc, Mutex, mpsc};

use windlass::image::{Block, KernelImage};

fn main() {
    let (sender, kept) = mpsc::channel();
    let sender = Mutex::new(sender);
    KernelImage::host(Arc::new(move |block: Block<'_>| {
        let _ = sender.lock().unwrap().send(block.spans()[0]);
    }));
    drop(kept.recv());
}
