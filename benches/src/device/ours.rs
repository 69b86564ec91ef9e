//! The kernels as one writes them in Windlass.

/// Rows and columns of a tile that a work-group multiplies at a time.
pub(crate) const TILE: usize = 16;

#[windlass::kernel]
pub(crate) fn saxpy(a: f32, x: &[f32], y: &mut [f32]) {
    let i = global_id(0);
    if i < y.len() {
        y[i] = a * x[i] + y[i];
    }
}

#[windlass::kernel]
pub(crate) fn triad(c: &mut [f32], a: &[f32], b: &[f32]) {
    let i = global_id(0);
    c[i] = a[i] + 3.0 * b[i];
}

#[windlass::kernel]
pub(crate) fn stencil(from: &View<f32, 2>, to: &mut View<f32, 2>) {
    let y = global_id(0);
    let x = global_id(1);
    if y > 0 && x > 0 && y + 1 < from.extent(0) && x + 1 < from.extent(1) {
        to[y][x] =
            0.5 * from[y][x] + 0.125 * (from[y - 1][x] + from[y + 1][x] + from[y][x - 1] + from[y][x + 1]);
    }
}

#[windlass::kernel]
pub(crate) fn sum(x: &[f32], #[reduce(sum)] total: &mut f32) {
    *total += x[global_id(0)];
}

/// One work-group of 256 for each row.
#[windlass::kernel]
pub(crate) fn softmax(columns: u32, x: &[f32], y: &mut [f32], #[local] part: &mut [f32; 256]) {
    let row = group_id(0) * columns;
    let i = local_id(0);
    let mut most = -1.0e30;
    let mut at = i;
    while at < columns {
        most = most.max(x[row + at]);
        at += 256;
    }
    part[i] = most;
    barrier();
    let mut half = 128;
    while half > 0 {
        if i < half {
            part[i] = part[i].max(part[i + half]);
        }
        barrier();
        half /= 2;
    }
    most = part[0];
    barrier();
    let mut sum = 0.0;
    at = i;
    while at < columns {
        sum += (x[row + at] - most).exp();
        at += 256;
    }
    part[i] = sum;
    barrier();
    half = 128;
    while half > 0 {
        if i < half {
            part[i] += part[i + half];
        }
        barrier();
        half /= 2;
    }
    sum = part[0];
    at = i;
    while at < columns {
        y[row + at] = (x[row + at] - most).exp() / sum;
        at += 256;
    }
}

#[windlass::kernel]
pub(crate) fn matmul(
    n: u32,
    a: &[f32],
    b: &[f32],
    c: &mut [f32],
    #[local] a_tile: &mut [f32; 256],
    #[local] b_tile: &mut [f32; 256],
) {
    let row = global_id(0);
    let column = global_id(1);
    let y = local_id(0);
    let x = local_id(1);
    let mut sum = 0.0;
    for t in 0..n / 16 {
        a_tile[y * 16 + x] = a[row * n + t * 16 + x];
        b_tile[y * 16 + x] = b[(t * 16 + y) * n + column];
        barrier();
        for k in 0..16 {
            sum += a_tile[y * 16 + k] * b_tile[k * 16 + x];
        }
        barrier();
    }
    c[row * n + column] = sum;
}

/// Each item of a group of 16 x 16 makes 4 x 4 elements of a tile of 64 x 64.
#[windlass::kernel]
pub(crate) fn matmul_registers(
    n: u32,
    a: &[f32],
    b: &[f32],
    c: &mut [f32],
    #[local] a_tile: &mut [f32; 1024],
    #[local] b_tile: &mut [f32; 1024],
) {
    let y = local_id(0);
    let x = local_id(1);
    let at = y * 16 + x;
    let top = group_id(0) * 64;
    let left = group_id(1) * 64;
    let mut sums = [0.0_f32; 16];
    for t in 0..n / 16 {
        for load in 0..4 {
            let i = at + load * 256;
            a_tile[i] = a[(top + i / 16) * n + t * 16 + i % 16];
            b_tile[i] = b[(t * 16 + i / 64) * n + left + i % 64];
        }
        barrier();
        for k in 0..16 {
            let mut column = [0.0_f32; 4];
            let mut row = [0.0_f32; 4];
            for i in 0..4 {
                column[i] = a_tile[(y + i * 16) * 16 + k];
                row[i] = b_tile[k * 64 + x + i * 16];
            }
            for i in 0..4 {
                for j in 0..4 {
                    sums[i * 4 + j] += column[i] * row[j];
                }
            }
        }
        barrier();
    }
    for i in 0..4 {
        for j in 0..4 {
            c[(top + y + i * 16) * n + left + x + j * 16] = sums[i * 4 + j];
        }
    }
}

/// 256 bins, first in the group's own memory.
#[windlass::kernel]
pub(crate) fn histogram(x: &[u32], bins: &[AtomicU32], #[local] own: &[AtomicU32; 256]) {
    let i = local_id(0);
    let mut at = global_id(0);
    while at < x.len() {
        own[x[at] % 256].fetch_add(1, Relaxed);
        at += global_size(0);
    }
    barrier();
    bins[i].fetch_add(own[i].load(Relaxed), Relaxed);
}

/// Each group's 256 elements, summed up to each.
#[windlass::kernel]
pub(crate) fn scan(x: &[u32], y: &mut [u32], #[local] part: &mut [u32; 512]) {
    let i = local_id(0);
    let mut from = 0;
    part[i] = x[global_id(0)];
    barrier();
    let mut step = 1;
    while step < 256 {
        let mut sum = part[from + i];
        if i >= step {
            sum += part[from + i - step];
        }
        part[256 - from + i] = sum;
        from = 256 - from;
        barrier();
        step *= 2;
    }
    y[global_id(0)] = part[from + i];
}

#[windlass::kernel]
pub(crate) fn nbody(places: &[Vec4<f32>], forces: &mut [Vec4<f32>], #[local] tile: &mut [Vec4<f32>; 256]) {
    let at = global_id(0);
    let i = local_id(0);
    let own = places[at];
    let mut force = Vec4::splat(0.0_f32);
    for t in 0..places.len() / 256 {
        tile[i] = places[t * 256 + i];
        barrier();
        for k in 0..256 {
            let other = tile[k];
            let away = other - own;
            let square = away.x * away.x + away.y * away.y + away.z * away.z + 0.01;
            let by = 1.0 / square.sqrt();
            force = force + away * (other.w * by * by * by);
        }
        barrier();
    }
    forces[at] = force;
}
