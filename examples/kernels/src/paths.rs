//! How many handshakes lie between people: breadth-first search from one of them, a level at a time, in which whoever comes to
//! a person first puts them on the list of the next level.

use windlass::prelude::*;

use crate::Report;
use kernels::FAR;

const PEOPLE: usize = 20_000;
/// How many each person knows on either side in a ring.
const NEIGHBOURS: usize = 3;
/// One of so many neighbours is swapped for somebody far away.
const SWAPPED: u64 = 8;

#[windlass::kernels]
mod kernels {
    use windlass::prelude::*;

    /// The level of who has not been reached.
    pub const FAR: u32 = u32::MAX;

    /// Whether this item is the one that reaches somebody.
    fn is_first(levels: &[AtomicU32], person: u32, level: u32) -> bool {
        levels[person].compare_exchange(FAR, level, Relaxed, Relaxed).is_ok()
    }

    /// Goes from those in `front` to all whom they know: the friends of `i` are `friends[starts[i]..starts[i + 1]]`.
    #[kernel]
    pub fn spread(
        level: u32,
        starts: &[u32],
        friends: &[u32],
        front: &[u32],
        levels: &[AtomicU32],
        next: &mut [u32],
        count: &[AtomicU32],
    ) {
        let person = front[global_id(0)];
        for k in starts[person]..starts[person + 1] {
            if is_first(levels, friends[k], level) {
                next[count[0].fetch_add(1, Relaxed)] = friends[k];
            }
        }
    }
}

/// Who knows whom, both ways.
fn friends() -> Vec<Vec<u32>> {
    let mut state = 7_u64;
    let mut random = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        state >> 33
    };
    let mut friends = vec![Vec::new(); PEOPLE];
    for one in 0..PEOPLE {
        for step in 1..=NEIGHBOURS {
            let is_swapped = random() % SWAPPED == 0;
            let other = if is_swapped { random() as usize % PEOPLE } else { (one + step) % PEOPLE };
            friends[one].push(other as u32);
            friends[other].push(one as u32);
        }
    }
    friends
}

fn plain(friends: &[Vec<u32>]) -> Vec<u32> {
    let mut levels = vec![FAR; PEOPLE];
    levels[0] = 0;
    let mut queue = std::collections::VecDeque::from([0]);
    while let Some(person) = queue.pop_front() {
        for friend in &friends[person] {
            let friend = *friend as usize;
            if levels[friend] == FAR {
                levels[friend] = levels[person] + 1;
                queue.push_back(friend);
            }
        }
    }
    levels
}

pub(crate) fn run(queue: &Queue) -> windlass::Result<Report> {
    let lists = friends();
    let ends = lists.iter().scan(0, |end, list| {
        *end += list.len() as u32;
        Some(*end)
    });
    let starts = Buffer::from(std::iter::once(0).chain(ends).collect::<Vec<u32>>());
    let friends = Buffer::from(lists.concat());
    let levels = Buffer::from(vec![FAR; PEOPLE]);
    levels.host_write().blocking_wait()?[0] = 0;
    // The list starts with person 0 alone.
    let (mut front, mut next) = (Buffer::<u32>::new(PEOPLE), Buffer::<u32>::new(PEOPLE));
    let mut sizes = vec![1];
    loop {
        let (level, size) = (sizes.len() as u32, sizes[sizes.len() - 1] as usize);
        let count = Buffer::<u32>::new(1);
        queue.submit(|cg| {
            let (starts, friends, front) = (cg.read(&starts), cg.read(&friends), cg.read(&front));
            let (levels, count) = (cg.atomic(&levels), cg.atomic(&count));
            cg.parallel_for(
                size,
                kernels::spread(level, starts, friends, front, levels, cg.write(&next), count),
            )
        })?;
        match count.host_read().blocking_wait()?[0] {
            0 => break,
            size => sizes.push(size),
        }
        std::mem::swap(&mut front, &mut next);
    }
    let found = levels.host_read().blocking_wait()?.to_vec();
    let rows = sizes.iter().enumerate().map(|(level, size)| {
        let bar = "#".repeat(*size as usize * 60 / PEOPLE);
        [level.to_string(), size.to_string(), format!("{bar:60}")]
    });
    let expected = plain(&lists);
    let counted: Vec<u32> = (0..sizes.len() as u32)
        .map(|level| expected.iter().filter(|l| **l == level).count() as u32)
        .collect();
    Ok(Report::table(["level", "people", ""], rows)
        .same("levels", &found, &expected)
        .same("people", &sizes, &counted))
}
