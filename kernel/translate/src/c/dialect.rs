//! What differs between the languages, as a table.

use naga::{AddressSpace, BuiltIn, Scalar, ScalarKind, VectorSize};

use crate::fence::Fence;

/// A language of the C family.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Dialect {
    /// OpenCL C 1.2.
    OpenClC,
    /// CUDA C++, as NVRTC compiles it: without headers.
    CudaC,
}

use Dialect::{CudaC, OpenClC};

impl Dialect {
    /// The text that every program starts with.
    pub(super) fn opening(self) -> &'static str {
        match self {
            OpenClC => "#pragma OPENCL FP_CONTRACT OFF\n",
            CudaC => {
                "typedef unsigned char uchar;\ntypedef unsigned short ushort;\ntypedef unsigned int uint;\n"
            }
        }
    }

    /// What must stand in front where a type is used that the language has as an extension.
    pub(super) fn extension(self, scalar: Scalar) -> Option<&'static str> {
        match (self, scalar.kind, scalar.width) {
            (OpenClC, ScalarKind::Float, 8) => Some("#pragma OPENCL EXTENSION cl_khr_fp64 : enable\n"),
            (OpenClC, ScalarKind::Float, 2) => Some("#pragma OPENCL EXTENSION cl_khr_fp16 : enable\n"),
            (CudaC, ScalarKind::Float, 2) => Some(CUDA_HALF),
            _ => None,
        }
    }

    /// In front of an entry point.
    pub(super) fn kernel(self, work_group: [u32; 3]) -> String {
        let [x, y, z] = work_group;
        match self {
            OpenClC => format!("__kernel __attribute__((reqd_work_group_size({x}, {y}, {z}))) void"),
            CudaC => format!("extern \"C\" __global__ void __launch_bounds__({})", x * y * z),
        }
    }

    /// In front of every other function.
    pub(super) fn function(self) -> &'static str {
        match self {
            // Not `static inline`: some OpenCL 1.2 compilers refuse the one or the other.
            OpenClC => "",
            CudaC => "static __device__ ",
        }
    }

    /// In front of a pointer to an address space.
    pub(super) fn pointer(self, space: AddressSpace) -> &'static str {
        match (self, space) {
            (CudaC, _) => "",
            (OpenClC, AddressSpace::Storage { .. }) => "__global ",
            (OpenClC, AddressSpace::WorkGroup) => "__local ",
            (OpenClC, _) => "__private ",
        }
    }

    /// In front of a variable of a work-group.
    pub(super) fn local_variable(self) -> &'static str {
        match self {
            OpenClC => "__local ",
            CudaC => "__shared__ ",
        }
    }

    /// In front of a constant outside all functions.
    pub(super) fn constant(self) -> &'static str {
        match self {
            OpenClC => "__constant ",
            CudaC => "static __constant__ const ",
        }
    }

    /// A value of a struct type from its members' values.
    pub(super) fn compound(self, ty: &str, members: &str) -> String {
        match self {
            OpenClC => format!("({ty}){{{members}}}"),
            CudaC => format!("{ty}{{{members}}}"),
        }
    }

    /// The value of a struct type whose bytes are all zero.
    pub(super) fn zero(self, ty: &str) -> String {
        match self {
            OpenClC => format!("({ty}){{0}}"),
            CudaC => format!("{ty}{{}}"),
        }
    }

    /// The language's own vector of this size, where it lies in memory as WGSL's does: one of three takes the room of four there.
    pub(super) fn vector(self, size: VectorSize, scalar: Scalar) -> Option<String> {
        match (self, size) {
            (OpenClC, VectorSize::Bi | VectorSize::Quad) if scalar.kind != ScalarKind::Bool => {
                Some(format!("{}{}", self.scalar(scalar)?, size as u8))
            }
            _ => None,
        }
    }

    /// The C name of a scalar type; `None` where the language has none.
    pub(crate) fn scalar(self, scalar: Scalar) -> Option<&'static str> {
        use ScalarKind::{Bool, Float, Sint, Uint};
        Some(match (scalar.kind, scalar.width, self) {
            (Bool, ..) => "bool",
            (Sint, 2, _) => "short",
            (Uint, 2, _) => "ushort",
            (Sint, 4, _) => "int",
            (Uint, 4, _) => "uint",
            (Sint, 8, OpenClC) => "long",
            (Uint, 8, OpenClC) => "ulong",
            (Sint, 8, CudaC) => "long long",
            (Uint, 8, CudaC) => "unsigned long long",
            (Float, 4, _) => "float",
            (Float, 8, _) => "double",
            (Float, 2, _) => "half",
            _ => return None,
        })
    }

    /// A literal's suffix for 64-bit integers.
    pub(super) fn long_suffix(self) -> &'static str {
        match self {
            OpenClC => "l",
            CudaC => "ll",
        }
    }

    /// The same bits as another type of the same size.
    pub(super) fn bits(self, to: Scalar, from: Scalar, value: &str) -> String {
        let c = |scalar| self.scalar(scalar).unwrap_or("void");
        match self {
            OpenClC => format!("as_{}({value})", c(to)),
            CudaC => match (to.kind, from.kind, to.width) {
                (ScalarKind::Float, _, 2) => format!("half::of({value})"),
                (_, ScalarKind::Float, 2) => format!("({})({value}).bits", c(to)),
                (ScalarKind::Float, _, 4) => format!("__int_as_float((int)({value}))"),
                (ScalarKind::Float, _, _) => format!("__longlong_as_double((long long)({value}))"),
                (_, ScalarKind::Float, 4) => format!("({})__float_as_int({value})", c(to)),
                (_, ScalarKind::Float, _) => format!("({})__double_as_longlong({value})", c(to)),
                _ => format!("({})({value})", c(to)),
            },
        }
    }

    /// Waits for the whole work-group; `global` and `local` say whose writes are seen afterwards.
    pub(super) fn barrier(self, global: bool, local: bool) -> String {
        match self {
            OpenClC => format!("barrier({});", fence_flags(global, local)),
            CudaC => "__syncthreads();".into(),
        }
    }

    /// Orders this item's writes without waiting for others.
    pub(super) fn fence(self, global: bool, local: bool) -> String {
        match self {
            OpenClC => format!("mem_fence({});", fence_flags(global, local)),
            CudaC if global => "__threadfence();".into(),
            CudaC => "__threadfence_block();".into(),
        }
    }

    /// A fence of all memory.
    pub(super) fn ordered(self, Fence { order, device }: Fence) -> String {
        let scope = if device { "device" } else { "work_group" };
        match self {
            OpenClC => format!(
                "atomic_work_item_fence({}, memory_order_{order}, memory_scope_{scope});",
                fence_flags(true, true)
            ),
            // They have the strongest order.
            CudaC => self.fence(device, true),
        }
    }

    /// Adds a float to one in global memory in one step, where the language, or a compiler of it, can; by `otherwise` elsewhere.
    pub(super) fn float_add(self, place: &str, value: &str, otherwise: &str) -> String {
        match self {
            CudaC => format!("    atomicAdd((float *)&{place}, {value});\n"),
            // NVIDIA's compiler takes its assembler, and says by this name that it is NVIDIA's.
            OpenClC => format!(
                "#ifdef __NV_CL_C_VERSION
    __asm__ volatile(\"red.global.add.f32 [%0], %1;\" : : \"l\"(&{place}), \"f\"({value}) : \"memory\");
#else
{otherwise}#endif
"
            ),
        }
    }

    /// One component (0 is innermost) of a position in the launch.
    pub(super) fn position(self, what: Position, dim: usize) -> String {
        let axis = ["x", "y", "z"][dim];
        match (self, what) {
            (OpenClC, Position::Global) => format!("(uint)get_global_id({dim})"),
            (OpenClC, Position::Local) => format!("(uint)get_local_id({dim})"),
            (OpenClC, Position::Group) => format!("(uint)get_group_id({dim})"),
            (OpenClC, Position::Groups) => format!("(uint)get_num_groups({dim})"),
            (CudaC, Position::Global) => format!("blockIdx.{axis} * blockDim.{axis} + threadIdx.{axis}"),
            (CudaC, Position::Local) => format!("threadIdx.{axis}"),
            (CudaC, Position::Group) => format!("blockIdx.{axis}"),
            (CudaC, Position::Groups) => format!("gridDim.{axis}"),
        }
    }

    /// What an item knows of its sub-group; `None` for anything else.
    pub(super) fn in_subgroup(self, what: BuiltIn, item: &str, items: u32) -> Option<String> {
        Some(match (self, what) {
            (OpenClC, BuiltIn::SubgroupSize) => "get_sub_group_size()".into(),
            (OpenClC, BuiltIn::SubgroupInvocationId) => "get_sub_group_local_id()".into(),
            (OpenClC, BuiltIn::SubgroupId) => "get_sub_group_id()".into(),
            (OpenClC, BuiltIn::NumSubgroups) => "get_num_sub_groups()".into(),
            (CudaC, BuiltIn::SubgroupSize) => "(uint)__popc(__activemask())".into(),
            (CudaC, BuiltIn::SubgroupInvocationId) => "(threadIdx.x & 31u)".into(),
            (CudaC, BuiltIn::SubgroupId) => format!("(({item}) / 32u)"),
            (CudaC, BuiltIn::NumSubgroups) => format!("{}u", items.div_ceil(32)),
            _ => return None,
        })
    }

    pub(super) fn subgroup_barrier(self) -> &'static str {
        match self {
            OpenClC => "sub_group_barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);",
            CudaC => "__syncwarp(__activemask());",
        }
    }

    /// Words that no name may be.
    pub(super) fn reserved(self) -> impl Iterator<Item = &'static str> {
        let own = match self {
            OpenClC => OPENCL_WORDS,
            CudaC => CUDA_WORDS,
        };
        C_WORDS.iter().chain(own).flat_map(|words| words.split_ascii_whitespace())
    }
}

/// CUDA has 16-bit floats in a header, which NVRTC may not have. An operation on them is one on 32-bit floats, rounded: these
/// have more than twice as many digits, so that rounding twice changes nothing.
const CUDA_HALF: &str = r#"struct __align__(2) half {
    ushort bits;
    half() = default;
    static __device__ half of(ushort bits) { half h; h.bits = bits; return h; }
    __device__ half(float v) { asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(v)); }
    __device__ half(double v) { asm("cvt.rn.f16.f64 %0, %1;" : "=h"(bits) : "d"(v)); }
    template <class T> __device__ half(T v) : half((float)v) {}
    __device__ operator float() const { float v; asm("cvt.f32.f16 %0, %1;" : "=f"(v) : "h"(bits)); return v; }
};
static __device__ half operator-(half a) { return half::of(a.bits ^ 0x8000); }
static __device__ half operator+(half a, half b) { return (float)a + (float)b; }
static __device__ half operator-(half a, half b) { return (float)a - (float)b; }
static __device__ half operator*(half a, half b) { return (float)a * (float)b; }
static __device__ half operator/(half a, half b) { return (float)a / (float)b; }
"#;

fn fence_flags(global: bool, local: bool) -> &'static str {
    match (global, local) {
        (true, true) => "CLK_GLOBAL_MEM_FENCE | CLK_LOCAL_MEM_FENCE",
        (true, false) => "CLK_GLOBAL_MEM_FENCE",
        _ => "CLK_LOCAL_MEM_FENCE",
    }
}

/// A position in the launch that has three components.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Position {
    Global,
    Local,
    Group,
    Groups,
}

const C_WORDS: &[&str] = &[
    "auto break case char const continue default do double else enum extern float for goto if inline int long",
    "register restrict return short signed sizeof static struct switch typedef typeof union unsigned void volatile",
    "while bool true false NULL asm half uchar ushort uint ulong size_t ptrdiff_t intptr_t uintptr_t main",
    "abs min max clamp sin cos tan asin acos atan sinh cosh tanh asinh acosh atanh atan2 exp exp2 exp10 log log2 log10",
    "pow sqrt rsqrt cbrt floor ceil round rint trunc fma fmod fmin fmax fabs fract ldexp frexp modf mix step sign dot",
    "cross length distance normalize popcount clz select barrier all any nan hypot erf erfc tgamma lgamma remainder",
    "INT_MIN INT_MAX UINT_MAX LONG_MIN LONG_MAX ULONG_MAX FLT_MAX FLT_MIN DBL_MAX INFINITY NAN M_PI",
];

const OPENCL_WORDS: &[&str] = &[
    "kernel global local constant private generic pipe image2d_t image3d_t sampler_t event_t char2 char3 char4 char8",
    "char16 short2 short3 short4 int2 int3 int4 int8 int16 uint2 uint3 uint4 uint8 uint16 long2 long3 long4 ulong2",
    "ulong3 ulong4 float2 float3 float4 float8 float16 double2 double3 double4 half2 half3 half4 vec_step degrees",
    "radians smoothstep rotate mad mad24 mul24 mad_hi mul_hi hadd rhadd add_sat sub_sat upsample isnan isinf isequal",
    "isless isgreater isfinite signbit maxmag minmag nextafter ilogb logb pown powr rootn sincos expm1 log1p printf",
    "atomic_add atomic_sub atomic_xchg atomic_inc atomic_dec atomic_cmpxchg atomic_min atomic_max atomic_and atomic_or",
    "atomic_xor mem_fence prefetch shuffle shuffle2 ctz bitselect fast_length fast_distance fast_normalize",
    "abs_diff remquo sinpi cospi tanpi asinpi acospi atanpi atan2pi copysign fdim lgamma_r exp10 isnotequal",
    "isgreaterequal islessequal islessgreater isnormal isordered isunordered wait_group_events MAXFLOAT",
    "event_t queue_t ndrange_t clk_event_t reserve_id_t image1d_t is_valid_event enqueue_kernel",
];

const CUDA_WORDS: &[&str] = &[
    "alignas alignof and catch class concept consteval constexpr const_cast decltype delete dynamic_cast explicit",
    "export friend mutable namespace new noexcept not nullptr operator or private protected public reinterpret_cast",
    "requires static_assert static_cast template this thread_local throw try typeid typename using virtual wchar_t xor",
    "threadIdx blockIdx blockDim gridDim warpSize dim3 float2 float3 float4 int2 int3 int4 uint2 uint3 uint4 double2",
    "atomicAdd atomicSub atomicExch atomicMin atomicMax atomicCAS atomicAnd atomicOr atomicXor signbit isnan isinf",
];
