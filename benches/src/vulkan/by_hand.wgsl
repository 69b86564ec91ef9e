// The kernels of `device/ours.rs` in WGSL as one writes them by hand. Bindings: what is read, then what is written.

@group(0) @binding(0) var<storage, read> x: array<f32>;
@group(0) @binding(1) var<storage, read> z: array<f32>;
@group(0) @binding(2) var<storage, read_write> y: array<f32>;

@compute @workgroup_size(256) fn saxpy(@builtin(global_invocation_id) id: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>) {
    let i = id.y * groups.x * 256u + id.x;
    if i < arrayLength(&y) { y[i] = 3.0 * x[i] + y[i]; }
}

@compute @workgroup_size(256) fn triad(@builtin(global_invocation_id) id: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>) {
    let i = id.y * groups.x * 256u + id.x;
    if i < arrayLength(&y) { y[i] = x[i] + 3.0 * z[i]; }
}

override SIDE: u32 = 1u;

@compute @workgroup_size(64, 4) fn stencil(@builtin(global_invocation_id) id: vec3<u32>) {
    if id.y > 0u && id.x > 0u && id.y + 1u < SIDE && id.x + 1u < SIDE {
        let at = id.y * SIDE + id.x;
        y[at] = 0.5 * x[at] + 0.125 * (x[at - SIDE] + x[at + SIDE] + x[at - 1u] + x[at + 1u]);
    }
}

var<workgroup> part: array<f32, 256>;

@compute @workgroup_size(256) fn parts(@builtin(local_invocation_index) i: u32,
    @builtin(global_invocation_id) id: vec3<u32>, @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>) {
    var sum = 0.0;
    for (var at = id.x; at < arrayLength(&x); at += groups.x * 256u) { sum += x[at]; }
    part[i] = sum;
    workgroupBarrier();
    for (var half = 128u; half > 0u; half /= 2u) {
        if i < half { part[i] += part[i + half]; }
        workgroupBarrier();
    }
    if i == 0u { y[group.x] = part[0]; }
}

@compute @workgroup_size(256) fn softmax(@builtin(local_invocation_index) i: u32,
    @builtin(workgroup_id) group: vec3<u32>) {
    let row = group.x * 1024u;
    var most = -1.0e30;
    for (var at = i; at < 1024u; at += 256u) { most = max(most, x[row + at]); }
    part[i] = most;
    workgroupBarrier();
    for (var half = 128u; half > 0u; half /= 2u) {
        if i < half { part[i] = max(part[i], part[i + half]); }
        workgroupBarrier();
    }
    most = part[0];
    workgroupBarrier();
    var sum = 0.0;
    for (var at = i; at < 1024u; at += 256u) { sum += exp(x[row + at] - most); }
    part[i] = sum;
    workgroupBarrier();
    for (var half = 128u; half > 0u; half /= 2u) {
        if i < half { part[i] += part[i + half]; }
        workgroupBarrier();
    }
    sum = part[0];
    for (var at = i; at < 1024u; at += 256u) { y[row + at] = exp(x[row + at] - most) / sum; }
}

var<workgroup> a_tile: array<array<f32, 16>, 16>;
var<workgroup> b_tile: array<array<f32, 16>, 16>;

@compute @workgroup_size(16, 16) fn matmul(@builtin(local_invocation_id) l: vec3<u32>,
    @builtin(global_invocation_id) id: vec3<u32>) {
    var sum = 0.0;
    for (var t = 0u; t < SIDE / 16u; t++) {
        a_tile[l.y][l.x] = x[id.y * SIDE + t * 16u + l.x];
        b_tile[l.y][l.x] = z[(t * 16u + l.y) * SIDE + id.x];
        workgroupBarrier();
        for (var k = 0u; k < 16u; k++) { sum += a_tile[l.y][k] * b_tile[k][l.x]; }
        workgroupBarrier();
    }
    y[id.y * SIDE + id.x] = sum;
}

var<workgroup> a_wide: array<f32, 1024>;
var<workgroup> b_wide: array<f32, 1024>;

@compute @workgroup_size(16, 16) fn matmul_registers(@builtin(local_invocation_id) l: vec3<u32>,
    @builtin(workgroup_id) group: vec3<u32>) {
    let at = l.y * 16u + l.x;
    let top = group.y * 64u;
    let left = group.x * 64u;
    var sums = array<f32, 16>();
    for (var t = 0u; t < SIDE / 16u; t++) {
        for (var load = 0u; load < 4u; load++) {
            let i = at + load * 256u;
            a_wide[i] = x[(top + i / 16u) * SIDE + t * 16u + i % 16u];
            b_wide[i] = z[(t * 16u + i / 64u) * SIDE + left + i % 64u];
        }
        workgroupBarrier();
        for (var k = 0u; k < 16u; k++) {
            var column = array<f32, 4>();
            var row = array<f32, 4>();
            for (var i = 0u; i < 4u; i++) {
                column[i] = a_wide[(l.y + i * 16u) * 16u + k];
                row[i] = b_wide[k * 64u + l.x + i * 16u];
            }
            for (var i = 0u; i < 4u; i++) {
                for (var j = 0u; j < 4u; j++) { sums[i * 4u + j] += column[i] * row[j]; }
            }
        }
        workgroupBarrier();
    }
    for (var i = 0u; i < 4u; i++) {
        for (var j = 0u; j < 4u; j++) {
            y[(top + l.y + i * 16u) * SIDE + left + l.x + j * 16u] = sums[i * 4u + j];
        }
    }
}

@group(0) @binding(0) var<storage, read> numbers: array<u32>;
@group(0) @binding(2) var<storage, read_write> bins: array<atomic<u32>>;
@group(0) @binding(2) var<storage, read_write> sums_to: array<u32>;
var<workgroup> own: array<atomic<u32>, 256>;

@compute @workgroup_size(256) fn histogram(@builtin(local_invocation_index) i: u32,
    @builtin(global_invocation_id) id: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>) {
    for (var at = id.x; at < arrayLength(&numbers); at += groups.x * 256u) {
        atomicAdd(&own[numbers[at] % 256u], 1u);
    }
    workgroupBarrier();
    atomicAdd(&bins[i], atomicLoad(&own[i]));
}

var<workgroup> steps: array<u32, 512>;

@compute @workgroup_size(256) fn scan(@builtin(local_invocation_index) i: u32,
    @builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>) {
    let at = (group.y * groups.x + group.x) * 256u + i;
    var begin = 0u;
    steps[i] = numbers[at];
    workgroupBarrier();
    for (var by = 1u; by < 256u; by *= 2u) {
        var sum = steps[begin + i];
        if i >= by { sum += steps[begin + i - by]; }
        steps[256u - begin + i] = sum;
        begin = 256u - begin;
        workgroupBarrier();
    }
    sums_to[at] = steps[begin + i];
}

@group(0) @binding(0) var<storage, read> places: array<vec4<f32>>;
@group(0) @binding(2) var<storage, read_write> forces: array<vec4<f32>>;
var<workgroup> bodies: array<vec4<f32>, 256>;

@compute @workgroup_size(256) fn nbody(@builtin(local_invocation_index) i: u32,
    @builtin(global_invocation_id) id: vec3<u32>) {
    let place = places[id.x];
    var force = vec4<f32>();
    for (var t = 0u; t < arrayLength(&places) / 256u; t++) {
        bodies[i] = places[t * 256u + i];
        workgroupBarrier();
        for (var k = 0u; k < 256u; k++) {
            let other = bodies[k];
            let away = other - place;
            let square = away.x * away.x + away.y * away.y + away.z * away.z + 0.01;
            let by = 1.0 / sqrt(square);
            force += away * (other.w * by * by * by);
        }
        workgroupBarrier();
    }
    forces[id.x] = force;
}
