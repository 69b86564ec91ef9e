//! What the items of a work-group make together: a library in the kernel language.

/// Functions for kernels, in which the items of a work-group work together: `#[kernels] use windlass::groups::*;`. Work-groups
/// may have any extents. All items must come to these, as to a barrier, and each is a statement, or all of what a `let` or an
/// assignment has on its right side.
///
/// | function | gives |
/// |---|---|
/// | `group_sum(x, room)`, `group_min(x, room)`, `group_max(x, room)` | what all items' values make together |
/// | `group_sum_upto(x, room)` | the sum of the values of the items up to this one |
/// | `group_sum_before(x, room)` | the same without its own |
/// | `group_broadcast(x, from, room)` | the value of item `from` |
/// | `group_all(b, room)`, `group_any(b, room)`, `group_count_true(b, room)` | whether it is true for all, for one, and for how many |
/// | `group_item()`, `group_items()` | the item's number in its group, in row-major order, and how many there are |
///
/// `x` is a number or a vector, or a struct with the operators that it takes; `room` is local memory with an element for each
/// item, of `x`'s type, and of `u32` where it is about truth. What it held is lost, and it may be used again at once.
///
/// ```
/// use windlass::NdRange;
///
/// #[windlass::kernels]
/// mod statistics {
///     #[kernels]
///     use windlass::groups::*;
///
///     /// How far each value is from its group's mean, and the sums up to each.
///     #[kernel]
///     pub fn centred(x: &[f32], out: &mut [f32], upto: &mut [f32], #[local] room: &mut [f32]) {
///         let i = global_id(0);
///         let sum = group_sum(x[i], room);
///         out[i] = x[i] - sum / group_items() as f32;
///         upto[i] = group_sum_upto(x[i], room);
///     }
/// }
///
/// let (mut out, mut upto) = ([0.0; 4], [0.0; 4]);
/// let range = NdRange { global: [4], local: [2] };
/// statistics::centred(&[1.0, 3.0, 10.0, 30.0][..], &mut out[..], &mut upto[..], 2).run_here(range).unwrap();
/// assert_eq!((out, upto), ([-1.0, 1.0, -10.0, 10.0], [1.0, 4.0, 10.0, 40.0]));
/// ```
#[crate::kernels(crate = crate)]
pub mod groups {
    pub fn group_item() -> u32 {
        (local_id(0) * local_size(1) + local_id(1)) * local_size(2) + local_id(2)
    }

    pub fn group_items() -> u32 {
        local_size(0) * local_size(1) * local_size(2)
    }

    pub fn group_sum<T>(x: T, room: &mut [T]) -> T {
        let l = group_item();
        room[l] = x;
        barrier();
        // Halves, of which the first one is the larger: the element between them waits for the next turn.
        let mut left = group_items();
        while left > 1 {
            let half = (left + 1) / 2;
            if l + half < left {
                room[l] = room[l] + room[l + half];
            }
            barrier();
            left = half;
        }
        let all = room[0];
        barrier();
        all
    }

    pub fn group_min<T>(x: T, room: &mut [T]) -> T {
        let l = group_item();
        room[l] = x;
        barrier();
        let mut left = group_items();
        while left > 1 {
            let half = (left + 1) / 2;
            if l + half < left {
                room[l] = room[l].min(room[l + half]);
            }
            barrier();
            left = half;
        }
        let all = room[0];
        barrier();
        all
    }

    pub fn group_max<T>(x: T, room: &mut [T]) -> T {
        let l = group_item();
        room[l] = x;
        barrier();
        let mut left = group_items();
        while left > 1 {
            let half = (left + 1) / 2;
            if l + half < left {
                room[l] = room[l].max(room[l + half]);
            }
            barrier();
            left = half;
        }
        let all = room[0];
        barrier();
        all
    }

    pub fn group_sum_upto<T>(x: T, room: &mut [T]) -> T {
        let l = group_item();
        room[l] = x;
        barrier();
        let mut step = 1;
        while step < group_items() {
            let mut sum = room[l];
            if l >= step {
                sum = room[l - step] + sum;
            }
            barrier();
            room[l] = sum;
            barrier();
            step *= 2;
        }
        let upto = room[l];
        barrier();
        upto
    }

    pub fn group_sum_before<T>(x: T, room: &mut [T]) -> T {
        let l = group_item();
        let upto = group_sum_upto(x, room);
        room[l] = upto;
        barrier();
        // Before the first item there is what is read outside, which is zero.
        let before = room[l - 1];
        barrier();
        before
    }

    pub fn group_broadcast<T>(x: T, from: u32, room: &mut [T]) -> T {
        room[group_item()] = x;
        barrier();
        let value = room[from];
        barrier();
        value
    }

    pub fn group_count_true(b: bool, room: &mut [u32]) -> u32 {
        let count = group_sum(b as u32, room);
        count
    }

    pub fn group_all(b: bool, room: &mut [u32]) -> bool {
        let count = group_sum(b as u32, room);
        count == group_items()
    }

    pub fn group_any(b: bool, room: &mut [u32]) -> bool {
        let count = group_sum(b as u32, room);
        count > 0
    }
}
