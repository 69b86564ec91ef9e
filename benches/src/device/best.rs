//! Kernels that go through memory by four elements at a time, and the fastest product of matrices that the language was
//! got to.

#[windlass::kernel]
pub(super) fn saxpy(a: f32, x: &[Vec4<f32>], y: &mut [Vec4<f32>]) {
    let i = global_id(0);
    if i < y.len() {
        y[i] = x[i].mul_add(Vec4::splat(a), y[i]);
    }
}

#[windlass::kernel]
pub(super) fn triad(c: &mut [Vec4<f32>], a: &[Vec4<f32>], b: &[Vec4<f32>]) {
    let i = global_id(0);
    c[i] = b[i].mul_add(Vec4::splat(3.0), a[i]);
}

/// Rows and columns that a group of 16 x 16 items makes.
pub(super) const SIDE: usize = 128;

/// Each item makes 8 x 8 elements: rows `y`, `y + 16`, …, columns `4 * x` to `4 * x + 3` of either half.
#[windlass::kernel(group = [16, 16])]
pub(super) fn matmul(
    n: u32,
    a: &[Vec4<f32>],
    b: &[Vec4<f32>],
    c: &mut [Vec4<f32>],
    #[local] a_tile: &mut [Vec4<f32>; 512],
    #[local] b_tile: &mut [Vec4<f32>; 512],
) {
    let (y, x) = (local_id(0), local_id(1));
    let (top, left) = (group_id(0) * 128, group_id(1) * 32);
    let (at, wide) = (y * 16 + x, n / 4);
    let mut sums = [Vec4::splat(0.0_f32); 16];
    for t in 0..n / 16 {
        for load in 0..2 {
            let i = at + load * 256;
            a_tile[i] = a[(top + i / 4) * wide + t * 4 + i % 4];
            b_tile[i] = b[(t * 16 + i / 32) * wide + left + i % 32];
        }
        barrier();
        for k in 0..4 {
            let mut rows = [Vec4::splat(0.0_f32); 8];
            for i in 0..8 {
                rows[i] = a_tile[(y + i * 16) * 4 + k];
            }
            let mut first = b_tile[k * 128 + x];
            let mut second = b_tile[k * 128 + x + 16];
            for i in 0..8 {
                let by = Vec4::splat(rows[i].x);
                sums[i * 2] = by.mul_add(first, sums[i * 2]);
                sums[i * 2 + 1] = by.mul_add(second, sums[i * 2 + 1]);
            }
            first = b_tile[k * 128 + 32 + x];
            second = b_tile[k * 128 + 48 + x];
            for i in 0..8 {
                let by = Vec4::splat(rows[i].y);
                sums[i * 2] = by.mul_add(first, sums[i * 2]);
                sums[i * 2 + 1] = by.mul_add(second, sums[i * 2 + 1]);
            }
            first = b_tile[k * 128 + 64 + x];
            second = b_tile[k * 128 + 80 + x];
            for i in 0..8 {
                let by = Vec4::splat(rows[i].z);
                sums[i * 2] = by.mul_add(first, sums[i * 2]);
                sums[i * 2 + 1] = by.mul_add(second, sums[i * 2 + 1]);
            }
            first = b_tile[k * 128 + 96 + x];
            second = b_tile[k * 128 + 112 + x];
            for i in 0..8 {
                let by = Vec4::splat(rows[i].w);
                sums[i * 2] = by.mul_add(first, sums[i * 2]);
                sums[i * 2 + 1] = by.mul_add(second, sums[i * 2 + 1]);
            }
        }
        barrier();
    }
    for i in 0..8 {
        let row = (top + y + i * 16) * wide + left + x;
        c[row] = sums[i * 2];
        c[row + 16] = sums[i * 2 + 1];
    }
}
