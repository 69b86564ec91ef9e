// A compute shader of somebody who knows Vulkan and has not heard of WGSL, in the convention of `windlass::ext::spirv_shader`:
//   glslangValidator -V --target-env vulkan1.1 -o scaled.spv scaled.comp
#version 450

layout(local_size_x = 64) in;

layout(std430, set = 0, binding = 0) readonly buffer From { float from[]; };
layout(std430, set = 0, binding = 1) buffer To { float to[]; };
layout(std140, set = 0, binding = 2) uniform Block {
    // Offset and length of `from`, then of `to`.
    uvec4 places;
    uint extent, rows, columns;
    float by;
    uvec4 pitches;
};

shared float tile[64];

void main() {
    uint at = (gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x) * 64 + gl_LocalInvocationID.x;
    bool inside = at < extent && at < places.y && at < places.w;
    tile[gl_LocalInvocationID.x] = inside ? from[places.x + at] : 0.0;
    barrier();
    // Its neighbour's in the group.
    float other = tile[gl_LocalInvocationID.x ^ 1];
    if (inside) {
        to[places.z + at] = by * other;
    }
}
