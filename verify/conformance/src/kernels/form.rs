//! The three forms of a reference kernel that this crate makes.

use std::fmt::Write as _;
use std::sync::Arc;

use windlass::DeviceCopy;
use windlass::image::{AtomicView, Block, HostBody, KernelImage, Span, View, ViewMut};

use super::{Elem, Param, Spec};

/// Work-items of one work-group in WGSL.
const GROUP: u32 = 64;

pub(super) fn images(spec: &Spec) -> Vec<KernelImage> {
    let mut images = Vec::new();
    if let Some(body) = spec.host {
        images.push(KernelImage::host(Arc::new(Host(body))));
    }
    if let Some(body) = spec.opencl_c {
        // SAFETY: every reference kernel compares each index with its buffer's length before it uses it, and writes
        // only through parameters that are `InOut` or `Atomic`, whose slots say so.
        images.push(unsafe { KernelImage::opencl_c(spec.name, &opencl_c(spec, body)) });
    }
    if let Some(body) = spec.wgsl {
        images.push(KernelImage::wgsl(spec.name, &wgsl(spec, body)));
    }
    images
}

struct Host(fn(usize, &HostArgs<'_>));

impl HostBody for Host {
    fn run(&self, block: Block<'_>) {
        let args = HostArgs { spans: block.spans() };
        block.items().for_each(|i| (self.0)(i, &args));
    }
}

/// A reference kernel's arguments on the host, by position.
#[derive(Debug)]
pub struct HostArgs<'a> {
    spans: &'a [Span<'a>],
}

impl HostArgs<'_> {
    /// How many elements the argument has.
    pub fn len(&self, position: usize) -> usize {
        self.spans[position].len()
    }

    /// Whether the argument has no elements.
    pub fn is_empty(&self, position: usize) -> bool {
        self.len(position) == 0
    }

    /// Element `at`; zero outside.
    pub fn get<T: DeviceCopy>(&self, position: usize, at: usize) -> T {
        View::<T>::new(self.spans[position]).get(at)
    }

    /// Writes element `at`; outside, nothing happens.
    pub fn set<T: DeviceCopy>(&self, position: usize, at: usize, value: T) {
        ViewMut::<T>::new(self.spans[position]).set(at, value)
    }

    /// Adds to element `at` atomically.
    pub fn add(&self, position: usize, at: usize, value: u32) {
        AtomicView::<u32>::new(self.spans[position]).fetch_add(at, value);
    }

    /// A plain value.
    pub fn value<T: DeviceCopy>(&self, position: usize) -> T {
        self.get(position, 0)
    }
}

fn opencl_c(spec: &Spec, body: &str) -> String {
    let name = |elem: &Elem| match elem {
        Elem::U32 => "uint",
        Elem::F32 => "float",
    };
    let params = spec.params.iter().map(|param| match param {
        Param::In(v, elem) => format!("__global const {} *{v}, ulong {v}_at, ulong {v}_len", name(elem)),
        Param::InOut(v, elem) => format!("__global {} *{v}, ulong {v}_at, ulong {v}_len", name(elem)),
        Param::Atomic(v) => format!("volatile __global uint *{v}, ulong {v}_at, ulong {v}_len"),
        Param::Value(v, elem) => format!("{} {v}", name(elem)),
    });
    let params: Vec<String> = params.collect();
    format!(
        "#pragma OPENCL FP_CONTRACT OFF
__kernel void {}({}) {{
    ulong i = get_global_id(0) + get_global_size(0) * (get_global_id(1) + get_global_size(1) * get_global_id(2));
    {body}
}}
",
        spec.name,
        params.join(", ")
    )
}

fn wgsl(spec: &Spec, body: &str) -> String {
    let (mut bindings, mut fields, mut values, mut names) =
        (String::new(), String::new(), String::new(), String::new());
    let mut count = 0;
    let name = |elem: &Elem| match elem {
        Elem::U32 => "u32",
        Elem::F32 => "f32",
    };
    for param in spec.params {
        let (v, access, elements) = match param {
            Param::In(v, elem) => (v, "read", name(elem)),
            Param::InOut(v, elem) => (v, "read_write", name(elem)),
            Param::Atomic(v) => (v, "read_write", "atomic<u32>"),
            Param::Value(v, elem) => {
                let _ = write!(values, " {v}: {},", name(elem));
                let _ = writeln!(names, "    let {v} = launch.{v};");
                continue;
            }
        };
        let _ =
            writeln!(bindings, "@group(0) @binding({count}) var<storage, {access}> {v}: array<{elements}>;");
        let _ = write!(fields, " {v}_at: u32, {v}_len: u32,");
        let _ = writeln!(names, "    let {v}_at = launch.{v}_at; let {v}_len = launch.{v}_len;");
        count += 1;
    }
    format!(
        "struct Launch {{{fields} extent_0: u32, extent_1: u32, extent_2: u32,{values} }}
{bindings}@group(0) @binding({count}) var<uniform> launch: Launch;
@compute @workgroup_size({GROUP})
fn {entry}(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_id) local: vec3<u32>) {{
    let i = (group.y * groups.x + group.x) * {GROUP}u + local.x;
    if (i >= launch.extent_0 * launch.extent_1 * launch.extent_2) {{ return; }}
{names}    {body}
}}
",
        entry = spec.name
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::specs;

    #[test]
    fn every_kernel_has_its_forms() {
        for spec in specs() {
            let forms = [spec.host.is_some(), spec.opencl_c.is_some(), spec.wgsl.is_some()];
            let forms = forms.into_iter().filter(|form| *form).count();
            assert!(forms > 0);
            assert_eq!(images(spec).len(), forms, "{}", spec.name);
        }
        let scale = specs().iter().find(|s| s.name == "scale").expect("it is listed");
        let text = wgsl(scale, scale.wgsl.expect("it has one"));
        assert!(
            text.contains("{ v_at: u32, v_len: u32, extent_0: u32, extent_1: u32, extent_2: u32, k: f32, }"),
            "{text}"
        );
        let text = opencl_c(scale, scale.opencl_c.expect("it has one"));
        assert!(text.contains("scale(float k, __global float *v, ulong v_at, ulong v_len)"), "{text}");
    }
}
