// A box of bytes into a box of another buffer. Each work-item has one word of the target: it puts together the bytes of it that are
// in the box, and leaves the others as they are.

struct Job {
    // The target's words that have bytes of the box.
    first: u32,
    end: u32,
    // The box, in bytes.
    width: u32,
    rows: u32,
    slices: u32,
    to: u32,
    to_row: u32,
    to_slice: u32,
    // Where its bytes come from. A row repeats this many bytes.
    from_: u32,
    from_row: u32,
    from_slice: u32,
    period: u32,
}

@group(0) @binding(0) var<storage, read> source: array<u32>;
@group(0) @binding(1) var<storage, read_write> words: array<u32>;
@group(0) @binding(2) var<uniform> job: Job;

@compute @workgroup_size(64)
fn merge(@builtin(global_invocation_id) id: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>) {
    let word = job.first + id.y * groups.x * 64u + id.x;
    if word >= job.end {
        return;
    }
    var bytes = 0u;
    var mask = 0u;
    for (var i = 0u; i < 4u; i++) {
        let place = word * 4u + i;
        if place < job.to {
            continue;
        }
        let distance = place - job.to;
        let slice = distance / job.to_slice;
        let row = distance % job.to_slice / job.to_row;
        let column = distance % job.to_slice % job.to_row;
        if slice < job.slices && row < job.rows && column < job.width {
            let at = job.from_ + slice * job.from_slice + row * job.from_row + column % job.period;
            bytes |= extractBits(source[at / 4u], at % 4u * 8u, 8u) << (i * 8u);
            mask |= 0xffu << (i * 8u);
        }
    }
    if mask != 0u {
        words[word] = (words[word] & ~mask) | bytes;
    }
}
