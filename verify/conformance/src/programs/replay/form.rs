//! Buffers that are images, or have three dimensions, and commands that use them as what they are. All else takes them for grids.

use std::cell::Cell;
use std::ops::Range;

use windlass::texel::R32Uint;
use windlass::{Buffer, CommandGroup, Error, Image, KernelCall};

use super::Actor;
use crate::kernels::by_texel::{churn_texels, load_texels, store_texels};
use crate::programs::{Op, Window};

/// What a buffer is.
#[derive(Debug)]
pub(super) enum Form {
    Grid,
    Image(Image<R32Uint, 2>),
    /// Planes of so many rows.
    Space(Buffer<u32, 3>, usize),
}

/// How many commands have used a buffer as what it is.
#[derive(Debug, Default)]
pub(super) struct Count {
    pub(super) by_texel: Cell<u64>,
    pub(super) in_space: Cell<u64>,
}

impl Form {
    /// The rows of a grid, by twos where that comes out even.
    pub(super) fn space([rows, columns]: [usize; 2]) -> Self {
        let of_plane = if rows % 2 == 0 { 2 } else { rows };
        Form::Space(Buffer::new([rows / of_plane, of_plane, columns]), of_plane)
    }
}

fn count(of: &Cell<u64>) {
    of.set(of.get() + 1);
}

/// The planes, rows and columns of a window, if these are a box of such planes.
fn of_planes(window: &Window, of_plane: usize) -> Option<[Range<usize>; 3]> {
    let Window { lo: [y, x], size: [rows, columns], .. } = *window;
    let (plane, row) = (y / of_plane, y % of_plane);
    let (planes, rows) = match (row, rows) {
        _ if row + rows <= of_plane => (1, row..row + rows),
        (0, _) if rows % of_plane == 0 => (rows / of_plane, 0..of_plane),
        _ => return None,
    };
    Some([plane..plane + planes, rows, x..x + columns])
}

impl Actor<'_> {
    /// A command that uses one of its buffers as what that is; `None` where it takes grids.
    pub(super) fn command_by_form(&self, cg: &CommandGroup<'_>, op: &Op) -> Option<Result<(), Error>> {
        Some(match op {
            Op::Churn(w, k) => match (self.image(w), self.space(w)) {
                (Some(image), _) => cg.parallel_for(w.size, churn_texels(cg.read_write(image), *k)),
                (_, Some(v)) => {
                    let call = KernelCall::new(self.world.kernels.get("churn")).buffer(cg.read_write(&v));
                    cg.parallel_for(w.len(), call.value(*k))
                }
                _ => return None,
            },
            Op::Copy(from, to) => match (self.image(from), self.image(to)) {
                (Some(image), _) => {
                    cg.parallel_for(from.size, load_texels(cg.read(image), cg.overwrite(&self.part(to))))
                }
                (_, Some(image)) => {
                    cg.parallel_for(to.size, store_texels(cg.read(&self.part(from)), cg.overwrite(image)))
                }
                _ => return None,
            },
            // One side has to be in a row: ranks differ.
            Op::Move(from, to) if self.is_in_a_row(from) || self.is_in_a_row(to) => {
                match (self.space(from), self.space(to)) {
                    (Some(from), Some(to)) => cg.copy(&cg.read(&from), &cg.overwrite(&to)),
                    (Some(from), _) => cg.copy(&cg.read(&from), &cg.overwrite(&self.part(to))),
                    (_, Some(to)) => cg.copy(&cg.read(&self.part(from)), &cg.overwrite(&to)),
                    _ => return None,
                }
            }
            Op::Fill(w, value) => cg.fill(&cg.overwrite(&self.space(w)?), *value),
            Op::Touch(w) => {
                cg.read(&self.space(w)?);
                Ok(())
            }
            _ => return None,
        })
    }

    /// The image that a window is all of.
    fn image(&self, window: &Window) -> Option<&Image<R32Uint, 2>> {
        match &self.forms[window.buffer] {
            Form::Image(image) if image.shape() == window.size && window.len() > 0 => {
                count(&self.counted.by_texel);
                Some(image)
            }
            _ => None,
        }
    }

    /// A window as a box of three dimensions.
    fn space(&self, window: &Window) -> Option<Buffer<u32, 3>> {
        let Form::Space(space, of_plane) = &self.forms[window.buffer] else { return None };
        let [planes, rows, columns] = of_planes(window, *of_plane)?;
        count(&self.counted.in_space);
        Some(space.range((planes, rows, columns)))
    }

    fn is_in_a_row(&self, window: &Window) -> bool {
        let [_, columns] = self.buffers[window.buffer].shape();
        window.size[0] <= 1 || window.size[1] == columns
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_are_boxes_within_a_plane_or_of_whole_planes() {
        let rows = |y, rows| of_planes(&Window { buffer: 0, lo: [y, 3], size: [rows, 4] }, 2);
        assert_eq!(rows(1, 1), Some([0..1, 1..2, 3..7]));
        assert_eq!(rows(2, 4), Some([1..3, 0..2, 3..7]));
        assert_eq!((rows(1, 2), rows(0, 3)), (None, None));
    }
}
