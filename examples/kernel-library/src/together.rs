//! What the items of a work-group do together, in local memory of as many elements as the group has items.

/// For groups of a power of two of items along dimension 0.
#[windlass::kernels]
pub mod groups {
    /// The sum of all items' values.
    pub fn sum<T>(room: &mut [T], value: T) -> T {
        let l = local_id(0);
        room[l] = value;
        barrier();
        let mut half = local_size(0) / 2;
        while half > 0 {
            if l < half {
                room[l] = room[l] + room[l + half];
            }
            barrier();
            half /= 2;
        }
        let all = room[0];
        barrier();
        all
    }

    /// The sum of the values of all items before this one.
    pub fn sum_before<T>(room: &mut [T], value: T) -> T {
        let l = local_id(0);
        room[l] = value;
        barrier();
        let mut step = 1;
        while step < local_size(0) {
            // Of items that have none before them by so many, reading outside gives zero.
            let before = if l >= step { room[l - step] } else { room[local_size(0)] };
            barrier();
            room[l] = room[l] + before;
            barrier();
            step *= 2;
        }
        let all = room[l] - value;
        barrier();
        all
    }
}
