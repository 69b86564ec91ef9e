//! The shell's oracle: random programs, compared with what they mean.

use windlass_faulty::programs::{self, Failure, Tally};

/// `WINDLASS_ORACLE` says how many; `WINDLASS_ORACLE_FROM` says where to begin.
fn all(part: u64, run: impl Fn(u64) -> Result<Tally, Failure>) -> Tally {
    let number = |name: &str| std::env::var(name).ok().map(|n| n.parse::<u64>().expect("a number"));
    let count = number("WINDLASS_ORACLE").unwrap_or(if cfg!(debug_assertions) { 4_000 } else { 100_000 });
    let count = (count / part).max(1);
    let from = number("WINDLASS_ORACLE_FROM").unwrap_or(0);
    let mut all = Tally::default();
    for seed in from..from + count {
        all += run(seed).unwrap_or_else(|failure| panic!("{failure}"));
    }
    println!("{all:?}");
    assert_eq!(all.programs, count);
    all
}

#[test]
fn random_programs_do_what_they_mean() {
    let all = all(1, programs::run);
    assert!(all.well > 0 && all.failed > 0 && all.cancelled > 0 && all.staged > 0 && all.exact > 0);
}

/// A fifth as many. Whatever is under way when a device is lost ends, what is elsewhere survives, and the device is as good as new once it is opened again.
#[test]
fn random_programs_lose_devices_and_open_them_again() {
    let all = all(5, programs::run_with_losses);
    assert!(all.well > 0 && all.failed > 0 && all.cancelled > 0, "{all:?}");
    assert!(all.lost > 0 && all.again > 0 && all.gone > 0, "{all:?}");
}
