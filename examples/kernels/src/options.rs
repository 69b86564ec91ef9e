//! What European options are worth: by the formula of Black and Scholes, and by the mean of many random futures.

use windlass::NdRange;
use windlass::prelude::*;

use crate::Report;
use kernels::Deal;

/// Work-items that share in one option, and how many pairs of futures each tries.
const GROUP: usize = 128;
const PAIRS: u32 = 64;
const SEED: u32 = 2026;

#[windlass::kernels]
mod kernels {
    #[kernels]
    use kernel_library::random::*;
    #[kernels]
    use windlass::groups::*;
    use windlass::prelude::*;

    pub const CALL: u32 = 0;
    pub const PUT: u32 = 1;

    /// The right to buy something (a call) or to sell it (a put) for a price at the end of a time.
    #[derive(Clone, Copy, Debug, DeviceCopy)]
    #[repr(C)]
    pub(super) struct Deal {
        /// [`CALL`] or [`PUT`].
        pub kind: u32,
        /// What the thing costs now.
        pub spot: f32,
        /// The price that was agreed on.
        pub strike: f32,
        /// What money earns in a year.
        pub rate: f32,
        /// How much the price swings in a year.
        pub swing: f32,
        /// How long it takes.
        pub years: f32,
    }

    /// How likely a number of the normal distribution is below `x`: Abramowitz and Stegun, 7.1.26.
    fn normal(x: f32) -> f32 {
        const TERMS: [f32; 5] = [0.254_829_6, -0.284_496_74, 1.421_413_7, -1.453_152, 1.061_405_4];
        let z = x.abs() / std::f32::consts::SQRT_2;
        let t = 1.0 / (1.0 + 0.327_591_1 * z);
        let mut series = 0.0;
        for k in (0..TERMS.len()).rev() {
            series = (series + TERMS[k]) * t;
        }
        let outside = 0.5 * series * (-z * z).exp();
        if x < 0.0 { outside } else { 1.0 - outside }
    }

    impl Stream {
        /// A number of the normal distribution, by Box and Muller.
        fn normal(&mut self) -> f32 {
            // The logarithm is not asked for that of zero.
            let radius = (-2.0 * (1.0 - self.unit()).ln()).sqrt();
            radius * (std::f32::consts::TAU * self.unit()).cos()
        }
    }

    impl Deal {
        fn discount(&self) -> f32 {
            (-self.rate * self.years).exp()
        }

        fn spread(&self) -> f32 {
            self.swing * self.years.sqrt()
        }

        /// What the right is worth in the end, when the thing costs so much.
        fn payoff(&self, price: f32) -> f32 {
            match self.kind {
                PUT => (self.strike - price).max(0.0),
                _ => (price - self.strike).max(0.0),
            }
        }

        fn formula(&self) -> f32 {
            let drift = (self.rate + 0.5 * self.swing.powi(2)) * self.years;
            let d1 = ((self.spot / self.strike).ln() + drift) / self.spread();
            let d2 = d1 - self.spread();
            let later = self.strike * self.discount();
            match self.kind {
                PUT => later * normal(-d2) - self.spot * normal(-d1),
                _ => self.spot * normal(d1) - later * normal(d2),
            }
        }

        /// What the thing costs in the end, in the future that a number of the normal distribution stands for.
        fn future(&self, chance: f32) -> f32 {
            let drift = (self.rate - 0.5 * self.swing * self.swing) * self.years;
            self.spot * (drift + self.spread() * chance).exp()
        }
    }

    #[kernel]
    pub fn by_formula(deals: &[Deal], prices: &mut [f32]) {
        prices[global_id(0)] = deals[global_id(0)].formula();
    }

    /// One work-group for each option.
    #[kernel]
    pub fn by_chance(seed: u32, pairs: u32, deals: &[Deal], prices: &mut [f32], #[local] room: &mut [f32]) {
        let deal = deals[group_id(0)];
        let mut stream = Stream::new(seed ^ global_id(0));
        let mut total = 0.0;
        for _ in 0..pairs {
            // A future and its mirror image: what one is too high the other is too low.
            let chance = stream.normal();
            total += deal.payoff(deal.future(chance)) + deal.payoff(deal.future(-chance));
        }
        let all = group_sum(total, room);
        if local_id(0) == 0 {
            let futures = 2 * pairs * local_size(0);
            prices[group_id(0)] = deal.discount() * all / futures as f32;
        }
    }
}

/// Calls and puts around a price of 100.
fn deals() -> Vec<Deal> {
    let deal = |k: u32| Deal {
        kind: if k.is_multiple_of(2) { kernels::CALL } else { kernels::PUT },
        spot: 100.0,
        strike: 80.0 + 10.0 * (k / 2) as f32,
        rate: 0.03,
        swing: 0.15 + 0.05 * (k % 3) as f32,
        years: 0.5 + 0.25 * (k % 4) as f32,
    };
    (0..10).map(deal).collect()
}

/// The formula in double precision, with the normal distribution by an integral.
fn plain(deal: &Deal) -> f32 {
    let [spot, strike, rate, swing, years] =
        [deal.spot, deal.strike, deal.rate, deal.swing, deal.years].map(f64::from);
    let normal = |x: f64| {
        let width = x / 2000.0;
        let bell = |k: i32| (-0.5 * (width * (f64::from(k) + 0.5)).powi(2)).exp();
        0.5 + width * (0..2000).map(bell).sum::<f64>() / std::f64::consts::TAU.sqrt()
    };
    let spread = swing * years.sqrt();
    let d1 = ((spot / strike).ln() + (rate + 0.5 * swing * swing) * years) / spread;
    let later = strike * (-rate * years).exp();
    let call = spot * normal(d1) - later * normal(d1 - spread);
    // Who has a call and owes a put owns the thing and owes the price.
    (if deal.kind == kernels::PUT { call - spot + later } else { call }) as f32
}

pub(crate) fn run(queue: &Queue) -> windlass::Result<Report> {
    let plain: Vec<f32> = deals().iter().map(plain).collect();
    let deals = Buffer::from(deals());
    let (formula, chance) = (Buffer::<f32>::new(deals.len()), Buffer::<f32>::new(deals.len()));
    queue.submit(|cg| {
        cg.parallel_for(deals.len(), kernels::by_formula(cg.read(&deals), cg.overwrite(&formula)))
    })?;
    queue.submit(|cg| {
        let (read, write) = (cg.read(&deals), cg.overwrite(&chance));
        let range = NdRange { global: [deals.len() * GROUP], local: [GROUP] };
        cg.parallel_for(range, kernels::by_chance(SEED, PAIRS, read, write, GROUP))
    })?;
    let (formula, chance) = (formula.host_read().blocking_wait()?, chance.host_read().blocking_wait()?);
    let deals = deals.host_read().blocking_wait()?;
    let rows = deals.iter().zip(formula.iter().zip(chance.iter())).map(|(deal, (formula, chance))| {
        let kind = if deal.kind == kernels::PUT { "put" } else { "call" };
        let [strike, years] = [deal.strike, deal.years].map(|x| x.to_string());
        [kind.into(), strike, years, format!("{formula:.3}"), format!("{chance:.3}")]
    });
    Ok(Report::table(["kind", "strike", "years", "formula", "chance"], rows)
        .near("formula", &formula, &plain, 1e-4)
        // Of some thousand futures the mean is that far off, by chance.
        .near("chance", &chance, &plain, 0.05))
}
