//! Kernels without their guards, to see what these cost.

use std::collections::HashMap;

use windlass::KernelCall;
use windlass::image::{ImageFormat, Kernel, KernelImage};

/// Kernels whose comparisons of indices with lengths of buffers are left out.
#[derive(Default)]
pub(super) struct Bare {
    pub(super) is_wanted: bool,
    made: HashMap<String, Kernel>,
}

impl Bare {
    /// A call as it is, or, where that is wanted, of the kernel without guards.
    pub(super) fn form<'g>(&mut self, call: KernelCall<'g>) -> KernelCall<'g> {
        if !self.is_wanted {
            return call;
        }
        let of = call.kernel();
        let text = of.image_for(&[ImageFormat::Wgsl], "").expect("an attribute's kernel has one");
        let made = self.made.entry(text.source().into()).or_insert_with(|| {
            // SAFETY: these benches' kernels reach nothing outside, and their loops end.
            let bare = unsafe { KernelImage::guarded_wgsl(text.entry(), &without(text.source())).ending() };
            of.in_forms([bare])
        });
        call.of(made)
    }
}

/// A text whose comparisons with lengths and extents of buffers are always true, so that no compiler makes them; but those that end
/// loops. Comparisons that the kernel's author wrote are among them where they name an index as it is.
fn without(text: &str) -> String {
    let ends_a_loop = |line: &str| ["break", "for (", "while "].iter().any(|word| line.contains(word));
    text.lines().map(|line| if ends_a_loop(line) { line.into() } else { bare(line) } + "\n").collect()
}

fn bare(line: &str) -> String {
    const MOST: &str = "4294967295u";
    let (mut made, mut rest) = (String::new(), line);
    while let Some(at) = rest.find("block.") {
        let (before, name) = rest.split_at(at);
        let part_of_name = |c: char| c == '_' || c.is_ascii_alphanumeric();
        let end = name[6..].find(|c| !part_of_name(c)).map_or(name.len(), |end| end + 6);
        let (name, behind) = name.split_at(end);
        let is_extent = name.rsplit_once('_').is_some_and(|(start, _)| start.ends_with("_extent"));
        let is_length = is_extent || name.ends_with("_len");
        match before.strip_suffix("< ") {
            // A sum on the left is the author's own, who keeps away from an edge by it.
            Some(before) if is_length && !before.ends_with(") ") => made.extend([before, "<= ", MOST]),
            _ if is_length && behind.starts_with(" - ") => made.extend([before, MOST]),
            _ => made.extend([before, name]),
        }
        rest = behind;
    }
    made + rest
}

#[cfg(test)]
mod tests {
    #[test]
    fn comparisons_with_lengths_are_left_out() {
        let text = "if i < block.x_len { return x[block.x_at + i * block.v_extent_1]; }\n\
                    (0u < block.v_extent_1) & (n <= block.x_len - (k))\n\
                    if (i + 1u) < block.v_extent_0 {\n\
                    if !(i < block.x_len) { break; }\n";
        let bare = "if i <= 4294967295u { return x[block.x_at + i * block.v_extent_1]; }\n\
                    (0u <= 4294967295u) & (n <= 4294967295u - (k))\n\
                    if (i + 1u) < block.v_extent_0 {\n\
                    if !(i < block.x_len) { break; }\n";
        assert_eq!(super::without(text), bare);
    }
}
