//! Sub-groups, whose size is each device's own.

use windlass::NdRange;
use windlass::prelude::*;

use crate::everywhere::{read, where_there_is};

#[windlass::kernel]
fn together(x: &[i32], y: &[f32], size: &mut [u32], lane: &mut [u32], out: &mut [i32], sums: &mut [f32]) {
    let i = global_id(0);
    let v = x[i];
    size[i] = subgroup_size();
    lane[i] = subgroup_lane();
    let sum = subgroup_add(v);
    let least = subgroup_min(v);
    let most = subgroup_max(v);
    let before = subgroup_exclusive_add(v);
    let upto = subgroup_inclusive_add(v);
    let first = subgroup_first(v);
    let next = subgroup_shuffle(v, (subgroup_lane() + 1) % subgroup_size());
    let swapped = subgroup_shuffle_xor(v, 1);
    let above = subgroup_shuffle_down(v, 1);
    let below = subgroup_shuffle_up(v, 1);
    let all = subgroup_all(v > -1000);
    let any = subgroup_any(v == x[0]);
    let at = i * 12;
    out[at] = sum;
    out[at + 1] = least;
    out[at + 2] = most;
    out[at + 3] = before;
    out[at + 4] = upto;
    out[at + 5] = first;
    out[at + 6] = next;
    out[at + 7] = if all { 1 } else { 0 };
    out[at + 8] = if any { 1 } else { 0 };
    // Of an item that is not there any value comes.
    let lanes = subgroup_lane();
    let has_next = lanes + 1 < subgroup_size();
    out[at + 9] = if lanes % 2 == 1 || has_next { swapped } else { 0 };
    out[at + 10] = if has_next { above } else { 0 };
    out[at + 11] = if lanes > 0 { below } else { 0 };
    sums[i] = subgroup_add(y[i]) + subgroup_max(y[i]);
}

#[windlass::kernel]
fn numbered(
    x: &[u32],
    id: &mut [u32],
    count: &mut [u32],
    votes: &mut [Vec4<u32>],
    next: &mut [u32],
    #[local] seen: &mut [u32; 64],
) {
    let i = global_id(0);
    id[i] = subgroup_id();
    count[i] = subgroup_count();
    votes[i] = subgroup_ballot(x[i] % 3 == 0);
    let at = local_id(0) * local_size(1) + local_id(1);
    seen[at] = x[i];
    subgroup_barrier();
    let lane = subgroup_lane();
    // Its neighbour's, which is in the same sub-group, so no barrier of all is wanted.
    let neighbour = subgroup_shuffle(at, (lane + 1) % subgroup_size());
    next[i] = seen[neighbour] + lane * 1000;
}

/// Items of a sub-group vote, wait for each other, and know which of how many sub-groups theirs is.
#[test]
fn sub_groups_vote_and_wait() {
    let x: Vec<u32> = (0..ITEMS as u32).map(|i| (i * 37) % 101).collect();
    let has = |queue: &Queue| queue.device().info().has(Aspect::Subgroups);
    where_there_is("sub-groups", has, |queue| {
        let (from, votes) = (Buffer::from(x.clone()), Buffer::<Vec4<u32>>::new(ITEMS));
        let [id, count, next] = [(); 3].map(|()| Buffer::<u32>::new(ITEMS));
        let range = NdRange { global: [ITEMS], local: [GROUP] };
        queue.submit(|cg| {
            let (id, count) = (cg.overwrite(&id), cg.overwrite(&count));
            let (votes, next) = (cg.overwrite(&votes), cg.overwrite(&next));
            cg.parallel_for(range, numbered(cg.read(&from), id, count, votes, next))
        })?;
        let (id, count, votes, next) = (read(&id)?, read(&count)?, read(&votes)?, read(&next)?);
        let name = queue.device().to_string();
        for i in 0..ITEMS {
            let group = i / GROUP * GROUP;
            let mates: Vec<usize> = (group..group + GROUP).filter(|m| id[*m] == id[i]).collect();
            let lane = |m: usize| (next[m] / 1000) as usize;
            assert!(id[i] < count[i] && count[i] as usize <= GROUP, "item {i} on {name}");
            let vote = |m: &usize| u128::from(x[*m].is_multiple_of(3)) << lane(*m);
            let all: u128 = mates.iter().map(vote).sum();
            let words = [0, 32, 64, 96].map(|by| (all >> by) as u32);
            assert_eq!(votes[i], Vec4::new(words[0], words[1], words[2], words[3]), "item {i} on {name}");
            let neighbour = mates.iter().find(|m| lane(**m) == (lane(i) + 1) % mates.len());
            assert_eq!(Some(next[i] % 1000), neighbour.map(|m| x[*m]), "item {i} on {name}");
        }
        let all: std::collections::BTreeSet<u32> = id[..GROUP].iter().copied().collect();
        assert_eq!(all.len(), count[0] as usize, "on {name}");
        Ok(())
    });
}

const ITEMS: usize = 64;
const GROUP: usize = 32;

/// Which sub-group an item is in is found by what the first of each has: every value is there once.
#[test]
fn sub_groups_work_together() {
    let x: Vec<i32> = (0..ITEMS as i32).map(|i| (i * 37) % 101 - 50).collect();
    let y: Vec<f32> = x.iter().map(|v| *v as f32 * 0.5).collect();
    let mut largest = 0;
    let has = |queue: &Queue| queue.device().info().has(Aspect::Subgroups);
    where_there_is("sub-groups", has, |queue| {
        let buffers = (Buffer::from(x.clone()), Buffer::from(y.clone()));
        let (size, lane) = (Buffer::<u32>::new(ITEMS), Buffer::<u32>::new(ITEMS));
        let (out, sums) = (Buffer::<i32>::new(ITEMS * 12), Buffer::<f32>::new(ITEMS));
        let range = NdRange { global: [ITEMS], local: [GROUP] };
        queue.submit(|cg| {
            let (x, y) = (cg.read(&buffers.0), cg.read(&buffers.1));
            let (size, lane) = (cg.overwrite(&size), cg.overwrite(&lane));
            cg.parallel_for(range, together(x, y, size, lane, cg.overwrite(&out), cg.overwrite(&sums)))
        })?;
        let (size, lane, out, sums) = (read(&size)?, read(&lane)?, read(&out)?, read(&sums)?);
        largest = size.iter().copied().max().unwrap_or(0).max(largest);
        let name = queue.device().to_string();
        for i in 0..ITEMS {
            let group = i / GROUP * GROUP;
            let first = out[i * 12 + 5];
            let mates: Vec<usize> = (group..group + GROUP).filter(|m| out[m * 12 + 5] == first).collect();
            assert_eq!(mates.len(), size[i] as usize, "item {i} on {name}");
            let of = |l: u32| mates.iter().copied().find(|m| lane[*m] == l).expect("each lane is there");
            let at = |l: u32| mates.iter().find(|m| lane[**m] == l).map_or(0, |m| x[*m]);
            let values = || mates.iter().map(|m| x[*m]);
            let before: i32 = mates.iter().filter(|m| lane[**m] < lane[i]).map(|m| x[*m]).sum();
            let expected = [
                values().sum(),
                values().min().unwrap_or(0),
                values().max().unwrap_or(0),
                before,
                before + x[i],
                x[of(0)],
                x[of((lane[i] + 1) % size[i])],
                1,
                i32::from(mates.contains(&0)),
                at(lane[i] ^ 1),
                at(lane[i] + 1),
                at(lane[i].wrapping_sub(1)),
            ];
            assert_eq!(out[i * 12..][..12], expected, "item {i} on {name}");
            let floats = || mates.iter().map(|m| y[*m]);
            assert_eq!(
                sums[i],
                floats().sum::<f32>() + floats().fold(f32::MIN, f32::max),
                "item {i} on {name}"
            );
        }
        Ok(())
    });
    // In a sub-group of one item every operation is the identity.
    if largest < 2 {
        crate::find::missing("no device has sub-groups of several items");
    }
}
