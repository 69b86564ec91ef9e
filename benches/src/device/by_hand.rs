//! The same kernels in OpenCL C as one writes them by hand. Sums and products are not contracted, as in ours.

use windlass::image::{Kernel, KernelImage, Parameter, Slot, SlotAccess, Width};

const TEXT: &str = r"
#pragma OPENCL FP_CONTRACT OFF

__kernel void saxpy(float a, __global const float *x, __global float *y, uint n) {
    uint i = get_global_id(0);
    if (i < n) y[i] = a * x[i] + y[i];
}

__kernel void triad(__global float *c, __global const float *a, __global const float *b, uint n) {
    uint i = get_global_id(0);
    if (i < n) c[i] = a[i] + 3.0f * b[i];
}

__kernel void saxpy4(float a, __global const float4 *x, __global float4 *y, uint n) {
    uint i = get_global_id(0);
    if (i < n) y[i] = a * x[i] + y[i];
}

__kernel void triad4(__global float4 *c, __global const float4 *a, __global const float4 *b, uint n) {
    uint i = get_global_id(0);
    if (i < n) c[i] = a[i] + 3.0f * b[i];
}

__kernel void stencil(__global const float *from, __global float *to, uint rows, uint columns) {
    uint x = get_global_id(0), y = get_global_id(1);
    if (y > 0 && x > 0 && y + 1 < rows && x + 1 < columns) {
        uint at = y * columns + x;
        to[at] = 0.5f * from[at] + 0.125f * (from[at - columns] + from[at + columns] + from[at - 1] + from[at + 1]);
    }
}

__kernel void parts(__global const float *x, __global float *sums, uint n) {
    __local float part[256];
    uint i = get_local_id(0);
    float sum = 0.0f;
    for (uint at = get_global_id(0); at < n; at += get_global_size(0)) sum += x[at];
    part[i] = sum;
    barrier(CLK_LOCAL_MEM_FENCE);
    for (uint half_ = 128; half_ > 0; half_ /= 2) {
        if (i < half_) part[i] += part[i + half_];
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    if (i == 0) sums[get_group_id(0)] = part[0];
}

__kernel void softmax(uint columns, __global const float *x, __global float *y) {
    __local float part[256];
    uint i = get_local_id(0);
    x += get_group_id(0) * columns;
    y += get_group_id(0) * columns;
    float most = -1.0e30f;
    for (uint at = i; at < columns; at += 256) most = fmax(most, x[at]);
    part[i] = most;
    barrier(CLK_LOCAL_MEM_FENCE);
    for (uint half_ = 128; half_ > 0; half_ /= 2) {
        if (i < half_) part[i] = fmax(part[i], part[i + half_]);
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    most = part[0];
    barrier(CLK_LOCAL_MEM_FENCE);
    float sum = 0.0f;
    for (uint at = i; at < columns; at += 256) sum += exp(x[at] - most);
    part[i] = sum;
    barrier(CLK_LOCAL_MEM_FENCE);
    for (uint half_ = 128; half_ > 0; half_ /= 2) {
        if (i < half_) part[i] += part[i + half_];
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    sum = part[0];
    for (uint at = i; at < columns; at += 256) y[at] = exp(x[at] - most) / sum;
}

__kernel void matmul(uint n, __global const float *a, __global const float *b, __global float *c) {
    __local float a_tile[16][16], b_tile[16][16];
    uint x = get_local_id(0), y = get_local_id(1), column = get_global_id(0), row = get_global_id(1);
    float sum = 0.0f;
    for (uint t = 0; t < n / 16; t++) {
        a_tile[y][x] = a[row * n + t * 16 + x];
        b_tile[y][x] = b[(t * 16 + y) * n + column];
        barrier(CLK_LOCAL_MEM_FENCE);
        for (uint k = 0; k < 16; k++) sum += a_tile[y][k] * b_tile[k][x];
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    c[row * n + column] = sum;
}

__kernel void matmul_registers(uint n, __global const float *a, __global const float *b, __global float *c) {
    __local float a_tile[64][16], b_tile[16][64];
    uint x = get_local_id(0), y = get_local_id(1), at = y * 16 + x;
    uint top = get_group_id(1) * 64, left = get_group_id(0) * 64;
    float sums[4][4] = {{0}};
    for (uint t = 0; t < n / 16; t++) {
        for (uint load = 0; load < 4; load++) {
            uint i = at + load * 256;
            a_tile[i / 16][i % 16] = a[(top + i / 16) * n + t * 16 + i % 16];
            b_tile[i / 64][i % 64] = b[(t * 16 + i / 64) * n + left + i % 64];
        }
        barrier(CLK_LOCAL_MEM_FENCE);
        for (uint k = 0; k < 16; k++) {
            float column[4], row[4];
            for (uint i = 0; i < 4; i++) {
                column[i] = a_tile[y + i * 16][k];
                row[i] = b_tile[k][x + i * 16];
            }
            for (uint i = 0; i < 4; i++)
                for (uint j = 0; j < 4; j++) sums[i][j] += column[i] * row[j];
        }
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    for (uint i = 0; i < 4; i++)
        for (uint j = 0; j < 4; j++) c[(top + y + i * 16) * n + left + x + j * 16] = sums[i][j];
}

__kernel void histogram(__global const uint *x, __global uint *bins, uint n) {
    __local uint own[256];
    uint i = get_local_id(0);
    own[i] = 0;
    barrier(CLK_LOCAL_MEM_FENCE);
    for (uint at = get_global_id(0); at < n; at += get_global_size(0)) atomic_inc(&own[x[at] % 256]);
    barrier(CLK_LOCAL_MEM_FENCE);
    atomic_add(&bins[i], own[i]);
}

__kernel void scan(__global const uint *x, __global uint *y) {
    __local uint part[512];
    uint i = get_local_id(0), from = 0;
    part[i] = x[get_global_id(0)];
    barrier(CLK_LOCAL_MEM_FENCE);
    for (uint step_ = 1; step_ < 256; step_ *= 2) {
        uint sum = part[from + i];
        if (i >= step_) sum += part[from + i - step_];
        part[256 - from + i] = sum;
        from = 256 - from;
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    y[get_global_id(0)] = part[from + i];
}

__kernel void nbody(__global const float4 *places, __global float4 *forces, uint n) {
    __local float4 tile[256];
    uint at = get_global_id(0), i = get_local_id(0);
    float4 own = places[at], force = (float4)(0.0f);
    for (uint t = 0; t < n / 256; t++) {
        tile[i] = places[t * 256 + i];
        barrier(CLK_LOCAL_MEM_FENCE);
        for (uint k = 0; k < 256; k++) {
            float4 other = tile[k], away = other - own;
            float square = away.x * away.x + away.y * away.y + away.z * away.z + 0.01f;
            float by = 1.0f / sqrt(square);
            force += away * (other.w * by * by * by);
        }
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    forces[at] = force;
}
";

const READ: Slot = Slot::Buffer(SlotAccess::Read);
const WRITE: Slot = Slot::Buffer(SlotAccess::ReadWrite);
const VALUE: Slot = Slot::Value(4);

/// One of them by its name.
pub(super) fn kernel(name: &str) -> Kernel {
    let (start, slot, len) = (Parameter::Start, Parameter::Slot, |at| Parameter::Len(at, Width::W32));
    let extent = |at| Parameter::Extent(at, Width::W32);
    let (slots, parameters) = match name {
        "saxpy" | "saxpy4" => (vec![VALUE, READ, WRITE], vec![slot(0), start(1), start(2), len(2)]),
        "triad" | "triad4" => (vec![WRITE, READ, READ], vec![start(0), start(1), start(2), len(0)]),
        "stencil" => (vec![READ, WRITE], vec![start(0), start(1), extent(0), extent(1)]),
        "parts" | "histogram" => (vec![READ, WRITE], vec![start(0), start(1), len(0)]),
        "softmax" => (vec![VALUE, READ, WRITE], vec![slot(0), start(1), start(2)]),
        "scan" => (vec![READ, WRITE], vec![start(0), start(1)]),
        "nbody" => (vec![READ, WRITE], vec![start(0), start(1), len(0)]),
        // The products.
        _ => (vec![VALUE, READ, READ, WRITE], vec![slot(0), start(1), start(2), start(3)]),
    };
    // SAFETY: launched over whole groups, and with buffers of the lengths that the kernels go through, as `rows` does, none
    // reaches beyond its arguments.
    let image = unsafe { KernelImage::opencl_c(name, TEXT) };
    Kernel::new(name, slots, [image.with_parameters(parameters)])
}
