//! Kernels that follow pointers: a list that the host links and a device walks, and rows of different lengths whose places stand in a
//! table.
//!
//! It takes memory that host and device have in common and at one address (`Aspect::Pointers`): many OpenCL devices have such, and the
//! host itself. A pointer is a number: what a kernel reaches by one is what its launch names, and anything else reads as zero.

use windlass::prelude::*;
use windlass::{MemoryKind, Result};

#[windlass::kernels]
mod lists {
    use windlass::prelude::*;

    #[derive(Clone, Copy, DeviceCopy)]
    #[repr(C)]
    pub(crate) struct Node {
        pub next: Ptr<Node>,
        pub value: u64,
    }

    #[kernel]
    pub fn walk(first: Ptr<Node>, sum: &mut [u64]) {
        let mut all = 0;
        let mut node = first;
        while !node.is_null() {
            all += node[0].value;
            node = node[0].next;
        }
        sum[global_id(0)] = all;
    }

    /// Where a row is, and how long.
    #[derive(Clone, Copy, DeviceCopy)]
    #[repr(C)]
    pub(crate) struct Row {
        pub at: Ptr<f32>,
        pub len: u64,
    }

    /// Each item has a row, and makes its numbers add up to one.
    #[kernel]
    pub fn normalise(rows: &[Row]) {
        let row = rows[global_id(0)];
        let len = row.len as u32;
        let mut sum = 0.0;
        for k in 0..len {
            sum += row.at[k];
        }
        for k in 0..len {
            row.at[k] /= sum;
        }
    }
}

#[tokio::main]
async fn main() -> Result<()> {
    // The best device that has addresses.
    let queue = Queue::builder().select(Selector::new().kernel(lists::walk::kernel())).build().await?;
    println!("on {}", queue.device());

    // A buffer that stays in memory of both, so its address stays the same.
    let nodes = queue.buffer_in::<lists::Node, 1>(MemoryKind::Shared, 100).await?;
    let start = nodes.pointer().expect("such memory has addresses");
    let mut all = nodes.host_write().await?;
    for i in 0..100 {
        // Each points at the one before it.
        let next = if i == 0 { Ptr::null() } else { start.add(i - 1) };
        all[i] = lists::Node { next, value: i as u64 };
    }
    drop(all);

    let sum = Buffer::<u64>::new(1);
    let submit = || {
        queue.submit(|cg| {
            let call = lists::walk(start.add(99), cg.overwrite(&sum));
            // What the kernel finds by itself: it is ordered and kept like an argument.
            cg.parallel_for(1, call.reaching(cg.read(&nodes)))
        })
    };
    submit()?;
    assert_eq!(sum.host_read().await?[0], (0..100).sum());

    // The host cuts the list short, behind that group, and the next one sees it.
    nodes.host_write().await?[90].next = Ptr::null();
    submit()?;
    assert_eq!(sum.host_read().await?[0], (90..100).sum());
    println!("the list was walked twice");

    // A buffer that may go anywhere has no address.
    assert_eq!(sum.pointer(), None);

    // Rows of different lengths, one behind the other; where each is stands in a buffer of the ordinary kind.
    let lens = [3, 1, 4, 1, 5, 9];
    let numbers = queue.import(MemoryKind::Shared, vec![2.0_f32; lens.iter().sum()]).await?;
    let mut at = numbers.pointer().expect("such memory has addresses");
    let mut rows = Vec::new();
    for len in lens {
        rows.push(lists::Row { at, len: len as u64 });
        at = at.add(len);
    }
    let rows = Buffer::from(rows);
    queue.submit(|cg| {
        cg.parallel_for(lens.len(), lists::normalise(cg.read(&rows)).reaching(cg.read_write(&numbers)))
    })?;
    let numbers = numbers.host_read().await?;
    assert_eq!((numbers[0], numbers[3], numbers[4]), (1.0 / 3.0, 1.0, 0.25));
    println!("each row adds up to one");
    Ok(())
}
