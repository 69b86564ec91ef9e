//! The C-family writer: checked IR to OpenCL C and CUDA C++.
//!
//! # How values look in C
//!
//! One road for both languages, which differ in a table ([`Dialect`]). Vectors, matrices and arrays are structs of the
//! writer's own, so that all of them are values in both languages (C's arrays are not) and lie in memory as WGSL says
//! (OpenCL's `float3` takes 16 bytes, WGSL's 12). Arithmetic whose result C leaves open is done by small functions
//! written out above the kernel, and only those that the kernel uses: signed overflow wraps, division by zero gives
//! the dividend, shifts count modulo the width, conversions saturate. What is left to C is what C defines.
//!
//! # What a translated kernel takes
//!
//! [`Translation::params`] lists the parameters in order: for each storage binding a pointer to its first byte, then,
//! where it ends in an array without a length and that length is asked for, a `uint` with the number of that array's elements; for
//! each uniform binding those of its members that are used, where all are scalars, else its struct, by value. Bindings come in
//! the order of group and number.
//!
//! # Bounds
//!
//! With [`Bounds::Clamped`] each index that the compiler cannot see to be inside is held below the length, so a faulty
//! kernel reads or writes a wrong element of its own binding and never leaves it. A runtime-sized array must have at
//! least one element.

mod atomics;
mod body;
mod dialect;
mod expr;
mod far;
mod flat;
mod functions;
mod math;
mod names;
mod program;
mod settled;
mod starts;
mod subgroups;
mod types;

pub use dialect::Dialect;

use crate::error::TranslateError;
use crate::wgsl::Checked;

/// Whether the writer adds checks of its own to indices, and clears work-group memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bounds {
    /// Every index is held below its length.
    Clamped,
    /// The text guards every index itself, and writes work-group memory before it reads it.
    Guarded,
}

/// What kind of device a text is written for: it means the same on all of them, and is faster on these.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Machine {
    /// Indices are as wide as addresses, so that compilers see which elements are neighbours; loops are left to them.
    Cpu,
    /// Indices have 32 bits, as a GPU's registers, and short loops of a known length are to be written out.
    Gpu,
}

/// One parameter of a translated kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Param {
    /// A pointer to the first byte of a storage binding.
    Storage {
        /// The binding's number.
        binding: u32,
    },
    /// The number of elements of the array at the end of a storage binding: its bytes from `offset` on, divided by
    /// `stride`.
    Length {
        /// The binding's number.
        binding: u32,
        /// Where in the binding the array starts.
        offset: u32,
        /// Bytes from one element to the next.
        stride: u32,
    },
    /// A uniform binding's bytes, or a member of it, by value.
    Uniform {
        /// The binding's number.
        binding: u32,
        /// Where in the binding it starts.
        offset: u32,
        /// How many bytes.
        bytes: u32,
    },
}

/// A kernel's text in another language, and how it is called.
#[derive(Clone, Debug)]
pub struct Translation {
    /// The text.
    pub source: String,
    /// The entry point's name in the text.
    pub entry: String,
    /// The parameters, in order.
    pub params: Vec<Param>,
    /// The work-group's extents, innermost first.
    pub work_group: [u32; 3],
    /// Whether there are fences, which OpenCL C has from its version 2.0 on.
    pub fences: bool,
}

impl Translation {
    /// The same, where products and sums may be fused.
    pub fn contracted(self) -> Self {
        match self.source.strip_prefix(Dialect::OpenClC.opening()) {
            Some(rest) => Translation { source: format!("#pragma OPENCL FP_CONTRACT ON\n{rest}"), ..self },
            None => self,
        }
    }
}

/// Writes the entry point `entry` of a module in a C-family language.
///
/// ```
/// use windlass_kernel_translate::c::{Bounds, Dialect, Machine, translate};
/// use windlass_kernel_translate::wgsl::Checked;
/// let text = "
///     @group(0) @binding(0) var<storage, read_write> v: array<f32>;
///     @compute @workgroup_size(64) fn double(@builtin(global_invocation_id) id: vec3<u32>) {
///         if id.x < arrayLength(&v) { v[id.x] *= 2.0; }
///     }";
/// let checked = Checked::parse(text).unwrap();
/// let opencl = translate(&checked, "double", Dialect::OpenClC, Bounds::Clamped, Machine::Cpu).unwrap();
/// assert!(opencl.source.contains("__kernel"), "{}", opencl.source);
/// let cuda = translate(&checked, "double", Dialect::CudaC, Bounds::Clamped, Machine::Gpu).unwrap();
/// assert!(cuda.source.contains("__global__"), "{}", cuda.source);
/// ```
pub fn translate(
    checked: &Checked,
    entry: &str,
    dialect: Dialect,
    bounds: Bounds,
    machine: Machine,
) -> Result<Translation, TranslateError> {
    program::Program::new(checked, dialect, bounds, machine)?.write(entry)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(text: &str, dialect: Dialect, bounds: Bounds) -> Translation {
        let checked = Checked::parse(text).expect("the text is right");
        translate(&checked, "main", dialect, bounds, Machine::Gpu).expect("it can be said in C")
    }

    const INDEXED: &str = "
        @group(0) @binding(0) var<storage, read_write> v: array<i32>;
        @compute @workgroup_size(4, 2) fn main(@builtin(global_invocation_id) id: vec3<u32>) {
            v[id.x] = v[id.y] / v[2];
        }";

    #[test]
    fn indices_are_held_inside_unless_the_text_does_that() {
        let clamped = written(INDEXED, Dialect::OpenClC, Bounds::Clamped);
        assert!(clamped.source.contains("v[w_clamped((uint)(id.x), v_len - 1u)]"), "{}", clamped.source);
        assert_eq!(clamped.work_group, [4, 2, 1]);
        let length = Param::Length { binding: 0, offset: 0, stride: 4 };
        assert_eq!(clamped.params, [Param::Storage { binding: 0 }, length]);
        let guarded = written(INDEXED, Dialect::OpenClC, Bounds::Guarded);
        assert!(!guarded.source.contains("w_clamped"), "{}", guarded.source);
        assert!(
            guarded.source.contains("FP_CONTRACT OFF")
                && guarded.contracted().source.contains("FP_CONTRACT ON")
        );
    }

    #[test]
    fn what_c_leaves_open_is_written_out() {
        let c = written(INDEXED, Dialect::OpenClC, Bounds::Clamped).source;
        assert!(c.contains("b == 0 || (b == -1 && a == (int)((uint)1 << 31)) ? a : a / b"), "{c}");
        let text = "@group(0) @binding(0) var<storage, read_write> v: array<i32, 4>;
            @compute @workgroup_size(1) fn main() { v[0] = v[1] * v[2] << u32(v[3]); v[1] = i32(f32(v[2])); }";
        let c = written(text, Dialect::CudaC, Bounds::Clamped).source;
        assert!(c.contains("(uint)") && c.contains("& 31u") && c.contains("v != v ? 0"), "{c}");
    }

    #[test]
    fn memory_lies_as_wgsl_says() {
        let text = "struct S { a: vec3<f32>, b: f32, c: vec2<f32>, d: f32 }
            @group(0) @binding(0) var<storage, read_write> v: array<S>;
            @group(0) @binding(1) var<storage, read_write> w: array<vec3<f32>>;
            @compute @workgroup_size(1) fn main() { v[0].b = v[1].a.y; w[1] = w[0]; }";
        let c = written(text, Dialect::OpenClC, Bounds::Guarded).source;
        // The float behind a vector of three follows at once; an element of an array of them takes sixteen bytes.
        assert!(c.contains("vec3_f32 a; float b; vec2_f32 c; float d; uchar w_pad28[4];"), "{c}");
        assert!(c.contains("{ vec3_f32 v; uchar pad[4]; } w_in16_vec3_f32"), "{c}");
    }

    #[test]
    fn a_continue_in_a_switch_goes_on_with_the_loop() {
        let text = "@group(0) @binding(0) var<storage, read_write> v: array<u32, 4>;
            @compute @workgroup_size(1) fn main() {
                for (var i = 0u; i < 4u; i = i * 2u + v[3]) {
                    switch v[i] { case 1u: { continue; } default: { v[i] = 7u; } }
                }
            }";
        let c = written(text, Dialect::OpenClC, Bounds::Clamped).source;
        // A step that is no plain count comes first in every round but the first one.
        let (step, switch) = (c.find("if (!first)").expect("a flag"), c.find("switch").expect("a switch"));
        assert!(step < switch && c[switch..].contains("continue;"), "{c}");
    }

    #[test]
    fn work_group_memory_starts_as_zeros() {
        let text = "var<workgroup> sum: atomic<u32>;
            @group(0) @binding(0) var<storage, read_write> v: array<u32, 4>;
            @compute @workgroup_size(4) fn main() {
                atomicAdd(&sum, 1u);
                workgroupBarrier();
                v[0] = atomicLoad(&sum);
            }";
        let c = written(text, Dialect::CudaC, Bounds::Clamped).source;
        let (zero, add) = (c.find("[w_i] = 0;").expect("zeroed"), c.find("atomicAdd").expect("added"));
        assert!(zero < add && c[zero..add].contains("__syncthreads();"), "{c}");
    }

    #[test]
    fn only_loads_that_a_write_may_reach_are_volatile() {
        let program = |between: &str, behind: &str| {
            let text = format!(
                "var<workgroup> sum: atomic<u32>;
                @group(0) @binding(0) var<storage, read_write> v: array<u32, 4>;
                fn now() -> u32 {{ return atomicLoad(&sum); }}
                fn count() {{ atomicAdd(&sum, 1u); }}
                @compute @workgroup_size(4) fn main() {{
                    count();
                    {between}
                    v[0] = now();
                    {behind}
                }}"
            );
            written(&text, Dialect::OpenClC, Bounds::Guarded).source
        };
        let load = "*(volatile __local uint *)&(*sum)";
        let plain = program("workgroupBarrier();", "");
        assert!(!plain.contains(load), "{plain}");
        let written_meanwhile = [
            ("", ""),
            ("if v[1] == 0u { workgroupBarrier(); }", ""),
            ("storageBarrier();", "count();"),
            ("workgroupBarrier();", "count();"),
            ("workgroupBarrier();", "atomicStore(&sum, 2u);"),
            ("workgroupBarrier();", "loop { atomicMax(&sum, 2u); if v[2] == 0u { break; } }"),
            (
                "workgroupBarrier(); v[1] = now(); workgroupBarrier();",
                "workgroupBarrier(); v[2] = now(); count();",
            ),
        ];
        for (between, behind) in written_meanwhile {
            let c = program(between, behind);
            assert!(c.contains(load), "{between} and {behind}: {c}");
        }
    }

    /// Only a text that looks before is taken at its word.
    #[test]
    fn addresses_are_followed_in_guarded_texts_alone() {
        let text = "
            fn w_far_load_i16(at: u64) -> i32 { return i32(); }
            fn w_far_store_f32(at: u64, value: f32) {}
            @group(0) @binding(0) var<storage, read_write> v: array<u64, 2>;
            @compute @workgroup_size(1) fn main() { w_far_store_f32(v[0], f32(w_far_load_i16(v[1]))); }";
        for dialect in [Dialect::OpenClC, Dialect::CudaC] {
            let guarded = written(text, dialect, Bounds::Guarded).source;
            let (load, store) = match dialect {
                Dialect::OpenClC => (
                    "(int)*(__global const w_far_i16 *)(uintptr_t)at",
                    "*(__global w_far_f32 *)(uintptr_t)at",
                ),
                Dialect::CudaC => ("(int)*(const short *)at", "*(float *)at"),
            };
            assert!(guarded.contains(load) && guarded.contains(store), "{guarded}");
            let clamped = written(text, dialect, Bounds::Clamped).source;
            assert!(!clamped.contains(load) && !clamped.contains(store), "{clamped}");
        }
    }

    #[test]
    fn what_no_c_has_is_refused_in_words() {
        let text = "@group(0) @binding(0) var t: texture_2d<f32>;
            @compute @workgroup_size(1) fn main() { _ = textureDimensions(t); }";
        let checked = Checked::parse(text).expect("the text is right");
        let error = translate(&checked, "main", Dialect::OpenClC, Bounds::Clamped, Machine::Gpu)
            .expect_err("no textures");
        assert!(error.to_string().contains("no C-family language has"), "{error}");
        let missing = translate(&checked, "other", Dialect::OpenClC, Bounds::Clamped, Machine::Gpu)
            .expect_err("no such entry");
        assert!(missing.to_string().contains("`other`"), "{missing}");
    }
}
