//! Which pages of a small web matter most: PageRank, over the links that come to each page.

use windlass::prelude::*;

use crate::Report;

const PAGES: usize = 2000;
const DAMPING: f32 = 0.85;
/// When all pages together change by less, it is over.
const STILL: f32 = 1e-5;
const MOST_ROUNDS: usize = 200;

#[windlass::kernels]
mod kernels {
    /// What each page passes on by each of its links, and what those without links have, which goes to everyone.
    #[kernel]
    pub fn share(ranks: &[f32], links: &[u32], shares: &mut [f32], #[reduce(sum)] lost: &mut f32) {
        let i = global_id(0);
        if links[i] > 0 {
            shares[i] = ranks[i] / links[i] as f32;
        } else {
            shares[i] = 0.0;
            *lost += ranks[i];
        }
    }

    /// The pages that link to page `i` are `from[starts[i]..starts[i + 1]]`.
    #[kernel]
    pub fn gather(
        damping: f32,
        starts: &[u32],
        from: &[u32],
        shares: &[f32],
        lost: &[f32],
        ranks: &mut [f32],
        #[reduce(sum)] change: &mut f32,
    ) {
        let i = global_id(0);
        let mut sum = lost[0] / ranks.len() as f32;
        for k in starts[i]..starts[i + 1] {
            sum += shares[from[k]];
        }
        let rank = (1.0 - damping) / ranks.len() as f32 + damping * sum;
        *change += (rank - ranks[i]).abs();
        ranks[i] = rank;
    }
}

/// A web: who links to each page, row after row, and how many links each page has.
struct Web {
    starts: Vec<u32>,
    from: Vec<u32>,
    links: Vec<u32>,
}

impl Web {
    /// Pages link to older ones, and to those most that many link to already.
    fn new() -> Self {
        let mut state = 1_u64;
        let mut random = |below: usize| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) as usize % below
        };
        let mut to_page: Vec<Vec<u32>> = vec![Vec::new(); PAGES];
        // Every tenth page has no links at all.
        let links: Vec<u32> = (0..PAGES as u32).map(|page| page % 10).collect();
        let mut ends = vec![0];
        for (page, count) in links.iter().enumerate().skip(1) {
            for _ in 0..*count {
                let target = match random(4) {
                    0 => random(page),
                    _ => ends[random(ends.len())],
                };
                to_page[target].push(page as u32);
                ends.push(target);
            }
        }
        let mut starts = vec![0];
        for from in &to_page {
            starts.push(starts[starts.len() - 1] + from.len() as u32);
        }
        Web { starts, from: to_page.concat(), links }
    }

    fn plain(&self, rounds: usize) -> Vec<f32> {
        let mut ranks = vec![1.0 / PAGES as f32; PAGES];
        for _ in 0..rounds {
            let lost: f32 = (0..PAGES).filter(|i| self.links[*i] == 0).map(|i| ranks[i]).sum();
            let rank = |i: usize| {
                let from = &self.from[self.starts[i] as usize..self.starts[i + 1] as usize];
                let sum: f32 = from.iter().map(|k| ranks[*k as usize] / self.links[*k as usize] as f32).sum();
                (1.0 - DAMPING) / PAGES as f32 + DAMPING * (lost / PAGES as f32 + sum)
            };
            ranks = (0..PAGES).map(rank).collect();
        }
        ranks
    }
}

pub(crate) fn run(queue: &Queue) -> windlass::Result<Report> {
    let web = Web::new();
    let [starts, from, links] = [&web.starts, &web.from, &web.links].map(|x| Buffer::from_slice(x));
    let ranks = Buffer::from(vec![1.0 / PAGES as f32; PAGES]);
    let shares = Buffer::<f32>::new(PAGES);
    let mut rounds = 0;
    loop {
        // A reduction adds to what is there, so each round starts with new ones.
        let (lost, change) = (Buffer::<f32>::new(1), Buffer::<f32>::new(1));
        queue.submit(|cg| {
            let (shares, lost) = (cg.overwrite(&shares), cg.read_write(&lost));
            cg.parallel_for(PAGES, kernels::share(cg.read(&ranks), cg.read(&links), shares, lost))
        })?;
        queue.submit(|cg| {
            let (starts, from) = (cg.read(&starts), cg.read(&from));
            let (shares, lost) = (cg.read(&shares), cg.read(&lost));
            let (ranks, change) = (cg.read_write(&ranks), cg.read_write(&change));
            cg.parallel_for(PAGES, kernels::gather(DAMPING, starts, from, shares, lost, ranks, change))
        })?;
        rounds += 1;
        if change.host_read().blocking_wait()?[0] < STILL || rounds == MOST_ROUNDS {
            break;
        }
    }
    let found = ranks.host_read().blocking_wait()?.to_vec();
    let mut best: Vec<usize> = (0..PAGES).collect();
    best.sort_by(|a, b| found[*b].total_cmp(&found[*a]));
    let rows = best.iter().take(8).map(|page| {
        let linked = web.starts[page + 1] - web.starts[*page];
        [page.to_string(), linked.to_string(), format!("{:.3} %", 100.0 * found[*page])]
    });
    let mut report = Report::table(["page", "linked by", "rank"], rows);
    if rounds == MOST_ROUNDS {
        report.wrong.push(format!("ranks still change after {rounds} rounds"));
    }
    Ok(report.near("ranks", &found, &web.plain(rounds), 1e-5))
}
