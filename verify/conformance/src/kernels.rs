//! The reference kernels: small computations that every backend gives in its own form.
//!
//! A [`Spec`] says what a kernel computes and which parameters it has; [`specs`] lists them all. From a spec this
//! module makes the forms for host bodies, OpenCL C and WGSL, following the conventions of those backends. A backend
//! with another language makes its images from the spec's name and parameters, and gives them to [`Kernels::with`].

pub(crate) mod by_address;
pub(crate) mod by_texel;
mod form;

use std::collections::BTreeMap;

use windlass::image::{Kernel, KernelImage, Slot, SlotAccess};

pub use form::HostArgs;

/// The type of a parameter's elements, or of a plain value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Elem {
    /// `u32`.
    U32,
    /// `f32`.
    F32,
}

/// What a kernel takes at one position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Param {
    /// Elements that it reads.
    In(&'static str, Elem),
    /// Elements that it reads and writes.
    InOut(&'static str, Elem),
    /// `u32` elements that it updates atomically.
    Atomic(&'static str),
    /// A plain value.
    Value(&'static str, Elem),
}

/// A reference kernel: its name, its parameters, and what each work-item does in three languages.
///
/// In every body `i` is the work-item's position in the row-major order of the range. In the device languages the
/// buffer `v` starts at element `v_at` of the binding and has `v_len` elements.
#[derive(Clone, Copy)]
pub struct Spec {
    /// The name, also of the entry point.
    pub name: &'static str,
    /// What it computes.
    pub does: &'static str,
    /// What it takes, in order.
    pub params: &'static [Param],
    /// One work-item on the host; `None` where the kernel has no such form.
    pub host: Option<fn(usize, &HostArgs<'_>)>,
    /// One work-item in OpenCL C; `None` where the language cannot say it.
    pub opencl_c: Option<&'static str>,
    /// One work-item in WGSL; `None` where the language cannot say it.
    pub wgsl: Option<&'static str>,
}

impl std::fmt::Debug for Spec {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Spec").field("name", &self.name).field("does", &self.does).finish_non_exhaustive()
    }
}

impl Spec {
    /// The parameters as a kernel declares them.
    pub fn slots(&self) -> impl Iterator<Item = Slot> {
        self.params.iter().map(|param| match param {
            Param::In(..) => Slot::Buffer(SlotAccess::Read),
            Param::InOut(..) | Param::Atomic(_) => Slot::Buffer(SlotAccess::ReadWrite),
            Param::Value(..) => Slot::Value(4),
        })
    }
}

/// The reference kernels as kernels.
#[derive(Clone, Debug)]
pub struct Kernels {
    table: BTreeMap<&'static str, Kernel>,
}

impl Kernels {
    /// Kernels with the forms that this crate knows: host bodies, OpenCL C and WGSL.
    pub fn new() -> Self {
        Self::with(|_| Vec::new())
    }

    /// Kernels with the forms that this crate knows, and before them a backend's own.
    pub fn with(own: impl Fn(&Spec) -> Vec<KernelImage>) -> Self {
        let kernel = |spec: &Spec| {
            let images = own(spec).into_iter().chain(form::images(spec));
            (spec.name, Kernel::new(spec.name, spec.slots(), images))
        };
        Kernels { table: specs().iter().map(kernel).collect() }
    }

    /// The kernel of this name.
    ///
    /// # Panics
    /// If there is no reference kernel of this name.
    pub fn get(&self, name: &str) -> &Kernel {
        match self.table.get(name) {
            Some(kernel) => kernel,
            None => panic!("there is no reference kernel `{name}`"),
        }
    }
}

impl Default for Kernels {
    fn default() -> Self {
        Self::new()
    }
}

/// What one step of [`specs`]' `long_running` makes of an element.
pub fn spin(mut value: u32, rounds: u32) -> u32 {
    for _ in 0..rounds {
        value = value.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
    }
    value
}

use Elem::{F32, U32};
use Param::{Atomic, In, InOut, Value};

/// All reference kernels.
pub fn specs() -> &'static [Spec] {
    &SPECS
}

static SPECS: [Spec; 15] = [
    Spec {
        name: "fill_index",
        does: "`v[i] = base + i`",
        params: &[InOut("v", U32), Value("base", U32)],
        host: Some(|i, a| a.set(0, i, a.value::<u32>(1).wrapping_add(i as u32))),
        opencl_c: Some("if (i < v_len) v[v_at + i] = base + (uint)i;"),
        wgsl: Some("if (i < v_len) { v[v_at + i] = base + i; }"),
    },
    Spec {
        name: "scale",
        does: "`v[i] *= k`",
        params: &[Value("k", F32), InOut("v", F32)],
        host: Some(|i, a| a.set(1, i, a.value::<f32>(0) * a.get::<f32>(1, i))),
        opencl_c: Some("if (i < v_len) v[v_at + i] *= k;"),
        wgsl: Some("if (i < v_len) { v[v_at + i] = k * v[v_at + i]; }"),
    },
    Spec {
        name: "saxpy",
        does: "`y[i] += a * x[i]`",
        params: &[Value("a", F32), In("x", F32), InOut("y", F32)],
        host: Some(|i, a| a.set(2, i, a.get::<f32>(2, i) + a.value::<f32>(0) * a.get::<f32>(1, i))),
        opencl_c: Some("if (i < y_len && i < x_len) y[y_at + i] = y[y_at + i] + a * x[x_at + i];"),
        wgsl: Some("if (i < y_len && i < x_len) { y[y_at + i] = y[y_at + i] + a * x[x_at + i]; }"),
    },
    Spec {
        name: "copy_pairs",
        does: "`v[2 i] = v[2 i + 1] = x[i]`",
        params: &[In("x", U32), InOut("v", U32)],
        host: Some(|i, a| {
            a.set(1, 2 * i, a.get::<u32>(0, i));
            a.set(1, 2 * i + 1, a.get::<u32>(0, i));
        }),
        opencl_c: Some(
            "if (i < x_len && 2 * i + 1 < v_len) { v[v_at + 2 * i] = x[x_at + i]; v[v_at + 2 * i + 1] = x[x_at + i]; }",
        ),
        wgsl: Some(
            "if (i < x_len && 2 * i + 1 < v_len) { v[v_at + 2 * i] = x[x_at + i]; v[v_at + 2 * i + 1] = x[x_at + i]; }",
        ),
    },
    Spec {
        name: "sum_pairs",
        does: "`out[i] = v[2 i] + v[2 i + 1]`",
        params: &[In("v", F32), InOut("out", F32)],
        host: Some(|i, a| a.set(1, i, a.get::<f32>(0, 2 * i) + a.get::<f32>(0, 2 * i + 1))),
        opencl_c: Some(
            "if (i < out_len && 2 * i + 1 < v_len) out[out_at + i] = v[v_at + 2 * i] + v[v_at + 2 * i + 1];",
        ),
        wgsl: Some(
            "if (i < out_len && 2 * i + 1 < v_len) { out[out_at + i] = v[v_at + 2 * i] + v[v_at + 2 * i + 1]; }",
        ),
    },
    Spec {
        name: "reverse",
        does: "`out[i] = x[last - i]`",
        params: &[In("x", U32), InOut("out", U32)],
        host: Some(|i, a| a.set(1, i, a.get::<u32>(0, a.len(0).wrapping_sub(1).wrapping_sub(i)))),
        opencl_c: Some("if (i < x_len && i < out_len) out[out_at + i] = x[x_at + x_len - 1 - i];"),
        wgsl: Some("if (i < x_len && i < out_len) { out[out_at + i] = x[x_at + x_len - 1 - i]; }"),
    },
    Spec {
        name: "increment",
        does: "`v[i] += 1`",
        params: &[InOut("v", U32)],
        host: Some(|i, a| a.set(0, i, a.get::<u32>(0, i).wrapping_add(1))),
        opencl_c: Some("if (i < v_len) v[v_at + i] += 1;"),
        wgsl: Some("if (i < v_len) { v[v_at + i] = v[v_at + i] + 1u; }"),
    },
    Spec {
        name: "copy",
        does: "`out[i] = x[i]`",
        params: &[In("x", U32), InOut("out", U32)],
        host: Some(|i, a| a.set(1, i, a.get::<u32>(0, i))),
        opencl_c: Some("if (i < x_len && i < out_len) out[out_at + i] = x[x_at + i];"),
        wgsl: Some("if (i < x_len && i < out_len) { out[out_at + i] = x[x_at + i]; }"),
    },
    Spec {
        name: "churn",
        does: "`v[i] = 31 v[i] + k`: steps of it do not commute",
        params: &[InOut("v", U32), Value("k", U32)],
        host: Some(|i, a| a.set(0, i, a.get::<u32>(0, i).wrapping_mul(31).wrapping_add(a.value::<u32>(1)))),
        opencl_c: Some("if (i < v_len) v[v_at + i] = v[v_at + i] * 31 + k;"),
        wgsl: Some("if (i < v_len) { v[v_at + i] = v[v_at + i] * 31u + k; }"),
    },
    Spec {
        name: "fold",
        does: "`y[i] = 31 y[i] + x[i] + k`",
        params: &[In("x", U32), InOut("y", U32), Value("k", U32)],
        host: Some(|i, a| {
            let sum = a.get::<u32>(1, i).wrapping_mul(31).wrapping_add(a.get::<u32>(0, i));
            a.set(1, i, sum.wrapping_add(a.value::<u32>(2)));
        }),
        opencl_c: Some("if (i < y_len && i < x_len) y[y_at + i] = y[y_at + i] * 31 + x[x_at + i] + k;"),
        wgsl: Some("if (i < y_len && i < x_len) { y[y_at + i] = y[y_at + i] * 31u + x[x_at + i] + k; }"),
    },
    Spec {
        name: "transpose",
        does: "`out[c rows + r] = x[r columns + c]`, with `i = r columns + c`",
        params: &[Value("rows", U32), In("x", U32), InOut("out", U32)],
        host: Some(|i, a| {
            let rows = a.value::<u32>(0) as usize;
            let columns = a.len(1) / rows.max(1);
            if columns != 0 {
                a.set(2, i % columns * rows + i / columns, a.get::<u32>(1, i));
            }
        }),
        opencl_c: Some(
            "ulong columns = x_len / rows; ulong to = (i % columns) * rows + i / columns;
             if (i < x_len && to < out_len) out[out_at + to] = x[x_at + i];",
        ),
        wgsl: Some(
            "let columns = x_len / rows; let to = (i % columns) * rows + i / columns;
             if (i < x_len && to < out_len) { out[out_at + to] = x[x_at + i]; }",
        ),
    },
    Spec {
        name: "histogram",
        does: "`bins[x[i]] += 1`, atomically",
        params: &[In("x", U32), Atomic("bins")],
        host: Some(|i, a| a.add(1, a.get::<u32>(0, i) as usize, 1)),
        opencl_c: Some(
            "if (i < x_len && x[x_at + i] < bins_len) atomic_add(&bins[bins_at + x[x_at + i]], 1u);",
        ),
        wgsl: Some(
            "if (i < x_len && x[x_at + i] < bins_len) { atomicAdd(&bins[bins_at + x[x_at + i]], 1u); }",
        ),
    },
    Spec {
        name: "long_running",
        does: "`rounds` steps of a linear congruence on `v[i]`",
        params: &[InOut("v", U32), Value("rounds", U32)],
        host: Some(|i, a| a.set(0, i, spin(a.get::<u32>(0, i), a.value::<u32>(1)))),
        opencl_c: Some(
            "if (i < v_len) { uint x = v[v_at + i];
             for (uint n = 0; n < rounds; n++) x = x * 1664525u + 1013904223u;
             v[v_at + i] = x; }",
        ),
        wgsl: Some(
            "if (i < v_len) { var x = v[v_at + i];
             for (var n = 0u; n < rounds; n++) { x = x * 1664525u + 1013904223u; }
             v[v_at + i] = x; }",
        ),
    },
    Spec {
        name: "fails",
        does: "ends in an error while it runs, where the device can",
        params: &[InOut("v", U32)],
        host: Some(|_, _| panic!("this reference kernel fails")),
        opencl_c: None,
        wgsl: None,
    },
    Spec {
        name: "broken",
        does: "nothing: its text is refused by every compiler",
        params: &[InOut("v", U32)],
        host: None,
        opencl_c: Some("this is no OpenCL C;"),
        wgsl: Some("this is no WGSL;"),
    },
];
